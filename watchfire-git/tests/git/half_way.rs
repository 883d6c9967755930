//! Publications that fail while they write: nothing moves, or it heals.

use std::fs;
use std::path::Path;
use std::process::Command;

use watchfire_core::workspace::{ObstacleKind, PublishRequest, Published, Workspace};
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::steps::{candidate, capture, open, publish};
use crate::support::{Repo, run};

/// Runs the ignored test `name` of this file in a process of its own; what it does to its environment ends with it.
pub(crate) fn child(name: &str, set_up: &str, repo: &Repo, env: &[(&str, &str)]) -> std::process::Output {
    child_of(&format!("half_way::{name}"), set_up, repo, env)
}

/// Does the same for a test of any file.
pub(crate) fn child_of(test: &str, set_up: &str, repo: &Repo, env: &[(&str, &str)]) -> std::process::Output {
    let name = test;
    let test = std::env::current_exe().unwrap();
    let script = format!("{set_up} exec \"$0\" --ignored --exact {name} --nocapture");
    let mut command = if set_up.is_empty() {
        let mut command = Command::new("sh");
        command.arg("-c");
        command
    } else {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        command
    };
    command.arg(script).arg(test).env("WATCHFIRE_TEST_ROOT", &repo.root).envs(env.iter().copied());
    command.output().unwrap()
}

/// The root that [`child`] names, for its process only.
pub(crate) fn root() -> Option<std::path::PathBuf> {
    std::env::var_os("WATCHFIRE_TEST_ROOT").map(Into::into)
}

pub(crate) fn nothing_of_ours(root: &Path) {
    assert!(!root.join(".git/index.lock").exists(), "a lock is left");
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name();
            assert!(!name.as_encoded_bytes().starts_with(b".wf-"), "{name:?} is left");
            if entry.file_type().unwrap().is_dir() && name != ".git" && name != ".watchfire" {
                pending.push(entry.path());
            }
        }
    }
}

pub(crate) async fn work(workspace: &GitWorkspace) {
    let opened = open(workspace, 1).await;
    fs::create_dir_all(opened.cwd.join("new/folder")).unwrap();
    fs::write(opened.cwd.join("new/folder/file"), "new\n").unwrap();
    fs::write(opened.cwd.join("a file.txt"), "changed\n").unwrap();
    fs::remove_file(opened.cwd.join("goes")).unwrap();
    capture(workspace, 1).await;
}

pub(crate) fn repository() -> Repo {
    let repo = Repo::new();
    repo.write("goes", "goes\n");
    repo.commit("more");
    repo
}

#[tokio::test]
async fn a_full_disk_moves_nothing() {
    let repo = Repo::new();
    let mount = "mkdir -p \"$WATCHFIRE_TEST_ROOT/../disk\" && \
                 mount -t tmpfs -o size=16m none \"$WATCHFIRE_TEST_ROOT/../disk\" || exit 77; ";
    let output = child("on_a_small_disk", mount, &repo, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare") {
        eprintln!("SKIPPED: a small disk cannot be mounted here: {said}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
#[ignore = "started by the other test, where a small disk is mounted"]
async fn on_a_small_disk() {
    let Some(root) = root() else { return };
    let root = root.parent().unwrap().join("disk").canonicalize().unwrap();
    let git = |args: &[&str]| crate::support::git(&root, args);
    git(&["init", "-q", "-b", "main"]);
    git(&["config", "user.name", "A Person"]);
    git(&["config", "user.email", "person@example.org"]);
    fs::write(root.join(".gitignore"), ".watchfire/\nfiller\n").unwrap();
    fs::write(root.join("old"), "old\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let workspace = GitWorkspace::open(&root, GitOptions::default()).unwrap();
    let opened = open(&workspace, 1).await;
    for n in 0..3 {
        // Compresses to nothing: the repository has room for it, the checkout has not.
        fs::write(opened.cwd.join(format!("large {n}")), vec![b'a' + n; 1 << 20]).unwrap();
    }
    fs::write(opened.cwd.join("old"), "changed\n").unwrap();
    capture(&workspace, 1).await;
    let candidate = candidate(&workspace, 1).await;
    let main = git(&["rev-parse", "main"]);
    let free = || {
        let stat = rustix::fs::statvfs(&root).unwrap();
        stat.f_bavail * stat.f_frsize
    };
    for room in [2 << 20, 40 << 10, 0] {
        let filler = (free() as usize).saturating_sub(room);
        fs::write(root.join("filler"), vec![1; filler]).unwrap();
        let published = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
        let Published::Held(obstacle) = &published else { panic!("{room}: {published:?}") };
        assert_eq!(obstacle.kind, ObstacleKind::OutOfSpace, "{room}: {obstacle:?}");
        fs::remove_file(root.join("filler")).unwrap();
        assert_eq!(git(&["rev-parse", "main"]), main, "{room}");
        assert_eq!(git(&["status", "--porcelain"]), "", "{room}");
        nothing_of_ours(&root);
    }
    let published = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    assert_eq!(git(&["status", "--porcelain"]), "");
    nothing_of_ours(&root);
}

#[tokio::test]
async fn a_tree_that_cannot_be_written_moves_nothing() {
    let repo = repository();
    repo.write("locked/file", "old\n");
    repo.commit("locked");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("locked/file"), "changed\n").unwrap();
    fs::write(opened.cwd.join("a file.txt"), "changed\n").unwrap();
    capture(&workspace, 1).await;
    let set = |flag: &str| {
        let output = Command::new("chattr").arg(flag).arg(repo.root.join("locked")).output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_root = rustix::process::geteuid().is_root();
    let chmod = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(repo.root.join("locked"), mode).unwrap();
    };
    // Nothing keeps root from writing but a mark on the folder.
    match is_root {
        true if !set("+i") => {
            eprintln!("SKIPPED: the file system has no immutable folders, and root writes to all others");
            return;
        }
        true => {}
        false => chmod(0o555),
    }
    let main = repo.git(["rev-parse", "main"]);
    let published = publish(&workspace, 1).await;
    let status = repo.git(["status", "--porcelain"]);
    if is_root {
        assert!(set("-i"))
    } else {
        chmod(0o755)
    }
    let Published::Held(obstacle) = &published else { panic!("{published:?}") };
    assert_eq!(obstacle.kind, ObstacleKind::ReadOnly, "{obstacle:?}");
    assert_eq!((repo.git(["rev-parse", "main"]), status.as_str()), (main, ""));
    nothing_of_ours(&repo.root);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[tokio::test]
#[ignore = "started by the others, with a place that fails"]
async fn publishing() {
    let Some(root) = root() else { return };
    let workspace = GitWorkspace::open(&root, GitOptions::default()).unwrap();
    let published = publish(&workspace, 1).await;
    println!("{published:?}");
}

#[tokio::test]
#[ignore = "started by the others, to be killed"]
async fn capturing() {
    let Some(root) = root() else { return };
    capture(&GitWorkspace::open(&root, GitOptions::default()).unwrap(), 1).await;
}

#[tokio::test]
async fn what_fails_after_the_target_moved_is_taken_back() {
    for place in ["bring", "bring last", "index"] {
        let repo = repository();
        let workspace = repo.workspace();
        work(&workspace).await;
        let main = repo.git(["rev-parse", "main"]);
        let output = child("publishing", "", &repo, &[("WATCHFIRE_FAIL_AT", place)]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("Held(Obstacle { kind: OutOfSpace"), "{place}: {said}");
        assert_eq!(repo.git(["rev-parse", "main"]), main, "{place}");
        assert_eq!(repo.git(["status", "--porcelain"]), "", "{place}");
        nothing_of_ours(&repo.root);
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }), "{place}");
        assert_eq!(repo.git(["status", "--porcelain"]), "", "{place}");
    }
}

#[tokio::test]
async fn what_cannot_be_taken_back_heals_also_without_its_lock() {
    for (removes_lock, commits) in [(false, false), (true, false), (true, true)] {
        let repo = repository();
        let workspace = repo.workspace();
        work(&workspace).await;
        let env = [("WATCHFIRE_FAIL_AT", "index"), ("WATCHFIRE_FAIL_ALSO", "undo")];
        let output = child("publishing", "", &repo, &env);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("Incomplete(Obstacle { kind: OutOfSpace"), "{said}");
        assert!(repo.root.join(".git/index.lock").exists());
        if removes_lock {
            fs::remove_file(repo.root.join(".git/index.lock")).unwrap();
        }
        if commits {
            // The index has the merge before HEAD has it, so that a plain commit does not take it back.
            assert!(!run(&repo.root, ["commit", "-qm", "mine"]).status.success());
            repo.git(["read-tree", "HEAD~1"]);
            repo.git(["commit", "-qm", "mine"]);
        }
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.incomplete.is_empty(), "{recovery:?}");
        assert_eq!(recovery.completed.len(), 1);
        // What the commit took back by mistake is named.
        assert_eq!(recovery.attention.len(), usize::from(commits), "{recovery:?}");
        nothing_of_ours(&repo.root);
        if !commits {
            assert_eq!(repo.git(["status", "--porcelain"]), "");
            assert_eq!(repo.read("new/folder/file"), "new\n");
            assert!(!repo.root.join("goes").exists());
        }
        repo.fsck();
    }
}

/// The target is checked out on another disk than the repository, so that contents wait there.
#[tokio::test]
async fn a_checkout_on_another_disk_shows_nothing_of_ours() {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    let Some(disk) = tempfile::tempdir_in("/dev/shm").ok() else {
        eprintln!("SKIPPED: /dev/shm is not available here");
        return;
    };
    for at in ["", "stage: written", "file: linked", "publication: files brought", "publication: released"] {
        let repo = repository();
        if device(&repo.root).unwrap() == device(disk.path()).unwrap() {
            eprintln!("SKIPPED: a second disk is not available here");
            return;
        }
        let checkout = disk.path().join(format!("checkout {at}"));
        repo.git(["checkout", "-q", "-b", "elsewhere"]);
        repo.git(["worktree", "add", "-q", checkout.to_str().unwrap(), "main"]);
        let workspace = repo.workspace();
        let request = watchfire_core::workspace::OpenRequest::new(
            crate::support::steps::key(1),
            watchfire_core::model::Attempt(1),
        );
        let opened = workspace.open(&request.with_target("main")).await.unwrap();
        fs::create_dir_all(opened.cwd.join("new/folder")).unwrap();
        fs::write(opened.cwd.join("new/folder/file"), "new\n").unwrap();
        fs::write(opened.cwd.join("a file.txt"), "changed\n").unwrap();
        capture(&workspace, 1).await;
        let output = child("publishing", "", &repo, &[("WATCHFIRE_KILL_AT", at)]);
        assert_eq!(output.status.success(), at.is_empty(), "{at}: {output:?}");
        nothing_of_ours(&checkout);
        let untracked = crate::support::git(&checkout, ["ls-files", "--others", "--exclude-standard"]);
        assert!(untracked.lines().all(|path| path == "new/folder/file"), "{at}: {untracked}");
        let recovery = workspace.recover().await.unwrap();
        if !recovery.undone.is_empty() {
            assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }), "{at}");
        }
        assert_eq!(crate::support::git(&checkout, ["status", "--porcelain"]), "", "{at}");
        assert_eq!(fs::read_to_string(checkout.join("a file.txt")).unwrap(), "changed\n", "{at}");
        assert!(!checkout.join(".watchfire").exists(), "{at}");
        nothing_of_ours(&checkout);
    }
}
