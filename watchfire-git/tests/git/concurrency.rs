//! Several of us, and a person, at once.

use std::fs;
use std::time::{Duration, Instant};

use watchfire_core::workspace::{Merge, MergeRequest, PublishRequest, Published, Workspace};

use crate::support::steps::{capture, key, open, open_isolated};
use crate::support::{Repo, inside, run};

/// Long enough for the slowest machine; everything ends far sooner.
const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_gets_through_and_nothing_breaks() {
    let repo = Repo::new();
    repo.write("mine", "edit\n");
    let deadline = Instant::now() + DEADLINE;
    let tasks: Vec<_> = (1..6)
        .map(|n| {
            // Each has its own, as in processes of their own.
            let workspace = repo.workspace();
            tokio::spawn(async move {
                let opened = open(&workspace, n).await;
                for round in 0..3 {
                    fs::write(opened.cwd.join(format!("task {n} round {round}")), "work\n").unwrap();
                    capture(&workspace, n).await;
                    loop {
                        assert!(Instant::now() < deadline, "task {n} never got through");
                        let request = MergeRequest::new(key(n), "main", "merge");
                        let candidate = match workspace.prepare_merge(&request).await.unwrap() {
                            Merge::Ready(candidate) => candidate,
                            Merge::Nothing => break,
                            other => panic!("{other:?}"),
                        };
                        let published =
                            workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
                        if let Published::Done { .. } = published {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    let root = repo.root.clone();
    let person = tokio::task::spawn_blocking(move || {
        for round in 0..10 {
            let name = format!("person {round}");
            fs::write(root.join(&name), "mine\n").unwrap();
            for args in [vec!["add", &name], vec!["commit", "-qm", "person", "--", &name]] {
                // git gives up where a lock is taken.
                while !run(&root, &args).status.success() {
                    assert!(Instant::now() < deadline, "the person never got through");
                }
            }
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    person.await.unwrap();
    for name in (1..6).flat_map(|n| (0..3).map(move |round| format!("task {n} round {round}"))) {
        assert_eq!(repo.read(&name), "work\n");
    }
    assert_eq!(repo.git(["log", "--format=%s", "--grep=^person$"]).lines().count(), 10);
    assert_eq!(repo.git(["status", "--porcelain"]), "?? mine\n");
    assert!(!repo.root.join(".git/index.lock").exists());
    repo.fsck();
}

/// At the end of a session, its last look at the work may go on while the capture begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn captures_and_imports_of_one_task_do_not_disturb_each_other() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    for round in 0..20 {
        fs::write(opened.cwd.join("committed"), format!("{round}\n")).unwrap();
        inside(&repo.root, 1, ["add", "committed"]);
        inside(&repo.root, 1, ["commit", "-qm", "inside"]);
        fs::write(opened.cwd.join("uncommitted"), format!("{round}\n")).unwrap();
        let (same, other) = (workspace.clone(), repo.workspace());
        tokio::spawn(async move { same.uncommitted(&key(1)).await.map(drop) });
        let import = tokio::spawn(async move { other.import(&key(1)).await });
        let captured = capture(&workspace, 1).await;
        import.await.unwrap().unwrap();
        let tip = repo.git(["rev-parse", "watchfire/0001"]);
        assert_eq!(captured.tip.unwrap().as_str(), tip.trim());
        assert_eq!(repo.git(["show", "watchfire/0001:uncommitted"]), format!("{round}\n"));
        assert_eq!(repo.git(["show", "watchfire/0001:committed"]), format!("{round}\n"));
    }
    repo.fsck();
}

/// An agent without a sandbox outlives its orchestrator, and its git may hold the lock of its branch while the next one starts.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_git_at_work_is_left_alone() {
    let repo = Repo::new();
    open(&repo.workspace(), 1).await;
    let lock = repo.root.join(".git/refs/heads/watchfire/0001.lock");
    fs::write(&lock, "").unwrap();
    let workspace = repo.workspace();
    let recovering = tokio::spawn(async move { workspace.recover().await.map(|_| ()) });
    let held = lock.clone();
    let goes_on = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_millis(300));
        fs::rename(&held, held.with_extension("done"))
    });
    goes_on.await.unwrap().expect("its lock");
    recovering.await.unwrap().unwrap();

    // One that nobody holds goes.
    fs::write(&lock, "").unwrap();
    repo.workspace().recover().await.unwrap();
    assert!(!lock.exists());
}
