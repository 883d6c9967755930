//! What is typed into an agent's input box, and what is not.

use std::time::Duration;

use libtest_mimic::Trial;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::session::{Receipt, Session};

use super::support::{World, appears, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_text_waits_for_an_empty_box", a_text_waits_for_an_empty_box),
        trial("a_text_gives_up_on_a_box_that_is_not_free", a_text_gives_up),
        trial("a_box_that_holds_more_is_not_submitted", a_box_that_holds_more_is_not_submitted),
        trial("a_lost_submit_key_is_pressed_again", a_lost_submit_key_is_pressed_again),
        trial("senders_do_not_interleave", senders_do_not_interleave),
        trial("a_text_that_cannot_be_typed_goes_by_file", a_text_that_cannot_be_typed_goes_by_file),
    ]
}

/// Shows its box, and writes down each line that is submitted to it.
const READS: &str =
    "stty -echoctl; while printf 'box> '; read -r line; do printf '%s\\n' \"$line\" >> lines; done";

/// The session of an agent that runs `script`, and the folder where it works.
async fn agent(world: &World, script: &str) -> (Session, std::path::PathBuf) {
    let task = world.task("t", script).await;
    world.project.run(RunRequest::all()).await.unwrap();
    let session = within(async {
        loop {
            if let Some(session) = world.project.sessions().pop() {
                return session;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    (session, world.root().join(format!(".watchfire/worktrees/{task}")))
}

async fn shows(session: &Session, text: &str) {
    within(async {
        while !session.snapshot().text().contains(text) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn a_text_waits_for_an_empty_box() {
    let world = World::new().await;
    let (session, folder) = agent(&world, READS).await;
    shows(&session, "box>").await;
    session.write("half-typed").await.unwrap();
    shows(&session, "box> half-typed").await;
    let sending = tokio::spawn({
        let session = session.clone();
        async move { session.send("hello").await }
    });
    // Longer than a screen takes to rest.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!sending.is_finished() && !folder.join("lines").exists());
    assert!(session.snapshot().text().ends_with("box> half-typed"));
    session.write("\x15").await.unwrap();
    assert_eq!(within(sending).await.unwrap().unwrap(), Receipt::Accepted);
    assert_eq!(std::fs::read_to_string(folder.join("lines")).unwrap(), "hello\n");
    session.stop();
}

async fn a_text_gives_up() {
    let world = World::hasty().await;
    let (session, _) = agent(&world, "printf 'box> half-typed'; cat > typed").await;
    shows(&session, "box>").await;
    let error = within(session.send("hello")).await.unwrap_err();
    assert_eq!(error.code(), "not_input_ready");
    assert!(error.message().contains("someone else typed"), "{error}");
    assert_eq!(session.snapshot().text(), "box> half-typed");
    session.stop();
}

async fn a_box_that_holds_more_is_not_submitted() {
    let world = World::patient().await;
    let script = "stty raw -echo; printf 'box> '; head -c 5 > typed; printf 'hello and more'; stty min 0 time 20; head -c 1 > extra; touch over; sleep 100";
    let (session, folder) = agent(&world, script).await;
    shows(&session, "box>").await;
    let sending = tokio::spawn({
        let session = session.clone();
        async move { session.send("hello").await }
    });
    shows(&session, "hello and more").await;
    world.hurry();
    let error = within(sending).await.unwrap().unwrap_err();
    assert_eq!(error.code(), "not_input_ready");
    assert!(error.message().contains("something else with it"), "{error}");
    appears(&folder.join("over")).await;
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!((read("typed").as_str(), read("extra").as_str()), ("hello", ""));
    session.stop();
}

async fn a_lost_submit_key_is_pressed_again() {
    let world = World::new().await;
    let script = "stty raw -echo; printf 'box> '; head -c 5 > typed; printf 'hello'; head -c 2 > keys; printf '\\r\\nbox> '; sleep 100";
    let (session, folder) = agent(&world, script).await;
    shows(&session, "box>").await;
    assert_eq!(within(session.send("hello")).await.unwrap(), Receipt::Accepted);
    assert_eq!(std::fs::read(folder.join("keys")).unwrap(), b"\r\r");
    session.stop();
}

async fn senders_do_not_interleave() {
    let world = World::new().await;
    let (session, folder) = agent(&world, READS).await;
    shows(&session, "box>").await;
    let sending: Vec<_> = ('a'..='f')
        .map(|letter| {
            let (session, text) = (session.clone(), letter.to_string().repeat(60));
            tokio::spawn(async move { session.send(text).await })
        })
        .collect();
    for sent in sending {
        assert_eq!(within(sent).await.unwrap().unwrap(), Receipt::Accepted);
    }
    let lines = std::fs::read_to_string(folder.join("lines")).unwrap();
    let mut letters: Vec<&str> =
        lines.lines().inspect(|line| assert_eq!(line.len(), 60, "{line}")).map(|line| &line[..1]).collect();
    letters.sort_unstable();
    assert_eq!(letters, ["a", "b", "c", "d", "e", "f"]);
    session.stop();
}

/// Line by line, several lines would be submitted one by one.
async fn a_text_that_cannot_be_typed_goes_by_file() {
    let world = World::new().await;
    let (session, folder) = agent(&world, &format!("stty cols 300; {READS}")).await;
    session.resize(watchfire_core::terminal::Size::new(300, 24)).await.unwrap();
    shows(&session, "box>").await;
    let text = "one\n  grüße 火\n\nthree";
    assert_eq!(within(session.send(text)).await.unwrap(), Receipt::Accepted);
    let line = std::fs::read_to_string(folder.join("lines")).unwrap();
    let path =
        line.strip_prefix("Read the file ").and_then(|rest| rest.strip_suffix(" and do what it says.\n"));
    assert_eq!(std::fs::read_to_string(path.unwrap()).unwrap(), text);
    session.stop();
}
