//! Texts that are typed into an agent, and when.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Blunt, Stage, within};
use crate::backend::Status;
use crate::clock::SystemClock;
use crate::endpoint::SpoolMessage;
use crate::endpoint::client::send;
use crate::observe::{DeliveryState, Include, RuntimeState, WatchRequest};
use crate::session::state::mailbox::Mailbox;
use crate::session::{Reach, Receipt};

fn with_mailbox(text: &str, folder: &Path) -> Stage {
    let mailbox = Mailbox::open(folder.to_owned());
    Stage::start(text, Arc::new(SystemClock), |parts, _| parts.mailbox = Some(mailbox))
}

async fn is(stage: &Stage, status: Status) {
    let known = async {
        while stage.session.status() != status {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(known).await;
}

async fn typed(stage: &Stage, text: &str) {
    let seen = async {
        while !stage.process.typed().contains(text) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(seen).await;
}

fn deliveries(stage: &Stage) -> String {
    let request = WatchRequest::default().with_include([Include::Delivery, Include::Events]);
    serde_json::to_string(&stage.session.log().snapshot(&request).unwrap().events).unwrap()
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).into_iter().flatten().count()
}

#[tokio::test]
async fn a_session_that_takes_no_text_says_so_at_once() {
    let stage = Stage::start("", Arc::new(SystemClock), |parts, _| parts.reach = Reach::Stream);
    assert_eq!(within(stage.session.send("hello")).await.unwrap_err().code(), "no_input_channel");
    let detail = within(stage.session.deliver("hello", Duration::from_secs(60))).await;
    assert_eq!(
        (detail.runtime_state, detail.delivery_state),
        (RuntimeState::RestoredWithoutSender, DeliveryState::Failed)
    );
}

#[tokio::test]
async fn a_text_without_words_is_refused() {
    let stage = Stage::new();
    for text in ["", " \n", "\x1b\x07"] {
        assert_eq!(within(stage.session.send(text)).await.unwrap_err().code(), "invalid_input", "{text:?}");
    }
    assert_eq!(stage.process.typed(), "");
}

#[tokio::test]
async fn a_text_is_not_sent_for_a_wait_that_cannot_be_met() {
    let stage = Stage::new();
    let (detail, answer) =
        within(stage.session.send_and_watch("hello", WatchRequest::default().with_until("status:bored")))
            .await;
    assert_eq!(answer.unwrap_err().code(), "unsupported_watch_condition");
    assert_eq!((detail.delivery_state, stage.process.typed().as_str()), (DeliveryState::Failed, ""));
}

#[tokio::test]
async fn a_text_answers_no_dialog() {
    let stage = Stage::printing("asks");
    is(&stage, Status::ActionRequired).await;
    let detail = within(stage.session.deliver("y", Duration::from_millis(50))).await;
    assert_eq!((detail.delivery_state, stage.process.typed().as_str()), (DeliveryState::Pending, ""));
    stage.process.print("\r\nidle");
    typed(&stage, "y").await;
}

#[tokio::test]
async fn a_text_gets_in_line_however_short_its_sender_waits() {
    let temp = tempfile::tempdir().unwrap();
    let stage = with_mailbox("asks", temp.path());
    is(&stage, Status::ActionRequired).await;
    let detail = within(stage.session.deliver("hello", Duration::ZERO)).await;
    assert_eq!(detail.delivery_state, DeliveryState::Pending);
    stage.process.print("\r\nidle");
    typed(&stage, "hello").await;
}

/// A clock that counts how often it is asked for an alarm.
#[derive(Debug, Default)]
struct Counted(std::sync::atomic::AtomicUsize);

impl crate::clock::Clock for Counted {
    fn now(&self) -> crate::model::Timestamp {
        SystemClock.now()
    }

    fn boot_time(&self) -> Duration {
        SystemClock.boot_time()
    }

    fn sleep_until(&self, until: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        SystemClock.sleep_until(until)
    }
}

#[tokio::test]
async fn a_text_that_waits_for_a_dialog_costs_nothing() {
    let clock = Arc::new(Counted::default());
    let stage = Stage::start("idle", Arc::<Counted>::clone(&clock), |_, _| {});
    is(&stage, Status::Idle).await;
    within(stage.session.send("a")).await.unwrap();
    stage.process.print("\r\nbusy");
    is(&stage, Status::Processing).await;
    stage.process.print("\r\nasks");
    is(&stage, Status::ActionRequired).await;
    // Longer than a turn takes to show.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let before = clock.0.load(std::sync::atomic::Ordering::Relaxed);
    within(stage.session.deliver("b", Duration::from_millis(300))).await;
    let alarms = clock.0.load(std::sync::atomic::Ordering::Relaxed) - before;
    assert!(alarms < 50, "{alarms} alarms");
    assert_eq!(stage.process.typed().matches('b').count(), 0);
}

#[tokio::test]
async fn a_wait_is_for_the_turn_that_the_text_begins() {
    let stage = Stage::printing("busy");
    is(&stage, Status::Processing).await;
    // A text that nobody waits for needs no turn of its own.
    assert_eq!(within(stage.session.send("now")).await.unwrap(), Receipt::Submitted);
    let sending = tokio::spawn({
        let session = stage.session.clone();
        async move { session.send_and_watch("hello", WatchRequest::default().with_until("status:idle")).await }
    });
    let queued = || deliveries(&stage).matches("queued").count();
    let behind = async {
        while queued() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.session.deliver("after it", Duration::from_millis(50)).await
    };
    assert_eq!(within(behind).await.delivery_state, DeliveryState::Pending, "in order");
    let so_far = stage.process.typed();
    assert!(!so_far.contains("hello") && !so_far.contains("after"), "{so_far:?}");
    // The end of the turn before is none of its own.
    stage.process.print("\r\nidle");
    typed(&stage, "hello").await;
    assert!(!sending.is_finished());
    stage.process.print("\r\nbusy");
    is(&stage, Status::Processing).await;
    assert!(!sending.is_finished());
    stage.process.print("\r\nthe answer\r\nidle");
    let (_, answer) = within(sending).await.unwrap();
    let output = answer.unwrap().output.expect("output is included").text;
    assert!(output.contains("the answer"), "{output:?}");
}

#[tokio::test]
async fn a_text_outlives_its_program_and_is_typed_once_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("mail");
    let before = with_mailbox("asks", &folder);
    is(&before, Status::ActionRequired).await;
    for text in ["one", "two"] {
        let detail = within(before.session.deliver(text, Duration::from_millis(50))).await;
        assert_eq!(detail.delivery_state, DeliveryState::Pending);
    }
    assert_eq!((files(&folder), before.process.typed().as_str()), (2, ""));
    // As after a kill: what the first left is all that the second knows.
    let after = with_mailbox("", &folder);
    assert_eq!(within(after.session.send("three")).await.unwrap(), Receipt::Submitted);
    let all = after.process.typed();
    let at = |text: &str| all.find(text).unwrap_or_else(|| panic!("{all:?}"));
    assert!(at("one") < at("two") && at("two") < at("three"), "{all:?}");
    assert_eq!(all.matches("one").count(), 1);
    assert_eq!(files(&folder), 0);
}

#[tokio::test]
async fn a_text_that_was_being_typed_is_not_typed_again() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("0000000000.typed"), "half of it").unwrap();
    let stage = with_mailbox("", temp.path());
    within(stage.session.send("next")).await.unwrap();
    assert!(!stage.process.typed().contains("half"));
    let told = deliveries(&stage);
    assert!(told.contains("delivery_interrupted"), "{told}");
    within(async {
        while files(temp.path()) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn without_its_note_a_text_is_not_typed() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("mail");
    let stage = with_mailbox("asks", &folder);
    is(&stage, Status::ActionRequired).await;
    let sending = tokio::spawn({
        let session = stage.session.clone();
        async move { session.send("hello").await }
    });
    within(async {
        while files(&folder) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    std::fs::remove_dir_all(&folder).unwrap();
    stage.process.print("\r\nidle");
    assert_eq!(within(sending).await.unwrap().unwrap_err().code(), "not_found");
    assert_eq!(stage.process.typed(), "");
}

#[tokio::test]
async fn a_text_that_was_not_submitted_is_not_typed_again() {
    let temp = tempfile::tempdir().unwrap();
    let stage = with_mailbox("", temp.path());
    stage.process.turn_deaf();
    assert!(within(stage.session.send("hello")).await.is_err());
    assert_eq!(files(temp.path()), 0);
    // Its sender knows; a text that waits at the end of a session goes to the next one of its work.
    let stage = with_mailbox("asks", temp.path());
    is(&stage, Status::ActionRequired).await;
    within(stage.session.deliver("later", Duration::from_millis(50))).await;
    let waiting = tokio::spawn({
        let session = stage.session.clone();
        async move { session.send("now or never").await }
    });
    within(async {
        while files(temp.path()) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    stage.process.exit(0);
    assert_eq!(within(waiting).await.unwrap().unwrap_err().code(), "target_off");
    let next = with_mailbox("", temp.path());
    typed(&next, "later").await;
    assert!(!next.process.typed().contains("never"));
}

#[tokio::test]
async fn a_text_that_cannot_get_in_line_is_refused_however_short_its_sender_waits() {
    let temp = tempfile::tempdir().unwrap();
    let stage = with_mailbox("asks", temp.path());
    is(&stage, Status::ActionRequired).await;
    for n in 0..256 {
        std::fs::write(temp.path().join(format!("{n:010}.txt")), "x").unwrap();
    }
    let detail = within(stage.session.deliver("one too many", Duration::ZERO)).await;
    assert_eq!(detail.delivery_state, DeliveryState::Failed);
    assert_eq!(detail.error.map(|error| error.code), Some("busy".to_owned()));
}

#[tokio::test]
async fn what_is_taken_back_is_not_typed() {
    let stage = Stage::printing("asks");
    is(&stage, Status::ActionRequired).await;
    let saying = stage.session.say("for nobody");
    assert!(tokio::time::timeout(Duration::from_millis(50), saying).await.is_err());
    stage.process.print("\r\nidle");
    within(stage.session.send("for the agent")).await.unwrap();
    assert!(!stage.process.typed().contains("nobody"));
    assert!(deliveries(&stage).contains("delivery_withdrawn"));
}

#[tokio::test]
async fn a_text_that_is_to_begin_a_turn_waits_for_the_words_of_the_last() {
    let stage = Stage::start("busy", Arc::new(SystemClock), |parts, _| parts.backend = Arc::new(Blunt(true)));
    is(&stage, Status::Processing).await;
    let sending = tokio::spawn({
        let session = stage.session.clone();
        async move { session.send_and_watch("hello", WatchRequest::default().with_until("status:idle")).await }
    });
    // Its hook says that the turn is over, and there are no words to wait for in its transcript.
    std::fs::write(stage.path("t.jsonl"), "{}\n").unwrap();
    send(&stage.path("outbox"), &SpoolMessage::hook("Stop", "{}")).unwrap();
    within(stage.session.0.activity.subscribe().wait_for(|now| now.is_ending)).await.unwrap();
    stage.process.print("\r\nidle");
    is(&stage, Status::Idle).await;
    typed(&stage, "hello").await;
    assert_eq!(stage.session.0.activity.borrow().turns, 1, "typed after the end of the turn before");
    assert!(!sending.is_finished(), "that end is none of its own");
    stage.process.print("\r\nbusy");
    is(&stage, Status::Processing).await;
    stage.process.print("\r\nthe answer\r\nidle");
    is(&stage, Status::Idle).await;
    send(&stage.path("outbox"), &SpoolMessage::hook("Stop", "{}")).unwrap();
    within(sending).await.unwrap().1.unwrap();
}

#[tokio::test]
async fn long_texts_of_two_programs_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["a", "b"] {
        let files = folder.path().to_owned();
        let stage = Stage::start("", Arc::new(SystemClock), |parts, _| parts.files = files);
        within(stage.session.send(text.repeat(2000))).await.unwrap();
    }
    assert_eq!(files(&folder.path().join("inbox")), 2);
}
