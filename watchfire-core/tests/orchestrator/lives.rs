//! Lives that wait for a person, and the log that shows them.

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use watchfire_core::journal::Cursor;
use watchfire_core::orchestrator::{LogStream, RunRequest, Seen};
use watchfire_core::schedule::{
    Change, CommandId, Ending, Life, LifeState, Request, ResumeTarget, StopReason, Wait,
};
use watchfire_core::store::{Holder, NewProject, NewTask};

use super::support::{DONE, World, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "a_resumed_session_does_not_live_through_the_past",
            a_resumed_session_does_not_live_through_the_past,
        ),
        trial("a_used_up_limit_follows_the_settings", a_used_up_limit_follows_the_settings),
        trial("a_limited_agent_blocks_its_backend_and_can_be_stopped", a_limited_agent_blocks_its_backend),
        trial("a_question_is_answered_in_its_session", a_question_is_answered_in_its_session),
        trial(
            "a_question_that_is_taken_back_is_no_longer_asked",
            a_question_that_is_taken_back_is_no_longer_asked,
        ),
        trial("a_question_outlives_its_session_and_its_orchestrator", a_question_outlives_its_session),
        trial("a_stop_between_two_sessions_is_not_lost", a_stop_between_two_sessions_is_not_lost),
        trial("a_stop_waits_for_no_disk", a_stop_waits_for_no_disk),
        trial("a_long_output_is_in_the_log_whole", a_long_output_is_in_the_log_whole),
        trial("the_log_goes_on_after_a_restart_and_ends_with_it", the_log_goes_on_after_a_restart),
        trial("one_subscription_follows_several_projects_over_a_restart", several_projects),
        trial("a_cursor_that_cannot_be_resumed_says_why", a_cursor_that_cannot_be_resumed_says_why),
        trial("a_request_with_an_id_has_one_effect", a_request_with_an_id_has_one_effect),
        trial("a_repeated_run_is_the_same_run_after_its_task_is_done", a_repeated_run_is_the_same_run),
        trial("a_task_that_another_holds_is_not_written_to", a_task_that_another_holds_is_not_written_to),
    ]
}

async fn a_limited_agent_blocks_its_backend() {
    let mut world = World::new().await;
    let limited = world.task("limited", "stty -echo; echo limited; read -r line; exit 1").await;
    let other = world.task("other", DONE).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(
        matches!(&summary.open[&limited], LifeState::Limited { issue, .. } if issue.message == "slow down")
    );
    assert!(matches!(&summary.waiting[&other], Wait::Backend { .. }), "{summary:?}");
    assert!(!summary.is_good() && summary.endings.is_empty());
    let session = world.session().await;
    assert!(!session.has_ended(), "a person can type into it");
    let life = world.life(|life| matches!(life.state, LifeState::Limited { .. })).await;
    within(world.project.stop(life.id)).await.unwrap();
    assert_eq!(world.ended(limited).await, Ending::stopped(StopReason::Requested));
}

/// What the transcript of a resumed conversation held before is over: its limit, its turns and its tokens.
async fn a_resumed_session_does_not_live_through_the_past() {
    let mut world = World::new().await;
    let go = world.temp.path().join("go");
    let script = format!(
        "if [ -z \"$RESUME\" ]; then echo first > \"$MEMORY\"; \
         printf 'id v-1\\nsay 7 hello\\nidle\\nlimited\\n' >> \"$TRANSCRIPT\"; \
         until [ -e '{}' ]; do sleep 0.02; done; exit 1; fi\n\
         printf 'say 5 more\\n' >> \"$TRANSCRIPT\"; sleep 1; {DONE}",
        go.display()
    );
    let task = world.task("t", &script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(&summary.open[&task], LifeState::Limited { .. }), "{summary:?}");
    std::fs::write(&go, "").unwrap();
    let over = |change: &Change| matches!(change, Change::SessionOver { .. });
    let spent = |change| match change {
        Change::SessionOver { end, .. } => end.usage.output_tokens,
        _ => unreachable!(),
    };
    assert_eq!(spent(world.change(over).await), 7);
    let life =
        world.life(|life| matches!(life.state, LifeState::Limited { .. }) && life.session.is_none()).await;
    within(world.project.resume(ResumeTarget::Life(life.id))).await.unwrap();
    let states = within(async {
        let mut states = Vec::new();
        loop {
            match world.change(|change| matches!(change, Change::Life(_) | Change::SessionOver { .. })).await
            {
                Change::Life(life) => states.push(life.state.word()),
                over => break (states, spent(over)),
            }
        }
    })
    .await;
    assert!(!states.0.contains(&"limited") && !states.0.contains(&"asking"), "{states:?}");
    assert_eq!(states.1, 5, "seven are paid for");
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}

async fn a_used_up_limit_follows_the_settings() {
    let script = format!(
        "stty -echo; echo used up until $(date -u -d '+3 seconds' +%Y-%m-%dT%H:%M:%SZ); read -r line; {DONE}"
    );
    let world = World::new().await;
    world.configure("on_limit: wait\n");
    world.task("waits", &script).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(summary.is_good() && summary.endings.len() == 1, "{summary:?}");
    let yaml = world.root().join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&yaml).unwrap();
    std::fs::write(&yaml, text.replace("on_limit: wait", "on_limit: stop")).unwrap();
    let stopped = world.task("stopped", &script).await;
    let other = world.task("other", DONE).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    let ending = &summary.endings[&stopped];
    assert!(
        matches!(ending, Ending::Limited { reason, until: Some(_), .. } if reason == "used up"),
        "{ending:?}"
    );
    assert!(matches!(&summary.waiting[&other], Wait::Backend { .. }), "{summary:?}");
    within(world.orchestrator.shutdown()).await;
    let file = world.root().join(format!(".watchfire/tasks/{stopped}.yaml"));
    let file = std::fs::read_to_string(file).unwrap();
    assert!(file.contains("limited: used up (until 20"), "{file}");
}

/// Writes a question to the outbox.
const ASK: &str = "printf '{\"kind\":\"signal\",\"status\":\"questions\",\"questions\":[{\"id\":\"port\",\"question\":\"Which port?\"}]}' > \"$WATCHFIRE_OUTBOX/.1\"
mv \"$WATCHFIRE_OUTBOX/.1\" \"$WATCHFIRE_OUTBOX/1.json\"\n";

async fn a_question_is_answered_in_its_session() {
    let mut world = World::new().await;
    let script = format!(
        "{ASK} until [ -e \"$WATCHFIRE_SESSION_DIR/inbox/answer-port.json\" ]; do sleep 0.02; done; {DONE}"
    );
    let task = world.task("asks", &script).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    let life = world.life(|life| matches!(life.state, LifeState::Asking { .. })).await;
    let answer = |text: &str| world.project.answer(life.id, "port", text.to_owned());
    within(answer("8080")).await.unwrap();
    within(answer("8080")).await.unwrap();
    assert_eq!(within(answer("9090")).await.unwrap_err().code(), "already_answered");
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}

async fn a_question_that_is_taken_back_is_no_longer_asked() {
    let mut world = World::new().await;
    let go = world.temp.path().join("go");
    let wait = format!("until [ -e '{}' ]; do sleep 0.02; done; rm '{0}'", go.display());
    let ask = r#"printf '{"status":"questions","questions":[{"id":"port","question":"Which port?"}]}' > "$WATCHFIRE_SESSION_DIR/signal.json""#;
    let script = format!("{ask}; {wait}; rm \"$WATCHFIRE_SESSION_DIR/signal.json\"; {wait}; {DONE}");
    let task = world.task("asks and thinks better of it", &script).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    let asking = world.life(|life| matches!(life.state, LifeState::Asking { .. })).await;
    std::fs::write(&go, "").unwrap();
    world.life(|life| life.state == LifeState::Running).await;
    let refused = within(world.project.answer(asking.id, "port", "8080".to_owned())).await.unwrap_err();
    assert_eq!(refused.code(), "not_found");
    std::fs::write(&go, "").unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}

async fn a_question_outlives_its_session() {
    let world = World::new().await;
    let prompt = world.temp.path().join("prompt");
    let script = format!(
        "[ -e asked ] && {{ cp \"$SYSTEM_PROMPT\" '{}'; {DONE}; exit 0; }}; touch asked; {ASK} sleep 0.3; exit 0",
        prompt.display()
    );
    let task = world.task("asks and goes", &script).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(&summary.open[&task], LifeState::Asking { .. }), "{summary:?}");
    let World { temp, orchestrator, project, .. } = world;
    within(orchestrator.shutdown()).await;
    drop((project, orchestrator));

    let mut world = World::in_folder(temp).await;
    let snapshot = world.project.subscribe(None).await.unwrap().snapshot;
    let [life] = &snapshot.lives[..] else { panic!("{snapshot:?}") };
    within(world.project.answer(life.id, "port", "8080")).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("Which port?") && prompt.contains("8080"), "{prompt}");
}

/// A stop that comes while a session that could not be resumed gives way to a fresh one.
async fn a_stop_between_two_sessions_is_not_lost() {
    let mut world = World::new().await;
    let script = format!(
        "[ -z \"$RESUME\" ] || exit 9; [ -e second ] || {{ touch second; echo first > \"$MEMORY\"; \
         printf 'id v-1\\nbusy\\n' >> \"$TRANSCRIPT\"; exit 7; }}; sleep 1000; {DONE}"
    );
    let task = world.task("t", &script).await;
    within(world.project.run(RunRequest::all()).await.unwrap().wait()).await.unwrap();
    let run = world.project.run(RunRequest::all()).await.unwrap();
    world.change(|change| matches!(change, Change::Notice(it) if it.message.contains("resumed"))).await;
    run.stop();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&task], Ending::stopped(StopReason::Requested));
    assert!(!world.fake.calls().iter().any(|call| call.starts_with("publish")));
}

async fn a_stop_waits_for_no_disk() {
    let mut world = World::hasty().await;
    let fake = std::sync::Arc::clone(&world.fake);
    let opening = fake.opening.lock().await;
    let task = world.task("t", DONE).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    within(async {
        while !fake.calls().iter().any(|call| call.starts_with("open")) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    run.stop();
    assert_eq!(world.ended(task).await, Ending::stopped(StopReason::Requested));
    // The next attempt waits for the one that was left behind, and both go on when the disk does.
    let again = world.project.run(RunRequest::task(task)).await.unwrap();
    drop(opening);
    let summary = within(again.wait()).await.unwrap();
    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    let opened = fake.calls().iter().filter(|call| call.starts_with("open")).count();
    assert_eq!((opened, world.project.sessions().len()), (2, 0), "{:?}", fake.calls());
}

async fn a_long_output_is_in_the_log_whole() {
    let mut world = World::new().await;
    let verify = "verify: ['yes \"error: something is wrong in this file\" | head -c 14000; exit 1']\n";
    world.configure(verify);
    let task = world.task("t", DONE).await;
    world.project.run(RunRequest::all()).await.unwrap();
    let Ending::VerifyFailed { output, .. } = world.ended(task).await else { panic!() };
    assert!(output.len() > 13_000, "{}", output.len());
}

/// Reads the records of a stream until one is as wanted; their sequence numbers.
async fn read_until(stream: &mut LogStream, wanted: impl Fn(&Change) -> bool) -> Vec<u64> {
    let mut seen = Vec::new();
    within(async {
        while let Some(item) = stream.next().await {
            let Seen::Record(record) = item else { continue };
            seen.push(seq(&record.cursor));
            if wanted(&record.change) {
                return;
            }
        }
    })
    .await;
    seen
}

/// No record of either project is missing or doubled, and each is in its order.
async fn several_projects() {
    let world = World::new().await;
    let root = world.temp.path().join("other");
    std::fs::create_dir(&root).unwrap();
    world.orchestrator.home().init_project(&root, NewProject::new()).await.unwrap();
    let other = within(world.orchestrator.open(&root)).await.unwrap();
    assert_eq!(world.orchestrator.projects().len(), 2);
    let all = world.orchestrator.subscribe(&BTreeMap::new()).await.unwrap();
    let places: BTreeMap<_, _> =
        all.projects.iter().map(|(it, _)| (it.project.clone(), it.cursor.clone())).collect();
    let mut changes = all.changes;
    let task = NewTask::new("t").with_prompt(DONE).with_ready(true);
    for project in [&world.project, &other] {
        project.store().create(task.clone(), None).await.unwrap();
        let run = project.run(RunRequest::all()).await.unwrap();
        assert!(within(run.wait()).await.unwrap().is_good());
    }
    within(world.orchestrator.shutdown()).await;
    let (mut live, mut last) = (BTreeMap::<String, Vec<Cursor>>::new(), None);
    while let Some(seen) = within(changes.next()).await {
        if let Seen::Record(record) = seen {
            live.entry(record.project.to_string()).or_default().push(record.cursor.clone());
            last = Some(record.cursor);
        }
    }
    assert!(live.len() == 2 && last.is_some(), "{live:?}");
    let world = World::in_folder(world.temp).await;
    let other = within(world.orchestrator.open(&root)).await.unwrap();
    let again = world.orchestrator.subscribe(&places).await.unwrap();
    assert!(again.projects.iter().all(|(_, expired)| expired.is_none()));
    let mut changes = again.changes;
    for project in [other.id(), world.project.id()] {
        assert!(again.projects.iter().any(|(snapshot, _)| snapshot.project == *project));
    }
    let mut replayed = BTreeMap::<String, Vec<Cursor>>::new();
    while replayed != live {
        let Some(Seen::Record(record)) = within(changes.next()).await else { continue };
        assert!(record.replayed, "{record:?}");
        replayed.entry(record.project.to_string()).or_default().push(record.cursor);
    }
}

async fn the_log_goes_on_after_a_restart() {
    let world = World::new().await;
    let (first, second) = (world.task("first", DONE).await, world.task("second", "sleep 1000").await);
    let opened = world.project.subscribe(None).await.unwrap().snapshot.opened;
    let mut stream = world.project.subscribe(Some(opened.clone())).await.unwrap().changes;
    world.project.run(RunRequest::all()).await.unwrap();
    let running = |change: &Change| {
        matches!(change, Change::Life(life)
            if life.subject.task() == Some(second) && life.state == LifeState::Running)
    };
    let mut seen = read_until(&mut stream, running).await;
    let at = world.project.subscribe(None).await.unwrap().snapshot.cursor;
    let cursor: Cursor =
        format!("{}:{}", at.to_string().split_once(':').unwrap().0, seen.last().unwrap()).parse().unwrap();
    let World { temp, orchestrator, project, .. } = world;
    within(orchestrator.shutdown()).await;
    let rest = read_until(&mut stream, |_| false).await;
    assert!(within(stream.next()).await.is_none(), "it ends with its orchestrator");
    drop((project, orchestrator));

    let world = World::in_folder(temp).await;
    let mut resumed = world.project.subscribe(Some(cursor)).await.unwrap().changes;
    let interrupted = |change: &Change| matches!(change, Change::Run(run) if run.ended.is_some());
    let again = read_until(&mut resumed, interrupted).await;
    assert_eq!(again[..rest.len()], rest, "what was seen before the end is seen again after it");
    seen.extend(&again);
    let all: Vec<u64> = (seen[0]..).take(seen.len()).collect();
    assert_eq!(seen, all, "no record is missing or doubled");
    let info = world.project.tasks(&watchfire_core::store::TaskQuery::new()).await.unwrap();
    assert_eq!(info.iter().map(|info| info.word()).collect::<Vec<_>>(), ["merged", "waiting"], "{first}");
    within(world.project.resume(ResumeTarget::All)).await.unwrap();
    world.session().await.stop();
    let foreign = "0123:1".parse().unwrap();
    assert_eq!(world.project.subscribe(Some(foreign)).await.unwrap_err().code(), "invalid_cursor");
}

async fn a_request_with_an_id_has_one_effect() {
    let world = World::new().await;
    let task = world.task("t", "sleep 1000").await;
    let command = || Some(CommandId::new("one").unwrap());
    let request = || Request::run(RunRequest::task(task).scope, Default::default());
    let first = within(world.project.request(command(), request())).await.unwrap();
    assert_eq!(within(world.project.request(command(), request())).await.unwrap(), first);
    let other = Request::resume(ResumeTarget::All);
    assert_eq!(within(world.project.request(command(), other)).await.unwrap_err().code(), "conflict");
    assert_eq!(world.project.subscribe(None).await.unwrap().snapshot.runs.len(), 1);
}

fn seq(cursor: &Cursor) -> u64 {
    cursor.to_string().rsplit_once(':').unwrap().1.parse().unwrap()
}

async fn a_cursor_that_cannot_be_resumed_says_why() {
    let world = World::new().await;
    let start = world.project.subscribe(None).await.unwrap().snapshot.opened;
    let mut slow = world.project.subscribe(Some(start.clone())).await.unwrap().changes;
    // More records than the log keeps.
    let asks: Vec<_> = (0..2200)
        .map(|n| {
            let project = world.project.clone();
            tokio::spawn(async move {
                let id = CommandId::new(format!("ask-{n}")).unwrap();
                project.request(Some(id), Request::resume(ResumeTarget::All)).await
            })
        })
        .collect();
    for ask in asks {
        within(ask).await.unwrap().unwrap();
    }
    let now = world.project.subscribe(None).await.unwrap();
    assert!(now.expired.is_none());
    let Seen::Gap(gap) = within(slow.next()).await.unwrap() else { panic!("nothing is said to be lost") };
    assert_eq!(gap.from, seq(&start) + 1);
    let Seen::Record(next) = within(slow.next()).await.unwrap() else { panic!("no record after the gap") };
    assert_eq!(seq(&next.cursor), gap.to + 1, "the gap names what is lost, and no more");

    let mut late = world.project.subscribe(Some(start)).await.unwrap();
    assert_eq!(late.expired.map(|error| error.code()), Some("cursor_expired"));
    assert_eq!(late.snapshot.cursor, now.snapshot.cursor);
    let task = world.task("t", DONE).await;
    within(world.project.run(RunRequest::task(task))).await.unwrap();
    loop {
        // Files may be told of first.
        if let Seen::Record(record) = within(late.changes.next()).await.unwrap() {
            assert_eq!(
                seq(&record.cursor),
                seq(&late.snapshot.cursor) + 1,
                "the changes follow the snapshot"
            );
            break;
        }
    }

    let journal = now.snapshot.cursor.to_string().rsplit_once(':').unwrap().0.to_owned();
    for garbage in [format!("{journal}:99999999"), format!("{journal}:{}", u64::MAX), "0123:1".to_owned()] {
        let error = world.project.subscribe(Some(garbage.parse().unwrap())).await.unwrap_err();
        assert_eq!(error.code(), "invalid_cursor", "{garbage}");
        assert!(error.report().contains(&garbage), "{}", error.report());
    }
    for garbage in ["", ":", "1", "a:", "a:-1", "a:1:2", "../a:1", &format!("{}:1", "a".repeat(65))] {
        let error = garbage.parse::<Cursor>().unwrap_err();
        assert_eq!(error.code(), "invalid_cursor", "{garbage}");
    }
}

async fn a_repeated_run_is_the_same_run() {
    let world = World::new().await;
    let task = world.task("t", DONE).await;
    let request = || RunRequest::task(task).with_command(CommandId::new("one").unwrap());
    let run = within(world.project.run(request())).await.unwrap();
    within(run.wait()).await.unwrap();
    let World { temp, orchestrator, project, .. } = world;
    assert_eq!(within(project.run(request())).await.unwrap().id(), run.id());
    within(orchestrator.shutdown()).await;
    drop((project, orchestrator));
    let world = World::in_folder(temp).await;
    assert_eq!(within(world.project.run(request())).await.unwrap().id(), run.id());
}

async fn a_task_that_another_holds_is_not_written_to() {
    let mut world = World::hasty().await;
    let task = world.task("t", DONE).await;
    let other = Holder::new("another machine", "home", "start");
    let hour = std::time::Duration::from_secs(3600);
    let theirs = world.project.store().claim(task, &other, hour).await.unwrap();
    let before = world.read(task).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let waiting = |life: &Life| matches!(life.state, LifeState::Waiting { on: Wait::Elsewhere { .. }, .. });
    let life = world.life(waiting).await;
    assert_eq!(world.read(task).await, before);
    assert_eq!((life.fruitless, life.attempt.0), (0, 0), "it costs no try");
    // Given back: the task is taken at the next look.
    world.project.store().release(&theirs).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(summary.is_good(), "{summary:?}");
}
