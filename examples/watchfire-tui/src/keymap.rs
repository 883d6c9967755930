//! Every action with its name and its key, and the keys that a person has chosen instead.

use std::collections::BTreeMap;
use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The places where the key of an action counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Everywhere, in the agent's terminal too.
    Everywhere,
    /// In the agent's terminal.
    Terminal,
    /// In the left panel.
    Left,
    /// In the list of tasks.
    Tasks,
}

/// A key as the rest of the program knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pressed {
    /// This one.
    Known(KeyEvent),
    /// One that counted everywhere, or in the terminal, before the person chose another one.
    GivenAway(KeyEvent),
    /// One that does nothing.
    Nothing,
}

/// Keys of the left panel that move, and cannot be chosen for something else; others are the same to a terminal.
const TAKEN: [&str; 19] = [
    "j", "k", "h", "l", "g", "G", "1", "?", "up", "down", "left", "right", "home", "end", "enter", "esc",
    "ctrl+m", "ctrl+i", "ctrl+j",
];

/// An action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Action {
    /// Its name in `settings.yaml`.
    pub name: &'static str,
    /// Its key, unless the person has chosen another one.
    pub key: &'static str,
    /// The places where the key counts.
    pub scope: Scope,
    /// Its effect, in words.
    pub does: &'static str,
}

const fn action(scope: Scope, name: &'static str, key: &'static str, does: &'static str) -> Action {
    Action { name, key, scope, does }
}

/// Every action.
pub const ACTIONS: &[Action] = &[
    action(Scope::Everywhere, "quit", "ctrl+q", "quit; agents go on"),
    action(Scope::Everywhere, "help", "ctrl+h", "all keys"),
    action(Scope::Everywhere, "panel", "tab", "the other panel"),
    action(Scope::Terminal, "zoom", "alt+z", "the agent's terminal on the whole screen"),
    action(Scope::Terminal, "find", "alt+/", "find in what has scrolled away"),
    action(Scope::Terminal, "next-terminal", "alt+n", "the next agent"),
    action(Scope::Terminal, "previous-terminal", "alt+p", "the agent before"),
    action(Scope::Tasks, "add", "a", "add a task"),
    action(Scope::Tasks, "edit", "e", "edit the task"),
    action(Scope::Tasks, "info", "i", "show all about the task"),
    action(Scope::Tasks, "start", "s", "start the task"),
    action(Scope::Tasks, "start-all", "S", "start all ready tasks"),
    action(Scope::Tasks, "wildfire", "W", "start wildfire"),
    action(Scope::Tasks, "chat", "c", "start a chat"),
    action(Scope::Tasks, "resume-chat", "C", "go on with the last chat"),
    action(Scope::Tasks, "stop", "X", "stop all agents"),
    action(Scope::Tasks, "answer", "A", "answer what is asked"),
    action(Scope::Tasks, "resume", "R", "resume after a limit or a login"),
    action(Scope::Tasks, "ready", "r", "make the task ready"),
    action(Scope::Tasks, "draft", "t", "make the task a draft"),
    action(Scope::Tasks, "done", "d", "mark the task as done"),
    action(Scope::Tasks, "delete", "x", "delete the task"),
    action(Scope::Tasks, "mark", "space", "mark the task, for keys about several"),
    action(Scope::Tasks, "down", "J", "move the task down"),
    action(Scope::Tasks, "up", "K", "move the task up"),
    action(Scope::Tasks, "send-back", "B", "send the task back with words"),
    action(Scope::Tasks, "undo", "U", "undo: take back what the task has merged"),
    action(Scope::Tasks, "diff", "D", "show what the task changes"),
    action(Scope::Tasks, "log", "L", "the last log of the task"),
    action(Scope::Tasks, "merge", "m", "merge the task's branch"),
    action(Scope::Tasks, "wider", ">", "make the left panel wider"),
    action(Scope::Tasks, "narrower", "<", "make the left panel narrower"),
    action(Scope::Tasks, "tiles", "w", "watch all agents side by side"),
    action(Scope::Tasks, "next-agent", "]", "the next agent"),
    action(Scope::Tasks, "previous-agent", "[", "the agent before"),
    action(Scope::Tasks, "follow", "F", "go by itself to the agent that needs you"),
    action(Scope::Tasks, "branches", "b", "branches"),
    action(Scope::Tasks, "trash", "T", "trash"),
    action(Scope::Tasks, "projects", "P", "go to another project"),
    action(Scope::Tasks, "inbox", "I", "what waits in all projects"),
    action(Scope::Tasks, "costs", "$", "what tasks cost"),
    action(Scope::Tasks, "history", "H", "work that has ended"),
    action(Scope::Tasks, "filter", "/", "show only tasks with a text"),
    action(Scope::Left, "definition", "2", "definition"),
    action(Scope::Left, "settings", "3", "settings"),
    action(Scope::Left, "actions", ":", "every action"),
];

/// Returns the action of this name.
fn named(name: &str) -> Option<&'static Action> {
    ACTIONS.iter().find(|action| action.name == name)
}

/// Returns true if this is the key that the rest of the program knows for an action.
pub(crate) fn is(event: &KeyEvent, name: &str) -> bool {
    known(name).is_some_and(|key| Stroke::of(&key) == Stroke::of(event))
}

/// Returns the default key of an action. The rest of the program knows only this key, even if the person chose another.
pub(crate) fn known(name: &str) -> Option<KeyEvent> {
    Some(Stroke::parse(named(name)?.key)?.event())
}

/// A key with its modifiers, as written in settings and shown on the screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stroke(KeyCode, KeyModifiers);

/// Names of keys that are no characters.
const NAMES: [(&str, KeyCode); 15] = [
    ("space", KeyCode::Char(' ')),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

impl Stroke {
    /// Reads a key: `s`, `S`, `ctrl+s`, `alt+f5`, `space`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (mut held, mut name) = (KeyModifiers::NONE, text);
        while let Some((first, rest)) = name.split_once('+').filter(|(_, rest)| !rest.is_empty()) {
            held |= match first.to_lowercase().as_str() {
                "ctrl" => KeyModifiers::CONTROL,
                "alt" => KeyModifiers::ALT,
                _ => return None,
            };
            name = rest;
        }
        let mut characters = name.chars();
        if let (Some(c), None) = (characters.next(), characters.next()) {
            return (!c.is_control()).then_some(Self(KeyCode::Char(c), held));
        }
        let lower = name.to_lowercase();
        if let Some((_, code)) = NAMES.iter().find(|(name, _)| *name == lower) {
            return Some(Self(*code, held));
        }
        let number = lower.strip_prefix('f')?.parse().ok().filter(|number| (1..=24).contains(number))?;
        Some(Self(KeyCode::F(number), held))
    }

    /// Returns the key that was pressed. Shift is part of a character.
    fn of(event: &KeyEvent) -> Self {
        Self(event.code, event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT))
    }

    /// Returns true if this key was pressed.
    #[must_use]
    pub fn is(self, event: &KeyEvent) -> bool {
        self == Self::of(event)
    }

    fn event(self) -> KeyEvent {
        KeyEvent::new(self.0, self.1)
    }
}

impl fmt::Display for Stroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (held, name) in [(KeyModifiers::CONTROL, "Ctrl+"), (KeyModifiers::ALT, "Alt+")] {
            if self.1.contains(held) {
                f.write_str(name)?;
            }
        }
        let name = NAMES.iter().find(|(_, code)| *code == self.0).map(|(name, _)| *name);
        match (name, self.0) {
            (Some(name), _) => {
                let (first, rest) = name.split_at(1);
                write!(f, "{}{rest}", first.to_uppercase())
            }
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, code) => write!(f, "{code}"),
        }
    }
}

/// A choice of keys that cannot be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// The name in the settings.
    pub name: String,
    /// The reason.
    pub because: String,
}

/// The person's own keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Keymap(Vec<(&'static Action, Stroke)>);

impl Keymap {
    /// Reads keys by the names of actions.
    ///
    /// # Errors
    /// The first that is no action or no key, or whose key another action has.
    pub fn new(keys: &BTreeMap<String, String>) -> Result<Self, Refused> {
        let mut map = Self::default();
        for (name, key) in keys {
            let refused = |because: String| Refused { name: name.clone(), because };
            let action = named(name).ok_or_else(|| {
                let names: Vec<_> = ACTIONS.iter().map(|action| action.name).collect();
                refused(format!("it is no action; there are {}", names.join(", ")))
            })?;
            let stroke = Stroke::parse(key).ok_or_else(|| {
                refused(format!("`{key}` is no key; `s`, `S`, `ctrl+s`, `alt+f5` and `space` are"))
            })?;
            if TAKEN.iter().any(|taken| Self::same(taken, stroke))
                && Stroke::parse(action.key) != Some(stroke)
            {
                return Err(refused(format!("`{stroke}` moves, or is Enter or Tab to a terminal")));
            }
            map.0.push((action, stroke));
        }
        for (action, stroke) in &map.0 {
            let meets = |other: &&Action| {
                other.name != action.name
                    && map.key(other.name) == Some(*stroke)
                    && (other.scope == action.scope
                        || [other.scope, action.scope].contains(&Scope::Everywhere)
                        || ![other.scope, action.scope].contains(&Scope::Terminal))
            };
            if let Some(other) = ACTIONS.iter().find(meets) {
                let because = format!("`{stroke}` is also the key of `{}`", other.name);
                return Err(Refused { name: action.name.to_owned(), because });
            }
        }
        Ok(map)
    }

    fn same(text: &str, stroke: Stroke) -> bool {
        Stroke::parse(text) == Some(stroke)
    }

    /// Returns the key of an action.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<Stroke> {
        let own = self.0.iter().find(|(action, _)| action.name == name).map(|(_, stroke)| *stroke);
        own.or_else(|| Stroke::parse(named(name)?.key))
    }

    /// Returns the keys of actions as they are shown, with blanks between them.
    #[must_use]
    pub fn shown(&self, names: &[&str]) -> String {
        let keys = names.iter().filter_map(|name| self.key(name)).map(|key| key.to_string());
        keys.collect::<Vec<_>>().join(" ")
    }

    /// Translates a pressed key into the default key of its action, which the rest of the program knows.
    pub(crate) fn translate(&self, event: KeyEvent, scopes: &[Scope]) -> Pressed {
        // The usual case: nothing was chosen.
        if self.0.is_empty() {
            return Pressed::Known(event);
        }
        let (pressed, counts) = (Stroke::of(&event), |action: &Action| scopes.contains(&action.scope));
        let mut own = self.0.iter().filter(|(action, _)| counts(action));
        if let Some((action, _)) = own.clone().find(|(_, stroke)| *stroke == pressed) {
            return known(action.name).map_or(Pressed::Nothing, Pressed::Known);
        }
        match own.find(|(action, _)| Stroke::parse(action.key) == Some(pressed)) {
            None => Pressed::Known(event),
            Some((action, _)) if [Scope::Everywhere, Scope::Terminal].contains(&action.scope) => {
                Pressed::GivenAway(event)
            }
            Some(_) => Pressed::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(keys: &[(&str, &str)]) -> Result<Keymap, Refused> {
        Keymap::new(&keys.iter().map(|(name, key)| ((*name).to_owned(), (*key).to_owned())).collect())
    }

    fn press(key: &str) -> KeyEvent {
        Stroke::parse(key).unwrap().event()
    }

    #[test]
    fn each_action_has_a_name_and_a_key_of_its_own() {
        for (at, action) in ACTIONS.iter().enumerate() {
            assert!(Stroke::parse(action.key).is_some(), "{}", action.name);
            let twice = ACTIONS.iter().skip(at + 1).find(|other| {
                other.name == action.name || (other.key, other.scope) == (action.key, action.scope)
            });
            assert!(twice.is_none(), "{} and {twice:?}", action.name);
        }
    }

    #[test]
    fn keys_are_read_as_they_are_shown() {
        for text in ["s", "S", "+", "Ctrl+s", "Alt+F5", "Ctrl+Alt+x", "Space", "Pageup", "Ctrl++"] {
            assert_eq!(Stroke::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "ss", "shift+s", "f25", "f0", "ctrl+", "\u{7}"] {
            assert_eq!(Stroke::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_chosen_key_takes_the_place_of_the_other() {
        let keys = map(&[("start", "ctrl+s"), ("quit", "f10"), ("delete", "s")]).unwrap();
        let tasks = [Scope::Tasks];
        let everywhere = [Scope::Everywhere];
        let known = |key: &str| Pressed::Known(press(key));
        assert_eq!(keys.translate(press("ctrl+s"), &tasks), known("s"));
        assert_eq!(keys.translate(press("s"), &tasks), known("x"));
        assert_eq!(keys.translate(press("x"), &tasks), Pressed::Nothing);
        assert_eq!(keys.translate(press("a"), &tasks), known("a"));
        // Elsewhere they are what they were.
        assert_eq!(keys.translate(press("s"), &everywhere), known("s"));
        assert_eq!(keys.translate(press("f10"), &everywhere), known("ctrl+q"));
        // The agent gets what is ours no more.
        assert_eq!(keys.translate(press("ctrl+q"), &everywhere), Pressed::GivenAway(press("ctrl+q")));
        assert_eq!(keys.shown(&["start", "add", "quit"]), "Ctrl+s a F10");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (keys, name, because) in [
            (&[("strat", "s")][..], "strat", "no action"),
            (&[("start", "shift+s")], "start", "no key"),
            (&[("start", "a")], "start", "also the key of `add`"),
            (&[("start", "ctrl+q")], "start", "also the key of `quit`"),
            (&[("quit", "s")], "quit", "also the key of `start`"),
            (&[("start", "j")], "start", "moves"),
            (&[("start", "ctrl+m")], "start", "Enter"),
            (&[("settings", "a")], "settings", "also the key of `add`"),
        ] {
            let refused = map(keys).unwrap_err();
            assert_eq!(refused.name, name);
            assert!(refused.because.contains(because), "{refused:?}");
        }
        // Two may change places.
        assert!(map(&[("start", "a"), ("add", "s")]).is_ok());
    }
}
