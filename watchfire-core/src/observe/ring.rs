//! The state of a log under its lock: all lanes under one sequence, and the tasks that wait for more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use super::cursor::Cursor;
use super::delivery::DeliveryState;
use super::lane::{Lane, LaneLimits};
use super::record::{Body, Record, RecordKind};
use crate::backend::{Source, Status};
use crate::model::Timestamp;

/// The part of a log that one program wrote.
#[derive(Clone, Debug)]
pub(super) struct Era {
    pub(super) epoch: u64,
    /// Number of its last record that is on disk. Of the last era, no limit.
    pub(super) last: u64,
    /// True if the program has written everything that it told its readers.
    pub(super) is_whole: bool,
}

impl Era {
    fn new(epoch: u64) -> Self {
        Self { epoch, last: u64::MAX, is_whole: true }
    }
}

/// A position of a reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Index of the era.
    pub(super) era: usize,
    /// Sequence number. In an era that is not whole it may be that of a record that is not on disk.
    pub(super) sequence: u64,
}

#[derive(Debug)]
pub(super) struct Ring {
    scope: Arc<str>,
    /// The programs that wrote the log, oldest first. Never empty; the last is this one.
    eras: Vec<Era>,
    /// True while records are read back from disk.
    pub(super) replaying: bool,
    lanes: BTreeMap<RecordKind, Lane>,
    latest: u64,
    /// Offset of the output that comes next.
    output_end: u64,
    /// Offset up to which output is missing. Records before it do not join those behind it.
    output_gap: u64,
    pub(super) status: Status,
    pub(super) status_at: Option<Timestamp>,
    pub(super) input_available: bool,
    pub(super) last_delivery: Option<DeliveryState>,
    pub(super) last_delivery_error: Option<String>,
    pub(super) closed: bool,
    /// Tasks that wait, by the kinds of records that wake them.
    waiting: BTreeMap<Kinds, BTreeMap<u64, Waker>>,
    /// Kinds of the records that were added since waiting tasks were last woken.
    fresh: Kinds,
    next_waiter: u64,
}

impl Ring {
    pub(super) fn new(scope: Arc<str>, epoch: u64, limits: impl Fn(RecordKind) -> LaneLimits) -> Self {
        Self {
            scope,
            eras: vec![Era::new(epoch)],
            replaying: false,
            lanes: RecordKind::ALL.iter().map(|kind| (*kind, Lane::new(limits(*kind)))).collect(),
            latest: 0,
            output_end: 0,
            output_gap: 0,
            status: Status::Unknown,
            status_at: None,
            input_available: false,
            last_delivery: None,
            last_delivery_error: None,
            closed: false,
            waiting: BTreeMap::new(),
            fresh: Kinds::default(),
            next_waiter: 0,
        }
    }

    /// Adds a record and returns it. A status that is already current is none: observers repeat theirs with every screen.
    pub(super) fn push(
        &mut self,
        time: Timestamp,
        source: Source,
        body: Body,
        omitted_bytes: u64,
    ) -> Option<Arc<Record>> {
        // Status and last delivery are kept beside the lanes, so that a response has them after their records
        // are evicted.
        match &body {
            // A first status is recorded even if it equals the placeholder: nothing was observed before.
            Body::Status(status) if *status == self.status && self.status_at.is_some() => return None,
            Body::Status(status) => (self.status, self.status_at) = (*status, Some(time.clone())),
            Body::Delivery { state, error, .. } => {
                self.last_delivery = Some(*state);
                self.last_delivery_error = error.as_ref().map(|(code, _)| code.clone());
            }
            Body::Output { bytes, .. } => self.output_end += bytes.len() as u64,
            _ => {}
        }
        // The first record is 1, so that 0 can mean "none lost" and "from the beginning".
        self.latest += 1;
        let (cursor, replayed) = (self.end(), self.replaying);
        let record = Arc::new(Record { cursor, time, source, body, omitted_bytes, replayed });
        self.fresh.add(record.body.kind());
        self.lanes.get_mut(&record.body.kind())?.push(Arc::clone(&record));
        Some(record)
    }

    /// Adds a record that is read back, and that had this number.
    pub(super) fn restore(
        &mut self,
        sequence: u64,
        time: Timestamp,
        source: Source,
        body: Body,
        omitted_bytes: u64,
    ) {
        // Never backwards, whatever is in the file: lanes are in order.
        self.latest = self.latest.max(sequence.saturating_sub(1));
        self.push(time, source, body, omitted_bytes);
    }

    /// Notes that the output with this number cannot be read back.
    pub(super) fn lose_output(&mut self, sequence: u64) {
        self.latest = self.latest.max(sequence);
        let latest = self.latest;
        if let Some(lane) = self.lanes.get_mut(&RecordKind::Output) {
            lane.lose(latest);
        }
    }

    /// Begins the era of another program. The one before it has written everything if `is_whole` is set.
    pub(super) fn begin(&mut self, epoch: u64, is_whole: bool) {
        let latest = self.latest;
        if let Some(before) = self.eras.last_mut() {
            (before.last, before.is_whole) = (latest, is_whole);
        }
        self.eras.push(Era::new(epoch));
    }

    /// Replaces the first era, which has no record yet.
    pub(super) fn begin_first(&mut self, epoch: u64) {
        self.eras = vec![Era::new(epoch)];
    }

    /// Returns the epoch of this program.
    pub(super) fn epoch(&self) -> u64 {
        self.eras.last().map_or(0, |era| era.epoch)
    }

    /// Sets the number of bytes of output that were fed up to the last record.
    pub(super) fn set_output_end(&mut self, bytes: u64) {
        self.output_end = bytes;
    }

    /// Notes that `bytes` of output are missing.
    pub(super) fn skip_output(&mut self, bytes: u64) {
        self.output_end += bytes;
        self.output_gap = self.output_end;
    }

    pub(super) fn era(&self, index: usize) -> Option<&Era> {
        self.eras.get(index)
    }

    /// Returns the place after the last record.
    pub(super) fn place(&self) -> Place {
        Place { era: self.eras.len().saturating_sub(1), sequence: self.latest }
    }

    /// Returns the cursor of a place.
    pub(super) fn cursor_at(&self, place: Place) -> Cursor {
        let epoch = self.eras.get(place.era).map_or(0, |era| era.epoch);
        Cursor::new(Arc::clone(&self.scope), epoch, place.sequence)
    }

    /// Returns the cursor of the last record, in the epoch of this program.
    pub(super) fn end(&self) -> Cursor {
        self.cursor_at(self.place())
    }

    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the cursor of a record, or of the beginning.
    pub(super) fn cursor(&self, sequence: u64) -> Cursor {
        let era = self.eras.iter().position(|era| sequence <= era.last).unwrap_or_default();
        self.cursor_at(Place { era, sequence })
    }

    pub(super) fn resolve(&self, cursor: &Cursor) -> crate::Result<Place> {
        let era = self.eras.iter().position(|era| era.epoch == cursor.epoch());
        let found = era.and_then(|index| Some((index, self.eras.get(index)?)));
        let (era, epoch, last) = match found {
            // Its reader may have seen records that are not on disk.
            Some((index, era)) if !era.is_whole => (index, era.epoch, u64::MAX),
            Some((index, era)) => (index, era.epoch, era.last.min(self.latest)),
            None => (0, self.epoch(), self.latest),
        };
        Ok(Place { era, sequence: cursor.resolve(&self.scope, epoch, last)? })
    }

    /// Returns the number of the last record on disk before the newest loss after `place`, if a program has lost some.
    pub(super) fn lost_after(&self, place: Place) -> Option<u64> {
        let eras = self.eras.get(place.era..).unwrap_or_default();
        eras.iter().rev().find(|era| !era.is_whole).map(|era| era.last)
    }

    /// Returns the cursor after the newest loss of a program, where nothing after it is evicted up to `oldest`.
    pub(super) fn oldest_cursor(&self, oldest: u64) -> Cursor {
        let lost = self.eras.iter().rposition(|era| !era.is_whole && era.last >= oldest);
        match lost {
            Some(index) => {
                let sequence = self.eras.get(index).map_or(0, |era| era.last);
                self.cursor_at(Place { era: index + 1, sequence })
            }
            None => self.cursor(oldest),
        }
    }

    pub(super) fn lane(&self, kind: RecordKind) -> Option<&Lane> {
        self.lanes.get(&kind)
    }

    pub(super) fn payload_limit(&self, kind: RecordKind) -> usize {
        self.lane(kind).map_or(0, Lane::payload_limit)
    }

    /// Returns the lowest sequence number after which all records of `kinds` are still there.
    pub(super) fn oldest(&self, kinds: &[RecordKind]) -> u64 {
        kinds.iter().filter_map(|kind| self.lane(*kind)).map(Lane::lost_until).max().unwrap_or(0)
    }

    /// Returns at most `limit` records of `kinds` after `sequence`, in order.
    pub(super) fn after(&self, sequence: u64, kinds: &[RecordKind], limit: usize) -> Vec<Arc<Record>> {
        // Each lane may contribute the whole batch; taking more from any of them would be sorted for nothing.
        let lanes = kinds.iter().filter_map(|kind| self.lane(*kind));
        let mut records: Vec<Arc<Record>> =
            lanes.flat_map(|lane| lane.after(sequence).take(limit)).cloned().collect();
        records.sort_unstable_by_key(|record| record.cursor.sequence());
        records.truncate(limit);
        records
    }

    /// Returns the next records of `kinds` after `sequence` up to `until`, in order, and true if they are all. At least one,
    /// and otherwise at most `limit` records of at most `bytes` bytes.
    pub(super) fn batch(
        &self,
        sequence: u64,
        until: u64,
        kinds: &[RecordKind],
        limit: usize,
        bytes: usize,
    ) -> (VecDeque<Arc<Record>>, bool) {
        let lanes = kinds.iter().filter_map(|kind| self.lane(*kind));
        // One more than the batch has room for shows whether there are more.
        let mut found: Vec<_> =
            lanes.flat_map(|lane| lane.sized_after(sequence).take(limit.saturating_add(1))).collect();
        found.retain(|(record, _)| record.cursor.sequence() <= until);
        found.sort_unstable_by_key(|(record, _)| record.cursor.sequence());
        let mut left = bytes;
        let fits = |(at, (_, size)): &(usize, &(&Arc<Record>, usize))| {
            let fits = *at == 0 || (*at < limit && *size <= left);
            left = left.saturating_sub(*size);
            fits
        };
        let count = found.iter().enumerate().take_while(fits).count();
        let is_all = count == found.len();
        (found.into_iter().take(count).map(|(record, _)| Arc::clone(record)).collect(), is_all)
    }

    /// Returns the retained records of output that have bytes from `offset` on, oldest first, and the offset at which
    /// the first begins.
    pub(super) fn output_from(&self, offset: u64) -> (u64, Vec<Bytes>) {
        let (mut start, mut pieces) = (self.output_end, Vec::new());
        // From the newest: offsets are not stored, but counted back from the end of the output.
        let records = self.lane(RecordKind::Output).into_iter().flat_map(|lane| lane.after(0)).rev();
        for record in records {
            if start <= offset.max(self.output_gap) {
                break;
            }
            if let Body::Output { bytes, .. } = &record.body {
                start -= bytes.len() as u64;
                pieces.push(bytes.clone());
            }
        }
        pieces.reverse();
        (start, pieces)
    }

    /// Returns the id of a new waiter.
    pub(super) fn waiter(&mut self) -> u64 {
        self.next_waiter += 1;
        self.next_waiter
    }

    /// Wakes `waker` at the next record of one of these `kinds`, or at the end: of an agent that prints without end, thousands of
    /// watches for its status cost nothing.
    pub(super) fn wait(&mut self, waiter: u64, kinds: &[RecordKind], waker: &Waker) {
        // Replaces the waker of the poll before, since a future may move to another task, and wait for other kinds.
        self.forget(waiter);
        self.waiting.entry(Kinds::of(kinds)).or_default().insert(waiter, waker.clone());
    }

    pub(super) fn forget(&mut self, waiter: u64) {
        self.waiting.retain(|_, waiting| {
            waiting.remove(&waiter);
            !waiting.is_empty()
        });
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.values().map(BTreeMap::len).sum()
    }

    /// Takes the tasks that wait for what was added. The caller wakes them after it has released the lock.
    #[must_use]
    pub(super) fn take_waiting(&mut self) -> Vec<Waker> {
        let (fresh, closed) = (std::mem::take(&mut self.fresh), self.closed);
        let concerned: Vec<_> =
            self.waiting.keys().copied().filter(|kinds| closed || kinds.meet(fresh)).collect();
        let waiting = concerned.into_iter().filter_map(|kinds| self.waiting.remove(&kinds));
        waiting.flat_map(BTreeMap::into_values).collect()
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Kinds(u16);

impl Kinds {
    fn of(kinds: &[RecordKind]) -> Self {
        let mut set = Self::default();
        kinds.iter().for_each(|kind| set.add(*kind));
        set
    }

    fn add(&mut self, kind: RecordKind) {
        self.0 |= 1 << kind as u16;
    }

    fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
