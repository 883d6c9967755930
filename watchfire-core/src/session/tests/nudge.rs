//! Turns that end without a claim.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::{Fast, Stage, within};
use crate::backend::Status;
use crate::session::{Blocks, Cause, Completion, Deadline};

/// An agent that works on a task, with a time limit of 100 seconds.
fn working() -> Stage {
    Stage::start("busy", Arc::new(Fast(50)), |parts, folder| {
        parts.completion = Completion::TaskFile(folder.join("task.yaml"));
        parts.deadline = Some(Deadline::new(parts.clock.boot_time() + Duration::from_secs(100)));
    })
}

async fn typed(stage: &Stage, text: &str) {
    let seen = async {
        while !stage.process.typed().contains(text) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(seen).await;
}

async fn asked(stage: &Stage, count: usize) -> Option<String> {
    let mut blocks = stage.session.blocks();
    let now = within(blocks.wait_for(|now: &Blocks| now.questions.len() == count)).await.unwrap();
    now.questions.first().map(|question| question.id.clone())
}

/// Prints a line, and waits until it is known.
async fn print(stage: &Stage, line: &str, status: Status) {
    stage.process.print(&format!("\r\n{line}"));
    let known = async {
        while stage.session.status() != status {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(known).await;
}

/// Works, says the words, and ends the turn.
async fn turn(stage: &Stage, words: &str) {
    print(stage, "busy", Status::Processing).await;
    print(stage, &format!("{words}\r\nidle"), Status::Idle).await;
}

#[tokio::test]
async fn a_turn_without_a_claim_is_questioned_once_then_a_person_is_asked() {
    let stage = working();
    turn(&stage, "Shall I?").await;
    typed(&stage, "you have not said how your task ended").await;
    assert!(stage.session.blocks().borrow().is_empty(), "the agent was asked first");
    turn(&stage, "Shall I, then?").await;
    let id = asked(&stage, 1).await.unwrap();
    let question = stage.session.blocks().borrow().questions[0].question.clone();
    assert!(question.contains("Shall I, then?"), "{question:?}");
    assert_eq!(stage.session.doing(), "waiting for you: idle", "with what the screen says last");
    within(stage.session.answer(&id, "You shall.")).await.unwrap();
    typed(&stage, "You shall.").await;
    // Longer than the time limit: the time in which it waited does not count.
    turn(&stage, "And now?").await;
    asked(&stage, 1).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(!stage.session.has_ended());
    assert_eq!(stage.process.typed().matches("you have not said").count(), 1);
    // A person at the keys lets it go on.
    print(&stage, "busy", Status::Processing).await;
    asked(&stage, 0).await;
    fs::write(stage.path("signal.json"), r#"{"session":"s1","status":"done"}"#).unwrap();
    assert_eq!(within(stage.session.ended()).await.cause, Cause::Claimed);
}

/// A short turn can begin and end between two looks at the screen.
#[tokio::test]
async fn a_turn_that_nobody_saw_is_over_too() {
    let stage = Stage::start("busy", Arc::new(Fast(100)), |parts, folder| {
        parts.completion = Completion::TaskFile(folder.join("task.yaml"));
    });
    // One that has not shown yet that it works may do so unseen.
    print(&stage, "idle", Status::Idle).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.process.typed(), "");
    turn(&stage, "Shall I?").await;
    typed(&stage, "you have not said how your task ended").await;
    let first = asked(&stage, 1).await.unwrap();
    within(stage.session.answer(&first, "You shall.")).await.unwrap();
    typed(&stage, "You shall.").await;
    asked(&stage, 0).await;
    assert_ne!(asked(&stage, 1).await.unwrap(), first);
    assert_eq!(stage.process.typed().matches("you have not said").count(), 1);
}

#[tokio::test]
async fn a_person_is_asked_where_the_agent_cannot_be() {
    let stage = working();
    stage.process.turn_deaf();
    turn(&stage, "Shall I?").await;
    assert!(asked(&stage, 1).await.is_some());
}

#[tokio::test]
async fn what_is_blocked_or_goes_on_is_not_questioned() {
    let stage = working();
    turn(&stage, "Hm.").await;
    stage.process.print("\r\nrate_limited slow down");
    within(stage.session.blocks().wait_for(|now| !now.is_empty())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(stage.process.typed(), "");
    stage.process.print("\r\nover rate_limited");
    within(stage.session.blocks().wait_for(Blocks::is_empty)).await.unwrap();
    print(&stage, "busy", Status::Processing).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(stage.process.typed(), "");
    fs::write(stage.path("signal.json"), r#"{"session":"s1","status":"done"}"#).unwrap();
    assert_eq!(within(stage.session.ended()).await.cause, Cause::Claimed);
}
