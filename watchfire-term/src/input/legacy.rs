//! Keys as xterm sends them.

use super::{Key, KeyCode, KeyKind, Modifiers};
use crate::state::State;
use crate::state::modes::Mode;

pub(crate) fn encode(key: &Key, state: &State) -> Vec<u8> {
    if key.kind == KeyKind::Release {
        return Vec::new();
    }
    let (code, modifiers) = (key.code, key.modifiers.without(Modifiers::SUPER));
    // A VT52's keys come first: its arrows are letters, which ANSI's are not.
    if let Some(bytes) = state.vt52.and_then(|_| vt52(code, state)) {
        return bytes;
    }
    if let Some(bytes) = function_key(code, modifiers, state) {
        return bytes;
    }
    match code {
        KeyCode::Char(c) => character(c, modifiers, state),
        KeyCode::Keypad(c) => keypad(c, modifiers, state),
        KeyCode::Enter => {
            // LNM: Enter sends both.
            let text = if state.on(Mode::NewLine) { "\r\n" } else { "\r" };
            special('\r', text, modifiers, 1, state)
        }
        KeyCode::Escape => special('\x1b', "\x1b", modifiers, 2, state),
        // CBT, the key `kcbt` of terminfo.
        KeyCode::Tab if modifiers == Modifiers::SHIFT => b"\x1b[Z".to_vec(),
        KeyCode::Tab => special('\t', "\t", modifiers, 1, state),
        KeyCode::Backspace => {
            // Control turns one into the other.
            let backspace = state.on(Mode::BackspaceSendsBs) != modifiers.contains(Modifiers::CTRL);
            special(
                '\x7f',
                if backspace { "\x08" } else { "\x7f" },
                modifiers.without(Modifiers::CTRL),
                2,
                state,
            )
        }
        _ => Vec::new(),
    }
}

/// Encodes cursor, editing and function keys, the same in kitty's protocol.
pub(super) fn function_key(code: KeyCode, modifiers: Modifiers, state: &State) -> Option<Vec<u8>> {
    let letter = |letter: char, single: bool| {
        if modifiers == Modifiers::NONE {
            format!("\x1b{}{letter}", if single { 'O' } else { '[' })
        } else {
            // A modified key has CSI and a first parameter of 1 also in application mode (xterm).
            format!("\x1b[1;{}{letter}", modifiers.number())
        }
    };
    let tilde = |number: u8| {
        if modifiers == Modifiers::NONE {
            format!("\x1b[{number}~")
        } else {
            format!("\x1b[{number};{}~", modifiers.number())
        }
    };
    let application = state.on(Mode::AppCursor);
    // The gaps are those between the groups of keys on the VT220's keyboard.
    const NUMBERS: [u8; 16] = [15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34];
    let text = match code {
        KeyCode::Up => letter('A', application),
        KeyCode::Down => letter('B', application),
        KeyCode::Right => letter('C', application),
        KeyCode::Left => letter('D', application),
        KeyCode::Home => letter('H', application),
        KeyCode::End => letter('F', application),
        KeyCode::Insert => tilde(2),
        KeyCode::Delete => tilde(3),
        KeyCode::PageUp => tilde(5),
        KeyCode::PageDown => tilde(6),
        KeyCode::F(number @ 1..=4) => letter(char::from(b'P' + number - 1), true),
        KeyCode::F(number @ 5..=20) => tilde(*NUMBERS.get(usize::from(number - 5))?),
        _ => return None,
    };
    Some(text.into_bytes())
}

fn character(c: char, modifiers: Modifiers, state: &State) -> Vec<u8> {
    let plain = modifiers.without(Modifiers::SHIFT);
    let control = modifiers.contains(Modifiers::CTRL).then(|| control(c)).flatten();
    let level = state.keyboard.other_keys;
    // modifyOtherKeys reports keys without bytes of their own, and from level 2 on all that are modified.
    // Level 1 reports only keys that would otherwise be lost, such as Control with a comma.
    let lost = modifiers.contains(Modifiers::CTRL) && control.is_none();
    let modified = plain != Modifiers::NONE || c == ' ' && modifiers != Modifiers::NONE;
    if modified && (level >= 2 || level == 1 && lost) {
        return format!("\x1b[27;{};{}~", modifiers.number(), u32::from(c)).into_bytes();
    }
    let mut out = String::new();
    // As with xterm's metaSendsEscape. To set the eighth bit instead, as a VT220 does, would break UTF-8.
    if modifiers.contains(Modifiers::ALT) {
        out.push('\x1b');
    }
    out.push(control.map_or(c, char::from));
    out.into_bytes()
}

/// Encodes keys that modifyOtherKeys reports: with shift or control from `level` 1 on, with any modifier at level 2.
fn special(c: char, text: &str, modifiers: Modifiers, level: u8, state: &State) -> Vec<u8> {
    let level = if modifiers.without(Modifiers::ALT) == Modifiers::NONE { 2 } else { level };
    if modifiers != Modifiers::NONE && state.keyboard.other_keys >= level {
        return format!("\x1b[27;{};{}~", modifiers.number(), u32::from(c)).into_bytes();
    }
    let alt = if modifiers.contains(Modifiers::ALT) { "\x1b" } else { "" };
    format!("{alt}{text}").into_bytes()
}

/// Returns the control character that a key makes with control.
fn control(c: char) -> Option<u8> {
    Some(match c.to_ascii_lowercase() {
        c @ 'a'..='z' => c as u8 & 0x1f,
        // Digits as on the VT220: control with 2 to 8 makes those controls that no letter does.
        ' ' | '@' | '2' => 0,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '~' | '6' => 0x1e,
        '_' | '/' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

fn keypad(c: char, modifiers: Modifiers, state: &State) -> Vec<u8> {
    // DECKPAM has codes for single keys. With modifiers they are what is printed on them.
    if !state.on(Mode::AppKeypad) || modifiers != Modifiers::NONE {
        return character(c, modifiers, state);
    }
    let Some(last) = keypad_letter(c) else { return character(c, modifiers, state) };
    format!("\x1bO{last}").into_bytes()
}

/// Encodes cursor, function and keypad keys of a VT52, which has no modifiers.
fn vt52(code: KeyCode, state: &State) -> Option<Vec<u8>> {
    let text = match code {
        KeyCode::Up => "\x1bA".to_owned(),
        KeyCode::Down => "\x1bB".to_owned(),
        KeyCode::Right => "\x1bC".to_owned(),
        KeyCode::Left => "\x1bD".to_owned(),
        KeyCode::F(number @ 1..=4) => format!("\x1b{}", char::from(b'P' + number - 1)),
        KeyCode::Keypad(c) if state.on(Mode::AppKeypad) => format!("\x1b?{}", keypad_letter(c)?),
        _ => return None,
    };
    Some(text.into_bytes())
}

/// Returns the letter that an application keypad sends for a key, after its introducer.
fn keypad_letter(c: char) -> Option<char> {
    Some(match c {
        '0'..='9' => char::from(c as u8 - b'0' + b'p'),
        '*' => 'j',
        '+' => 'k',
        ',' => 'l',
        '-' => 'm',
        '.' => 'n',
        '/' => 'o',
        '=' => 'X',
        '\r' => 'M',
        _ => return None,
    })
}
