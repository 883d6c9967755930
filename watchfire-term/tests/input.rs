//! Keys, pastes, focus and the mouse in the modes that change them.

use watchfire_term::input::{Button, Key, KeyCode, KeyKind, Modifiers, Mouse, MouseKind};
use watchfire_term::{Emulator, Size};

fn with(modes: &str) -> Emulator {
    let mut terminal = Emulator::new(Size::new(80, 24));
    terminal.process(modes.as_bytes());
    terminal
}

#[track_caller]
fn key(modes: &str, code: KeyCode, modifiers: Modifiers, want: &str) {
    let have = with(modes).encode_key(&Key::new(code).with_modifiers(modifiers));
    assert_eq!(String::from_utf8_lossy(&have), want, "{code:?} {modifiers:?} in {modes:?}");
}

const NONE: Modifiers = Modifiers::NONE;
const CTRL: Modifiers = Modifiers::CTRL;
const ALT: Modifiers = Modifiers::ALT;
const SHIFT: Modifiers = Modifiers::SHIFT;

#[test]
fn keys_are_told_as_xterm_tells_them() {
    key("", KeyCode::Char('é'), NONE, "é");
    key("", KeyCode::Char('c'), CTRL, "\x03");
    key("", KeyCode::Char(' '), CTRL, "\0");
    key("", KeyCode::Char('x'), ALT.and(CTRL), "\x1b\x18");
    key("", KeyCode::Up, NONE, "\x1b[A");
    key("\x1b[?1h", KeyCode::Up, NONE, "\x1bOA");
    key("\x1b[?1h", KeyCode::Up, CTRL, "\x1b[1;5A");
    key("", KeyCode::Tab, SHIFT, "\x1b[Z");
    key("", KeyCode::Enter, NONE, "\r");
    key("\x1b[20h", KeyCode::Enter, NONE, "\r\n");
    key("", KeyCode::F(1), NONE, "\x1bOP");
    key("", KeyCode::F(1), SHIFT, "\x1b[1;2P");
    key("", KeyCode::F(12), CTRL, "\x1b[24;5~");
    key("", KeyCode::Delete, NONE, "\x1b[3~");
    key("", KeyCode::Keypad('5'), NONE, "5");
    key("\x1b=", KeyCode::Keypad('5'), NONE, "\x1bOu");
    key("\x1b[>4;2m", KeyCode::Char('a'), CTRL, "\x1b[27;5;97~");
    key("\x1b[>4;1m", KeyCode::Char('a'), CTRL, "\x01");
    key("\x1b[>4;3m", KeyCode::Char('a'), CTRL, "\x1b[27;5;97~");
    key("\x1b[>4;1m", KeyCode::Enter, SHIFT, "\x1b[27;2;13~");
    key("\x1b[>4;1m", KeyCode::Enter, CTRL, "\x1b[27;5;13~");
    key("\x1b[>4;1m", KeyCode::Tab, CTRL, "\x1b[27;5;9~");
    key("\x1b[>4;2m", KeyCode::Char(' '), SHIFT, "\x1b[27;2;32~");
    key("\x1b[>4;2m", KeyCode::Tab, ALT, "\x1b[27;3;9~");
    key("\x1b[>4;2m", KeyCode::Tab, SHIFT, "\x1b[Z");
    key("\x1b[>4;2m", KeyCode::Backspace, ALT, "\x1b[27;3;127~");
    key("\x1b[>4;2m", KeyCode::Backspace, CTRL, "\x08");
    key("", KeyCode::Char('-'), CTRL, "-");
    key("\x1b[>4;1m", KeyCode::Char('-'), CTRL, "\x1b[27;5;45~");
    key("", KeyCode::Backspace, NONE, "\x7f");
    key("", KeyCode::Backspace, CTRL, "\x08");
    key("\x1b[?67h", KeyCode::Backspace, NONE, "\x08");
}

#[test]
fn keys_are_told_as_kitty_tells_them() {
    key("\x1b[>1u", KeyCode::Char('a'), NONE, "a");
    key("\x1b[>1u", KeyCode::Char('a'), CTRL, "\x1b[97;5u");
    key("\x1b[>1u", KeyCode::Escape, NONE, "\x1b[27u");
    key("\x1b[>1u", KeyCode::Enter, NONE, "\r");
    key("\x1b[>1u", KeyCode::Enter, SHIFT, "\x1b[13;2u");
    key("\x1b[>8u", KeyCode::Char('a'), NONE, "\x1b[97u");
    key("\x1b[>13u", KeyCode::Char('A'), SHIFT, "\x1b[97:65;2u");
    key("\x1b[>24u", KeyCode::Char('a'), NONE, "\x1b[97;;97u");
    key("\x1b[>1u", KeyCode::Left, ALT, "\x1b[1;3D");
    key("\x1b[>1u", KeyCode::Keypad('1'), NONE, "\x1b[57400u");
    for other in [2, 4, 16] {
        key(&format!("\x1b[>{other}u"), KeyCode::Keypad('5'), NONE, "5");
        key(&format!("\x1b[>{other}u"), KeyCode::Escape, NONE, "\x1b");
    }
    for flags in [1, 2, 8] {
        key(&format!("\x1b[?1h\x1b[>{flags}u"), KeyCode::Up, NONE, "\x1b[A");
        key(&format!("\x1b[>{flags}u"), KeyCode::F(1), NONE, "\x1b[P");
        key(&format!("\x1b[>{flags}u"), KeyCode::F(3), NONE, "\x1b[13~");
    }
    key("\x1b[?1h\x1b[>4u", KeyCode::Up, NONE, "\x1bOA");
    key("\x1b[>1u", KeyCode::F(13), CTRL, "\x1b[57376;5u");
    key("\x1b[>1u\x1b[<u", KeyCode::Char('a'), CTRL, "\x01");
    let release = Key::new(KeyCode::Up).with_kind(KeyKind::Release);
    assert_eq!(with("\x1b[>3u").encode_key(&release), b"\x1b[1;1:3A");
    let keypad = Key::new(KeyCode::Keypad('5')).with_kind(KeyKind::Release);
    assert!(with("\x1b[>2u").encode_key(&keypad).is_empty(), "what comes as text is not told of");
    assert!(with("\x1b[>1u").encode_key(&release).is_empty() && with("").encode_key(&release).is_empty());
}

#[test]
fn pastes_stay_within_their_brackets() {
    assert_eq!(with("\x1b[?2004h").encode_paste("a\x1b[201~b\x03"), b"\x1b[200~a[201~b\x1b[201~");
    assert_eq!(with("").encode_paste("a\r\nb\n"), b"a\rb\r");
}

#[test]
fn focus_and_mouse_are_told_when_asked_for() {
    assert_eq!(with("\x1b[?1004h").encode_focus(true), b"\x1b[I");
    assert!(with("").encode_focus(false).is_empty());
    let press = Mouse::new(MouseKind::Press(Button::Left), 4, 9);
    let release = Mouse::new(MouseKind::Release(Button::Left), 4, 9);
    let drag = Mouse::new(MouseKind::Drag(Button::Right), 4, 9).with_modifiers(CTRL);
    let far = Mouse::new(MouseKind::Press(Button::WheelUp), 4, 300);
    assert!(with("").encode_mouse(&press).is_empty() && !with("").wants_mouse());
    assert_eq!(with("\x1b[?1000h").encode_mouse(&press), b"\x1b[M *%");
    assert_eq!(with("\x1b[?1000h").encode_mouse(&release), b"\x1b[M#*%");
    assert!(with("\x1b[?1000h").encode_mouse(&drag).is_empty());
    assert_eq!(with("\x1b[?1002;1006h").encode_mouse(&drag), b"\x1b[<50;10;5M");
    assert_eq!(with("\x1b[?1002;1006h").encode_mouse(&release), b"\x1b[<0;10;5m");
    assert_eq!(with("\x1b[?1000;1015h").encode_mouse(&release), b"\x1b[35;10;5M");
    assert_eq!(with("\x1b[?1000;1016h").encode_mouse(&press), b"\x1b[<0;73;65M");
    assert_eq!(with("\x1b[?1003;1006h").encode_mouse(&far), b"\x1b[<64;80;5M");
}
