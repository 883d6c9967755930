//! The person's terminal: taken over, and put back as it was, whatever ends the program.

use std::io::{Write as _, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::SetCursorStyle;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, supports_keyboard_enhancement,
};
use crossterm::{cursor, execute, queue};
use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};
use tokio::sync::Notify;

use watchfire_core::terminal::Modes;

use crate::model::{Focus, Model, RightTab};
use crate::picture::Painter;
use crate::selection::Selection;

/// Time that a terminal has for an answer: over a slow line it takes a while.
const PATIENCE: Duration = Duration::from_secs(2);

/// The terminal's answers about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Its background is dark.
    pub(crate) dark: bool,
    /// It knows kitty's keyboard protocol.
    pub(crate) spells: bool,
}

impl Asked {
    /// Asks the terminal. Nothing else may read from it until this returns.
    pub(crate) fn terminal(dark: Option<bool>) -> Self {
        let dark = dark.unwrap_or_else(|| {
            let mut options = QueryOptions::default();
            options.timeout = PATIENCE;
            // Most terminals are dark, including the ones that do not answer.
            !matches!(theme_mode(options), Ok(ThemeMode::Light))
        });
        let spells = enable_raw_mode().is_ok() && supports_keyboard_enhancement().unwrap_or(false);
        Self { dark, spells }
    }
}

/// True while the terminal is ours.
static OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Notified on each panic.
static FAILED: Notify = Notify::const_new();
/// True while the terminal spells keys in kitty's protocol for us.
static SPELLS: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours. It is put back when this is dropped, and before the message of a panic.
#[derive(Debug)]
pub(crate) struct Screen {
    painter: Painter,
    /// The keyboard flags that were asked for. `None` for a terminal without kitty's protocol.
    keys: Option<KeyboardEnhancementFlags>,
}

impl Screen {
    /// Takes the terminal. `spells`: it knows kitty's keyboard protocol.
    pub(crate) fn take(spells: bool) -> std::io::Result<Self> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
                // Of a task of its own, after which the rest would paint over the message.
                FAILED.notify_one();
            }));
        });
        OURS.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        let mut taken = execute!(
            stdout(),
            EnterAlternateScreen,
            DisableLineWrap,
            EnableMouseCapture,
            EnableBracketedPaste,
            cursor::Hide
        );
        let keys = spells.then(|| keys(false));
        if let (Ok(()), Some(keys)) = (&taken, keys) {
            // On the screen that is ours now: each has flags of its own.
            SPELLS.store(true, Ordering::SeqCst);
            taken = execute!(stdout(), PushKeyboardEnhancementFlags(keys));
        }
        if taken.is_err() {
            restore();
        }
        taken.map(|()| Self { painter: Painter::default(), keys })
    }

    /// Draws a model as one synchronized update, so that no half-drawn picture is seen.
    pub(crate) fn draw(&mut self, model: &Model) -> std::io::Result<()> {
        let mut out = stdout().lock();
        let painted = self.painter.paint(model);
        if !painted.is_empty() {
            queue!(out, BeginSynchronizedUpdate, Print(painted), EndSynchronizedUpdate)?;
        }
        let wanted = keys(is_told_of_releases(model));
        if self.keys.is_some_and(|keys| keys != wanted) {
            queue!(out, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags(wanted))?;
            self.keys = Some(wanted);
        }
        out.flush()
    }

    /// Rings the bell, and lets the terminal show words as a notification.
    pub(crate) fn alert(words: &str) -> std::io::Result<()> {
        let term = std::env::var("TERM").unwrap_or_default();
        let mut out = stdout().lock();
        write!(out, "\x07{}", notification(words, &term, std::env::var_os("VTE_VERSION").is_some()))?;
        out.flush()
    }

    /// Puts the text that a model selects into the clipboard.
    pub(crate) fn copy(&mut self, model: &Model, selected: Selection) -> std::io::Result<()> {
        // Drawn once more: what is on the screen may be older than the selection.
        let (drawn, _) = self.painter.draw(model);
        let text = selected.text(model, &drawn);
        execute!(stdout(), CopyToClipboard::to_clipboard_from(text))
    }
}

/// Returns the sequence by which a terminal shows a notification. There are two, and several terminals know both: they would show
/// it twice. rxvt, foot and those made of VTE know only the second.
fn notification(words: &str, term: &str, is_vte: bool) -> String {
    let words: String = words.chars().filter(|c| !c.is_control() && *c != ';').collect();
    if is_vte || term.starts_with("rxvt") || term.starts_with("foot") {
        return format!("\x1b]777;notify;Watchfire;{words}\x1b\\");
    }
    format!("\x1b]9;Watchfire: {words}\x1b\\")
}

/// Returns the keyboard flags to ask for: unambiguous keys, and with `events` repeats and releases too.
fn keys(events: bool) -> KeyboardEnhancementFlags {
    let mut keys =
        KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES | KeyboardEnhancementFlags::REPORT_ALTERNATE_KEYS;
    keys.set(KeyboardEnhancementFlags::REPORT_EVENT_TYPES, events);
    keys
}

/// Returns true if the agent that has the keys wants to know when one is let go.
fn is_told_of_releases(model: &Model) -> bool {
    let screen = model.terminal.snapshot.as_ref().filter(|_| !model.terminal.ended);
    let has_keys = model.focus == Focus::Right && model.right == RightTab::Chat;
    has_keys && screen.is_some_and(|screen| screen.modes.contains(Modes::KEYS_EVENTS))
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Waits for a panic of any part of the program. The terminal is back then.
pub(crate) async fn failed() {
    FAILED.notified().await;
}

/// Puts the terminal back. Does nothing if it is not ours.
pub(crate) fn restore() {
    if !OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    // Failures are ignored: they mean that the terminal is gone.
    if SPELLS.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), PopKeyboardEnhancementFlags);
    }
    let _ = execute!(
        stdout(),
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        DisableMouseCapture,
        SetCursorStyle::DefaultUserShape,
        EnableLineWrap,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_in_the_one_way_that_it_knows() {
        for (term, is_vte, is_second) in [
            ("xterm-kitty", false, false),
            ("xterm-ghostty", false, false),
            ("xterm-256color", false, false),
            ("xterm-256color", true, true),
            ("foot", false, true),
            ("rxvt-unicode-256color", false, true),
        ] {
            let told = notification("#0001 asks\x1b]0;x\x07 you", term, is_vte);
            assert_eq!(told.starts_with("\x1b]777;notify;"), is_second, "{term}");
            assert_eq!(told.starts_with("\x1b]9;"), !is_second, "{term}");
            assert_eq!(told.matches('\x1b').count(), 2, "{told:?}");
        }
    }
}
