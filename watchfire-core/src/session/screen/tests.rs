//! What readers of a screen get, against what the terminal shows and the agent wrote.

use std::future::Future;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock::Clock;
use crate::model::Timestamp;
use crate::observe::{Log, LogOptions, LogSubject};
use crate::session::recording::{Checkpoint, LARGEST};
use crate::terminal::{Line, PlainTerminal, Size, Snapshot, Terminal};

/// Clock on which a wait moves the time forward.
#[derive(Debug, Default)]
struct Hasty(Mutex<Duration>);

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(0)
    }

    fn boot_time(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.0.lock().unwrap();
        *now = until.max(*now);
        Box::pin(std::future::ready(()))
    }
}

struct World {
    screen: Arc<Screen>,
    clock: Arc<Hasty>,
}

fn world_with(terminal: impl Terminal, output: usize) -> World {
    let clock = Arc::new(Hasty::default());
    let mut options = LogOptions::default();
    options.output.bytes = output;
    let log = Log::new("s1", 1, LogSubject::default(), &options, Arc::<Hasty>::clone(&clock));
    let screen = Screen::new(Box::new(terminal), log, Arc::<Hasty>::clone(&clock));
    World { screen: Arc::new(screen), clock }
}

fn world(size: Size) -> World {
    world_with(PlainTerminal::new(size).with_scrollback(20, 1 << 20), 256 << 10)
}

impl World {
    fn feed(&self, bytes: &[u8]) {
        self.screen.feed(bytes);
    }

    fn attach(&self, request: &AttachRequest) -> Attachment {
        Attachment::new(&self.screen, request).unwrap()
    }
}

/// Polls once: `None` if the reader has to wait.
fn poll(attachment: &mut Attachment) -> Option<Option<ScreenUpdate>> {
    match pin!(attachment.next()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(update) => Some(update),
        Poll::Pending => None,
    }
}

fn next(attachment: &mut Attachment) -> ScreenUpdate {
    poll(attachment).expect("an update is due").expect("the session goes on")
}

fn changed(attachment: &mut Attachment) -> ScreenChange {
    match next(attachment) {
        ScreenUpdate::Changed(change) => change,
        other => panic!("{other:?}"),
    }
}

/// A viewer that applies changes and nothing else.
#[derive(Default)]
struct Mirror {
    lines: Vec<Line>,
    scrollback: Vec<Line>,
    skipped: u64,
    offset: u64,
}

impl Mirror {
    fn apply(&mut self, change: &ScreenChange) {
        let rows = usize::from(change.snapshot.size.rows());
        self.lines.drain(..usize::from(change.shifted).min(self.lines.len()));
        self.lines.resize(rows, Line::default());
        for row in &change.rows {
            self.lines[usize::from(*row)] = Line::clone(&change.snapshot.lines[usize::from(*row)]);
        }
        self.scrollback.extend(change.scrolled.iter().cloned());
        self.skipped += change.skipped;
        self.offset = change.offset;
    }
}

fn lines(snapshot: &Snapshot) -> Vec<Line> {
    snapshot.lines.iter().map(|line| Line::clone(line)).collect()
}

#[test]
fn the_first_update_is_the_whole_screen_and_the_next_what_changed() {
    let world = world(Size::new(10, 3));
    world.feed(b"one\r\ntwo");
    let mut attachment = world.attach(&AttachRequest::screen());
    let first = changed(&mut attachment);
    assert_eq!((first.offset, first.full, first.snapshot.text().as_str()), (8, true, "one\ntwo"));
    assert_eq!(poll(&mut attachment), None);
    world.feed(b"!");
    let second = changed(&mut attachment);
    assert_eq!((second.offset, second.full, second.rows), (9, false, vec![1]));
}

#[test]
fn a_screen_that_scrolls_moves_and_its_lines_are_delivered() {
    let world = world(Size::new(10, 3));
    world.feed(b"1\r\n2\r\n3");
    let mut attachment = world.attach(&AttachRequest::screen());
    changed(&mut attachment);
    world.feed(b"\r\n4");
    let change = changed(&mut attachment);
    assert_eq!((change.shifted, change.rows), (1, vec![2]));
    assert_eq!(change.scrolled.iter().map(Line::text).collect::<Vec<_>>(), ["1"]);
    // More than the terminal retains.
    (5..100).for_each(|number| world.feed(format!("\r\n{number}").as_bytes()));
    let change = changed(&mut attachment);
    assert_eq!((change.scrolled.len(), change.skipped), (20, 75));
    assert_eq!(change.scrolled.last().map(Line::text), Some("96"));
}

#[test]
fn changes_merge_until_the_reader_comes_and_come_no_faster_than_sixty_a_second() {
    let world = world(Size::new(10, 3));
    let mut attachment = world.attach(&AttachRequest::screen());
    changed(&mut attachment);
    let start = world.clock.boot_time();
    for count in 1..=60 {
        (0..5).for_each(|_| world.feed(b"x\r\n"));
        assert_eq!(changed(&mut attachment).offset, count * 15);
    }
    assert!(world.clock.boot_time() - start >= Duration::from_secs(1));
}

#[test]
fn output_goes_on_exactly_where_the_reader_left_off() {
    let world = world(Size::new(10, 3));
    world.feed("ab▐".as_bytes());
    let mut attachment = world.attach(&AttachRequest::output().with_since(1));
    let output = |offset, bytes: &'static [u8]| ScreenUpdate::Output { offset, bytes: bytes.into() };
    assert_eq!(next(&mut attachment), output(1, "b▐".as_bytes()));
    // The log holds the start of a character back until the rest has come; the reader gets it at once.
    world.feed(b"\xe2\x96");
    assert_eq!(next(&mut attachment), output(5, b"\xe2\x96"));
    world.feed(b"\x90");
    assert_eq!(next(&mut attachment), output(7, b"\x90"));
    let error = Attachment::new(&world.screen, &AttachRequest::output().with_since(9)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
}

#[test]
fn a_reader_of_output_that_is_gone_gets_a_redraw_that_names_the_gap() {
    let world = world_with(PlainTerminal::new(Size::new(10, 3)), 4096);
    let mut attachment = world.attach(&AttachRequest::output().with_since(0));
    for _ in 0..100 {
        world.feed(&[b'x'; 1000]);
    }
    world.feed(b"\r\nend\x1b[3");
    let ScreenUpdate::Redraw { lost, snapshot, bytes } = next(&mut attachment) else { panic!() };
    assert_eq!((lost, snapshot.row_text(2)), (0..100_008, "end"));
    assert!(bytes.ends_with(b"\x1b[3"), "what comes next continues a sequence: {}", bytes.escape_ascii());
    world.feed(b"1mred");
    let ScreenUpdate::Output { offset, bytes } = next(&mut attachment) else { panic!() };
    assert_eq!((offset, &bytes[..]), (100_008, &b"1mred"[..]));
}

#[test]
fn a_resize_stands_where_it_happened() {
    let world = world(Size::new(10, 3));
    let mut attachment = world.attach(&AttachRequest::output().with_since(0));
    world.feed(b"before");
    world.screen.resize(Size::new(20, 5));
    world.feed(b"after");
    let seen: Vec<_> = (0..3).map(|_| next(&mut attachment)).collect();
    assert_eq!(
        seen,
        [
            ScreenUpdate::Output { offset: 0, bytes: b"before"[..].into() },
            ScreenUpdate::Resized(Size::new(20, 5)),
            ScreenUpdate::Output { offset: 6, bytes: b"after"[..].into() },
        ]
    );
}

#[test]
fn attachments_end_with_the_output_and_an_ended_session_has_its_last_screen() {
    let world = world(Size::new(10, 3));
    let mut early = world.attach(&AttachRequest::screen());
    changed(&mut early);
    world.feed(b"last words");
    world.screen.finish();
    assert_eq!(changed(&mut early).snapshot.text(), "last words");
    assert_eq!(poll(&mut early), Some(None));
    assert_eq!(poll(&mut early), Some(None));
    let mut late = world.attach(&AttachRequest::screen());
    assert_eq!(changed(&mut late).snapshot.text(), "last words");
    assert_eq!(poll(&mut late), Some(None));
    let mut raw = world.attach(&AttachRequest::output().with_since(5));
    assert_eq!(next(&mut raw), ScreenUpdate::Output { offset: 5, bytes: b"words"[..].into() });
    assert_eq!(poll(&mut raw), Some(None));
}

/// A terminal that answers every byte, and holds back what it shows until a `!`.
#[derive(Debug)]
struct Chatty {
    plain: PlainTerminal,
    shown: Option<Arc<Snapshot>>,
    looks: u32,
}

impl Terminal for Chatty {
    fn feed(&mut self, bytes: &[u8]) {
        self.shown = bytes.ends_with(b"<").then(|| self.plain.snapshot());
        self.plain.feed(bytes);
    }

    fn resize(&mut self, size: Size) {
        self.plain.resize(size);
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        // Its time runs out.
        self.looks += 1;
        if self.looks > 5 {
            self.shown = None;
        }
        self.shown.clone().unwrap_or_else(|| self.plain.snapshot())
    }

    fn scrollback_numbers(&self) -> Range<u64> {
        self.plain.scrollback_numbers()
    }

    fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        self.plain.scrollback(range)
    }

    fn take_replies(&mut self) -> Vec<u8> {
        b"reply".to_vec()
    }

    fn is_synchronizing(&self) -> bool {
        self.shown.is_some()
    }
}

fn chatty() -> World {
    world_with(Chatty { plain: PlainTerminal::new(Size::new(10, 3)), shown: None, looks: 0 }, 4096)
}

#[test]
fn queries_are_answered_by_one_terminal() {
    let world = chatty();
    assert_eq!(world.screen.feed(b"q"), Some(b"reply".to_vec()));
    let attachment = world.attach(&AttachRequest::output().with_answers());
    let other = world.attach(&AttachRequest::output());
    assert_eq!(world.screen.feed(b"q"), Some(Vec::new()));
    drop(attachment);
    assert_eq!(world.screen.feed(b"q"), Some(b"reply".to_vec()));
    drop(other);
}

#[test]
fn a_frame_whose_time_runs_out_is_delivered_without_more_output() {
    let world = chatty();
    let mut attachment = world.attach(&AttachRequest::screen());
    changed(&mut attachment);
    world.feed(b"frame<");
    assert_eq!(changed(&mut attachment).snapshot.text(), "frame<");
}

/// A kept screen counts as shown up to its offset, even if the output before it cannot be read.
#[test]
fn a_screen_may_show_more_than_could_be_read() {
    let world = world(Size::new(10, 3));
    let redraw = b"\x1bcshown".to_vec();
    let kept = Checkpoint { offset: 100, line: 7, size: Size::new(10, 3), redraw };
    world.screen.fall_behind();
    world.screen.restore(Some(&kept), 0);
    world.feed(b"what was read");
    assert!(!world.screen.has_read_what_it_shows());
    world.screen.finish();
    let mut raw = world.attach(&AttachRequest::output());
    let ScreenUpdate::Redraw { lost, snapshot, .. } = next(&mut raw) else { panic!("no redraw") };
    assert_eq!((lost, snapshot.text().as_str()), (100..100, "shown"));
    assert_eq!(poll(&mut raw), Some(None), "what it shows came again");
    assert_eq!(poll(&mut world.attach(&AttachRequest::output().with_since(99))), Some(None));
    let again = world.screen.checkpoint().unwrap();
    assert_eq!((again.offset, again.line, again.size), (100, 7, kept.size));
}

/// A number names one line for good, also where the terminal was resized after its screen was kept.
#[test]
fn numbers_of_lines_do_not_come_again_after_a_resize() {
    let world = world(Size::new(10, 2));
    world.feed(&b"line\r\n".repeat(9));
    let kept = world.screen.checkpoint().unwrap();
    let numbers_in = |size: Size, line: u64, resizes: u64| {
        let later = self::world(size);
        later.screen.restore(Some(&Checkpoint { line, redraw: kept.redraw.clone(), ..kept }), resizes);
        later.screen.snapshot().scrollback.clone()
    };
    let numbers = |line, resizes| numbers_in(Size::new(10, 2), line, resizes);
    assert_eq!(numbers(kept.line, 0), world.screen.snapshot().scrollback);
    let (once, twice) = (numbers(kept.line, 1), numbers(kept.line, 2));
    assert!(kept.line < once.start && once.end < twice.start, "{once:?} {twice:?}");
    // From program to program they only grow.
    assert!(numbers(twice.end, 1).start > twice.end);
    assert_eq!(numbers(twice.end, 0), twice);
    // The guardian had not heard of the resize before the screen was kept.
    assert_eq!(numbers_in(Size::new(10, 3), kept.line, 0).end, once.end);
}

/// Of a string that began long ago, only the rest would be repeated, as text.
#[test]
fn a_screen_is_not_kept_within_a_long_string() {
    let world = world(Size::new(20, 3));
    world.feed(b"before\x1b]1337;File=inline=1:");
    assert!(world.screen.checkpoint().is_some(), "it is repeated");
    (0..200).for_each(|_| world.feed(&[b'Q'; 1024]));
    assert_eq!(world.screen.checkpoint(), None);
    let ScreenUpdate::Redraw { bytes, .. } = next(&mut world.attach(&AttachRequest::output())) else {
        panic!("no redraw")
    };
    let mut viewer = PlainTerminal::new(Size::new(20, 3));
    viewer.feed(&bytes);
    for rest in [&b"QQQ\x07"[..], b" after"] {
        world.feed(rest);
        viewer.feed(rest);
    }
    assert_eq!(viewer.snapshot().text().trim_end(), "before after");
    assert!(world.screen.checkpoint().is_some());
}

/// A terminal with a scrollback of more than a file of its screen may have, and such a screen if the flag is set.
#[derive(Debug)]
struct Colourful(PlainTerminal, bool);

impl Terminal for Colourful {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    fn resize(&mut self, size: Size) {
        self.0.resize(size);
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.0.snapshot()
    }

    fn scrollback_numbers(&self) -> Range<u64> {
        self.0.scrollback_numbers()
    }

    fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        self.0.scrollback(range)
    }

    fn redraw_with_scrollback(&mut self, _: usize) -> (Vec<u8>, u64) {
        (vec![b' '; LARGEST + 1], 12)
    }

    fn redraw(&mut self) -> Vec<u8> {
        if self.1 { vec![b' '; LARGEST + 1] } else { self.0.redraw() }
    }
}

#[test]
fn a_scrollback_that_is_too_large_is_left_out_of_what_is_kept() {
    let plain = || PlainTerminal::new(Size::new(10, 3));
    // One that cannot be read again must not take the place of the last.
    assert_eq!(world_with(Colourful(plain(), true), 4096).screen.checkpoint(), None);
    let world = world_with(Colourful(plain(), false), 4096);
    world.feed(b"shown");
    let kept = world.screen.checkpoint().unwrap();
    assert_eq!((kept.redraw, kept.line), (b"\x1bcshown\x1b[1;6H".to_vec(), 12));
}

#[derive(Clone, Debug)]
enum Act {
    Feed(Vec<u8>),
    Resize(u16, u16),
    Read(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let text = prop_oneof![
        "[a-c ]{0,12}".prop_map(String::into_bytes),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\x1b[3".to_vec()),
        Just("é▐".as_bytes()[..4].to_vec()),
        Just(b"x\r\ny\r\nz\r\n".to_vec()),
        Just(vec![b'w'; 300]),
    ];
    let act = prop_oneof![
        8 => text.prop_map(Act::Feed),
        1 => (1_u16..12, 1_u16..6).prop_map(|(cols, rows)| Act::Resize(cols, rows)),
        4 => (0_usize..2).prop_map(Act::Read),
    ];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Two readers at their own pace: what they make of the changes is what the terminal shows at that offset, and the
    /// lines that went up are neither doubled nor missing.
    #[test]
    fn a_mirrored_screen_is_the_terminal(acts in acts()) {
        let world = world(Size::new(8, 4));
        let mut alone = PlainTerminal::new(Size::new(8, 4)).with_scrollback(100_000, 1 << 30);
        let mut pushed = Vec::new();
        let mut readers: Vec<_> =
            (0..2).map(|_| (world.attach(&AttachRequest::screen()), Mirror::default(), 0)).collect();
        let mut fed = 0;
        let mut seen = alone.snapshot().scrollback.end;
        for act in acts.into_iter().chain([Act::Read(0), Act::Read(1)]) {
            match act {
                Act::Feed(bytes) => {
                    world.feed(&bytes);
                    alone.feed(&bytes);
                    fed += bytes.len() as u64;
                    let end = alone.snapshot().scrollback.end;
                    pushed.extend(alone.scrollback(seen..end));
                    seen = end;
                }
                Act::Resize(cols, rows) if alone.snapshot().size == Size::new(cols, rows) => {}
                Act::Resize(cols, rows) => {
                    world.screen.resize(Size::new(cols, rows));
                    alone.resize(Size::new(cols, rows));
                    seen = alone.snapshot().scrollback.end;
                    // Whoever followed reads the scrollback anew.
                    pushed.clear();
                }
                Act::Read(reader) => {
                    let (attachment, mirror, from) = &mut readers[reader];
                    let Some(update) = poll(attachment) else { continue };
                    let Some(ScreenUpdate::Changed(change)) = update else { panic!("{update:?}") };
                    if change.full {
                        *mirror = Mirror::default();
                        *from = pushed.len();
                    }
                    *from = (*from).min(pushed.len());
                    mirror.apply(&change);
                    let now = alone.snapshot();
                    prop_assert_eq!(&mirror.lines, &lines(&now));
                    prop_assert_eq!(change.snapshot.cursor, now.cursor);
                    prop_assert_eq!(mirror.offset, fed);
                    let missing = mirror.scrollback.len() as u64 + mirror.skipped;
                    prop_assert_eq!(missing, (pushed.len() - *from) as u64);
                    let newest = change.scrolled.len();
                    prop_assert_eq!(&change.scrolled[..], &pushed[pushed.len() - newest..]);
                }
            }
        }
    }

    /// A reader of raw output that keeps up has every byte once; a slow one knows what it lacks, and its own terminal
    /// shows the same text.
    #[test]
    fn raw_output_is_complete_or_says_what_is_missing(acts in acts(), room in prop_oneof![Just(600_usize), Just(1 << 20)]) {
        let size = Size::new(8, 4);
        let world = world_with(PlainTerminal::new(size), room);
        let mut attachment = world.attach(&AttachRequest::output().with_since(0));
        let (mut all, mut next) = (Vec::new(), 0);
        for act in acts.into_iter().chain([Act::Read(0)]) {
            match act {
                Act::Feed(bytes) => {
                    world.feed(&bytes);
                    all.extend(bytes);
                }
                Act::Resize(..) => {}
                Act::Read(_) => match poll(&mut attachment) {
                    None => {}
                    Some(Some(ScreenUpdate::Output { offset, bytes })) => {
                        prop_assert_eq!(offset, next);
                        prop_assert_eq!(&all[offset as usize..offset as usize + bytes.len()], &bytes[..]);
                        next += bytes.len() as u64;
                    }
                    Some(Some(ScreenUpdate::Redraw { lost, snapshot, .. })) => {
                        prop_assert!(room < 1 << 20, "a gap although all is retained");
                        prop_assert_eq!(lost, next..all.len() as u64);
                        prop_assert_eq!(snapshot.text(), world.screen.snapshot().text());
                        next = all.len() as u64;
                    }
                    other => prop_assert!(false, "{:?}", other),
                },
            }
        }
        prop_assert_eq!(next, all.len() as u64);
    }
}
