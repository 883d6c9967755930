//! Stops that come at inconvenient moments.

use std::time::Duration;

use libtest_mimic::Trial;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{Ending, Life, LifeState, StopReason};
use watchfire_core::store::TaskQuery;

use super::support::{DONE, Outcome, World, until, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_stop_drops_no_publication_of_another_life", a_stop_drops_no_publication),
        trial("closing_completes_a_publication_under_way", closing_completes_a_publication),
        trial("a_project_that_is_closed_leaves_nothing_running", a_closed_project_leaves_nothing),
    ]
}

/// Its loops sleep for up to a day, so they have to be ended.
async fn a_closed_project_leaves_nothing() {
    let World { orchestrator, project, events, temp, .. } = World::new().await;
    let running = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (root, mut project) = (project.root().to_owned(), project);
    drop(events);
    let open = running();
    for _ in 0..3 {
        within(project.close()).await;
        project = within(orchestrator.open(&root)).await.unwrap();
    }
    // What closing leaves to the background may take a moment.
    until(|| running() <= open).await;
    drop(temp);
}

/// Brings two lives onto one ticket, and the first of them to its publication, which waits for a file. The second
/// conflicts with the first, so it has no result yet.
async fn publishing_one_of_two(world: &mut World) -> (Life, Life) {
    let go = world.temp.path().join("go");
    let verify = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    world.configure(&format!("merge: {{batch: 4}}\nverify:\n  - \"{verify}\"\n"));
    let mut tasks = Vec::new();
    for title in ["first", "slow", "conflicting"] {
        tasks.push(world.task(title, DONE).await);
    }
    let outcomes = [(tasks[1], Outcome::Slow), (tasks[2], Outcome::Conflict)];
    world.fake.outcomes.lock().unwrap().extend(outcomes);
    within(world.project.run(RunRequest::all().with_merge(false)).await.unwrap().wait()).await.unwrap();
    // The first is verified while the others come, so these share the next ticket.
    for task in &tasks {
        let project = world.project.clone();
        let task = *task;
        tokio::spawn(async move { project.merge(task).await });
        within(async {
            while !matches!(state(world, task).await, Some(LifeState::Queued | LifeState::Verifying { .. })) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    std::fs::write(go, "").unwrap();
    let is_publishing = |task: TaskNumber| {
        move |life: &Life| {
            life.subject.task() == Some(task) && matches!(life.state, LifeState::Publishing { .. })
        }
    };
    let slow = world.life(is_publishing(tasks[1])).await;
    (slow, life(world, tasks[2]).await.unwrap())
}

async fn life(world: &World, task: TaskNumber) -> Option<Life> {
    let infos = world.project.tasks(&TaskQuery::new()).await.unwrap();
    infos.into_iter().find(|info| info.task.task_number == task)?.life
}

async fn state(world: &World, task: TaskNumber) -> Option<LifeState> {
    life(world, task).await.map(|life| life.state)
}

fn publications(world: &World) -> usize {
    world.fake.calls().iter().filter(|call| *call == "publish 0002").count()
}

async fn a_stop_drops_no_publication() {
    let mut world = World::new().await;
    let (slow, other) = publishing_one_of_two(&mut world).await;
    assert!(!other.has_ended(), "{other:?}");
    within(world.project.stop(other.id)).await.unwrap();
    std::fs::write(world.root().join("go on"), "").unwrap();
    let by = StopReason::Requested;
    let (slow, other) = (slow.subject.task().unwrap(), other.subject.task().unwrap());
    assert!(matches!(world.ended(slow).await, Ending::Merged { .. }));
    assert_eq!(world.ended(other).await, Ending::stopped(by));
    assert_eq!(publications(&world), 1);
}

async fn closing_completes_a_publication() {
    let mut world = World::new().await;
    let (slow, _) = publishing_one_of_two(&mut world).await;
    let orchestrator = world.orchestrator.clone();
    let closing = tokio::spawn(async move { orchestrator.shutdown().await });
    std::fs::write(world.root().join("go on"), "").unwrap();
    within(closing).await.unwrap();
    assert!(matches!(world.ended(slow.subject.task().unwrap()).await, Ending::Merged { .. }));
}
