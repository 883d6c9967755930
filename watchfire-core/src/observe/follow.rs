//! Reading a log as it goes on.

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
use super::record::{Kind, Record};
use super::slots::Slot;
use super::wire::EventView;
use crate::Result;

/// How many records a follower takes at once.
const BATCH: usize = 64;

/// What to follow.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Begin after this cursor; none: now.
    pub since: Option<Cursor>,
    /// The kinds to follow.
    pub kinds: Vec<Kind>,
    /// How long it may be silent before a heartbeat.
    pub heartbeat: Duration,
}

impl Default for FollowOptions {
    /// All kinds from now on, with a heartbeat after 15 s of silence.
    fn default() -> Self {
        Self { since: None, kinds: Kind::ALL.to_vec(), heartbeat: Duration::from_secs(15) }
    }
}

impl FollowOptions {
    /// Begins after `cursor`.
    #[must_use]
    pub fn with_since(mut self, cursor: Cursor) -> Self {
        self.since = Some(cursor);
        self
    }

    /// Follows only these kinds.
    #[must_use]
    pub fn with_kinds(mut self, kinds: impl IntoIterator<Item = Kind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Sets how long it may be silent.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }
}

/// What a follower gets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Followed {
    /// Something happened.
    Record(Arc<Record>),
    /// The reader was too slow: records of `kinds` between the two cursors are lost to it. Others of that time still
    /// come. Whoever shows a state takes a fresh snapshot now.
    Gap {
        /// After this.
        from: Cursor,
        /// Up to this one.
        to: Cursor,
        /// Of these kinds.
        kinds: Vec<Kind>,
    },
    /// Nothing happened for a while.
    Heartbeat {
        /// The point up to which nothing is missing.
        cursor: Cursor,
    },
}

impl Followed {
    /// How it goes over the wire: a record as [`EventView`], and likewise the kinds `gap_detected` and `heartbeat`.
    ///
    /// `time` stands in what is no record.
    #[must_use]
    pub fn view(&self, time: &crate::model::Timestamp) -> EventView {
        let time = time.to_millis_string();
        match self {
            Self::Record(record) => EventView::from(&**record),
            Self::Gap { from, to, kinds } => EventView::new(
                to.clone(),
                time,
                "gap_detected",
                serde_json::json!({ "from": from, "kinds": kinds }),
            ),
            Self::Heartbeat { cursor } => {
                EventView::new(cursor.clone(), time, "heartbeat", serde_json::Value::Null)
            }
        }
    }
}

/// The stream of a log. It ends when the log is closed and everything was read. Dropping it frees its place.
///
/// However slowly it is read, it holds at most a few dozen records, and the writer does not notice.
pub struct Follow {
    log: Log,
    id: u64,
    kinds: Vec<Kind>,
    seen: u64,
    /// Up to where losses of a kind were reported.
    reported: BTreeMap<Kind, u64>,
    ready: VecDeque<Arc<Record>>,
    heartbeat: Duration,
    silence: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    _slots: (Slot, Slot),
}

impl Log {
    /// Follows the log.
    ///
    /// # Errors
    /// `too_many_watchers` when all places are taken, of this log or of all; `invalid_cursor`. A cursor too old to go on
    /// from is no error: the stream begins with a [`Gap`](Followed::Gap).
    pub fn follow(&self, options: FollowOptions) -> Result<Follow> {
        let slots = self.take_slots()?;
        let mut ring = self.ring();
        let seen = match &options.since {
            Some(cursor) => ring.resolve(cursor)?,
            None => ring.latest(),
        };
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
    type Item = Followed;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Followed>> {
        let this = &mut *self;
        if let Some(record) = this.ready.pop_front() {
            return Poll::Ready(Some(Followed::Record(record)));
        }
        let mut ring = this.log.ring();
        let mut gap: Option<(u64, Vec<Kind>)> = None;
        for kind in &this.kinds {
            let lost = ring.lane(*kind).map_or(0, super::lane::Lane::lost_until);
            let known = this.reported.entry(*kind).or_insert(0);
            if lost > this.seen.max(*known) {
                *known = lost;
                let (to, kinds) = gap.get_or_insert_with(Default::default);
                *to = lost.max(*to);
                kinds.push(*kind);
            }
        }
        if let Some((to, kinds)) = gap {
            let (from, to) = (ring.cursor(this.seen), ring.cursor(to));
            drop(ring);
            this.silence = None;
            return Poll::Ready(Some(Followed::Gap { from, to, kinds }));
        }
        this.ready = ring.after(this.seen, &this.kinds, BATCH).into();
        this.seen = match this.ready.back() {
            Some(last) if this.ready.len() == BATCH => last.cursor.sequence(),
            _ => ring.latest(),
        };
        if let Some(record) = this.ready.pop_front() {
            drop(ring);
            this.silence = None;
            return Poll::Ready(Some(Followed::Record(record)));
        }
        if ring.closed {
            return Poll::Ready(None);
        }
        ring.wait(this.id, context.waker());
        let cursor = ring.cursor(this.seen);
        drop(ring);
        let clock = &this.log.shared.clock;
        let silence = this
            .silence
            .get_or_insert_with(|| clock.sleep_until(clock.boot_time().saturating_add(this.heartbeat)));
        silence.as_mut().poll(context).map(|()| {
            this.silence = None;
            Some(Followed::Heartbeat { cursor })
        })
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.log.ring().forget(self.id);
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").field("kinds", &self.kinds).field("seen", &self.seen).finish_non_exhaustive()
    }
}
