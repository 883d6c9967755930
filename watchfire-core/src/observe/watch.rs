//! Single requests to a log: a snapshot, or a watch that waits for a condition.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::condition::Condition;
use super::cursor::Cursor;
use super::lane::Lane;
use super::log::Log;
use super::matcher::Matcher;
use super::record::{Body, Record, RecordKind};
use super::ring::Ring;
use super::sanitize::{Sanitizer, present};
use super::wire::{
    AgentView, DeliveryView, EventView, Include, OutputView, TranscriptView, WatchRequest, WatchResponse,
};
use crate::backend::Status;
use crate::{Error, ErrorKind, Result};

/// Maximum number of records matched under one lock, so that a watch over a long log does not delay the writer.
const BATCH: usize = 256;

/// Position at which a response begins, and the losses up to then.
struct Start {
    sequence: u64,
    lost_output: u64,
    lost_transcript: u64,
    /// True if the request named no position: then records evicted earlier are not missing from the response.
    open: bool,
}

impl Log {
    /// Answers `request` at once, ignoring `until`.
    ///
    /// # Errors
    /// `invalid_cursor` with a `reason` (`malformed`, `foreign`, `other_epoch` or `future`); `cursor_expired` if records
    /// that were requested have been evicted, with the `oldest_available_cursor`.
    pub fn snapshot(&self, request: &WatchRequest) -> Result<WatchResponse> {
        let start = self.start(request, &request.kinds())?;
        Ok(self.respond(request, &start, None))
    }

    /// Waits until the condition `until` comes true, then answers `request`. Answers at once without a condition.
    ///
    /// Records from before the call do not count, unless `since` reaches back to them, or `accept_current` is set and
    /// the status is already the awaited one. The condition sees every record, however short the response is cut.
    /// Dropping the future frees its watcher slot.
    ///
    /// # Errors
    /// The same as [`snapshot`](Self::snapshot); `unsupported_watch_condition`; `watch_timeout`; `too_many_watchers`;
    /// `gap_detected` if records that could have satisfied the condition were evicted; `target_off` if the session ends
    /// first or, for a status condition, fails.
    pub async fn watch(&self, request: &WatchRequest) -> Result<WatchResponse> {
        self.watch_for(request, &request.kinds()).await
    }

    /// Does the same as [`watch`](Self::watch) from a position of a moment ago. That much has been printed since then is no
    /// error: the response says what is missing.
    ///
    /// # Errors
    /// The errors of [`watch`](Self::watch).
    pub(crate) async fn watch_on(&self, request: &WatchRequest) -> Result<WatchResponse> {
        self.watch_for(request, &[]).await
    }

    /// Watches, if all records of `kinds` after the position are there.
    async fn watch_for(&self, request: &WatchRequest, kinds: &[RecordKind]) -> Result<WatchResponse> {
        let Some(until) = &request.until else { return self.snapshot(request) };
        let condition: Condition = until.parse()?;
        // Held for as long as this future lives.
        let _slots = self.take_slots()?;
        let kinds: Vec<_> = kinds.iter().copied().chain(condition.kinds()).collect();
        // Fixed before the check below, so that a status change in between is seen by the wait.
        let start = self.start(request, &kinds)?;
        let mut matcher = Matcher::new(condition);
        if request.accept_current && self.status().is_some_and(|status| matcher.accepts(status)) {
            return Ok(self.respond(request, &start, None));
        }
        // No lock is held here.
        let matched = self.wait(matcher, start.sequence, Duration::from_millis(request.timeout_ms)).await?;
        Ok(self.respond(request, &start, Some(matched)))
    }

    /// Returns the status, once one was observed.
    fn status(&self) -> Option<Status> {
        let ring = self.ring();
        // Before the first status record, the ring holds a placeholder.
        ring.status_at.is_some().then_some(ring.status)
    }

    /// Resolves the position at which the response to `request` begins, and rejects it if records of `kinds` after that
    /// position are gone.
    fn start(&self, request: &WatchRequest, kinds: &[RecordKind]) -> Result<Start> {
        let cursor = request.since.as_deref().map(str::parse::<Cursor>).transpose()?;
        let ring = self.ring();
        // A watch without a position waits for news; a snapshot without one shows everything that is kept.
        let (place, open) = match &cursor {
            Some(cursor) => (Some(ring.resolve(cursor)?), false),
            None if request.until.is_some() => (Some(ring.place()), false),
            None => (None, true),
        };
        let sequence = place.map_or(0, |place| place.sequence.min(ring.latest()));
        let is_lost = place.is_some_and(|place| ring.lost_after(place).is_some());
        if let Some(cursor) = cursor.filter(|_| is_lost || ring.oldest(kinds) > sequence) {
            let message = "records after this cursor are no longer kept";
            return Err(
                lost(ErrorKind::CursorExpired, message, &ring, kinds).with("requested_cursor", cursor)
            );
        }
        // Where something is lost after the position already, everything that ever was is the upper bound.
        let before = |lane: &&Lane| open || lane.lost_until() <= sequence;
        let lost = |kind| ring.lane(kind).filter(before).map_or(0, |lane| lane.loss().bytes);
        Ok(Start {
            sequence,
            lost_output: lost(RecordKind::Output),
            lost_transcript: lost(RecordKind::Transcript),
            open,
        })
    }

    /// Waits for the first record after `start` with which the condition is true, and returns its cursor.
    async fn wait(&self, mut matcher: Matcher, start: u64, timeout: Duration) -> Result<Cursor> {
        let clock = &self.shared.clock;
        let deadline = clock.boot_time().saturating_add(timeout);
        // Made once: polling a new timer in each round would move the deadline.
        let mut expired = clock.sleep_until(deadline);
        let waiter = Waiter { log: self, id: self.ring().waiter() };
        let mut kinds = matcher.condition().kinds();
        // Status records are read for every condition: they say that the session has ended.
        if !kinds.contains(&RecordKind::Status) {
            kinds.push(RecordKind::Status);
        }
        // Kept between wake-ups: of a noisy session there are many.
        let mut needed = matcher.needed();
        let mut seen = start;
        poll_fn(|context| {
            loop {
                let mut ring = self.ring();
                // Before matching: a record that was lost may have been the one.
                if ring.oldest(&needed) > seen {
                    let message = "records were lost while the watch waited";
                    return Poll::Ready(Err(lost(ErrorKind::GapDetected, message, &ring, &needed)));
                }
                let records = ring.after(seen, &kinds, BATCH);
                let is_all = records.len() < BATCH;
                seen = match records.last() {
                    Some(last) if !is_all => last.cursor.sequence(),
                    _ => ring.latest(),
                };
                let closed = ring.closed || ring.status == Status::Off;
                // Registered under the lock under which the end was reached: no push in between can be missed.
                if is_all && !closed {
                    ring.wait(waiter.id, &kinds, context.waker());
                }
                // Matching searches text, which must not delay the writer.
                drop(ring);
                for record in &records {
                    if matcher.matches(record) {
                        return Poll::Ready(Ok(record.cursor.clone()));
                    }
                    if matcher.ends(record) {
                        return Poll::Ready(Err(off(matcher.condition())));
                    }
                }
                if !records.is_empty() {
                    needed = matcher.needed();
                }
                if is_all {
                    if closed {
                        return Poll::Ready(Err(off(matcher.condition())));
                    }
                    break;
                }
            }
            // Last, so that a condition that came true at the same moment wins over the timeout.
            expired.as_mut().poll(context).map(|()| {
                Err(Error::new(ErrorKind::WatchTimeout, "the condition did not come true in time")
                    .with("until", matcher.condition())
                    .with("timeout_ms", timeout.as_millis())
                    .with("latest_cursor", self.latest()))
            })
        })
        .await
    }

    fn respond(&self, request: &WatchRequest, start: &Start, matched: Option<Cursor>) -> WatchResponse {
        let ring = self.ring();
        let selection = Selection::new(&ring, request, start);
        let shared = &self.shared;
        let agent = AgentView::new(
            shared.subject.clone(),
            shared.scope.to_string(),
            ring.status,
            ring.status_at.as_ref().map(crate::model::Timestamp::to_millis_string),
        );
        let delivery =
            DeliveryView::new(ring.input_available, ring.last_delivery, ring.last_delivery_error.clone());
        // The selection holds pointers to records. Rendering them takes time and needs no lock.
        drop(ring);
        let provider = &shared.subject.provider;
        let transcript =
            request.includes(Include::Transcript).then(|| selection.transcript(provider, request));
        let output = request.includes(Include::Output).then(|| selection.output(request));
        let raw_output = request.includes(Include::RawOutput).then(|| selection.raw_output(request));
        let mut cut = output.iter().chain(&raw_output).map(|view| view.truncated);
        let is_cut = cut.any(|is_cut| is_cut) || transcript.as_ref().is_some_and(|it| it.truncated);
        WatchResponse {
            schema: 1,
            agent,
            cursor: selection.cursor.clone(),
            matched,
            events: selection.events.iter().map(|record| EventView::from(&**record)).collect(),
            transcript,
            output,
            raw_output,
            delivery: request.includes(Include::Delivery).then_some(delivery),
            warnings: if is_cut { vec!["output_truncated".to_owned()] } else { Vec::new() },
        }
    }
}

/// The records that a response is rendered from.
struct Selection {
    cursor: Cursor,
    oldest_output: Cursor,
    events: Vec<Arc<Record>>,
    output: Vec<Arc<Record>>,
    transcript: Vec<Arc<Record>>,
    lost_output: u64,
    lost_transcript: u64,
    /// True if the reader does not have the preceding output, so that the first record may begin inside an escape
    /// sequence.
    torn: bool,
}

impl Selection {
    fn new(ring: &Ring, request: &WatchRequest, start: &Start) -> Self {
        let lost_until = |kind| ring.lane(kind).map_or(0, Lane::lost_until);
        // Lanes count from the start of the log; only bytes lost after the start of the response are missing
        // from it.
        let lost_since = |kind, before: u64| {
            if start.open || lost_until(kind) <= start.sequence {
                return 0;
            }
            ring.lane(kind).map_or(0, |lane| lane.loss().bytes).saturating_sub(before)
        };
        let of = |class: Include, kind| {
            if request.includes(class) { ring.after(start.sequence, &[kind], usize::MAX) } else { Vec::new() }
        };
        // Events include the changes of status, so the records of both are never listed twice.
        let event_kinds = if request.includes(Include::Events) {
            Include::Events.kinds()
        } else if request.includes(Include::Status) {
            Include::Status.kinds()
        } else {
            &[]
        };
        // Both classes are rendered from the same records.
        let raw = request.includes(Include::RawOutput);
        Self {
            cursor: ring.end(),
            oldest_output: ring.cursor(lost_until(RecordKind::Output)),
            events: ring.after(start.sequence, event_kinds, usize::MAX),
            output: of(if raw { Include::RawOutput } else { Include::Output }, RecordKind::Output),
            transcript: of(Include::Transcript, RecordKind::Transcript),
            lost_output: lost_since(RecordKind::Output, start.lost_output),
            lost_transcript: lost_since(RecordKind::Transcript, start.lost_transcript),
            torn: request.since.is_none() || lost_until(RecordKind::Output) > start.sequence,
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
            // On the whole text, since a later piece can overwrite what an earlier one printed.
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
            // The rest of a sequence whose beginning the reader does not have would be shown as text.
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

/// Returns the first index from `at` on that is not inside an escape sequence.
fn boundary(text: &str, at: usize) -> usize {
    // From the start of the text: whether an index is inside a sequence cannot be seen by looking back from it.
    let (mut sanitizer, mut sink) = (Sanitizer::default(), String::new());
    for (index, c) in text.char_indices() {
        if index >= at && sanitizer.at_boundary() {
            return index;
        }
        sink.clear();
        sanitizer.feed_counting(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut sink);
    }
    text.len()
}

fn off(condition: &Condition) -> Error {
    Error::new(ErrorKind::TargetOff, "the session ended before the condition came true")
        .with("until", condition)
}

fn lost(kind: ErrorKind, message: &'static str, ring: &Ring, kinds: &[RecordKind]) -> Error {
    Error::new(kind, message)
        .with("oldest_available_cursor", ring.oldest_cursor(ring.oldest(kinds)))
        .with("latest_cursor", ring.end())
}

/// Registration of a waiting task, removed when the watch is dropped.
struct Waiter<'a> {
    log: &'a Log,
    id: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // A waker that stays behind would keep the dropped task's memory.
        self.log.ring().forget(self.id);
    }
}
