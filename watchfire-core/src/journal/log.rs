//! The journal itself.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::entry::{Entry, Position};
use super::fold::{State, fold};
use super::frame;
use super::lock::DirLock;
use super::read::{self, Warning};
use super::segment::{self, HEADER, Kind};
use crate::{Error, ErrorKind, Result};

/// How a journal behaves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JournalOptions {
    /// The length from which a segment is closed and a checkpoint written, in bytes. 1 MiB: read back in milliseconds.
    pub segment_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { segment_bytes: 1 << 20 }
    }
}

impl JournalOptions {
    /// Sets the length from which a segment is closed.
    #[must_use]
    pub fn with_segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }
}

/// A journal in a folder of its own, with one writer. Every call may block on the disk.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    options: JournalOptions,
    file: File,
    /// The length of the current segment: everything before it is whole and on disk.
    length: u64,
    last: u64,
    state: State,
    /// A write to the disk failed in a way after which nobody knows what is there.
    broken: bool,
    _lock: DirLock,
}

impl Journal {
    /// Opens the journal in `dir`, making it if it is not there, and gives back what it says. A torn tail is cut off; a
    /// damaged file is put aside under `….damaged` once what can be read of it is safe in a checkpoint.
    ///
    /// # Errors
    /// `locked` with the holder's pid when another process (or this one) has it open, `not_supported` for a journal of a
    /// newer version, and those of the disk.
    pub fn open(dir: impl Into<PathBuf>) -> Result<(Self, State, Vec<Warning>)> {
        Self::open_with(dir, JournalOptions::default())
    }

    /// What the journal in `dir` says right now, also while another process writes it. Changes nothing; a folder that
    /// is not there says nothing. A record that is just being written may show as a torn tail.
    ///
    /// # Errors
    /// `not_supported` for a journal of a newer version, and those of the disk.
    pub fn read(dir: impl AsRef<Path>) -> Result<(State, Vec<Warning>)> {
        let dir = dir.as_ref();
        let mut tries = 5;
        loop {
            tries -= 1;
            match read::read(dir) {
                // A checkpoint has just taken the place of what was listed.
                Ok(contents) if tries > 0 && contents.warnings.iter().any(Warning::is_missing) => {}
                Ok(contents) => return Ok((contents.state, contents.warnings)),
                Err(error) if error.kind() == ErrorKind::NotFound && !dir.exists() => {
                    return Ok(Default::default());
                }
                Err(error) if error.kind() == ErrorKind::NotFound && tries > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The pid of the process that has the journal in `dir` open; none when nobody has, or that process is gone. Takes
    /// no lock, so it keeps nobody from opening it. A process that happens to have the same pid now is taken for it.
    #[must_use]
    pub fn writer(dir: impl AsRef<Path>) -> Option<u32> {
        let pid: i32 = fs::read_to_string(dir.as_ref().join("lock")).ok()?.trim().parse().ok()?;
        let alive = match rustix::process::test_kill_process(Pid::from_raw(pid)?) {
            Err(error) => error == rustix::io::Errno::PERM,
            Ok(()) => true,
        };
        alive.then_some(pid.unsigned_abs())
    }

    /// Opens the journal in `dir`; see [`open`](Self::open).
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with(
        dir: impl Into<PathBuf>,
        options: JournalOptions,
    ) -> Result<(Self, State, Vec<Warning>)> {
        let dir = dir.into();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|error| Error::io("making the journal's folder", error).with_path(&dir))?;
        let lock = DirLock::acquire(&dir.join("lock"))?;
        let contents = read::read(&dir)?;
        if !contents.damaged.is_empty() {
            segment::write_checkpoint(&dir, contents.last, &contents.state)?;
            for path in &contents.damaged {
                put_aside(path)?;
            }
        }
        let (file, length) = match contents.tail {
            Some((number, length)) => (reopen(&segment::path(&dir, Kind::Segment, number), length)?, length),
            None => (segment::create(&dir, contents.last + 1)?, HEADER as u64),
        };
        let state = contents.state;
        let journal = Self {
            dir,
            options,
            file,
            length,
            last: contents.last,
            state: state.clone(),
            broken: false,
            _lock: lock,
        };
        Ok((journal, state, contents.warnings))
    }

    /// Writes `entries` as one record: after a crash all of them are there or none. When this returns, they survive one.
    ///
    /// # Errors
    /// `out_of_space` and the like when nothing was written: it may be tried again. After an error that leaves in doubt
    /// what is on disk, every later call fails too, until the journal is opened again. `invalid_input` for entries of
    /// more than 16 MiB.
    pub fn append(&mut self, entries: &[Entry]) -> Result<Position> {
        self.append_all(&[entries]).and_then(|mut positions| {
            positions
                .pop()
                .unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "an append without a position")))
        })
    }

    /// Writes several records with one sync. The outer error is that of the disk, and then none of them is written; an
    /// inner one concerns a single record.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    pub fn append_all(&mut self, batches: &[&[Entry]]) -> Result<Vec<Result<Position>>> {
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
            positions.push(encode(&mut bytes, number + 1, batch));
            number += u64::from(matches!(positions.last(), Some(Ok(_))));
        }
        self.write(&bytes)?;
        self.last = number;
        for (batch, _) in batches.iter().zip(&positions).filter(|(_, position)| position.is_ok()) {
            batch.iter().for_each(|entry| fold(&mut self.state, entry));
        }
        if self.length >= self.options.segment_bytes {
            // The entries are safe. If there is no room for a checkpoint now, there may be after the next append.
            if let Err(error) = self.checkpoint() {
                tracing::warn!(error = %error.report(), "could not write a journal checkpoint");
            }
        }
        Ok(positions)
    }

    /// Puts the folded state on disk, begins a new segment and removes what the checkpoint before the last made needless.
    ///
    /// # Errors
    /// Those of the disk; the journal goes on in its old segment.
    pub fn checkpoint(&mut self) -> Result<()> {
        segment::write_checkpoint(&self.dir, self.last, &self.state)?;
        (self.file, self.length) = (segment::create(&self.dir, self.last + 1)?, HEADER as u64);
        self.prune()
    }

    /// What all entries fold to.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where the last append is; 0 before the first.
    #[must_use]
    pub fn position(&self) -> Position {
        Position(self.last)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = |error| Error::io("writing the journal", error).with_path(&self.dir);
        if let Err(error) = self.file.write_all(bytes) {
            // Part of it may be there: back to where we were, or give up.
            self.broken = self
                .file
                .set_len(self.length)
                .and_then(|()| self.file.seek(SeekFrom::Start(self.length)))
                .is_err();
            return Err(failed(error));
        }
        if let Err(error) = self.file.sync_data() {
            // The kernel may have dropped the pages and will say so only once.
            self.broken = true;
            return Err(failed(error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Two checkpoints stay, and the segments since the older one: one damaged checkpoint loses nothing.
    fn prune(&self) -> Result<()> {
        let checkpoints = segment::list(&self.dir, Kind::Checkpoint)?;
        let Some(kept) = checkpoints.len().checked_sub(2).and_then(|index| checkpoints.get(index)) else {
            return Ok(());
        };
        let segments = segment::list(&self.dir, Kind::Segment)?;
        let old_segments = segments
            .windows(2)
            .filter(|pair| matches!(pair, [_, next] if *next <= kept + 1))
            .filter_map(|pair| pair.first())
            .map(|number| segment::path(&self.dir, Kind::Segment, *number));
        let old_checkpoints = checkpoints
            .iter()
            .filter(|number| *number < kept)
            .map(|number| segment::path(&self.dir, Kind::Checkpoint, *number));
        for path in old_checkpoints.chain(old_segments) {
            fs::remove_file(&path)
                .map_err(|error| Error::io("removing an old journal file", error).with_path(&path))?;
        }
        segment::sync_dir(&self.dir)
    }
}

fn encode(bytes: &mut Vec<u8>, number: u64, entries: &[Entry]) -> Result<Position> {
    let payload = serde_json::to_vec(entries)
        .map_err(|error| Error::new(ErrorKind::InvalidInput, "an entry has no JSON").with_source(error))?;
    if payload.len() > frame::MAX_PAYLOAD {
        return Err(Error::new(ErrorKind::InvalidInput, "the entries are too long for one record")
            .with("bytes", payload.len())
            .with("limit", frame::MAX_PAYLOAD));
    }
    frame::write(bytes, number, &payload);
    Ok(Position(number))
}

fn reopen(path: &Path, length: u64) -> Result<File> {
    let failed = |error| Error::io("opening the journal", error).with_path(path);
    let mut file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    file.set_len(length)
        .and_then(|()| file.seek(SeekFrom::Start(length)))
        .and_then(|_| file.sync_all())
        .map_err(failed)?;
    Ok(file)
}

fn put_aside(path: &Path) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    fs::rename(path, &name).map_err(|error| Error::io("putting a damaged file aside", error).with_path(path))
}

#[cfg(test)]
mod tests;
