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

#[derive(Debug)]
pub(super) struct Ring {
    scope: Arc<str>,
    epoch: u64,
    lanes: BTreeMap<RecordKind, Lane>,
    latest: u64,
    /// Bytes of output in all records so far.
    output_end: u64,
    pub(super) status: Status,
    pub(super) status_at: Option<Timestamp>,
    pub(super) input_available: bool,
    pub(super) last_delivery: Option<DeliveryState>,
    pub(super) last_delivery_error: Option<String>,
    pub(super) closed: bool,
    waiting: BTreeMap<u64, Waker>,
    next_waiter: u64,
}

impl Ring {
    pub(super) fn new(scope: Arc<str>, epoch: u64, limits: impl Fn(RecordKind) -> LaneLimits) -> Self {
        Self {
            scope,
            epoch,
            lanes: RecordKind::ALL.iter().map(|kind| (*kind, Lane::new(limits(*kind)))).collect(),
            latest: 0,
            output_end: 0,
            status: Status::Unknown,
            status_at: None,
            input_available: false,
            last_delivery: None,
            last_delivery_error: None,
            closed: false,
            waiting: BTreeMap::new(),
            next_waiter: 0,
        }
    }

    /// Adds a record, unless it is a status that is already current: observers repeat theirs with every screen.
    pub(super) fn push(&mut self, time: Timestamp, source: Source, body: Body, omitted_bytes: u64) {
        // Status and last delivery are kept beside the lanes, so that a response has them after their records
        // are evicted.
        match &body {
            // A first status is recorded even if it equals the placeholder: nothing was observed before.
            Body::Status(status) if *status == self.status && self.status_at.is_some() => return,
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
        let cursor = self.cursor(self.latest);
        if let Some(lane) = self.lanes.get_mut(&body.kind()) {
            lane.push(Arc::new(Record { cursor, time, source, body, omitted_bytes }));
        }
    }

    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    pub(super) fn cursor(&self, sequence: u64) -> Cursor {
        Cursor::new(Arc::clone(&self.scope), self.epoch, sequence)
    }

    pub(super) fn resolve(&self, cursor: &Cursor) -> crate::Result<u64> {
        cursor.resolve(&self.scope, self.epoch, self.latest)
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

    /// Returns the next records of `kinds` after `sequence`, in order, and true if they are all. At least one, and otherwise
    /// at most `limit` records of at most `bytes` bytes.
    pub(super) fn batch(
        &self,
        sequence: u64,
        kinds: &[RecordKind],
        limit: usize,
        bytes: usize,
    ) -> (VecDeque<Arc<Record>>, bool) {
        let lanes = kinds.iter().filter_map(|kind| self.lane(*kind));
        // One more than the batch has room for shows whether there are more.
        let mut found: Vec<_> =
            lanes.flat_map(|lane| lane.sized_after(sequence).take(limit.saturating_add(1))).collect();
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
            if start <= offset {
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

    /// Wakes `waker` at the next change.
    pub(super) fn wait(&mut self, waiter: u64, waker: &Waker) {
        // Replaces the waker of the poll before, since a future may move to another task.
        self.waiting.insert(waiter, waker.clone());
    }

    pub(super) fn forget(&mut self, waiter: u64) {
        self.waiting.remove(&waiter);
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the waiting tasks. The caller wakes them after it has released the lock.
    #[must_use]
    pub(super) fn take_waiting(&mut self) -> BTreeMap<u64, Waker> {
        std::mem::take(&mut self.waiting)
    }
}
