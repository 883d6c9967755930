//! What a user does, as the bytes that the child expects in its current modes.
//!
//! ```
//! use watchfire_term::{Emulator, Size};
//! use watchfire_term::input::{Key, KeyCode};
//!
//! let mut terminal = Emulator::new(Size::default());
//! assert_eq!(terminal.encode_key(&Key::new(KeyCode::Up)), b"\x1b[A");
//! terminal.process(b"\x1b[?1h");
//! assert_eq!(terminal.encode_key(&Key::new(KeyCode::Up)), b"\x1bOA");
//! terminal.process(b"\x1b[?2004h");
//! assert_eq!(terminal.encode_paste("two\nlines"), b"\x1b[200~two\nlines\x1b[201~");
//! ```

mod key;
mod kitty;
pub(crate) mod legacy;
mod mouse;

pub use key::{Key, KeyCode, KeyKind, Modifiers};
pub use mouse::{Button, Mouse, MouseKind};

use crate::emulator::Emulator;
use crate::state::modes::Mode;

impl Emulator {
    /// Returns the bytes for a key; empty if the child gets none, as for a release unless it asked for those.
    #[must_use]
    pub fn encode_key(&self, key: &Key) -> Vec<u8> {
        // Kitty's protocol takes the place of xterm's as soon as any of its flags is set.
        match self.state.keyboard.flags(self.state.alternate) {
            0 => legacy::encode(key, &self.state),
            flags => kitty::encode(key, flags, &self.state),
        }
    }

    /// Returns the bytes for pasted text. Escape and other control characters are taken out, so that a paste cannot end
    /// its own bracket or press keys; without brackets a line feed is the enter key.
    #[must_use]
    pub fn encode_paste(&self, text: &str) -> Vec<u8> {
        let bracketed = self.state.on(Mode::BracketedPaste);
        let mut out = String::with_capacity(text.len() + 12);
        out.push_str(if bracketed { "\x1b[200~" } else { "" });
        for c in text.replace("\r\n", "\n").chars() {
            match c {
                // Without brackets the text arrives as if typed, and Enter is a carriage return.
                '\n' | '\r' => out.push(if bracketed { '\n' } else { '\r' }),
                '\t' => out.push('\t'),
                c if c.is_control() => {}
                c => out.push(c),
            }
        }
        out.push_str(if bracketed { "\x1b[201~" } else { "" });
        out.into_bytes()
    }

    /// Returns the bytes for gaining or losing the focus; empty unless the child asked (mode 1004).
    #[must_use]
    pub fn encode_focus(&self, gained: bool) -> Vec<u8> {
        match (self.state.on(Mode::Focus), gained) {
            (false, _) => Vec::new(),
            (true, true) => b"\x1b[I".to_vec(),
            (true, false) => b"\x1b[O".to_vec(),
        }
    }

    /// Returns the bytes for an event of the mouse; empty unless the child asked for that.
    #[must_use]
    pub fn encode_mouse(&self, mouse: &Mouse) -> Vec<u8> {
        mouse::encode(mouse, &self.state)
    }

    /// Returns true if the child wants the mouse. If not, a viewer may use it to scroll and select.
    #[must_use]
    pub fn wants_mouse(&self) -> bool {
        [Mode::MouseX10, Mode::MousePress, Mode::MouseHighlight, Mode::MouseDrag, Mode::MouseMove]
            .into_iter()
            .any(|mode| self.state.on(mode))
    }
}
