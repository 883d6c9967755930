//! What works in which kind of repository: one row each. What does not work is refused before an agent starts, with what
//! to do about it.

use std::fs;

use watchfire_core::workspace::Published;
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::steps::{capture, open_isolated, publish};
use crate::support::{Repo, git, inside, run};

/// The way of a task, in private copies: committed and uncommitted work arrives in the target and in the checkout.
async fn works(repo: &Repo) {
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    assert_eq!(inside(&repo.root, 1, ["status", "--porcelain"]), "");
    fs::write(opened.cwd.join("committed"), "committed\n").unwrap();
    inside(&repo.root, 1, ["add", "committed"]);
    inside(&repo.root, 1, ["commit", "-qm", "work"]);
    fs::write(opened.cwd.join("uncommitted"), "uncommitted\n").unwrap();
    capture(&workspace, 1).await;
    let published = publish(&workspace, 1).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    for name in ["committed", "uncommitted"] {
        assert_eq!(repo.git(["show", &format!("main:{name}")]), format!("{name}\n"));
        assert_eq!(repo.read(name), format!("{name}\n"));
    }
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.fsck();
}

fn refused(root: &std::path::Path, cure: &str) {
    let error = GitWorkspace::open(root, GitOptions::default()).unwrap_err();
    assert_eq!(error.code(), "not_supported", "{}", error.report());
    assert!(error.report().contains(cure), "{}", error.report());
}

#[tokio::test]
async fn untracked_cache() {
    let repo = Repo::new();
    repo.git(["config", "core.untrackedCache", "true"]);
    repo.git(["update-index", "--force-untracked-cache"]);
    repo.git(["status"]);
    works(&repo).await;
}

/// The hook of the person's is not run, and its cache is not believed.
#[tokio::test]
async fn fsmonitor() {
    use std::os::unix::fs::PermissionsExt;
    let repo = Repo::new();
    let (hook, ran) = (repo.beside("monitor"), repo.beside("ran"));
    fs::write(&hook, format!("#!/bin/sh\necho ran >> {}\nprintf 'token\\0/\\0'\n", ran.display())).unwrap();
    fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    repo.git(["config", "core.fsmonitor", hook.to_str().unwrap()]);
    repo.git(["update-index", "--fsmonitor"]);
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    fs::write(opened.cwd.join("work"), "work\n").unwrap();
    _ = fs::remove_file(&ran);
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(!ran.exists(), "a hook of the person's ran");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(repo.read("work"), "work\n");
    repo.fsck();
}

/// Held where the target is checked out, with the command that helps; nothing else waits for it.
#[tokio::test]
async fn split_index() {
    let repo = Repo::new();
    repo.git(["update-index", "--split-index"]);
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    fs::write(opened.cwd.join("work"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let Published::Held(obstacle) = publish(&workspace, 1).await else { panic!("not held") };
    assert!(obstacle.kind.cure().contains("git update-index --no-split-index"));
    repo.git(["update-index", "--no-split-index"]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("work"), "work\n");
}

#[tokio::test]
async fn alternates() {
    let other = Repo::new();
    let repo = Repo::named("borrower");
    other.git(["clone", "-q", "--shared", ".", repo.beside("clone").to_str().unwrap()]);
    fs::remove_dir_all(&repo.root).unwrap();
    fs::rename(repo.beside("clone"), &repo.root).unwrap();
    repo.git(["config", "user.name", "A Person"]);
    repo.git(["config", "user.email", "person@example.org"]);
    works(&repo).await;
}

#[tokio::test]
async fn shallow_clones() {
    let other = Repo::new();
    other.write("second", "second\n");
    other.commit("second");
    let repo = Repo::named("shallow");
    let url = format!("file://{}", other.root.display());
    other.git(["clone", "-q", "--depth=1", &url, repo.beside("clone").to_str().unwrap()]);
    fs::remove_dir_all(&repo.root).unwrap();
    fs::rename(repo.beside("clone"), &repo.root).unwrap();
    repo.git(["config", "user.name", "A Person"]);
    repo.git(["config", "user.email", "person@example.org"]);
    works(&repo).await;
}

#[test]
fn partial_clones_are_refused() {
    let other = Repo::new();
    other.git(["config", "uploadpack.allowFilter", "true"]);
    let (url, clone) = (format!("file://{}", other.root.display()), other.beside("partial"));
    other.git(["clone", "-q", "--filter=blob:none", &url, clone.to_str().unwrap()]);
    refused(&clone, "clone it again without --filter");
}

#[test]
fn sha256_is_refused() {
    let repo = Repo::empty();
    git(&repo.beside(""), ["init", "-q", "--object-format=sha256", "sha256"]);
    refused(&repo.beside("sha256"), "sha1");
}

#[test]
fn reftable_is_refused() {
    let repo = Repo::empty();
    let made = run(&repo.beside(""), ["init", "-q", "--ref-format=reftable", "reftable"]);
    if !made.status.success() {
        eprintln!("SKIPPED reftable: this git is older than 2.45");
        return;
    }
    refused(&repo.beside("reftable"), "git refs migrate --ref-format=files");
}

/// Worktrees of the person with relative paths, as git 2.48 makes them, are checkouts like others.
#[tokio::test]
async fn relative_worktrees() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "-b", "elsewhere"]);
    repo.git(["worktree", "add", "-q", "../beside", "main"]);
    let admin = repo.root.join(".git/worktrees/beside");
    fs::write(repo.beside("beside").join(".git"), "gitdir: ../project/.git/worktrees/beside\n").unwrap();
    fs::write(admin.join("gitdir"), "../../../../beside/.git\n").unwrap();
    git(&repo.beside("beside"), ["status"]);
    let workspace = repo.workspace();
    let request = watchfire_core::workspace::OpenRequest::new(
        crate::support::steps::key(1),
        watchfire_core::model::Attempt(1),
    );
    let opened =
        watchfire_core::workspace::Workspace::open(&workspace, &request.with_target("main")).await.unwrap();
    fs::write(opened.cwd.join("work"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(fs::read_to_string(repo.beside("beside").join("work")).unwrap(), "work\n");
    assert_eq!(git(&repo.beside("beside"), ["status", "--porcelain"]), "");
}
