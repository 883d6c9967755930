//! Work that did not come as far as its branch, because its attempt ended in an error: a merge never says that there is nothing.

use std::fs;

use watchfire_core::workspace::{Merge, MergeRequest, Workspace};
use watchfire_core::{Error, ErrorKind};
use watchfire_git::GitWorkspace;

use crate::agent::agent;
use crate::joint::{self, World};
use crate::support::steps::{capture, key, open, open_isolated, prepare};
use crate::support::{Repo, inside};

async fn refused(workspace: &impl Workspace, n: u32) -> Error {
    workspace.prepare_merge(&MergeRequest::new(key(n), "main", "merge")).await.unwrap_err()
}

#[tokio::test]
async fn uncommitted_work_in_the_folder_is_named() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    assert!(matches!(prepare(&workspace, 1).await, Merge::Nothing), "ignored files are no work");
    for n in 0..5 {
        fs::write(opened.cwd.join(format!("new {n}")), "work\n").unwrap();
    }
    let error = refused(&workspace, 1).await;
    assert_eq!(error.kind(), ErrorKind::WorkspaceBroken);
    assert_eq!(error.detail("path"), opened.cwd.to_str());
    assert_eq!(error.detail("files"), Some("new 0, new 1, new 2 and 2 more"));
    assert!(error.detail("hint").is_some(), "{}", error.report());
    // What stood in the way of the capture has gone.
    capture(&workspace, 1).await;
    assert!(matches!(prepare(&workspace, 1).await, Merge::Ready(_)));
}

#[tokio::test]
async fn commits_that_only_its_head_names_are_named() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    agent(&opened.cwd, &["checkout", "-q", "--detach"]);
    agent(&opened.cwd, &["commit", "-q", "--allow-empty", "-m", "detached"]);
    let error = refused(&workspace, 1).await;
    assert!(error.report().contains("HEAD"), "{}", error.report());
    assert_eq!(error.detail("path"), opened.cwd.to_str());
    capture(&workspace, 1).await;
    assert!(matches!(prepare(&workspace, 1).await, Merge::Nothing), "the commit is empty");
}

async fn commit_in_copies(repo: &Repo, workspace: &GitWorkspace) {
    let opened = open_isolated(workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    inside(&repo.root, 1, ["add", "-A"]);
    inside(&repo.root, 1, ["commit", "-qm", "work"]);
}

#[tokio::test]
async fn copies_that_cannot_be_taken_over_are_named() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    commit_in_copies(&repo, &workspace).await;
    let pack = repo.private(1).join("objects/pack/pack-x.pack");
    fs::create_dir_all(pack.parent().unwrap()).unwrap();
    fs::write(&pack, "garbage").unwrap();
    let error = refused(&workspace, 1).await;
    assert_eq!(error.kind(), ErrorKind::WorkspaceBroken);
    assert_eq!(error.detail("path"), repo.private(1).to_str());
    assert!(error.report().contains("pack"), "{}", error.report());
    fs::remove_file(pack).unwrap();
    // Nothing captures it: the work is in the copies, and they are whole again.
    assert!(matches!(prepare(&workspace, 1).await, Merge::Ready(_)));
}

#[tokio::test]
async fn copies_that_nothing_has_taken_over_yet_are_merged() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    commit_in_copies(&repo, &workspace).await;
    match prepare(&workspace, 1).await {
        Merge::Ready(candidate) => {
            assert_eq!(repo.git(["ls-tree", "--name-only", candidate.commit.as_str(), "new"]), "new\n");
        }
        other => panic!("{other:?}"),
    }
    repo.fsck();
}

#[tokio::test]
async fn a_part_in_another_repository_is_named() {
    let world = World::new();
    let workspace = world.workspace();
    let opened = joint::work(&workspace, 1, 1).await;
    let part = &opened.others[0].cwd;
    fs::write(part.join("new"), "work\n").unwrap();
    let error = refused(&workspace, 1).await;
    assert!(error.report().contains(part.to_str().unwrap()), "{}", error.report());
    joint::capture(&workspace, 1).await;
    joint::candidate(&workspace, 1).await;
}
