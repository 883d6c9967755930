//! VT52 mode (DECANM), where sequences are an escape and a letter. They are reported as the control and escape
//! sequences that do the same, so that handlers need not know.

use super::machine::{ESC, RUN, State};
use super::{Handler, Parser, Sequence};

const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const DEL: u8 = 0x7f;

impl Parser {
    /// Takes text, controls, and the escape that begins a sequence. Returns the number of bytes read.
    pub(super) fn vt52<H: Handler>(&mut self, bytes: &[u8], run: &mut [char; RUN], handler: &mut H) -> usize {
        let Some(&byte) = bytes.first() else { return 0 };
        match byte {
            b' '..DEL => {
                let len = bytes.iter().take_while(|byte| (b' '..DEL).contains(*byte)).count();
                handler.ascii(bytes.get(..len).unwrap_or(&[]));
                return len;
            }
            0x80.. => return self.characters(bytes, run, handler),
            ESC => self.state = State::Vt52Escape,
            DEL => {}
            _ => handler.control(byte),
        }
        1
    }

    /// Takes a byte of a sequence.
    pub(super) fn vt52_step<H: Handler>(&mut self, byte: u8, handler: &mut H) {
        match (self.state, byte) {
            // A place may be any byte, as xterm reads it.
            (State::Vt52Row, _) => {
                self.value = u16::from(byte.saturating_sub(b' '));
                self.state = State::Vt52Column;
            }
            (State::Vt52Column, _) => {
                self.state = State::Vt52;
                let place = [self.value + 1, u16::from(byte.saturating_sub(b' ')) + 1];
                self.vt52_csi(&place, 0, b'H', handler);
            }
            (_, ESC) => self.state = State::Vt52Escape,
            (_, CAN | SUB) => self.state = State::Vt52,
            (_, ..b' ') => handler.control(byte),
            (_, b' '..=b'/') => self.state = State::Vt52Ignored,
            (State::Vt52Ignored, _) => self.state = State::Vt52,
            // Direct cursor address: row and column follow as one character each, a space for the first.
            (_, b'Y') => self.state = State::Vt52Row,
            (_, b'<') => {
                self.state = State::Ground;
                self.vt52_csi(&[2], b'?', b'h', handler);
            }
            _ => {
                self.state = State::Vt52;
                self.vt52_letter(byte, handler);
            }
        }
    }

    fn vt52_letter<H: Handler>(&mut self, byte: u8, handler: &mut H) {
        let esc = |mark, last| Sequence { marks: [mark, 0], last, overflow: false };
        match byte {
            b'A'..=b'D' | b'H' | b'J' | b'K' => self.vt52_csi(&[0], 0, byte, handler),
            // Graphics mode has nearly the characters of DEC's special graphics, as in xterm.
            b'F' => handler.esc(esc(b'(', b'0')),
            b'G' => handler.esc(esc(b'(', b'B')),
            b'I' => handler.esc(esc(0, b'M')),
            b'=' | b'>' => handler.esc(esc(0, byte)),
            b'Z' => handler.vt52_identify(),
            _ => {}
        }
    }

    fn vt52_csi<H: Handler>(&mut self, values: &[u16], mark: u8, last: u8, handler: &mut H) {
        self.params.clear();
        for value in values {
            self.params.push(*value, false);
        }
        handler.csi(&self.params, Sequence { marks: [mark, 0], last, overflow: false });
    }
}
