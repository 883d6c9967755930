//! Every other way in which an attempt ends: each visible, none merged, none lost.

use libtest_mimic::Trial;
use watchfire_core::backend::IssueKind;
use watchfire_core::model::TaskStatus;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Ending, Life, LifeState, StopReason};
use watchfire_core::store::{TaskPatch, TaskQuery, TaskStoreExt as _};

use super::support::{DONE, Outcome, World, appears, gone, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_declared_failure_is_not_merged", a_declared_failure_is_not_merged),
        trial("a_crash_is_visible_and_captured", a_crash_is_visible_and_captured),
        trial("a_hang_ends_at_its_limit", a_hang_ends_at_its_limit),
        trial("a_claim_counts_however_its_agent_ends", a_claim_counts_however_its_agent_ends),
        trial("a_failed_verification_is_not_published", a_failed_verification_is_not_published),
        trial("conflict_and_held_are_written_down", conflict_and_held_are_written_down),
        trial("the_next_attempt_is_shown_the_conflict", the_next_attempt_is_shown_the_conflict),
        trial("programs_that_misbehave_end_in_words", programs_that_misbehave_end_in_words),
        trial("a_malformed_claim_is_no_claim", a_malformed_claim_is_no_claim),
        trial("stopping_ends_the_tree_and_keeps_the_work", stopping_ends_the_tree),
        trial("a_task_that_is_withdrawn_is_stopped", a_withdrawn_task_is_stopped),
        trial("done_by_hand_goes_through_the_gate", done_by_hand_goes_through_the_gate),
        trial("a_missing_agent_says_so", a_missing_agent_says_so),
        trial("an_agent_sets_nothing_but_its_claim", an_agent_sets_nothing_but_its_claim),
    ]
}

async fn a_declared_failure_is_not_merged() {
    let world = World::new().await;
    let script = format!(
        "printf 'success: false\\nfailure_reason: no network\\n' >> \"$WATCHFIRE_TASK_FILE\"; {DONE}"
    );
    let task = world.task("t", &script).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&task], Ending::failed("no network"));
    let read = world.read(task).await;
    assert_eq!((read.status, read.success), (TaskStatus::Done, Some(false)));
    assert_eq!(read.failure_reason.as_deref(), Some("no network"));
    assert_eq!(world.fake.calls(), ["open 0001", "capture 0001"]);
    assert!(!summary.is_good());
}

async fn a_crash_is_visible_and_captured() {
    let world = World::new().await;
    let crash = world.task("crash", "exit 7").await;
    let after = world.task("after", DONE).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(
        matches!(&summary.endings[&crash], Ending::Crashed { reason, .. } if reason.contains("exit code 7"))
    );
    assert!(summary.endings[&after].is_good(), "others go on");
    let read = world.read(crash).await;
    assert_eq!(read.status, TaskStatus::Ready);
    assert!(read.failure_reason.unwrap().contains("crashed"));
    assert_eq!(&world.fake.calls()[..2], ["open 0001", "capture 0001"]);
    let infos = world.project.tasks(&TaskQuery::new()).await.unwrap();
    assert_eq!(infos[0].word(), "crashed");
}

async fn a_hang_ends_at_its_limit() {
    let world = World::new().await;
    world.configure("time_limit: 1s\n");
    let task = world.task("t", "echo stuck; trap '' TERM HUP; while :; do sleep 1; done").await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&task], Ending::timed_out("took longer than 1s; its last words: stuck"));
}

/// With an error, by a signal, not at all, or with work that it does after its claim.
async fn a_claim_counts_however_its_agent_ends() {
    let world = World::new().await;
    world.configure("max_parallel: 4\n");
    let ends = [
        "exit 3",
        "kill -9 $$",
        "trap '' TERM HUP; while :; do sleep 1; done",
        "sleep 0.1; echo more > more",
    ];
    let mut tasks = Vec::new();
    for end in ends {
        tasks.push(world.task(end, &format!("{DONE}; {end}")).await);
    }
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    for (task, end) in tasks.iter().zip(ends) {
        assert!(matches!(summary.endings[task], Ending::Merged { .. }), "{end}: {summary:?}");
    }
}

async fn a_failed_verification_is_not_published() {
    let world = World::new().await;
    world.configure("verify: ['true', 'echo broken; exit 3']\n");
    let task = world.task("t", DONE).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    let Ending::VerifyFailed { command, how, output, .. } = &summary.endings[&task] else {
        panic!("{summary:?}")
    };
    assert_eq!(
        (command.as_str(), how.as_str(), output.as_str()),
        ("echo broken; exit 3", "exit code 3", "broken")
    );
    assert!(world.read(task).await.merge_failure_reason.unwrap().contains("broken"));
    assert!(!world.fake.calls().iter().any(|call| call.starts_with("publish")));
}

async fn conflict_and_held_are_written_down() {
    let world = World::new().await;
    let conflict = world.task("conflict", DONE).await;
    let held = world.task("held", DONE).await;
    let fine = world.task("fine", DONE).await;
    world.fake.outcomes.lock().unwrap().extend([(conflict, Outcome::Conflict), (held, Outcome::Held)]);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&conflict], Ending::conflict("a.txt"));
    assert!(matches!(&summary.open[&held], LifeState::Held { by, .. } if by.to_string().contains("a.txt")));
    assert!(summary.endings[&fine].is_good());
    assert!(world.read(held).await.merge_failure_reason.unwrap().contains("local edits"));
    assert!(!world.fake.calls().contains(&"remove 0001".to_owned()));

    // Held work is tried again at the next start, and merges when nothing stands in the way any more.
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    let mut world = World::in_folder(temp).await;
    assert!(matches!(world.ended(held).await, Ending::Merged { .. }));
    within(async {
        while world.read(held).await.merge_failure_reason.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn the_next_attempt_is_shown_the_conflict() {
    let world = World::new().await;
    let prompt = world.temp.path().join("prompt");
    let task = world.task("t", &format!("cp \"$SYSTEM_PROMPT\" '{}'; {DONE}", prompt.display())).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Conflict);
    for _ in 0..2 {
        let ready = TaskPatch::new().with_status(TaskStatus::Ready);
        world.project.store().update(task, ready, None, None).await.unwrap();
        let run = world.project.run(RunRequest::task(task)).await.unwrap();
        within(run.wait()).await.unwrap();
    }
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("- a.txt\n<conflict>\n<<<<<<<"), "{prompt}");
}

/// What is not there, does not start, says nothing, or asks what nobody knows.
async fn programs_that_misbehave_end_in_words() {
    let world = World::new().await;
    world.configure("time_limit: 2s\nmax_parallel: 4\n");
    let cases = [
        (
            "exits at once",
            "exit 0",
            &["ended without saying so: it never came to work", "it said nothing"][..],
        ),
        (
            "asks in prose",
            "# stream\necho 'say 5 Which database?'; echo noise >&2; echo busy; exit 0",
            &["ended without saying so: ", "its last words: Which database?"],
        ),
        (
            "another version",
            "echo 'error: unknown option --yolo' >&2; exit 2",
            &["exit code 2", "unknown option --yolo", "its version 9.1 was not tested"],
        ),
        ("a stream", "# stream\necho 'no such model' >&2; exit 1", &["exit code 1", "no such model"]),
        ("asks", "printf 'Delete everything? [y/N] '; read answer; echo; exit 3", &["longer than 2s"]),
        ("says nothing", "sleep 1000", &["longer than 2s"]),
        ("is not there", "exec /nowhere/agent", &["exit code 127", "/nowhere/agent"]),
    ];
    let mut tasks = Vec::new();
    for (title, script, expected) in cases {
        tasks.push((world.task(title, script).await, expected));
    }
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    for (task, expected) in tasks {
        let said = summary.endings[&task].to_string();
        assert!(expected.iter().all(|words| said.contains(words)), "{said}");
    }
    let world = World::new().await;
    let flood = world.task("floods", &format!("head -c 10000000 /dev/zero | tr '\\0' x; {DONE}")).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(summary.endings[&flood].is_good(), "{summary:?}");
}

async fn a_malformed_claim_is_no_claim() {
    let world = World::new().await;
    let task = world.task("t", "printf 'status: done\\n\\tbroken: [' > \"$WATCHFIRE_TASK_FILE\"").await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    let Ending::Unclaimed { reason, .. } = &summary.endings[&task] else { panic!("{summary:?}") };
    assert!(reason.contains("task file"), "{reason}");
    assert_eq!(world.read(task).await.title, "t", "the project's own file is untouched");
}

async fn stopping_ends_the_tree() {
    let world = World::new().await;
    let pid_file = world.temp.path().join("pid");
    let script = format!("setsid sh -c 'echo $$ > \"{}\"; exec sleep 1000' & sleep 1000", pid_file.display());
    let task = world.task("t", &script).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    appears(&pid_file).await;
    let pid = within(async {
        loop {
            match std::fs::read_to_string(&pid_file).unwrap().trim().parse::<i32>() {
                Ok(pid) => return pid,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    run.stop();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&task], Ending::stopped(StopReason::Requested));
    assert!(summary.stopped);
    gone(pid).await;
    assert!(world.fake.calls().contains(&"capture 0001".to_owned()));
    assert_eq!(world.read(task).await.status, TaskStatus::Ready);
}

async fn a_withdrawn_task_is_stopped() {
    let mut world = World::new().await;
    let draft = world.task("draft", "sleep 1000").await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    world.running().await;
    world
        .project
        .store()
        .update(draft, TaskPatch::new().with_status(TaskStatus::Draft), None, None)
        .await
        .unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&draft], Ending::stopped(StopReason::Withdrawn));

    let deleted = world.task("deleted", "sleep 1000").await;
    let run = world.project.run(RunRequest::task(deleted)).await.unwrap();
    let runs = |life: &Life| life.state == LifeState::Running && life.subject.task() == Some(deleted);
    world.life(runs).await;
    world.project.store().delete(deleted).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&deleted], Ending::stopped(StopReason::Withdrawn));
}

async fn done_by_hand_goes_through_the_gate() {
    let mut world = World::new().await;
    let task = world.task("t", "sleep 1000").await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    world.running().await;
    world
        .project
        .store()
        .update(task, TaskPatch::new().with_status(TaskStatus::Done), None, None)
        .await
        .unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
}

async fn a_missing_agent_says_so() {
    let mut world = World::new().await;
    let task = world.task("t", DONE).await;
    let patch = TaskPatch::new().with_agent(Some("codex".parse().unwrap()));
    world.project.store().update(task, patch, None, None).await.unwrap();
    // Nothing could run: one error, before anything is claimed.
    let before = world.read(task).await;
    let error = world.project.run(RunRequest::all()).await.unwrap_err();
    assert_eq!(error.code(), "unknown_backend");
    assert_eq!(world.read(task).await, before);
    // Also beside a task that can: the error says whose agent it is.
    let go = world.root().join("go");
    let wait = format!("until test -e '{}'; do sleep 0.02; done; {DONE}", go.display());
    let other = world.task("other", &wait).await;
    let error = world.project.run(RunRequest::all()).await.unwrap_err();
    assert_eq!((error.code(), error.detail("tasks")), ("unknown_backend", Some("#0001")));
    assert_eq!(world.read(task).await, before);
    // One that becomes ready during a run waits alone, and loses nothing.
    world.configure("max_parallel: 2\n");
    let patch = |status| TaskPatch::new().with_status(status);
    world.project.store().update(task, patch(TaskStatus::Draft), None, None).await.unwrap();
    let run = world.project.run(RunRequest::all()).await.unwrap();
    world.running().await;
    world.project.store().update(task, patch(TaskStatus::Ready), None, None).await.unwrap();
    let limited = world.life(|life| matches!(life.state, LifeState::Limited { .. })).await;
    assert_eq!((limited.subject.task(), limited.attempt.0), (Some(task), 0));
    std::fs::write(go, "").unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&other], Ending::Merged { .. }), "{summary:?}");
    let LifeState::Limited { issue, .. } = &summary.open[&task] else { panic!("{summary:?}") };
    assert_eq!(issue.kind, IssueKind::AgentMissing);
    assert!(issue.message.contains("unknown agent: codex"), "{issue:?}");
    let task = world.read(task).await;
    assert_eq!((task.status, task.failure_reason), (TaskStatus::Ready, None));
    assert_eq!((task.started_at, task.agent_sessions), (None, 0), "it was never started");
}

async fn an_agent_sets_nothing_but_its_claim() {
    let world = World::new().await;
    let script = format!(
        "sed -i 's/^title: .*/title: hacked/; s/^position: .*/position: -5/' \"$WATCHFIRE_TASK_FILE\"; {DONE}"
    );
    let task = world.task("honest", &script).await;
    let before = world.read(task).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
    let after = world.read(task).await;
    assert_eq!((after.title, after.position), (before.title, before.position));
}
