//! `init` adds its line, and sweeps in nothing of the person's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use watchfire_git::init::init;
use watchfire_git::{GitOptions, Identity};

use crate::support::{Repo, git};

fn options() -> GitOptions {
    GitOptions::default()
}

#[test]
fn a_folder_becomes_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "").unwrap();
    let options = options().with_fallback(Identity::new("Somebody", "somebody@example.org"));
    let done = init(folder.path(), true, &options).unwrap();
    assert!(done.created && done.ignored && done.commit.is_some(), "{done:?}");
    assert_eq!(git(folder.path(), ["status", "--porcelain"]), "?? mine\n");
    assert_eq!(git(folder.path(), ["show", "HEAD:.gitignore"]), ".watchfire/\n");
    assert_eq!(git(folder.path(), ["log", "--format=%s"]), "chore: add .watchfire to gitignore\n");
    let again = init(folder.path(), true, &options).unwrap();
    assert!(!again.created && !again.ignored && again.commit.is_none(), "{again:?}");
    assert!(!folder.path().join(".git/hooks").join("pre-commit.sample").exists());
}

#[test]
fn it_is_ignored_on_every_branch() {
    let repo = Repo::empty();
    repo.write("x", "");
    repo.commit("first");
    repo.write(".git/info/exclude", "mine");
    repo.git(["checkout", "-qb", "feature"]);
    init(&repo.root, true, &options()).unwrap().commit.unwrap();
    repo.write(".watchfire/project.yaml", "");
    repo.git(["checkout", "-q", "main"]);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    init(&repo.root, false, &options()).unwrap();
    assert_eq!(repo.read(".git/info/exclude"), "mine\n.watchfire/\n");
}

#[test]
fn the_commit_is_one_line_and_nothing_runs() {
    let repo = Repo::empty();
    repo.write(".gitignore", "target\r\n");
    repo.write("a", "a\n");
    repo.write("b", "b\n");
    repo.commit("first");
    for hook in ["pre-commit", "commit-msg", "post-commit", "reference-transaction"] {
        repo.write(format!(".git/hooks/{hook}"), "#!/bin/sh\nexit 1\n");
        fs::set_permissions(repo.root.join(".git/hooks").join(hook), PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    repo.write("a", "staged\n");
    repo.git(["add", "a"]);
    repo.write("a", "and edited\n");
    repo.write("b", "edited\n");
    repo.write("c", "untracked\n");
    let before = repo.git(["status", "--porcelain=v2"]);
    let done = init(&repo.root, true, &options()).unwrap();
    assert_eq!(repo.git(["rev-parse", "HEAD"]).trim(), done.commit.unwrap().as_str());
    assert_eq!(repo.git(["status", "--porcelain=v2"]), before);
    assert_eq!(repo.git(["show", "--numstat", "--format=%an"]), "A Person\n\n1\t0\t.gitignore\n");
    assert_eq!(repo.read(".gitignore"), "target\r\n.watchfire/\r\n");
    repo.fsck();
}

#[test]
fn edits_of_the_file_itself_stay_edits() {
    let repo = Repo::empty();
    repo.write(".gitignore", "one\n");
    repo.commit("first");
    repo.write(".gitignore", "one\nstaged\n");
    repo.git(["add", ".gitignore"]);
    repo.write(".gitignore", "one\nstaged\nunstaged");
    init(&repo.root, true, &options()).unwrap().commit.unwrap();
    assert_eq!(repo.git(["show", "HEAD:.gitignore"]), "one\n.watchfire/\n");
    assert_eq!(repo.git(["show", ":.gitignore"]), "one\nstaged\n.watchfire/\n");
    assert_eq!(repo.read(".gitignore"), "one\nstaged\nunstaged\n.watchfire/\n");
}

#[test]
fn without_a_commit_only_the_file_changes() {
    let repo = Repo::new();
    fs::remove_file(repo.root.join(".gitignore")).unwrap();
    repo.commit("no ignore file");
    let before = repo.git(["rev-parse", "HEAD"]);
    let done = init(&repo.root, false, &options()).unwrap();
    assert!(done.ignored && done.commit.is_none() && done.uncommitted.is_none());
    assert_eq!(repo.git(["rev-parse", "HEAD"]), before);
    assert_eq!(repo.git(["status", "--porcelain"]), "?? .gitignore\n");
}

#[test]
fn odd_states_commit_where_that_is_safe() {
    // No commit yet, something staged.
    let repo = Repo::empty();
    repo.write("staged", "");
    repo.git(["add", "staged"]);
    init(&repo.root, true, &options()).unwrap().commit.unwrap();
    assert_eq!(repo.git(["status", "--porcelain"]), "A  staged\n");
    // A detached HEAD moves; the branch does not.
    let repo = Repo::empty();
    repo.write("x", "");
    let first = repo.commit("first");
    repo.git(["checkout", "-q", "--detach"]);
    init(&repo.root, true, &options()).unwrap().commit.unwrap();
    assert_eq!(repo.git(["rev-parse", "main"]).trim(), first);
    assert_eq!(repo.git(["rev-parse", "HEAD^"]).trim(), first);
    // A merge under way is the person's.
    let repo = Repo::empty();
    repo.write("x", "");
    repo.commit("first");
    repo.write(".git/MERGE_HEAD", repo.git(["rev-parse", "HEAD"]));
    let done = init(&repo.root, true, &options()).unwrap();
    assert!(done.commit.is_none() && done.uncommitted.is_some(), "{done:?}");
    // Signed commits are not ours to make.
    let repo = Repo::empty();
    repo.write("x", "");
    repo.commit("first");
    repo.git(["config", "commit.gpgSign", "true"]);
    assert!(init(&repo.root, true, &options()).unwrap().uncommitted.is_some());
    // Bare, and inside.
    git(&repo.beside(""), ["clone", "-q", "--bare", "project", "bare.git"]);
    assert_eq!(init(repo.beside("bare.git"), true, &options()).unwrap_err().code(), "not_supported");
    fs::create_dir(repo.root.join("sub")).unwrap();
    assert_eq!(init(repo.root.join("sub"), true, &options()).unwrap_err().code(), "not_supported");
    assert!(!repo.root.join("sub/.gitignore").exists());
}

/// Runs [`adding_a_line`] in a process of its own, in which other git commands come between.
fn add_line(repo: &Repo, place: &str, path: &str) {
    let edits = format!("{place}\t1\t{}\tanother git\n", repo.root.join(path).display());
    let output = crate::half_way::child_of("init::adding_a_line", "", repo, &[("WATCHFIRE_EDITS", &edits)]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "started by the others, with edits of another process"]
fn adding_a_line() {
    let Some(root) = crate::half_way::root() else { return };
    init(root, true, &options()).unwrap();
}

#[test]
fn the_lock_of_another_git_stays() {
    let lock = ".git/index.lock";
    // It locks the index right after us.
    let repo = Repo::empty();
    repo.write("a", "a\n");
    repo.commit("first");
    add_line(&repo, "init: index in place", lock);
    assert_eq!(repo.read(lock), "another git");
    fs::remove_file(repo.root.join(lock)).unwrap();
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // A person has removed our lock, and another git has taken it.
    let repo = Repo::empty();
    repo.write("a", "a\n");
    repo.commit("first");
    add_line(&repo, "init: locked", lock);
    assert_eq!(repo.read(lock), "another git");
    assert_eq!(repo.git(["log", "--format=%s"]), "first\n");
}

#[test]
fn a_split_index_is_refused_before_anything_is_written() {
    let repo = Repo::empty();
    repo.write("x", "");
    repo.commit("first");
    repo.git(["update-index", "--split-index"]);
    let exclude = fs::read(repo.root.join(".git/info/exclude")).ok();
    let error = init(&repo.root, true, &options()).unwrap_err();
    assert!(
        error.detail("hint").unwrap().contains("git update-index --no-split-index"),
        "{}",
        error.report()
    );
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(fs::read(repo.root.join(".git/info/exclude")).ok(), exclude);
    repo.git(["update-index", "--no-split-index"]);
    init(&repo.root, true, &options()).unwrap().commit.unwrap();
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}
