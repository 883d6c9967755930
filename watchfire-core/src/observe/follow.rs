//! Follow streams: every record of a log as it is written.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::cursor::Cursor;
use super::log::Log;
use super::record::{Record, RecordKind};
use super::ring::Place;
use super::slots::SlotGuard;
use super::wire::EventView;
use crate::Result;
use crate::model::Timestamp;

/// Maximum number of records taken under one lock, and of their bytes. Bounds the memory of a slow reader: it holds
/// pointers to at most this many records that the log may have evicted.
const BATCH: (usize, usize) = (64, 64 * 1024);

/// Options of a follow stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Position after which the stream begins. `None` means now.
    pub since: Option<Cursor>,
    /// Kinds of records to follow.
    pub kinds: Vec<RecordKind>,
    /// Silence after which the stream carries a heartbeat.
    pub heartbeat: Duration,
    /// Of a stream of several sessions: those that began at this time or later are followed from their first record on, also
    /// if they have ended.
    pub begun_since: Option<Timestamp>,
}

impl Default for FollowOptions {
    /// Follows all kinds from now on, with a heartbeat after 15 s of silence.
    fn default() -> Self {
        Self {
            since: None,
            kinds: RecordKind::ALL.to_vec(),
            heartbeat: Duration::from_secs(15),
            begun_since: None,
        }
    }
}

impl FollowOptions {
    /// Begins the stream after `cursor`.
    #[must_use]
    pub fn with_since(mut self, cursor: Cursor) -> Self {
        self.since = Some(cursor);
        self
    }

    /// Follows only these kinds.
    #[must_use]
    pub fn with_kinds(mut self, kinds: impl IntoIterator<Item = RecordKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Follows sessions that began at `time` or later from their first record on.
    #[must_use]
    pub fn with_begun_since(mut self, time: Timestamp) -> Self {
        self.begun_since = Some(time);
        self
    }

    /// Sets the silence after which the stream carries a heartbeat.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }
}

/// An item of a follow stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FollowItem {
    /// A record was written.
    Record(Arc<Record>),
    /// Records are lost to this reader: all of `kinds` after `from` up to `to`. It was too slow, and they were evicted before
    /// it read them; or the program was killed at `from` and could not write down its last records, whose numbers the next
    /// one has given again. Records of other kinds from the same range still follow. A client that displays state should
    /// take a fresh snapshot now.
    #[non_exhaustive]
    Gap {
        /// Position after which records are missing, and up to which the reader has everything else. A reader that goes
        /// away goes on from here: it is told of the gap again, and then gets what follows.
        from: Cursor,
        /// Position up to which records are missing.
        to: Cursor,
        /// Kinds of which records are missing.
        kinds: Vec<RecordKind>,
    },
    /// No record was written for [`FollowOptions::heartbeat`].
    #[non_exhaustive]
    Heartbeat {
        /// Position up to which the reader has everything.
        cursor: Cursor,
    },
}

impl FollowItem {
    /// Returns the form for the wire. A gap and a heartbeat become events of the kinds `gap_detected` and `heartbeat`,
    /// stamped with `time`. A reader that goes on from the cursor of any event misses nothing.
    #[must_use]
    pub fn view(&self, time: &Timestamp) -> EventView {
        let time = time.to_millis_string();
        match self {
            Self::Record(record) => EventView::from(&**record),
            Self::Gap { from, to, kinds } => EventView::new(
                // Not `to`: records of other kinds before it have not been read.
                from.clone(),
                time,
                "gap_detected",
                serde_json::json!({ "from": from, "to": to, "kinds": kinds }),
            ),
            Self::Heartbeat { cursor } => {
                EventView::new(cursor.clone(), time, "heartbeat", serde_json::Value::Null)
            }
        }
    }
}

/// A stream of the records of a log. Ends when the log is closed and everything in it has been read.
///
/// A slow reader holds at most a few dozen records and does not slow the writer. Dropping the stream frees its watcher
/// slot.
pub struct Follow {
    log: Log,
    id: u64,
    kinds: Vec<RecordKind>,
    seen: Place,
    /// Sequence number up to which losses have been reported, for each kind.
    reported: BTreeMap<RecordKind, u64>,
    ready: VecDeque<Arc<Record>>,
    heartbeat: Duration,
    silence: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    _slots: (SlotGuard, SlotGuard),
}

impl Log {
    /// Opens a follow stream.
    ///
    /// An expired cursor is not an error: the stream begins with a [`Gap`](FollowItem::Gap).
    ///
    /// # Errors
    /// `too_many_watchers` if all watcher slots of this log, or of the process, are taken; `invalid_cursor`.
    pub fn follow(&self, options: FollowOptions) -> Result<Follow> {
        // Before the lock: a request that is refused must not delay the writer.
        let slots = self.take_slots()?;
        let mut ring = self.ring();
        let seen = match &options.since {
            Some(cursor) => ring.resolve(cursor)?,
            None => ring.place(),
        };
        // Under the lock that gave the position, so that no record is written in between.
        let id = ring.waiter();
        drop(ring);
        Ok(Follow {
            log: self.clone(),
            id,
            kinds: options.kinds,
            seen,
            reported: BTreeMap::new(),
            ready: VecDeque::new(),
            heartbeat: options.heartbeat,
            silence: None,
            _slots: slots,
        })
    }
}

impl Stream for Follow {
    type Item = FollowItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<FollowItem>> {
        let this = &mut *self;
        // Taken under an earlier lock: the stream still holds these records if the log has evicted them
        // since.
        if let Some(record) = this.ready.pop_front() {
            return Poll::Ready(Some(FollowItem::Record(record)));
        }
        let mut ring = this.log.ring();
        loop {
            let era = ring.era(this.seen.era).cloned();
            let until = era.as_ref().map_or(u64::MAX, |era| era.last);
            if let Some(era) = era.filter(|_| this.seen.sequence >= until) {
                // What follows is of the next program. This one may have told its readers of more than is on disk.
                let from = ring.cursor_at(this.seen);
                this.seen = Place { era: this.seen.era + 1, sequence: until };
                if !era.is_whole {
                    let (to, kinds) = (ring.cursor_at(this.seen), this.kinds.clone());
                    drop(ring);
                    this.silence = None;
                    return Poll::Ready(Some(FollowItem::Gap { from, to, kinds }));
                }
                continue;
            }
            // Losses first: a gap must reach the reader before the records that follow it.
            for kind in &this.kinds {
                // Each kind is evicted on its own, so each has its own loss and its own gap.
                let lost = ring.lane(*kind).map_or(0, super::lane::Lane::lost_until);
                let known = this.reported.entry(*kind).or_insert(0);
                if lost > this.seen.sequence.max(*known) {
                    *known = lost;
                    // `seen` stays where it is: other kinds still have records in this range. `reported` keeps the gap
                    // from being repeated.
                    let (from, to) = (ring.cursor_at(this.seen), ring.cursor(lost));
                    let kinds = vec![*kind];
                    drop(ring);
                    this.silence = None;
                    return Poll::Ready(Some(FollowItem::Gap { from, to, kinds }));
                }
            }
            // Pointers only; nothing is copied under the lock.
            let (ready, is_all) = ring.batch(this.seen.sequence, until, &this.kinds, BATCH.0, BATCH.1);
            this.ready = ready;
            // A last batch reached the end. Skipping to it passes over records of kinds that are not followed, whose
            // eviction would otherwise look like a gap.
            this.seen.sequence = match this.ready.back() {
                Some(last) if !is_all => last.cursor.sequence(),
                _ => ring.latest().min(until),
            };
            if let Some(record) = this.ready.pop_front() {
                drop(ring);
                this.silence = None;
                return Poll::Ready(Some(FollowItem::Record(record)));
            }
            if this.seen.sequence < until {
                break;
            }
        }
        if ring.closed {
            return Poll::Ready(None);
        }
        // Registered under the lock under which the ring was found empty: a push in between cannot be missed.
        ring.wait(this.id, &this.kinds, context.waker());
        let cursor = ring.cursor_at(this.seen);
        drop(ring);
        let clock = &this.log.shared.clock;
        // Kept over polls: a timer made anew at each wake-up would put the heartbeat off.
        let silence = this
            .silence
            .get_or_insert_with(|| clock.sleep_until(clock.boot_time().saturating_add(this.heartbeat)));
        silence.as_mut().poll(context).map(|()| {
            this.silence = None;
            Some(FollowItem::Heartbeat { cursor })
        })
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        // A waker that stays behind would keep the dropped task's memory.
        self.log.ring().forget(self.id);
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").field("kinds", &self.kinds).field("seen", &self.seen).finish_non_exhaustive()
    }
}
