//! The journal on disk: opening, appending, and checkpoints.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::entry::{Entry, State};
use super::read::{self, Warning};
use super::segment::{self, HEADER, Kind};
use super::{frame, legacy};
use crate::files::{DirLock, is_alive};
use crate::{Error, ErrorKind, Result};

/// Options of a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalOptions {
    /// Size in bytes at which a segment is closed and a checkpoint written. 1 MiB by default, which is read back in
    /// milliseconds.
    pub(crate) segment_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { segment_bytes: 1 << 20 }
    }
}

/// Space in bytes that is reserved for further records, enough for some hundred changes.
#[cfg(target_os = "linux")]
const RESERVE: u64 = 256 << 10;

/// An opened journal and its content.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The journal.
    pub journal: Journal,
    /// Its id, the same for as long as its folder exists.
    pub id: String,
    /// The state that its entries leave.
    pub state: State,
    /// The entries that are still on disk, oldest first.
    pub recent: Vec<Entry>,
    /// Damage that was found while opening.
    pub warnings: Vec<Warning>,
}

/// A journal in a folder of its own, with one writer. Every call may block on the disk.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    options: JournalOptions,
    file: File,
    /// Length of the current segment. Everything before it is complete and synced.
    length: u64,
    /// End of the space that the file system keeps for the current segment.
    reserved: u64,
    /// Number of the last record.
    last: u64,
    state: State,
    /// Set after a failed sync or rollback: the content of the disk is unknown until the journal is read again.
    broken: bool,
    _lock: DirLock,
}

impl Journal {
    /// Opens the journal in `dir`, and creates it if missing. Cuts off a torn tail. Renames a damaged file to
    /// `….damaged`, after a checkpoint holds everything readable in it. Takes over a journal of the first format and
    /// keeps its files in the folder `closed`.
    ///
    /// # Errors
    /// `locked` with the holder's pid when another process (or this one) has it open, `not_supported` for a journal of a
    /// newer version, and those of the disk.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Opened> {
        Self::open_with(dir, JournalOptions::default())
    }

    /// Reads the journal in `dir` without changing it, also while another process writes it. A missing folder reads as an
    /// empty journal; a record that is being written may show as a torn tail.
    ///
    /// # Errors
    /// `not_supported` if a newer version wrote it; I/O errors.
    pub fn read(dir: impl AsRef<Path>) -> Result<(State, Vec<Warning>)> {
        let dir = dir.as_ref();
        // Bounded: records that are really missing look the same as a segment that was replaced meanwhile.
        let mut tries = 5;
        loop {
            tries -= 1;
            match read::read(dir) {
                // Between listing and reading, the writer may replace old segments by a checkpoint: list again.
                Ok(contents) if tries > 0 && contents.warnings.iter().any(Warning::is_missing) => {}
                Ok(mut contents) => {
                    if contents.is_legacy {
                        contents.state = legacy::read(dir)?.0;
                    }
                    return Ok((contents.state, contents.warnings));
                }
                Err(error) if error.kind() == ErrorKind::NotFound && !dir.exists() => {
                    return Ok(Default::default());
                }
                // A segment was pruned after it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound && tries > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the pid of the process that has the journal in `dir` open, or `None` if no such process is alive.
    ///
    /// Takes no lock, so that asking cannot keep an orchestrator from opening the journal. The price is that a reused
    /// pid is taken for the writer.
    #[must_use]
    pub fn writer(dir: impl AsRef<Path>) -> Option<u32> {
        let pid = fs::read_to_string(dir.as_ref().join("lock")).ok()?;
        if is_alive(&pid) { pid.trim().parse().ok() } else { None }
    }

    /// Opens the journal in `dir` with `options`; see [`open`](Self::open).
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub(crate) fn open_with(dir: impl Into<PathBuf>, options: JournalOptions) -> Result<Opened> {
        let dir = dir.into();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|error| Error::io("making the journal's folder", error).with_path(&dir))?;
        // Before anything is read: a second writer would cut off what looks like a torn tail.
        let lock = DirLock::acquire(&dir.join("lock"))?;
        legacy::take_over(&dir)?;
        let contents = read::read(&dir)?;
        if !contents.damaged.is_empty() {
            let fresh = segment::path(&dir, Kind::Checkpoint, contents.last);
            // Nothing was read from it, and the fresh one must not take its place and be put aside for it.
            let (replaced, others): (Vec<_>, Vec<_>) =
                contents.damaged.iter().partition(|path| **path == fresh);
            replaced.into_iter().try_for_each(|path| put_aside(path))?;
            // In this order: a crash between the two must not lose what only the damaged file holds.
            segment::write_checkpoint(&dir, contents.last, &contents.state)?;
            others.into_iter().try_for_each(|path| put_aside(path))?;
        }
        let (file, length) = match contents.tail {
            Some((number, length)) => (reopen(&segment::path(&dir, Kind::Segment, number), length)?, length),
            // The last segment was put aside as damaged, has no complete header, or there is none.
            None => (segment::create(&dir, contents.last + 1)?, HEADER as u64),
        };
        let id = segment::id(&dir)?;
        let state = contents.state;
        let mut journal = Self {
            dir,
            options,
            file,
            length,
            reserved: 0,
            last: contents.last,
            state: state.clone(),
            broken: false,
            _lock: lock,
        };
        journal.reserve();
        Ok(Opened { journal, id, state, recent: contents.recent, warnings: contents.warnings })
    }

    /// Writes `entries` as one record and returns once they survive a crash. After a crash, either all or none are
    /// there.
    ///
    /// # Errors
    /// `out_of_space` and the like if nothing was written; the caller may try again. After an error that leaves the
    /// content of the disk in doubt, every later call fails until the journal is opened again. `invalid_input` for
    /// entries of more than 16 MiB.
    pub fn append(&mut self, entries: &[Entry]) -> Result<()> {
        self.append_all(&[entries])?.pop().unwrap_or(Ok(()))
    }

    /// Writes several records with one sync. An inner error concerns a single record; the others are written.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(crate) fn append_all(&mut self, batches: &[&[Entry]]) -> Result<Vec<Result<()>>> {
        if self.broken {
            return Err(Error::new(
                ErrorKind::Io,
                "the journal is in doubt after a failed write; open it again",
            )
            .with_path(&self.dir));
        }
        let (mut bytes, mut number) = (Vec::new(), self.last);
        let mut positions = Vec::with_capacity(batches.len());
        for batch in batches {
            // A batch that cannot be encoded takes no number, so the numbers on disk stay consecutive.
            positions.push(encode(&mut bytes, number + 1, batch));
            number += u64::from(matches!(positions.last(), Some(Ok(()))));
        }
        self.write(&bytes)?;
        // Only after the sync: memory must never be ahead of the disk.
        self.last = number;
        for (batch, _) in batches.iter().zip(&positions).filter(|(_, position)| position.is_ok()) {
            batch.iter().for_each(|entry| self.state.apply(entry));
        }
        if self.length >= self.options.segment_bytes {
            // The entries themselves are safe, so a checkpoint that fails (a full disk) only waits for the next append.
            if let Err(error) = self.checkpoint() {
                tracing::warn!(error = %error.report(), "could not write a journal checkpoint");
            }
        }
        Ok(positions)
    }

    /// Writes the folded state to disk, begins a new segment, and removes the files that the previous checkpoint covers.
    ///
    /// # Errors
    /// I/O errors; the journal goes on in its old segment.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        segment::write_checkpoint(&self.dir, self.last, &self.state)?;
        // Only after the checkpoint is durable. Until then the old segment is the only copy.
        (self.file, self.length) = (segment::create(&self.dir, self.last + 1)?, HEADER as u64);
        // What was reserved belongs to the old segment.
        self.reserved = 0;
        self.reserve();
        self.prune()
    }

    /// Returns true if no append can succeed until the journal is opened again.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Lets every later write fail, as on a disk that is gone.
    #[cfg(test)]
    pub(crate) fn lose_disk(&mut self) {
        self.file = File::options().write(true).open("/dev/full").unwrap();
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = |error| Error::io("writing the journal", error).with_path(&self.dir);
        if let Err(error) = self.file.write_all(bytes) {
            // Part of the bytes may be in the file. Without cutting them off, the next record would follow garbage.
            // The cut frees what was reserved.
            self.reserved = 0;
            self.broken = self
                .file
                .set_len(self.length)
                .and_then(|()| self.file.seek(SeekFrom::Start(self.length)))
                .is_err();
            return Err(failed(error));
        }
        if let Err(error) = self.file.sync_data() {
            // Linux may drop the dirty pages after a failed fsync and reports the error only once: a second sync
            // would succeed although the data is lost.
            self.broken = true;
            return Err(failed(error));
        }
        self.length += bytes.len() as u64;
        self.reserve();
        Ok(())
    }

    /// Reserves space for the next records, so that on a full disk lives can still say why they wait.
    fn reserve(&mut self) {
        #[cfg(target_os = "linux")]
        if self.reserved < self.length + RESERVE / 2 {
            // Keeps the length as well: zeros behind the last record would read as a torn tail.
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            // A file system that cannot do it, or is full, is no worse than before.
            if rustix::fs::fallocate(&self.file, flags, self.length, RESERVE).is_ok() {
                self.reserved = self.length + RESERVE;
            }
        }
    }

    /// Removes old files. Keeps two checkpoints and the segments since the older one, so that one damaged checkpoint
    /// loses nothing.
    fn prune(&self) -> Result<()> {
        let checkpoints = segment::list(&self.dir, Kind::Checkpoint)?;
        let Some(oldest) = checkpoints.len().checked_sub(2).and_then(|index| checkpoints.get(index)) else {
            return Ok(());
        };
        let segments = segment::list(&self.dir, Kind::Segment)?;
        // A segment is named after its first record, so its last one is known only from the name of the next.
        let old_segments = segments
            .windows(2)
            .filter(|pair| matches!(pair, [_, next] if *next <= oldest + 1))
            .filter_map(|pair| pair.first())
            .map(|number| segment::path(&self.dir, Kind::Segment, *number));
        let old_checkpoints = checkpoints
            .iter()
            .filter(|number| *number < oldest)
            .map(|number| segment::path(&self.dir, Kind::Checkpoint, *number));
        for path in old_checkpoints.chain(old_segments) {
            fs::remove_file(&path)
                .map_err(|error| Error::io("removing an old journal file", error).with_path(&path))?;
        }
        segment::sync_dir(&self.dir)
    }
}

fn encode(bytes: &mut Vec<u8>, number: u64, entries: &[Entry]) -> Result<()> {
    let payload = serde_json::to_vec(entries)
        .map_err(|error| Error::new(ErrorKind::InvalidInput, "an entry has no JSON").with_source(error))?;
    if payload.len() > frame::MAX_PAYLOAD {
        return Err(Error::new(ErrorKind::InvalidInput, "the entries are too long for one record")
            .with("bytes", payload.len())
            .with("limit", frame::MAX_PAYLOAD));
    }
    frame::write(bytes, number, &payload);
    Ok(())
}

fn reopen(path: &Path, length: u64) -> Result<File> {
    let failed = |error| Error::io("opening the journal", error).with_path(path);
    let mut file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    // Cuts a torn tail off before the first append, and makes the cut durable: it must not come back after a crash
    // behind records that were written since.
    file.set_len(length)
        .and_then(|()| file.seek(SeekFrom::Start(length)))
        .and_then(|_| file.sync_all())
        .map_err(failed)?;
    Ok(file)
}

fn put_aside(path: &Path) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    fs::rename(path, &name)
        .map_err(|error| Error::io("renaming a damaged journal file", error).with_path(path))
}

#[cfg(test)]
mod tests;
