//! Wildfire: tasks, drafts, new tasks, until nothing is left.

use libtest_mimic::Trial;
use watchfire_core::model::{Mode, Phase, TaskNumber, TaskStatus};
use watchfire_core::observe::WatchRequest;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Change, Ending, LifeState, NoticeCode, RunOptions, StopReason, Subject};
use watchfire_core::store::{NewTask, TaskPatch, TaskQuery};

use super::support::{DONE, World, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("wildfire_goes_on_until_nothing_is_left", wildfire_goes_on_until_nothing_is_left),
        trial("a_refinement_changes_its_draft_alone", a_refinement_changes_its_draft_alone),
        trial(
            "a_refinement_that_failed_says_why_on_its_draft",
            a_refinement_that_failed_says_why_on_its_draft,
        ),
        trial("a_step_is_stopped_with_its_run", a_step_is_stopped_with_its_run),
        trial("each_session_names_its_phase", each_session_names_its_phase),
        trial("a_step_goes_on_after_a_restart", a_step_goes_on_after_a_restart),
        trial("what_is_generated_counts_once_it_is_accepted", what_is_generated_counts_once_it_is_accepted),
    ]
}

/// A script that refines its own task, and when that is worked on, does it.
fn refines(how: &str) -> String {
    format!(
        "case \"$FIRST\" in Refine*) {how}; touch \"$WATCHFIRE_SESSION_DIR/refine_done.yaml\";; *) {DONE};; esac"
    )
}

const READY: &str = r#"sed -i 's/^status: .*/status: ready/' "$WATCHFIRE_TASK_FILE""#;

async fn draft(world: &World, title: &str, how: &str) -> TaskNumber {
    let draft = NewTask::new(title).with_prompt(refines(how));
    world.project.store().create(draft, None).await.unwrap().value.task_number
}

/// Writes the script that generates.
fn generates(world: &World, script: &str) {
    let text = format!(
        "cd \"$WATCHFIRE_SESSION_DIR\"\n{script}\n[ -e tasks_done.yaml ] || touch generate_done.yaml\n"
    );
    std::fs::write(world.root().join("generate"), text).unwrap();
}

async fn wildfire_goes_on_until_nothing_is_left() {
    let mut world = World::new().await;
    world.task("first", DONE).await;
    draft(&world, "second", READY).await;
    let once = world.temp.path().join("once");
    let new = |title: &str, more: &str| {
        format!("title: {title}\nprompt: |\n  {}\n{more}status: ready\n", refines(READY))
    };
    std::fs::write(world.temp.path().join("new"), new("third", "acceptance_criteria: [it runs, twice]\n"))
        .unwrap();
    std::fs::write(world.temp.path().join("last"), new("fourth", "depends_on: [1, 7, 9]\n")).unwrap();
    std::fs::write(world.temp.path().join("double"), format!("title: First\nprompt: |\n  {DONE}\n")).unwrap();
    let from = world.temp.path().display().to_string();
    let script = format!(
        "[ -e '{0}' ] && {{ touch generate_done.yaml; exit 0; }}; touch '{0}'
        cp '{from}/new' tasks/0007.yaml; cp '{from}/last' tasks/0008.yaml; cp '{from}/double' tasks/0009.yaml
        echo 'title: [' > tasks/0010.yaml; echo '# more' >> tasks/0001.yaml; ln -s /etc/passwd tasks/0011.yaml",
        once.display()
    );
    generates(&world, &script);
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(summary.is_good(), "{summary:?}");
    assert_eq!((summary.course.rounds, summary.course.generated.len()), (2, 2), "{summary:?}");
    let merged = |ending: &Ending| matches!(ending, Ending::Merged { .. });
    assert_eq!(summary.endings.values().filter(|ending| merged(ending)).count(), 4, "{summary:?}");

    let tasks = world.project.store().list(&TaskQuery::new()).await.unwrap().tasks;
    let of = |title: &str| &tasks.iter().find(|task| task.value.title == title).unwrap().value;
    assert_eq!(tasks.len(), 4);
    assert_eq!(of("third").acceptance_criteria, "- it runs\n- twice\n");
    // By the numbers that they have here; the one that was left out is no dependency.
    assert_eq!(of("fourth").depends_on, [of("first").task_number, of("third").task_number]);
    let told = refusals(&mut world, 4).await;
    for part in [
        "refused its change of task #0001",
        "refused task #0010",
        "task #0011",
        "\"First\": it is there already",
    ] {
        assert!(told.iter().any(|line| line.contains(part)), "{part}: {told:?}");
    }
}

/// Waits for the next notices of what an import left out.
async fn refusals(world: &mut World, number: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..number {
        let refused =
            |change: &Change| matches!(change, Change::Notice(it) if it.code == NoticeCode::Refused);
        let Change::Notice(notice) = world.change(refused).await else { unreachable!() };
        told.push(notice.message);
    }
    told
}

async fn a_refinement_changes_its_draft_alone() {
    let mut world = World::new().await;
    let other = draft(&world, "other", "true").await;
    let script = format!(
        "{READY}; sed -i -e 's/^title: .*/title: better/' -e 's/^agent_sessions.*//' \"$WATCHFIRE_TASK_FILE\"
        echo 'success: true' >> \"$WATCHFIRE_TASK_FILE\"; echo 'labels: [mine]' >> \"$WATCHFIRE_TASK_FILE\"
        sed -i 's/^position: .*/position: 9/' \"$WATCHFIRE_TASK_FILE\"
        cd \"$WATCHFIRE_SESSION_DIR/tasks\"; echo 'title: new' > 0009.yaml; sed -i 's/^title: .*/title: mine/' {other}.yaml"
    );
    let task = draft(&world, "vague", &script).await;
    generates(&world, "");
    // The other one stays a draft, and waits for a person.
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(!summary.is_good());
    assert_eq!(
        summary.course.left[&other].to_string(),
        "failed: the agent left it a draft: case \"$FIRST\" in Refine*) true; touch \"$WATCHFIRE_SESSION_DIR/refine_done.yaml\";; *) sed -i 's/^status: .*/status: done/' \"$WATCHFIRE_TASK_FILE\";; esac"
    );
    assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{summary:?}");
    let refined = world.read(task).await;
    assert_eq!((refined.title.as_str(), refined.labels.len()), ("better", 0));
    assert_ne!(refined.position, 9);
    assert_eq!(world.read(other).await.title, "other");
    let told = refusals(&mut world, 3).await;
    for what in [
        "its change of `labels`, `position`, `success`".to_owned(),
        format!("its change of task #{other}"),
        "the new task #0009".to_owned(),
    ] {
        let line = format!("refine #{task}: refused {what}");
        assert_eq!(told.iter().filter(|it| **it == line).count(), 1, "{line}: {told:?}");
    }
    assert_eq!(world.project.store().list(&TaskQuery::new()).await.unwrap().tasks.len(), 2);
}

async fn a_refinement_that_failed_says_why_on_its_draft() {
    let mut world = World::new().await;
    let mended = world.temp.path().join("mended");
    let script = format!("[ -e '{}' ] && {READY}", mended.display());
    let task = draft(&world, "t", &script).await;
    generates(&world, "");
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    within(run.wait()).await.unwrap();
    let read = world.read(task).await;
    let reason = read.failure_reason.unwrap_or_default();
    assert!(reason.starts_with("not refined: failed: the agent left it a draft"), "{reason}");
    assert_eq!((read.status, read.success), (TaskStatus::Draft, None));
    std::fs::write(&mended, "").unwrap();
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    within(run.wait()).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(world.read(task).await.failure_reason, None);
}

async fn a_step_is_stopped_with_its_run() {
    let mut world = World::new().await;
    let task = draft(&world, "t", "sleep 1000").await;
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    let life = world.running().await;
    assert_eq!(life.subject, Subject::refine(task));
    run.stop();
    let summary = within(run.wait()).await.unwrap();
    assert!(summary.stopped && summary.endings.is_empty());
    let ended = |change: &Change| matches!(change, Change::Life(it) if it.ending() == Some(&Ending::stopped(StopReason::Requested)));
    world.change(ended).await;
    assert_eq!(world.read(task).await.status, TaskStatus::Draft);
}

/// While it runs, in what watchers see, and in its log.
async fn each_session_names_its_phase() {
    let mut world = World::new().await;
    let stays = "touch up; sleep 1000";
    let task = world.task("t", stays).await;
    let phase_of_running = async |world: &World| {
        let known = world.project.candidates(false).await.unwrap().remove(0);
        let log = world.project.log_of(&known.session).await.unwrap();
        let seen = log.watch(&WatchRequest::default()).await.unwrap().agent;
        assert_eq!((seen.mode, seen.phase, seen.task), (Some(known.mode), known.phase, known.task));
        known.phase
    };
    // The same task, asked for alone.
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    world.running().await;
    assert_eq!(phase_of_running(&world).await, None);
    run.stop();
    within(run.wait()).await.unwrap();
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    let id = run.id();
    world.life(|life| life.run == Some(id) && life.state == LifeState::Running).await;
    assert_eq!(phase_of_running(&world).await, Some(Phase::Execute));
    run.stop();
    within(run.wait()).await.unwrap();
    let patch = TaskPatch::new().with_status(TaskStatus::Draft);
    world.project.store().update(task, patch, None, None).await.unwrap();
    let run = world.project.run(RunRequest::wildfire()).await.unwrap();
    let id = run.id();
    world.life(|life| life.run == Some(id) && life.state == LifeState::Running).await;
    assert_eq!(phase_of_running(&world).await, Some(Phase::Refine));
    run.stop();
    within(run.wait()).await.unwrap();
    let ended = world.project.candidates(true).await.unwrap();
    let count = |phase| ended.iter().filter(|it| it.phase == phase).count();
    assert_eq!([None, Some(Phase::Execute), Some(Phase::Refine)].map(count), [1; 3], "{ended:?}");
}

async fn a_step_goes_on_after_a_restart() {
    let mut world = World::new().await;
    let once = world.temp.path().join("once");
    let script = format!("[ -e '{0}' ] || {{ touch '{0}'; sleep 1000; }}; {READY}", once.display());
    let task = draft(&world, "t", &script).await;
    generates(&world, "");
    let run = world.project.run(RunRequest::wildfire()).await.unwrap().id();
    world.running().await;
    super::support::appears(&once).await;
    within(world.orchestrator.shutdown()).await;
    let world = World::built(world.temp, |builder| builder.resume(true)).await;
    // What a person writes meanwhile is not lost.
    world
        .project
        .store()
        .update(task, TaskPatch::new().with_labels(vec!["mine".into()]), None, None)
        .await
        .unwrap();
    let summary = within(world.project.run_handle(run).wait()).await.unwrap();
    assert!(matches!(summary.endings.get(&task), Some(Ending::Merged { .. })), "{summary:?}");
    assert_eq!(world.read(task).await.labels, ["mine"]);
}

async fn what_is_generated_counts_once_it_is_accepted() {
    let world = World::new().await;
    world.configure("definition: |\n  An old one.\n");
    let generate = async |mode| within(world.project.generate(mode, RunOptions::default())).await;
    generates(
        &world,
        "grep -q old definition.md && echo 'A better one.' > definition.md; touch definition_done.yaml",
    );
    let proposal = generate(Mode::GenerateDefinition).await.unwrap();
    assert_eq!((proposal.definition.as_deref(), proposal.tasks.len()), (Some("A better one.\n"), 0));
    let definition = async || world.project.store().project().await.unwrap().value.definition;
    assert_eq!(definition().await, "An old one.\n");
    world.project.accept(proposal).await.unwrap();
    assert_eq!(definition().await, "A better one.\n");

    // A ring would keep both waiting for ever.
    generates(
        &world,
        "echo 'title: New' > tasks/0004.yaml; echo 'depends_on: [4, 5, 6]\ntitle: Newer' > tasks/0005.yaml
        echo 'depends_on: [5]\ntitle: Newest' > tasks/0006.yaml; touch tasks_done.yaml",
    );
    let mut proposal = generate(Mode::GenerateTasks).await.unwrap();
    assert_eq!((proposal.definition.as_ref(), proposal.tasks.len()), (None, 3));
    assert_eq!(world.project.store().list(&TaskQuery::new()).await.unwrap().tasks.len(), 0);
    // A person may change it before.
    proposal.tasks[0].title = "Mine".into();
    let created = world.project.accept(proposal).await.unwrap();
    assert_eq!(world.read(created[0]).await.title, "Mine");
    assert_eq!(world.read(created[1]).await.depends_on, [created[0], created[2]]);
    assert!(world.read(created[2]).await.depends_on.is_empty());
    assert_eq!(world.read(created[1]).await.status, TaskStatus::Draft);

    // What an agent may not propose is neither in the proposal nor passed over.
    generates(
        &world,
        "echo '# more' >> tasks/0001.yaml; echo 'title: mine' > tasks/0008.yaml; touch tasks_done.yaml
        printf 'title: Third\\nagent: other\\nretries: 3\\nstatus: ready\\nlabels: [x]\\n' > tasks/0009.yaml",
    );
    let proposal = generate(Mode::GenerateTasks).await.unwrap();
    let [third] = &proposal.tasks[..] else { panic!("{proposal:?}") };
    let left = (&third.agent, third.retries, third.status, third.labels.len());
    assert_eq!(left, (&None, None, TaskStatus::Draft, 0));
    let refused = ["its change of task #0001", "task \"mine\": it is there already"];
    assert_eq!(proposal.refused, refused);
    generates(&world, "echo 'title: mine' > tasks/0008.yaml; touch tasks_done.yaml");
    let error = generate(Mode::GenerateTasks).await.unwrap_err().to_string();
    assert!(error.contains("the agent wrote no new task: refused task \"mine\": it is there"), "{error}");

    let codes = [
        ("touch tasks_done.yaml", Mode::GenerateTasks, "target_off"),
        ("exit 1", Mode::GenerateDefinition, "target_off"),
        ("", Mode::Chat, "invalid_input"),
    ];
    for (script, mode, code) in codes {
        generates(&world, script);
        assert_eq!(generate(mode).await.unwrap_err().code(), code, "{script}");
    }
}
