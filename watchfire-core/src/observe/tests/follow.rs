//! Following a log.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;

use super::*;

async fn next(follow: &mut Follow) -> Option<FollowItem> {
    poll_fn(|context| Pin::new(&mut *follow).poll_next(context)).await
}

/// Polls once, without waiting.
fn now(follow: &mut Follow) -> Poll<Option<FollowItem>> {
    Pin::new(follow).poll_next(&mut Context::from_waker(Waker::noop()))
}

fn sequence(followed: &FollowItem) -> Option<u64> {
    match followed {
        FollowItem::Record(record) => Some(record.cursor.sequence()),
        _ => None,
    }
}

#[tokio::test]
async fn records_come_in_order_then_the_end() {
    let (log, _) = log();
    let mut follow = log.follow(FollowOptions::default()).unwrap();
    assert!(now(&mut follow).is_pending());
    for n in 0..200 {
        log.push_output(format!("{n}").as_bytes());
        log.push(Source::Hook, Body::event("tick"));
    }
    log.close();
    let mut seen = Vec::new();
    while let Some(followed) = next(&mut follow).await {
        seen.push(sequence(&followed).unwrap());
    }
    assert_eq!(seen, (1..=400).collect::<Vec<_>>());
}

#[tokio::test]
async fn silence_is_broken_by_a_heartbeat() {
    let (log, clock) = log();
    let mut follow = log.follow(FollowOptions::default().with_heartbeat(Duration::from_secs(10))).unwrap();
    for _ in 0..3 {
        assert!(now(&mut follow).is_pending());
        clock.advance(Duration::from_secs(9));
        assert!(now(&mut follow).is_pending());
        clock.advance(Duration::from_secs(1));
        let Poll::Ready(Some(heartbeat)) = now(&mut follow) else { panic!("no heartbeat") };
        assert_eq!(heartbeat, FollowItem::Heartbeat { cursor: log.latest() });
        let view = heartbeat.view(&crate::model::Timestamp::from_unix_millis(0));
        assert_eq!((view.kind.as_str(), view.fields.len()), ("heartbeat", 0));
    }
    log.push_output(b"x");
    assert!(matches!(now(&mut follow), Poll::Ready(Some(FollowItem::Record(_)))));
}

#[tokio::test]
async fn a_slow_reader_gets_a_gap_of_the_kind_that_was_lost_and_all_of_the_others() {
    let (log, _) = log_with(&LogOptions { output: LaneLimits::new(4, 1 << 20), ..LogOptions::default() });
    let mut follow = log.follow(FollowOptions::default()).unwrap();
    let from = log.latest();
    for n in 0..100 {
        log.push_output(b"noise");
        if n % 10 == 0 {
            log.push(Source::Hook, Body::event("tick"));
        }
    }
    let Poll::Ready(Some(FollowItem::Gap { from: start, to, kinds })) = now(&mut follow) else {
        panic!("no gap")
    };
    assert_eq!((start, kinds), (from, vec![RecordKind::Output]));
    let (mut ticks, mut outputs) = (0, Vec::new());
    while let Poll::Ready(Some(followed)) = now(&mut follow) {
        let FollowItem::Record(record) = followed else { panic!("a second gap") };
        match record.body.kind() {
            RecordKind::Event => ticks += 1,
            _ => outputs.push(record.cursor.sequence()),
        }
    }
    assert_eq!((ticks, outputs.len()), (10, 4));
    assert!(outputs.iter().all(|sequence| *sequence > to.sequence()));
}

#[test]
fn an_old_cursor_begins_with_a_gap_and_a_foreign_one_is_refused() {
    let (log, _) = log_with(&LogOptions { other: LaneLimits::new(2, 1 << 20), ..LogOptions::default() });
    let start = log.latest();
    (0..5).for_each(|_| drop(log.push(Source::Hook, Body::event("tick"))));
    let mut follow = log.follow(FollowOptions::default().with_since(start.clone())).unwrap();
    let Poll::Ready(Some(gap @ FollowItem::Gap { .. })) = now(&mut follow) else { panic!("no gap") };
    let view = gap.view(&crate::model::Timestamp::from_unix_millis(0));
    assert_eq!(view.kind, "gap_detected");
    assert_eq!(
        (&view.fields["from"], &view.fields["kinds"]),
        (&start.to_string().into(), &serde_json::json!(["event"]))
    );
    let other =
        Log::new("s2", 1, LogSubject::default(), &LogOptions::default(), Arc::new(ManualClock::default()));
    let foreign = FollowOptions::default().with_since(other.latest());
    assert_eq!(log.follow(foreign).unwrap_err().code(), "invalid_cursor");
}

/// Checks that what survives beside a loss is not lost to a reader that goes away after it was told of the loss.
#[test]
fn a_reader_goes_on_from_the_cursor_of_a_gap_and_misses_nothing() {
    let (log, _) = log_with(&LogOptions { output: LaneLimits::new(2, 1 << 20), ..LogOptions::default() });
    let start = log.latest();
    let survivor = log.push(Source::Hook, Body::event("survivor"));
    (0..5).for_each(|_| drop(log.push_output(b"noise")));
    let mut follow = log.follow(FollowOptions::default().with_since(start)).unwrap();
    let Poll::Ready(Some(gap @ FollowItem::Gap { .. })) = now(&mut follow) else { panic!("no gap") };
    let view = gap.view(&crate::model::Timestamp::from_unix_millis(0));
    let mut follow = log.follow(FollowOptions::default().with_since(view.cursor)).unwrap();
    assert_eq!(now(&mut follow), Poll::Ready(Some(gap)), "the loss is told again");
    let Poll::Ready(Some(FollowItem::Record(record))) = now(&mut follow) else { panic!("no record") };
    assert_eq!(record.cursor, survivor);
}

/// Checks that a loss of one kind is not told of another kind, of which less is lost.
#[test]
fn a_gap_ends_where_the_loss_of_its_kind_ends() {
    let options = LogOptions { output: LaneLimits::new(1, 1 << 20), ..LogOptions::default() };
    let (log, _) = log_with(&LogOptions { transcript: LaneLimits::new(1, 1 << 20), ..options });
    let mut follow = log.follow(FollowOptions::default()).unwrap();
    log.push(Source::Transcript, says("one"));
    let kept = log.push(Source::Transcript, says("two"));
    (0..3).for_each(|_| drop(log.push_output(b"noise")));
    let mut gaps = Vec::new();
    while let Poll::Ready(Some(FollowItem::Gap { to, kinds, .. })) = now(&mut follow) {
        gaps.push((kinds, to.sequence()));
        assert!(gaps.len() < 3, "{gaps:?}");
        if gaps.len() == 2 {
            break;
        }
    }
    assert_eq!(gaps, [(vec![RecordKind::Output], 4), (vec![RecordKind::Transcript], 1)]);
    assert_eq!(
        sequence(&match now(&mut follow) {
            Poll::Ready(Some(item)) => item,
            other => panic!("{other:?}"),
        }),
        Some(kept.sequence())
    );
}

/// Checks that a reader that stops holds little of what the log has evicted meanwhile.
#[test]
fn a_batch_is_bounded_by_bytes() {
    let (log, _) = log();
    let mut follow = log.follow(FollowOptions::default()).unwrap();
    let piece = [b'x'; 8 * 1024];
    (0..12).for_each(|_| drop(log.push_output(&piece)));
    assert!(matches!(now(&mut follow), Poll::Ready(Some(FollowItem::Record(_)))));
    // Evicts all of the above.
    (0..64).for_each(|_| drop(log.push_output(&piece)));
    let mut held = 1;
    while let Poll::Ready(Some(FollowItem::Record(_))) = now(&mut follow) {
        held += 1;
    }
    // Bytes and text are counted, so four or five pieces of 16 KiB.
    assert!((2..=5).contains(&held), "{held} records were held");
}

#[test]
fn only_what_was_asked_for_is_followed() {
    let (log, _) = log();
    let mut follow = log.follow(FollowOptions::default().with_kinds([RecordKind::Status])).unwrap();
    log.push_output(b"x");
    assert!(now(&mut follow).is_pending());
    status(&log, Status::Idle);
    assert!(matches!(now(&mut follow), Poll::Ready(Some(FollowItem::Record(_)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_every_record_is_seen_or_accounted_for() {
    const WRITERS: usize = 3;
    const EACH: usize = 3_000;
    let (log, _) = log_with(&LogOptions { output: LaneLimits::new(64, 1 << 20), ..LogOptions::default() });
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let mut follow = log.follow(FollowOptions::default().with_kinds([RecordKind::Output])).unwrap();
            tokio::spawn(async move {
                let (mut last, mut seen, mut allowed) = (0, 0_u64, 0);
                while let Some(followed) = next(&mut follow).await {
                    match followed {
                        FollowItem::Record(record) => {
                            let sequence = record.cursor.sequence();
                            assert!(sequence > last, "out of order");
                            assert!(sequence == last + 1 || sequence <= allowed + 1, "a hole at {sequence}");
                            (last, seen) = (sequence, seen + 1);
                        }
                        FollowItem::Gap { to, .. } => allowed = to.sequence(),
                        FollowItem::Heartbeat { .. } => {}
                    }
                }
                (last, seen)
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let log = log.clone();
            std::thread::spawn(move || (0..EACH).for_each(|_| drop(log.push_output(b"line\n"))))
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    log.close();
    for reader in readers {
        let (last, seen) = reader.await.unwrap();
        assert_eq!(last, (WRITERS * EACH) as u64);
        assert!(seen > 0);
    }
}
