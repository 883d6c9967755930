//! The mouse.

use super::Modifiers;
use crate::state::State;
use crate::state::modes::Mode;

/// Something that the mouse did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Mouse {
    /// The kind of event.
    pub kind: MouseKind,
    /// At which row, from 0.
    pub row: u16,
    /// At which column, from 0.
    pub col: u16,
    /// With which keys held.
    pub modifiers: Modifiers,
}

impl Mouse {
    /// Creates an event of the mouse at `row` and `col`, both from 0.
    #[must_use]
    pub fn new(kind: MouseKind, row: u16, col: u16) -> Self {
        Self { kind, row, col, modifiers: Modifiers::NONE }
    }

    /// Sets the keys held.
    #[must_use]
    pub fn with_modifiers(mut self, modifiers: Modifiers) -> Self {
        self.modifiers = modifiers;
        self
    }
}

/// The kind of a mouse event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MouseKind {
    /// A button went down; a wheel turned.
    Press(Button),
    /// A button went up.
    Release(Button),
    /// It moved with a button held.
    Drag(Button),
    /// It moved.
    Move,
}

/// A button of the mouse.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "there is nothing to add")]
#[non_exhaustive]
pub enum Button {
    Left,
    Middle,
    Right,
    WheelUp,
    WheelDown,
    WheelLeft,
    WheelRight,
}

impl Button {
    const fn number(self) -> u32 {
        match self {
            Self::Left => 0,
            Self::Middle => 1,
            Self::Right => 2,
            Self::WheelUp => 64,
            Self::WheelDown => 65,
            Self::WheelLeft => 66,
            Self::WheelRight => 67,
        }
    }
}

pub(super) fn encode(mouse: &Mouse, state: &State) -> Vec<u8> {
    let on = |mode| state.on(mode);
    let moves = on(Mode::MouseMove);
    let drags = moves || on(Mode::MouseDrag);
    let presses = drags || on(Mode::MousePress) || on(Mode::MouseHighlight);
    let (button, released) = match mouse.kind {
        MouseKind::Press(button) if presses || on(Mode::MouseX10) => (button.number(), false),
        // A wheel has no way up.
        MouseKind::Release(button) if presses && button.number() < 64 => (button.number(), true),
        MouseKind::Drag(button) if drags => (button.number() + 32, false),
        // 3 for no button, and 32 for a move.
        MouseKind::Move if moves => (35, false),
        _ => return Vec::new(),
    };
    // X10's mode reports presses alone, without modifiers.
    let held = if on(Mode::MouseX10) { 0 } else { modifiers(mouse.modifiers) };
    let (width, height) = state.options.cell_pixels;
    // A viewer's window may be larger than the screen.
    let (row, col) = (
        u32::from(mouse.row.min(state.rows() as u16 - 1)),
        u32::from(mouse.col.min(state.cols() as u16 - 1)),
    );
    let (x, y) = (col + 1, row + 1);
    let last = if released { 'm' } else { 'M' };
    // Outside of SGR a release does not say of which button.
    // X10's byte has two bits for the button, and 3 is what stands for none.
    let code = if released { 3 } else { button } + held;
    if on(Mode::MousePixels) {
        let (x, y) = (col * u32::from(width) + 1, row * u32::from(height) + 1);
        return format!("\x1b[<{};{x};{y}{last}", button + held).into_bytes();
    }
    if on(Mode::MouseSgr) {
        return format!("\x1b[<{};{x};{y}{last}", button + held).into_bytes();
    }
    if on(Mode::MouseUrxvt) {
        return format!("\x1b[{};{x};{y}M", code + 32).into_bytes();
    }
    let mut out = b"\x1b[M".to_vec();
    for value in [code, x, y].map(|value| value + 32) {
        if on(Mode::MouseUtf8) && value < 0x800 {
            let c = char::from_u32(value).unwrap_or(' ');
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            // What does not fit into a byte cannot be told; xterm sends a zero.
            out.push(u8::try_from(value).unwrap_or(0));
        }
    }
    out
}

fn modifiers(modifiers: Modifiers) -> u32 {
    [(Modifiers::SHIFT, 4), (Modifiers::ALT, 8), (Modifiers::CTRL, 16)]
        .into_iter()
        .filter(|(modifier, _)| modifiers.contains(*modifier))
        .map(|(_, bit)| bit)
        .sum()
}
