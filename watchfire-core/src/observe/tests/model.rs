//! A model of what a reader is owed: each record once, or a word that it is lost.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream as _;
use proptest::prelude::*;

use super::super::store::RecordedOutput;
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
    /// The program ends, and the next one begins.
    Restart,
    /// The program is killed before it has written this part, in hundredths, of what it added to the file.
    Kill(usize),
}

/// A record that was pushed: its number, its kind, and the epoch of the program that pushed it.
type Pushed = (u64, u64, RecordKind);

/// The output of the session as the recording has it.
impl RecordedOutput for &[u8] {
    fn read(&mut self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let (from, to) = (usize::try_from(offset).ok()?, usize::try_from(offset + length).ok()?);
        self.get(from..to).map(<[u8]>::to_vec)
    }

    fn before(&mut self, offset: u64) -> u64 {
        offset.min(self.len() as u64)
    }
}

/// A log, its reader, and what both know.
struct World {
    temp: tempfile::TempDir,
    log: Log,
    clock: Arc<ManualClock>,
    options: LogOptions,
    kinds: Vec<RecordKind>,
    follow: Follow,
    /// The last cursor that the reader saw, of whatever item.
    cursor: Cursor,
    output: Vec<u8>,
    /// Length of the file when this program began.
    written: usize,
    pushed: Vec<Pushed>,
    /// For each program that ended, its epoch and the number of its last record that is on disk.
    ended: Vec<(u64, u64)>,
    seen: Vec<Pushed>,
    lost: BTreeSet<Pushed>,
}

impl World {
    fn new(kinds: Vec<RecordKind>, options: LogOptions) -> Self {
        let (temp, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
        let log = Self::open(&temp, &clock, &options, &[]);
        let cursor = log.latest();
        let follow = Self::follow(&log, &kinds, &cursor);
        let (output, pushed, ended, seen, lost) = Default::default();
        let mut world = Self {
            temp,
            log,
            clock,
            options,
            kinds,
            follow,
            cursor,
            output,
            written: 0,
            pushed,
            ended,
            seen,
            lost,
        };
        world.written = world.file().len();
        world
    }

    fn open(temp: &tempfile::TempDir, clock: &Arc<ManualClock>, options: &LogOptions, output: &[u8]) -> Log {
        let (subject, clock) = (LogSubject::default(), Arc::<ManualClock>::clone(clock));
        Log::open("s1", 1, subject, options, clock, &temp.path().join("a.events"), &mut &output[..]).unwrap()
    }

    fn file(&self) -> Vec<u8> {
        std::fs::read(self.temp.path().join("a.events")).unwrap()
    }

    fn follow(log: &Log, kinds: &[RecordKind], since: &Cursor) -> Follow {
        let options = FollowOptions::default().with_kinds(kinds.iter().copied()).with_since(since.clone());
        log.follow(options).unwrap()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Push(kind) => {
                let body = self.body(*kind);
                if let Body::Output { bytes, .. } = &body {
                    self.output.extend_from_slice(bytes);
                }
                self.push(*kind, body);
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
            Step::Resume => self.resume(),
            Step::Restart => {
                self.log.close();
                self.reopen();
            }
            Step::Kill(part) => {
                let file = self.file();
                let kept = self.written + (file.len() - self.written) * (100 - part) / 100;
                std::fs::write(self.temp.path().join("a.events"), &file[..kept]).unwrap();
                self.reopen();
            }
        }
    }

    fn push(&mut self, kind: RecordKind, body: Body) {
        let before = self.log.latest();
        let cursor = self.log.push(Source::Process, body);
        if cursor != before {
            self.pushed.push((cursor.epoch(), cursor.sequence(), kind));
        }
    }

    fn reopen(&mut self) {
        let epoch = self.log.latest().epoch();
        self.log = Self::open(&self.temp, &self.clock, &self.options, &self.output);
        self.ended.push((epoch, self.log.latest().sequence()));
        self.written = self.file().len();
        // As the pump does it: everything comes again, and what is in the log adds nothing.
        let output = self.output.clone();
        let bytes = Body::Output { bytes: output.into(), text: Box::default(), lead: 0 };
        self.push(RecordKind::Output, bytes);
        self.resume();
    }

    fn resume(&mut self) {
        self.follow = Self::follow(&self.log, &self.kinds, &self.cursor);
        // What was lost after this position is told again, or is back: the disk may have what memory had not.
        let place = (self.cursor.epoch(), self.cursor.sequence());
        self.lost.retain(|(epoch, at, _)| (*epoch, *at) <= place);
    }

    fn body(&self, kind: RecordKind) -> Body {
        let name = format!("{}\n", self.pushed.len());
        match kind {
            RecordKind::Delivery => Body::delivery(DeliveryState::Pending),
            RecordKind::Event => Body::event(name),
            RecordKind::Issue => Body::Issue(Issue::new(IssueKind::UsageLimit, name)),
            RecordKind::Lifecycle => Body::lifecycle(name, serde_json::Value::Null),
            RecordKind::Output => Body::Output { bytes: name.into(), text: Box::default(), lead: 0 },
            // One that is current already is no record, which `push` finds out.
            RecordKind::Status if self.pushed.len().is_multiple_of(2) => Body::Status(Status::Idle),
            RecordKind::Status => Body::Status(Status::Processing),
            RecordKind::Transcript => says(&name),
        }
    }

    /// Returns the records that are in the log, or were.
    fn on_disk(&self) -> impl Iterator<Item = &Pushed> {
        let last =
            |epoch: u64| self.ended.iter().find(|(it, _)| *it == epoch).map_or(u64::MAX, |(_, last)| *last);
        self.pushed.iter().filter(move |(epoch, at, _)| *at <= last(*epoch))
    }

    /// Takes an item. Returns false if there is none.
    fn read(&mut self) -> bool {
        let context = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(Some(item)) = Pin::new(&mut self.follow).poll_next(context) else { return false };
        self.cursor = item.view(&Timestamp::from_unix_millis(0)).cursor;
        match item {
            FollowItem::Record(record) => {
                let (cursor, kind) = (&record.cursor, record.body.kind());
                let is_old = cursor.epoch() != self.log.latest().epoch();
                assert_eq!(record.replayed, is_old, "{record:?}");
                self.seen.push((cursor.epoch(), cursor.sequence(), kind));
            }
            FollowItem::Gap { from, to, kinds } => {
                let (first, last) = (from.sequence(), to.sequence());
                let lost: Vec<Pushed> = if first < last {
                    let evicted =
                        |(_, at, kind): &&Pushed| (first + 1..=last).contains(at) && kinds.contains(kind);
                    self.on_disk().filter(evicted).copied().collect()
                } else {
                    // A program was killed: what it pushed after this is not on disk.
                    let unwritten = |(epoch, at, kind): &&Pushed| {
                        *epoch == from.epoch() && *at > first && kinds.contains(kind)
                    };
                    self.pushed.iter().filter(unwritten).copied().collect()
                };
                self.lost.extend(lost);
            }
            FollowItem::Heartbeat { .. } => {}
        }
        true
    }

    fn check(mut self) {
        while self.read() {}
        let places: Vec<_> = self.seen.iter().map(|(epoch, at, _)| (*epoch, *at)).collect();
        assert!(places.is_sorted_by(|a, b| a < b), "out of order, or twice: {places:?}");
        let seen: BTreeSet<Pushed> = self.seen.iter().copied().collect();
        assert_eq!(seen.intersection(&self.lost).next(), None, "seen, and told that it is lost");
        let owed = self.pushed.iter().filter(|(.., kind)| self.kinds.contains(kind));
        let owed: BTreeSet<Pushed> = owed.copied().collect();
        assert_eq!(seen.union(&self.lost).copied().collect::<BTreeSet<_>>(), owed);
    }
}

/// Checks that output is not written a second time: the recording has it.
#[test]
fn the_file_grows_by_records_and_not_by_bytes() {
    let world = World::new(RecordKind::ALL.to_vec(), LogOptions::default());
    (0..128).for_each(|_| drop(world.log.push_output(&[b'x'; 8192])));
    let grown = world.file().len() - world.written;
    assert!(grown < 128 * 64, "{grown} bytes for 1 MiB in 128 records");
}

fn kind() -> impl Strategy<Value = RecordKind> {
    proptest::sample::select(RecordKind::ALL)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => kind().prop_map(Step::Push),
        4 => (1..8_usize).prop_map(Step::Read),
        2 => Just(Step::Resume),
        1 => Just(Step::Restart),
        1 => (0..=100_usize).prop_map(Step::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_evicted_or_restarted_a_reader_is_told(
        kinds in proptest::sample::subsequence(RecordKind::ALL, 1..=RecordKind::ALL.len()),
        places in (1..5_usize, 1..5_usize, 1..5_usize),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let lane = |records| LaneLimits::new(records, 1 << 20);
        let (output, transcript, other) = (lane(places.0), lane(places.1), lane(places.2));
        let options = LogOptions { output, transcript, other, ..LogOptions::default() };
        let mut world = World::new(kinds, options);
        steps.iter().for_each(|step| world.take(step));
        world.check();
    }
}
