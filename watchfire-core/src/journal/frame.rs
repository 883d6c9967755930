//! Framing of records in a file: `mark, length, checksum, number, payload`, integers little-endian.
//!
//! Payloads are UTF-8 and the mark starts with two bytes that never occur in UTF-8. A reader that meets damage can
//! therefore scan for the next mark without mistaking payload for it.

const MARK: [u8; 4] = [0xff, 0xfe, b'W', b'F'];
/// Size of a record's head: mark, length (u32), checksum (u32), number (u64).
const HEAD: usize = 20;
/// Maximum length of a payload, in bytes. A damaged length above it is rejected before anything is read.
pub(super) const MAX_PAYLOAD: usize = 16 << 20;

/// A record whose checksum matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Frame<'a> {
    /// Sequence number; consecutive within a journal.
    pub(super) number: u64,
    pub(super) payload: &'a [u8],
}

/// The next item in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next<'a> {
    /// A record, and the offset of its end.
    Frame(Frame<'a>, usize),
    /// Bytes that are not a record, and the offset at which the next record begins.
    Damage(usize),
    /// Bytes that are not a record, up to the end of the file.
    Torn,
    /// The end of the file, directly after a record or the header.
    End,
}

/// Appends a record to `out`. The caller ensures that the payload is at most [`MAX_PAYLOAD`] long.
pub(super) fn write(out: &mut Vec<u8>, number: u64, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    let number = number.to_le_bytes();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(length, number, payload).to_le_bytes());
    out.extend_from_slice(&number);
    out.extend_from_slice(payload);
}

/// Reads the item at `offset`.
pub(super) fn next(file: &[u8], offset: usize) -> Next<'_> {
    if offset >= file.len() {
        return Next::End;
    }
    if let Some((frame, end)) = parse(file, offset) {
        return Next::Frame(frame, end);
    }
    // Only a record that checks counts as the next one: the mark alone may be part of the damage.
    let mut at = offset + 1;
    while let Some(found) = file.get(at..).and_then(|rest| rest.windows(MARK.len()).position(|w| w == MARK)) {
        if parse(file, at + found).is_some() {
            return Next::Damage(at + found);
        }
        // A mark inside the damaged record, or one of another damaged record behind it.
        at += found + 1;
    }
    Next::Torn
}

fn parse(file: &[u8], offset: usize) -> Option<(Frame<'_>, usize)> {
    let (head, rest) = file.get(offset..)?.split_first_chunk::<HEAD>()?;
    let (mark, head) = head.split_first_chunk::<4>()?;
    let (length, head) = head.split_first_chunk::<4>()?;
    let (sum, head) = head.split_first_chunk::<4>()?;
    let (number, _) = head.split_first_chunk::<8>()?;
    let size = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|size| *size <= MAX_PAYLOAD)?;
    let payload = rest.get(..size)?;
    // The checksum covers length and number too: a flipped bit there would otherwise pass as another valid record.
    let whole = *mark == MARK && u32::from_le_bytes(*sum) == checksum(*length, *number, payload);
    whole.then(|| (Frame { number: u64::from_le_bytes(*number), payload }, offset + HEAD + size))
}

fn checksum(length: [u8; 4], number: [u8; 8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(&number);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<u8> {
        let mut file = Vec::new();
        write(&mut file, 1, b"one");
        write(&mut file, 2, b"two");
        write(&mut file, 3, b"");
        file
    }

    #[test]
    fn records_come_back() {
        let file = three();
        let Next::Frame(one, end) = next(&file, 0) else { panic!("no frame") };
        assert_eq!((one, end), (Frame { number: 1, payload: b"one" }, HEAD + 3));
        let Next::Frame(two, end) = next(&file, end) else { panic!("no frame") };
        assert_eq!(two.payload, b"two");
        let Next::Frame(three, end) = next(&file, end) else { panic!("no frame") };
        assert_eq!((three.number, next(&file, end)), (3, Next::End));
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_the_next_record_found() {
        let second = HEAD + 3;
        for bit in 0..second * 8 {
            let mut file = three();
            file[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(next(&file, 0), Next::Damage(second), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_is_a_torn_tail() {
        let mut file = Vec::new();
        write(&mut file, 9, b"payload");
        for end in 1..file.len() {
            assert_eq!(next(&file[..end], 0), Next::Torn, "cut at {end}");
        }
        assert_eq!(next(&[], 0), Next::End);
    }
}
