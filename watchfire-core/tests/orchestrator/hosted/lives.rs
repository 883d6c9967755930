//! Agents that outlive their orchestrator.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;

use futures_core::Stream as _;
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use watchfire_core::inquiry::{AnswerStatus, InquiryState};
use watchfire_core::model::TaskStatus;
use watchfire_core::observe::{
    Body, Cursor, DeliveryState, FollowItem, FollowOptions, Include, Target, WatchRequest,
};
use watchfire_core::orchestrator::Followed;
use watchfire_core::process::Liveness;
use watchfire_core::schedule::{Ending, Life, LifeState};

use super::killable::{Killable, life, once, script, starts};
use crate::support::{DONE, World, appears, child, gone, until, within};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("an_agent_goes_on_in_the_same_session_after_a_kill", goes_on),
        trial("an_agent_on_pipes_goes_on_after_a_kill", goes_on_on_pipes),
        trial("many_kills_cost_no_line_of_a_log", many_kills),
        trial("a_stream_goes_on_over_a_kill", followed),
        trial("what_an_agent_did_alone_is_merged", done_alone),
        trial("an_agent_that_failed_alone_is_known_to_have_failed", crashed_alone),
        trial("a_session_that_was_lost_with_its_guardian_begins_again", lost),
        trial("a_question_asked_to_nobody_is_answered", asked_alone),
        trial("a_question_in_a_message_outlives_a_kill", asked_before),
        trial("a_question_in_a_call_outlives_a_kill", asked_by_call),
        trial("a_question_of_a_lost_agent_is_asked_all_the_same", asked_and_lost),
        trial("an_answer_outlives_a_kill", answered),
        trial("an_answer_that_was_not_typed_is_typed", typed_again),
        trial("a_text_in_line_outlives_its_program", in_line),
        trial("a_call_outlives_a_kill", called),
        trial("a_time_limit_goes_on_alone", limited_alone),
        trial("a_chat_goes_on_after_a_kill", chat),
        trial("a_conversation_in_a_protocol_begins_again", protocol),
        trial("an_agent_that_is_stopped_does_not_go_on", stopped),
        trial("without_hosts_agents_that_were_hosted_end", not_hosted_any_more),
        trial("a_session_that_nothing_names_is_ended", stranger),
    ]
}

async fn asking(world: &World) -> Life {
    once(world, |state| matches!(state, LifeState::Asking { .. })).await
}

async fn running(world: &World) -> Life {
    once(world, |state| *state == LifeState::Running).await
}

fn agent(temp: &Path) -> i32 {
    std::fs::read_to_string(temp.join("pid")).unwrap().trim().parse().unwrap()
}

/// An agent listens; the program that took its call is killed; the next one takes the call up.
async fn called() {
    let socket = "$WATCHFIRE_SESSION_DIR/agent.sock";
    // It is made beside the start of the agent.
    let made = format!("until [ -S {socket} ]; do sleep 0.01; done");
    let taken = "ls $WATCHFIRE_SESSION_DIR/asked/call-* > /dev/null 2>&1";
    called_by(&format!("{made}; rm {socket}"), taken).await;
    called_by(&made, "ls -l /proc/$listener/fd 2> /dev/null | grep -q socket:").await;
}

/// By the socket or by the spool: what happens `before` the call, and the condition that it is under way.
async fn called_by(before: &str, is_under_way: &str) {
    let (killable, task) = Killable::working(&script(&format!(
        "{before}; watchfire-agent listen --timeout 60s > heard & listener=$!; \
         until {is_under_way}; do sleep 0.01; done; touch listens; wait $listener; \
         watchfire-agent answer \"$(sed 's/.*\"conversationId\":\"\\([^\"]*\\).*/\\1/' heard)\" fine > answered; {DONE}; sleep 1000"
    )))
    .await;
    appears(&killable.at("listens")).await;
    let mut world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    let asked = within(world.project.ask(&session.info().id, "how are you?", None)).await.unwrap();
    assert_eq!(asked.state, InquiryState::answered("fine", false, AnswerStatus::Done));
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(starts(world.temp.path()), 1);
    within(world.orchestrator.shutdown()).await;
}

async fn goes_on() {
    let (killable, task) = Killable::working(&script(&format!("until_there go; {DONE}; sleep 1000"))).await;
    let mut world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    let life = running(&world).await;
    let recorded = life.session.unwrap();
    assert_eq!((&session.info().id, &session.info().alias), (&recorded.id, &recorded.alias));
    assert_eq!(recorded.agent.unwrap().pid.cast_signed(), agent(world.temp.path()));
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    assert_eq!(starts(world.temp.path()), 1);
    let file = world.read(task).await;
    assert_eq!((file.status, file.agent_sessions), (TaskStatus::Done, 1));
    gone(agent(world.temp.path())).await;
    within(world.orchestrator.shutdown()).await;
    let home = world.temp.path().join("home");
    assert_eq!(std::fs::read_dir(home.join("hosts")).unwrap().count(), 0);
}

async fn goes_on_on_pipes() {
    let body = format!(
        "# stream\n{}",
        script(&format!("echo first; echo complaint >&2; until_there go; echo second; {DONE}"))
    );
    let (killable, task) = Killable::working(&body).await;
    // The prompt is written and noted in the background.
    let noted = sessions(&killable.at("home"));
    until(|| noted().iter().any(|folder| folder.join("prompted").exists())).await;
    let mut world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    assert_eq!(starts(world.temp.path()), 1);
    let ended = within(session.ended()).await;
    assert_eq!(ended.exit.to_string(), "exit code 0");
}

/// Returns a function that lists the folders of all sessions below a home.
fn sessions(home: &Path) -> impl Fn() -> Vec<PathBuf> + use<> {
    let state = home.join("state");
    move || {
        let list =
            |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|it| it.path());
        list(state.clone()).flat_map(|project| list(project.join("sessions"))).collect()
    }
}

/// The file with the records of the one session.
fn events(home: &Path) -> Option<(PathBuf, String)> {
    let list = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|it| it.path());
    let mut files = list(home.join("logs")).flat_map(list);
    let file = files.find(|path| path.extension().is_some_and(|it| it == "events"))?;
    let text = std::fs::read_to_string(&file).ok()?;
    Some((file, text))
}

async fn followed() {
    let body = format!("echo be''fore; until_there go; echo af''ter; {DONE}; sleep 1000");
    let (killable, task) = Killable::working(&script(&body)).await;
    let home = killable.at("home");
    let text = within(async {
        loop {
            match events(&home) {
                Some((_, text)) if text.contains("{\"output\"") => return text,
                _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    let start: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let epoch = start["start"]["epoch"].as_u64().unwrap();

    let mut world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    // A reader of the first program, which saw the first record.
    let cursor = |epoch: u64, at: u64| -> Cursor {
        format!("{}:{epoch:016x}:{at:016x}", session.info().id).parse().unwrap()
    };
    let seen = cursor(epoch, 1);
    let all = vec![Target::All];
    let mut stream = world.project.follow(all, FollowOptions::default(), &[seen]).await.unwrap();
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let (mut printed, mut replayed, mut gaps, mut places) = (String::new(), 0, 0, Vec::new());
    while !printed.contains("after") {
        let item = within(std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context))).await;
        let Some(Followed::Session { item, .. }) = item else { panic!("{item:?}") };
        match item {
            FollowItem::Record(record) => {
                assert_eq!(record.replayed, gaps == 0, "{record:?}");
                // It was taken over, and has started long ago.
                let starts = matches!(&record.body, Body::Status(status) if status.as_str() == "starting");
                assert!(record.replayed || !starts, "{record:?}");
                replayed += usize::from(record.replayed);
                places.push(record.cursor.to_string());
                if let Body::Output { text, .. } = &record.body {
                    printed.push_str(text);
                }
            }
            FollowItem::Gap { from, .. } => {
                // The first program could not write that it had written everything.
                gaps += 1;
                assert!(from.to_string().contains(&format!(":{epoch:016x}:")), "{from}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        (gaps, printed.matches("before").count(), printed.matches("after").count()),
        (1, 1, 1),
        "{printed}"
    );
    assert!(replayed > 0 && places.is_sorted() && places[0] == cursor(epoch, 2).to_string(), "{places:?}");
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    within(world.orchestrator.shutdown()).await;

    // Both programs, and the one that reads it back now, are one log.
    let World { temp, .. } = world;
    let world = World::in_folder(temp).await;
    let log = world.project.log_of(&session.info().id).await.unwrap();
    let output = WatchRequest::default().with_include([Include::Output]);
    let text = log.snapshot(&output).unwrap().output.unwrap().text;
    assert_eq!((text.matches("before").count(), text.matches("after").count()), (1, 1), "{text}");
    let mut stream = log.follow(FollowOptions::default().with_since(cursor(epoch, 1))).unwrap();
    let (mut again, mut gaps) = (Vec::new(), 0);
    while let Some(item) =
        within(std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context))).await
    {
        match item {
            FollowItem::Record(record) => again.push(record.cursor.to_string()),
            FollowItem::Gap { .. } => gaps += 1,
            _ => {}
        }
    }
    assert!(gaps == 1 && again.starts_with(&places), "{gaps} gaps, {places:?}, {again:?}");
    within(world.orchestrator.shutdown()).await;
}

async fn many_kills() {
    let body = "n=0; while [ ! -e go ]; do n=$((n+1)); echo line $n; sleep 0.01; done; echo $n > last";
    let (mut killable, task) = Killable::working(&script(&format!("{body}; {DONE}; sleep 1000"))).await;
    for _ in 0..5 {
        let temp = killable.kill();
        killable = Killable::start(temp);
        // It is open when it has taken the session over.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    let mut world = World::in_folder(killable.kill()).await;
    world.session().await;
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(starts(world.temp.path()), 1);
    within(world.orchestrator.shutdown()).await;
    let last: usize =
        std::fs::read_to_string(world.temp.path().join("last")).unwrap().trim().parse().unwrap();
    let logs = world.orchestrator.home().logs_dir(world.project.id());
    let log = std::fs::read_dir(logs).unwrap().flatten().map(|it| it.path());
    let [log] = &log.filter(|path| path.extension().is_some_and(|it| it == "log")).collect::<Vec<_>>()[..]
    else {
        panic!("one log")
    };
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("line")).map(str::trim_end).collect();
    let expected: Vec<_> = (1..=last).map(|n| format!("line {n}")).collect();
    assert_eq!(lines, expected);
}

async fn done_alone() {
    let (killable, task) = Killable::working(&script(&format!("until_there go; {DONE}; echo over"))).await;
    let temp = killable.kill();
    // As if the kill had come before the stamp.
    let file = temp.path().join("my project/.watchfire/tasks/0001.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("agent_sessions: 1", "agent_sessions: 0")).unwrap();
    std::fs::write(temp.path().join("go"), "").unwrap();
    gone(agent(temp.path())).await;
    let mut world = World::in_folder(temp).await;
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    assert_eq!(starts(world.temp.path()), 1);
    assert_eq!(world.read(task).await.agent_sessions, 1);
}

async fn crashed_alone() {
    let (killable, task) = Killable::working(&script("until_there go; echo the reason; exit 9")).await;
    let temp = killable.kill();
    std::fs::write(temp.path().join("go"), "").unwrap();
    gone(agent(temp.path())).await;
    let mut world = World::in_folder(temp).await;
    let life = world.life(|life| life.setback.is_some() || life.has_ended()).await;
    let ending = life.setback.clone().or_else(|| life.ending().cloned()).unwrap();
    let Ending::Crashed { reason, .. } = &ending else { panic!("{ending}") };
    assert!(reason.contains("exit code 9") && reason.contains("the reason"), "{reason}");
    assert_eq!(life.subject.task(), Some(task));
}

/// Kills the guardian of the agent, which ends with it.
fn end_guardian(temp: &Path) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent(temp))).unwrap();
    let guardian =
        status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(guardian).unwrap(), Signal::KILL).unwrap();
}

/// As after the end of the machine: no fault of the agent's.
async fn lost() {
    let again = format!("test $(wc -l < starts) = 1 || {{ {DONE}; }}; sleep 1000");
    let (killable, task) = Killable::working(&script(&again)).await;
    let temp = killable.kill();
    end_guardian(temp.path());
    let mut world = World::built(temp, |builder| builder.resume(true)).await;
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    assert_eq!(starts(world.temp.path()), 2);
}

/// Asks a question by file once there is a file `ask`, and is done when the answer has come.
fn asks() -> String {
    let ask = r#"printf '{"status":"questions","questions":[{"id":"port","question":"Which port?"}]}' > signal.tmp; mv signal.tmp signal.json"#;
    let answer = r#"until ls inbox/*port* >/dev/null 2>&1; do sleep 0.01; done; cat inbox/*port* > "$OUT""#;
    script(&format!(
        "OUT=$PWD/answer; until_there ask; cd \"$(dirname \"$WATCHFIRE_TASK_FILE\")/..\"; {ask}; {answer}; {DONE}; sleep 1000"
    ))
}

async fn asked_alone() {
    let (killable, task) = Killable::working(&asks()).await;
    let temp = killable.kill();
    std::fs::write(temp.path().join("ask"), "").unwrap();
    let mut world = World::in_folder(temp).await;
    let life = asking(&world).await;
    within(world.project.answer(life.id, "port", "8080")).await.unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    let answer = std::fs::read_to_string(world.temp.path().join("answer")).unwrap();
    assert!(answer.contains("8080"), "{answer}");
    assert_eq!(starts(world.temp.path()), 1);
}

async fn asked_before() {
    let ask = r#"printf '{"kind":"signal","status":"questions","questions":[{"id":"port","question":"Which port?"}]}' > "$WATCHFIRE_OUTBOX/.1"; mv "$WATCHFIRE_OUTBOX/.1" "$WATCHFIRE_OUTBOX/1.json""#;
    let taken = "while [ -e \"$WATCHFIRE_OUTBOX/1.json\" ]; do sleep 0.01; done; touch taken";
    let answer = "until_there \"$WATCHFIRE_SESSION_DIR/inbox/answer-port.json\"";
    let (killable, task) =
        Killable::working(&script(&format!("{ask}; {taken}; {answer}; {DONE}; sleep 1000"))).await;
    appears(&killable.at("taken")).await;
    let mut world = World::in_folder(killable.kill()).await;
    let life = asking(&world).await;
    within(world.project.answer(life.id, "port", "8080")).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(starts(world.temp.path()), 1);
}

/// The program that passed the question on is killed.
async fn asked_by_call() {
    let ask = "(watchfire-agent ask person 'Which port?' > answer; touch answered) & \
               until ls $WATCHFIRE_SESSION_DIR/inbox/reply-* > /dev/null 2>&1; do sleep 0.01; done; touch taken";
    let (killable, task) =
        Killable::working(&script(&format!("{ask}; until_there answered; {DONE}; sleep 1000"))).await;
    appears(&killable.at("taken")).await;
    let mut world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    // What an agent waits for counts once its output was read again.
    within(session.blocks().wait_for(|blocks| !blocks.questions.is_empty())).await.unwrap();
    let life = asking(&world).await;
    let LifeState::Asking { questions, .. } = &life.state else { unreachable!() };
    assert_eq!(questions[0].question, "Which port?");
    within(world.project.answer(life.id, &questions[0].id, "8080")).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let answer = std::fs::read_to_string(world.temp.path().join("answer")).unwrap();
    assert!(answer.contains("8080"), "{answer}");
    assert_eq!(starts(world.temp.path()), 1);
}

/// Nobody took the question before the agent was lost with its guardian.
async fn asked_and_lost() {
    let ask = r#"printf '{"kind":"signal","status":"questions","questions":[{"id":"port","question":"Which port?"}]}' > "$WATCHFIRE_OUTBOX/.1"; mv "$WATCHFIRE_OUTBOX/.1" "$WATCHFIRE_OUTBOX/1.json"; touch asked"#;
    let again = format!("test $(wc -l < starts) = 1 || {{ {DONE}; }}");
    let (killable, task) =
        Killable::working(&script(&format!("{again}; until_there ask; {ask}; sleep 1000"))).await;
    let temp = killable.kill();
    std::fs::write(temp.path().join("ask"), "").unwrap();
    appears(&temp.path().join("asked")).await;
    end_guardian(temp.path());
    let mut world = World::built(temp, |builder| builder.resume(true)).await;
    let life = asking(&world).await;
    within(world.project.answer(life.id, "port", "8080")).await.unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    assert_eq!(starts(world.temp.path()), 2);
}

/// The program that has recorded the answer is killed before it types it.
async fn typed_again() {
    let ask = r#"printf '{"kind":"signal","status":"questions","questions":[{"id":"port","question":"Which port?"}]}' > "$WATCHFIRE_OUTBOX/.1"; mv "$WATCHFIRE_OUTBOX/.1" "$WATCHFIRE_OUTBOX/1.json""#;
    let hear =
        "stty -echo; echo idle; while read -r line; do echo \"$line\" >> typed; test -e go && break; done";
    let (killable, task) = Killable::working(&script(&format!("{ask}; {hear}; {DONE}; sleep 1000"))).await;
    let world = World::in_folder(killable.kill()).await;
    let noted = sessions(&world.temp.path().join("home"));
    let life = asking(&world).await;
    within(world.project.answer(life.id, "port", "8080")).await.unwrap();
    let [session] = &noted()[..] else { panic!("one session") };
    let given = session.join("given");
    let is_note = |name: &str| name.starts_with("answer-port.json.");
    within(async {
        let notes = || std::fs::read_dir(&given).into_iter().flatten().flatten();
        while !notes().any(|entry| entry.file_name().to_str().is_some_and(is_note)) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let World { temp, orchestrator, project, .. } = world;
    within(orchestrator.detach()).await;
    drop((orchestrator, project));
    let typed = std::fs::read_to_string(temp.path().join("typed")).unwrap_or_default();

    std::fs::write(temp.path().join("go"), "").unwrap();
    std::fs::remove_dir_all(&given).unwrap();
    let mut world = World::in_folder(temp).await;
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let again = std::fs::read_to_string(world.temp.path().join("typed")).unwrap();
    assert!(again.len() > typed.len(), "{again}");
    assert_eq!(starts(world.temp.path()), 1);
}

/// The box of the agent is not free before its program ends.
async fn in_line() {
    let hear = "stty -echoctl; printf 'box> half-typed'; until_there go; printf '\\nbox> '; \
                read -r line; echo \"$line\" > typed; printf 'box> '";
    let (killable, task) = Killable::working(&script(&format!("{hear}; {DONE}; sleep 1000"))).await;
    let world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    let detail = within(session.deliver("hello", std::time::Duration::from_millis(100))).await;
    assert_eq!(detail.delivery_state, DeliveryState::Pending);
    let World { temp, orchestrator, project, .. } = world;
    within(orchestrator.detach()).await;
    drop((session, orchestrator, project));
    let mut world = World::in_folder(temp).await;
    // Not before the screen is there again: the box is not free, though an empty screen shows none.
    let session = world.session().await;
    let detail = within(session.deliver("later", std::time::Duration::from_millis(300))).await;
    assert_eq!(detail.delivery_state, DeliveryState::Pending);
    let request = WatchRequest::default().with_include([Include::Delivery, Include::Events]);
    let told = serde_json::to_string(&session.log().snapshot(&request).unwrap().events).unwrap();
    assert!(!told.contains("submitted"), "{told}");
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(std::fs::read_to_string(world.temp.path().join("typed")).unwrap(), "hello\n");
    assert_eq!(starts(world.temp.path()), 1);
}

async fn answered() {
    let body = asks()
        .replace("; sed -i", "; touch \"$OUT.here\"; until [ -e \"$OUT.go\" ]; do sleep 0.01; done; sed -i");
    let (killable, task) = Killable::working(&body).await;
    std::fs::write(killable.at("ask"), "").unwrap();
    let world = World::in_folder(killable.kill()).await;
    let life = asking(&world).await;
    within(world.project.answer(life.id, "port", "8080")).await.unwrap();
    appears(&world.temp.path().join("answer.here")).await;
    // As a kill does it: nobody ends the agent.
    let World { temp, orchestrator, project, .. } = world;
    within(orchestrator.detach()).await;
    drop((orchestrator, project));

    let mut world = World::in_folder(temp).await;
    world.session().await;
    // The question still stands in the agent's file.
    let patience = std::time::Duration::from_secs(6);
    tokio::time::sleep(patience).await;
    assert_eq!(self::life(&world).await.state, LifeState::Running);
    std::fs::write(world.temp.path().join("answer.go"), "").unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(starts(world.temp.path()), 1);
}

async fn limited_alone() {
    let world = World::new().await;
    world.configure("time_limit: 3s\n");
    let task = world.task("t", &script("sleep 1000")).await;
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    std::fs::write(temp.path().join("hosted"), "").unwrap();
    let killable = Killable::start(temp);
    killable.works().await;
    let temp = killable.kill();
    // Nobody is there to end it but its host.
    gone(agent(temp.path())).await;
    let mut world = World::in_folder(temp).await;
    let life = world.life(|life| life.setback.is_some() || life.has_ended()).await;
    let ending = life.setback.clone().or_else(|| life.ending().cloned()).unwrap();
    assert!(matches!(ending, Ending::TimedOut { .. }), "{ending}");
    assert_eq!(world.read(task).await.agent_sessions, 1);
}

async fn chat() {
    let world = World::new().await;
    std::fs::write(world.temp.path().join("hosted"), "").unwrap();
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    let mut first = child("test-chat").arg(temp.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(first.stdout.as_mut().unwrap()), &mut said)
        .unwrap();
    assert_eq!(said, "chatting\n");
    first.kill().unwrap();
    first.wait().unwrap();
    let world = World::in_folder(temp).await;
    let session = world.session().await;
    assert!(session.snapshot().text().contains("said hello"), "{}", session.snapshot().text());
    within(session.send("again")).await.unwrap();
    until(|| session.snapshot().text().contains("said again")).await;
    session.stop();
    within(session.ended()).await;
}

watchfire_core::register_helper_role!("test-chat", chatting);

/// Opens a chat, says hello to it, and waits to be killed.
fn chatting(args: watchfire_core::process::helper::RoleArgs) -> i32 {
    let temp = PathBuf::from(&args.args()[0]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let root = crate::support::make_project(&temp).await;
        let fake = crate::support::fake(&temp);
        let orchestrator = crate::support::orchestrator(&temp, &fake).await.unwrap();
        let project = orchestrator.open(root).await.unwrap();
        let session = project.chat(watchfire_core::orchestrator::ChatRequest::new()).await.unwrap();
        session.send("hello").await.unwrap();
        while !session.snapshot().text().contains("said hello") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        println!("chatting");
        std::future::pending().await
    })
}

async fn protocol() {
    let body = script(&format!("until_there go; {DONE}"));
    let (killable, task) = Killable::working(&format!("# talk\n{body}")).await;
    let first = agent(&killable.at(""));
    let world = World::in_folder(killable.kill()).await;
    gone(first).await;
    assert_eq!(world.read(task).await.status, TaskStatus::Ready);
}

async fn stopped() {
    let (killable, task) = Killable::working(&script("trap '' HUP TERM; sleep 1000")).await;
    let mut world = World::in_folder(killable.kill()).await;
    world.session().await;
    let life = running(&world).await;
    within(world.project.stop(life.id)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Stopped { .. }));
    gone(agent(world.temp.path())).await;
}

async fn not_hosted_any_more() {
    let (killable, task) = Killable::working(&script("trap '' HUP TERM; sleep 1000")).await;
    let temp = killable.kill();
    std::fs::remove_file(temp.path().join("hosted")).unwrap();
    let before = agent(temp.path());
    let world = World::in_folder(temp).await;
    gone(before).await;
    assert_eq!(world.read(task).await.status, TaskStatus::Ready);
    assert_eq!(std::fs::read_dir(world.temp.path().join("home/hosts")).unwrap().count(), 0);
}

async fn stranger() {
    let (killable, _) = Killable::working(&script("sleep 1000")).await;
    let temp = killable.kill();
    let journals = std::fs::read_dir(temp.path().join("home/state")).unwrap().flatten();
    for project in journals.map(|it| it.path().join("journal")).filter(|it| it.is_dir()) {
        std::fs::remove_dir_all(project).unwrap();
    }
    let before = agent(temp.path());
    let world = World::in_folder(temp).await;
    gone(before).await;
    assert!(sessions(&world.temp.path().join("home"))().is_empty());
    assert_eq!(
        watchfire_core::model::ProcessIdentity::of(before.cast_unsigned())
            .map_or(Liveness::Dead, |it| it.liveness()),
        Liveness::Dead
    );
}
