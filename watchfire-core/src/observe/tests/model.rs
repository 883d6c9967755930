//! A model of what a reader is owed: each record once, or a word that it is lost.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream as _;
use proptest::prelude::*;

use super::*;
use crate::model::Timestamp;

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// The session writes a record of this kind.
    Push(RecordKind),
    /// The reader takes so many items.
    Read(usize),
    /// The reader goes away, and comes back with the last cursor that it saw.
    Resume,
}

/// A log, its reader, and what both know.
struct World {
    log: Log,
    clock: Arc<ManualClock>,
    kinds: Vec<RecordKind>,
    follow: Follow,
    /// The last cursor that the reader saw, of whatever item.
    cursor: Cursor,
    /// Sequence numbers and kinds of all records.
    pushed: Vec<(u64, RecordKind)>,
    /// Sequence numbers of the records that the reader saw.
    seen: Vec<u64>,
    /// Sequence numbers of the records that the reader was told are lost.
    lost: BTreeSet<u64>,
}

impl World {
    fn new(kinds: Vec<RecordKind>, options: &LogOptions) -> Self {
        let (log, clock) = log_with(options);
        let cursor = log.latest();
        let follow = Self::open(&log, &kinds, &cursor);
        let (pushed, seen, lost) = Default::default();
        Self { log, clock, kinds, follow, cursor, pushed, seen, lost }
    }

    fn open(log: &Log, kinds: &[RecordKind], since: &Cursor) -> Follow {
        let options = FollowOptions::default().with_kinds(kinds.iter().copied()).with_since(since.clone());
        log.follow(options).unwrap()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Push(kind) => {
                let cursor = self.log.push(Source::Process, self.body(*kind));
                self.pushed.push((cursor.sequence(), *kind));
            }
            Step::Read(count) => {
                for _ in 0..*count {
                    // Whoever finds nothing waits for a heartbeat, whose cursor counts too.
                    if !self.read() {
                        self.clock.advance(Duration::from_secs(15));
                        self.read();
                        break;
                    }
                }
            }
            Step::Resume => self.follow = Self::open(&self.log, &self.kinds, &self.cursor),
        }
    }

    fn body(&self, kind: RecordKind) -> Body {
        let name = format!("{}\n", self.pushed.len());
        match kind {
            RecordKind::Delivery => Body::delivery(DeliveryState::Pending),
            RecordKind::Event => Body::event(name),
            RecordKind::Issue => Body::Issue(Issue::new(IssueKind::UsageLimit, name)),
            RecordKind::Lifecycle => Body::lifecycle(name, serde_json::Value::Null),
            RecordKind::Output => Body::Output { bytes: name.into(), text: Box::default(), lead: 0 },
            // A status that is current already is no record.
            RecordKind::Status => {
                let before = self.pushed.iter().filter(|(_, kind)| *kind == RecordKind::Status).count();
                Body::Status(if before.is_multiple_of(2) { Status::Idle } else { Status::Processing })
            }
            RecordKind::Transcript => says(&name),
        }
    }

    /// Takes an item. Returns false if there is none.
    fn read(&mut self) -> bool {
        let context = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(Some(item)) = Pin::new(&mut self.follow).poll_next(context) else { return false };
        self.cursor = item.view(&Timestamp::from_unix_millis(0)).cursor;
        match item {
            FollowItem::Record(record) => self.seen.push(record.cursor.sequence()),
            FollowItem::Gap { from, to, kinds } => {
                let is_lost = |(at, kind): &&(u64, RecordKind)| {
                    (from.sequence() + 1..=to.sequence()).contains(at) && kinds.contains(kind)
                };
                self.lost.extend(self.pushed.iter().filter(is_lost).map(|(at, _)| at));
            }
            FollowItem::Heartbeat { .. } => {}
        }
        true
    }

    fn check(mut self) {
        while self.read() {}
        assert!(self.seen.is_sorted_by(|a, b| a < b), "out of order, or twice: {:?}", self.seen);
        let seen: BTreeSet<u64> = self.seen.iter().copied().collect();
        assert_eq!(seen.intersection(&self.lost).next(), None, "seen, and told that it is lost");
        let owed = self.pushed.iter().filter(|(_, kind)| self.kinds.contains(kind));
        let owed: BTreeSet<u64> = owed.map(|(at, _)| *at).collect();
        assert_eq!(seen.union(&self.lost).copied().collect::<BTreeSet<_>>(), owed);
    }
}

fn kind() -> impl Strategy<Value = RecordKind> {
    proptest::sample::select(RecordKind::ALL)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => kind().prop_map(Step::Push),
        2 => (1..8_usize).prop_map(Step::Read),
        1 => Just(Step::Resume),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_evicted_a_reader_is_told(
        kinds in proptest::sample::subsequence(RecordKind::ALL, 1..=RecordKind::ALL.len()),
        places in (1..5_usize, 1..5_usize, 1..5_usize),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let lane = |records| LaneLimits::new(records, 1 << 20);
        let (output, transcript, other) = (lane(places.0), lane(places.1), lane(places.2));
        let options = LogOptions { output, transcript, other, ..LogOptions::default() };
        let mut world = World::new(kinds, &options);
        steps.iter().for_each(|step| world.take(step));
        world.check();
    }
}
