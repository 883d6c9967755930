//! Killed anywhere in a plain folder: the next start completes or undoes, and nothing is lost.

use std::fs;
use std::process::Output;

use watchfire_core::workspace::{Merge, PublishRequest, Published, Workspace};

use super::Plain;
use crate::half_way::root;
use crate::support::steps::{candidate, capture, open, prepare, publish};

/// Runs the ignored test `name` of this file in a process of its own.
fn child(name: &str, plain: &Plain, env: &[(&str, &str)]) -> Output {
    let repo = crate::support::Repo::existing(plain.root.clone());
    crate::half_way::child_of(&format!("plain::kills::{name}"), "", &repo, env)
}

#[tokio::test]
#[ignore = "started by the others, to be killed"]
async fn publishing() {
    let Some(root) = root() else { return };
    let workspace = Plain::existing(root).workspace();
    println!("{:?}", publish(&workspace, 1).await);
}

#[tokio::test]
#[ignore = "started by the others, to be killed"]
async fn opening() {
    let Some(root) = root() else { return };
    open(&Plain::existing(root).workspace(), 1).await;
}

#[tokio::test]
#[ignore = "started by the others, to be killed"]
async fn beginning() {
    let Some(root) = root() else { return };
    Plain::existing(root).init();
}

/// A folder with work of an agent, and with edits of the person in other files.
async fn at_work() -> Plain {
    let plain = Plain::bare();
    plain.write("goes", "goes\n");
    plain.write("edited", "before\n");
    plain.write(".env", "SECRET=1\n");
    plain.init();
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    fs::create_dir_all(opened.cwd.join("new/folder")).unwrap();
    fs::write(opened.cwd.join("new/folder/file"), "new\n").unwrap();
    fs::write(opened.cwd.join("a file.txt"), "changed\n").unwrap();
    fs::remove_file(opened.cwd.join("goes")).unwrap();
    capture(&workspace, 1).await;
    plain.write("edited", "by the person\n");
    plain.write("added", "by the person\n");
    plain
}

fn has_everything(plain: &Plain, at: &str) {
    assert_eq!(plain.read("new/folder/file"), "new\n", "{at}");
    assert_eq!(plain.read("a file.txt"), "changed\n", "{at}");
    assert!(!plain.root.join("goes").exists(), "{at}");
    keeps_the_persons(plain, at);
}

fn keeps_the_persons(plain: &Plain, at: &str) {
    for path in ["edited", "added"] {
        assert_eq!(plain.read(path), "by the person\n", "{at}: {path}");
    }
    assert_eq!(plain.read(".env"), "SECRET=1\n", "{at}");
}

#[tokio::test]
async fn a_kill_while_work_is_published_is_completed_or_undone() {
    for at in [
        "snapshot: committed",
        "reference: moved",
        "snapshot: taken",
        "lock: taken",
        "publication: staged",
        "publication: announced",
        "file: linked",
        "publication: files brought",
        "publication: index written",
        "publication: index in place",
        "publication: ending",
        "publication: released",
    ] {
        let plain = at_work().await;
        let output = child("publishing", &plain, &[("WATCHFIRE_KILL_AT", at)]);
        assert!(!output.status.success(), "{at}: {output:?}");
        keeps_the_persons(&plain, at);
        // Another task opens before anything was recovered: its snapshot takes nothing back.
        open(&plain.workspace(), 2).await;
        let workspace = plain.workspace();
        workspace.recover().await.unwrap();
        match prepare(&workspace, 1).await {
            Merge::Nothing => {}
            Merge::Ready(candidate) => {
                let published = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
                assert!(matches!(published, Published::Done { .. }), "{at}: {published:?}");
            }
            other => panic!("{at}: {other:?}"),
        }
        has_everything(&plain, at);
        assert_eq!(plain.status(), "", "{at}");
        assert_eq!(plain.git(["log", "--format=%s", "--grep=^merge$", "main"]), "merge\n", "{at}");
        plain.sound(at);
    }
}

/// A candidate of before the kill is published without being made again.
#[tokio::test]
async fn a_kill_between_snapshot_and_index_heals_by_itself() {
    let plain = at_work().await;
    let workspace = plain.workspace();
    let output = child("opening", &plain, &[("WATCHFIRE_KILL_AT", "reference: moved")]);
    assert!(!output.status.success(), "{output:?}");
    let merged = candidate(&workspace, 1).await;
    let published = workspace.publish(&merged, &PublishRequest::default()).await.unwrap();
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    has_everything(&plain, "healed");
    assert_eq!(plain.status(), "");
}

/// The person saves in the moment in which the publication looks at the file, or replaces it.
#[tokio::test]
async fn an_edit_in_any_moment_is_not_lost() {
    for at in
        ["lock: taken", "publication: staged", "publication: announced", "reference: moved", "file: linked"]
    {
        let plain = at_work().await;
        // The reference of the snapshot moves first.
        let nth = if at == "reference: moved" { 2 } else { 1 };
        let edit = format!("{at}\t{nth}\t{}\tSAVED", plain.root.join("a file.txt").display());
        let output = child("publishing", &plain, &[("WATCHFIRE_EDITS", &edit)]);
        assert!(output.status.success(), "{at}: {output:?}");
        let workspace = plain.workspace();
        workspace.recover().await.unwrap();
        let saved = plain.read("a file.txt") == "SAVED"
            || fs::read_dir(plain.root.join(".watchfire/worktrees/aside")).is_ok_and(|entries| {
                entries.flatten().any(|it| fs::read_to_string(it.path()).unwrap() == "SAVED")
            })
            || plain.git(["log", "--all", "-p", "--format="]).contains("SAVED");
        assert!(saved, "{at}: {output:?}");
        keeps_the_persons(&plain, at);
        plain.sound(at);
    }
}

#[tokio::test]
async fn a_kill_while_a_folder_is_made_ready_leaves_none_or_one() {
    for at in
        ["replace: begin", "plain: store made", "plain: claimed", "snapshot: committed", "reference: moved"]
    {
        let plain = Plain::bare();
        let output = child("beginning", &plain, &[("WATCHFIRE_KILL_AT", at)]);
        assert!(!output.status.success(), "{at}: {output:?}");
        assert!(!plain.root.join(".git").exists(), "{at}");
        plain.init();
        let opened = open(&plain.workspace(), 1).await;
        assert!(opened.cwd.join("a file.txt").exists(), "{at}");
        plain.sound(at);
    }
}
