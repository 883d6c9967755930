//! The project's setup commands.

use libtest_mimic::Trial;
use watchfire_core::orchestrator::{RunRequest, SessionLog};
use watchfire_core::schedule::{Ending, LifeState, ResumeTarget};

use super::support::{DONE, World, appears, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("setup_runs_once_in_a_folder_and_before_verification", setup_runs_once),
        trial("the_output_of_a_setup_is_in_a_log", the_output_of_a_setup_is_in_a_log),
        trial("a_failed_setup_starts_no_agent", a_failed_setup_starts_no_agent),
        trial("a_setup_can_be_stopped", a_setup_can_be_stopped),
        trial("a_setup_waits_for_secrets_that_are_gone", a_setup_waits_for_secrets),
    ]
}

async fn setup_runs_once() {
    let mut world = World::new().await;
    world.configure("setup: ['echo ran >> prepared']\nverify: ['grep -q ran prepared']\n");
    let script = format!(
        "[ \"$(cat prepared)\" = ran ] || exit 9; [ -e tried ] || {{ touch tried; exit 7; }}; {DONE}"
    );
    let task = world.task("t", &script).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Crashed { .. }));
    world.project.run(RunRequest::task(task)).await.unwrap();
    let ending = world.ended(task).await;
    assert!(matches!(ending, Ending::Merged { .. }), "{ending}");
}

/// In the log of the session that follows, or in one of its own.
async fn the_output_of_a_setup_is_in_a_log() {
    let mut world = World::new().await;
    world.configure("setup: ['echo fetched', 'echo oops >&2; [ -e {mended} ]']\n");
    let mended = world.temp.path().join("mended");
    let yaml = world.root().join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&yaml).unwrap().replace("{mended}", mended.to_str().unwrap());
    std::fs::write(&yaml, text).unwrap();
    let task = world.task("t", &format!("echo agent speaks; {DONE}")).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::SetupFailed { .. }));
    let command = format!("echo oops >&2; [ -e {} ]", mended.display());
    let prepared = format!("setup: echo fetched\nfetched\nsetup: {command}\noops\n");
    let found = SessionLog::list(world.project.logs_dir()).unwrap();
    assert_eq!((found.len(), found[0].task, &found[0].session), (1, Some(task), &None));
    assert_eq!(found[0].text(1 << 20).unwrap().0, format!("{prepared}exit code 1\n"));
    std::fs::write(&mended, "").unwrap();
    world.project.run(RunRequest::task(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let found = SessionLog::list(world.project.logs_dir()).unwrap();
    assert_eq!((found.len(), found[0].number), (2, 2));
    let text = found[0].text(1 << 20).unwrap().0;
    assert!(text.starts_with(&prepared) && text.contains("agent speaks"), "{text}");
}

async fn a_failed_setup_starts_no_agent() {
    let mut world = World::new().await;
    world.configure("setup: ['true', 'echo no network; exit 3', 'touch later']\n");
    let task = world.task("t", DONE).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    let ending = world.ended(task).await;
    assert_eq!(ending.to_string(), "setup failed: echo no network; exit 3: exit code 3\nno network");
    let read = world.read(task).await;
    assert_eq!(read.agent_sessions, 0);
    assert!(read.failure_reason.unwrap().starts_with("setup failed: "));
    // Mended, it runs from its beginning.
    let yaml = world.root().join(".watchfire/project.yaml");
    let text = std::fs::read_to_string(&yaml).unwrap().replace("exit 3", "exit 0");
    std::fs::write(&yaml, text).unwrap();
    world.project.run(RunRequest::task(task)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
}

async fn a_setup_can_be_stopped() {
    let mut world = World::new().await;
    let started = world.temp.path().join("started");
    world.configure(&format!("setup: ['touch {}; sleep 600']\n", started.display()));
    let task = world.task("t", DONE).await;
    let run = world.project.run(RunRequest::task(task)).await.unwrap();
    let life = world.life(|life| life.state == LifeState::Starting).await;
    within(async {
        while !started.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    within(world.project.stop(life.id)).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert!(matches!(summary.endings[&task], Ending::Stopped { .. }), "{summary:?}");
    assert_eq!(world.read(task).await.agent_sessions, 0);
}

/// It would fail without them, and the person would look for the reason in the wrong place.
async fn a_setup_waits_for_secrets() {
    let world = World::that_passes("API_KEY").await;
    world.configure("setup: ['[ -e begun ] || { touch begun; sleep 600; }; printenv API_KEY > key']\n");
    let task = world.task("t", DONE).await;
    let keys = || std::env::vars_os().chain([("API_KEY".into(), "secret".into())]);
    world.project.run(RunRequest::task(task).with_environment(keys())).await.unwrap();
    appears(&world.root().join(".watchfire/worktrees/0001/begun")).await;
    within(world.orchestrator.shutdown()).await;

    let mut world = World::in_folder(world.temp).await;
    world.project.resume(ResumeTarget::All).await.unwrap();
    let life = world.life(|life| matches!(life.state, LifeState::Limited { .. })).await;
    world.project.equip(life.id, keys()).await.unwrap();
    world.project.resume(ResumeTarget::Life(life.id)).await.unwrap();
    assert!(matches!(world.ended(task).await, Ending::Merged { .. }));
    let key = std::fs::read_to_string(world.root().join(".watchfire/worktrees/0001/key")).unwrap();
    assert_eq!(key, "secret\n");
}
