//! The primitives of the form, read. Every read checks its bounds.

use watchfire_core::{Error, ErrorKind, Result};

use super::text;

/// A message that is being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes of text that repeats may still stand for. See [`text`].
    pub(super) repeats: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, repeats: text::MOST_REPEATED }
    }

    /// Returns an error about the byte at hand.
    pub(super) fn error(&self, message: &'static str) -> Error {
        Error::new(ErrorKind::InvalidInput, message).with("byte", self.at)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes.first().copied().unwrap_or_default())
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        // Compared with what is left, and not added to the place, so that no sum can overflow.
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = rest.get(..count).ok_or_else(|| self.error("the message ends too early"))?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        // Ten bytes at most. A longer number would be a loop for the sender to set the length of.
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if bits << shift >> shift != bits {
                return Err(self.error("a number is too large"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.error("a number is too large"))
    }

    /// Reads a number that a smaller type has to hold.
    pub(super) fn fit<T: TryFrom<u64>>(&mut self) -> Result<T> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| self.error("a number is too large"))
    }

    /// Reads a number of items. Each takes at least one byte, so a count beyond the bytes that are left is wrong, and
    /// refused before anything is allocated for it.
    pub(super) fn count(&mut self) -> Result<usize> {
        let count = self.fit::<usize>()?;
        if count > self.bytes.len() - self.at {
            return Err(self.error("the message ends too early"));
        }
        Ok(count)
    }

    pub(super) fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn text(&mut self) -> Result<&'a str> {
        let len = self.fit()?;
        let bytes = self.take(len)?;
        str::from_utf8(bytes).map_err(|_| self.error("text is not UTF-8"))
    }

    pub(super) fn rgb(&mut self) -> Result<[u8; 3]> {
        let bytes = self.take(3)?;
        Ok(bytes.first_chunk().copied().unwrap_or_default())
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.at < self.bytes.len() { Err(self.error("bytes are left over")) } else { Ok(()) }
    }
}
