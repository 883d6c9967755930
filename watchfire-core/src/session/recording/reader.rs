//! Reading a recording from its beginning, and on while it is written.

use std::fs::File;
use std::io::{ErrorKind as IoKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::entry::{Entry, INDEX, OUTPUT, What, path, starts};
use super::follow::FollowRecording;
use crate::files::open_untrusted;
use crate::model::Timestamp;
use crate::terminal::Size;
use crate::{Error, Result};

/// Upper bound for one read of a file: more than a segment ever has.
const LARGEST: u64 = 64 << 20;

/// A recording on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recording {
    folder: PathBuf,
}

/// A part of a recording.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recorded {
    /// The terminal has this size from here on.
    #[non_exhaustive]
    Resize {
        /// When it was resized.
        at: Timestamp,
        /// The new size.
        size: Size,
    },
    /// Output.
    #[non_exhaustive]
    Output {
        /// When its first byte came. The last came at most 30 ms later.
        at: Timestamp,
        /// Offset of the first byte, counted from the start of the session.
        offset: u64,
        /// The bytes as the agent wrote them. They may begin or end within a character or a sequence.
        bytes: Vec<u8>,
    },
    /// Output that was not kept: the disk was full, or the recording has grown beyond its limit since.
    #[non_exhaustive]
    Missing {
        /// Offset of the first byte that is missing.
        offset: u64,
        /// Number of missing bytes.
        length: u64,
    },
    /// The last process of the agent has ended, and nothing follows. Absent if the guardian was killed.
    #[non_exhaustive]
    End {
        /// When it ended.
        at: Timestamp,
        /// Exit code of the agent, or 128 plus the number of the signal that ended it. `None` if it is unknown.
        code: Option<i32>,
    },
}

impl Recording {
    /// Opens the recording in `folder`, or returns `None` if there is none.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open(folder: &Path) -> Result<Option<Self>> {
        match folder.symlink_metadata() {
            Ok(found) => Ok(found.is_dir().then(|| Self { folder: folder.to_owned() })),
            Err(error) if error.kind() == IoKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("opening a recording", error).with_path(folder)),
        }
    }

    /// Reads the recording in order, as far as it goes now, one segment of at most 4 MiB at a time.
    ///
    /// # Errors
    /// The iterator yields those of the disk, once, and ends.
    pub fn read(&self) -> impl Iterator<Item = Result<Recorded>> + use<> {
        let mut reader = Reader::new(self.folder.clone());
        let (segments, failed) = match reader.segments() {
            Ok(segments) => (segments, None),
            Err(error) => (Vec::new(), Some(Err(error))),
        };
        let parts = segments.into_iter().scan(false, move |failed, start| {
            let parts = (!*failed).then(|| reader.read(start))?;
            *failed = parts.is_err();
            Some(parts.map_or_else(|error| vec![Err(error)], |parts| parts.into_iter().map(Ok).collect()))
        });
        failed.into_iter().chain(parts.flatten())
    }

    /// Returns true if a process writes the recording now.
    pub(crate) fn is_written(&self) -> bool {
        Reader::new(self.folder.clone()).is_written()
    }

    /// Returns the facts that stand at the end of a recording.
    pub(crate) fn ending(folder: &Path) -> Result<RecordingEnd> {
        let mut reader = Reader::new(folder.to_owned());
        let mut ending = RecordingEnd::default();
        // Each segment begins with the size at its start.
        let Some(start) = reader.segments()?.pop() else { return Ok(ending) };
        reader.end = start;
        for part in reader.read(start)? {
            match part {
                Recorded::Resize { size, .. } => ending.size = Some(size),
                Recorded::End { code, at } => (ending.code, ending.at) = (code, Some(at)),
                _ => {}
            }
        }
        ending.length = reader.end;
        Ok(ending)
    }

    /// Returns how often lines of the scrollback got other numbers since a checkpoint with this offset and size, or since the start:
    /// by a resize, and where output that followed is not kept any more, with the resizes in it. What cannot be read counts as none.
    pub(super) fn renumberings(folder: &Path, checkpoint: Option<(u64, Size)>) -> u64 {
        let reader = Reader::new(folder.to_owned());
        let segments = reader.segments().unwrap_or_default();
        let after = checkpoint.map_or(0, |(offset, _)| offset);
        // Also where it begins at the checkpoint: a resize there may stand in the segment before. One too many does no harm.
        let is_gone = segments.first().is_some_and(|first| *first >= after && *first > 0);
        let (mut count, mut size) = (u64::from(is_gone), None);
        let mut end = segments.first().copied().unwrap_or_default();
        for start in segments {
            count += u64::from(start > end && start > after);
            end = start + reader.length(start);
            let index = reader.read_file(start, INDEX, 0).ok().flatten().unwrap_or_default();
            for entry in Entry::decode_all(&index) {
                let What::Resize(now) = entry.what else { continue };
                // The first entry of a segment repeats the size.
                let is_new = size.replace(now).is_some_and(|before| before != now);
                // The last resize at the offset of the checkpoint may be the one that it shows.
                let is_known = count == 0 && checkpoint == Some((entry.offset, now));
                count += u64::from(is_new && entry.offset >= after && !is_known);
            }
        }
        count
    }

    /// Follows the recording from its beginning to its end, also while the session runs, and from any process.
    #[must_use]
    pub fn follow(&self) -> FollowRecording {
        FollowRecording::new(Reader::new(self.folder.clone()))
    }
}

/// The end of a recording.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RecordingEnd {
    /// Length of the output so far, with its gaps.
    pub(crate) length: u64,
    /// The last size of the terminal.
    pub(crate) size: Option<Size>,
    /// Time of the end, if it has ended.
    pub(crate) at: Option<Timestamp>,
    /// Exit code of the agent, if it is known.
    pub(crate) code: Option<i32>,
}

/// Position of a reader. Each call reads only new parts.
#[derive(Debug)]
pub(super) struct Reader {
    folder: PathBuf,
    /// The segment that was read last, and the length of its index that was read.
    segment: (u64, u64),
    /// Offset after the output that was read.
    end: u64,
    /// Time of that output.
    time: u64,
    size: Option<Size>,
}

impl Reader {
    fn new(folder: PathBuf) -> Self {
        Self { folder, segment: (0, 0), end: 0, time: 0, size: None }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if a process writes the recording now.
    pub(super) fn is_written(&self) -> bool {
        let Ok(folder) = File::open(&self.folder) else { return false };
        // Ours is given back at the end of this function.
        flock(&folder, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Returns the segments that may have something new, in order.
    pub(super) fn segments(&self) -> Result<Vec<u64>> {
        match starts(&self.folder) {
            Ok(all) => Ok(all.into_iter().filter(|start| *start >= self.segment.0).collect()),
            Err(error) if error.kind() == IoKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::io("reading a recording", error).with_path(&self.folder)),
        }
    }

    /// Reads the new parts of the segment that begins at `start`.
    pub(super) fn read(&mut self, start: u64) -> Result<Vec<Recorded>> {
        let from = if self.segment.0 == start { self.segment.1 } else { 0 };
        let within = self.end.saturating_sub(start);
        // Removed since the folder was listed. What follows comes after a gap.
        let Some(output) = self.read_file(start, OUTPUT, within)? else { return Ok(Vec::new()) };
        // In this order: the entry of output is written before it, so the entries of all that was read are here.
        let Some(index) = self.read_file(start, INDEX, from)? else { return Ok(Vec::new()) };
        let mut entries = Entry::decode_all(&index);
        let read = self.end.max(start) + output.len() as u64;
        // Later ones describe output that came since. They are for the next call.
        entries.retain(|entry| entry.offset <= read);
        self.segment = (start, from + (entries.len() * Entry::LENGTH) as u64);
        let mut parts = Vec::new();
        if start > self.end {
            parts.push(Recorded::Missing { offset: self.end, length: start - self.end });
            self.end = start;
        }
        let mut output = &output[..];
        for entry in entries {
            // Output before the entry belongs to the entry before it.
            self.push(entry.offset, &mut output, &mut parts);
            self.time = entry.time;
            let at = timestamp(entry.time);
            match entry.what {
                What::Resize(size) if self.size != Some(size) => {
                    self.size = Some(size);
                    parts.push(Recorded::Resize { at, size });
                }
                What::Output | What::Resize(_) => {}
                What::End(code) => parts.push(Recorded::End { at, code }),
            }
        }
        self.push(u64::MAX, &mut output, &mut parts);
        Ok(parts)
    }

    /// Adds the output before offset `until`.
    fn push(&mut self, until: u64, output: &mut &[u8], parts: &mut Vec<Recorded>) {
        let length = usize::try_from(until.saturating_sub(self.end)).unwrap_or(usize::MAX);
        let (bytes, rest) = output.split_at(length.min(output.len()));
        if !bytes.is_empty() {
            let at = timestamp(self.time);
            parts.push(Recorded::Output { at, offset: self.end, bytes: bytes.to_vec() });
            self.end += bytes.len() as u64;
            *output = rest;
        }
    }

    /// Returns the length of a segment's output.
    fn length(&self, start: u64) -> u64 {
        path(&self.folder, start, OUTPUT).metadata().map_or(0, |about| about.len())
    }

    /// Reads a file of a segment from byte `from` on, or returns `None` if it is gone.
    fn read_file(&self, start: u64, ending: &str, from: u64) -> Result<Option<Vec<u8>>> {
        let path = path(&self.folder, start, ending);
        let Some(mut file) = open_untrusted(&path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.take(LARGEST).read_to_end(&mut bytes))
            .map_err(|error| Error::io("reading a recording", error).with_path(path))?;
        Ok(Some(bytes))
    }
}

fn timestamp(time: u64) -> Timestamp {
    Timestamp::from_unix_millis(i64::try_from(time).unwrap_or(i64::MAX))
}
