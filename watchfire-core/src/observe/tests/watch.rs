//! Waiting for a condition.

use std::time::Duration;

use super::*;

/// Spawns a watch and returns once it is waiting.
async fn waiting(log: &Log, request: WatchRequest) -> tokio::task::JoinHandle<crate::Result<WatchResponse>> {
    let (before, own) = (log.waiting(), log.clone());
    let task = tokio::spawn(async move { own.watch(&request).await });
    while log.waiting() == before && !task.is_finished() {
        tokio::task::yield_now().await;
    }
    task
}

fn until(condition: &str) -> WatchRequest {
    WatchRequest::default().with_until(condition)
}

#[tokio::test]
async fn history_counts_only_for_who_asks_for_it() {
    let (log, clock) = log();
    let start = log.latest();
    let idle = status(&log, Status::Idle);
    status(&log, Status::Processing);
    let answer = log.watch(&until("status:idle").with_since(&start)).await.unwrap();
    assert_eq!(answer.matched, Some(idle));
    let task = waiting(&log, until("status:idle")).await;
    clock.advance(Duration::from_secs(30));
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "watch_timeout");
    let task = waiting(&log, until("status:idle")).await;
    let again = status(&log, Status::Idle);
    assert_eq!(task.await.unwrap().unwrap().matched, Some(again));
}

#[tokio::test]
async fn readiness_is_there_at_once_and_next_needs_something_newer() {
    let (log, _) = log();
    status(&log, Status::Idle);
    let answer = log.watch(&until("status:idle").with_accept_current(true)).await.unwrap();
    assert_eq!((answer.matched, answer.agent.status), (None, Status::Idle));
    let task = waiting(&log, until("event:turn_completed")).await;
    let turn = log.push(Source::Protocol, Body::event("turn_completed"));
    assert_eq!(task.await.unwrap().unwrap().matched, Some(turn));
}

#[tokio::test]
async fn a_token_is_found_over_borders_and_outside_of_the_tail() {
    let (log, _) = log();
    let task = waiting(&log, until("output:TOKEN").with_tail_bytes(4)).await;
    for piece in ["..TO", "\x1b[1", "mK", "EN", "\x1b[0m and a lot more after it\r\n"] {
        log.push_output(piece.as_bytes());
    }
    let answer = task.await.unwrap().unwrap();
    let output = answer.output.unwrap();
    assert!(output.text.len() <= 4 && output.truncated, "{output:?}");
    log.push(Source::Transcript, says("hello there"));
    assert!(log.watch(&until("output:hello").with_since(&answer.cursor)).await.is_ok());
}

#[tokio::test]
async fn what_was_begun_before_does_not_count() {
    let (log, clock) = log();
    log.push_output(b"TOK");
    let task = waiting(&log, until("output:TOKEN").with_timeout(Duration::from_secs(1))).await;
    log.push_output(b"EN");
    clock.advance(Duration::from_secs(1));
    assert_eq!(task.await.unwrap().unwrap_err().code(), "watch_timeout");
}

#[tokio::test]
async fn lost_evidence_is_a_gap_and_lost_other_things_are_not() {
    let options = LogOptions { output: LaneLimits::new(4, 1 << 20), ..LogOptions::default() };
    let (log, _) = log_with(&options);
    let flood = || (0..50).for_each(|_| drop(log.push_output(b"noise\n")));
    // On one thread nobody reads in between.
    let for_output = waiting(&log, until("output:TOKEN")).await;
    let for_status = waiting(&log, until("status:idle")).await;
    flood();
    status(&log, Status::Idle);
    let error = for_output.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "gap_detected");
    let oldest: Cursor = error.detail("oldest_available_cursor").unwrap().parse().unwrap();
    log.snapshot(&WatchRequest::default().with_since(&oldest)).unwrap();
    let output = for_status.await.unwrap().unwrap().output.unwrap();
    assert!(output.truncated && output.omitted_bytes > 0);
    assert_eq!(output.oldest_available_cursor, Some(oldest));
}

#[tokio::test]
async fn the_end_of_a_session_is_no_timeout() {
    for condition in ["status:idle", "output:x", "event:y", "delivery:submitted"] {
        let (log, _) = log();
        let task = waiting(&log, until(condition)).await;
        status(&log, Status::Off);
        assert_eq!(task.await.unwrap().unwrap_err().code(), "target_off", "{condition}");
        let error = log.watch(&until(condition)).await.unwrap_err();
        assert_eq!(error.code(), "target_off", "{condition}");
    }
    let (log, _) = log();
    let task = waiting(&log, until("status:idle")).await;
    status(&log, Status::Error);
    assert_eq!(task.await.unwrap().unwrap_err().code(), "target_off");
    let task = waiting(&log, until("output:x")).await;
    log.close();
    assert_eq!(task.await.unwrap().unwrap_err().code(), "target_off");
    let (log, _) = super::log();
    let start = log.latest();
    log.push_output(b"last words");
    status(&log, Status::Off);
    log.close();
    assert!(log.watch(&until("output:words").with_since(&start)).await.is_ok());
    assert!(log.watch(&until("status:off").with_since(&start)).await.is_ok());
}

#[tokio::test]
async fn places_are_limited_and_come_back() {
    let slots = WatcherSlots::new(3);
    let (one, _) = log_with(&LogOptions { watchers: 2, slots: slots.clone(), ..LogOptions::default() });
    let (two, _) = log_with(&LogOptions { watchers: 2, slots: slots.clone(), ..LogOptions::default() });
    let a = waiting(&one, until("status:idle")).await;
    let _b = waiting(&one, until("status:idle")).await;
    let error = one.watch(&until("status:idle")).await.unwrap_err();
    assert_eq!((error.code(), error.detail("scope")), ("too_many_watchers", Some("session")));
    let _c = two.follow(FollowOptions::default()).unwrap();
    let error = two.follow(FollowOptions::default()).unwrap_err();
    assert_eq!((error.code(), error.detail("scope")), ("too_many_watchers", Some("all sessions")));
    assert_eq!(slots.taken(), 3);
    a.abort();
    assert!(a.await.unwrap_err().is_cancelled());
    assert_eq!((slots.taken(), one.waiting()), (2, 1));
    let _d = two.follow(FollowOptions::default()).unwrap();
}

#[tokio::test]
async fn a_wrong_condition_takes_no_place() {
    let (log, _) = log();
    assert_eq!(log.watch(&until("status:bored")).await.unwrap_err().code(), "unsupported_watch_condition");
    assert_eq!(log.watch(&until("bored")).await.unwrap_err().code(), "invalid_input");
    assert_eq!(log.waiting(), 0);
}

#[tokio::test]
async fn a_hundred_watchers_of_one_log_are_all_answered() {
    let (log, _) = log_with(&LogOptions { watchers: 200, ..LogOptions::default() });
    let mut tasks = Vec::new();
    for _ in 0..100 {
        tasks.push(waiting(&log, until("output:END").with_tail_bytes(0)).await);
    }
    for _ in 0..200 {
        log.push_output(&[b'.'; 512]);
        tokio::task::yield_now().await;
    }
    log.push_output(b"END");
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn lists_of_conditions_come_true_by_any_or_by_all_of_them() {
    let (log, _) = log();
    let task = waiting(&log, until("any(output:NEVER, issue:any)")).await;
    status(&log, Status::Processing);
    let issue = log.push(Source::Screen, Body::Issue(Issue::new(IssueKind::UsageLimit, "used up")));
    assert_eq!(task.await.unwrap().unwrap().matched, Some(issue));

    let task =
        waiting(&log, until("all(status:idle, transcript:DONE, any(output:x, issue:overloaded))")).await;
    log.push(Source::Transcript, says("DONE"));
    status(&log, Status::Idle);
    // Each counts from when it came true, and none of them twice.
    status(&log, Status::Processing);
    log.push(Source::Screen, Body::Issue(Issue::new(IssueKind::RateLimited, "later")));
    let last = log.push(Source::Screen, Body::Issue(Issue::new(IssueKind::Overloaded, "busy")));
    assert_eq!(task.await.unwrap().unwrap().matched, Some(last));
}

#[tokio::test]
async fn a_status_of_now_counts_in_a_list_too() {
    let (log, _) = log();
    status(&log, Status::Idle);
    let accept = |text: &str| until(text).with_accept_current(true);
    assert_eq!(log.watch(&accept("any(output:x, status:idle)")).await.unwrap().matched, None);
    let task = waiting(&log, accept("all(output:x, status:idle)")).await;
    status(&log, Status::Processing);
    log.push_output(b"x\n");
    assert!(task.await.unwrap().unwrap().matched.is_some());
}

/// A list ends with what can no longer come true, and not before.
#[tokio::test]
async fn a_list_fails_once_it_cannot_come_true() {
    let (log, _) = log();
    let any = waiting(&log, until("any(status:idle, output:x)")).await;
    let all = waiting(&log, until("all(status:idle, output:x)")).await;
    status(&log, Status::Error);
    assert_eq!(all.await.unwrap().unwrap_err().code(), "target_off");
    log.push_output(b"x\n");
    assert!(any.await.unwrap().is_ok());
}

#[test]
fn the_latest_text_is_the_agents() {
    let (log, _) = log();
    log.push(Source::Transcript, says("the answer"));
    let prompt = vec![Part::Text { text: "and now something long ".repeat(20) }];
    log.push(Source::Transcript, Body::Transcript(Message::new(Role::User, prompt)));
    let answer = log.snapshot(&WatchRequest::default().with_tail_bytes(64)).unwrap();
    assert_eq!(answer.transcript.unwrap().latest_text, "the answer");
}

#[tokio::test]
async fn a_message_in_pieces_is_one() {
    let (log, _) = log();
    let piece = |text: &str| {
        let mut message = Message::new(Role::Assistant, vec![Part::Text { text: text.to_owned() }]);
        message.is_piece = true;
        Body::Transcript(message)
    };
    let whole = |id: &str, text: &str| {
        let mut message = Message::new(Role::Assistant, vec![Part::Text { text: text.to_owned() }]);
        message.id = Some(id.to_owned());
        Body::Transcript(message)
    };
    let latest = || log.snapshot(&WatchRequest::default()).unwrap().transcript.unwrap().latest_text;
    let task = waiting(&log, until("transcript:FAKE-DONE")).await;
    log.push(Source::Transcript, says("before"));
    log.push(Source::Protocol, piece("it is FA"));
    let last = log.push(Source::Protocol, piece("KE-DONE"));
    assert_eq!(task.await.unwrap().unwrap().matched, Some(last));
    assert_eq!(latest(), "it is FAKE-DONE");
    log.push(Source::Transcript, whole("m1", "one"));
    log.push(Source::Transcript, whole("m1", "two"));
    assert_eq!(latest(), "one\ntwo");
    log.push(Source::Transcript, says("three"));
    log.push(Source::Transcript, says("four"));
    assert_eq!(latest(), "four");
    // The end of one and the beginning of the next are no word.
    let task = waiting(&log, until("transcript:FIVESIX")).await;
    log.push(Source::Transcript, says("FIVE"));
    log.push(Source::Transcript, says("SIX"));
    assert!(!task.is_finished());
    log.close();
    assert_eq!(task.await.unwrap().unwrap_err().code(), "target_off");
}

/// What is printed before the wait begins is no reason to give no answer.
#[tokio::test]
async fn a_flood_between_a_text_and_its_wait_is_no_error() {
    let (log, _) = log_with(&LogOptions { output: LaneLimits::new(4, 1 << 20), ..LogOptions::default() });
    let from = log.latest();
    for _ in 0..20 {
        log.push_output(b"noise\n");
    }
    status(&log, Status::Processing);
    let idle = status(&log, Status::Idle);
    let request = until("status:idle").with_since(&from);
    assert_eq!(log.watch(&request).await.unwrap_err().code(), "cursor_expired");
    let answer = log.watch_on(&request).await.unwrap();
    assert_eq!(answer.matched, Some(idle));
    assert_eq!(answer.warnings, ["output_truncated"]);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The agent does not pay for those who watch it.
#[tokio::test]
async fn ten_thousand_waiters_cost_a_noisy_session_nothing() {
    const MANY: usize = 10_000;
    let slots = WatcherSlots::new(2 * MANY);
    let options = LogOptions { watchers: 2 * MANY, slots, ..LogOptions::default() };
    let log = Log::new("s1", 1, LogSubject::new("a", "b"), &options, Arc::new(crate::clock::SystemClock));
    let wanted = until("status:idle").with_include([Include::Status]);
    let woken = Arc::new(Woken::default());
    let waker = std::task::Waker::from(Arc::clone(&woken));
    let context = &mut std::task::Context::from_waker(&waker);
    let mut watches: Vec<_> = (0..MANY).map(|_| Box::pin(log.watch(&wanted))).collect();
    assert!(watches.iter_mut().all(|watch| watch.as_mut().poll(context).is_pending()));
    for _ in 0..1_000 {
        log.push_output(&[b'.'; 512]);
    }
    assert_eq!(woken.count(), 0, "output is not what they wait for");
    status(&log, Status::Processing);
    assert_eq!(woken.count(), MANY);
    assert!(watches.iter_mut().all(|watch| watch.as_mut().poll(context).is_pending()));
    let idle = status(&log, Status::Idle);
    assert_eq!(woken.count(), 2 * MANY);
    for mut watch in watches {
        let std::task::Poll::Ready(Ok(answer)) = watch.as_mut().poll(context) else { panic!("not answered") };
        assert_eq!(answer.matched.as_ref(), Some(&idle));
    }
    let mut late = Box::pin(log.watch(&wanted));
    assert!(late.as_mut().poll(context).is_pending());
    log.close();
    assert_eq!(woken.count(), 2 * MANY + 1, "the end is for all");
}
