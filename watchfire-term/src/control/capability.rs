//! XTGETTCAP: what the terminal's entry in terminfo says.

use crate::control::osc::unhex;
use crate::input::{Key, KeyCode, Modifiers, legacy};
use crate::state::State;

/// Capabilities with their values; none for those that are only there.
const CAPABILITIES: [(&str, Option<&str>); 9] = [
    ("TN", Some("xterm-256color")),
    ("name", Some("xterm-256color")),
    ("Co", Some("256")),
    ("colors", Some("256")),
    ("RGB", Some("8/8/8")),
    ("Tc", None),
    ("Su", None),
    ("Smulx", Some("\x1b[4:%p1%dm")),
    ("Setulc", Some("\x1b[58:2::%p1%{65536}%/%d:%p1%{256}%/%{255}%&%d:%p1%{255}%&%dm")),
];

/// Keys by their names in termcap and terminfo; they send what they do in the modes in force.
const KEYS: [(&str, &str, KeyCode); 11] = [
    ("ku", "kcuu1", KeyCode::Up),
    ("kd", "kcud1", KeyCode::Down),
    ("kr", "kcuf1", KeyCode::Right),
    ("kl", "kcub1", KeyCode::Left),
    ("kh", "khome", KeyCode::Home),
    ("@7", "kend", KeyCode::End),
    ("kI", "kich1", KeyCode::Insert),
    ("kD", "kdch1", KeyCode::Delete),
    ("kP", "kpp", KeyCode::PageUp),
    ("kN", "knp", KeyCode::PageDown),
    ("kb", "kbs", KeyCode::Backspace),
];

impl State {
    /// Answers with each name and its value, as names came in, which are hexadecimal, up to one that is not known.
    pub(crate) fn capabilities(&mut self, request: &[u8]) {
        let mut answer = String::new();
        // Few bytes of request make many of answer, hence the bound.
        for name in request.split(|byte| *byte == b';').take(32) {
            let Some(value) = unhex(name).and_then(|name| self.capability(str::from_utf8(&name).ok()?))
            else {
                // xterm stops at the first name that it does not know, and so answers for those before it.
                break;
            };
            answer.push_str(if answer.is_empty() { "" } else { ";" });
            // The digits of a known name, as they came.
            answer.push_str(&String::from_utf8_lossy(name));
            answer.push_str(if value.is_empty() { "" } else { "=" });
            answer.extend(value.iter().map(|byte| format!("{byte:02X}")));
        }
        self.reply_dcs(&if answer.is_empty() { "0+r".to_owned() } else { format!("1+r{answer}") });
    }

    fn capability(&self, name: &str) -> Option<Vec<u8>> {
        if let Some((_, value)) = CAPABILITIES.iter().find(|(known, _)| *known == name) {
            return Some(value.unwrap_or("").into());
        }
        let key = KEYS.iter().find(|(short, long, _)| *short == name || *long == name);
        let key = key.map(|(.., code)| Key::new(*code)).or_else(|| function_key(name))?;
        Some(legacy::encode(&key, self))
    }
}

/// Returns the key of `k1` to `k9`, `k;`, `F1`, `F2`, or `kf1` to `kf12`, and the tab that goes back.
fn function_key(name: &str) -> Option<Key> {
    let number = match name {
        "kB" | "kcbt" => return Some(Key::new(KeyCode::Tab).with_modifiers(Modifiers::SHIFT)),
        "k;" => 10,
        "F1" => 11,
        "F2" => 12,
        _ => name
            .strip_prefix("kf")
            .or_else(|| name.strip_prefix('k').filter(|rest| rest.len() == 1))?
            .parse()
            .ok()?,
    };
    (1..=12).contains(&number).then(|| Key::new(KeyCode::F(number)))
}
