//! Sessions are found by what they are called, and can be watched while they run and after that.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream as _;
use libtest_mimic::Trial;
use std::time::Duration;
use watchfire_core::ErrorKind;

use watchfire_core::observe::{
    Body, Candidate, Cursor, DeliveryState, EventView, FollowItem, FollowOptions, Include, RuntimeState,
    Target, WatchRequest,
};
use watchfire_core::orchestrator::{FollowSessions, Followed, RunRequest};
use watchfire_core::store::TaskPatch;

use super::support::{DONE, World, appears, is_kind, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("sessions_are_found_by_what_they_are_called", found),
        trial("one_stream_follows_what_runs_and_what_begins", followed),
        trial("a_stream_that_was_away_misses_nothing", was_away),
        trial("a_session_without_a_place_is_told_and_joined_once_there_is_one", refused),
        trial("a_stream_of_no_session_has_heartbeats", heartbeat),
        trial("a_cursor_of_before_goes_on_in_what_is_read_back", read_back),
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
    let known = world.project.candidates(true).await.unwrap();
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

async fn any(stream: &mut FollowSessions) -> Option<Followed> {
    within(std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context))).await
}

/// The next news about a session.
async fn next(stream: &mut FollowSessions) -> Option<(Arc<Candidate>, FollowItem)> {
    any(stream).await.map(|it| match it {
        Followed::Session { session, item, .. } => (session, item),
        other => panic!("{other:?}"),
    })
}

/// The tasks whose sessions printed a line, until the stream ends or so many have.
async fn printed(stream: &mut FollowSessions, tasks: usize) -> BTreeMap<u32, String> {
    let mut lines: BTreeMap<u32, String> = BTreeMap::new();
    while lines.values().filter(|text| text.contains('\n')).count() < tasks {
        let Some((session, item)) = next(stream).await else { break };
        let record = match item {
            FollowItem::Record(record) => record,
            FollowItem::Heartbeat { .. } => continue,
            item => panic!("{item:?}"),
        };
        if let Body::Output { text, .. } = &record.body {
            lines.entry(session.task.unwrap().value()).or_default().push_str(text);
        }
    }
    lines
}

async fn followed() {
    let mut world = World::new().await;
    waiting(&mut world).await;
    let first = world.session().await;
    let all = world.project.follow(vec![Target::All], FollowOptions::default(), &[]).await;
    let mut all = all.unwrap();
    let one = "1".parse().unwrap();
    let mut one = world.project.follow(vec![one], FollowOptions::default(), &[]).await.unwrap();
    let none = world.project.follow(vec!["7".parse().unwrap()], FollowOptions::default(), &[]).await;
    is_kind(none, ErrorKind::NotFound);
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    world.ended(first.info().task.unwrap()).await;
    let second = world.task("second", &format!("echo second; {DONE}")).await;
    world.project.run(RunRequest::task(second)).await.unwrap();
    // The reader was away for the whole of it.
    world.ended(second).await;
    let lines = printed(&mut all, 2).await;
    assert_eq!(lines[&1].trim(), "said so");
    assert_eq!(lines[&2].trim(), "second", "the second is joined from its beginning");
    // The stream of one session ends with it.
    assert_eq!(printed(&mut one, 2).await.len(), 1);
    assert!(next(&mut one).await.is_none());
    // One that has ended is followed from its beginning, and another time from a cursor of it.
    let ended = world.project.follow(vec!["1".parse().unwrap()], FollowOptions::default(), &[]).await;
    assert_eq!(printed(&mut ended.unwrap(), 2).await[&1].trim(), "said so");
    let latest = first.log().latest();
    let ended = world.project.follow(vec!["1".parse().unwrap()], FollowOptions::default(), &[latest]).await;
    assert!(next(&mut ended.unwrap()).await.is_none());
    world.orchestrator.shutdown().await;
    while next(&mut all).await.is_some() {}
}

/// Runs a task to its end.
async fn over(world: &mut World, says: &str) {
    let task = world.task(says, &format!("echo {says}; {DONE}")).await;
    world.project.run(RunRequest::task(task)).await.unwrap();
    world.ended(task).await;
}

async fn was_away() {
    let mut world = World::new().await;
    waiting(&mut world).await;
    let first = world.session().await;
    let all = || vec![Target::All];
    // The reader knows how far it is in a session that is silent.
    let mut stream = world.project.follow(all(), FollowOptions::default(), &[]).await.unwrap();
    let (session, item) = next(&mut stream).await.unwrap();
    let seen = item.view(&first.info().started_at).cursor;
    assert_eq!(session.session, first.info().id);
    drop(stream);

    std::fs::write(world.temp.path().join("go"), "").unwrap();
    within(first.ended()).await;
    over(&mut world, "second").await;
    over(&mut world, "third").await;
    let mut stream = world.project.follow(all(), FollowOptions::default(), &[seen]).await.unwrap();
    let lines = printed(&mut stream, 3).await;
    let lines: Vec<_> = lines.iter().map(|(task, text)| (*task, text.trim())).collect();
    assert_eq!(lines, [(1, "said so"), (2, "second"), (3, "third")]);

    // A reader that knows another project only says when its newest session began.
    let options = FollowOptions::default().with_begun_since(first.info().started_at.clone());
    let other: Cursor = format!("other:{:016x}:{:016x}", 7, 1).parse().unwrap();
    let mut stream = world.project.follow(all(), options, &[other]).await.unwrap();
    assert_eq!(printed(&mut stream, 3).await.into_keys().collect::<Vec<_>>(), [1, 2, 3]);

    // A cursor of which nothing is known costs one session its certainty, and no other anything.
    let bad: Cursor = format!("{}:{:016x}:{:016x}", first.info().id, 7, 1).parse().unwrap();
    let since = [bad.clone()];
    let mut stream = world.project.follow(all(), FollowOptions::default(), &since).await.unwrap();
    let (session, item) = next(&mut stream).await.unwrap();
    let FollowItem::Gap { from, to, .. } = item else { panic!("{item:?}") };
    assert_eq!((session.session.clone(), from, to), (first.info().id.clone(), bad, first.log().beginning()));
    let lines = printed(&mut stream, 3).await;
    assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    world.orchestrator.shutdown().await;
}

async fn refused() {
    let mut world = World::built(tempfile::tempdir().unwrap(), |builder| builder.watchers(1, 8)).await;
    let mut stream = world.project.follow(vec![Target::All], FollowOptions::default(), &[]).await.unwrap();
    waiting(&mut world).await;
    let session = world.session().await;
    let other = session.log().follow(FollowOptions::default()).unwrap();
    let Some(Followed::Refused { session: told, from, error, .. }) = any(&mut stream).await else {
        panic!("not told")
    };
    assert_eq!((&told.session, error.code()), (&session.info().id, "too_many_watchers"));
    assert_eq!(from, session.log().beginning());
    // The same for a stream that begins now, and for one that is about this session alone.
    let mut late = world.project.follow(vec![Target::All], FollowOptions::default(), &[]).await.unwrap();
    let told = any(&mut late).await;
    assert!(matches!(told, Some(Followed::Refused { .. })), "{told:?}");
    drop(late);
    let one = world.project.follow(vec!["1".parse().unwrap()], FollowOptions::default(), &[]).await;
    is_kind(one, ErrorKind::TooManyWatchers);
    drop(other);
    let (joined, item) = next(&mut stream).await.unwrap();
    let FollowItem::Record(record) = item else { panic!("{item:?}") };
    assert_eq!(joined.session, session.info().id);
    assert!(record.cursor.to_string().ends_with(":0000000000000001"), "{record:?}");
    world.orchestrator.shutdown().await;
}

async fn heartbeat() {
    let world = World::new().await;
    let options = FollowOptions::default().with_heartbeat(Duration::from_millis(20));
    let mut stream = world.project.follow(vec![Target::All], options, &[]).await.unwrap();
    for _ in 0..3 {
        let item = any(&mut stream).await;
        assert!(matches!(item, Some(Followed::Heartbeat)), "{item:?}");
    }
    world.orchestrator.shutdown().await;
    while let Some(item) = any(&mut stream).await {
        assert!(matches!(item, Followed::Heartbeat), "{item:?}");
    }
}

async fn read_back() {
    let mut world = World::new().await;
    waiting(&mut world).await;
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    let session = world.session().await;
    within(session.ended()).await;
    let request = WatchRequest::default().with_include([Include::Output, Include::Events]);
    let live = session.log().snapshot(&request).unwrap();
    world.orchestrator.shutdown().await;

    // What holds the session is gone with its orchestrator.
    let world = World::in_folder(world.temp).await;
    assert!(world.project.session(&session.info().id).is_none());
    let log = world.project.log_of(&session.info().id).await.unwrap();
    let read = log.snapshot(&request).unwrap();
    assert_eq!(read.output.unwrap().text, live.output.unwrap().text);
    assert_eq!((&read.agent.name, &read.agent.uuid), (&live.agent.name, &live.agent.uuid));
    assert!(read.events.iter().all(|event| event.replayed) && !read.events.is_empty());
    let of_before = |events: &[EventView]| -> Vec<_> {
        events
            .iter()
            .map(|it| (it.cursor.clone(), it.time.clone(), it.kind.clone(), it.fields.clone()))
            .collect()
    };
    assert_eq!(of_before(&read.events), of_before(&live.events));
    // A cursor of the session's own time goes on in what is read back.
    let at = &live.events[1].cursor;
    let rest = log.snapshot(&request.clone().with_since(at)).unwrap();
    assert_eq!(of_before(&rest.events), of_before(&live.events[2..]));
    let mut stream = world
        .project
        .follow(vec![Target::All], FollowOptions::default(), std::slice::from_ref(at))
        .await
        .unwrap();
    let mut followed = Vec::new();
    while !followed.last().is_some_and(|it| *it == live.events.last().unwrap().cursor) {
        let (_, FollowItem::Record(record)) = next(&mut stream).await.unwrap() else { panic!("no record") };
        assert!(record.replayed);
        followed.push(record.cursor.clone());
    }
    assert!(live.events[2..].iter().all(|event| followed.contains(&event.cursor)), "{followed:?}");
    let rest = log.snapshot(&request.with_since(live.cursor)).unwrap();
    assert_eq!(rest.events, []);
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
    let known = world.project.candidates(true).await.unwrap();
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
    let detail = within(session.deliver("hello", Duration::from_secs(20))).await;
    let told = serde_json::to_value(&detail).unwrap();
    assert_eq!(told["name"], session.info().alias.to_string());
    assert_eq!((&told["delivery_state"], &told["error"]), (&"submitted".into(), &serde_json::Value::Null));
    assert_eq!(session.runtime_state(), RuntimeState::LivePtyAvailable);
    // What was printed before the text does not count, what comes after it does.
    let request = WatchRequest::default().with_until("output:got").with_timeout(Duration::from_secs(20));
    let (detail, answer) = within(session.send_and_watch("again", request)).await;
    assert_eq!(detail.delivery_state, DeliveryState::Submitted);
    assert!(answer.unwrap().output.unwrap().text.contains("got again"));
    let request = WatchRequest::default().with_until("output:never").with_timeout(Duration::from_millis(100));
    let (_, answer) = within(session.send_and_watch("more", request)).await;
    is_kind(answer, ErrorKind::WatchTimeout);
    // Somebody else's words are in the box: the text stays in line until they are gone.
    session.write("half-typed").await.unwrap();
    within(async {
        while !session.snapshot().text().ends_with("half-typed") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let detail = within(session.deliver("later", Duration::from_millis(200))).await;
    assert_eq!((detail.delivery_state, detail.error), (DeliveryState::Pending, None));
    session.write("\x15").await.unwrap();
    let wanted = WatchRequest::default().with_until("output:got later").with_since(session.log().beginning());
    within(session.log().watch(&wanted)).await.unwrap();
    session.stop();
    within(session.ended()).await;
    let detail = session.deliver("too late", Duration::from_secs(20)).await;
    let told = serde_json::to_value(&detail).unwrap();
    assert_eq!(
        (&told["runtime_state"], &told["delivery_state"], &told["error"]["code"]),
        (&"target_off".into(), &"failed".into(), &"target_off".into())
    );
    world.orchestrator.shutdown().await;
}
