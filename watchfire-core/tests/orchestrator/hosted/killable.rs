//! A program that runs agents which outlive it, for tests to kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use watchfire_core::model::TaskNumber;
use watchfire_core::schedule::{Life, LifeState};

use crate::support::{World, appears, child, until, within};

/// An orchestrator in a process of its own, which a test can kill.
pub(crate) struct Killable {
    child: Child,
    temp: tempfile::TempDir,
}

impl Killable {
    /// Starts one over a project with this task, and returns once the task's agent has made the file `up`, and the journal
    /// says so: before that, a start cannot take it over.
    pub(crate) async fn working(script: &str) -> (Self, TaskNumber) {
        Self::working_with("", script).await
    }

    /// The same, with lines of `project.yaml`.
    pub(crate) async fn working_with(settings: &str, script: &str) -> (Self, TaskNumber) {
        let world = World::new().await;
        world.configure(settings);
        let task = world.task("t", script).await;
        let World { temp, orchestrator, project, .. } = world;
        orchestrator.shutdown().await;
        drop((project, orchestrator));
        std::fs::write(temp.path().join("hosted"), "").unwrap();
        let killable = Self::start(temp);
        killable.works().await;
        (killable, task)
    }

    /// Waits until the agent works and the journal says so.
    pub(crate) async fn works(&self) {
        appears(&self.at("up")).await;
        until(|| is_said(&self.at("home/state"), b"\"running\"")).await;
    }

    pub(crate) fn start(temp: tempfile::TempDir) -> Self {
        let child = child("test-orchestrate").arg(temp.path()).stdout(Stdio::null()).spawn().unwrap();
        Self { child, temp }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub(crate) fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.temp
    }
}

/// Returns true if a file in the folder, or below, has these bytes.
pub(crate) fn is_said(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| match entry.path() {
        path if path.is_dir() => is_said(&path, bytes),
        path => std::fs::read(path).is_ok_and(|text| text.windows(bytes.len()).any(|part| part == bytes)),
    })
}

/// The one life that has not ended.
pub(crate) async fn life(world: &World) -> Life {
    let lives = world.project.subscribe(None).await.unwrap().snapshot.lives;
    lives.into_iter().next().expect("a life")
}

/// The same, once its state is this.
pub(crate) async fn once(world: &World, wanted: impl Fn(&LifeState) -> bool) -> Life {
    within(async {
        loop {
            let life = life(world).await;
            if wanted(&life.state) {
                return life;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Words of a script that go to the folder of the world, where the test finds its files.
pub(crate) fn script(body: &str) -> String {
    format!(
        "cd ../../../..; echo $$ > pid.tmp; mv pid.tmp pid; echo x >> starts; touch up; \
         until_there() {{ until [ -e \"$1\" ]; do sleep 0.01; done; }}; {body}"
    )
}

pub(crate) fn starts(temp: &Path) -> usize {
    std::fs::read_to_string(temp.join("starts")).unwrap().lines().count()
}
