//! The store on files, among people, agents and accidents.
#![cfg(feature = "yaml")]

use std::future::poll_fn;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use watchfire_core::ErrorKind;
use watchfire_core::clock::SystemClock;
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::store::{
    Change, Changes, DocumentName, Holder, Home, NewProject, NewTask, ProjectPatch, Revision, TaskPatch,
    TaskQuery, TaskStore, TaskStoreExt, Watching, YamlOptions, YamlStore,
};

struct Fixture {
    dir: tempfile::TempDir,
    home: Home,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("p")).unwrap();
        let home = Home::open(dir.path().join("home"), Arc::new(SystemClock)).await.unwrap();
        home.init_project(dir.path().join("p"), NewProject::new()).await.unwrap();
        Self { dir, home }
    }

    /// A store that learns of changes by events alone.
    async fn store(&self) -> YamlStore {
        self.store_with(|options| options.with_poll(DAY).with_debounce(Duration::from_millis(5))).await
    }

    async fn store_with(&self, set: impl FnOnce(YamlOptions) -> YamlOptions) -> YamlStore {
        let id = &self.home.projects().await.unwrap()[0].project_id;
        let options = set(YamlOptions::new(self.home.state_dir(id)));
        YamlStore::open(self.root(), Arc::new(SystemClock), options).await.unwrap()
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("p")
    }

    fn task(&self, name: &str) -> PathBuf {
        self.root().join(".watchfire/tasks").join(name)
    }

    fn project(&self) -> PathBuf {
        self.root().join(".watchfire/project.yaml")
    }
}

fn n(number: u32) -> TaskNumber {
    TaskNumber::new(number).unwrap()
}

fn text(number: u32, rest: &str) -> String {
    format!("version: 1\ntask_id: abcd123{number}\ntask_number: {number}\ntitle: t{number}\n{rest}")
}

/// Writes as careful programs do: beside it, then renamed.
fn replace(path: &Path, text: impl AsRef<[u8]>) {
    let beside = path.with_extension("beside");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

async fn until(changes: &mut Changes, wanted: Change) {
    let seen = async { while poll_fn(|c| changes.as_mut().poll_next(c)).await.expect("open") != wanted {} };
    tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap_or_else(|_| panic!("no {wanted:?}"));
}

fn leftovers(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[tokio::test]
async fn files_of_the_go_edition_load_and_keep_their_lines() {
    let fixture = Fixture::new().await;
    let written = "version: 1\ntask_id: \"12345678\"\ntask_number: 3\ntitle: 'Fix: it'\nprompt: |-\n    Do\n    it\n\
        agent: \"\"\nstatus: done\nsuccess: false\nfailure_reason: no way\nposition: 3\nagent_sessions: 1\n\
        created_at: 2026-02-03T13:05:00.123456789+01:00\nstarted_at: null\ncompleted_at: \"\"\n\
        updated_at: 2026-02-03T13:05:00Z\nretrofit_archived: true\n";
    std::fs::write(fixture.task("0003.yaml"), written).unwrap();
    std::fs::write(fixture.task("0003.metrics.yaml"), "task_number: 3\n").unwrap();
    let store = fixture.store().await;
    let list = store.list(&TaskQuery::new()).await.unwrap();
    assert_eq!((list.tasks.len(), list.malformed.len()), (1, 0));
    let task =
        store.update(n(3), TaskPatch::new().with_status(TaskStatus::Ready), None, None).await.unwrap().value;
    assert_eq!((task.success, task.failure_reason), (None, None));
    let now = std::fs::read_to_string(fixture.task("0003.yaml")).unwrap();
    for line in written
        .lines()
        .filter(|l| !["status", "success", "failure", "updated"].iter().any(|k| l.starts_with(k)))
    {
        assert!(now.contains(&format!("{line}\n")), "{line} in\n{now}");
    }
    assert_eq!(store.create(NewTask::new("next"), None).await.unwrap().value.task_number, n(4));
    store.delete(n(3)).await.unwrap();
    store.purge(n(3)).await.unwrap();
    assert!(!fixture.task("0003.metrics.yaml").exists());
}

#[tokio::test]
async fn what_others_write_is_seen() {
    let fixture = Fixture::new().await;
    std::fs::remove_dir(fixture.root().join(".watchfire/tasks")).unwrap();
    let store = fixture.store().await;
    let mut changes = store.subscribe();
    // A folder that appears later, and at once a file in it.
    std::fs::create_dir(fixture.root().join(".watchfire/tasks")).unwrap();
    replace(&fixture.task("0001.yaml"), text(1, "status: draft\n"));
    until(&mut changes, Change::Task(n(1))).await;
    assert_eq!(store.watching(), Watching::Events);
    std::fs::write(fixture.task("0001.yaml"), text(1, "status: ready\n")).unwrap();
    until(&mut changes, Change::Task(n(1))).await;
    replace(&fixture.project(), std::fs::read_to_string(fixture.project()).unwrap() + "x: 1\n");
    until(&mut changes, Change::Project).await;
    std::fs::remove_file(fixture.task("0001.yaml")).unwrap();
    // Missing for some seconds, then gone.
    let gone = loop {
        until(&mut changes, Change::Task(n(1))).await;
        if let Err(error) = store.get(n(1)).await {
            break error;
        }
    };
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    // The whole folder is replaced by another one.
    let (old, new) = (fixture.root().join("old"), fixture.root().join("new"));
    std::fs::create_dir_all(new.join("tasks")).unwrap();
    std::fs::copy(fixture.project(), new.join("project.yaml")).unwrap();
    std::fs::write(new.join("tasks/0007.yaml"), text(7, "status: draft\n")).unwrap();
    let polling = fixture.store_with(|o| o.with_watch(false).with_poll(Duration::from_millis(10))).await;
    let mut polled = polling.subscribe();
    std::fs::rename(fixture.root().join(".watchfire"), old).unwrap();
    std::fs::rename(new, fixture.root().join(".watchfire")).unwrap();
    until(&mut polled, Change::Task(n(7))).await;
    assert!(matches!(polling.watching(), Watching::PollingOnly { .. }));
}

#[tokio::test]
async fn a_malformed_file_hides_no_other_and_its_last_good_state_stays() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    for title in ["one", "two"] {
        store.create(NewTask::new(title), None).await.unwrap();
    }
    let path = fixture.task("0001.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    let mut changes = store.subscribe();
    for (bad, words) in [
        (String::new(), "empty"),
        (good[..good.find("status").unwrap() + 9].to_owned(), "quoted scalar"),
        (good.replace("title: ", "title:\t- "), ""),
        (good.replace("task_number: 1", "task_number: 9"), "does not match the file name"),
        (good.replace("status: \"draft\"", "status: 5"), "status"),
        (format!("{good}---\n{good}"), "more than one document"),
        (format!("{good}title: x\n"), "duplicate"),
        (good.replace("version: 1", "version: 2"), "update Watchfire"),
    ] {
        replace(&path, &bad);
        until(&mut changes, Change::Task(n(1))).await;
        let list = store.list(&TaskQuery::new()).await.unwrap();
        assert_eq!((list.tasks.len(), list.malformed.len()), (2, 1), "{bad}");
        let malformed = &list.malformed[0];
        assert!(
            malformed.last_good_kept
                && malformed.number == Some(n(1))
                && malformed.path.ends_with("0001.yaml")
        );
        assert!(malformed.reason.contains(words), "{words}: {malformed}");
        assert_eq!(store.get(n(1)).await.unwrap().value.title, "one");
        let refused = store.update(n(1), TaskPatch::new().with_title("x"), None, None).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Malformed, "{}", refused.report());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), bad, "a malformed file was written over");
    }
    replace(&path, good);
    until(&mut changes, Change::Task(n(1))).await;
    assert!(store.list(&TaskQuery::new()).await.unwrap().malformed.is_empty());
    assert_eq!(leftovers(&fixture.root().join(".watchfire/tasks")), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_file_neither_hangs_nor_leads_out() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    store.create(NewTask::new("well"), None).await.unwrap();
    let secret = fixture.dir.path().join("secret.yaml");
    std::fs::write(&secret, text(2, "status: draft\n")).unwrap();
    symlink(&secret, fixture.task("0002.yaml")).unwrap();
    std::fs::create_dir(fixture.task("0003.yaml")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.task("0004.yaml"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let large = std::fs::File::create(fixture.task("0005.yaml")).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    std::fs::write(fixture.task("0006.yaml"), b"title: \xff\xfe").unwrap();
    std::fs::write(fixture.task("1.yaml"), text(1, "status: draft\n")).unwrap();
    let list = store.list(&TaskQuery::new()).await.unwrap();
    assert_eq!(list.tasks.len(), 1);
    let mut reasons: Vec<_> =
        list.malformed.iter().map(|m| (m.number.unwrap().value(), m.reason.as_str())).collect();
    reasons.sort_unstable();
    for ((number, reason), (expected, words)) in reasons.into_iter().zip([
        (1, "taken by 0001.yaml"),
        (2, "symbolic link"),
        (3, "a folder"),
        (4, "a pipe"),
        (5, "at most"),
        (6, "UTF-8"),
    ]) {
        assert!(number == expected && reason.contains(words), "{number}: {reason}");
    }
    assert_eq!(store.create(NewTask::new("after them"), None).await.unwrap().value.task_number, n(7));
    // Nor does a folder that is a link.
    std::fs::rename(fixture.root().join(".watchfire/tasks"), fixture.dir.path().join("away")).unwrap();
    symlink(fixture.dir.path().join("away"), fixture.root().join(".watchfire/tasks")).unwrap();
    assert_eq!(store.create(NewTask::new("out"), None).await.unwrap_err().kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn a_prompt_of_ten_megabytes_works() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let prompt = "a line: of a prompt # that is long\n".repeat(300_000);
    let task = store.create(NewTask::new("long").with_prompt(prompt.clone()), None).await.unwrap();
    let done = TaskPatch::new().with_status(TaskStatus::Done);
    assert_eq!(store.update(task.value.task_number, done, None, None).await.unwrap().value.prompt, prompt);
}

#[tokio::test]
async fn numbers_grow_beyond_four_digits_and_files_are_adopted() {
    let fixture = Fixture::new().await;
    std::fs::write(fixture.task("9999.yaml"), text(9999, "status: draft\n")).unwrap();
    let store = fixture.store().await;
    assert_eq!(store.create(NewTask::new("a"), None).await.unwrap().value.task_number, n(10_000));
    assert!(fixture.task("10000.yaml").exists());
    store.delete(n(9999)).await.unwrap();
    // Project files stay as others wrote them, but for the number.
    let project = std::fs::read_to_string(fixture.project()).unwrap();
    assert!(project.contains("next_task_number: 10001"), "{project}");
    std::fs::write(
        fixture.task("20000.yaml"),
        text(20_000, "status: draft\ndeleted_at: 2026-01-01T00:00:00Z\n"),
    )
    .unwrap();
    store.purge(n(20_000)).await.unwrap();
    assert_eq!(store.create(NewTask::new("b"), None).await.unwrap().value.task_number, n(20_001));
}

/// A file with the highest number is in the way only as long as it is there.
#[tokio::test]
async fn the_counter_does_not_leave_its_range() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let path = fixture.task("99999999.yaml");
    std::fs::write(&path, text(99_999_999, "status: draft\n")).unwrap();
    std::fs::write(fixture.task("0000000007.yaml"), text(7, "status: draft\n")).unwrap();
    let error = store.create(NewTask::new("a"), None).await.unwrap_err();
    assert_eq!((error.kind(), error.detail("value")), (ErrorKind::InvalidInput, Some("100000000")));
    assert!(error.message().contains("1 to 99999999"), "{error}");
    std::fs::remove_file(path).unwrap();
    // Nor is a name of more than eight digits a task's.
    assert_eq!(store.create(NewTask::new("a"), None).await.unwrap().value.task_number, n(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_by_another_program_in_between_is_merged() {
    let fixture = Fixture::new().await;
    let store = Arc::new(fixture.store().await);
    let task = store.create(NewTask::new("t").with_prompt("p"), None).await.unwrap().value.task_number;
    let path = fixture.task("0001.yaml");
    let stop = Arc::new(AtomicBool::new(false));
    // Another program that knows no lock: it reads, sets its own field, and renames.
    let foreign = std::thread::spawn({
        let (stop, path) = (Arc::clone(&stop), path.clone());
        move || {
            let mut count = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let before = std::fs::read_to_string(&path).expect("never missing");
                let kept: Vec<_> = before.lines().filter(|line| !line.starts_with("foreign: ")).collect();
                assert!(kept.len() > 8, "half a file: {before}");
                count += 1;
                let beside = path.with_extension("beside");
                std::fs::write(&beside, format!("{}\nforeign: {count}\n", kept.join("\n"))).unwrap();
                std::fs::File::open(&beside).unwrap().sync_all().unwrap();
                std::fs::rename(&beside, &path).unwrap();
            }
            count
        }
    });
    for sessions in 1..=200_u32 {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        // One that never rests may win for a while: then it is told, and nothing has changed.
        while let Err(error) =
            store.update(task, TaskPatch::new().with_agent_sessions(sessions), None, None).await
        {
            let told = error.kind() == ErrorKind::Busy && std::time::Instant::now() < deadline;
            assert!(told, "{}", error.report());
        }
    }
    stop.store(true, Ordering::Relaxed);
    let count = foreign.join().unwrap();
    let task = store.update(task, TaskPatch::new().with_title("last"), None, None).await.unwrap().value;
    assert_eq!(task.extra.get("foreign").and_then(serde_json::Value::as_u64), Some(count.into()));
    assert_eq!((task.title.as_str(), task.prompt.as_str()), ("last", "p"));
    assert_eq!(leftovers(&fixture.root().join(".watchfire/tasks")), Vec::<String>::new());
}

/// Not a test of its own: the process that the next one kills.
#[tokio::test]
async fn writer_to_be_killed() {
    let Some(root) = std::env::var_os("WATCHFIRE_TEST_WRITER").map(PathBuf::from) else { return };
    let options = YamlOptions::new(root.join("../state")).with_watch(false).with_poll(DAY);
    let store = YamlStore::open(root, Arc::new(SystemClock), options).await.unwrap();
    for sessions in 1_u32.. {
        store.update(n(1), TaskPatch::new().with_agent_sessions(sessions), None, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_killed_writer_leaves_whole_files_and_no_lock() {
    let fixture = Fixture::new().await;
    let options = YamlOptions::new(fixture.dir.path().join("state")).with_watch(false).with_poll(DAY);
    let store = YamlStore::open(fixture.root(), Arc::new(SystemClock), options.clone()).await.unwrap();
    let prompt = "some text\n".repeat(2_000);
    store.create(NewTask::new("t").with_prompt(prompt.clone()), None).await.unwrap();
    for _ in 0..8 {
        let revision = store.get(n(1)).await.unwrap().revision;
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_to_be_killed"])
            .env("WATCHFIRE_TEST_WRITER", fixture.root())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while store.get(n(1)).await.unwrap().revision == revision {
            assert!(std::time::Instant::now() < deadline, "the writer does not write");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let again = YamlStore::open(fixture.root(), Arc::new(SystemClock), options.clone()).await.unwrap();
        let list = again.list(&TaskQuery::new()).await.unwrap();
        assert!(list.malformed.is_empty() && list.tasks[0].value.prompt == prompt);
        assert_eq!(leftovers(&fixture.root().join(".watchfire/tasks")), Vec::<String>::new());
        again.update(n(1), TaskPatch::new().with_agent_sessions(0_u32), None, None).await.unwrap();
    }
}

#[tokio::test]
async fn claims_survive_a_restart_of_the_store() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let (one, two) = (Holder::new("m", "one", "1"), Holder::new("m", "two", "1"));
    let task = store.create(NewTask::new("t"), None).await.unwrap().value.task_number;
    let claim = store.claim(task, &one, DAY).await.unwrap();
    drop(store);
    let store = fixture.store().await;
    assert_eq!(store.claim(task, &two, DAY).await.unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(store.claim(task, &one, DAY).await.unwrap().fence, claim.fence);
    store.release(&claim).await.unwrap();
    assert!(store.claim(task, &two, DAY).await.unwrap().fence > claim.fence);
}

#[tokio::test]
async fn documents_are_files_that_others_edit_too() {
    let fixture = Fixture::new().await;
    let store = fixture.store().await;
    let file = fixture.root().join(".watchfire/memory.md");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(store.document(DocumentName::Memory).await.unwrap(), None);
    let first =
        store.write_document(DocumentName::Memory, "one\n", Some(&Revision::absent()), None).await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
    std::fs::write(&file, "by hand\n").unwrap();
    let late = store.write_document(DocumentName::Memory, "two\n", Some(&first.revision), None).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(store.document(DocumentName::Memory).await.unwrap().unwrap().value, "by hand\n");
    std::fs::remove_file(&file).unwrap();
    let elsewhere = fixture.dir.path().join("elsewhere");
    std::fs::write(&elsewhere, "not a document").unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(store.document(DocumentName::Memory).await.unwrap_err().kind(), ErrorKind::Malformed);
    let refused = store.write_document(DocumentName::Memory, "x", None, None).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "not a document");
    store.write_document(DocumentName::Instructions, "mine\n", None, None).await.unwrap();
    let secret = std::fs::metadata(fixture.root().join(".watchfire/secrets/instructions.md")).unwrap();
    assert_eq!(secret.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn two_homes_share_the_claims_of_a_repository() {
    let fixture = Fixture::new().await;
    let git = fixture.root().join(".git");
    std::fs::create_dir(&git).unwrap();
    std::fs::set_permissions(&git, PermissionsExt::from_mode(0o2770)).unwrap();
    let shared = git.join("watchfire");
    let other_home = Home::open(fixture.dir.path().join("other home"), Arc::new(SystemClock)).await.unwrap();
    assert!(!fixture.home.holder().same_home(other_home.holder()));
    let one = fixture.home.open_store(fixture.root(), Some(shared.clone())).await.unwrap();
    let two = other_home.open_store(fixture.root(), Some(shared.clone())).await.unwrap();
    let task = one.create(NewTask::new("t"), None).await.unwrap().value.task_number;
    let claim = one.claim(task, fixture.home.holder(), Duration::ZERO).await.unwrap();
    for name in ["claims", "claims/lock", "claims/fences.json", "claims/leases.json"] {
        let mode = std::fs::metadata(shared.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, if name == "claims" { 0o2770 } else { 0o660 }, "{name}");
    }
    std::fs::remove_file(shared.join("claims/leases.json")).unwrap();
    let taken = two.claim(task, other_home.holder(), DAY).await.unwrap();
    assert!(taken.fence > claim.fence, "fences grow over deleted leases");
    let late = one.update(task, TaskPatch::new().with_title("late"), None, Some(claim.fence)).await;
    assert_eq!(late.unwrap_err().code(), "claim_lost");
    assert_eq!(one.renew(std::slice::from_ref(&claim), DAY).await.unwrap(), [claim]);
}

#[tokio::test]
async fn a_project_without_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let options = YamlOptions::new(dir.path().join("state"));
    let error = YamlStore::open(dir.path(), Arc::new(SystemClock), options.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    std::fs::create_dir(dir.path().join(".watchfire")).unwrap();
    std::fs::write(dir.path().join(".watchfire/project.yaml"), "version: 1\n").unwrap();
    let store = YamlStore::open(dir.path(), Arc::new(SystemClock), options).await.unwrap();
    let error = store.project().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Malformed && error.message().contains("project_id"),
        "{}",
        error.report()
    );
    let error = store.create(NewTask::new("t"), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "no number can be given safely");
    let error = store.update_project(ProjectPatch::new().with_name("n"), None, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}
