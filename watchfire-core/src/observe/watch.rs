//! Asking a log once: now, or when something comes true.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::condition::{Condition, Matcher};
use super::cursor::Cursor;
use super::lane::Lane;
use super::log::Log;
use super::record::{Body, Kind, Record};
use super::ring::Ring;
use super::sanitize::{Strip, present};
use super::wire::{
    AgentView, DeliveryView, EventView, Include, OutputView, TranscriptView, WatchRequest, WatchResponse,
};
use crate::backend::Status;
use crate::{Error, ErrorKind, Result};

/// How many records a waiting watcher looks at before it lets others have the lock.
const BATCH: usize = 256;

/// Where an answer begins, and what was lost before it.
struct Start {
    sequence: u64,
    lost_output: u64,
    lost_transcript: u64,
    /// Nothing before it was asked for: what is gone is not missing.
    open: bool,
}

impl Log {
    /// Answers at once. `until` is not looked at.
    ///
    /// # Errors
    /// `invalid_cursor` with the `reason` (`malformed`, `foreign`, `other_epoch`, `future`); `cursor_expired` when
    /// something that was asked for is no longer there, with the `oldest_available_cursor` from which on nothing is
    /// missing.
    pub fn snapshot(&self, request: &WatchRequest) -> Result<WatchResponse> {
        let start = self.start(request, &request.kinds())?;
        Ok(self.answer(request, &start, None))
    }

    /// Answers when `until` has come true, or at once without it.
    ///
    /// What happened before does not count, unless `since` reaches back to it, or `accept_current` is set and the status
    /// is there already. The condition sees every record, however short the answer is cut. Dropping the future frees its
    /// place.
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot); `unsupported_watch_condition`; `watch_timeout`; `too_many_watchers`;
    /// `gap_detected` when records that could have fulfilled the condition were lost; `target_off` when the session ends
    /// first (or, for a status, fails).
    pub async fn watch(&self, request: &WatchRequest) -> Result<WatchResponse> {
        let Some(until) = &request.until else { return self.snapshot(request) };
        let condition: Condition = until.parse()?;
        let _slots = self.take_slots()?;
        let mut kinds = request.kinds();
        kinds.extend(condition.kinds());
        let start = self.start(request, &kinds)?;
        if request.accept_current && self.is_now(&condition) {
            return Ok(self.answer(request, &start, None));
        }
        let matched = self.wait(condition, start.sequence, Duration::from_millis(request.timeout_ms)).await?;
        Ok(self.answer(request, &start, Some(matched)))
    }

    fn is_now(&self, condition: &Condition) -> bool {
        let ring = self.ring();
        matches!(condition, Condition::Status(status) if ring.status_at.is_some() && ring.status == *status)
    }

    fn start(&self, request: &WatchRequest, kinds: &[Kind]) -> Result<Start> {
        let cursor = request.since.as_deref().map(str::parse::<Cursor>).transpose()?;
        let ring = self.ring();
        let (sequence, open) = match &cursor {
            Some(cursor) => (ring.resolve(cursor)?, false),
            None if request.until.is_some() => (ring.latest(), false),
            None => (0, true),
        };
        if let Some(cursor) = cursor.filter(|_| ring.oldest(kinds) > sequence) {
            let message = "what followed this cursor is no longer kept";
            return Err(
                lost(ErrorKind::CursorExpired, message, &ring, kinds).with("requested_cursor", cursor)
            );
        }
        let lost = |kind| ring.lane(kind).map_or(0, |lane| lane.loss().bytes);
        Ok(Start { sequence, lost_output: lost(Kind::Output), lost_transcript: lost(Kind::Transcript), open })
    }

    async fn wait(&self, condition: Condition, start: u64, timeout: Duration) -> Result<Cursor> {
        let clock = &self.shared.clock;
        let deadline = clock.boot_time().saturating_add(timeout);
        let mut expired = clock.sleep_until(deadline);
        let waiter = Waiter { log: self, id: self.ring().waiter() };
        let mut kinds = condition.kinds().to_vec();
        if !kinds.contains(&Kind::Status) {
            kinds.push(Kind::Status);
        }
        let mut matcher = Matcher::new(condition);
        let mut seen = start;
        poll_fn(|context| {
            loop {
                let mut ring = self.ring();
                let needed = matcher.condition().kinds();
                if ring.oldest(needed) > seen {
                    let message = "records were lost while the watch waited";
                    return Poll::Ready(Err(lost(ErrorKind::GapDetected, message, &ring, needed)));
                }
                let records = ring.after(seen, &kinds, BATCH);
                let is_all = records.len() < BATCH;
                seen = match records.last() {
                    Some(last) if !is_all => last.cursor.sequence(),
                    _ => ring.latest(),
                };
                let closed = ring.closed || ring.status == Status::Off;
                if is_all && !closed {
                    ring.wait(waiter.id, context.waker());
                }
                drop(ring);
                for record in &records {
                    if matcher.matches(record) {
                        return Poll::Ready(Ok(record.cursor.clone()));
                    }
                    if ends(matcher.condition(), record) {
                        return Poll::Ready(Err(off(matcher.condition())));
                    }
                }
                if is_all {
                    if closed {
                        return Poll::Ready(Err(off(matcher.condition())));
                    }
                    break;
                }
            }
            expired.as_mut().poll(context).map(|()| {
                Err(Error::new(ErrorKind::WatchTimeout, "the condition did not come true in time")
                    .with("until", matcher.condition())
                    .with("timeout_ms", timeout.as_millis())
                    .with("latest_cursor", self.latest()))
            })
        })
        .await
    }

    fn answer(&self, request: &WatchRequest, start: &Start, matched: Option<Cursor>) -> WatchResponse {
        let ring = self.ring();
        let view = View::new(&ring, request, start);
        let shared = &self.shared;
        let agent = AgentView::new(
            shared.subject.name.clone(),
            shared.scope.to_string(),
            shared.subject.provider.clone(),
            ring.status,
            ring.status_at.as_ref().map(crate::model::Timestamp::to_millis_string),
        );
        let delivery =
            DeliveryView::new(ring.input_available, ring.last_delivery, ring.last_delivery_error.clone());
        drop(ring);
        // What costs time happens on clones of pointers, outside of the lock.
        let provider = &shared.subject.provider;
        WatchResponse {
            schema: 1,
            agent,
            cursor: view.cursor.clone(),
            matched,
            events: view.events.iter().map(|record| EventView::from(&**record)).collect(),
            transcript: request.includes(Include::Transcript).then(|| view.transcript(provider, request)),
            output: request.includes(Include::Output).then(|| view.output(request)),
            raw_output: request.includes(Include::RawOutput).then(|| view.raw_output(request)),
            delivery: request.includes(Include::Delivery).then_some(delivery),
        }
    }
}

/// What an answer is made of.
struct View {
    cursor: Cursor,
    oldest_output: Cursor,
    events: Vec<Arc<Record>>,
    output: Vec<Arc<Record>>,
    transcript: Vec<Arc<Record>>,
    lost_output: u64,
    lost_transcript: u64,
    /// The reader does not have what stood before the output, which may begin in the middle of a sequence.
    torn: bool,
}

impl View {
    fn new(ring: &Ring, request: &WatchRequest, start: &Start) -> Self {
        let lost_until = |kind| ring.lane(kind).map_or(0, Lane::lost_until);
        let lost_since = |kind, before: u64| {
            if start.open || lost_until(kind) <= start.sequence {
                return 0;
            }
            ring.lane(kind).map_or(0, |lane| lane.loss().bytes).saturating_sub(before)
        };
        let of = |class: Include, kind| {
            if request.includes(class) { ring.after(start.sequence, &[kind], usize::MAX) } else { Vec::new() }
        };
        let event_kinds: &[Kind] = if request.includes(Include::Events) {
            &[Kind::Status, Kind::Delivery, Kind::Event, Kind::Issue, Kind::Lifecycle]
        } else if request.includes(Include::Status) {
            &[Kind::Status]
        } else {
            &[]
        };
        let raw = request.includes(Include::RawOutput);
        Self {
            cursor: ring.cursor(ring.latest()),
            oldest_output: ring.cursor(lost_until(Kind::Output)),
            events: ring.after(start.sequence, event_kinds, usize::MAX),
            output: of(if raw { Include::RawOutput } else { Include::Output }, Kind::Output),
            transcript: of(Include::Transcript, Kind::Transcript),
            lost_output: lost_since(Kind::Output, start.lost_output),
            lost_transcript: lost_since(Kind::Transcript, start.lost_transcript),
            torn: request.since.is_none() || lost_until(Kind::Output) > start.sequence,
        }
    }

    fn pieces(&self) -> impl Iterator<Item = (&[u8], &str, usize)> {
        self.output.iter().filter_map(|record| match &record.body {
            Body::Output { bytes, text, lead } => Some((&**bytes, &**text, *lead)),
            _ => None,
        })
    }

    fn output(&self, request: &WatchRequest) -> OutputView {
        let text: String = self.pieces().map(|(_, text, _)| text).collect();
        OutputView::tail(
            present(&text),
            request.tail_bytes,
            self.lost_output,
            self.oldest_output.clone(),
            |_, at| at,
        )
    }

    fn raw_output(&self, request: &WatchRequest) -> OutputView {
        let mut raw = Vec::new();
        for (index, (bytes, _, lead)) in self.pieces().enumerate() {
            let skip = if index == 0 && self.torn { lead } else { 0 };
            raw.extend_from_slice(bytes.get(skip..).unwrap_or_default());
        }
        let text = String::from_utf8_lossy(&raw).into_owned();
        OutputView::tail(text, request.tail_bytes, self.lost_output, self.oldest_output.clone(), boundary)
    }

    fn transcript(&self, provider: &str, request: &WatchRequest) -> TranscriptView {
        let records = self.transcript.iter().map(|record| &**record);
        let cursor = self.cursor.clone();
        TranscriptView::new(cursor, provider, records, request.tail_bytes, self.lost_transcript)
    }
}

/// The first place from `at` on that is not inside of an escape sequence.
fn boundary(text: &str, at: usize) -> usize {
    let (mut strip, mut sink) = (Strip::new(), String::new());
    for (index, c) in text.char_indices() {
        if index >= at && strip.at_boundary() {
            return index;
        }
        sink.clear();
        strip.feed_counting(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut sink);
    }
    text.len()
}

/// Whether nothing can come after this that the condition waits for.
fn ends(condition: &Condition, record: &Record) -> bool {
    match &record.body {
        Body::Status(Status::Off) => true,
        Body::Status(Status::Error) => matches!(condition, Condition::Status(_)),
        _ => false,
    }
}

fn off(condition: &Condition) -> Error {
    Error::new(ErrorKind::TargetOff, "the session ended before the condition came true")
        .with("until", condition)
}

fn lost(kind: ErrorKind, message: &'static str, ring: &Ring, kinds: &[Kind]) -> Error {
    Error::new(kind, message)
        .with("oldest_available_cursor", ring.cursor(ring.oldest(kinds)))
        .with("latest_cursor", ring.cursor(ring.latest()))
}

/// Someone who waits; gone when dropped.
struct Waiter<'a> {
    log: &'a Log,
    id: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.log.ring().forget(self.id);
    }
}
