//! Reading a journal back, damage and all.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::fold::{State, fold};
use super::frame::{self, Next};
use super::segment::{self, HEADER, Kind};
use crate::{Error, ErrorKind, Result};

/// Something that was wrong with the files. Nothing of it keeps a journal from opening; all of it belongs before a
/// person's eyes, but a torn tail after a crash, which is what a crash leaves.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The file ends in the middle of a record that was never acknowledged (or was damaged since). It was cut off.
    TornTail {
        /// The file.
        file: PathBuf,
        /// Where the last whole record ends, in bytes.
        offset: u64,
        /// How many bytes went.
        bytes: u64,
    },
    /// These bytes are no record. What stands behind them was read; the file is kept.
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where it begins.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Records are gone.
    Missing {
        /// The first.
        from: u64,
        /// The last.
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

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) state: State,
    /// The number of the last record; 0: none.
    pub(super) last: u64,
    pub(super) warnings: Vec<Warning>,
    /// The last segment, if it can be written on: its number and its length without a torn tail.
    pub(super) tail: Option<(u64, u64)>,
    /// Files to keep for a person to look at.
    pub(super) damaged: Vec<PathBuf>,
}

/// Reads the journal in `dir`. Changes nothing.
///
/// # Errors
/// `not_supported` for what a newer version wrote; those of the disk.
pub(super) fn read(dir: &Path) -> Result<Contents> {
    let mut contents = Contents::default();
    for number in segment::list(dir, Kind::Checkpoint)?.into_iter().rev() {
        if contents.read_checkpoint(&segment::path(dir, Kind::Checkpoint, number))? {
            break;
        }
    }
    let segments = segment::list(dir, Kind::Segment)?;
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
        self.damage(path, 0, bytes.len());
        Ok(false)
    }

    fn read_segment(&mut self, path: &Path, number: u64, is_last: bool) -> Result<()> {
        let bytes = load(path)?;
        let mut offset = HEADER;
        if !segment::check_header(&bytes, path)? {
            if is_last && bytes.len() < HEADER {
                // Killed while it was made: it never had a record.
                return Ok(());
            }
            self.damage(path, 0, bytes.len().min(HEADER));
        }
        loop {
            match frame::next(&bytes, offset) {
                Next::Frame(frame, end) => {
                    if frame.number > self.last {
                        if frame.number > self.last + 1 {
                            self.warnings
                                .push(Warning::Missing { from: self.last + 1, to: frame.number - 1 });
                        }
                        let entries: Vec<Entry> = parse(frame.payload, path, offset)?;
                        entries.iter().for_each(|entry| fold(&mut self.state, entry));
                        self.last = frame.number;
                    }
                    offset = end;
                }
                Next::Damage(resumes) => {
                    self.damage(path, offset, resumes - offset);
                    offset = resumes;
                }
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

fn load(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io("reading the journal", error).with_path(path))
}

/// A payload whose checksum is right but which says nothing to us was written by someone who knows more.
fn parse<T: serde::de::DeserializeOwned>(payload: &[u8], path: &Path, offset: usize) -> Result<T> {
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
