//! Reading a journal from disk: checkpoint, segments and damage.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::entry::{Entry, State};
use super::frame::{self, Next};
use super::segment::{self, HEADER, Kind};
use crate::{Error, ErrorKind, Result};

/// A defect found in the files of a journal.
///
/// No warning keeps a journal from opening. All should be shown to a person, except a torn tail after a crash, which is
/// the normal trace of one.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The file ends in the middle of a record that was never acknowledged, or was damaged since. The rest was cut off.
    #[non_exhaustive]
    TornTail {
        /// Path of the file.
        file: PathBuf,
        /// Offset of the end of the last complete record.
        offset: u64,
        /// Number of bytes cut off.
        bytes: u64,
    },
    /// Part of a file is not a record. The records behind it were read; the file is kept.
    #[non_exhaustive]
    Damaged {
        /// Path of the file.
        file: PathBuf,
        /// Offset at which the damage begins.
        offset: u64,
        /// Number of damaged bytes.
        bytes: u64,
    },
    /// A range of records is gone.
    #[non_exhaustive]
    Missing {
        /// Number of the first missing record.
        from: u64,
        /// Number of the last missing record.
        to: u64,
    },
}

impl Warning {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTail { file, offset, bytes } => write!(
                f,
                "the journal ends in the middle of a record; {bytes} bytes were cut off (path: {}, offset: {offset})",
                file.display()
            ),
            Self::Damaged { file, offset, bytes } => write!(
                f,
                "{bytes} bytes of the journal are damaged and were skipped (path: {}, offset: {offset})",
                file.display()
            ),
            Self::Missing { from, to } if from == to => write!(f, "record {from} of the journal is missing"),
            Self::Missing { from, to } => write!(f, "records {from} to {to} of the journal are missing"),
        }
    }
}

/// The content of a journal's folder.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) state: State,
    /// The entries that are still there, also those that a checkpoint covers.
    pub(super) recent: Vec<Entry>,
    /// True if the files are of the first format, which [`legacy`](super::legacy) reads.
    pub(super) is_legacy: bool,
    /// The number of the last record; 0: none.
    pub(super) last: u64,
    pub(super) warnings: Vec<Warning>,
    /// Number of the last segment and its length without a torn tail, if appending to it is safe.
    pub(super) tail: Option<(u64, u64)>,
    /// Damaged files, which are kept for a person to look at.
    pub(super) damaged: Vec<PathBuf>,
}

/// Reads the journal in `dir`. Changes nothing.
///
/// # Errors
/// `not_supported` if a newer version wrote it; I/O errors.
pub(super) fn read(dir: &Path) -> Result<Contents> {
    let mut contents = Contents { is_legacy: segment::is_legacy(dir)?, ..Contents::default() };
    if contents.is_legacy {
        return Ok(contents);
    }
    // Newest first. Two checkpoints are kept, so that one damaged file loses nothing.
    for number in segment::list_current(dir, Kind::Checkpoint)?.into_iter().rev() {
        if contents.read_checkpoint(&segment::path(dir, Kind::Checkpoint, number))? {
            break;
        }
    }
    let segments = segment::list_current(dir, Kind::Segment)?;
    for (index, number) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        contents.read_segment(&segment::path(dir, Kind::Segment, *number), *number, is_last)?;
    }
    Ok(contents)
}

impl Contents {
    fn read_checkpoint(&mut self, path: &Path) -> Result<bool> {
        let bytes = load(path)?;
        if segment::check_header(&bytes, path)?
            && let Next::Frame(frame, _) = frame::next(&bytes, HEADER)
        {
            self.state = parse(frame.payload, path, HEADER)?;
            self.last = frame.number;
            return Ok(true);
        }
        // The caller goes on with the older checkpoint; the segments since that one are still there.
        self.damage(path, 0, bytes.len());
        Ok(false)
    }

    fn read_segment(&mut self, path: &Path, number: u64, is_last: bool) -> Result<()> {
        let bytes = load(path)?;
        let mut offset = HEADER;
        if !segment::check_header(&bytes, path)? {
            if is_last && bytes.len() < HEADER {
                // The writer was killed between creating the segment and syncing its header: it never held a record.
                return Ok(());
            }
            // Only the header is lost: the records behind it have marks of their own, so they are read all
            // the same.
            self.damage(path, 0, bytes.len().min(HEADER));
        }
        loop {
            match frame::next(&bytes, offset) {
                Next::Frame(frame, end) => {
                    let entries: Vec<Entry> = parse(frame.payload, path, offset)?;
                    // The records up to the checkpoint are folded into it already.
                    if frame.number > self.last {
                        if frame.number > self.last + 1 {
                            self.warnings
                                .push(Warning::Missing { from: self.last + 1, to: frame.number - 1 });
                        }
                        // Applied although records before them are missing: each entry holds a whole life or
                        // run, not a difference.
                        entries.iter().for_each(|entry| self.state.apply(entry));
                        self.last = frame.number;
                    }
                    // Readers of the log may be further behind than the checkpoint.
                    self.recent.extend(entries);
                    offset = end;
                }
                Next::Damage(resumes) => {
                    self.damage(path, offset, resumes - offset);
                    offset = resumes;
                }
                // A crash tears only the end of the last segment; anywhere else it is damage.
                Next::Torn if is_last && !self.is_damaged(path) => {
                    let (offset, bytes) = (offset as u64, (bytes.len() - offset) as u64);
                    self.warnings.push(Warning::TornTail { file: path.to_path_buf(), offset, bytes });
                    break;
                }
                Next::Torn => {
                    self.damage(path, offset, bytes.len() - offset);
                    break;
                }
                Next::End => break,
            }
        }
        // A damaged segment is left as it is; appending would bury the damage.
        if is_last && !self.is_damaged(path) {
            self.tail = Some((number, offset as u64));
        }
        Ok(())
    }

    fn damage(&mut self, path: &Path, offset: usize, bytes: usize) {
        let (offset, bytes) = (offset as u64, bytes as u64);
        self.warnings.push(Warning::Damaged { file: path.to_path_buf(), offset, bytes });
        if !self.is_damaged(path) {
            self.damaged.push(path.to_path_buf());
        }
    }

    fn is_damaged(&self, path: &Path) -> bool {
        self.damaged.iter().any(|damaged| damaged == path)
    }
}

/// Reads a whole journal file.
pub(super) fn load(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io("reading the journal", error).with_path(path))
}

/// Parses the JSON of a record. Its checksum is right, so content that is not understood comes from a newer version.
pub(super) fn parse<T: serde::de::DeserializeOwned>(payload: &[u8], path: &Path, offset: usize) -> Result<T> {
    serde_json::from_slice(payload).map_err(|error| {
        Error::new(
            ErrorKind::NotSupported,
            "a record of the journal is not understood; a newer version wrote it",
        )
        .with_path(path)
        .with("offset", offset)
        .with_source(error)
    })
}
