//! What agents say by hooks, transcript and stream, and what of it is told.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream as _;
use libtest_mimic::Trial;
use watchfire_core::backend::Source;
use watchfire_core::observe::{Body, FollowItem, FollowOptions, RecordKind};
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Change, NoticeCode, SessionEnd};

use super::support::{DONE, World, appears, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("hooks_and_transcript_become_one_story", hooks_and_transcript_become_one_story),
        trial(
            "turns_that_are_told_at_the_end_hold_nothing_up",
            turns_that_are_told_at_the_end_hold_nothing_up,
        ),
        trial("a_turn_is_over_when_its_last_words_are_in", a_turn_is_over_when_its_last_words_are_in),
        trial("uncommitted_work_is_asked_for_once", uncommitted_work_is_asked_for_once),
        trial("a_stream_is_read_line_by_line", a_stream_is_read_line_by_line),
        trial("errors_are_told_while_it_runs", errors_are_told_while_it_runs),
        trial("a_misspelt_key_is_named_once", a_misspelt_key_is_named_once),
        trial("a_foreign_key_is_named_once", a_foreign_key_is_named_once),
        trial("another_list_of_repositories_is_told_once", another_list_of_repositories_is_told_once),
        trial("what_stays_behind_is_told_once", what_stays_behind_is_told_once),
        trial("a_program_without_a_login_is_no_crash", a_program_without_a_login_is_no_crash),
        trial("the_last_words_of_a_turn_are_heard", the_last_words_of_a_turn_are_heard),
        trial("the_last_screen_is_read", the_last_screen_is_read),
        trial("a_claim_that_is_being_written_is_no_problem", a_claim_that_is_being_written),
    ]
}

async fn a_misspelt_key_is_named_once() {
    let mut world = World::new().await;
    world.configure("verfy: ['false']\n");
    let named = |change: &Change| matches!(change, Change::Notice(it) if it.code == NoticeCode::UnknownKey);
    let Change::Notice(notice) = world.change(named).await else { unreachable!() };
    assert!(notice.message.contains("`verfy`") && notice.message.contains("`verify`"), "{notice:?}");
    world.orchestrator.shutdown().await;
}

/// A key of another program may be in every task.
async fn a_foreign_key_is_named_once() {
    let mut world = World::new().await;
    for _ in 0..3 {
        let task = world.task("it", DONE).await;
        let file = world.root().join(format!(".watchfire/tasks/{task}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}owner: nobody\n")).unwrap();
    }
    world.configure("verfy: ['false']\n");
    let told = std::cell::RefCell::new(Vec::new());
    world
        .change(|change| {
            if let Change::Notice(it) = change
                && it.code == NoticeCode::UnknownKey
            {
                told.borrow_mut().push(it.message.clone());
            }
            // Whichever comes last.
            told.borrow().iter().any(|it| it.contains("`verfy`"))
                && told.borrow().iter().any(|it| it.contains("`owner`"))
        })
        .await;
    world.configure("verfyy: []\n");
    let last = |change: &Change| matches!(change, Change::Notice(it) if it.message.contains("`verfyy`"));
    world
        .change(|change| {
            let Change::Notice(it) = change else { return false };
            told.borrow_mut().push(it.message.clone());
            last(change)
        })
        .await;
    let told = told.into_inner();
    assert_eq!(told.iter().filter(|it| it.contains("`owner`")).count(), 1, "{told:?}");
    world.orchestrator.shutdown().await;
}

/// The open workspace goes on with those that it was opened with.
async fn another_list_of_repositories_is_told_once() {
    let mut world = World::new().await;
    let file = world.root().join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let told = std::cell::RefCell::new(Vec::new());
    for (lines, awaited) in [
        ("repositories: [../lib]\n", "`repositories`"),
        ("repositories: [../lib]\nverfy: []\n", "`verfy`"),
        ("repositories: [../lib, ../site]\n", "`repositories`"),
        // What is in use again needs no word.
        ("verfyy: []\n", "`verfyy`"),
        ("repositories: [../lib]\n", "`repositories`"),
    ] {
        std::fs::write(&file, format!("{text}{lines}")).unwrap();
        let noted = |change: &Change| match change {
            Change::Notice(it) => {
                told.borrow_mut().push(it.message.clone());
                it.message.contains(awaited)
            }
            _ => false,
        };
        world.change(noted).await;
    }
    let told = told.into_inner();
    let about: Vec<_> = told.iter().filter(|it| it.contains("`repositories`")).collect();
    assert_eq!(about.len(), 3, "{told:?}");
    let says = |it: &&String| it.starts_with("project.yaml") && it.contains("the project's own alone");
    assert!(about.iter().all(says), "{about:?}");
    world.orchestrator.shutdown().await;
}

async fn a_program_without_a_login_is_no_crash() {
    let mut world = World::new().await;
    let task = world.task("it", "# stream\necho 'error: log in first' >&2; exit 1").await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    let life = world.life(|life| life.state.word() == "limited" || life.ending().is_some()).await;
    assert!(life.state.detail().unwrap().contains("log in first") && life.ending().is_none(), "{life:?}");
    world.orchestrator.shutdown().await;
}

async fn what_stays_behind_is_told_once() {
    let mut world = World::new().await;
    for _ in 0..2 {
        let task = world.task("it", &format!("# left\n{DONE}")).await;
        let run = world.project.run(RunRequest::task(task)).await.unwrap();
        within(run.wait()).await.unwrap();
    }
    let told = std::cell::RefCell::new(Vec::new());
    world
        .change(|change| {
            if let Change::Notice(it) = change {
                told.borrow_mut().push(it.message.clone());
            }
            matches!(change, Change::Life(life) if life.ending().is_some() && life.id.0 == 2)
        })
        .await;
    let mut told = told.into_inner();
    told.retain(|message| message.contains("stays behind"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(r#"carry: ["mcp:github"]"#), "{told:?}");
    world.orchestrator.shutdown().await;
}

/// Runs a task with this script, and gives what its session told, with the source of each, and how it ended.
async fn run(script: &str) -> (Vec<(Source, String)>, SessionEnd) {
    let mut world = World::new().await;
    let go = world.temp.path().join("go");
    let first = if script.starts_with('#') { "# stream\n" } else { "" };
    let script = format!("{first}while [ ! -e '{}' ]; do sleep 0.01; done\n{script}\n{DONE}", go.display());
    let task = world.task("talks", &script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    world.running().await;
    let session = world.session().await;
    let kinds = [RecordKind::Status, RecordKind::Event, RecordKind::Transcript, RecordKind::Lifecycle];
    let mut follow = session.log().follow(FollowOptions::default().with_kinds(kinds)).unwrap();
    std::fs::write(&go, "").unwrap();
    appears(&go).await;
    let mut told = Vec::new();
    within(async {
        while let Some(followed) = poll_fn(|cx| Pin::new(&mut follow).poll_next(cx)).await {
            let FollowItem::Record(record) = followed else { continue };
            let word = match &record.body {
                Body::Status(status) => status.as_str().to_owned(),
                Body::Event { name, .. } => name.clone(),
                Body::Transcript(message) => message.text(),
                Body::Lifecycle { name, payload, .. } if name == "vendor_session" => {
                    format!("{name} {payload}")
                }
                Body::Lifecycle { name, .. } if name == "asked_to_commit" => name.clone(),
                _ => continue,
            };
            told.push((record.source, word));
        }
    })
    .await;
    let Change::SessionOver { end, .. } =
        world.change(|change| matches!(change, Change::SessionOver { .. })).await
    else {
        unreachable!()
    };
    assert!(within(run.wait()).await.unwrap().is_good());
    world.orchestrator.shutdown().await;
    (told, end)
}

pub(crate) fn hook(n: u32, payload: &str) -> String {
    format!(
        "printf '{{\"kind\":\"hook\",\"event\":\"x\",\"payload\":\"{payload}\"}}' > \"$WATCHFIRE_OUTBOX/.{n}\"\n\
         mv \"$WATCHFIRE_OUTBOX/.{n}\" \"$WATCHFIRE_OUTBOX/{n}.json\"\n\
         while [ -e \"$WATCHFIRE_OUTBOX/{n}.json\" ]; do sleep 0.01; done\n"
    )
}

async fn hooks_and_transcript_become_one_story() {
    // The last words come when the agent is gone.
    let script = [
        "echo id 4711 > \"$TRANSCRIPT\"".into(),
        hook(1, "busy"),
        "printf 'say 7 hello\\nidle\\nsay 5 bye\\n' >> \"$TRANSCRIPT\"".into(),
        hook(2, "idle"),
    ];
    let (told, ended) = run(&script.join("\n")).await;
    let expected = [
        (Source::Transcript, "vendor_session {\"id\":\"4711\"}"),
        (Source::Hook, "processing"),
        // Its last words are waited for, and the line after them says so first.
        (Source::Transcript, "turn_completed"),
        (Source::Hook, "idle"),
        (Source::Transcript, "hello"),
        (Source::Transcript, "bye"),
        (Source::Process, "off"),
    ];
    let mut left: Vec<_> = told.iter().map(|(source, word)| (*source, word.as_str())).collect();
    for word in expected {
        let at = left.iter().position(|told| *told == word);
        left.remove(at.unwrap_or_else(|| panic!("{word:?} is missing: {told:?}")));
    }
    assert_eq!(left, [], "{told:?}");
    let SessionEnd { usage, cost, .. } = ended;
    assert_eq!((usage.output_tokens, cost), (12, Some(12)));
}

/// An agent may leave as many as it likes.
async fn turns_that_are_told_at_the_end_hold_nothing_up() {
    let many = r#"for n in $(seq 100); do printf '{"kind":"hook","event":"x","payload":"idle"}' > "$WATCHFIRE_OUTBOX/b$n.json"; done"#;
    let script = ["echo id 4711 > \"$TRANSCRIPT\"".into(), hook(1, "busy"), "sleep 0.5".into(), many.into()];
    let started = std::time::Instant::now();
    run(&script.join("\n")).await;
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

/// A hook tells of the end before the agent has written down what it said.
async fn a_turn_is_over_when_its_last_words_are_in() {
    let script = [
        "echo id 4711 > \"$TRANSCRIPT\"".into(),
        hook(1, "busy"),
        "(sleep 0.4; printf 'say 7 hello\\n' >> \"$TRANSCRIPT\") &".into(),
        hook(2, "idle"),
        "wait".into(),
        // A turn without words is over too.
        hook(3, "busy"),
        hook(4, "idle"),
        "sleep 1.5".into(),
    ];
    let (told, _) = run(&script.join("\n")).await;
    let words: Vec<_> =
        told.iter().map(|(_, word)| word.as_str()).filter(|word| !word.starts_with("vendor")).collect();
    let turns = ["processing", "hello", "turn_completed", "idle", "processing", "turn_completed", "idle"];
    assert!(words.windows(turns.len()).any(|part| part == turns), "{told:?}");
}

async fn uncommitted_work_is_asked_for_once() {
    let asked = (Source::Process, "asked_to_commit".to_owned());
    // Without the right question it ends, and with it its turn.
    let answer = "read -r line; case \"$line\" in *'not committed: draft. '*) ;; *) exit 1;; esac";
    let script = ["touch draft".into(), DONE.into(), hook(1, "idle"), answer.into(), hook(2, "idle")];
    let (told, _) = run(&script.join("\n")).await;
    let at = told.iter().position(|said| *said == asked).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(told[at + 1], (Source::Hook, "turn_completed".to_owned()));
    assert_eq!(told.iter().filter(|said| **said == asked).count(), 1);
    // Of an agent that says nothing of itself it is not known that it listens.
    let (told, end) = run(&format!("touch draft\n{DONE}\nread -r line")).await;
    assert_eq!(end.exit, "ended after its claim", "the hangup was ours");
    assert!(!told.contains(&asked), "{told:?}");
}

async fn a_stream_is_read_line_by_line() {
    let script =
        "# stream\nread prompt; echo \"$prompt\"; echo busy; echo say 3 hello; read more || printf idle";
    let (told, ended) = run(script).await;
    let words: Vec<&str> = told.iter().map(|(_, word)| word.as_str()).collect();
    assert!(words[0].starts_with("vendor_session"), "the prompt comes on its input: {told:?}");
    assert_eq!(
        words[words.len() - 5..],
        ["processing", "hello", "turn_completed", "idle", "off"],
        "{told:?}"
    );
    assert!(told.iter().all(|(source, _)| matches!(source, Source::Protocol | Source::Process)), "{told:?}");
    let SessionEnd { usage, cost, .. } = ended;
    assert_eq!((usage.output_tokens, cost), (3, Some(3)));
}

/// An agent that waits for ever after an error is not silent.
async fn errors_are_told_while_it_runs() {
    let mut world = World::new().await;
    let go = world.temp.path().join("go");
    let waits = format!("while [ ! -e '{}' ]; do sleep 0.01; done", go.display());
    let script =
        format!("# stream\nread prompt; printf 'one\\n\\033[31mnot logged in\\n' >&2; {waits}\n{DONE}");
    let task = world.task("complains", &script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    world.running().await;
    let options = FollowOptions::default().with_kinds([RecordKind::Event]);
    let mut follow = world.session().await.log().follow(options).unwrap();
    let told = within(async {
        loop {
            match poll_fn(|cx| Pin::new(&mut follow).poll_next(cx)).await {
                Some(FollowItem::Record(record)) => match &record.body {
                    Body::Event { name, payload, .. } if name == "stderr" => {
                        return payload["message"].clone();
                    }
                    _ => {}
                },
                Some(_) => {}
                None => panic!("it ended"),
            }
        }
    })
    .await;
    assert_eq!(told, "one / not logged in");
    std::fs::write(&go, "").unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
    world.orchestrator.shutdown().await;
}

/// Longer after its claim than an agent may go on of which it is not known that it works.
async fn the_last_words_of_a_turn_are_heard() {
    let late = format!("{DONE}\nsleep 2; echo say 3 bye; echo idle");
    let (told, ended) = run(&format!("# stream\nread prompt; echo busy\n{late}\nread -r never")).await;
    assert!(told.iter().any(|(_, word)| word == "bye"), "{told:?}");
    let SessionEnd { usage, .. } = ended;
    assert_eq!(usage.output_tokens, 3);
}

/// Shown by an agent that is gone before its screen has rested.
async fn the_last_screen_is_read() {
    let (told, _) = run("stty -echo; echo id 4711").await;
    assert!(told.contains(&(Source::Screen, "vendor_session {\"id\":\"4711\"}".to_owned())), "{told:?}");
}

async fn a_claim_that_is_being_written() {
    let half = "cp \"$WATCHFIRE_TASK_FILE\" whole; : > \"$WATCHFIRE_TASK_FILE\"; sleep 0.2";
    let (told, _) = run(&format!("{half}; cat whole > \"$WATCHFIRE_TASK_FILE\"; rm whole; sleep 0.6")).await;
    assert!(told.iter().all(|(_, word)| word != "attention"), "{told:?}");
}
