//! Stores, terminals and sandboxes of others that panic or fail.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::sync::OwnedMutexGuard;
use watchfire_core::ErrorKind;
use watchfire_core::model::TaskStatus;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Change, Ending, Life, LifeState, NoticeCode, StopReason, Wait};
use watchfire_core::store::TaskPatch;

use super::faulty::{Faults, Fragile, How, Loud};
use super::panics::{ends, is_internal};
use super::support::{DONE, World, gone, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_store_that_panics_ends_one_life", a_store_that_panics_ends_one_life),
        trial("a_store_that_panics_while_it_releases_is_told", a_store_that_panics_while_it_releases),
        trial("a_terminal_that_panics_ends_one_life", a_terminal_that_panics_ends_one_life),
        trial("a_sandbox_that_panics_ends_one_life", a_sandbox_that_panics_ends_one_life),
        trial("a_store_that_fails_while_opening_locks_nothing", a_store_that_fails_while_opening),
        trial("a_store_that_panics_while_closing_locks_nothing", a_store_that_panics_while_closing),
        trial("claims_are_renewed_after_a_panic", claims_are_renewed_after_a_panic),
        trial("a_lost_claim_stops_the_work_and_nothing_is_merged", a_lost_claim_stops_the_work),
        trial("a_store_that_cannot_be_reached_pauses_starts", a_store_that_cannot_be_reached),
        trial("tasks_are_read_after_a_panic_of_their_stream", tasks_are_read_after_a_panic),
        trial("new_tasks_are_seen_while_others_end", new_tasks_are_seen_while_others_end),
        trial("tasks_read_before_a_merge_do_not_stop_it", tasks_read_before_a_merge_do_not_stop_it),
    ]
}

async fn faulty() -> (World, Faults) {
    let faults = Faults::default();
    let world = World::built(tempfile::tempdir().unwrap(), |builder| faults.build(builder)).await;
    (world, faults)
}

async fn a_store_that_panics_ends_one_life() {
    for call in ["claim", "get", "update"] {
        let (world, faults) = faulty().await;
        let task = world.task("t", DONE).await;
        faults.add(call, Some(task), How::Panics, usize::MAX);
        let ending = ends(&world, task).await;
        assert!(is_internal(&ending), "{call}: {ending}");
        assert!(world.project.sessions().is_empty(), "{call}");
        within(world.orchestrator.shutdown()).await;
    }
}

/// The work is merged by then. The claim ends with its lease.
async fn a_store_that_panics_while_it_releases() {
    let (mut world, faults) = faulty().await;
    let task = world.task("t", DONE).await;
    faults.add("release", Some(task), How::Panics, 1);
    let ending = ends(&world, task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    let told = |change: &Change| matches!(change, Change::Notice(it) if it.task == Some(task) && it.message.contains("panicked"));
    world.change(told).await;
    within(world.orchestrator.shutdown()).await;
}

async fn a_terminal_that_panics_ends_one_life() {
    let mut world =
        World::built(tempfile::tempdir().unwrap(), |builder| builder.terminals(Fragile::boxed)).await;
    let pid = world.temp.path().join("pid");
    let task = world.task("t", &format!("echo $$ > '{}'; echo boom; sleep 1000", pid.display())).await;
    let ending = ends(&world, task).await;
    assert!(is_internal(&ending), "{ending}");
    gone(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).await;
    world.change(|change| matches!(change, Change::SessionOver { .. })).await;
}

async fn a_sandbox_that_panics_ends_one_life() {
    let new = async || {
        let world = World::built(tempfile::tempdir().unwrap(), Loud::build).await;
        let settings = world.temp.path().join("home/settings.yaml");
        std::fs::write(settings, "version: 1\ndefaults:\n  default_sandbox: loud\n").unwrap();
        world
    };
    let world = new().await;
    let task = world.task("t", &format!("true boom; {DONE}")).await;
    let ending = ends(&world, task).await;
    assert!(is_internal(&ending), "{ending}");
    within(world.orchestrator.shutdown()).await;

    // Only the verification panics, which is the same for all tasks: each has that end, and the others theirs.
    let world = new().await;
    world.configure("verify: ['true boom']\n");
    let tasks = [world.task("a", DONE).await, world.task("b", DONE).await];
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(tasks.iter().all(|task| is_internal(&summary.endings[task])), "{summary:?}");
    world.configure("# verify nothing\n");
    let yaml = world.root().join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&yaml).unwrap();
    std::fs::write(&yaml, text.replace("boom", "")).unwrap();
    let state = within(world.project.merge(tasks[0])).await.unwrap();
    assert_eq!(state.word(), "merged");
}

async fn a_store_that_fails_while_opening() {
    for how in [How::Fails(ErrorKind::Io), How::Panics] {
        let (world, faults) = faulty().await;
        let root = world.root().to_owned();
        within(world.project.clone().close()).await;
        faults.add("list", None, how, 1);
        let error = within(world.orchestrator.open(&root)).await.unwrap_err();
        assert!(
            error.report().contains("the test wants") || error.code() == "internal",
            "{}",
            error.report()
        );
        let project = within(world.orchestrator.open(&root)).await.unwrap();
        let task = world.task("t", DONE).await;
        let summary = within(project.run(RunRequest::all()).await.unwrap().wait()).await.unwrap();
        assert!(matches!(summary.endings[&task], Ending::Merged { .. }), "{how:?}: {summary:?}");
    }
}

/// Its agent works while the project is closed, so its claim is given back then.
async fn a_store_that_panics_while_closing() {
    let (mut world, faults) = faulty().await;
    let root = world.root().to_owned();
    let task = world.task("t", "sleep 1000").await;
    world.project.run(RunRequest::all()).await.unwrap();
    world.running().await;
    faults.add("release", Some(task), How::Panics, 1);
    within(world.project.clone().close()).await;
    assert_eq!(faults.met(), 1);
    within(world.orchestrator.open(&root)).await.unwrap();
}

async fn claims_are_renewed_after_a_panic() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("hasty"), "").unwrap();
    let faults = Faults::default();
    let mut world = World::built(temp, |builder| faults.build(builder)).await;
    let go = world.temp.path().join("go");
    world.task("t", &format!("until [ -e '{}' ]; do sleep 0.01; done; {DONE}", go.display())).await;
    faults.add("renew", None, How::Panics, 2);
    faults.add("renew", None, How::Fails(ErrorKind::Io), 2);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    for word in ["panicked", "panicked", "to fail", "to fail"] {
        let told = |change: &Change| matches!(change, Change::Notice(it) if it.code == NoticeCode::Store && it.message.contains(word));
        world.change(told).await;
    }
    std::fs::write(go, "").unwrap();
    assert!(within(run.wait()).await.unwrap().is_good());
}

/// Another machine works on the task: two must not merge it.
async fn a_lost_claim_stops_the_work() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("hasty"), "").unwrap();
    let faults = Faults::default();
    let mut world = World::built(temp, |builder| faults.build(builder)).await;
    let task = world.task("t", "sleep 1000").await;
    faults.add("renew", None, How::Loses, 1);
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    let ending = &summary.endings[&task];
    assert_eq!(*ending, Ending::stopped(StopReason::ClaimLost), "{summary:?}");
    world.change(|change| matches!(change, Change::SessionOver { .. })).await;
    assert!(world.project.sessions().is_empty());
    within(world.orchestrator.shutdown()).await;
}

async fn a_store_that_cannot_be_reached() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("hasty"), "").unwrap();
    let faults = Faults::default();
    let mut world = World::built(temp, |builder| faults.build(builder)).await;
    let task = world.task("t", DONE).await;
    faults.add("claim", Some(task), How::Fails(ErrorKind::Io), 2);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let waits = |life: &Life| matches!(&life.state, LifeState::Waiting { on: Wait::Trouble { .. }, .. });
    world.life(waits).await;
    assert!(within(run.wait()).await.unwrap().is_good(), "it goes on by itself");
}

async fn tasks_are_read_after_a_panic() {
    for call in ["subscribe", "changes"] {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("automation"), "").unwrap();
        let faults = Faults::default();
        faults.add(call, None, How::Panics, 1);
        let mut world = World::built(temp, |builder| faults.build(builder)).await;
        world.configure("auto_start_tasks: true\n");
        let task = world.task("t", DONE).await;
        let told = |change: &Change| matches!(change, Change::Notice(it) if it.message.contains("panicked"));
        world.change(told).await;
        assert!(matches!(world.ended(task).await, Ending::Merged { .. }), "{call}");
        within(world.orchestrator.shutdown()).await;
    }
}

/// With hundreds of agents there is always one that ends while the tasks are read.
async fn new_tasks_are_seen_while_others_end() {
    let faults = Faults::default();
    let mut world = World::built(tempfile::tempdir().unwrap(), |builder| faults.build(builder)).await;
    world.configure("max_parallel: 2\n");
    let waits = |path: &Path| format!("until test -e '{}'; do sleep 0.01; done; exit 1", path.display());
    let (go, stop) = (world.temp.path().join("go"), world.temp.path().join("stop"));
    let first = world.task("first", &waits(&go)).await;
    // Without it the run would be over once the first one has ended.
    world.task("stays", &waits(&stop)).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    world.running().await;
    world.running().await;
    let held = faults.listed().lock_owned().await;
    let second = world.task("second", DONE).await;
    faults.add("listed", Some(second), How::Passes, 1);
    let held = until_listed(&faults, held).await;
    // The second task is on a board that was read, but not taken in.
    std::fs::write(&go, "").unwrap();
    world.ended(first).await;
    let held = within(pass_one(&faults, held)).await;
    // By this board. Its session reads the tasks, too.
    world.life(|life| life.subject.task() == Some(second)).await;
    drop(held);
    assert!(matches!(world.ended(second).await, Ending::Merged { .. }));
    std::fs::write(&stop, "").unwrap();
    within(run.wait()).await.unwrap();
    world.orchestrator.shutdown().await;
}

/// Lets the list that waits return, and keeps the one after it.
async fn pass_one(faults: &Faults, held: OwnedMutexGuard<()>) -> OwnedMutexGuard<()> {
    let next = tokio::spawn(faults.listed().lock_owned());
    tokio::task::yield_now().await;
    drop(held);
    next.await.unwrap()
}

/// Lets lists return until the one with the fault waits.
async fn until_listed(faults: &Faults, mut held: OwnedMutexGuard<()>) -> OwnedMutexGuard<()> {
    while faults.met() == 0 {
        held = within(pass_one(faults, held)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    held
}

/// They show the task as a draft, which it was then.
async fn tasks_read_before_a_merge_do_not_stop_it() {
    let (mut world, faults) = faulty().await;
    let go = world.temp.path().join("go");
    world.configure(&format!("verify: [\"until test -e '{}'; do sleep 0.01; done\"]\n", go.display()));
    let (task, other) = (world.task("t", DONE).await, world.task("other", DONE).await);
    let request = RunRequest::task(task).with_merge(false);
    within(world.project.run(request).await.unwrap().wait()).await.unwrap();
    let held = faults.listed().lock_owned().await;
    let draft = TaskPatch::new().with_status(TaskStatus::Draft);
    world.project.store().update(task, draft, None, None).await.unwrap();
    faults.add("listed", Some(task), How::Passes, 1);
    let held = until_listed(&faults, held).await;
    let done = TaskPatch::new().with_status(TaskStatus::Done).with_success(true);
    world.project.store().update(task, done, None, None).await.unwrap();
    faults.add("listed", Some(task), How::Passes, 1);
    let merged = tokio::spawn({
        let project = world.project.clone();
        async move { project.merge(task).await }
    });
    let is_asked = async || {
        let ledger = world.project.ledger().await.unwrap();
        faults.met() > 1 || ledger.lives.values().any(|life| life.subject.task() == Some(task))
    };
    while !is_asked().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(held);
    // It begins with a board of its own, so the old one is known by then.
    world.project.run(RunRequest::task(other).with_merge(false)).await.unwrap();
    std::fs::write(go, "").unwrap();
    assert_eq!(within(merged).await.unwrap().unwrap().word(), "merged");
    world.ended(other).await;
}
