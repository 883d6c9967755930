//! Cleaning up by itself.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use watchfire_core::clock::{Clock, SystemClock};
use watchfire_core::model::Timestamp;
use watchfire_core::orchestrator::{Orchestrator, RunRequest};
use watchfire_core::store::NewTask;
use watchfire_core::workspace::Workspace;

use super::support::{DONE, Outcome, Shell, fake, make_project, within};
use super::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("branches_of_what_is_over_go_once_a_day", branches_of_what_is_over_go_once_a_day)]
}

/// The machine's clock, some seconds ahead.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<AtomicU64>);

impl Ahead {
    fn shift(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Acquire))
    }

    fn pass(&self, hours: u64) {
        self.0.fetch_add(hours * 3600, Ordering::AcqRel);
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let shift = i64::try_from(self.shift().as_millis()).unwrap();
        Timestamp::from_unix_millis(SystemClock.now().unix_millis() + shift)
    }

    fn boot_time(&self) -> Duration {
        SystemClock.boot_time() + self.shift()
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            while clock.boot_time() < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }
}

async fn start(temp: &Path, fake: &Arc<super::support::Fake>, clock: &Ahead, settings: &str) -> Orchestrator {
    let settings = format!("version: 1\ndefaults:\n  default_sandbox: none\n{settings}");
    std::fs::create_dir_all(temp.join("home")).unwrap();
    std::fs::write(temp.join("home/settings.yaml"), settings).unwrap();
    let workspace = Arc::clone(fake);
    Orchestrator::builder()
        .home(temp.join("home"))
        .linked_backends(false)
        .backend(Shell)
        .default_backend("shell")
        .automation(false)
        .clock(clock.clone())
        .workspaces(move |_| Ok(Arc::clone(&workspace) as Arc<dyn Workspace>))
        .start()
        .await
        .unwrap()
}

async fn branches_of_what_is_over_go_once_a_day() {
    let (temp, clock) = (tempfile::tempdir().unwrap(), Ahead::default());
    let root = make_project(temp.path()).await;
    let fake = fake(temp.path());
    let seen = |what: &str| match what {
        "prune" => fake.prunes.load(Ordering::Acquire),
        call => fake.calls().iter().filter(|other| *other == call).count(),
    };
    let until = async |what: &str, count| {
        within(async {
            while seen(what) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    let orchestrator = start(temp.path(), &fake, &clock, "").await;
    let project = orchestrator.open(&root).await.unwrap();
    until("prune", 1).await;

    // Of a merged one, an unmerged one, and one that is not over though nothing of it is unmerged.
    let mut tasks = Vec::new();
    for title in ["over", "unmerged"] {
        let task = NewTask::new(title).with_prompt(DONE).with_ready(true);
        tasks.push(project.store().create(task, None).await.unwrap().value.task_number);
    }
    within(project.run(RunRequest::all().with_merge(false)).await.unwrap().wait()).await.unwrap();
    let waiting = project.store().create(NewTask::new("waits"), None).await.unwrap().value.task_number;
    std::fs::create_dir_all(root.join(format!(".watchfire/worktrees/{waiting}"))).unwrap();
    for task in [tasks[0], waiting] {
        fake.outcomes.lock().unwrap().insert(task, Outcome::Merged);
    }
    clock.pass(2);
    orchestrator.shutdown().await;

    // Neither the next start nor the next hours are too early.
    let orchestrator = start(temp.path(), &fake, &clock, "").await;
    let project = orchestrator.open(&root).await.unwrap();
    clock.pass(20);
    project.prune().await.unwrap();
    assert_eq!((seen("prune"), seen("remove 0001")), (2, 1), "only what was asked for: {:?}", fake.calls());
    clock.pass(3);
    until("prune", 3).await;
    until("remove 0001", 2).await;
    assert_eq!((seen("remove 0002"), seen("remove 0003")), (0, 0), "{:?}", fake.calls());
    orchestrator.shutdown().await;

    let orchestrator = start(temp.path(), &fake, &clock, "  prune_every: never\n").await;
    clock.pass(100);
    let project = orchestrator.open(&root).await.unwrap();
    project.prune().await.unwrap();
    orchestrator.shutdown().await;
    assert_eq!(seen("prune"), 4, "{:?}", fake.calls());
}
