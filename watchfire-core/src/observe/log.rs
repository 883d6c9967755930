//! The writer's side of a log.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::cursor::Cursor;
use super::known::{Before, Known};
use super::lane::LaneLimits;
use super::record::{Body, RecordKind};
use super::ring::Ring;
use super::sanitize::Sanitizer;
use super::slots::{SlotGuard, WatcherSlots};
use super::store::{self, Line, RecordedOutput, Store};
use crate::Result;
use crate::backend::{Source, Status};
use crate::clock::Clock;
use crate::model::{Mode, Phase, TaskNumber, Timestamp};

/// Maximum size of an output record, in bytes. Small pieces keep eviction fine-grained: one burst of output does not
/// push out more than it needs to.
const PIECE: usize = 8 * 1024;

/// The session that a log describes, in words for its readers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct LogSubject {
    /// Display name.
    pub(crate) name: String,
    /// Name of the backend; empty for the orchestrator.
    pub(crate) provider: String,
    pub(crate) mode: Option<Mode>,
    pub(crate) phase: Option<Phase>,
    pub(crate) task: Option<TaskNumber>,
}

impl LogSubject {
    pub(crate) fn new(name: impl Into<String>, provider: impl Into<String>) -> Self {
        Self { name: name.into(), provider: provider.into(), ..Self::default() }
    }

    /// Sets what the session works on.
    #[must_use]
    pub(crate) fn with_work(
        mut self,
        mode: Option<Mode>,
        phase: Option<Phase>,
        task: Option<TaskNumber>,
    ) -> Self {
        (self.mode, self.phase, self.task) = (mode, phase, task);
        self
    }
}

/// Bounds of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// Bounds of the output, raw and sanitised together. 256 KiB by default, a few thousand lines.
    pub(crate) output: LaneLimits,
    /// Bounds of the transcript. 256 KiB by default.
    pub(crate) transcript: LaneLimits,
    /// Bounds of each other kind. 64 KiB by default, hundreds of changes.
    pub(crate) other: LaneLimits,
    /// Maximum number of watchers of this log. 32 by default.
    pub(crate) watchers: usize,
    /// Watcher slots shared with other logs.
    pub(crate) slots: WatcherSlots,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            output: LaneLimits::new(4096, 256 * 1024),
            transcript: LaneLimits::new(1024, 256 * 1024),
            other: LaneLimits::new(512, 64 * 1024),
            watchers: 32,
            slots: WatcherSlots::new(1024),
        }
    }
}

/// The record log of one session, or of the orchestrator. Clones share the log.
///
/// Writing takes a short lock and never waits for a reader. Records stay readable after the session has ended, until the
/// last clone is dropped.
#[derive(Clone)]
pub struct Log {
    pub(super) shared: Arc<LogInner>,
}

pub(super) struct LogInner {
    ring: Mutex<Ring>,
    writer: Mutex<OutputWriter>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) subject: LogSubject,
    pub(super) scope: Arc<str>,
    /// The file in which the next program finds the records.
    store: Option<Arc<Store>>,
    /// Records that are in the log already and come once more, after another program has read them.
    known: Mutex<Known>,
    own_slots: WatcherSlots,
    shared_slots: WatcherSlots,
}

/// State carried from one chunk of output to the next.
#[derive(Default)]
struct OutputWriter {
    sanitizer: Sanitizer,
    /// Start of a character whose remaining bytes have not arrived.
    partial: Vec<u8>,
    /// Position in the output of the session up to which it is in the log.
    at: u64,
    /// Number of bytes before `at` that come once more.
    again: u64,
}

impl Log {
    /// Creates an empty log.
    ///
    /// `scope` identifies the log for good, such as a session id. `epoch` identifies this run of the program, so that
    /// cursors of an earlier run do not point at other records.
    pub(crate) fn new(
        scope: impl Into<Arc<str>>,
        epoch: u64,
        subject: LogSubject,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with(scope.into(), epoch, subject, options, clock, None)
    }

    fn with(
        scope: Arc<str>,
        epoch: u64,
        subject: LogSubject,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
        store: Option<Arc<Store>>,
    ) -> Self {
        let limits = |kind| match kind {
            RecordKind::Output => options.output,
            RecordKind::Transcript => options.transcript,
            _ => options.other,
        };
        Self {
            shared: Arc::new(LogInner {
                ring: Mutex::new(Ring::new(Arc::clone(&scope), epoch, limits)),
                writer: Mutex::new(OutputWriter::default()),
                clock,
                subject,
                scope,
                store,
                known: Mutex::default(),
                own_slots: WatcherSlots::of_one_log(options.watchers),
                shared_slots: options.slots.clone(),
            }),
        }
    }

    /// Opens the log of a session that goes on, or begins: reads back what earlier programs have written to the file at `path`,
    /// and writes on. `output` has the output so far. Blocks.
    ///
    /// The session's output and conversation are then given to the log from their beginning. What is in it already adds
    /// nothing.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn open(
        scope: impl Into<Arc<str>>,
        epoch: u64,
        subject: LogSubject,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
        path: &Path,
        output: &mut dyn RecordedOutput,
    ) -> Result<Self> {
        let store = Store::open(path)?;
        let log = Self::with(scope.into(), epoch, subject, options, clock, Some(Arc::clone(&store)));
        let is_whole = log.read_back(path, output)?;
        let mut ring = log.ring();
        let epoch = match is_whole {
            Some(is_whole) => {
                // A clock that was set back must not give an epoch twice.
                let epoch = epoch.max(ring.epoch().saturating_add(1));
                ring.begin(epoch, is_whole);
                epoch
            }
            None => epoch,
        };
        store.add(&Line::Start { epoch });
        drop(ring);
        store.write();
        Ok(log)
    }

    /// Opens the log of a session that has ended, as far as it was written. Returns true with it if it is whole. Records that
    /// are added have the epoch `epoch`. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn reread(
        scope: impl Into<Arc<str>>,
        epoch: u64,
        subject: LogSubject,
        clock: Arc<dyn Clock>,
        path: &Path,
        output: &mut dyn RecordedOutput,
    ) -> Result<(Self, bool)> {
        let log = Self::with(scope.into(), epoch, subject, &LogOptions::default(), clock, None);
        let is_whole = log.read_back(path, output)?;
        let mut ring = log.ring();
        ring.replaying = true;
        // The whole conversation is in one file now.
        lock(&log.shared.known).merge();
        let is_over = is_whole == Some(true) && ring.status == Status::Off;
        if let Some(is_whole) = is_whole.filter(|_| !is_over) {
            ring.begin(epoch, is_whole);
        }
        drop(ring);
        Ok((log, is_over))
    }

    /// Reads the records of earlier programs. Returns `None` if there are none, and false if some may be missing.
    fn read_back(&self, path: &Path, output: &mut dyn RecordedOutput) -> Result<Option<bool>> {
        let Some(lines) = store::read(path)? else { return Ok(None) };
        let mut writer = lock(&self.shared.writer);
        let mut known = lock(&self.shared.known);
        // True after the last line of a program that has ended.
        let mut is_whole = None;
        for line in lines {
            let line = line?;
            // Not held over a read of the disk by anyone else: nobody has this log yet.
            let mut ring = self.ring();
            ring.replaying = true;
            match line {
                Some(Line::Start { epoch }) => {
                    match is_whole {
                        None => ring.begin_first(epoch),
                        Some(is_whole) => ring.begin(epoch, is_whole),
                    }
                    is_whole = Some(false);
                }
                Some(Line::Record { seq, at, source, omitted, body }) => {
                    let body = Body::from(body);
                    known.add(source, &body);
                    ring.restore(seq, at, source, body, omitted);
                }
                Some(Line::Output(seq, at, offset, length)) => {
                    writer.at = offset + length;
                    match output.read(offset, length) {
                        Some(bytes) => {
                            let piece = writer.restored(&bytes);
                            let at = Timestamp::from_unix_millis(at);
                            ring.restore(seq, at, Source::Process, piece, 0);
                        }
                        None => ring.lose_output(seq),
                    }
                }
                Some(Line::End {}) => is_whole = Some(true),
                Some(Line::Cut {}) => known.lose_track(),
                // Torn: what was in it is missing.
                None => is_whole = is_whole.and(Some(false)),
            }
        }
        let mut ring = self.ring();
        ring.replaying = false;
        writer.again = writer.at;
        // The output comes once more from its beginning, through the same state.
        writer.sanitizer = Sanitizer::default();
        ring.set_output_end(output.before(writer.at));
        Ok(is_whole)
    }

    /// Returns true if the record is in the log already. Each is known once.
    fn knows(&self, source: Source, body: &Body) -> bool {
        lock(&self.shared.known).take(source, body)
    }

    /// Notes that what is taken in of the conversation next has the ends of so many turns.
    pub(crate) fn read_turns(&self, ended: usize) {
        lock(&self.shared.known).read_turns(ended);
    }

    /// Returns true if the log of an earlier program has this question, as the event `questions` has it. It is known once.
    pub(crate) fn knows_question(&self, question: &serde_json::Value) -> bool {
        lock(&self.shared.known).take_question(question)
    }

    /// Returns true if what `source` says was in the log of an earlier program already, and is only read again.
    pub(crate) fn is_repeated(&self, source: Source, body: &Body) -> bool {
        lock(&self.shared.known).has(source, body)
    }

    /// Returns how the agent stood when the earlier program ended.
    pub(crate) fn before(&self) -> Before {
        lock(&self.shared.known).before()
    }

    /// Notes that the conversation was read once from its beginning: everything that comes now is new.
    pub(crate) fn caught_up(&self) {
        lock(&self.shared.known).forget(Source::Transcript);
    }

    /// Notes that `length` bytes of output are missing.
    pub(crate) fn skip_output(&self, length: u64) {
        let mut writer = lock(&self.shared.writer);
        let skipped = writer.again.min(length);
        writer.again -= skipped;
        if skipped < length {
            // A character that was begun has no end.
            let rest = writer.rest();
            self.push_pieces(&self.shared.clock.now(), rest, &mut writer);
            writer.at += length - skipped;
            self.change(|ring| ring.skip_output(length - skipped), false);
        }
    }

    /// Adds a record and returns its cursor.
    ///
    /// A status that is already current adds no record. An oversized record is truncated, and
    /// [`Record::omitted_bytes`](super::Record::omitted_bytes) counts the difference.
    pub(crate) fn push(&self, source: Source, body: Body) -> Cursor {
        // Before any lock: a clock of the embedder may be slow.
        self.push_at(self.shared.clock.now(), source, body)
    }

    /// Adds a record of another time. Readers find records in the order in which they were added.
    pub(crate) fn push_at(&self, time: Timestamp, source: Source, mut body: Body) -> Cursor {
        // Output goes through the writer, which holds back incomplete characters and sequences.
        if let Body::Output { bytes, .. } = &body {
            return self.push_output_at(&time, &bytes.clone());
        }
        // Two locks, because cutting takes time. The limit is constant, so nothing can change in between.
        let limit = self.change(|ring| ring.payload_limit(body.kind()), false);
        let omitted = body.cut(limit);
        if self.knows(source, &body) {
            return self.latest();
        }
        let cursor = self.change(
            |ring| {
                let record = ring.push(time, source, body, omitted);
                // Under the lock, so that the lines are in order.
                if let (Some(store), Some(record)) = (&self.shared.store, record) {
                    store.add_record(&record, 0);
                }
                ring.end()
            },
            true,
        );
        self.flush();
        cursor
    }

    /// Adds output, split into records that end between characters, and returns the cursor of the last.
    pub(crate) fn push_output(&self, bytes: &[u8]) -> Cursor {
        self.push_output_at(&self.shared.clock.now(), bytes)
    }

    fn push_output_at(&self, time: &Timestamp, bytes: &[u8]) -> Cursor {
        // Held until the pieces are in the ring: pieces of two callers must not interleave.
        let mut writer = lock(&self.shared.writer);
        let again = usize::try_from(writer.again).unwrap_or(usize::MAX).min(bytes.len());
        let (old, bytes) = bytes.split_at(again);
        if !old.is_empty() {
            // Only for the state of the sanitizer.
            writer.again -= old.len() as u64;
            writer.sanitizer.feed(old, &mut String::new());
        } else {
            // Everything that was said in the output so far has come once more.
            lock(&self.shared.known).forget(Source::Protocol);
        }
        let pieces = writer.pieces(bytes);
        self.push_pieces(time, pieces, &mut writer)
    }

    /// Returns the retained output from byte `offset` on, and the offset at which it begins: a later one if those bytes are gone
    /// or missing.
    #[cfg(feature = "orchestrator")]
    pub(crate) fn output_from(&self, offset: u64) -> (u64, Vec<u8>) {
        // Held over both reads: bytes that move from `partial` into the ring must not be seen twice or not at
        // all.
        let writer = lock(&self.shared.writer);
        let (start, pieces) = self.ring().output_from(offset);
        let mut bytes = pieces.concat();
        bytes.extend_from_slice(&writer.partial);
        let before = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..before);
        (start + before as u64, bytes)
    }

    /// Closes the log: streams end, and watches that are still waiting fail. Records stay readable.
    pub(crate) fn close(&self) {
        // Nothing completes the rest any more, so it is written as it is.
        let mut writer = lock(&self.shared.writer);
        let rest = writer.finish();
        self.push_pieces(&self.shared.clock.now(), rest, &mut writer);
        drop(writer);
        // Last: a reader that finds the log closed takes what it has read for everything.
        let end = |ring: &mut Ring| {
            ring.closed = true;
            if let Some(store) = &self.shared.store {
                store.add(&Line::End {});
            }
        };
        self.change(end, true);
        // Here and not on another thread: the next program may read the file at once.
        self.shared.store.iter().for_each(|store| store.write());
    }

    /// Sets whether text can be delivered now.
    pub(crate) fn set_input_available(&self, available: bool) {
        self.change(|ring| ring.input_available = available, false);
    }

    /// Returns the cursor before the first record.
    #[must_use]
    pub fn beginning(&self) -> Cursor {
        self.ring().cursor(0)
    }

    /// Returns the cursor of the last record.
    #[must_use]
    pub fn latest(&self) -> Cursor {
        self.change(|ring| ring.end(), false)
    }

    /// Returns what has been evicted of `kind`.
    #[cfg(test)]
    pub(super) fn loss(&self, kind: RecordKind) -> super::lane::Loss {
        self.ring().lane(kind).map(super::lane::Lane::loss).unwrap_or_default()
    }

    /// Returns the number of tasks that wait for the next record.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.ring().waiting()
    }

    /// Takes the slots of one watcher, of this log and of all, until they are dropped.
    pub(super) fn take_slots(&self) -> Result<(SlotGuard, SlotGuard)> {
        // If the second is refused, the guard of the first gives its slot back.
        Ok((self.shared.own_slots.take()?, self.shared.shared_slots.take()?))
    }

    /// Locks the ring. Callers must not wait, or wake a task, while they hold it.
    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        lock(&self.shared.ring)
    }

    fn push_pieces(&self, time: &Timestamp, pieces: Vec<Body>, writer: &mut OutputWriter) -> Cursor {
        let cursor = self.change(
            |ring| {
                for piece in pieces {
                    let length = match &piece {
                        Body::Output { bytes, .. } => bytes.len() as u64,
                        _ => 0,
                    };
                    let record = ring.push(time.clone(), Source::Process, piece, 0);
                    if let (Some(store), Some(record)) = (&self.shared.store, record) {
                        store.add_record(&record, writer.at);
                    }
                    writer.at += length;
                }
                ring.end()
            },
            true,
        );
        self.flush();
        cursor
    }

    /// Writes all records so far to the file, if there is one. Blocks.
    pub(crate) fn write(&self) {
        self.shared.store.iter().for_each(|store| store.write());
    }

    fn flush(&self) {
        self.shared.store.iter().for_each(Store::flush);
    }

    /// Applies `change` to the ring and, if `wake` is set, wakes all waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut Ring) -> T, wake: bool) -> T {
        let mut ring = self.ring();
        let result = change(&mut ring);
        let waiting = if wake { ring.take_waiting() } else { Vec::new() };
        // A waker may run the woken task at once, on this thread, and that task locks the ring.
        drop(ring);
        waiting.into_iter().for_each(std::task::Waker::wake);
        result
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("latest", &self.latest()).finish_non_exhaustive()
    }
}

impl OutputWriter {
    /// Splits `bytes` into output records that do not end inside a character.
    fn pieces(&mut self, bytes: &[u8]) -> Vec<Body> {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
            joined.as_slice()
        };
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let complete = piece.len() - incomplete(piece);
            // Only the start of a character is left: it goes into the record that gets its end.
            if complete == 0 {
                self.partial = rest.to_vec();
                break;
            }
            let (piece, after) = rest.split_at(complete);
            pieces.push(self.piece(piece));
            rest = after;
        }
        pieces
    }

    fn piece(&mut self, bytes: &[u8]) -> Body {
        let mut text = String::new();
        let lead = self.sanitizer.feed_counting(bytes, &mut text);
        Body::Output { bytes: Bytes::copy_from_slice(bytes), text: text.into(), lead }
    }

    /// Returns a record that is read back.
    fn restored(&mut self, bytes: &[u8]) -> Body {
        if !bytes.is_empty() {
            return self.piece(bytes);
        }
        // The text that was held back until the end.
        let mut text = String::new();
        self.sanitizer.finish(&mut text);
        Body::Output { bytes: Bytes::new(), text: text.into(), lead: 0 }
    }

    /// Returns the record for a character that was begun.
    fn rest(&mut self) -> Vec<Body> {
        let partial = std::mem::take(&mut self.partial);
        if partial.is_empty() { Vec::new() } else { vec![self.piece(&partial)] }
    }

    /// Returns the records for everything that was held back.
    fn finish(&mut self) -> Vec<Body> {
        let mut pieces = self.rest();
        let mut text = String::new();
        self.sanitizer.finish(&mut text);
        if !text.is_empty() {
            pieces.push(Body::Output { bytes: Bytes::new(), text: text.into(), lead: 0 });
        }
        pieces
    }
}

/// Returns the number of bytes at the end that begin a character without completing it.
fn incomplete(bytes: &[u8]) -> usize {
    // UTF-8 has at most four bytes, so an incomplete character has at most three.
    let start = bytes.len().saturating_sub(3);
    let end = bytes.get(start..).unwrap_or_default();
    // Only a lead byte can begin a character; continuation bytes alone are invalid, not incomplete.
    let Some(lead) = end.iter().rposition(|byte| *byte >= 0xc0) else { return 0 };
    match std::str::from_utf8(end.get(lead..).unwrap_or_default()) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() == 0 => end.len() - lead,
        _ => 0,
    }
}

/// Locks `mutex`, ignoring poison: records are added in one step, so a panic cannot leave half of one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_never_torn() {
        assert_eq!(incomplete("a▐".as_bytes()), 0);
        assert_eq!(incomplete(&"a▐".as_bytes()[..3]), 2);
        assert_eq!(incomplete(&"a▐".as_bytes()[..2]), 1);
        assert_eq!(incomplete(&"😀".as_bytes()[..3]), 3);
        assert_eq!(incomplete(b"\xff\xff"), 0);
        assert_eq!(incomplete(b"\xe2a"), 0);
        assert_eq!(incomplete(b""), 0);
    }
}
