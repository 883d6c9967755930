//! Limits of agents that outlive their orchestrator, and the end of their turns.

use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream as _;
use libtest_mimic::Trial;
use watchfire_core::model::TaskNumber;
use watchfire_core::observe::{Body, FollowItem, FollowOptions, WatchRequest};
use watchfire_core::schedule::{Ending, LifeState, ResumeTarget};

use super::killable::{Killable, is_said, life, once, script, starts};
use crate::support::{DONE, World, appears, until, within};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("what_makes_an_agent_go_on_outlives_its_program", told_to_go_on),
        trial("a_limit_that_is_passed_is_so_for_the_next_program", goes_on_with_its_limit_on_the_screen),
        trial("a_limit_that_only_a_hook_told_is_known_to_the_next_program", limited_by_a_hook),
        trial("a_turn_that_only_a_hook_ended_is_over_for_the_next_program", idle_by_a_hook),
        trial("a_limit_that_ends_while_no_program_runs_is_over_for_the_next_one", limited_until_nobody_runs),
        trial("a_limit_that_had_ended_before_a_kill_is_over_at_once", limited_until_the_kill),
    ]
}

/// Hears a line in a box that is not there before the file `go` is.
const HEAR: &str =
    "stty -echoctl; until_there go; printf '\\nbox> '; read -r line; echo \"$line\" > typed; printf 'box> '";

/// Leaves an agent that is asked to go on after a limit. Its box is not there before the file `go` is, and until then its screen
/// shows the limit.
async fn left_to_go_on() -> (tempfile::TempDir, TaskNumber) {
    let body = script(&format!("printf 'box>\\nlimited'; {HEAR}; {DONE}; sleep 1000"));
    let (killable, task) = Killable::working(&body).await;
    let world = World::in_folder(killable.kill()).await;
    let limited = once(&world, |state| matches!(state, LifeState::Limited { .. })).await;
    let session = world.session().await;
    let from = session.log().latest();
    within(world.project.resume(ResumeTarget::Life(limited.id))).await.unwrap();
    let queued = WatchRequest::default().with_until("delivery:pending").with_since(from);
    within(session.log().watch(&queued)).await.unwrap();
    let World { temp, orchestrator, project, .. } = world;
    within(orchestrator.detach()).await;
    drop((session, orchestrator, project));
    (temp, task)
}

async fn told_to_go_on() {
    let (temp, task) = left_to_go_on().await;
    std::fs::write(temp.path().join("go"), "").unwrap();
    let mut world = World::in_folder(temp).await;
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(std::fs::read_to_string(world.temp.path().join("typed")).unwrap(), "Go on.\n");
}

/// Tells it by a hook, makes the file `told` once the program has taken that, and is done when a line was typed.
fn told_by_hook(what: &str) -> String {
    script(&format!("{}touch told; read -r line; {DONE}; sleep 1000", crate::told::hook(1, what)))
}

async fn limited_by_a_hook() {
    let (killable, task) = Killable::working(&told_by_hook("limited")).await;
    appears(&killable.at("told")).await;
    let mut world = World::in_folder(killable.kill()).await;
    let session = world.session().await;
    within(session.blocks().wait_for(|blocks| !blocks.issues.is_empty())).await.unwrap();
    let limited = once(&world, |state| matches!(state, LifeState::Limited { .. })).await;
    within(world.project.resume(ResumeTarget::Life(limited.id))).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(starts(world.temp.path()), 1);
}

async fn limited_until_nobody_runs() {
    let limit = "stty -echo; echo used up until $(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)";
    let body = format!("{limit}; read -r line; echo \"$line\" > typed; {DONE}; sleep 1000");
    let (killable, task) = Killable::working_with("on_limit: wait\n", &script(&body)).await;
    until(|| is_said(&killable.at("home/state"), b"\"limited\"")).await;
    let temp = killable.kill();
    // The time of the limit passes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut world = World::in_folder(temp).await;
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(std::fs::read_to_string(world.temp.path().join("typed")).unwrap(), "Go on.\n");
    assert_eq!(starts(world.temp.path()), 1);
}

/// It is asked how its task ended.
async fn idle_by_a_hook() {
    let (killable, task) = Killable::working(&told_by_hook("idle")).await;
    appears(&killable.at("told")).await;
    let mut world = World::in_folder(killable.kill()).await;
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(starts(world.temp.path()), 1);
}

/// The next program reads the limit again, which does not count any more.
async fn goes_on_with_its_limit_on_the_screen() {
    let (temp, task) = left_to_go_on().await;
    let mut world = World::in_folder(temp).await;
    let session = world.session().await;
    let mut follow = session.log().follow(FollowOptions::default()).unwrap();
    within(async {
        while let Some(item) = poll_fn(|context| Pin::new(&mut follow).poll_next(context)).await {
            let FollowItem::Record(record) = item else { continue };
            if !record.replayed && matches!(record.body, Body::Issue(_)) {
                return;
            }
        }
        panic!("the session has ended");
    })
    .await;
    assert_eq!(session.blocks().borrow().issues, []);
    assert_eq!(life(&world).await.state, LifeState::Running);
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}

/// The program ends after its journal says that the agent goes on, and before its text is on disk.
async fn limited_until_the_kill() {
    let limit = "echo 'box>'; echo used up until $(date -u -d '+3 seconds' +%Y-%m-%dT%H:%M:%SZ)";
    let body = script(&format!("{limit}; {HEAR}; {DONE}; sleep 1000"));
    let (killable, task) = Killable::working_with("on_limit: wait\n", &body).await;
    let home = killable.at("home");
    until(|| is_said(&home, b"goes_on")).await;
    let temp = killable.kill();
    assert!(forget_that_it_goes_on(&home) >= 2, "its text and its record");
    std::fs::write(temp.path().join("go"), "").unwrap();
    let mut world = World::in_folder(temp).await;
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    assert_eq!(std::fs::read_to_string(world.temp.path().join("typed")).unwrap(), "Go on.\n");
    assert_eq!(starts(world.temp.path()), 1);
}

/// Removes the texts that wait for agents, and the record of their session's log. Returns the number of files that it changed.
fn forget_that_it_goes_on(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let forgotten = entries.map(|entry| match entry.path() {
        path if path.is_dir() => forget_that_it_goes_on(&path),
        path if path.parent().and_then(Path::parent).is_some_and(|it| it.ends_with("mail")) => {
            std::fs::remove_file(path).unwrap();
            1
        }
        path => match std::fs::read_to_string(&path) {
            Ok(text) if text.contains("\"goes_on\"") => {
                std::fs::write(path, text.replace("\"goes_on\"", "\"went_on\"")).unwrap();
                1
            }
            _ => 0,
        },
    });
    forgotten.sum()
}
