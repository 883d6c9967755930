//! The event seam.

use super::Params;

/// Receiver of a parser's reports. Every method does nothing by default.
pub trait Handler {
    /// Takes printable ASCII, at least one byte.
    fn ascii(&mut self, _run: &[u8]) {}

    /// Takes characters, at least one; no control characters. Bytes that are not UTF-8 arrive as U+FFFD.
    fn chars(&mut self, _run: &[char]) {}

    /// Takes a C0 control character, or a C1 one that does not introduce anything.
    fn control(&mut self, _byte: u8) {}

    /// Takes CR and LF, which most lines end with. By default both are passed to [`control`](Self::control).
    fn line_end(&mut self) {
        self.control(b'\r');
        self.control(b'\n');
    }

    /// Takes a control sequence.
    fn csi(&mut self, _params: &Params, _sequence: Sequence) {}

    /// Takes an escape sequence.
    fn esc(&mut self, _sequence: Sequence) {}

    /// Takes the question in VT52 mode what the terminal is. The answer is `ESC / Z`. Everything else that there is in that
    /// mode is reported as the control or escape sequence that does the same.
    fn vt52_identify(&mut self) {}

    /// Takes an operating system command, without introducer and terminator. `bell` if BEL ended it.
    fn osc(&mut self, _data: &[u8], _bell: bool) {}

    /// Takes an application program command, without introducer and terminator.
    fn apc(&mut self, _data: &[u8]) {}

    /// Begins a device control string.
    fn dcs_start(&mut self, _params: &Params, _sequence: Sequence) {}

    /// Takes a piece of a device control string.
    fn dcs_data(&mut self, _data: &[u8]) {}

    /// Ends the device control string. `terminated` unless CAN or SUB cut it off.
    fn dcs_end(&mut self, _terminated: bool) {}
}

/// The parts that identify a control or escape sequence.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sequence {
    /// A private marker (`<`, `=`, `>`, `?`) and intermediates (space to `/`) in the order they came; zero for none.
    pub marks: [u8; 2],
    /// The byte that ends it.
    pub last: u8,
    /// True if there were more marks or parameters than are kept.
    pub overflow: bool,
}
