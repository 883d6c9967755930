//! The primitives of the form, written.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    /// Bytes of text that repeats stand for so far. See [`super::text`].
    pub(super) repeated: usize,
}

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        Self { bytes: vec![super::VERSION, kind], repeated: 0 }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes a number in LEB128: seven bits a byte, the lowest first, the high bit on all but the last.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// Writes a number that may be negative: zigzag, so that small ones are short on both sides.
    pub(super) fn signed(&mut self, number: i64) {
        // The sign goes into the lowest bit.
        self.number((number << 1 ^ number >> 63) as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(super) fn rgb(&mut self, rgb: [u8; 3]) {
        self.bytes.extend_from_slice(&rgb);
    }
}
