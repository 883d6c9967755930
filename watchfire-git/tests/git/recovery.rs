//! Killed anywhere: the next start completes or undoes, and nothing is lost.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    BranchStatus, Merge, MergeRequest, OpenRequest, PublishRequest, RemoveRequest, Workspace,
};
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::steps::{candidate, capture, key, open, open_isolated, prepare};
use crate::support::{Repo, git, inside};

/// Everything that is done to a repository, in a way that may be repeated from the start.
async fn live(root: &Path, log: &Path) {
    let wrote = |path: PathBuf, content: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{content}").unwrap();
    };
    let workspace = GitWorkspace::open(root, GitOptions::default()).unwrap();
    workspace.recover().await.unwrap();
    workspace.keep_ready(1).await.unwrap();
    let opened = open(&workspace, 1).await;
    // For the tree that is to be verified.
    workspace.keep_ready(1).await.unwrap();
    wrote(opened.cwd.join("folder/new"), "new work");
    wrote(opened.cwd.join("a file.txt"), "changed work");
    wrote(opened.cwd.join("lines.crlf"), "converted\nwork\n");
    _ = fs::remove_file(opened.cwd.join("goes"));
    capture(&workspace, 1).await;
    if let Merge::Ready(_) = prepare(&workspace, 1).await {
        let candidate = candidate(&workspace, 1).await;
        drop(workspace.checkout(&candidate).await.unwrap());
        workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
    }
    workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
    stacked(&workspace, &wrote).await;
    let opened = open_isolated(&workspace, 2).await;
    wrote(opened.cwd.join("committed"), "committed work");
    inside(root, 2, ["add", "committed"]);
    inside(root, 2, ["commit", "-qm", "inside", "--allow-empty"]);
    // Taken back: only its log has this one.
    wrote(opened.cwd.join("committed"), "taken back work");
    inside(root, 2, ["commit", "-qam", "slip", "--allow-empty"]);
    inside(root, 2, ["reset", "-q", "--hard", "HEAD~1"]);
    capture(&workspace, 2).await;
    wrote(opened.cwd.join("uncommitted"), "uncommitted work");
    let fresh = OpenRequest::new(key(2), Attempt(2)).with_fresh(true);
    let opened = workspace.open(&fresh).await.unwrap();
    wrote(opened.cwd.join("second try"), "second work");
    workspace.remove(&RemoveRequest::new(key(2)).with_discard(true)).await.unwrap();
    workspace.prune().await.unwrap();
}

/// Two tasks published as one.
async fn stacked(workspace: &GitWorkspace, wrote: &impl Fn(PathBuf, &str)) {
    for n in [3, 4] {
        let opened = open(workspace, n).await;
        wrote(opened.cwd.join(format!("stacked {n}")), &format!("work {n}"));
        capture(workspace, n).await;
    }
    let request = |n| MergeRequest::new(key(n), "main", format!("stacked {n}"));
    let publish = async |candidate| workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
    if let Merge::Ready(below) = workspace.prepare_merge(&request(3)).await.unwrap() {
        let above = workspace.prepare_merge(&request(4).with_onto(below.clone())).await.unwrap();
        let Merge::Ready(above) = above else { panic!("{above:?}") };
        publish(above).await;
        publish(below).await;
    }
    for n in [3, 4] {
        workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "started by the other test, in a process to be killed"]
async fn child() {
    let Some(root) = std::env::var_os("WATCHFIRE_TEST_ROOT") else { return };
    let log = std::env::var_os("WATCHFIRE_TEST_LOG").unwrap();
    live(Path::new(&root), Path::new(&log)).await;
}

fn run_child(repo: &Repo, kill_at: Option<u32>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "recovery::child", "--nocapture"])
        .env("WATCHFIRE_TEST_ROOT", &repo.root)
        .env("WATCHFIRE_TEST_LOG", repo.beside("log"))
        .stdout(Stdio::null());
    if let Some(n) = kill_at {
        command.env("WATCHFIRE_KILL_AT", n.to_string());
    }
    command.status().unwrap().success()
}

fn repository() -> Repo {
    let repo = Repo::new();
    repo.write("goes", "goes\n");
    repo.write(".gitattributes", "*.crlf eol=crlf\n");
    repo.write("mine", "mine\n");
    repo.write("staged", "staged\n");
    repo.commit("more");
    repo.write("mine", "edited\n");
    repo.write("staged", "edited\n");
    repo.git(["add", "staged"]);
    repo.write("untracked", "untracked\n");
    repo
}

const EDITS: &str = " M mine\nM  staged\n?? untracked\n";

fn nothing_is_lost(repo: &Repo, at: u32) {
    assert!(!repo.root.join(".git/index.lock").exists(), "point {at}: a lock is left");
    assert_eq!(repo.git(["status", "--porcelain"]), EDITS, "point {at}");
    let mut all = repo.git(["log", "--all", "-p", "--format=%H"]);
    for task in fs::read_dir(repo.root.join(".watchfire/worktrees")).into_iter().flatten() {
        let folder = task.unwrap().path();
        for name in [
            "folder/new",
            "a file.txt",
            "committed",
            "uncommitted",
            "second try",
            "lines.crlf",
            "stacked 3",
            "stacked 4",
        ] {
            all += &fs::read_to_string(folder.join(name)).unwrap_or_default();
        }
    }
    for written in fs::read_to_string(repo.beside("log")).unwrap_or_default().lines() {
        assert!(all.contains(written), "point {at}: {written:?} is lost");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Cleans up as an orchestrator does; then only work that is not merged has a branch, a folder, or anything else.
async fn nothing_stays(repo: &Repo, workspace: &GitWorkspace, at: u32) {
    for branch in workspace.list().await.unwrap() {
        if branch.status != BranchStatus::Unmerged {
            let task: u32 = branch.key.parse().unwrap();
            workspace.remove(&RemoveRequest::new(key(task))).await.unwrap();
        }
    }
    let pruned = workspace.prune().await.unwrap();
    assert!(pruned.kept.is_empty(), "point {at}: {pruned:?}");
    let open: Vec<_> = workspace.list().await.unwrap().into_iter().map(|branch| branch.key).collect();
    let state = repo.root.join(".git/watchfire");
    let logs = repo.root.join(".git/logs/refs/heads/watchfire");
    let bases = repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/watchfire/base"]);
    let mut left: Vec<_> = bases.lines().map(|name| ("base", name.to_owned())).collect();
    for (what, folder, prefix) in [
        ("folder", repo.root.join(".watchfire/worktrees"), ""),
        ("administration", repo.root.join(".git/worktrees"), "watchfire-"),
        ("copies", state.join("private"), ""),
        ("log", logs, ""),
    ] {
        let found = names(&folder).into_iter();
        left.extend(found.map(|name| (what, name.trim_start_matches(prefix).to_owned())));
    }
    left.retain(|(_, name)| name != ".keep" && !open.contains(name));
    for (what, folder) in [
        ("scratch folder", repo.root.join(".watchfire/scratch")),
        ("scratch lock", state.join("scratch")),
        ("temporary", state.join("tmp")),
        ("ready", state.join("ready")),
    ] {
        left.extend(names(&folder).into_iter().map(|name| (what, name)));
    }
    for admin in names(&repo.root.join(".git/worktrees")) {
        let found = names(&repo.root.join(".git/worktrees").join(admin)).into_iter();
        let odd = found.filter(|name| name.starts_with('.') || name.ends_with(".lock"));
        left.extend(odd.map(|name| ("in an administration", name)));
    }
    assert!(left.is_empty(), "point {at}: left over, beside the work on {open:?}: {left:?}");
}

/// A kill within libgit2 leaves its lock on a reference.
#[tokio::test]
async fn locks_on_our_references_do_not_outlive_their_process() {
    let repo = repository();
    for lock in ["refs/watchfire/base/0001.lock", "refs/watchfire/rescue/0001/1.lock"] {
        let path = repo.root.join(".git").join(lock);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
    }
    // Locks are told by their age.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let workspace = repo.workspace();
    let young = repo.root.join(".git/refs/watchfire/base/0002.lock");
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&young, "").unwrap();
    workspace.recover().await.unwrap();
    open(&workspace, 1).await;
    assert!(young.exists(), "somebody of ours holds it now");
}

#[tokio::test]
async fn a_kill_at_any_point_is_completed_or_undone() {
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let mut points = 0;
    let mut tried = 0;
    let mut at = 1;
    loop {
        let repo = repository();
        let survived = run_child(&repo, Some(at));
        let workspace = repo.workspace();
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.attention.is_empty(), "point {at}: {recovery:?}");
        nothing_is_lost(&repo, at);
        // The others go on from what the kill left.
        if tried % 2 == 0 {
            nothing_stays(&repo, &workspace, at).await;
            nothing_is_lost(&repo, at);
        }
        assert!(run_child(&repo, None), "point {at}: the second run failed");
        nothing_is_lost(&repo, at);
        assert_eq!(repo.read("folder/new"), "new work");
        assert_eq!(repo.read("lines.crlf"), "converted\r\nwork\r\n", "point {at}");
        assert_eq!(
            repo.git(["log", "--format=%s", "--grep=^merge$", "main"]),
            "merge\n",
            "point {at}: not merged once"
        );
        for n in [3, 4] {
            let merges = repo.git(["log", "--format=%s", &format!("--grep=^stacked {n}$"), "main"]);
            assert_eq!(merges, format!("stacked {n}\n"), "point {at}: not merged once");
        }
        assert_eq!(git(&repo.root, ["for-each-ref", "refs/heads/watchfire"]), "", "point {at}");
        for folder in [".watchfire/worktrees", ".git/watchfire/ready"] {
            assert_eq!(fs::read_dir(repo.root.join(folder)).unwrap().count(), 0, "point {at}: {folder}");
        }
        nothing_stays(&repo, &workspace, at).await;
        repo.fsck();
        tried += 1;
        if survived {
            break;
        }
        points = at;
        // A prime step meets different steps of different loops.
        at += if long { 1 } else { 13 };
    }
    eprintln!("killed at {tried} of about {points} points");
    assert!(points > 60, "only {points} points were reached");
}

/// The git of an agent that shares the repository was killed in the midst of a commit.
#[tokio::test]
async fn a_lock_of_a_killed_agent_does_not_outlive_its_session() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let lock = repo.root.join(".git/packed-refs.lock");
    fs::write(&lock, "").unwrap();
    fs::write(opened.cwd.join("new"), "work").unwrap();
    capture(&workspace, 1).await;
    assert!(!lock.exists(), "the lock is left");

    fs::write(&lock, "").unwrap();
    workspace.recover().await.unwrap();
    assert!(!lock.exists(), "the lock is left at the next start");

    // Somebody is writing behind it.
    fs::write(&lock, "").unwrap();
    fs::write(repo.root.join(".git/packed-refs.new"), "").unwrap();
    fs::write(opened.cwd.join("new"), "more work").unwrap();
    capture(&workspace, 1).await;
    workspace.recover().await.unwrap();
    assert!(lock.exists(), "a lock that is held is gone");
}

/// What git itself would never remove.
fn garbage(repo: &Repo) -> Vec<String> {
    let counts = repo.git(["count-objects", "-v"]);
    assert!(counts.contains("garbage: 0\n"), "{counts}");
    let mut pending = vec![repo.root.join(".git")];
    let mut found = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(".wf-") || name.contains("git2") {
                found.push(name);
            } else if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_pack_that_was_being_written_does_not_outlive_its_process() {
    for at in ["pack: growing", "pack: moved"] {
        for isolated in [false, true] {
            let repo = Repo::new();
            let workspace = repo.workspace();
            let opened = match isolated {
                true => open_isolated(&workspace, 1).await,
                false => open(&workspace, 1).await,
            };
            for n in 0..300 {
                fs::write(opened.cwd.join(format!("file {n}")), format!("content {n}")).unwrap();
            }
            if isolated {
                inside(&repo.root, 1, ["add", "."]);
                inside(&repo.root, 1, ["commit", "-qm", "work"]);
            }
            let env = [("WATCHFIRE_KILL_AT", at)];
            let output = crate::half_way::child("capturing", "", &repo, &env);
            // libgit2 writes the pack of an import in one call.
            assert_eq!(output.status.success(), isolated && at == "pack: growing", "{at}: {output:?}");
            let workspace = repo.workspace();
            workspace.recover().await.unwrap();
            assert_eq!(garbage(&repo), [""; 0], "{at}");
            capture(&workspace, 1).await;
            assert_eq!(repo.git(["show", "watchfire/0001:file 299"]), "content 299");
            assert_eq!(garbage(&repo), [""; 0], "{at}");
            repo.fsck();
        }
    }
}

/// A kill in the midst of a write leaves the unfinished file.
#[tokio::test]
async fn unfinished_files_of_ours_do_not_outlive_their_process() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open(&workspace, 1).await;
    let mut ended = Command::new("true").spawn().unwrap();
    let dead = ended.id();
    ended.wait().unwrap();
    for folder in ["", "publish", "work", "scratch"] {
        let folder = repo.root.join(".git/watchfire").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!(".wf-new-{dead}-0-0")), "unfinished").unwrap();
    }
    let living = repo.root.join(format!(".git/watchfire/work/.wf-new-{}-0-0", std::process::id()));
    fs::write(&living, "unfinished").unwrap();
    workspace.recover().await.unwrap();
    assert!(living.exists(), "its process lives");
    fs::remove_file(living).unwrap();
    assert_eq!(garbage(&repo), [""; 0]);
}
