//! Several of us, and a person, at once.

use std::fs;
use std::time::{Duration, Instant};

use watchfire_core::workspace::{Merge, MergeRequest, PublishRequest, Published, Workspace};

use crate::support::steps::{capture, key, open};
use crate::support::{Repo, run};

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
