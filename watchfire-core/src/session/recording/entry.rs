//! The format of an index, and the names of segments.

use std::path::{Path, PathBuf};

use crate::terminal::Size;

/// Ending of a file of output.
pub(super) const OUTPUT: &str = "out";
/// Ending of an index.
pub(super) const INDEX: &str = "idx";

/// Mark of the last entry of a recording.
const END: u64 = 1 << 63;
/// Mark of an end with a known code, which is in the lower half.
const CODE: u64 = 1 << 62;

/// An entry of an index: output from `offset` on came at `time`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) offset: u64,
    pub(super) what: What,
}

/// The event of an entry, beside the output that follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum What {
    Output,
    /// The terminal got this size.
    Resize(Size),
    /// The last process of the agent ended. The agent's own exit code, if it is known.
    End(Option<i32>),
}

impl What {
    /// Returns the entry of a terminal of that size, or of a pipe.
    pub(super) fn of(size: Option<Size>) -> Self {
        size.map_or(Self::Output, Self::Resize)
    }

    fn encode(self) -> u64 {
        match self {
            Self::Output => 0,
            Self::Resize(size) => u64::from(size.cols()) << 32 | u64::from(size.rows()),
            Self::End(code) => END | code.map_or(0, |code| CODE | u64::from(code.cast_unsigned())),
        }
    }

    fn decode(number: u64) -> Self {
        let half = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        match number {
            0 => Self::Output,
            _ if number & END != 0 => Self::End((number & CODE != 0).then(|| low.cast_signed())),
            _ => Self::Resize(Size::new(half(number >> 32), half(low.into()))),
        }
    }
}

impl Entry {
    pub(super) const LENGTH: usize = 24;

    pub(super) fn encode(self) -> Vec<u8> {
        [self.time, self.offset, self.what.encode()].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes the entries of an index, without a torn one at its end.
    pub(super) fn decode_all(index: &[u8]) -> Vec<Self> {
        let (numbers, _) = index.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let (entries, _) = numbers.as_chunks::<3>();
        entries.iter().map(|&[time, offset, it]| Self { time, offset, what: What::decode(it) }).collect()
    }
}

/// Returns the path of a segment's file.
pub(super) fn path(folder: &Path, start: u64, ending: &str) -> PathBuf {
    folder.join(format!("{start:016x}.{ending}"))
}

/// Returns the offsets at which the segments in a folder begin, in order.
pub(super) fn starts(folder: &Path) -> std::io::Result<Vec<u64>> {
    let mut starts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        // Anything else is not ours.
        let start = name.to_str().and_then(|name| name.strip_suffix(OUTPUT)?.strip_suffix('.'));
        starts.extend(start.and_then(|start| u64::from_str_radix(start, 16).ok()));
    }
    starts.sort_unstable();
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_without_a_torn_one() {
        let entries = [
            Entry { time: 1_770_000_000_123, offset: 0, what: What::Resize(Size::new(120, 40)) },
            Entry { time: u64::MAX, offset: u64::MAX, what: What::Output },
            Entry { time: 0, offset: 7, what: What::Resize(Size::new(u16::MAX, u16::MAX)) },
            Entry { time: 1, offset: 8, what: What::End(None) },
            Entry { time: 1, offset: 8, what: What::End(Some(0)) },
            Entry { time: 1, offset: 8, what: What::End(Some(-1)) },
        ];
        let index: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
        assert_eq!(index.len(), entries.len() * Entry::LENGTH);
        for torn in 0..Entry::LENGTH {
            let mut index = index.clone();
            index.extend(vec![1; torn]);
            assert_eq!(Entry::decode_all(&index), entries);
        }
    }
}
