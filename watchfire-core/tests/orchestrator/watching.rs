//! Sessions are found by what they are called, and can be watched while they run and after that.

use libtest_mimic::Trial;
use watchfire_core::ErrorKind;
use watchfire_core::observe::{FollowOptions, Include, RuntimeState, Target, WatchRequest};
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::store::TaskPatch;

use super::support::{DONE, World, appears, is_kind, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("sessions_are_found_by_what_they_are_called", found),
        trial("a_session_of_before_is_read_from_its_files", read_back),
        trial("an_alias_stays_over_the_attempts_of_a_task", same_alias),
        trial("watchers_are_limited_by_session_and_by_orchestrator", limited),
        trial("a_text_has_a_runtime_state_and_a_delivery_state", delivered),
    ]
}

/// Waits for the file `go` in the folder of the test.
fn wait(world: &World) -> String {
    format!("while [ ! -e '{}' ]; do sleep 0.01; done", world.temp.path().join("go").display())
}

/// Runs a task whose agent waits.
async fn waiting(world: &mut World) {
    let script = format!("{}\necho said so\n{DONE}", wait(world));
    let task = world.task("waits", &script).await;
    let labelled = TaskPatch::new().with_labels(vec!["ui".to_owned()]);
    world.project.store().update(task, labelled, None, None).await.unwrap();
    world.project.run(RunRequest::task(task)).await.unwrap();
    world.running().await;
}

async fn resolve(world: &World, text: &str) -> watchfire_core::Result<Vec<(String, bool)>> {
    let known = world.project.candidates().await.unwrap();
    let meant = text.parse::<Target>()?.resolve(&known, Some(world.project.id()))?;
    Ok(meant.iter().map(|it| (it.session.to_string(), it.is_running)).collect())
}

async fn found() {
    let mut world = World::new().await;
    waiting(&mut world).await;
    let session = world.session().await;
    let (id, alias) = (session.info().id.to_string(), session.info().alias.to_string());
    let names = [
        "1",
        "#1",
        &alias,
        &id,
        "backend:shell",
        "mode:task",
        "label:ui",
        "all",
        &format!("project:{}", world.project.id()),
        &format!("{}:1", world.project.id()),
    ];
    for name in names {
        assert_eq!(resolve(&world, name).await.unwrap(), [(id.clone(), true)], "{name}");
    }
    is_kind(resolve(&world, "2").await, ErrorKind::NotFound);
    is_kind(resolve(&world, "label:other").await, ErrorKind::NotFound);

    std::fs::write(world.temp.path().join("go"), "").unwrap();
    within(session.ended()).await;
    for name in ["1", &alias, &id] {
        assert_eq!(resolve(&world, name).await.unwrap(), [(id.clone(), false)], "{name}");
    }
    is_kind(resolve(&world, "all").await, ErrorKind::NotFound);
    world.orchestrator.shutdown().await;
}

async fn read_back() {
    let mut world = World::new().await;
    waiting(&mut world).await;
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let session = world.session().await;
    within(session.ended()).await;
    let live = session.log().snapshot(&WatchRequest::default()).unwrap();
    world.orchestrator.shutdown().await;

    // What holds the session is gone with its orchestrator.
    let world = World::in_folder(world.temp).await;
    assert!(world.project.session(&session.info().id).is_none());
    let log = world.project.log_of(&session.info().id).await.unwrap();
    let request = WatchRequest::default().with_include([Include::Output, Include::Events]);
    let read = log.snapshot(&request).unwrap();
    assert_eq!(read.output.unwrap().text, live.output.unwrap().text);
    assert_eq!((read.agent.name, read.agent.uuid), (live.agent.name, live.agent.uuid));
    let last = read.events.last().unwrap();
    assert_eq!((last.kind.as_str(), &last.fields["status"]), ("status", &serde_json::json!("off")));
    assert_eq!(read.events[0].fields["name"], "replayed");
    // A cursor of the session's own time is not taken for one of these.
    is_kind(log.snapshot(&request.with_since(live.cursor)), ErrorKind::InvalidCursor);
    is_kind(
        within(log.watch(&WatchRequest::default().with_until("status:idle"))).await,
        ErrorKind::TargetOff,
    );
    world.orchestrator.shutdown().await;
}

async fn same_alias() {
    let mut world = World::new().await;
    let folder = world.temp.path().to_owned();
    // Crashes once, then waits.
    let script = format!(
        "if [ ! -e '{0}' ]; then touch '{0}'; exit 7; fi\ntouch '{1}'\n{2}\n{DONE}",
        folder.join("crashed").display(),
        folder.join("again").display(),
        wait(&world)
    );
    let task = world.task("t", &script).await;
    world.project.store().update(task, TaskPatch::new().with_retries(Some(1)), None, None).await.unwrap();
    world.project.run(RunRequest::task(task)).await.unwrap();
    let first = world.running().await;
    appears(&folder.join("again")).await;
    let second = world.session().await;
    let first = first.session.unwrap();
    assert_ne!(first.id, second.info().id);
    assert_eq!(first.alias, second.info().alias);
    // The name means the one that runs, and the log of the first has it too.
    let known = world.project.candidates().await.unwrap();
    assert!(known.iter().filter(|it| it.alias.as_ref() == Some(&first.alias)).count() == 2, "{known:?}");
    assert_eq!(resolve(&world, first.alias.as_str()).await.unwrap(), [(second.info().id.to_string(), true)]);
    world.orchestrator.shutdown().await;
}

async fn limited() {
    let mut world = World::built(tempfile::tempdir().unwrap(), |builder| builder.watchers(2, 3)).await;
    world.configure("max_parallel: 2\n");
    let script = wait(&world);
    for title in ["a", "b"] {
        world.task(title, &script).await;
    }
    world.project.run(RunRequest::all()).await.unwrap();
    world.running().await;
    world.running().await;
    let sessions = world.project.sessions();
    let follow = |which: usize| sessions[which].log().follow(FollowOptions::default());
    let first = follow(0).unwrap();
    let _second = follow(0).unwrap();
    let refused = follow(0).unwrap_err();
    assert_eq!((refused.code(), refused.detail("scope")), ("too_many_watchers", Some("session")));
    let _third = follow(1).unwrap();
    let refused = follow(1).unwrap_err();
    assert_eq!((refused.code(), refused.detail("scope")), ("too_many_watchers", Some("all sessions")));
    drop(first);
    follow(1).unwrap();
    world.orchestrator.shutdown().await;
}

async fn delivered() {
    let mut world = World::new().await;
    let script = "stty -echoctl; while printf 'box> '; read -r line; do echo \"got $line\"; done";
    let task = world.task("t", script).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    world.running().await;
    let session = world.session().await;
    let (detail, sent) = within(session.deliver("hello")).await;
    sent.unwrap();
    let told = serde_json::to_value(&detail).unwrap();
    assert_eq!(told["name"], session.info().alias.to_string());
    assert_eq!((&told["delivery_state"], &told["error"]), (&"submitted".into(), &serde_json::Value::Null));
    assert_eq!(session.runtime_state(), RuntimeState::LivePtyAvailable);
    session.stop();
    within(session.ended()).await;
    let (detail, _) = session.deliver("too late").await;
    let told = serde_json::to_value(&detail).unwrap();
    assert_eq!(
        (&told["runtime_state"], &told["delivery_state"], &told["error"]["code"]),
        (&"target_off".into(), &"failed".into(), &"target_off".into())
    );
    world.orchestrator.shutdown().await;
}
