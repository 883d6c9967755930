use std::sync::Arc;

use super::{Stage, within};
use crate::backend::IssueKind;
use crate::clock::SystemClock;
use crate::endpoint::{Answer, Signal, SpoolMessage, client};
use crate::model::Question;
use crate::session::Blocks;
use crate::session::Taken;

fn ask(stage: &Stage, questions: &[(&str, &str)]) {
    let questions = questions.iter().map(|(id, text)| Question::new(*id, *text)).collect();
    client::send(&stage.path("outbox"), &SpoolMessage::Signal(Signal::Questions(questions))).unwrap();
}

/// Waits until the open questions have these ids.
async fn asked(stage: &Stage, ids: &[&str]) {
    let same = |blocks: &Blocks| {
        blocks.questions.iter().map(|question| question.id.as_str()).eq(ids.iter().copied())
    };
    within(stage.session.blocks().wait_for(same)).await.unwrap();
}

async fn started() -> Stage {
    let stage = Stage::new();
    let spool = async {
        while !stage.path("outbox").exists() {
            tokio::task::yield_now().await;
        }
    };
    within(spool).await;
    stage
}

#[tokio::test]
async fn questions_open_and_are_answered_in_the_inbox_and_on_the_terminal() {
    let stage = started().await;
    ask(&stage, &[("port", "Which port?"), ("host", "Which host?")]);
    asked(&stage, &["port", "host"]).await;
    let session = &stage.session;
    within(session.answer("port", "8080")).await.unwrap();
    asked(&stage, &["host"]).await;
    let answer = Answer::read(&stage.path("inbox"), "port").unwrap();
    assert_eq!(answer, Some(Answer::new("port", "8080")));
    within(session.answer("port", "8080")).await.unwrap();
    assert_eq!(within(session.answer("port", "9")).await.unwrap_err().code(), "conflict");
    assert_eq!(within(session.answer("user", "me")).await.unwrap_err().code(), "not_found");
    within(session.answer("host", "localhost")).await.unwrap();
    let typed = async {
        while !stage.process.typed().contains("localhost") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within(typed).await;
    let typed = stage.process.typed();
    assert!(
        typed.contains("Which port?") && typed.contains("8080") && !typed.contains("Which host?"),
        "{typed:?}"
    );
    // The same question in a later message is not asked again; with another text it is.
    ask(&stage, &[("port", "Which port?"), ("host", "Which host for tests?")]);
    asked(&stage, &["host"]).await;
    stage.process.exit(0);
    let ended = within(session.ended()).await;
    assert_eq!((ended.issue, ended.questions), (None, vec![Question::new("host", "Which host for tests?")]));
    assert_eq!(within(session.answer("host", "x")).await.unwrap_err().code(), "target_off");
}

#[tokio::test]
async fn an_agent_that_asks_in_its_last_moment_is_heard() {
    let stage = started().await;
    ask(&stage, &[("1", "In a message?")]);
    std::fs::write(
        stage.path("signal.json"),
        r#"{"session":"s1","status":"questions","questions":[{"id":"2","question":"In the file?"}]}"#,
    )
    .unwrap();
    stage.process.exit(0);
    let ended = within(stage.session.ended()).await;
    let mut ids: Vec<_> = ended.questions.iter().map(|question| question.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!((ids, ended.claim), (vec!["1", "2"], None));
}

#[tokio::test]
async fn issues_that_block_come_and_go() {
    let stage = started().await;
    let mut blocks = stage.session.blocks();
    let mut until = async |count: usize| {
        let seen = within(blocks.wait_for(|blocks| blocks.issues.len() == count)).await.unwrap();
        seen.issues.iter().map(|issue| issue.kind).collect::<Vec<_>>()
    };
    stage.process.print("\r\nauth_required Please log in");
    assert_eq!(until(1).await, [IssueKind::AuthRequired]);
    stage.process.print("\r\nover auth_required");
    until(0).await;
    stage.process.print("\r\nrate_limited until 5000");
    assert_eq!(until(1).await, [IssueKind::RateLimited]);
    stage.process.exit(1);
    let ended = within(stage.session.ended()).await;
    let issue = ended.issue.unwrap();
    assert_eq!((issue.kind, issue.message.as_str()), (IssueKind::RateLimited, "until 5000"));
    assert_eq!(issue.reset_at.map(|at| at.unix_millis()), Some(5000));
}

#[tokio::test]
async fn an_agent_that_prints_at_once_and_then_waits_is_read() {
    let stage = Stage::printing("rate_limited slow down");
    let mut blocks = stage.session.blocks();
    let issues = within(blocks.wait_for(|blocks| !blocks.issues.is_empty())).await.unwrap().issues.clone();
    assert_eq!(issues[0].message, "slow down");
}

#[tokio::test]
async fn a_session_that_was_taken_over_is_answered_before_it_has_read_its_question_again() {
    let stage = Stage::start("", Arc::new(SystemClock), |parts, _| parts.taken = Some(Taken::default()));
    within(stage.session.answer_to(&Question::new("port", "Which port?"), "8080")).await.unwrap();
    assert_eq!(Answer::read(&stage.path("inbox"), "port").unwrap(), Some(Answer::new("port", "8080")));
    ask(&stage, &[("port", "Which port?"), ("host", "Which host?")]);
    asked(&stage, &["host"]).await;
}

#[tokio::test]
async fn an_answer_to_a_question_that_is_withdrawn_in_that_moment_reaches_the_agent() {
    let stage = started().await;
    let [first, second] = ["Which port?", "Which port for tests?"].map(|text| Question::new("port", text));
    within(stage.session.answer_to(&first, "8080")).await.unwrap();
    let answer = || Answer::read(&stage.path("inbox"), "port").unwrap();
    assert_eq!(answer(), Some(Answer::new("port", "8080")));
    ask(&stage, &[("port", "Which port?"), ("host", "Which host?")]);
    asked(&stage, &["host"]).await;
    // By its id another one is asked, which that answer does not answer.
    ask(&stage, &[("port", &second.question)]);
    asked(&stage, &["host", "port"]).await;
    let third = Question::new("port", "Which port in production?");
    within(stage.session.answer_to(&third, "443")).await.unwrap();
    assert_eq!(answer(), Some(Answer::new("port", "8080")));
    asked(&stage, &["host", "port"]).await;
    within(stage.session.answer_to(&second, "8081")).await.unwrap();
    assert_eq!(answer(), Some(Answer::new("port", "8081")));
}
