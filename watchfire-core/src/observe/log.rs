//! The log of one session, or of the orchestrator: the writer's side.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::cursor::Cursor;
use super::lane::{LaneLimits, Loss};
use super::record::{Body, Kind};
use super::ring::Ring;
use super::sanitize::{Sanitizer, Strip};
use super::slots::{Slot, WatcherSlots};
use crate::Result;
use crate::backend::Source;
use crate::clock::Clock;

/// The longest piece in which output is kept, in bytes.
const PIECE: usize = 8 * 1024;

/// Who a log is about, in words for its readers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Subject {
    /// Its name for people.
    pub name: String,
    /// The backend; empty for the orchestrator.
    pub provider: String,
}

impl Subject {
    /// An agent called `name`, run by `provider`.
    pub fn new(name: impl Into<String>, provider: impl Into<String>) -> Self {
        Self { name: name.into(), provider: provider.into() }
    }
}

/// How much a log keeps, and for how many watchers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// How much output. 256 KiB, with its sanitised text: some thousand lines.
    pub output: LaneLimits,
    /// How much of the transcript. 256 KiB.
    pub transcript: LaneLimits,
    /// How much of each other kind. 64 KiB: hundreds of changes.
    pub other: LaneLimits,
    /// How many may watch this log at once. 32.
    pub watchers: usize,
    /// The places that it shares with other logs.
    pub slots: WatcherSlots,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            output: LaneLimits::new(4096, 256 * 1024),
            transcript: LaneLimits::new(1024, 256 * 1024),
            other: LaneLimits::new(512, 64 * 1024),
            watchers: 32,
            slots: WatcherSlots::default(),
        }
    }
}

impl LogOptions {
    /// Sets how much output is kept.
    #[must_use]
    pub fn with_output(mut self, limits: LaneLimits) -> Self {
        self.output = limits;
        self
    }

    /// Sets how much of the transcript is kept.
    #[must_use]
    pub fn with_transcript(mut self, limits: LaneLimits) -> Self {
        self.transcript = limits;
        self
    }

    /// Sets how much of each other kind is kept.
    #[must_use]
    pub fn with_other(mut self, limits: LaneLimits) -> Self {
        self.other = limits;
        self
    }

    /// Sets how many may watch at once: this log, and all that share `slots`.
    #[must_use]
    pub fn with_watchers(mut self, watchers: usize, slots: WatcherSlots) -> Self {
        (self.watchers, self.slots) = (watchers, slots);
        self
    }
}

/// The record log of one session, or of the orchestrator. A clone is the same log.
///
/// Writing takes a short lock and never waits for a reader. Records can be read until the last clone is gone, also after
/// [`close`](Self::close).
#[derive(Clone)]
pub struct Log {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    ring: Mutex<Ring>,
    writer: Mutex<Writer>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) subject: Subject,
    pub(super) scope: Arc<str>,
    own_slots: WatcherSlots,
    shared_slots: WatcherSlots,
}

/// What output needs to know of the output before it.
struct Writer {
    sanitizer: Option<Box<dyn Sanitizer>>,
    strip: Strip,
    /// The start of a character whose rest has not come.
    partial: Vec<u8>,
}

impl Log {
    /// An empty log. `scope` names what it is about for good: a session id, or a word; `epoch` tells this run of the
    /// program from others, so that cursors of earlier ones are refused.
    pub fn new(
        scope: impl Into<Arc<str>>,
        epoch: u64,
        subject: Subject,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let scope = scope.into();
        let limits = |kind| match kind {
            Kind::Output => options.output,
            Kind::Transcript => options.transcript,
            _ => options.other,
        };
        let writer = Writer { sanitizer: None, strip: Strip::new(), partial: Vec::new() };
        Self {
            shared: Arc::new(Shared {
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

    /// Uses `sanitizer` instead of the built-in one, from the next output on.
    #[must_use]
    pub fn with_sanitizer(self, sanitizer: Box<dyn Sanitizer>) -> Self {
        lock(&self.shared.writer).sanitizer = Some(sanitizer);
        self
    }

    /// Adds a record and gives back its cursor. A status that is the current one adds nothing. Of a record too long to
    /// keep, what was cut is counted in [`Record::omitted_bytes`](super::Record::omitted_bytes).
    pub fn push(&self, source: Source, mut body: Body) -> Cursor {
        if let Body::Output { bytes, .. } = &body {
            return self.push_output(&bytes.clone());
        }
        let limit = self.change(|ring| ring.payload_limit(body.kind()), false);
        let omitted = body.cut(limit);
        let now = self.shared.clock.now();
        self.change(
            |ring| {
                ring.push(now, source, body, omitted);
                ring.cursor(ring.latest())
            },
            true,
        )
    }

    /// Adds output, in pieces that end between characters, and gives back the cursor of the last.
    pub fn push_output(&self, bytes: &[u8]) -> Cursor {
        let mut writer = lock(&self.shared.writer);
        let pieces = writer.pieces(bytes);
        self.push_pieces(pieces)
        // The writer's lock goes last: pieces of two callers must not mix.
    }

    /// The end: wakes everyone who waits; what waits for more is told that nothing comes. Records stay readable.
    pub fn close(&self) {
        let mut writer = lock(&self.shared.writer);
        let rest = writer.finish();
        self.push_pieces(rest);
        drop(writer);
        self.change(|ring| ring.closed = true, true);
    }

    /// Forgets all records: cursors from before are expired.
    pub fn clear(&self) {
        self.change(Ring::clear, true);
    }

    /// Says whether text can be delivered now.
    pub fn set_input_available(&self, available: bool) {
        self.change(|ring| ring.input_available = available, false);
    }

    /// The point up to which everything has happened.
    #[must_use]
    pub fn latest(&self) -> Cursor {
        self.change(|ring| ring.cursor(ring.latest()), false)
    }

    /// What of `kind` is no longer there.
    #[must_use]
    pub fn loss(&self, kind: Kind) -> Loss {
        self.change(|ring| ring.lane(kind).map(super::lane::Lane::loss), false).unwrap_or_default()
    }

    /// What the log is about, as in its cursors.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.shared.scope
    }

    /// How many wait for the next record.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.ring().waiting()
    }

    /// Places for one more watcher, until they are dropped.
    pub(super) fn take_slots(&self) -> Result<(Slot, Slot)> {
        Ok((self.shared.own_slots.take()?, self.shared.shared_slots.take()?))
    }

    /// The ring, for a moment.
    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        lock(&self.shared.ring)
    }

    fn push_pieces(&self, pieces: Vec<Body>) -> Cursor {
        let now = self.shared.clock.now();
        self.change(
            |ring| {
                for piece in pieces {
                    ring.push(now.clone(), Source::Process, piece, 0);
                }
                ring.cursor(ring.latest())
            },
            true,
        )
    }

    /// Changes the ring, and wakes whoever waits once its lock is free.
    fn change<T>(&self, change: impl FnOnce(&mut Ring) -> T, wake: bool) -> T {
        let mut ring = self.ring();
        let result = change(&mut ring);
        let waiting = if wake { ring.take_waiting() } else { Default::default() };
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

impl Writer {
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
            let whole = piece.len() - incomplete(piece);
            if whole == 0 {
                self.partial = rest.to_vec();
                break;
            }
            let (piece, after) = rest.split_at(whole);
            pieces.push(self.piece(piece));
            rest = after;
        }
        pieces
    }

    fn piece(&mut self, bytes: &[u8]) -> Body {
        let mut text = String::new();
        let lead = self.strip.feed_counting(bytes, &mut text);
        if let Some(sanitizer) = &mut self.sanitizer {
            text.clear();
            sanitizer.feed(bytes, &mut text);
        }
        Body::Output { bytes: Bytes::copy_from_slice(bytes), text: text.into(), lead }
    }

    fn finish(&mut self) -> Vec<Body> {
        let partial = std::mem::take(&mut self.partial);
        let mut pieces: Vec<Body> = if partial.is_empty() { Vec::new() } else { vec![self.piece(&partial)] };
        let mut text = String::new();
        match &mut self.sanitizer {
            Some(sanitizer) => sanitizer.finish(&mut text),
            None => self.strip.finish(&mut text),
        }
        if !text.is_empty() {
            pieces.push(Body::Output { bytes: Bytes::new(), text: text.into(), lead: 0 });
        }
        pieces
    }
}

/// How many bytes at the end are the start of a character whose rest is missing.
fn incomplete(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let end = bytes.get(start..).unwrap_or_default();
    let Some(lead) = end.iter().rposition(|byte| *byte >= 0xc0) else { return 0 };
    match std::str::from_utf8(end.get(lead..).unwrap_or_default()) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() == 0 => end.len() - lead,
        _ => 0,
    }
}

/// Locks; a writer that panicked leaves whole records.
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
