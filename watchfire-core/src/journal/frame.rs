//! How records lie in a file: `mark, length, checksum, number, payload`, integers little-endian.
//!
//! The mark holds bytes that UTF-8 never has, and payloads are UTF-8, so a mark is found again after damage.

const MARK: [u8; 4] = [0xff, 0xfe, b'W', b'F'];
/// Mark, length (u32), checksum (u32), number (u64).
const HEAD: usize = 20;
/// The longest payload, in bytes.
pub(super) const MAX_PAYLOAD: usize = 16 << 20;

/// A record that checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Frame<'a> {
    /// Its number; one higher with each.
    pub(super) number: u64,
    pub(super) payload: &'a [u8],
}

/// What comes next in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next<'a> {
    /// A record, and where it ends.
    Frame(Frame<'a>, usize),
    /// Bytes that are no record, and where the next record begins.
    Damage(usize),
    /// Bytes that are no record, and no record after them.
    Torn,
    /// The end of the file, after a whole record.
    End,
}

/// Appends a record to `out`. The payload is at most [`MAX_PAYLOAD`] long.
pub(super) fn write(out: &mut Vec<u8>, number: u64, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    let number = number.to_le_bytes();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(length, number, payload).to_le_bytes());
    out.extend_from_slice(&number);
    out.extend_from_slice(payload);
}

/// What comes at `offset`.
pub(super) fn next(file: &[u8], offset: usize) -> Next<'_> {
    if offset >= file.len() {
        return Next::End;
    }
    if let Some((frame, end)) = parse(file, offset) {
        return Next::Frame(frame, end);
    }
    let mut at = offset + 1;
    while let Some(found) = file.get(at..).and_then(|rest| rest.windows(MARK.len()).position(|w| w == MARK)) {
        if parse(file, at + found).is_some() {
            return Next::Damage(at + found);
        }
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
