//! Writing a recording.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use super::entry::{Entry, INDEX, OUTPUT, What, path};
use crate::terminal::Size;

/// Upper bound for a segment.
const SEGMENT: u64 = 4 << 20;
/// Upper bound for all segments together. The oldest are removed beyond it.
const KEPT: u64 = 64 << 20;
/// Upper bound for the number of segments: on a disk that is full now and then, each gap begins a new one.
const SEGMENTS: usize = 64;
/// Time within which output shares an entry of the index.
const TOGETHER: u64 = 30;
/// Pause after a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// Writer of one recording. It never fails: output that cannot be written leaves a gap.
///
/// It does not fsync. A recording survives the death of every process, and a crash of the machine may cost its end.
pub(in crate::session) struct Recorder {
    folder: PathBuf,
    size: Option<Size>,
    /// Offset of the next byte.
    end: u64,
    segment: Option<Segment>,
    /// Start and length of the segments before this one, oldest first.
    older: VecDeque<(u64, u64)>,
    /// Set after a failure: when to try again.
    resume_at: Option<Instant>,
    /// The folder, locked for as long as it is written.
    lock: Option<File>,
    began: (u64, Instant),
}

struct Segment {
    start: u64,
    length: u64,
    output: File,
    index: File,
    /// Time of the last entry.
    marked: u64,
}

impl Recorder {
    /// Starts a recording in `folder`, which it creates.
    ///
    /// # Errors
    /// I/O errors: a session whose output cannot be recorded could not be watched either.
    pub(in crate::session) fn create(folder: &Path, size: Option<Size>) -> io::Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut recorder = Self {
            folder: folder.to_owned(),
            size,
            end: 0,
            segment: None,
            older: VecDeque::new(),
            resume_at: None,
            lock: None,
            began: (millis(since), Instant::now()),
        };
        recorder.segment = Some(recorder.open()?);
        Ok(recorder)
    }

    /// Returns the offset of the next byte: the length of the output so far, with its gaps.
    pub(in crate::session) fn end(&self) -> u64 {
        self.end
    }

    /// Records output that has just arrived.
    pub(in crate::session) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(count) => {
                    self.end += count as u64;
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.give_up();
                    self.end += bytes.len() as u64;
                    return;
                }
            }
        }
    }

    /// Records a change of the terminal's size.
    pub(in crate::session) fn resize(&mut self, size: Size) {
        self.size = Some(size);
        // Without a segment, the next one begins with this size.
        self.mark(What::Resize(size));
    }

    /// Records the end of the last process. `code` is the exit code of the agent itself, if it is known.
    pub(in crate::session) fn finish(mut self, code: Option<i32>) {
        self.mark(What::End(code));
    }

    fn mark(&mut self, what: What) {
        let entry = Entry { time: self.now(), offset: self.end, what };
        if self.segment.as_mut().is_some_and(|segment| segment.mark(entry).is_err()) {
            self.give_up();
        }
    }

    /// Writes a beginning of `bytes` and returns its length.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.resume_at.is_some_and(|at| Instant::now() < at) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let now = self.now();
        if self.segment.as_ref().is_none_or(|segment| segment.length >= SEGMENT) {
            self.next()?;
        }
        let Some(segment) = &mut self.segment else { return Err(io::ErrorKind::NotFound.into()) };
        if now.saturating_sub(segment.marked) >= TOGETHER {
            segment.mark(Entry { time: now, offset: self.end, what: What::Output })?;
        }
        let room = usize::try_from(SEGMENT.saturating_sub(segment.length)).unwrap_or(usize::MAX);
        let count = segment.output.write(bytes.get(..room.min(bytes.len())).unwrap_or_default())?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        segment.length += count as u64;
        Ok(count)
    }

    /// Opens the next segment, and removes the oldest ones beyond the limits.
    fn next(&mut self) -> io::Result<()> {
        let next = self.open()?;
        self.resume_at = None;
        if let Some(full) = self.segment.replace(next) {
            self.older.push_back((full.start, full.length));
        }
        let mut kept: u64 = self.older.iter().map(|(_, length)| length).sum();
        while kept + SEGMENT > KEPT || self.older.len() >= SEGMENTS {
            let Some((start, length)) = self.older.pop_front() else { break };
            self.remove(start);
            kept -= length;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<Segment> {
        // Each time: a person may remove the log of a running session, which must go on all the same.
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        let folder = File::open(&self.folder)?;
        // Once more later: a reader that looks whether the folder is locked holds the lock for a moment.
        for _ in 0..10 {
            if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                self.lock = Some(folder);
                break;
            }
            // Still locked by us, unless the folder is new.
            if self.lock.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let make = |ending| {
            // A recording may hold secrets that were typed or printed. `create_new` follows no link.
            let path = path(&self.folder, self.end, ending);
            File::options().append(true).create_new(true).mode(0o600).open(path)
        };
        // The index first: a reader looks for segments by their output.
        let index = make(INDEX)?;
        let output = make(OUTPUT).inspect_err(|_| self.remove(self.end))?;
        let mut segment = Segment { start: self.end, length: 0, output, index, marked: 0 };
        let entry = Entry { time: self.now(), offset: self.end, what: What::of(self.size) };
        segment.mark(entry).inspect_err(|_| self.remove(self.end))?;
        Ok(segment)
    }

    /// Ends the segment after a failure. What follows begins another, after a gap.
    fn give_up(&mut self) {
        match self.segment.take() {
            // Its name may be needed again, by a segment at the same offset.
            Some(empty) if empty.length == 0 => self.remove(empty.start),
            Some(ended) => self.older.push_back((ended.start, ended.length)),
            None => {}
        }
        if self.resume_at.is_none_or(|at| at <= Instant::now()) {
            self.resume_at = Some(Instant::now() + AGAIN);
        }
    }

    fn remove(&self, start: u64) {
        for ending in [OUTPUT, INDEX] {
            // A file that stays is only space.
            let _ = fs::remove_file(path(&self.folder, start, ending));
        }
    }

    /// Returns the time in milliseconds since 1970. It never goes back, although the clock of the machine may.
    fn now(&self) -> u64 {
        self.began.0.saturating_add(millis(self.began.1.elapsed()))
    }
}

impl Segment {
    /// Adds an entry, before the output that it describes.
    fn mark(&mut self, entry: Entry) -> io::Result<()> {
        self.index.write_all(&entry.encode())?;
        self.marked = entry.time;
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
