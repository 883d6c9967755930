//! The event seam.

use super::Params;

/// Receiver of a parser's reports. Every method does nothing by default.
pub trait Handler {
    /// Printable ASCII, at least one byte.
    fn ascii(&mut self, _run: &[u8]) {}

    /// Characters, at least one; no control characters. Bytes that are not UTF-8 arrive as U+FFFD.
    fn chars(&mut self, _run: &[char]) {}

    /// A C0 control character, or a C1 one that does not introduce anything.
    fn control(&mut self, _byte: u8) {}

    /// CR and LF, which most lines end with; the two as control characters, unless there is a faster way.
    fn line_end(&mut self) {
        self.control(b'\r');
        self.control(b'\n');
    }

    /// A control sequence.
    fn csi(&mut self, _params: &Params, _sequence: Sequence) {}

    /// An escape sequence.
    fn esc(&mut self, _sequence: Sequence) {}

    /// A question in VT52 mode for what the terminal is; `ESC / Z` is the answer. Everything else that there is in that
    /// mode is reported as the control or escape sequence that does the same.
    fn vt52_identify(&mut self) {}

    /// An operating system command, without introducer and terminator. `bell` if BEL ended it.
    fn osc(&mut self, _data: &[u8], _bell: bool) {}

    /// An application program command, without introducer and terminator.
    fn apc(&mut self, _data: &[u8]) {}

    /// A device control string begins.
    fn dcs_start(&mut self, _params: &Params, _sequence: Sequence) {}

    /// A piece of a device control string.
    fn dcs_data(&mut self, _data: &[u8]) {}

    /// The device control string ends. `terminated` unless CAN or SUB cut it off.
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
