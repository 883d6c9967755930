//! A bounded queue of the records of one kind.

use std::collections::VecDeque;
use std::sync::Arc;

use super::record::Record;

/// Size of a record without its payload, in bytes: the record itself, its place in the queue, its counters. Counted, so
/// that a flood of empty records is bounded by bytes too.
const OVERHEAD: usize = size_of::<Record>() + 64;

/// Bounds of a lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LaneLimits {
    /// Maximum number of records.
    pub(crate) records: usize,
    /// Maximum number of bytes, payload and overhead together.
    pub(crate) bytes: usize,
}

impl LaneLimits {
    pub(super) const fn new(records: usize, bytes: usize) -> Self {
        Self { records, bytes }
    }
}

/// Totals of what a lane has evicted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Loss {
    /// Number of evicted records.
    pub(super) records: u64,
    /// Bytes of evicted payload, including bytes truncated from records that are still there.
    pub(super) bytes: u64,
}

/// The records of one kind, oldest first.
#[derive(Debug)]
pub(super) struct Lane {
    records: VecDeque<(Arc<Record>, usize)>,
    limits: LaneLimits,
    bytes: usize,
    /// Sequence number of the last evicted record, or 0.
    lost_until: u64,
    loss: Loss,
}

impl Lane {
    pub(super) fn new(limits: LaneLimits) -> Self {
        Self { records: VecDeque::new(), limits, bytes: 0, lost_until: 0, loss: Loss::default() }
    }

    pub(super) fn push(&mut self, record: Arc<Record>) {
        let size = record.body.size();
        // Bytes that were cut from a record are missing for a reader, like those of an evicted one.
        self.loss.bytes += record.omitted_bytes;
        self.bytes += size + OVERHEAD;
        self.records.push_back((record, size));
        // The newest record stays even if it alone exceeds the limit: its writer has already returned a cursor for it.
        while self.records.len() > self.limits.records.max(1)
            || (self.bytes > self.limits.bytes && self.records.len() > 1)
        {
            self.evict();
        }
    }

    fn evict(&mut self) {
        if let Some((record, size)) = self.records.pop_front() {
            self.bytes -= size + OVERHEAD;
            self.lost_until = record.cursor.sequence();
            self.loss.records += 1;
            self.loss.bytes += size as u64;
        }
    }

    /// Notes that the record with this number, which would be the newest, is missing.
    pub(super) fn lose(&mut self, sequence: u64) {
        // What is lost is always the oldest, so that one number says how much.
        while !self.records.is_empty() {
            self.evict();
        }
        self.lost_until = sequence;
        self.loss.records += 1;
    }

    /// Yields the records after `sequence`, oldest first.
    pub(super) fn after(&self, sequence: u64) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        // Sequence numbers ascend within a lane, but not without holes.
        let start = self.records.partition_point(|(record, _)| record.cursor.sequence() <= sequence);
        self.records.range(start..).map(|(record, _)| record)
    }

    /// Yields the records after `sequence` with the bytes of each, oldest first.
    pub(super) fn sized_after(&self, sequence: u64) -> impl Iterator<Item = (&Arc<Record>, usize)> {
        let start = self.records.partition_point(|(record, _)| record.cursor.sequence() <= sequence);
        self.records.range(start..).map(|(record, size)| (record, size + OVERHEAD))
    }

    /// Returns the maximum payload of one record: an eighth of the lane, so that no record evicts all others.
    pub(super) fn payload_limit(&self) -> usize {
        (self.limits.bytes / 8).saturating_sub(OVERHEAD).max(64)
    }

    /// Returns the sequence number of the last evicted record, or 0.
    pub(super) fn lost_until(&self) -> u64 {
        self.lost_until
    }

    pub(super) fn loss(&self) -> Loss {
        self.loss
    }
}
