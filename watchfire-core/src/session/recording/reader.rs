//! Reading a recording from its beginning.

use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use super::entry::{Entry, INDEX, OUTPUT, path, starts};
use crate::files::read_untrusted;
use crate::model::Timestamp;
use crate::terminal::Size;
use crate::{Error, Result};

/// Upper bound for a file of a segment.
const LARGEST: u64 = 64 << 20;

/// A recording on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recording {
    folder: PathBuf,
    starts: Vec<u64>,
}

/// A part of a recording.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recorded {
    /// The terminal has this size from here on.
    Resize {
        /// When it was resized.
        at: Timestamp,
        /// The new size.
        size: Size,
    },
    /// Output.
    Output {
        /// When its first byte came. The last came at most 30 ms later.
        at: Timestamp,
        /// Offset of the first byte, counted from the start of the session.
        offset: u64,
        /// The bytes as the agent wrote them. They may begin or end within a character or a sequence.
        bytes: Vec<u8>,
    },
    /// Output that was not kept: the disk was full, or the recording has grown beyond its limit since.
    Missing {
        /// Offset of the first byte that is missing.
        offset: u64,
        /// Number of missing bytes.
        length: u64,
    },
}

impl Recording {
    /// Opens the recording in `folder`, or returns `None` if there is none. One that is still written is read as far as it
    /// goes now.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(folder: &Path) -> Result<Option<Self>> {
        match starts(folder) {
            Ok(starts) => Ok(Some(Self { folder: folder.to_owned(), starts })),
            Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => Ok(None),
            Err(error) => Err(Error::io("opening a recording", error).with_path(folder)),
        }
    }

    /// Reads the recording in order, one segment of at most 4 MiB at a time.
    ///
    /// # Errors
    /// The iterator yields those of the disk, once, and ends.
    pub fn read(&self) -> impl Iterator<Item = Result<Recorded>> + use<> {
        let (folder, mut end, mut size, mut failed) = (self.folder.clone(), 0, None, false);
        let segment = move |start| {
            if failed {
                return Vec::new();
            }
            match read_segment(&folder, start, &mut end, &mut size) {
                Ok(parts) => parts.into_iter().map(Ok).collect(),
                Err(error) => {
                    failed = true;
                    vec![Err(error)]
                }
            }
        };
        self.starts.clone().into_iter().flat_map(segment)
    }
}

/// Reads a segment after output that ended at `end` on a terminal of `size`.
fn read_segment(folder: &Path, start: u64, end: &mut u64, size: &mut Option<Size>) -> Result<Vec<Recorded>> {
    let read = |ending| read_untrusted(&path(folder, start, ending), LARGEST);
    // Removed since the folder was listed: what follows comes after a gap.
    let (Some(index), Some(output)) = (read(INDEX)?, read(OUTPUT)?) else { return Ok(Vec::new()) };
    let mut parts = Vec::new();
    if start > *end {
        parts.push(Recorded::Missing { offset: *end, length: start - *end });
    }
    *end = start + output.len() as u64;
    let entries = Entry::decode_all(&index);
    for (at, entry) in entries.iter().enumerate() {
        let time = Timestamp::from_unix_millis(i64::try_from(entry.time).unwrap_or(i64::MAX));
        if entry.size.is_some() && entry.size != *size {
            *size = entry.size;
            parts.extend(size.map(|size| Recorded::Resize { at: time.clone(), size }));
        }
        let until = entries.get(at + 1).map_or(*end, |next| next.offset);
        let place = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
        // An entry may describe output that was never written, at the end of a segment.
        let bytes = output.get(place(entry.offset)..place(until).min(output.len())).unwrap_or_default();
        if !bytes.is_empty() {
            parts.push(Recorded::Output { at: time, offset: entry.offset, bytes: bytes.to_vec() });
        }
    }
    Ok(parts)
}
