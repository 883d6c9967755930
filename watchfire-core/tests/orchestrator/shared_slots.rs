//! `max_parallel` of the settings: the slots that all projects share.

use libtest_mimic::Trial;
use watchfire_core::orchestrator::RunRequest;
use watchfire_core::schedule::{LifeState, Wait};
use watchfire_core::store::{NewProject, NewTask, ProjectPatch, TaskQuery};

use crate::support::{DONE, World, within};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("projects_share_their_slots_in_turn", projects_share_their_slots_in_turn)]
}

async fn projects_share_their_slots_in_turn() {
    let temp = tempfile::tempdir().unwrap();
    let settings = temp.path().join("home/settings.yaml");
    let mut world = World::built(temp, |builder| {
        std::fs::write(settings, "version: 1\nmax_parallel: 1\ndefaults: {default_sandbox: none}\n").unwrap();
        builder
    })
    .await;
    let root = world.temp.path().join("other");
    std::fs::create_dir(&root).unwrap();
    world.orchestrator.home().init_project(&root, NewProject::new()).await.unwrap();
    let other = within(world.orchestrator.open(&root)).await.unwrap();
    let temp = world.temp.path().display().to_string();
    let script = |name: &str| {
        format!(
            "until [ -e '{temp}/go' ]; do sleep 0.02; done; echo {name} >> '{temp}/order'; \
             mkdir '{temp}/busy' || touch '{temp}/both'; sleep 0.1; rmdir '{temp}/busy'; {DONE}"
        )
    };
    for (project, name) in [(&world.project, "a"), (&other, "b")] {
        let patch = ProjectPatch::new().with_max_parallel(Some(2));
        project.store().update_project(patch, None, None).await.unwrap();
        for n in 1..=3 {
            let task = NewTask::new(format!("{name}{n}")).with_prompt(script(name)).with_ready(true);
            project.store().create(task, None).await.unwrap();
        }
    }
    let first = world.project.run(RunRequest::all()).await.unwrap();
    world.life(|life| life.state == LifeState::Running).await;
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
