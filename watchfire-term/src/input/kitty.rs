//! Keys in kitty's protocol.

use super::{Key, KeyCode, KeyKind, Modifiers, legacy};
use crate::state::State;

/// Sequences instead of bytes that could be something else.
const DISAMBIGUATE: u8 = 1;
/// Flag: held and released keys are reported.
const EVENTS: u8 = 2;
/// Flag: the character with shift is reported beside the one without.
const ALTERNATES: u8 = 4;
/// Text comes as sequences too.
const ALL: u8 = 8;
/// With the text that it makes.
const TEXT: u8 = 16;

pub(super) fn encode(key: &Key, flags: u8, state: &State) -> Vec<u8> {
    let has = |flag: u8| flags & flag != 0;
    let plain = key.modifiers.without(Modifiers::SHIFT) == Modifiers::NONE;
    // Releases are sent only to those who ask, or every key would count twice.
    if key.kind == KeyKind::Release && !has(EVENTS) {
        return Vec::new();
    }
    let event = match key.kind {
        KeyKind::Press => None,
        _ if !has(EVENTS) => None,
        KeyKind::Repeat => Some(2),
        KeyKind::Release => Some(3),
    };
    let modifiers = match (key.modifiers.number(), event) {
        (1, None) => String::new(),
        (number, None) => number.to_string(),
        (number, Some(event)) => format!("{number}:{event}"),
    };
    let sequences = has(DISAMBIGUATE | ALL);
    let code = match key.code {
        // Only then it is another key than the one without a keypad.
        KeyCode::Keypad('\r') if !sequences => KeyCode::Enter,
        KeyCode::Keypad(c) if !sequences => KeyCode::Char(c),
        code => code,
    };
    let key = &Key { code, ..*key };
    let (code, text) = match code {
        KeyCode::Char(c) => {
            // Text stays text as long as nothing but shift is held, so that programs which only read characters go on
            // working.
            if plain && !has(ALL) && key.kind != KeyKind::Release {
                return c.to_string().into_bytes();
            }
            if !has(ALL) && plain || !sequences {
                return legacy::encode(key, state);
            }
            // Kitty names a key by its character without shift.
            let base = c.to_lowercase().next().unwrap_or(c);
            let shifted = has(ALTERNATES) && base != c;
            let code = if shifted {
                format!("{}:{}", u32::from(base), u32::from(c))
            } else {
                u32::from(base).to_string()
            };
            (code, (has(TEXT) && plain && key.kind != KeyKind::Release).then_some(c))
        }
        // These three must go on to work in a shell that crashed.
        KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace
            if !has(ALL) && (key.modifiers == Modifiers::NONE || !has(DISAMBIGUATE)) =>
        {
            return legacy::encode(key, state);
        }
        KeyCode::Enter => ("13".into(), None),
        KeyCode::Tab => ("9".into(), None),
        KeyCode::Backspace => ("127".into(), None),
        KeyCode::Escape if !sequences && modifiers.is_empty() => return legacy::encode(key, state),
        KeyCode::Escape => ("27".into(), None),
        KeyCode::Keypad(c) => match keypad(c) {
            Some(code) => (code.to_string(), None),
            None => return legacy::encode(key, state),
        },
        // Keys without a legacy number have one in Unicode's private use area.
        KeyCode::F(number @ 13..=35) => ((57376 + u32::from(number) - 13).to_string(), None),
        // Modes change it only where nothing else was asked for.
        code if modifiers.is_empty() && !sequences && !has(EVENTS) => {
            return legacy::function_key(code, Modifiers::NONE, state).unwrap_or_default();
        }
        code => return function_key(code, &modifiers, state),
    };
    let mut out = format!("\x1b[{code}");
    // The text is the third parameter, so the second has to be there, if empty.
    if !modifiers.is_empty() || text.is_some() {
        out += &format!(";{modifiers}");
    }
    if let Some(c) = text {
        out += &format!(";{}", u32::from(c));
    }
    out.push('u');
    out.into_bytes()
}

/// Encodes the key as xterm does, without SS3.
fn function_key(code: KeyCode, modifiers: &str, state: &State) -> Vec<u8> {
    let Some(bytes) = legacy::function_key(code, Modifiers::NONE, state) else { return Vec::new() };
    let text = String::from_utf8(bytes).unwrap_or_default();
    // Kitty writes these keys in CSI form alone, also in application mode.
    let body = text.trim_start_matches(['\x1b', '[', 'O']);
    let (number, end) = match body.strip_suffix('~') {
        Some(number) => (number, "~"),
        // As a letter it would be a cursor report.
        None if code == KeyCode::F(3) => ("13", "~"),
        None if modifiers.is_empty() => ("", body),
        None => ("1", body),
    };
    let separator = if modifiers.is_empty() { "" } else { ";" };
    format!("\x1b[{number}{separator}{modifiers}{end}").into_bytes()
}

fn keypad(c: char) -> Option<u32> {
    Some(match c {
        '0'..='9' => 57399 + (c as u32 - '0' as u32),
        '.' => 57409,
        '/' => 57410,
        '*' => 57411,
        '-' => 57412,
        '+' => 57413,
        '\r' => 57414,
        '=' => 57415,
        ',' => 57416,
        _ => return None,
    })
}
