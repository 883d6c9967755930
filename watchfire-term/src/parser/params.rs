//! The parameters of a control sequence.

// ECMA-48 sets no limit. No known sequence has more.
const MAX: usize = 32;

/// Up to 32 numbers; those after a colon belong to the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Params {
    values: [u16; MAX],
    sub: u32,
    /// Bits of the parameters without digits.
    empty: u32,
    len: u8,
}

impl Params {
    /// Returns the number of parameters and subparameters. A sequence without any has one, which is zero.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns true if there are none, which no parsed sequence has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value at `index`; zero when it was left out.
    #[must_use]
    pub fn value(&self, index: usize) -> u16 {
        if index < self.len() { self.values.get(index).copied().unwrap_or(0) } else { 0 }
    }

    /// Returns true if the value at `index` was given in digits.
    #[must_use]
    pub fn is_given(&self, index: usize) -> bool {
        index < self.len() && self.empty >> index & 1 == 0
    }

    /// Returns the value at `index`, or `default` when it is zero or was left out.
    #[must_use]
    pub fn value_or(&self, index: usize, default: u16) -> u16 {
        match self.value(index) {
            0 => default,
            value => value,
        }
    }

    /// Returns all values, subparameters too.
    #[must_use]
    pub fn values(&self) -> &[u16] {
        self.values.get(..self.len()).unwrap_or(&self.values)
    }

    /// Returns true if no value came after a colon.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.sub == 0
    }

    /// Returns true if the value at `index` came after a colon.
    #[must_use]
    pub fn is_sub(&self, index: usize) -> bool {
        index < MAX && self.sub >> index & 1 == 1
    }

    /// Returns the value at `start` and the subparameters that follow it.
    #[must_use]
    pub fn group(&self, start: usize) -> &[u16] {
        let end = (start + 1..self.len()).find(|&index| !self.is_sub(index)).unwrap_or(self.len());
        self.values.get(start..end).unwrap_or(&[])
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        // Values beyond the length are never read.
        (self.sub, self.empty, self.len) = (0, 0, 0);
    }

    /// Reads all parameters that `bytes` begin with. Returns the byte that ends them and the bytes after it, or `None` if
    /// they do not end in `bytes`, are too many, or one of them has more than nine digits.
    #[inline]
    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (mut rest, mut len, mut sub, mut empty) = (bytes, 0, 0_u64, 0_u32);
        loop {
            let slot = self.values.get_mut(len)?;
            let (value, digits, end) = short_number(rest).or_else(|| any_number(rest))?;
            *slot = value;
            if digits == 0 {
                empty |= 1 << len;
            }
            len += 1;
            rest = rest.get(digits + 1..)?;
            if end == b';' {
                continue;
            }
            if end == b':' {
                sub |= 1 << len;
                continue;
            }
            (self.len, self.sub, self.empty) = (len as u8, sub as u32, empty);
            return Some((end, rest));
        }
    }

    /// Notes that the next value pushed was left out.
    #[inline]
    pub(super) fn leave_out(&mut self) {
        // Left out is not the same as zero for window operations (XTWINOPS).
        if usize::from(self.len) < MAX {
            self.empty |= 1 << self.len;
        }
    }

    /// Closes the value at hand with what it came to. False when there is no more room.
    #[inline]
    pub(super) fn push(&mut self, value: u16, next_is_sub: bool) -> bool {
        let Some(slot) = self.values.get_mut(usize::from(self.len)) else { return false };
        *slot = value;
        self.len += 1;
        if next_is_sub && usize::from(self.len) < MAX {
            self.sub |= 1 << self.len;
        }
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == MAX
    }
}

/// Reads a number of up to three digits. Returns it, the number of its digits, and the byte behind it. Numbers are most of what there is in
/// sequences, so there is no loop.
#[inline(always)]
fn short_number(bytes: &[u8]) -> Option<(u16, usize, u8)> {
    let [first, second, third, fourth] = *bytes.first_chunk()?;
    let digit = |byte: u8| u16::from(byte).wrapping_sub(u16::from(b'0'));
    let value = digit(first);
    if value > 9 {
        return Some((0, 0, first));
    }
    if digit(second) > 9 {
        return Some((value, 1, second));
    }
    let value = value * 10 + digit(second);
    if digit(third) > 9 {
        return Some((value, 2, third));
    }
    let value = value * 10 + digit(third);
    (digit(fourth) > 9).then_some((value, 3, fourth))
}

/// Reads up to nine digits in the same way, wherever `bytes` end.
#[cold]
fn any_number(bytes: &[u8]) -> Option<(u16, usize, u8)> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = bytes.split_at_checked(digits).filter(|_| digits <= 9)?;
    let value = number.iter().fold(0_u32, |value, byte| value * 10 + u32::from(byte - b'0'));
    Some((value.min(0xffff) as u16, digits, *rest.first()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_wherever_they_end() {
        for text in ["", "0", "7", "42", "999", "0001", "1000", "65535", "70000", "999999999"] {
            let value = text.parse::<u32>().unwrap_or(0).min(0xffff) as u16;
            for end in ["m", "mxxxx", ";1", "\u{7f}", "/0000", ":000", "\u{e9}é"] {
                let bytes = [text.as_bytes(), end.as_bytes()].concat();
                let read = short_number(&bytes).or_else(|| any_number(&bytes));
                assert_eq!(read, Some((value, text.len(), bytes[text.len()])), "{text}{end}");
            }
            assert_eq!(short_number(text.as_bytes()).or_else(|| any_number(text.as_bytes())), None);
        }
        assert_eq!(any_number(b"1234567890m"), None);
    }

    #[test]
    fn groups_hold_what_colons_join() {
        let mut params = Params::default();
        for (value, sub) in [(4, true), (3, false), (0, false), (38, true), (5, true), (1, false)] {
            assert!(params.push(value, sub));
        }
        assert_eq!(
            (params.group(0), params.group(2), params.group(3)),
            (&[4, 3][..], &[0][..], &[38, 5, 1][..])
        );
        assert_eq!((params.group(99), params.value(99), params.value_or(2, 7)), (&[][..], 0, 7));
        while params.push(1, true) {}
        assert_eq!(params.len(), MAX);
        params.clear();
        params.leave_out();
        params.push(0, false);
        params.push(0, false);
        assert_eq!([0, 1, 2].map(|index| params.is_given(index)), [false, true, false]);
        params.clear();
        assert!(params.is_empty() && params.is_flat() && params.value(0) == 0);
    }
}
