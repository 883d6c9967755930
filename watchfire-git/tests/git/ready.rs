//! Folders kept ready: taken by a rename, brought up to date, and never one that anybody has touched.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{OpenRequest, Workspace};

use crate::support::steps::{candidate, capture, key, open, open_isolated};
use crate::support::{Repo, git};

fn ready(repo: &Repo) -> Vec<PathBuf> {
    let entries = fs::read_dir(repo.root.join(".git/watchfire/ready")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn inode(path: impl AsRef<Path>) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// A repository of all that a tree can hold.
fn repository() -> Repo {
    let repo = Repo::new();
    for name in ["folder/a", "folder/b", "folder.c", "folder-d/e/f", "goes/alone/x", "becomes", "stays/y"] {
        repo.write(name, format!("{name}\n"));
    }
    symlink("folder/a", repo.root.join("link")).unwrap();
    repo.commit("more");
    repo
}

fn is_as_committed(folder: &Path) {
    // As the index says, without another look at any file.
    assert_eq!(git(folder, ["diff-files", "--raw"]), "");
    assert_eq!(git(folder, ["diff-index", "--cached", "--raw", "HEAD"]), "");
    assert_eq!(git(folder, ["status", "--porcelain", "--ignored"]), "");
}

#[tokio::test]
async fn a_task_takes_a_folder_and_brings_it_up_to_date() {
    let repo = repository();
    let workspace = repo.workspace();
    workspace.keep_ready(1).await.unwrap();
    let [spare] = &ready(&repo)[..] else { panic!("{:?}", ready(&repo)) };
    let unchanged = inode(spare.join("files/stays/y"));
    assert_eq!(repo.git(["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    assert!(workspace.list().await.unwrap().is_empty());

    repo.write("folder/a", "changed\n");
    fs::remove_file(repo.root.join("becomes")).unwrap();
    repo.write("becomes/a/folder", "new\n");
    fs::remove_dir_all(repo.root.join("folder-d")).unwrap();
    repo.write("folder-d", "a file\n");
    fs::remove_dir_all(repo.root.join("goes")).unwrap();
    fs::remove_file(repo.root.join("link")).unwrap();
    symlink("elsewhere", repo.root.join("link")).unwrap();
    fs::set_permissions(repo.root.join("folder/b"), fs::Permissions::from_mode(0o755)).unwrap();
    let commit = repo.git(["rev-parse", "HEAD"]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{},module", commit.trim())]);
    fs::create_dir(repo.root.join("module")).unwrap();
    repo.git(["add", "folder", "becomes", "folder-d", "goes", "link"]);
    repo.git(["commit", "-qm", "moved on"]);

    let opened = open(&workspace, 1).await;
    assert_eq!(inode(opened.cwd.join("stays/y")), unchanged, "it was made again");
    assert!(opened.cwd.join("module").is_dir() && !opened.cwd.join("goes").exists());
    is_as_committed(&opened.cwd);
    assert!(ready(&repo).is_empty());

    // And back again.
    workspace.keep_ready(1).await.unwrap();
    repo.git(["reset", "-q", "--hard", "HEAD~1"]);
    let opened = open_isolated(&workspace, 2).await;
    is_as_committed(&opened.cwd);
    assert!(ready(&repo).is_empty());

    // What is merged is verified in one too.
    workspace.keep_ready(1).await.unwrap();
    fs::write(opened.cwd.join("stays/y"), "work\n").unwrap();
    capture(&workspace, 2).await;
    let candidate = candidate(&workspace, 2).await;
    let scratch = workspace.checkout(&candidate).await.unwrap();
    assert_eq!(fs::read(scratch.path().join("stays/y")).unwrap(), b"work\n");
    is_as_committed(scratch.path());
    assert!(ready(&repo).is_empty());
    repo.fsck();
}

#[tokio::test]
async fn one_that_somebody_touched_is_thrown_away() {
    type Touch = fn(&Path);
    let touches: [(&str, Touch); 8] = [
        ("a file written in place, with its size and time", |files| {
            let path = files.join("folder/a");
            let time = fs::metadata(&path).unwrap().modified().unwrap();
            fs::write(&path, "FOLDER/A\n").unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }),
        ("a file more", |files| fs::write(files.join("folder/new"), "").unwrap()),
        ("a folder more", |files| fs::create_dir(files.join("zzz")).unwrap()),
        ("a file less", |files| fs::remove_file(files.join("stays/y")).unwrap()),
        ("a mode", |files| {
            fs::set_permissions(files.join("folder/b"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("a link in place of a folder", |files| {
            fs::rename(files.join("folder"), files.parent().unwrap().join("moved")).unwrap();
            symlink("../moved", files.join("folder")).unwrap();
        }),
        ("its index", |files| fs::write(files.with_file_name("index"), "broken").unwrap()),
        ("its tree", |files| fs::remove_file(files.with_file_name("tree")).unwrap()),
    ];
    let repo = repository();
    let workspace = repo.workspace();
    for (n, (what, touch)) in (1..).zip(touches) {
        workspace.keep_ready(1).await.unwrap();
        let [spare] = &ready(&repo)[..] else { panic!("{what}: {:?}", ready(&repo)) };
        // Held open, so that nothing else can have its number.
        let held = fs::File::open(spare.join("files")).unwrap();
        touch(&spare.join("files"));
        let opened = open(&workspace, n).await;
        assert_ne!(inode(&opened.cwd), held.metadata().unwrap().ino(), "{what}");
        is_as_committed(&opened.cwd);
        assert!(ready(&repo).is_empty(), "{what}");
    }
}

#[tokio::test]
async fn they_go_when_nobody_wants_them() {
    let repo = repository();
    let workspace = repo.workspace();
    workspace.keep_ready(3).await.unwrap();
    assert_eq!(ready(&repo).len(), 3);
    workspace.keep_ready(1).await.unwrap();
    assert_eq!(ready(&repo).len(), 1);
    let pruned = workspace.prune().await.unwrap();
    assert!(pruned.removed.iter().any(|line| line.contains("kept ready")), "{pruned:?}");
    assert!(ready(&repo).is_empty());
    workspace.keep_ready(0).await.unwrap();
    assert!(workspace.prune().await.unwrap().removed.is_empty());
}

#[tokio::test]
async fn without_a_commit_or_a_branch_there_is_nothing_to_keep_or_all() {
    let repo = Repo::empty();
    let workspace = repo.workspace();
    workspace.keep_ready(1).await.unwrap();
    assert!(ready(&repo).is_empty());
    repo.write("a", "a\n");
    repo.commit("first");
    repo.git(["checkout", "-q", "--detach"]);
    workspace.keep_ready(1).await.unwrap();
    assert_eq!(ready(&repo).len(), 1);
    let request = OpenRequest::new(key(1), Attempt(1)).with_target("main");
    let opened = workspace.open(&request).await.unwrap();
    is_as_committed(&opened.cwd);
    assert!(ready(&repo).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_folder_has_one_taker() {
    let repo = repository();
    repo.workspace().keep_ready(4).await.unwrap();
    let opening: Vec<_> = (1..9)
        .map(|n| {
            // Each has its own, as in processes of their own.
            let workspace = repo.workspace();
            tokio::spawn(async move {
                let (opened, kept) = tokio::join!(open(&workspace, n), workspace.keep_ready(2));
                kept.unwrap();
                opened.cwd
            })
        })
        .collect();
    for opened in opening {
        is_as_committed(&opened.await.unwrap());
    }
    assert!(ready(&repo).len() <= 4);
    repo.fsck();
}
