//! Keys, pastes and the mouse, as the agent's terminal wants them.

use crossterm::event::{
    KeyCode as From, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use watchfire_core::terminal::{Modes, Snapshot};
use watchfire_term::input::{Button, Key, KeyCode, KeyKind, Modifiers, Mouse, MouseKind};
use watchfire_term::{Emulator, diff};

/// Returns an emulator in the modes of a screen, which encodes keys and mouse events for these modes.
fn terminal(screen: &Snapshot) -> Emulator {
    // Of the same size, because a click lies within it.
    let mut terminal = Emulator::new(screen.size);
    terminal.process(diff::modes(Modes::default(), screen.modes).as_bytes());
    terminal
}

/// Returns the bytes of a key; none for a key that no terminal has.
#[must_use]
pub fn key(screen: &Snapshot, key: &KeyEvent) -> Vec<u8> {
    let code = match key.code {
        From::Char(c) => KeyCode::Char(c),
        From::F(n) => KeyCode::F(n),
        From::Enter => KeyCode::Enter,
        From::Tab | From::BackTab => KeyCode::Tab,
        From::Backspace => KeyCode::Backspace,
        From::Esc => KeyCode::Escape,
        From::Up => KeyCode::Up,
        From::Down => KeyCode::Down,
        From::Left => KeyCode::Left,
        From::Right => KeyCode::Right,
        From::Home => KeyCode::Home,
        From::End => KeyCode::End,
        From::PageUp => KeyCode::PageUp,
        From::PageDown => KeyCode::PageDown,
        From::Insert => KeyCode::Insert,
        From::Delete => KeyCode::Delete,
        _ => return Vec::new(),
    };
    let kind = match key.kind {
        KeyEventKind::Press => KeyKind::Press,
        KeyEventKind::Repeat => KeyKind::Repeat,
        KeyEventKind::Release => KeyKind::Release,
    };
    let mut held = modifiers(key.modifiers);
    if key.code == From::BackTab {
        held = held.and(Modifiers::SHIFT);
    }
    terminal(screen).encode_key(&Key::new(code).with_modifiers(held).with_kind(kind))
}

/// Returns the bytes of a paste.
#[must_use]
pub fn paste(screen: &Snapshot, text: &str) -> Vec<u8> {
    terminal(screen).encode_paste(text)
}

/// Returns the bytes of what the mouse did at a row and a column of the agent's terminal; none if the agent does not want it.
#[must_use]
pub fn mouse(screen: &Snapshot, event: &MouseEvent, row: u16, col: u16) -> Vec<u8> {
    let button = |button| match button {
        MouseButton::Left => Button::Left,
        MouseButton::Right => Button::Right,
        MouseButton::Middle => Button::Middle,
    };
    let kind = match event.kind {
        MouseEventKind::Down(pressed) => MouseKind::Press(button(pressed)),
        MouseEventKind::Up(released) => MouseKind::Release(button(released)),
        MouseEventKind::Drag(held) => MouseKind::Drag(button(held)),
        MouseEventKind::Moved => MouseKind::Move,
        MouseEventKind::ScrollUp => MouseKind::Press(Button::WheelUp),
        MouseEventKind::ScrollDown => MouseKind::Press(Button::WheelDown),
        MouseEventKind::ScrollLeft => MouseKind::Press(Button::WheelLeft),
        MouseEventKind::ScrollRight => MouseKind::Press(Button::WheelRight),
    };
    terminal(screen).encode_mouse(&Mouse::new(kind, row, col).with_modifiers(modifiers(event.modifiers)))
}

fn modifiers(held: KeyModifiers) -> Modifiers {
    let all = [
        (KeyModifiers::SHIFT, Modifiers::SHIFT),
        (KeyModifiers::ALT, Modifiers::ALT),
        (KeyModifiers::CONTROL, Modifiers::CTRL),
        (KeyModifiers::SUPER, Modifiers::SUPER),
    ];
    all.iter().filter(|(from, _)| held.contains(*from)).fold(Modifiers::NONE, |all, (_, to)| all.and(*to))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use watchfire_core::terminal::{Size, Terminal as _};

    use super::*;

    fn screen(modes: &str) -> Arc<Snapshot> {
        let mut terminal = Emulator::new(Size::new(10, 2));
        terminal.process(modes.as_bytes());
        terminal.snapshot()
    }

    #[test]
    fn what_is_typed_is_spelled_as_the_agent_asked() {
        let (plain, other) = (screen(""), screen("\x1b[?1h\x1b[?2004h\x1b[?1000h\x1b[?1006h"));
        let press = |code, held| KeyEvent::new(code, held);
        let up = press(From::Up, KeyModifiers::NONE);
        assert_eq!((key(&plain, &up), key(&other, &up)), (b"\x1b[A".to_vec(), b"\x1bOA".to_vec()));
        assert_eq!(key(&plain, &press(From::Char('c'), KeyModifiers::CONTROL)), b"\x03");
        assert_eq!(key(&plain, &press(From::Char('x'), KeyModifiers::ALT)), b"\x1bx");
        assert_eq!(key(&plain, &press(From::Char('ü'), KeyModifiers::NONE)), "ü".as_bytes());
        assert_eq!(key(&plain, &press(From::BackTab, KeyModifiers::SHIFT)), b"\x1b[Z");
        assert_eq!(key(&plain, &press(From::Enter, KeyModifiers::NONE)), b"\r");
        assert_eq!(paste(&plain, "a\nb"), b"a\rb");
        assert_eq!(paste(&other, "a"), b"\x1b[200~a\x1b[201~");
        let click = MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: 50,
            row: 20,
            modifiers: KeyModifiers::NONE,
        };
        assert_eq!(mouse(&plain, &click, 1, 2), b"");
        assert_eq!(mouse(&other, &click, 1, 2), b"\x1b[<0;3;2M");
    }
}
