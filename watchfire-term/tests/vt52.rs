//! VT52 mode.

use watchfire_term::input::{Key, KeyCode};
use watchfire_term::plain::strip;
use watchfire_term::{Emulator, Size, Terminal};

/// At every chunking.
#[track_caller]
fn check(input: &str, text: &str, answer: &str) {
    for size in 1..=input.len() {
        let mut terminal = Emulator::new(Size::new(20, 5));
        input.as_bytes().chunks(size).for_each(|chunk| terminal.process(chunk));
        assert_eq!(terminal.contents(), text, "{input:?} in chunks of {size}");
        assert_eq!(String::from_utf8_lossy(&terminal.take_replies()), answer, "{input:?}");
    }
}

#[test]
fn the_cursor_moves_and_the_screen_is_erased() {
    check("\x1b[?2l\x1bY\"#a\x1bAb\x1bBc\x1bDd\x1bCe\x1b<\x1b[6n", "\n    b\n   a d e", "\x1b[3;9R");
    check("\x1b[?2labcdef\x1bY $\x1bK\x1bHx\x1bY!!y\x1b<\x1b[6n", "xbcd\n y", "\x1b[2;3R");
    check("a\r\nb\r\nc\x1b[?2l\x1bY! \x1bJ\x1bH\x1bId\x1b<", "d\na", "");
    // Beyond the screen is at its edge.
    check("\x1b[?2l\x1bY~~x\x1bH\x1b\x18Ay\x1b\nBz\x1b<", "Ay\n\n  z\n\n                   x", "");
}

#[test]
fn it_tells_what_it_is_and_knows_no_control_sequences() {
    check("\x1b[?2l\x1bZ\x1b[6n\x1b<\x1b[6n", "6n", "\x1b/Z\x1b[1;3R");
    check("\x1b[?2;7l\x1bZ\x1b<\x1b[?2$p\x1b[?7$p", "", "\x1b/Z\x1b[?2;1$y\x1b[?7;1$y");
    check("\x1b[?2hx", "x", "");
    check("\x1b[?2la\x1b(0q\x1b#8b\x1b<", "aqb", "");
    check("\x1b[?2lé\u{9b}漢\x1b<", "é漢", "");
}

#[test]
fn character_sets_come_back() {
    check("\x1b(0q\x1b[?2lq\x1bFq\x1bGq\x1bF\x1b<q\x1b(Bq", "─q─q─q", "");
}

#[test]
fn keys_are_those_of_a_vt52() {
    let mut terminal = Emulator::new(Size::new(20, 5));
    terminal.process(b"\x1b[?1h\x1b[?2l");
    let key = |terminal: &Emulator, code| terminal.encode_key(&Key::new(code));
    assert_eq!(key(&terminal, KeyCode::Up), b"\x1bA");
    assert_eq!(key(&terminal, KeyCode::F(1)), b"\x1bP");
    assert_eq!(key(&terminal, KeyCode::Keypad('5')), b"5");
    terminal.process(b"\x1b=");
    assert_eq!(key(&terminal, KeyCode::Keypad('5')), b"\x1b?u");
    terminal.process(b"\x1b<");
    assert_eq!(key(&terminal, KeyCode::Up), b"\x1bOA");
}

#[test]
fn the_sanitiser_stays_out_of_it() {
    assert_eq!(strip(b"\x1b[?2l\x1b[31mred"), "red");
}
