//! The records of one kind, bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::Record;

/// What a record costs beyond its payload, in bytes: itself, its place, its counters.
const OVERHEAD: usize = size_of::<Record>() + 64;

/// How much of one kind is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LaneLimits {
    /// The most records.
    pub records: usize,
    /// The most bytes, payload and bookkeeping together.
    pub bytes: usize,
}

impl LaneLimits {
    /// At most this many records and bytes.
    #[must_use]
    pub fn new(records: usize, bytes: usize) -> Self {
        Self { records, bytes }
    }
}

/// What is no longer there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Loss {
    /// Records that went.
    pub records: u64,
    /// Bytes of payload that went, with those that were cut off records.
    pub bytes: u64,
}

#[derive(Debug)]
pub(super) struct Lane {
    records: VecDeque<(Arc<Record>, usize)>,
    limits: LaneLimits,
    bytes: usize,
    /// The sequence number of the last record that went; 0: none.
    lost_until: u64,
    loss: Loss,
}

impl Lane {
    pub(super) fn new(limits: LaneLimits) -> Self {
        Self { records: VecDeque::new(), limits, bytes: 0, lost_until: 0, loss: Loss::default() }
    }

    pub(super) fn push(&mut self, record: Arc<Record>) {
        let size = record.body.size();
        self.loss.bytes += record.omitted_bytes;
        self.bytes += size + OVERHEAD;
        self.records.push_back((record, size));
        while self.records.len() > self.limits.records.max(1)
            || (self.bytes > self.limits.bytes && self.records.len() > 1)
        {
            self.evict();
        }
    }

    pub(super) fn clear(&mut self) {
        while !self.records.is_empty() {
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

    /// The records after `sequence`, oldest first.
    pub(super) fn after(&self, sequence: u64) -> impl Iterator<Item = &Arc<Record>> {
        let start = self.records.partition_point(|(record, _)| record.cursor.sequence() <= sequence);
        self.records.range(start..).map(|(record, _)| record)
    }

    /// The longest payload of one record: an eighth of the lane, so that none pushes all others out.
    pub(super) fn payload_limit(&self) -> usize {
        (self.limits.bytes / 8).saturating_sub(OVERHEAD).max(64)
    }

    /// The sequence number of the last record that went; 0: none.
    pub(super) fn lost_until(&self) -> u64 {
        self.lost_until
    }

    pub(super) fn loss(&self) -> Loss {
        self.loss
    }
}
