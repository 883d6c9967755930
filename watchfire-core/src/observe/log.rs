//! The writer's side of a log.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::cursor::Cursor;
use super::lane::LaneLimits;
use super::record::{Body, RecordKind};
use super::ring::Ring;
use super::sanitize::Sanitizer;
use super::slots::{SlotGuard, WatcherSlots};
use crate::Result;
use crate::backend::Source;
use crate::clock::Clock;
use crate::model::Timestamp;

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
}

impl LogSubject {
    pub(crate) fn new(name: impl Into<String>, provider: impl Into<String>) -> Self {
        Self { name: name.into(), provider: provider.into() }
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
    own_slots: WatcherSlots,
    shared_slots: WatcherSlots,
}

/// State carried from one chunk of output to the next.
struct OutputWriter {
    sanitizer: Sanitizer,
    /// Start of a character whose remaining bytes have not arrived.
    partial: Vec<u8>,
}

impl Log {
    /// Creates an empty log.
    ///
    /// `scope` identifies the log for good, such as a session id. `epoch` identifies this run of the program, so that
    /// cursors of an earlier run are rejected instead of pointing at other records.
    pub(crate) fn new(
        scope: impl Into<Arc<str>>,
        epoch: u64,
        subject: LogSubject,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let scope = scope.into();
        let limits = |kind| match kind {
            RecordKind::Output => options.output,
            RecordKind::Transcript => options.transcript,
            _ => options.other,
        };
        let writer = OutputWriter { sanitizer: Sanitizer::default(), partial: Vec::new() };
        Self {
            shared: Arc::new(LogInner {
                ring: Mutex::new(Ring::new(Arc::clone(&scope), epoch, limits)),
                writer: Mutex::new(writer),
                clock,
                subject,
                scope,
                own_slots: WatcherSlots::of_one_log(options.watchers),
                shared_slots: options.slots.clone(),
            }),
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
        self.change(
            |ring| {
                ring.push(time, source, body, omitted);
                ring.cursor(ring.latest())
            },
            true,
        )
    }

    /// Adds output, split into records that end between characters, and returns the cursor of the last.
    pub(crate) fn push_output(&self, bytes: &[u8]) -> Cursor {
        self.push_output_at(&self.shared.clock.now(), bytes)
    }

    fn push_output_at(&self, time: &Timestamp, bytes: &[u8]) -> Cursor {
        // Held until the pieces are in the ring: pieces of two callers must not interleave.
        let mut writer = lock(&self.shared.writer);
        let pieces = writer.pieces(bytes);
        self.push_pieces(time, pieces)
    }

    /// Returns the retained output from byte `offset` on, counted from the first that was pushed, and the offset at which
    /// it begins: a later one if the oldest bytes are gone.
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
        self.push_pieces(&self.shared.clock.now(), rest);
        drop(writer);
        // Last: a reader that finds the log closed takes what it has read for everything.
        self.change(|ring| ring.closed = true, true);
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
        self.change(|ring| ring.cursor(ring.latest()), false)
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

    fn push_pieces(&self, time: &Timestamp, pieces: Vec<Body>) -> Cursor {
        self.change(
            |ring| {
                for piece in pieces {
                    ring.push(time.clone(), Source::Process, piece, 0);
                }
                ring.cursor(ring.latest())
            },
            true,
        )
    }

    /// Applies `change` to the ring and, if `wake` is set, wakes all waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut Ring) -> T, wake: bool) -> T {
        let mut ring = self.ring();
        let result = change(&mut ring);
        let waiting = if wake { ring.take_waiting() } else { Default::default() };
        // A waker may run the woken task at once, on this thread, and that task locks the ring.
        drop(ring);
        waiting.into_values().for_each(std::task::Waker::wake);
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

    /// Returns the records for everything that was held back.
    fn finish(&mut self) -> Vec<Body> {
        let partial = std::mem::take(&mut self.partial);
        let mut pieces: Vec<Body> = if partial.is_empty() { Vec::new() } else { vec![self.piece(&partial)] };
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
