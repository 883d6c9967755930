//! Runs that go well.

use libtest_mimic::Trial;
use watchfire_core::ErrorKind;
use watchfire_core::model::{PromptSection, TaskNumber, TaskStatus};
use watchfire_core::orchestrator::{ChatRequest, MergeOptions, RunRequest, SandboxRecord, TaskInfo};
use watchfire_core::sandbox::Denials;
use watchfire_core::schedule::{Change, CommandId, Ending, LifeState, RunId};
use watchfire_core::store::{DocumentName, TaskPatch, TaskQuery};
use watchfire_core::terminal::Size;
use watchfire_core::workspace::Removed;

use super::support::{
    DONE, Outcome, World, appears, fake, gone, is_kind, make_project, not_sandboxed, orchestrator, within,
};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_link_in_place_of_a_prompt_is_ignored", a_link_in_place_of_a_prompt_is_ignored),
        trial("prompts_are_in_the_projects_words", prompts_are_in_the_projects_words),
        trial("tasks_run_in_work_order_and_merge", tasks_run_in_work_order_and_merge),
        trial("a_run_of_long_ago_can_be_asked_for", a_run_of_long_ago_can_be_asked_for),
        trial("one_task_runs_alone_and_a_draft_becomes_ready", one_task_runs_alone),
        trial("work_is_sent_back_with_words", work_is_sent_back_with_words),
        trial("a_request_comes_before_the_automation", a_request_comes_before_the_automation),
        trial("a_missing_agent_has_no_session", a_missing_agent_has_no_session),
        trial("notes_on_progress_reach_the_next_attempt", notes_on_progress_reach_the_next_attempt),
        trial("other_tasks_can_be_read", other_tasks_can_be_read),
        trial("memory_reaches_later_agents", memory_reaches_later_agents),
        trial("a_moved_target_is_merged_again", a_moved_target_is_merged_again),
        trial("auto_merge_off_keeps_the_branch", auto_merge_off_keeps_the_branch),
        trial("a_merge_that_has_been_is_not_tried_again", a_merge_that_has_been_is_not_tried_again),
        trial(
            "branches_are_merged_and_removed_when_nothing_runs_on_them",
            branches_are_merged_and_removed_when_nothing_runs_on_them,
        ),
        trial("verify_runs_on_the_merged_tree", verify_runs_on_the_merged_tree),
        trial("a_batch_is_verified_together_and_loses_only_the_guilty", a_batch_is_verified_together),
        trial("trouble_in_a_batch_is_of_one_task", trouble_in_a_batch_is_of_one_task),
        trial("nothing_is_stacked_on_what_is_published", nothing_is_stacked_on_what_is_published),
        trial("a_chat_takes_input_and_size", a_chat_takes_input_and_size),
        trial("two_orchestrators_do_not_share_a_project", two_orchestrators_do_not_share_a_project),
        trial("a_copy_of_a_project_gets_nothing_of_the_original", a_copy_of_a_project_gets_nothing),
        trial("parallel_tasks_run_at_once", parallel_tasks_run_at_once),
        trial("a_dependant_waits_for_the_merge", a_dependant_waits_for_the_merge),
        trial("a_retry_after_a_failed_verification_runs", a_retry_after_a_failed_verification_runs),
        trial("a_closed_project_can_be_opened_again", a_closed_project_can_be_opened_again),
        trial("ready_tasks_start_by_themselves", ready_tasks_start_by_themselves),
        trial("dropping_the_last_handle_ends_agents", dropping_the_last_handle_ends_agents),
        trial("folders_are_made_ready_while_an_agent_works", folders_are_made_ready_while_an_agent_works),
    ]
}

async fn tasks_run_in_work_order_and_merge() {
    let world = World::new().await;
    let order = world.temp.path().join("order");
    let script = |n: u32| format!("echo {n} >> '{}'; {DONE}", order.display());
    let first = world.task("first", &script(1)).await;
    let second = world.task("second", &script(2)).await;
    world.project.store().update(first, TaskPatch::new().with_position(9), None, None).await.unwrap();

    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();

    assert!(summary.is_good(), "{summary:?}");
    assert_eq!(std::fs::read_to_string(order).unwrap(), "2\n1\n");
    for number in [first, second] {
        assert!(matches!(summary.endings[&number], Ending::Merged { .. }), "{summary:?}");
        let task = world.read(number).await;
        assert_eq!((task.status, task.success, task.agent_sessions), (TaskStatus::Done, Some(true), 1));
        assert!(task.started_at.is_some() && task.completed_at.is_some());
    }
    let calls = world.fake.calls();
    assert_eq!(calls.iter().filter(|call| call.starts_with("publish")).count(), 2, "{calls:?}");
    assert!(calls.contains(&"remove 0001".to_owned()), "auto_delete_branch is on: {calls:?}");
    let infos = world.project.tasks(&TaskQuery::new()).await.unwrap();
    assert!(infos.iter().all(|info| info.word() == "merged"), "{infos:?}");
    world.orchestrator.shutdown().await;
    let sessions = world.temp.path().join("home/state").join(world.project.id().as_str()).join("sessions");
    assert_eq!(std::fs::read_dir(&sessions).unwrap().count(), 0, "the sessions' folders are gone");
    let logs: Vec<_> =
        std::fs::read_dir(world.project.logs_dir()).unwrap().map(|it| it.unwrap().path()).collect();
    let ending = |end: &str| logs.iter().filter(|path| path.to_string_lossy().ends_with(end)).count();
    let counts = [".log", ".sandbox.json", ".spent.json"].map(ending);
    assert_eq!(counts, [2, 2, 2], "{logs:?}");
    let record = SandboxRecord::latest(world.project.logs_dir(), Some(second)).unwrap().unwrap();
    assert!(
        record.ended && record.denials == Denials::Unknown && record.report.sandbox == "none",
        "{record:?}"
    );
}

/// A person's words are the first that the next agent reads, and tasks that nobody has worked on have nothing to be sent back.
async fn work_is_sent_back_with_words() {
    let world = World::new().await;
    let told = world.temp.path().join("told");
    let script = format!(
        "echo \"$FIRST\" >> '{0}'; grep -A1 '^<message>' \"$SYSTEM_PROMPT\" >> '{0}'; {DONE}",
        told.display()
    );
    let task = world.task("dates", &script).await;
    let sent_back = || RunRequest::task(task).with_note("use UTC\nand test it");
    is_kind(world.project.run(sent_back()).await, ErrorKind::InvalidInput);
    for request in [RunRequest::task(task), sent_back(), RunRequest::task(task)] {
        if request.options.note.is_none() {
            let ready = TaskPatch::new().with_status(TaskStatus::Ready);
            world.project.store().update(task, ready, None, None).await.unwrap();
        }
        let run = world.project.run(request).await.unwrap();
        let summary = within(run.wait()).await.unwrap();
        assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    }
    assert_eq!(world.read(task).await.agent_sessions, 3);
    assert_eq!(
        std::fs::read_to_string(told).unwrap(),
        "Implement Task #0001: dates\n\
         Go on with Task #0001: dates, which was sent back: use UTC and test it\n\
         <message>\nuse UTC\n\
         Implement Task #0001: dates\n",
    );
}

/// What makes a task ready for a request must not let the automation start it first, without what the request asks for.
async fn a_request_comes_before_the_automation() {
    let World { temp, orchestrator, project, .. } = World::new().await;
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    std::fs::write(temp.path().join("automation"), "").unwrap();
    let mut world = World::in_folder(temp).await;
    let told = world.temp.path().join("told");
    let task = world.task("dates", &format!("echo \"$FIRST\" >> '{}'; {DONE}", told.display())).await;
    world.ended(task).await;
    for n in 1..=5 {
        let run = world.project.run(RunRequest::task(task).with_note(n.to_string())).await.unwrap();
        let summary = within(run.wait()).await.unwrap();
        assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{n}: {summary:?}");
    }
    let told = std::fs::read_to_string(told).unwrap();
    let words: Vec<_> = told.lines().skip(1).filter_map(|line| line.rsplit(": ").next()).collect();
    assert_eq!(words, ["1", "2", "3", "4", "5"], "{told}");
    // What cannot run changes nothing.
    let missing = RunRequest::task(task).with_note("no").with_agent("nobody".parse().unwrap());
    is_kind(world.project.run(missing).await, ErrorKind::UnknownBackend);
    assert_eq!(world.read(task).await.status, TaskStatus::Done);
}

/// Who waits for the session of a task whose agent is missing is not kept waiting.
async fn a_missing_agent_has_no_session() {
    let world = World::new().await;
    world.configure("default_agent: nobody\n");
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    std::fs::write(temp.path().join("automation"), "").unwrap();
    let mut world = World::in_folder(temp).await;
    let task = world.task("dates", DONE).await;
    // It may be limited by now, and then there is nothing to wait for.
    if let Err(error) = within(world.project.started(task)).await {
        assert_eq!(error.kind(), ErrorKind::ProgramMissing, "{}", error.report());
    }
    let life = world.life(|life| matches!(life.state, LifeState::Limited { .. })).await;
    let backend = life.backend.as_ref().map(ToString::to_string);
    assert_eq!((life.attempt.0, backend.as_deref()), (0, Some("nobody")));
    assert_eq!(world.read(task).await.status, TaskStatus::Ready);
}

async fn folders_are_made_ready_while_an_agent_works() {
    let world = World::new().await;
    let settings = "version: 1\ndefaults:\n  default_sandbox: none\n  ready_worktrees: 3\n";
    std::fs::write(world.temp.path().join("home/settings.yaml"), settings).unwrap();
    let made = world.root().join("ready");
    let wait = format!("while ! [ -s '{}' ]; do sleep 0.02; done; {DONE}", made.display());
    let number = world.task("waits", &wait).await;
    let run = world.project.run(RunRequest::task(number)).await.unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
    assert_eq!(std::fs::read_to_string(made).unwrap(), "3");
    // Who closes does not wait for them.
    within(world.orchestrator.shutdown()).await;
    let calls = world.fake.calls();
    assert!(calls.contains(&"no longer kept ready".to_owned()), "{calls:?}");
}

/// It may lead to a file that no agent may see.
async fn a_link_in_place_of_a_prompt_is_ignored() {
    let mut world = World::new().await;
    let (secret, folder) = (world.temp.path().join("secret"), world.root().join(".watchfire/prompts"));
    std::fs::write(&secret, "Hidden words.\n").unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("scope_rules.md")).unwrap();
    let built_in =
        "grep -q '<scope_rules>' \"$SYSTEM_PROMPT\" && ! grep -q 'Hidden w[o]rds' \"$SYSTEM_PROMPT\"";
    let task = world.task("t", &format!("{built_in} && {DONE}")).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    let told = |change: &Change| matches!(change, Change::Notice(it) if it.message.starts_with("prompts/scope_rules.md is ignored: "));
    world.change(told).await;
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
}

async fn prompts_are_in_the_projects_words() {
    let temp = tempfile::tempdir().unwrap();
    let world = World::built(temp, |builder| {
        builder.prompt(PromptSection::ScopeRules, "").prompt(PromptSection::TestIntegrity, "not these")
    })
    .await;
    let own = DocumentName::Prompt(PromptSection::TestIntegrity);
    world.project.store().write_document(own, "Test on the board.\n", None, None).await.unwrap();
    assert!(world.root().join(".watchfire/prompts/test_integrity.md").is_file());
    let wanted =
        "grep -q 'Test on the board' \"$SYSTEM_PROMPT\" && ! grep -q '<scope_rules>' \"$SYSTEM_PROMPT\"";
    let number = world.task("t", &format!("{wanted} && {DONE}")).await;
    let run = world.project.run(RunRequest::task(number)).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(summary.is_good(), "{summary:?}");
}

async fn a_run_of_long_ago_can_be_asked_for() {
    let world = World::new().await;
    let task = world.task("first", DONE).await;
    let first = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(first.wait()).await.unwrap();
    // More than are kept in memory.
    for _ in 0..205 {
        let run = world.project.run(RunRequest::all()).await.unwrap();
        within(run.wait()).await.unwrap();
    }
    let World { temp, orchestrator: before, project, fake, .. } = world;
    let root = project.root().to_owned();
    let records = temp.path().join("home/state").join(project.id().as_str()).join("runs");
    before.shutdown().await;
    // As after a kill between the end of a run and its record.
    let last = records.join("206.json");
    std::fs::remove_file(&last).unwrap();
    let after = orchestrator(temp.path(), &fake).await.unwrap();
    let project = after.open(&root).await.unwrap();
    appears(&last).await;
    let record = project.run_record(first.id()).await.unwrap();
    assert!(matches!(record.endings[&task], Ending::Merged { .. }), "{record:?}");
    assert_eq!(within(project.run_handle(first.id()).wait()).await.unwrap(), summary);
    is_kind(project.run_record(RunId(9999)).await, ErrorKind::NotFound);
    is_kind(within(project.run_handle(RunId(9999)).wait()).await, ErrorKind::NotFound);
    after.shutdown().await;
    is_kind(within(project.run_handle(first.id()).wait()).await, ErrorKind::Cancelled);
}

async fn one_task_runs_alone() {
    let world = World::new().await;
    let asked = world.task("asked", DONE).await;
    let other = world.task("other", DONE).await;
    world
        .project
        .store()
        .update(asked, TaskPatch::new().with_status(TaskStatus::Draft), None, None)
        .await
        .unwrap();
    let run = world.project.run(RunRequest::task(asked)).await.unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
    assert_eq!(world.read(asked).await.status, TaskStatus::Done);
    assert_eq!(world.read(other).await.status, TaskStatus::Ready);
    is_kind(world.project.run(RunRequest::task(asked)).await, ErrorKind::InvalidInput);
    is_kind(world.project.run(RunRequest::task(TaskNumber::new(77).unwrap())).await, ErrorKind::NotFound);
}

/// The prompt promises it. They are gone with the task's merge.
async fn notes_on_progress_reach_the_next_attempt() {
    let world = World::new().await;
    let notes = "\"$WATCHFIRE_SESSION_DIR/progress.md\"";
    let script = format!("[ -e {notes} ] || {{ echo half > {notes}; exit 7; }}; cat {notes} > found; {DONE}");
    let task = world.task("t", &script).await;
    let mut ends = Vec::new();
    for _ in 0..2 {
        let run = world.project.run(RunRequest::task(task)).await.unwrap();
        ends.push(within(run.wait()).await.unwrap().endings[&task].clone());
    }
    assert!(matches!(ends[..], [Ending::Crashed { .. }, Ending::Merged { .. }]), "{ends:?}");
    within(world.orchestrator.shutdown()).await;
    let kept = world.temp.path().join("home/state").join(world.project.id().as_str()).join("progress");
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 0);
}

/// The prompt promises this too.
async fn other_tasks_can_be_read() {
    let world = World::new().await;
    let other = world.task("the other one", DONE).await;
    let found = world.temp.path().join("found");
    let look = format!("cat \"$WATCHFIRE_SESSION_DIR/tasks/{other}.yaml\" > '{}'; {DONE}", found.display());
    let task = world.task("looks", &look).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let ending = within(run.wait()).await.unwrap().endings[&task].clone();
    assert!(matches!(ending, Ending::Merged { .. }), "{ending:?}");
    let found = std::fs::read_to_string(found).unwrap();
    assert!(found.contains("the other one"), "{found}");
}

async fn memory_reaches_later_agents() {
    let world = World::new().await;
    let memory = world.root().join(".watchfire/memory.md");
    std::fs::write(&memory, "known\n").unwrap();
    let (instructions, prompt) =
        (world.root().join(".watchfire/secrets/instructions.md"), world.temp.path().join("prompt"));
    std::fs::write(&instructions, "log in as tester\n").unwrap();
    let copy = format!("cp \"$SYSTEM_PROMPT\" '{}'", prompt.display());
    world
        .task("learn", &format!("{copy}; echo learnt >> \"$WATCHFIRE_SESSION_DIR/memory.md\"; {DONE}"))
        .await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    within(run.wait()).await.unwrap();
    within(world.orchestrator.shutdown()).await;
    assert_eq!(std::fs::read_to_string(&memory).unwrap(), "known\nlearnt\n");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("known") && prompt.contains("log in as tester"), "{prompt}");
}

async fn a_moved_target_is_merged_again() {
    let world = World::new().await;
    let task = world.task("t", DONE).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::MovesOnce);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
    let calls = world.fake.calls();
    assert_eq!(calls.iter().filter(|call| call.starts_with("prepare")).count(), 2, "{calls:?}");
}

async fn auto_merge_off_keeps_the_branch() {
    let world = World::new().await;
    let task = world.task("t", DONE).await;
    let run = world.project.run(RunRequest::all().with_merge(false)).await.unwrap();
    assert_eq!(within(run.wait()).await.unwrap().endings[&task], Ending::Unmerged);
    let calls = world.fake.calls();
    assert!(!calls.iter().any(|call| call.starts_with("publish") || call.starts_with("remove")), "{calls:?}");
    assert!(calls.contains(&"capture 0001".to_owned()));
}

/// Asking for a merge that has been is no new merge, and no failure.
async fn a_merge_that_has_been_is_not_tried_again() {
    let world = World::new().await;
    let task = world.task("once", DONE).await;
    within(world.project.run(RunRequest::task(task)).await.unwrap().wait()).await.unwrap();
    let prepared =
        |world: &World| world.fake.calls().iter().filter(|call| **call == format!("prepare {task}")).count();
    assert_eq!(prepared(&world), 1);
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Merged);
    let state = within(world.project.merge(task)).await.unwrap();
    assert!(matches!(state, LifeState::Ended { how: Ending::Merged { .. }, .. }), "{state:?}");
    assert_eq!(prepared(&world), 1);
    let info = world.project.infos(vec![world.project.store().get(task).await.unwrap().value]).await.unwrap();
    assert_eq!(info[0].word(), "merged");
    // Into another branch it is a merge of its own.
    let into = MergeOptions::default().with_into(Some("release".to_owned()));
    within(world.project.merge_with(task, into)).await.unwrap();
    assert_eq!(prepared(&world), 2);
}

async fn branches_are_merged_and_removed_when_nothing_runs_on_them() {
    let mut world = World::new().await;
    let going = world.task("going on", "read never").await;
    let kept = world.task("kept", DONE).await;
    let failed = world.task("failed", &DONE.replace("done/", "done\\nsuccess: false/")).await;
    let run = world.project.run(RunRequest::task(kept).with_merge(false)).await.unwrap();
    assert_eq!(within(run.wait()).await.unwrap().endings[&kept], Ending::Unmerged);
    within(world.project.run(RunRequest::task(failed)).await.unwrap().wait()).await.unwrap();

    let running = world.project.run(RunRequest::task(going)).await.unwrap();
    world.life(|life| life.state == LifeState::Running && life.subject.task() == Some(going)).await;
    for refused in [world.project.merge(going).await.err(), world.project.merge(failed).await.err()] {
        assert_eq!(refused.unwrap().kind(), ErrorKind::InvalidInput, "neither is done");
    }
    assert_eq!(world.project.remove_branch(going, true).await.unwrap_err().kind(), ErrorKind::Busy);

    let state = within(world.project.merge(kept)).await.unwrap();
    assert!(matches!(state, LifeState::Ended { how: Ending::Merged { .. }, .. }), "{state:?}");
    let removed = within(world.project.remove_branch(failed, true)).await.unwrap();
    assert!(matches!(removed, Removed::Gone { .. }), "{removed:?}");
    let calls = world.fake.calls();
    assert!(calls.contains(&format!("publish {kept}")) && calls.contains(&format!("remove {failed}")));
    running.stop();
    within(running.wait()).await.unwrap();
}

async fn verify_runs_on_the_merged_tree() {
    let world = World::new().await;
    world.configure("verify:\n  - test -f made && echo $CI > verified\n");
    let task = world.task("t", &format!("touch made; {DONE}")).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    let verified = world.root().join(".watchfire/worktrees/0001/verified");
    assert_eq!(std::fs::read_to_string(verified).unwrap(), "1\n");
}

/// Merges five tasks, the last four of which wait for the first; the third breaks the verification if `broken`. Their
/// ends, and what was done from the first's publication on.
async fn batch(broken: bool, trouble: Option<(usize, Outcome)>) -> (Vec<&'static str>, Vec<String>) {
    let world = World::new().await;
    let go = world.temp.path().join("go");
    let verify = format!(
        "test ! -e broken && test ! -e 'broken below' && until [ -e {} ]; do sleep 0.01; done",
        go.display()
    );
    let more = format!("max_parallel: 5\nmerge: {{batch: 4}}\nverify:\n  - \"{verify}\"\n");
    world.configure(&more);
    let mut tasks = Vec::new();
    for n in 1..=5 {
        let script = if broken && n == 3 { format!("touch broken; {DONE}") } else { DONE.to_owned() };
        tasks.push(world.task(&n.to_string(), &script).await);
    }
    world.fake.outcomes.lock().unwrap().extend(trouble.map(|(at, outcome)| (tasks[at], outcome)));
    within(world.project.run(RunRequest::all().with_merge(false)).await.unwrap().wait()).await.unwrap();

    // The first is being verified when the others come, which wait then.
    let mut merges = Vec::new();
    for task in tasks {
        let project = world.project.clone();
        merges.push(tokio::spawn(async move { project.merge(task).await }));
        let word = if merges.len() == 1 { "verifying" } else { "queued" };
        within(async {
            let query = TaskQuery::new();
            let there = |info: &TaskInfo| info.task.task_number == task && info.word() == word;
            while !world.project.tasks(&query).await.unwrap().iter().any(there) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    world.fake.calls.lock().unwrap().clear();
    std::fs::write(go, "").unwrap();
    let mut words = Vec::new();
    for merge in merges {
        words.push(within(merge).await.unwrap().unwrap().word());
    }
    let calls = world.fake.calls().into_iter().filter(|call| !call.starts_with("remove")).collect();
    (words, calls)
}

async fn a_batch_is_verified_together() {
    let (words, calls) = batch(true, None).await;
    assert_eq!(words, ["merged", "merged", "verify failed", "merged", "merged"]);
    let expected = [
        "publish 0001",
        // All four, the lower two, the lowest: the third is to blame.
        "prepare 0002",
        "prepare 0003",
        "prepare 0004",
        "prepare 0005",
        "checkout 0005",
        "checkout 0003",
        "checkout 0002",
        "publish 0002",
        // The other two, as one.
        "withdraw 0003",
        "prepare 0004",
        "prepare 0005",
        "checkout 0005",
        "publish 0005",
        "publish 0004",
    ];
    assert_eq!(calls, expected);
}

async fn trouble_in_a_batch_is_of_one_task() {
    for (trouble, word) in
        [(Outcome::Conflict, "conflict"), (Outcome::NoScratch, "held"), (Outcome::Held, "held")]
    {
        let (words, calls) = batch(false, Some((4, trouble))).await;
        assert_eq!(words, ["merged", "merged", "merged", "merged", word], "{calls:?}");
        // The others were verified with it: without it they are a tree that nobody has verified.
        let unverified =
            calls.windows(2).any(|two| two[0] == "publish 0005" && two[1].starts_with("publish"));
        assert!(!unverified, "{calls:?}");
    }
}

/// As after a kill between the hold of a workspace and its record: the candidate was published with another since.
async fn nothing_is_stacked_on_what_is_published() {
    let (words, calls) = batch(false, Some((1, Outcome::WentAlong))).await;
    assert_eq!(words, ["merged"; 5], "{calls:?}");
}

async fn a_chat_takes_input_and_size() {
    let world = World::new().await;
    let command = CommandId::new("one").unwrap();
    let request = || {
        let mut request = ChatRequest::new().with_sandbox(not_sandboxed()).with_size(Size::new(60, 10));
        request.command = Some(command.clone());
        request
    };
    let session = within(world.project.chat(request())).await.unwrap();
    within(session.send("hello")).await.unwrap();
    within(async {
        while !session.snapshot().text().contains("said hello") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    session.resize(Size::new(100, 30)).await.unwrap();
    assert_eq!(session.snapshot().size, Size::new(100, 30));
    assert_eq!(world.project.sessions().len(), 1);
    session.stop();
    within(session.ended()).await;
    is_kind(session.send("more").await, ErrorKind::TargetOff);
    is_kind(within(world.project.chat(request())).await, ErrorKind::TargetOff);
    // The next one begins as soon as this one has ended, also before its life is closed.
    for _ in 0..10 {
        let session =
            within(world.project.chat(ChatRequest::new().with_sandbox(not_sandboxed()))).await.unwrap();
        session.stop();
        within(session.ended()).await;
    }
}

/// Its id is the same: the copy's first start would settle what a killed start left of the original.
async fn a_copy_of_a_project_gets_nothing() {
    let world = World::new().await;
    let root = world.root();
    within(world.orchestrator.shutdown()).await;
    let copy = world.temp.path().join("copy");
    let copied = std::process::Command::new("cp").arg("-r").arg(root).arg(&copy).status().unwrap();
    assert!(copied.success());
    let other = orchestrator(world.temp.path(), &fake(world.temp.path())).await.unwrap();
    let error = other.open(&copy).await.unwrap_err();
    let original = root.canonicalize().unwrap();
    assert_eq!((error.kind(), error.detail("original")), (ErrorKind::Conflict, original.to_str()));
    // One that has moved is the same project.
    std::fs::rename(root, world.temp.path().join("moved")).unwrap();
    within(other.open(&copy)).await.unwrap();
    within(other.shutdown()).await;
}

async fn two_orchestrators_do_not_share_a_project() {
    for has_repository in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let root = make_project(temp.path()).await;
        if has_repository {
            std::fs::create_dir(root.join("shared")).unwrap();
        }
        let world = World::in_folder(temp).await;
        let other = orchestrator(world.temp.path(), &fake(world.temp.path())).await.unwrap();
        let error = other.open(world.root()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.report().contains(&std::process::id().to_string()), "{}", error.report());
        is_kind(world.orchestrator.open(world.root()).await, ErrorKind::AlreadyExists);
    }
}

async fn parallel_tasks_run_at_once() {
    let world = World::new().await;
    world.configure("max_parallel: 2\n");
    let at = |name: &str| world.temp.path().join(name);
    // Each waits for the other: one after the other would never end.
    let meet = |mine: &str, other: &str| {
        let (mine, other) = (at(mine), at(other));
        format!(
            "touch '{}'; while [ ! -e '{}' ]; do sleep 0.01; done; {DONE}",
            mine.display(),
            other.display()
        )
    };
    world.task("a", &meet("a", "b")).await;
    world.task("b", &meet("b", "a")).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    appears(&at("a")).await;
    assert!(within(run.wait()).await.unwrap().is_good());
}

async fn a_dependant_waits_for_the_merge() {
    let world = World::new().await;
    // The verification fails: whoever depends on it must not have started meanwhile.
    world.configure("max_parallel: 2\nverify: ['sleep 0.5; exit 1']\n");
    let first = world.task("first", DONE).await;
    let started = world.temp.path().join("started");
    let second = world.task("second", &format!("touch '{}'; {DONE}", started.display())).await;
    world
        .project
        .store()
        .update(second, TaskPatch::new().with_depends_on(vec![first]), None, None)
        .await
        .unwrap();
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.endings[&first].word(), "verify failed");
    assert!(summary.waiting.contains_key(&second), "{summary:?}");
    assert!(!started.exists());
}

async fn a_retry_after_a_failed_verification_runs() {
    let world = World::new().await;
    world.configure("verify: ['test -f second']\n");
    let task = world.task("t", &format!("[ -e first ] && touch second; touch first; {DONE}")).await;
    world.project.store().update(task, TaskPatch::new().with_retries(Some(1)), None, None).await.unwrap();
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    assert_eq!(world.read(task).await.agent_sessions, 2);
}

async fn a_closed_project_can_be_opened_again() {
    let world = World::new().await;
    let root = world.root().to_owned();
    within(world.project.close()).await;
    let project = world.orchestrator.open(&root).await.unwrap();
    within(world.orchestrator.shutdown()).await;
    is_kind(project.run(RunRequest::all()).await.map(|_| ()), ErrorKind::NotFound);
    world.orchestrator.open(&root).await.unwrap();
}

async fn dropping_the_last_handle_ends_agents() {
    let world = World::new().await;
    let pid_file = world.temp.path().join("pid");
    let script = format!("echo $$ > '{0}.tmp'; mv '{0}.tmp' '{0}'; sleep 1000", pid_file.display());
    world.task("t", &script).await;
    world.project.run(RunRequest::all()).await.unwrap();
    appears(&pid_file).await;
    let pid = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let World { temp, orchestrator, project, events, .. } = world;
    drop((orchestrator, project, events));
    gone(pid).await;
    drop(temp);
}

async fn ready_tasks_start_by_themselves() {
    // At start-up, when one is made, and when a file is edited by another hand; not where the project says no.
    let world = World::new().await;
    let at_start = world.task("at start", DONE).await;
    let edited = world.task("edited", DONE).await;
    world
        .project
        .store()
        .update(edited, TaskPatch::new().with_status(TaskStatus::Draft), None, None)
        .await
        .unwrap();
    let World { temp, orchestrator, project, .. } = world;
    orchestrator.shutdown().await;
    drop((project, orchestrator));
    std::fs::write(temp.path().join("automation"), "").unwrap();

    let mut world = World::in_folder(temp).await;
    world.ended(at_start).await;
    let file = world.root().join(".watchfire/tasks").join(format!("{edited}.yaml"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("status: draft", "status: ready").replace("\"draft\"", "\"ready\""))
        .unwrap();
    world.ended(edited).await;
    let made = world.task("made", DONE).await;
    world.ended(made).await;
    let off = watchfire_core::store::ProjectPatch::new().with_auto_start_tasks(Some(false));
    world.project.store().update_project(off, None, None).await.unwrap();
    let left = world.task("left", DONE).await;
    let asked = world.task("asked", DONE).await;
    let run = world.project.run(RunRequest::task(asked)).await.unwrap();
    within(run.wait()).await.unwrap();
    assert_eq!(world.read(left).await.status, TaskStatus::Ready);
}
