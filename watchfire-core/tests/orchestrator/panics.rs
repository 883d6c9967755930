//! Foreign parts that panic: the life that they belong to ends, and the orchestrator goes on.

use libtest_mimic::Trial;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Change, Ending, LifeState, NoticeCode};
use watchfire_core::store::TaskQuery;

use super::support::{DONE, Outcome, World, gone, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_workspace_that_panics_ends_one_life", a_workspace_that_panics_ends_one_life),
        trial("a_target_that_cannot_be_asked_is_asked_again", a_target_that_cannot_be_asked_is_asked_again),
        trial("a_backend_that_panics_ends_one_life", a_backend_that_panics_ends_one_life),
        trial("a_claim_waits_for_a_file_that_can_be_read", a_claim_waits_for_a_file_that_can_be_read),
        trial("a_file_that_is_away_for_a_moment_is_merged", a_file_that_is_away_for_a_moment_is_merged),
        trial("a_full_disk_holds_a_merge_and_is_tried_again", a_full_disk_holds_a_merge),
    ]
}

/// Runs all tasks and returns how `task` ended; another one must be merged.
pub(crate) async fn ends(world: &World, task: TaskNumber) -> Ending {
    let other = world.task("other", DONE).await;
    let run = world.project.run(RunRequest::all()).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&other], Ending::Merged { .. }), "{summary:?}");
    summary.endings[&task].clone()
}

pub(crate) fn is_internal(ending: &Ending) -> bool {
    matches!(ending, Ending::Error { code, message, .. } if code == "internal" && message.contains("panicked"))
}

async fn a_workspace_that_panics_ends_one_life() {
    for call in ["open", "capture", "prepare", "checkout", "publish"] {
        let world = World::new().await;
        world.configure("verify: ['true']\n");
        let task = world.task("t", DONE).await;
        world.fake.outcomes.lock().unwrap().insert(task, Outcome::Panics(call));
        let ending = ends(&world, task).await;
        assert!(is_internal(&ending), "{call}: {ending}");
        assert!(world.project.sessions().is_empty(), "{call}");
        within(world.orchestrator.shutdown()).await;
    }
    // An error is no success either, and nothing waits for its merge.
    let world = World::new().await;
    let task = world.task("t", DONE).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Uncaptured);
    let ending = ends(&world, task).await;
    assert!(matches!(&ending, Ending::Error { code, .. } if code == "workspace_broken"), "{ending}");
    let info = world.project.tasks(&TaskQuery::new()).await.unwrap().remove(0);
    assert_eq!((info.ending(), info.task.success), (Some(&ending), Some(true)));
    assert!(info.task.failure_reason.is_some_and(|why| why.contains("capturing")));
    within(world.orchestrator.shutdown()).await;
    // Its work is published when it panics: the claim is given back all the same.
    let world = World::new().await;
    let task = world.task("t", DONE).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Panics("remove"));
    let ending = ends(&world, task).await;
    assert!(matches!(ending, Ending::Merged { .. }) || is_internal(&ending), "{ending}");
    within(world.orchestrator.shutdown()).await;
}

/// An error is no answer: what was published is recorded as merged, and a stop does not hide it.
async fn a_target_that_cannot_be_asked_is_asked_again() {
    for stopped in [false, true] {
        let mut world = World::hasty().await;
        let task = world.task("t", DONE).await;
        world.fake.outcomes.lock().unwrap().insert(task, Outcome::Unclear(3));
        world.project.run(RunRequest::all()).await.unwrap();
        let life = world.life(|life| matches!(life.state, LifeState::Publishing { .. })).await;
        if stopped {
            within(world.project.stop(life.id)).await.unwrap();
        }
        let ending = world.ended(task).await;
        assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
        let calls = world.fake.calls();
        assert_eq!(calls.iter().filter(|call| call.starts_with("publish")).count(), 1, "{calls:?}");
    }
    // Held work, too.
    let mut world = World::hasty().await;
    let task = world.task("t", DONE).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Held);
    world.project.run(RunRequest::all()).await.unwrap();
    world.life(|life| matches!(life.state, LifeState::Held { .. })).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::Unclear(2));
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
}

async fn a_backend_that_panics_ends_one_life() {
    let world = World::new().await;
    let task = world.task("t", "# panic").await;
    let ending = ends(&world, task).await;
    assert!(is_internal(&ending), "{ending}");

    let mut world = World::new().await;
    let pid = world.temp.path().join("pid");
    let task =
        world.task("t", &format!("echo $$ > '{}'; stty -echo; echo panic; sleep 1000", pid.display())).await;
    let ending = ends(&world, task).await;
    assert!(is_internal(&ending), "{ending}");
    gone(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).await;
    world.change(|change| matches!(change, Change::SessionOver { .. })).await;
}

/// The turn is paid for: the agent is not started again.
async fn a_claim_waits_for_a_file_that_can_be_read() {
    let mut world = World::hasty().await;
    let real = world.root().join(".watchfire/tasks/0001.yaml");
    let kept = world.temp.path().join("kept");
    let script = format!("cp '{0}' '{1}'; printf 'title: [' > '{0}'; {DONE}", real.display(), kept.display());
    let task = world.task("t", &script).await;
    world.project.run(RunRequest::all()).await.unwrap();
    world
        .change(|change| {
            matches!(change, Change::Notice(notice)
                if notice.code == NoticeCode::Malformed && notice.message.contains("claim waits"))
        })
        .await;
    std::fs::copy(&kept, &real).unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
    assert_eq!(world.fake.calls().iter().filter(|call| call.starts_with("open")).count(), 1);
}

/// As in an editor's save by rename, or a `git stash`.
async fn a_file_that_is_away_for_a_moment_is_merged() {
    let mut world = World::new().await;
    let (real, away) = (world.root().join(".watchfire/tasks/0001.yaml"), world.temp.path().join("away"));
    // The file goes while its work is verified, and comes back later.
    world.configure(&format!("verify: [\"mv '{}' '{}'\"]\n", real.display(), away.display()));
    let task = world.task("t", DONE).await;
    let back = async {
        while !away.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        std::fs::rename(&away, &real).unwrap();
    };
    world.project.run(RunRequest::all()).await.unwrap();
    within(back).await;
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
}

async fn a_full_disk_holds_a_merge() {
    let mut world = World::new().await;
    world.configure("verify: ['true']\n");
    let task = world.task("t", DONE).await;
    world.fake.outcomes.lock().unwrap().insert(task, Outcome::NoScratch);
    let run = world.project.run(RunRequest::all()).await.unwrap();
    // It passes by itself, so the run goes on; a person need not wait for the next attempt.
    world.life(|life| life.state.word() == "held").await;
    world.fake.outcomes.lock().unwrap().clear();
    let state = within(world.project.merge(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }), "{state}");
    assert!(within(run.wait()).await.unwrap().is_good());
}
