//! Disks that are full or read-only, and a machine out of file watches: what needs a namespace of its own.

use std::future::poll_fn;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use watchfire_core::ErrorKind;
use watchfire_core::clock::SystemClock;
use watchfire_core::store::{
    Change, Home, NewProject, NewTask, TaskPatch, TaskQuery, TaskStore, Watching, YamlOptions, YamlStore,
};

const CASE: &str = "WATCHFIRE_STORE_CASE";
const DISK: &str = "WATCHFIRE_STORE_DISK";
const NO_WATCH: &str = "without_a_watch_to_have_it_polls_and_says_so";
const CASES: [&str; 3] = ["a_full_disk_loses_nothing", "a_read_only_disk_is_read", NO_WATCH];

fn main() {
    if let (Ok(case), Some(disk)) = (std::env::var(CASE), std::env::var_os(DISK)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(inside(&case, Path::new(&disk)));
    }
    let missing = mounted(&["true"]).err();
    if let Some(reason) = &missing {
        CASES
            .iter()
            .for_each(|case| eprintln!("SKIPPED {case}: no file system can be mounted here: {reason}"));
    }
    let trial =
        |case: &'static str| Trial::test(case, move || run(case)).with_ignored_flag(missing.is_some());
    libtest_mimic::run(&Arguments::from_args(), CASES.into_iter().map(trial).collect()).exit();
}

fn run(case: &str) -> Result<(), Failed> {
    let program = std::env::current_exe()?;
    mounted(&["env", &format!("{CASE}={case}"), &program.display().to_string()]).map_err(Into::into)
}

/// Runs a command where `DISK` names an empty file system of half a megabyte.
fn mounted(command: &[&str]) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let script = "mount -t tmpfs -o size=512k tmpfs \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(dir.path())
        .args(command)
        .env(DISK, dir.path())
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

async fn inside(case: &str, disk: &Path) {
    if case == NO_WATCH {
        std::fs::write("/proc/sys/user/max_inotify_instances", "0").unwrap();
    }
    let state = tempfile::tempdir().unwrap();
    let root = disk.join("p");
    std::fs::create_dir(&root).unwrap();
    let home = Home::open(state.path(), Arc::new(SystemClock)).await.unwrap();
    let project = home.init_project(&root, NewProject::new()).await.unwrap();
    let options = YamlOptions::new(home.state_dir(&project.project_id));
    if case == NO_WATCH {
        return polls(&root, options.with_poll(Duration::from_millis(10))).await;
    }
    let options = options.with_poll(Duration::from_secs(86_400));
    let open = || YamlStore::open(root.clone(), Arc::new(SystemClock), options.clone());
    let store = open().await.unwrap();
    let task = store.create(NewTask::new("t").with_prompt("short"), None).await.unwrap();
    let number = task.value.task_number;
    let patch = || TaskPatch::new().with_prompt("long\n".repeat(20_000));
    let expected = match case {
        "a_full_disk_loses_nothing" => {
            let mut file = std::fs::File::create(disk.join("filler")).unwrap();
            while file.write_all(&[0; 4096]).is_ok() {}
            ErrorKind::OutOfSpace
        }
        "a_read_only_disk_is_read" => {
            let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(disk).status().unwrap();
            assert!(mounted.success());
            ErrorKind::PermissionDenied
        }
        other => panic!("no such case: {other}"),
    };
    let files = || -> Vec<(PathBuf, Vec<u8>)> {
        ["project.yaml", "tasks/0001.yaml"]
            .map(|name| root.join(".watchfire").join(name))
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .into()
    };
    let before = files();
    let failures = [
        store.update(number, patch(), None, None).await.unwrap_err(),
        store.create(NewTask::new("next").with_prompt("long\n".repeat(20_000)), None).await.unwrap_err(),
    ];
    for error in failures {
        assert_eq!(error.kind(), expected, "{}", error.report());
    }
    assert_eq!(files(), before);
    let names = std::fs::read_dir(root.join(".watchfire/tasks")).unwrap().count();
    assert_eq!(names, 1, "something was left behind");
    // A store opens there, and what can be read is read.
    let again = open().await.unwrap();
    assert_eq!(again.list(&TaskQuery::new()).await.unwrap().tasks, [task]);
    if expected == ErrorKind::OutOfSpace {
        std::fs::remove_file(disk.join("filler")).unwrap();
        store.update(number, patch(), None, None).await.unwrap();
    }
}

async fn polls(root: &Path, options: YamlOptions) {
    let store = YamlStore::open(root, Arc::new(SystemClock), options).await.unwrap();
    let mut changes = store.subscribe();
    let task = "version: 1\ntask_id: abcd1234\ntask_number: 1\ntitle: t\nstatus: draft\n";
    std::fs::write(root.join(".watchfire/tasks/0001.yaml"), task).unwrap();
    let change = poll_fn(|context| changes.as_mut().poll_next(context));
    let change = tokio::time::timeout(Duration::from_secs(20), change).await.unwrap();
    assert_eq!(change, Some(Change::Task(1.try_into().unwrap())));
    let Watching::PollingOnly { reason, .. } = store.watching() else { panic!("{:?}", store.watching()) };
    assert!(reason.contains("file watch"), "{reason}");
}
