//! Silent agents: those that work, and those that do not.

use std::sync::Arc;
use std::time::Duration;

use super::{Fast, Stage, within};
use crate::backend::{Issue, IssueKind, Message, Part, Role, Source};
use crate::session::Blocks;

fn stalled(blocks: &Blocks) -> Option<&Issue> {
    blocks.issues.iter().find(|issue| issue.kind == IssueKind::Stalled)
}

/// Waits until the session counts as stalled, or no longer.
async fn until(stage: &Stage, wanted: bool) -> Option<Issue> {
    let mut blocks = stage.session.blocks();
    within(blocks.wait_for(|now| stalled(now).is_some() == wanted))
        .await
        .ok()
        .and_then(|now| stalled(&now).cloned())
}

/// Looks for a time that is longer than a stall, in which `each` goes on.
async fn never(stage: &Stage, each: impl Fn()) {
    for _ in 0..100 {
        each();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(stalled(&stage.session.blocks().borrow()), None);
    }
}

fn say(stage: &Stage, role: Role, part: Part) {
    let message = Message::new(role, vec![part]);
    stage.session.0.say(message, Source::Transcript);
}

fn printing() -> Stage {
    // Five minutes are 0.6 seconds.
    Stage::start("$ ", Arc::new(Fast(500)), |_, _| {})
}

#[tokio::test]
async fn an_agent_that_does_nothing_is_stalled_until_it_is_heard() {
    let stage = printing();
    stage.process.print("Fetching\u{2026}");
    let issue = until(&stage, true).await.unwrap();
    assert!(
        issue.message.starts_with("nothing was heard of it for 5 min; it shows: $ Fetching"),
        "{issue:?}"
    );
    assert!(stage.session.blocks().borrow().is_empty(), "it blocks nothing");
    assert_eq!(stage.session.doing(), issue.message);
    stage.process.print("\r\nok");
    until(&stage, false).await;
    stage.process.exit(0);
    assert_eq!(within(stage.session.ended()).await.issue, None);
}

#[tokio::test]
async fn a_project_says_how_long_a_silence_is() {
    let stage =
        Stage::start("$ ", Arc::new(Fast(500)), |parts, _| parts.stall_after = Duration::from_secs(3600));
    stage.process.print("thinking");
    never(&stage, || {}).await;
    let stage =
        Stage::start("$ ", Arc::new(Fast(500)), |parts, _| parts.stall_after = Duration::from_secs(60));
    assert!(until(&stage, true).await.is_some());
}

#[tokio::test]
async fn a_program_that_prints_or_computes_is_at_work() {
    let stage = printing();
    never(&stage, || stage.process.print(".")).await;
    never(&stage, || stage.process.work(Duration::from_secs(5))).await;
}

#[tokio::test]
async fn a_tool_is_at_work_and_a_spinner_is_not() {
    let stage = printing();
    stage.process.print("\r\nbusy");
    say(&stage, Role::Assistant, Part::ToolCall { name: "Bash".into(), input: "make".into() });
    never(&stage, || ()).await;
    assert!(stage.session.doing().starts_with("Bash make (for "), "{}", stage.session.doing());
    say(&stage, Role::Tool, Part::ToolResult { text: "ok".into(), failed: false });
    let spinner = async {
        loop {
            stage.process.print("\rbusy");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        _ = until(&stage, true) => {}
        () = spinner => {}
    }
}
