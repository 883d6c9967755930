//! `max_parallel` of the settings: the slots that all projects share.

use std::time::Duration;

use libtest_mimic::Trial;
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::orchestrator::{ProjectHandle, RunRequest};
use watchfire_core::schedule::{LifeState, ResumeTarget, Wait};
use watchfire_core::store::{NewProject, NewTask, ProjectPatch, TaskQuery};

use crate::support::{DONE, World, within};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("projects_share_their_slots_in_turn", projects_share_their_slots_in_turn),
        trial("a_backend_that_is_back_gives_no_slot_twice", a_backend_that_is_back_gives_no_slot_twice),
    ]
}

/// Two projects with two slots each, and one for both.
async fn two_projects(automation: bool) -> (World, ProjectHandle) {
    let temp = tempfile::tempdir().unwrap();
    if automation {
        std::fs::write(temp.path().join("automation"), "").unwrap();
    }
    let settings = temp.path().join("home/settings.yaml");
    let world = World::built(temp, |builder| {
        std::fs::write(settings, "version: 1\nmax_parallel: 1\ndefaults: {default_sandbox: none}\n").unwrap();
        builder
    })
    .await;
    let root = world.temp.path().join("other");
    std::fs::create_dir(&root).unwrap();
    world.orchestrator.home().init_project(&root, NewProject::new()).await.unwrap();
    let other = within(world.orchestrator.open(&root)).await.unwrap();
    for project in [&world.project, &other] {
        let patch = ProjectPatch::new().with_max_parallel(Some(2));
        project.store().update_project(patch, None, None).await.unwrap();
    }
    (world, other)
}

/// A script that finds out whether another one is at work.
fn alone(temp: &str) -> String {
    format!("mkdir '{temp}/busy' || touch '{temp}/both'; sleep 0.3; rmdir '{temp}/busy'; {DONE}")
}

/// The end of a block reaches all projects at once.
async fn a_backend_that_is_back_gives_no_slot_twice() {
    let (mut world, other) = two_projects(true).await;
    let script = alone(&world.temp.path().display().to_string());
    world.task("limited", "stty -echo; echo limited; read -r line; exit 1").await;
    let limited = world.life(|life| matches!(life.state, LifeState::Limited { .. })).await;
    within(world.project.stop(limited.id)).await.unwrap();
    let here = world.task("here", &script).await;
    let task = NewTask::new("there").with_prompt(script).with_ready(true);
    let there = other.store().create(task, None).await.unwrap().value.task_number;
    let blocked = |project: ProjectHandle, task: TaskNumber| async move {
        let infos = project.tasks(&TaskQuery::new()).await.unwrap();
        infos
            .iter()
            .any(|info| info.task.task_number == task && matches!(info.wait, Some(Wait::Backend { .. })))
    };
    within(async {
        while !(blocked(world.project.clone(), here).await && blocked(other.clone(), there).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    within(world.project.resume(ResumeTarget::Backend("shell".parse().unwrap()))).await.unwrap();
    for (project, task) in [(&world.project, here), (&other, there)] {
        within(async {
            while project.store().get(task).await.unwrap().value.status != TaskStatus::Done {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
    assert!(!world.temp.path().join("both").exists(), "two at once");
}

async fn projects_share_their_slots_in_turn() {
    let (mut world, other) = two_projects(false).await;
    let temp = world.temp.path().display().to_string();
    let script = |name: &str| {
        format!(
            "until [ -e '{temp}/go' ]; do sleep 0.02; done; echo {name} >> '{temp}/order'; {}",
            alone(&temp)
        )
    };
    for (project, name) in [(&world.project, "a"), (&other, "b")] {
        for n in 1..=3 {
            let task = NewTask::new(format!("{name}{n}")).with_prompt(script(name)).with_ready(true);
            project.store().create(task, None).await.unwrap();
        }
    }
    let first = world.project.run(RunRequest::all()).await.unwrap();
    world.life(|life| life.state == LifeState::Running).await;
    let infos = within(world.project.tasks(&TaskQuery::new())).await.unwrap();
    assert_eq!(infos[1].wait, Some(Wait::Turn), "it has all that there is");
    let second = other.run(RunRequest::all()).await.unwrap();
    // Each project has two slots of its own, and there is one for both.
    let infos = within(other.tasks(&TaskQuery::new())).await.unwrap();
    assert!(infos.iter().all(|info| info.wait == Some(Wait::OtherProjects)), "{infos:?}");
    std::fs::write(world.temp.path().join("go"), "").unwrap();
    for run in [first, second] {
        assert!(within(run.wait()).await.unwrap().is_good());
    }
    assert!(!world.temp.path().join("both").exists(), "two at once");
    let order = std::fs::read_to_string(world.temp.path().join("order")).unwrap().replace('\n', "");
    assert_eq!(order.len(), 6, "{order}");
    assert!(order.find('b') < order.rfind('a'), "the first project kept the slot: {order}");
}
