//! A person who saves a file in the moment in which it is replaced or removed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use watchfire_core::workspace::Workspace;

use crate::half_way::{child, nothing_of_ours, repository, work};
use crate::support::{Repo, run};

/// Publishes the work on `a file.txt`, `goes` and `new/folder/file` in a process of its own. What it printed.
fn publish(repo: &Repo, edits: &[(&str, u32, &str, &str)], env: &[(&str, &str)]) -> String {
    let line = |&(place, nth, name, content): &(&str, u32, &str, &str)| {
        format!("{place}\t{nth}\t{}\t{content}", repo.root.join(name).display())
    };
    let edits: Vec<_> = edits.iter().map(line).collect();
    let edits = edits.join("\n");
    let env = [&[("WATCHFIRE_EDITS", edits.as_str())], env].concat();
    let output = child("publishing", "", repo, &env);
    let is_killed = env.iter().any(|(name, _)| *name == "WATCHFIRE_KILL_AT");
    assert_ne!(output.status.success(), is_killed, "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// With and without a file system that exchanges two names in one step.
const WAYS: [&[(&str, &str)]; 2] = [&[], &[("WATCHFIRE_FAIL_ALSO", "exchange")]];

fn set_aside(repo: &Repo) -> Vec<String> {
    let entries = fs::read_dir(repo.root.join(".watchfire/worktrees/aside")).into_iter().flatten().flatten();
    entries.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
}

#[tokio::test]
async fn an_edit_between_the_look_and_the_rename_stays() {
    for way in WAYS {
        let repo = repository();
        work(&repo.workspace()).await;
        let edits =
            [("file: replacing", 1, "a file.txt", "my edit"), ("file: removing", 1, "goes", "my other edit")];
        let said = publish(&repo, &edits, way);
        assert!(said.contains("Done"), "{way:?}: {said}");
        assert_eq!(repo.read("a file.txt"), "my edit", "{way:?}");
        assert_eq!(repo.read("goes"), "my other edit", "{way:?}");
        assert_eq!(repo.read("new/folder/file"), "new\n", "{way:?}");
        assert_eq!(set_aside(&repo), [""; 0], "{way:?}");
        nothing_of_ours(&repo.root);
    }
}

#[tokio::test]
async fn an_edit_that_another_file_has_replaced_is_set_aside() {
    for way in WAYS {
        let repo = repository();
        let workspace = repo.workspace();
        work(&workspace).await;
        let edits = [
            ("file: replacing", 1, "a file.txt", "first edit"),
            ("file: displaced", 1, "a file.txt", "second edit"),
            ("file: removing", 1, "goes", "first other edit"),
            ("file: removed", 1, "goes", "second other edit"),
        ];
        let said = publish(&repo, &edits, way);
        assert!(said.contains("Done"), "{way:?}: {said}");
        assert_eq!(repo.read("a file.txt"), "second edit", "{way:?}");
        assert_eq!(repo.read("goes"), "second other edit", "{way:?}");
        let mut aside = set_aside(&repo);
        aside.sort();
        assert_eq!(aside, ["first edit", "first other edit"], "{way:?}");
        nothing_of_ours(&repo.root);
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.attention.iter().any(|it| it.contains("aside")), "{recovery:?}");
    }
}

#[tokio::test]
async fn an_edit_in_an_editor_that_writes_in_place_is_set_aside() {
    let repo = repository();
    work(&repo.workspace()).await;
    // The editor still has the old file, by another name here: what it writes arrives in the displaced file.
    fs::hard_link(repo.root.join("a file.txt"), repo.beside("open in an editor")).unwrap();
    let edits = [("publication: files brought", 1, "../open in an editor", "in place")];
    let said = publish(&repo, &edits, &[("WATCHFIRE_EDIT_IN_PLACE", "1")]);
    assert!(said.contains("Done"), "{said}");
    assert_eq!(repo.read("a file.txt"), "changed\n");
    assert_eq!(set_aside(&repo), ["in place"]);
    nothing_of_ours(&repo.root);
}

#[tokio::test]
async fn an_edit_while_files_are_taken_back_stays() {
    for way in WAYS {
        let repo = repository();
        let workspace = repo.workspace();
        work(&workspace).await;
        let edits = [("file: replacing", 2, "a file.txt", "my edit")];
        let said = publish(&repo, &edits, &[way, &[("WATCHFIRE_FAIL_AT", "index")]].concat());
        assert!(said.contains("Incomplete"), "{way:?}: {said}");
        assert_eq!(repo.read("a file.txt"), "my edit", "{way:?}");
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.incomplete.is_empty(), "{recovery:?}");
        assert_eq!(repo.read("a file.txt"), "my edit", "{way:?}");
        assert_eq!(repo.git(["status", "--porcelain"]), " M \"a file.txt\"\n", "{way:?}");
        nothing_of_ours(&repo.root);
    }
}

/// Without an exchange, a replaced file is away for a moment.
#[tokio::test]
async fn a_kill_while_a_file_is_away_is_completed() {
    for at in ["file: displaced", "file: replaced"] {
        for edit in [None, Some(("file: replacing", 1, "a file.txt", "my edit"))] {
            let repo = repository();
            let workspace = repo.workspace();
            work(&workspace).await;
            let env = [("WATCHFIRE_FAIL_ALSO", "exchange"), ("WATCHFIRE_KILL_AT", at)];
            // An edit is found at the first place, and never reaches the second.
            if at == "file: replaced" && edit.is_some() {
                continue;
            }
            publish(&repo, edit.as_slice(), &env);
            let recovery = workspace.recover().await.unwrap();
            assert_eq!(recovery.completed.len(), 1, "{at}: {recovery:?}");
            let (content, status) = match edit {
                Some(_) => ("my edit", " M \"a file.txt\"\n"),
                None => ("changed\n", ""),
            };
            assert_eq!(repo.read("a file.txt"), content, "{at}");
            assert_eq!(repo.git(["status", "--porcelain"]), status, "{at}");
            nothing_of_ours(&repo.root);
        }
    }
}

/// git reads HEAD, then the index, and takes the lock of the index last. What is published in between must not be taken back by
/// the commit.
#[tokio::test]
async fn a_commit_that_has_read_the_index_keeps_the_merge() {
    let repo = repository();
    let workspace = repo.workspace();
    work(&workspace).await;
    repo.write("mine", "mine\n");
    repo.git(["add", "mine"]);
    publish(&repo, &[], &[("WATCHFIRE_KILL_AT", "publication: files brought")]);
    // git asks its file system monitor after it has read the index, and before it takes the lock.
    let (asked, go) = (repo.beside("asked"), repo.beside("go"));
    let monitor = repo.beside("monitor");
    let script = format!(
        "#!/bin/sh\n: > '{}'\nwhile [ ! -e '{}' ]; do sleep 0.02; done\nexit 1\n",
        asked.display(),
        go.display()
    );
    fs::write(&monitor, script).unwrap();
    fs::set_permissions(&monitor, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!("core.fsmonitor={}", monitor.display());
    let root = repo.root.clone();
    let commit = tokio::task::spawn_blocking(move || run(&root, ["-c", &config, "commit", "-qm", "mine"]));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !asked.exists() {
        assert!(Instant::now() < deadline, "git never asked its monitor");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let recovery = workspace.recover().await.unwrap();
    assert_eq!(recovery.completed.len(), 1, "{recovery:?}");
    fs::write(&go, "").unwrap();
    let committed = commit.await.unwrap();
    assert!(committed.status.success(), "{committed:?}");
    assert_eq!(repo.git(["show", "--format=", "--name-only", "HEAD"]), "mine\n");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    nothing_of_ours(&repo.root);
}
