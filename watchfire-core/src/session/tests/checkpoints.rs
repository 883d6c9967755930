//! Screens that an earlier program kept.

use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use super::{Stage, within};
use crate::clock::SystemClock;
use crate::schedule::StopReason;
use crate::session::actor::Taken;
use crate::session::recording::{Checkpoint, Recorder};
use crate::session::{AttachRequest, Checkpoints, ScreenUpdate};
use crate::terminal::{Line, PlainTerminal, Size, Snapshot, Terminal};

/// Waits until the screen shows exactly this.
async fn shows(stage: &Stage, wanted: &str) {
    let mut changes = stage.session.0.screen.changes();
    let seen = async {
        while stage.session.snapshot().text().trim_end() != wanted {
            changes.changed().await.unwrap();
        }
    };
    let seen = tokio::time::timeout(std::time::Duration::from_secs(5), seen).await;
    assert!(seen.is_ok(), "{:?}", stage.session.snapshot().text());
}

/// Waits until a screen of at least this offset is kept.
async fn kept(stage: &Stage, offset: u64) -> Checkpoint {
    within(async {
        loop {
            match Checkpoints::beside(stage.folder.path()).read().await {
                (Some(checkpoint), _) if checkpoint.offset >= offset => break checkpoint,
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn what_was_on_the_screen_before_the_oldest_output_is_there_again() {
    let kept = tempfile::tempdir().unwrap();
    let checkpoint =
        Checkpoint { offset: 7, line: 0, size: Size::default(), redraw: b"\x1bcfirst\r\n".to_vec() };
    Checkpoints::beside(kept.path()).write(checkpoint).await;
    let stage = Stage::keeping(3, "first\r\nsecond", Arc::new(SystemClock), |parts, _| {
        parts.sinks.screens = Some(Checkpoints::beside(kept.path()));
        parts.taken = Some(Taken::default());
    });
    shows(&stage, "first\nsecond").await;

    // What a viewer gets next follows what it was shown.
    let mut attached = stage.session.attach(&AttachRequest::output()).unwrap();
    let first = within(attached.next()).await.unwrap();
    assert!(matches!(&first, ScreenUpdate::Redraw { lost, .. } if *lost == (13..13)), "{first:?}");
    stage.process.print("!");
    let next = within(attached.next()).await.unwrap();
    assert!(matches!(&next, ScreenUpdate::Output { offset: 13, bytes } if **bytes == *b"!"), "{next:?}");
}

/// Only a session that was taken over has an earlier screen. A file that lies there is none of a new one's.
#[tokio::test]
async fn a_new_session_begins_with_an_empty_screen() {
    let kept = tempfile::tempdir().unwrap();
    let checkpoint =
        Checkpoint { offset: 7, line: 3, size: Size::new(9, 3), redraw: b"\x1bcforeign\r\n".to_vec() };
    Checkpoints::beside(kept.path()).write(checkpoint).await;
    let stage = Stage::start("first\r\nsecond", Arc::new(SystemClock), |parts, _| {
        parts.sinks.screens = Some(Checkpoints::beside(kept.path()));
    });
    shows(&stage, "first\nsecond").await;
    assert_eq!(stage.session.snapshot().scrollback.start, 0);
}

/// Shown is what was kept, and not what the same output would make of another terminal.
#[tokio::test]
async fn of_the_output_only_what_follows_a_kept_screen_is_fed_again() {
    let kept = tempfile::tempdir().unwrap();
    let checkpoint =
        Checkpoint { offset: 7, line: 41, size: Size::new(4, 2), redraw: b"\x1bcabcdefg\r\n".to_vec() };
    Checkpoints::beside(kept.path()).write(checkpoint).await;
    let stage = Stage::keeping(0, "first\r\nsecond", Arc::new(SystemClock), |parts, _| {
        parts.sinks.screens = Some(Checkpoints::beside(kept.path()));
        parts.taken = Some(Taken::default());
    });
    // It was drawn for four columns and two rows, of which one scrolled by. The plain terminal joins no rows.
    shows(&stage, "efg\nsecond").await;
    // In another size its lines have other numbers.
    let above = stage.session.0.screen.scrollback((1 << 32) - 1..1 << 32);
    assert_eq!(above.iter().map(|line| line.text()).collect::<Vec<_>>(), ["abcd"]);
    // Readers of the output have all of it.
    let mut attached = stage.session.attach(&AttachRequest::output().with_since(0)).unwrap();
    let first = within(attached.next()).await.unwrap();
    assert!(
        matches!(&first, ScreenUpdate::Output { offset: 0, bytes } if **bytes == *b"first\r\nsecond"),
        "{first:?}"
    );
}

/// A viewer that is there at once sees no screen grow.
#[tokio::test]
async fn nothing_is_shown_before_all_that_was_printed() {
    let all: String = (0..30).map(|n| format!("{n}\r\n")).collect();
    let stage = Stage::start(&all, Arc::new(SystemClock), |parts, _| parts.taken = Some(Taken::default()));
    let mut attached = stage.session.attach(&AttachRequest::screen()).unwrap();
    let first = within(attached.next()).await.unwrap();
    let ScreenUpdate::Changed(change) = first else { panic!("{first:?}") };
    assert!(change.snapshot.text().ends_with("28\n29"), "{}", change.snapshot.text());
}

/// Who attaches at once, or again with the offset of before, gets the output from one byte on, and none of it twice.
#[tokio::test]
async fn raw_output_goes_on_after_all_that_was_printed() {
    let kept = tempfile::tempdir().unwrap();
    let checkpoint =
        Checkpoint { offset: 7, line: 0, size: Size::default(), redraw: b"\x1bcfirst\r\n".to_vec() };
    Checkpoints::beside(kept.path()).write(checkpoint).await;
    let stage = Stage::keeping(0, "first\r\nsecond", Arc::new(SystemClock), |parts, _| {
        parts.sinks.screens = Some(Checkpoints::beside(kept.path()));
        parts.taken = Some(Taken::default());
    });
    let mut new = stage.session.attach(&AttachRequest::output()).unwrap();
    let mut again = stage.session.attach(&AttachRequest::output().with_since(9)).unwrap();
    let first = within(new.next()).await.unwrap();
    assert!(matches!(&first, ScreenUpdate::Redraw { lost, .. } if *lost == (13..13)), "{first:?}");
    let first = within(again.next()).await.unwrap();
    assert!(matches!(&first, ScreenUpdate::Output { offset: 9, bytes } if **bytes == *b"cond"), "{first:?}");
    stage.process.print("!");
    for attached in [&mut new, &mut again] {
        let next = within(attached.next()).await.unwrap();
        assert!(matches!(&next, ScreenUpdate::Output { offset: 13, bytes } if **bytes == *b"!"), "{next:?}");
    }
}

/// The recording says how often lines got other numbers since the screen was kept, or since the beginning.
#[tokio::test]
async fn numbers_that_have_changed_since_a_screen_was_kept_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("a.recording");
    let (small, large) = (Size::new(80, 24), Size::new(120, 40));
    let mut recorder = Recorder::create(&recording, Some(small)).unwrap();
    let mut screens = Checkpoints::beside(&recording);
    let at = |offset, size| Checkpoint { offset, line: 0, size, redraw: Vec::new() };
    recorder.push(b"one");
    assert_eq!(screens.read().await, (None, 0));
    recorder.resize(large);
    recorder.push(b"two");
    assert_eq!(screens.read().await, (None, 1));
    for (offset, size, resizes) in [(2, small, 1), (3, small, 1), (3, large, 0), (6, large, 0)] {
        screens.write(at(offset, size)).await;
        assert_eq!(screens.read().await, (Some(at(offset, size)), resizes), "{offset} {size:?}");
    }
    // Back to the size of the checkpoint, without any output in between.
    recorder.resize(small);
    recorder.resize(large);
    assert_eq!(screens.read().await.1, 2);
    // Output that followed the checkpoint is not kept any more.
    std::fs::rename(recording.join("0000000000000000.out"), recording.join("0000000000000009.out")).unwrap();
    assert_eq!(screens.read().await.1, 1);
    // Where it begins at the checkpoint, a resize may stand in what was before.
    screens.write(at(9, large)).await;
    assert_eq!(screens.read().await.1, 1);
    screens.write(at(10, large)).await;
    assert_eq!(screens.read().await.1, 0);
    // A gap: the disk was full, for a resize, too.
    for ending in ["out", "idx"] {
        std::fs::write(recording.join(format!("0000000000000100.{ending}")), b"").unwrap();
    }
    assert_eq!(screens.read().await.1, 1);
    let mode = std::fs::metadata(recording.join("checkpoint")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A caller that reads the screen once, and follows no changes, waits until a session that was taken over shows the present.
#[tokio::test]
async fn the_scrollback_of_a_session_that_was_taken_over_is_waited_for() {
    let all: String = (0..30).map(|n| format!("{n}\r\n")).collect();
    let stage = Stage::start(&all, Arc::new(SystemClock), |parts, _| parts.taken = Some(Taken::default()));
    within(stage.session.caught_up()).await;
    let kept = stage.session.snapshot().scrollback.clone();
    assert_eq!((kept.start, kept.end), (0, 7));
    assert_eq!(stage.session.scrollback(0..7).len(), 7);
}

#[tokio::test]
async fn a_screen_is_kept_now_and_then_and_when_its_session_is_left() {
    let stage = Stage::start("", Arc::new(SystemClock), |parts, folder| {
        parts.sinks.screens = Some(Checkpoints::beside(folder));
    });
    stage.process.print(&format!("first\r\n{}", ".\r".repeat(2 << 20)));
    let checkpoint = kept(&stage, 4 << 20).await;
    assert!(String::from_utf8(checkpoint.redraw).unwrap().contains("first\r\n."));
    stage.process.print("last");
    shows(&stage, "first\nlast").await;
    stage.session.stop_because(StopReason::Detached);
    stage.process.exit(0);
    let checkpoint = kept(&stage, checkpoint.offset + 4).await;
    assert!(String::from_utf8(checkpoint.redraw).unwrap().contains("first\r\nlast"));
}

/// Its screen could not be kept there, and is as soon as the string ends.
#[tokio::test]
async fn a_screen_waits_for_the_end_of_a_long_string() {
    let stage = Stage::start("", Arc::new(SystemClock), |parts, folder| {
        parts.sinks.screens = Some(Checkpoints::beside(folder));
    });
    let begun = format!("\x1b]1337;File={}", "x".repeat(5 << 20));
    stage.process.print(&begun);
    within(async {
        while stage.session.0.screen.offset() < begun.len() as u64 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(Checkpoints::beside(stage.folder.path()).read().await, (None, 0));
    stage.process.print("\x07shown");
    let checkpoint = kept(&stage, begun.len() as u64).await;
    assert!(String::from_utf8(checkpoint.redraw).unwrap().contains("shown"));
}

/// A new checkpoint would lose the unfinished sequence at the end of the old one.
#[tokio::test]
async fn a_kept_screen_stays_where_the_output_could_not_be_read_up_to_it() {
    let kept = tempfile::tempdir().unwrap();
    let redraw = b"\x1bcshown\x1b[3".to_vec();
    let checkpoint = Checkpoint { offset: 100, line: 0, size: Size::default(), redraw };
    Checkpoints::beside(kept.path()).write(checkpoint).await;
    let stage = Stage::keeping(50, "lost", Arc::new(SystemClock), |parts, _| {
        parts.sinks.screens = Some(Checkpoints::beside(kept.path()));
        parts.taken = Some(Taken::default());
    });
    stage.session.stop_because(StopReason::Detached);
    stage.process.exit(0);
    within(stage.session.ended()).await;
    let (checkpoint, _) = Checkpoints::beside(kept.path()).read().await;
    assert_eq!(checkpoint.unwrap().redraw, b"\x1bcshown\x1b[3");
}

/// Its lines would get numbers that other lines have had.
#[tokio::test]
async fn a_session_is_not_resized_before_it_shows_the_present() {
    // What it is to read does not come.
    let stage = Stage::keeping(50, "lost", Arc::new(SystemClock), |parts, _| {
        parts.taken = Some(Taken::default());
    });
    for cols in [30, 40] {
        stage.session.resize(Size::new(cols, 7)).await.unwrap();
    }
    assert_eq!(stage.session.snapshot().size, Size::default());
    stage.process.exit(0);
    let mut changes = stage.session.0.screen.changes();
    within(changes.wait_for(|_| stage.session.snapshot().size == Size::new(40, 7))).await.unwrap();
}

/// A terminal that answers question marks.
#[derive(Debug)]
struct Asking(PlainTerminal, bool);

impl Terminal for Asking {
    fn feed(&mut self, bytes: &[u8]) {
        self.1 |= bytes.contains(&b'?');
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

    fn take_replies(&mut self) -> Vec<u8> {
        if std::mem::take(&mut self.1) { b"answer".to_vec() } else { Vec::new() }
    }
}

fn asking() -> Stage {
    Stage::start("", Arc::new(SystemClock), |parts, folder| {
        parts.terminal = Box::new(Asking(PlainTerminal::new(Size::default()), false));
        parts.sinks.screens = Some(Checkpoints::beside(folder));
    })
}

/// If a program ends before it has written an answer, the next one gives it.
#[tokio::test]
async fn a_query_counts_as_answered_once_its_answer_is_written() {
    let stage = asking();
    stage.process.print("what?");
    within(stage.process.answered.subscribe().wait_for(|offset| *offset == 5)).await.unwrap();
    assert_eq!(stage.process.typed(), "answer");
    // Also by a person's own terminal.
    let attached = stage.session.attach(&AttachRequest::output().with_answers()).unwrap();
    stage.process.print("who?");
    within(stage.process.answered.subscribe().wait_for(|offset| *offset == 9)).await.unwrap();
    assert_eq!(stage.process.typed(), "answer");
    drop(attached);

    let stage = asking();
    stage.process.turn_deaf();
    // One that does not read its answers goes on without them.
    stage.process.print("what?");
    within(stage.process.answered.subscribe().wait_for(|offset| *offset == 5)).await.unwrap();
    stage.session.stop_because(StopReason::Detached);
    stage.process.print("who?");
    stage.process.exit(0);
    within(stage.session.ended()).await;
    assert_eq!(*stage.process.answered.borrow(), 5);
    assert_eq!(
        Checkpoints::beside(stage.folder.path()).read().await,
        (None, 0),
        "it would not be asked again"
    );
}
