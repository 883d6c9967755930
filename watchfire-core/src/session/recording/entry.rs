//! The format of an index, and the names of segments.

use std::path::{Path, PathBuf};

use crate::terminal::Size;

/// Ending of a file of output.
pub(super) const OUTPUT: &str = "out";
/// Ending of an index.
pub(super) const INDEX: &str = "idx";

/// An entry of an index: output from `offset` on came at `time`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) offset: u64,
    /// New size of the terminal, if it changed here.
    pub(super) size: Option<Size>,
}

impl Entry {
    pub(super) fn encode(self) -> Vec<u8> {
        let size = self.size.map_or(0, |size| u64::from(size.cols()) << 32 | u64::from(size.rows()));
        [self.time, self.offset, size].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes the entries of an index, without a torn one at its end.
    pub(super) fn decode_all(index: &[u8]) -> Vec<Self> {
        let (numbers, _) = index.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let (entries, _) = numbers.as_chunks::<3>();
        let size = |size: u64| {
            let half = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
            (size != 0).then(|| Size::new(half(size >> 32), half(size & u64::from(u32::MAX))))
        };
        entries.iter().map(|&[time, offset, it]| Self { time, offset, size: size(it) }).collect()
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
            Entry { time: 1_770_000_000_123, offset: 0, size: Some(Size::new(120, 40)) },
            Entry { time: u64::MAX, offset: u64::MAX, size: None },
            Entry { time: 0, offset: 7, size: Some(Size::new(u16::MAX, u16::MAX)) },
        ];
        let index: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
        assert_eq!(index.len(), 3 * 24);
        for torn in 0..24 {
            let mut index = index.clone();
            index.extend(vec![1; torn]);
            assert_eq!(Entry::decode_all(&index), entries);
        }
    }
}
