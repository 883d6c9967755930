//! The store on files under many writers, and with files that are away for a moment.
#![cfg(feature = "yaml")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use watchfire_core::ErrorKind;
use watchfire_core::clock::{Clock, SystemClock};
use watchfire_core::model::{TaskNumber, TaskStatus, Timestamp};
use watchfire_core::store::{
    Change, Changes, Home, NewProject, NewTask, TaskPatch, TaskQuery, TaskStore, TaskStoreExt, YamlOptions,
    YamlStore,
};

const DAY: Duration = Duration::from_secs(86_400);

/// The system's clock, some seconds ahead, which gives no time of day twice.
#[derive(Clone, Debug, Default)]
struct Ahead {
    seconds: Arc<AtomicU64>,
    given: Arc<AtomicU64>,
}

impl Ahead {
    fn by(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::Relaxed))
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        SystemClock.now().plus(self.by() + Duration::from_secs(given))
    }

    fn boot_time(&self) -> Duration {
        SystemClock.boot_time() + self.by()
    }

    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep_until(until.saturating_sub(self.by()))
    }
}

struct Fixture {
    dir: tempfile::TempDir,
    clock: Ahead,
    home: Home,
}

impl Fixture {
    async fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Ahead::default());
        std::fs::create_dir(dir.path().join("p")).unwrap();
        let home = Home::open(dir.path().join("home"), Arc::new(clock.clone())).await.unwrap();
        home.init_project(dir.path().join("p"), NewProject::new()).await.unwrap();
        Self { dir, clock, home }
    }

    /// A store that looks at the files only when it is asked.
    async fn store(&self) -> YamlStore {
        let id = &self.home.projects().await.unwrap()[0].project_id;
        let options = YamlOptions::new(self.home.state_dir(id)).with_watch(false).with_poll(DAY);
        YamlStore::open(self.dir.path().join("p"), Arc::new(self.clock.clone()), options).await.unwrap()
    }

    fn tasks(&self) -> PathBuf {
        self.dir.path().join("p/.watchfire/tasks")
    }
}

fn unread(changes: &mut Changes) -> Vec<Change> {
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = Vec::new();
    while let Poll::Ready(Some(change)) = changes.as_mut().poll_next(&mut context) {
        seen.push(change);
    }
    seen
}

fn set_title(path: &Path, title: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, text.replace("title: \"t\"", &format!("title: \"{title}\""))).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_writers_at_once_all_succeed_in_their_order() {
    let fixture = Fixture::new().await;
    let stores = [Arc::new(fixture.store().await), Arc::new(fixture.store().await)];
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(stores[0].create(NewTask::new("t"), None).await.unwrap().value.task_number);
    }
    let mut writers = Vec::new();
    for i in 0..60_u32 {
        let store = Arc::clone(&stores[i as usize % 2]);
        let patch = TaskPatch::new().with_agent_sessions(i);
        let number = tasks[i as usize % tasks.len()];
        let (queued, waits) = tokio::sync::oneshot::channel();
        writers.push(tokio::spawn(async move {
            let mut update = store.update(number, patch, None, None);
            // The first poll takes a place in the queue, and on a slow thread is all that it takes.
            let polled = std::future::poll_fn(|context| Poll::Ready(update.as_mut().poll(context))).await;
            queued.send(()).unwrap();
            match polled {
                Poll::Ready(done) => done,
                Poll::Pending => update.await,
            }
        }));
        waits.await.unwrap();
    }
    let mut order = Vec::new();
    for (i, writer) in writers.into_iter().enumerate() {
        // The time is taken under the lock, and no two are the same.
        order.push((writer.await.unwrap().unwrap().value.updated_at, i));
    }
    order.sort();
    let late = order.iter().enumerate().filter(|(place, (_, i))| place.abs_diff(*i) > 10).count();
    assert_eq!(late, 0, "{order:?}");
}

#[tokio::test]
async fn many_changed_files_are_one_change() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let first = store.create(NewTask::new("t"), None).await.unwrap().value.task_number;
    let text = std::fs::read_to_string(fixture.tasks().join("0001.yaml")).unwrap();
    for n in 2..=600 {
        let task = text.replace("task_number: 1", &format!("task_number: {n}"));
        std::fs::write(fixture.tasks().join(format!("{n:04}.yaml")), task).unwrap();
    }
    assert_eq!(store.list(&TaskQuery::new()).await.unwrap().tasks.len(), 600);
    let mut changes = store.subscribe();
    for n in 1..=600 {
        set_title(&fixture.tasks().join(format!("{n:04}.yaml")), "u");
    }
    assert_eq!(store.list(&TaskQuery::new()).await.unwrap().tasks.len(), 600);
    assert_eq!(unread(&mut changes), [Change::Everything]);
    store.update(first, TaskPatch::new().with_title("v"), None, None).await.unwrap();
    assert_eq!(unread(&mut changes), [Change::Task(first)]);
}

#[tokio::test]
async fn a_missing_file_is_not_a_deleted_task() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let task = store.create(NewTask::new("t"), None).await.unwrap();
    let number = task.value.task_number;
    let (here, away) = (fixture.tasks(), fixture.dir.path().join("away"));
    let file = |folder: &Path| folder.join("0001.yaml");
    let mut changes = store.subscribe();
    let listed = async || {
        let list = store.list(&TaskQuery::new()).await.unwrap();
        let missing = list.malformed.iter().any(|bad| bad.number == Some(number) && bad.last_good_kept);
        (list.tasks.len(), missing)
    };

    // The file alone, then its folder.
    std::fs::create_dir(&away).unwrap();
    std::fs::rename(file(&here), file(&away)).unwrap();
    assert_eq!(store.get(number).await.unwrap(), task);
    assert_eq!(listed().await, (1, true));
    assert_eq!(unread(&mut changes), [Change::Task(number)], "said once");
    std::fs::rename(file(&away), file(&here)).unwrap();
    assert_eq!(listed().await, (1, false));
    assert_eq!(unread(&mut changes), [Change::Task(number)]);
    let folder = fixture.dir.path().join("p/.watchfire");
    std::fs::rename(&folder, away.join("all")).unwrap();
    assert_eq!(store.get(number).await.unwrap(), task);
    assert_eq!(store.project().await.unwrap().value.next_task_number, 2);
    assert_eq!(listed().await, (1, true));
    std::fs::rename(away.join("all"), &folder).unwrap();
    assert_eq!(listed().await, (1, false));

    // Five seconds later it is gone; so is at once a task that was deleted before.
    std::fs::rename(file(&here), file(&away)).unwrap();
    assert_eq!(listed().await, (1, true));
    fixture.clock.seconds.store(5, Ordering::Relaxed);
    assert_eq!(listed().await, (0, false));
    assert_eq!(store.get(number).await.unwrap_err().kind(), ErrorKind::NotFound);
    let second = store.create(NewTask::new("t"), None).await.unwrap().value.task_number;
    store.delete(second).await.unwrap();
    std::fs::remove_file(here.join("0002.yaml")).unwrap();
    assert_eq!(store.get(second).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absence_ends_by_itself() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let number = store.create(NewTask::new("t"), None).await.unwrap().value.task_number;
    let id = &fixture.home.projects().await.unwrap()[0].project_id;
    let options = YamlOptions::new(fixture.home.state_dir(id)).with_debounce(Duration::ZERO).with_poll(DAY);
    let follower =
        YamlStore::open(fixture.dir.path().join("p"), Arc::new(SystemClock), options).await.unwrap();
    let mut changes = follower.subscribe();
    std::fs::remove_file(fixture.tasks().join("0001.yaml")).unwrap();
    // Missing, then gone: the second change comes without any event and long before the next poll.
    for _ in 0..2 {
        let next = std::future::poll_fn(|context| changes.as_mut().poll_next(context));
        let change = tokio::time::timeout(Duration::from_secs(60), next).await.unwrap().unwrap();
        assert_eq!(change, Change::Task(number));
    }
    assert_eq!(follower.get(number).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_wait_for_a_save_by_another_program() {
    let fixture = Fixture::new().await;
    let store = Arc::new(fixture.store().await);
    let number: TaskNumber = store.create(NewTask::new("t"), None).await.unwrap().value.task_number;
    let file = fixture.tasks().join("0001.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    for half in [None, Some("version: 1\nti"), Some("")] {
        match half {
            Some(half) => std::fs::write(&file, half).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let update = {
            let store = Arc::clone(&store);
            let patch = TaskPatch::new().with_status(TaskStatus::Ready);
            tokio::spawn(async move { store.update(number, patch, None, None).await })
        };
        // Until the update has met the half-written file at least once.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!update.is_finished());
        std::fs::write(&file, &text).unwrap();
        assert_eq!(update.await.unwrap().unwrap().value.status, TaskStatus::Ready);
    }
    std::fs::write(&file, "broken: [").unwrap();
    let refused = store.update(number, TaskPatch::new().with_title("x"), None, None).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Malformed, "broken for good");
    let unknown = store.update(TaskNumber::new(9).unwrap(), TaskPatch::new(), None, None).await;
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound, "at once");
}
