//! Whatever an agent does in its folder: its work is found, nothing of it runs, and nothing outside is touched.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{OpenRequest, Published, RemoveRequest, Removed, Workspace};

use crate::support::steps::{candidate, capture, key, open, publish};
use crate::support::{Repo, git};

const AGENT: [&str; 4] = ["-c", "user.name=An Agent", "-c", "user.email=agent@example.org"];

pub(crate) fn agent(cwd: &Path, args: &[&str]) -> String {
    git(cwd, AGENT.iter().chain(args))
}

fn commit(cwd: &Path, name: &str, content: &str) -> String {
    fs::write(cwd.join(name), content).unwrap();
    agent(cwd, &["add", "-A"]);
    agent(cwd, &["commit", "-qm", name]);
    agent(cwd, &["rev-parse", "HEAD"]).trim().to_owned()
}

#[tokio::test]
async fn real_git_works_in_the_folder() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    assert_eq!(agent(&opened.cwd, &["status", "--porcelain"]), "");
    assert_eq!(agent(&opened.cwd, &["rev-parse", "--abbrev-ref", "HEAD"]).trim(), "watchfire/0001");
    let made = commit(&opened.cwd, "new", "work\n");
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.tip.unwrap().as_str(), made);
    assert_eq!((captured.committed, captured.commits), (None, 1));
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(repo.git(["worktree", "list"]).contains("locked"));
    repo.git(["worktree", "prune", "--expire=now"]);
    assert!(opened.cwd.join(".git").exists());
    repo.fsck();
}

#[tokio::test]
async fn captures_say_who_and_what_and_leave_a_clean_folder() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("staged"), "1\n").unwrap();
    agent(&opened.cwd, &["add", "staged"]);
    fs::write(opened.cwd.join("staged"), "2\n").unwrap();
    fs::write(opened.cwd.join("untracked"), "3\n").unwrap();
    fs::create_dir(opened.cwd.join("ignored")).unwrap();
    fs::write(opened.cwd.join("ignored/by rule"), "").unwrap();
    fs::write(opened.cwd.join("ignored/on purpose"), "4\n").unwrap();
    agent(&opened.cwd, &["add", "-f", "ignored/on purpose"]);
    let request = watchfire_core::workspace::CaptureRequest::new(key(1), "Capture\n\nof work\n")
        .with_trailer("Watchfire-Task", "0001")
        .with_trailer("Evil", "a\nb");
    let captured = workspace.capture(&request).await.unwrap();
    let names: Vec<_> = captured.paths.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["ignored/on purpose", "staged", "untracked"]);
    assert_eq!(agent(&opened.cwd, &["show", "HEAD:staged"]), "2\n");
    assert_eq!(agent(&opened.cwd, &["status", "--porcelain"]), "");
    let shown =
        agent(&opened.cwd, &["log", "-1", "--format=%an|%B|%(trailers:key=Watchfire-Task,valueonly)"]);
    assert!(
        shown.starts_with("Watchfire agent|Capture\n\nof work\n\nWatchfire-Task: 0001\nEvil: a b\n"),
        "{shown}"
    );
    assert!(shown.trim_end().ends_with("|0001"), "{shown}");
    let again = capture(&workspace, 1).await;
    assert_eq!((again.committed, again.commits, again.tip), (None, 1, captured.tip));
}

#[tokio::test]
async fn odd_files_arrive_as_they_are() {
    let repo = Repo::new();
    repo.write("was a file", "x\n");
    repo.write("moves", "content of some length\n");
    repo.commit("more");
    let secret = repo.beside("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "hush\n").unwrap();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let cwd = &opened.cwd;
    let odd = [
        &b"--help"[..],
        b"-x",
        b"new\nline",
        b"\xff\xfe",
        b"quote\"",
        "漢字".as_bytes(),
        b"back\\slash",
        b" ",
    ];
    for name in odd {
        fs::write(cwd.join(OsStr::from_bytes(name)), name).unwrap();
    }
    symlink(&secret, cwd.join("link to a folder")).unwrap();
    symlink("nowhere", cwd.join("dangling")).unwrap();
    fs::write(cwd.join("run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(cwd.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::remove_file(cwd.join("was a file")).unwrap();
    fs::create_dir(cwd.join("was a file")).unwrap();
    fs::write(cwd.join("was a file/in"), "y\n").unwrap();
    fs::rename(cwd.join("moves"), cwd.join("moved")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, cwd.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    fs::write(cwd.join("crlf.txt"), "a\r\nb\r\n").unwrap();
    fs::write(cwd.join("empty"), "").unwrap();
    capture(&workspace, 1).await;
    assert_eq!(agent(cwd, &["status", "--porcelain"]), "");
    let published = publish(&workspace, 1).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    for name in odd {
        assert_eq!(fs::read(repo.root.join(OsStr::from_bytes(name))).unwrap(), name);
    }
    assert_eq!(fs::read_link(repo.root.join("link to a folder")).unwrap(), secret);
    assert!(repo.git(["ls-tree", "HEAD", "run"]).starts_with("100755"));
    assert_eq!(repo.read("was a file/in"), "y\n");
    assert_eq!(repo.read("crlf.txt"), "a\r\nb\r\n");
    assert!(
        repo.git(["log", "-1", "-M", "--summary", "--format=", "main^2"]).contains("rename moves => moved")
    );
    assert!(!repo.git(["log", "-p", "--all"]).contains("hush"));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.fsck();
}

#[tokio::test]
async fn nothing_an_agent_planted_runs() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let cwd = &opened.cwd;
    let trap = repo.beside("trap");
    fs::write(&trap, format!("#!/bin/sh\necho $0 >> '{}'\ncat\n", repo.beside("sprung").display())).unwrap();
    fs::set_permissions(&trap, PermissionsExt::from_mode(0o755)).unwrap();
    let trap_path = trap.to_str().unwrap();
    // A repository of its own in place of the pointer, full of traps; also in the shared places, as if unconfined.
    let admin = repo.root.join(".git/worktrees/watchfire-0001");
    fs::remove_file(cwd.join(".git")).unwrap();
    agent(cwd, &["init", "-q", "."]);
    let config = format!(
        "[core]\n\tfsmonitor = {trap_path}\n\thooksPath = {}\n[filter \"x\"]\n\tclean = {trap_path}\n\tsmudge = {trap_path}\n\
         \trequired = true\n[diff]\n\texternal = {trap_path}\n[merge \"x\"]\n\tdriver = {trap_path}\n[gpg]\n\tprogram = {trap_path}\n",
        repo.beside("hooks").display(),
    );
    fs::create_dir(repo.beside("hooks")).unwrap();
    for hook in [
        "pre-commit",
        "post-commit",
        "post-checkout",
        "post-merge",
        "reference-transaction",
        "post-index-change",
    ] {
        fs::copy(&trap, repo.beside("hooks").join(hook)).unwrap();
        fs::copy(&trap, repo.root.join(".git/hooks").join(hook)).unwrap();
    }
    for place in [cwd.join(".git/config"), admin.join("config.worktree"), repo.root.join(".git/config")] {
        let old = fs::read_to_string(&place).unwrap_or_default();
        fs::write(&place, old + &config).unwrap();
    }
    fs::write(admin.join("commondir"), cwd.join(".git").to_str().unwrap()).unwrap();
    fs::write(cwd.join(".gitattributes"), "*.x filter=x merge=x diff=x\n").unwrap();
    fs::write(cwd.join("work.x"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let candidate = candidate(&workspace, 1).await;
    drop(workspace.checkout(&candidate).await.unwrap());
    publish(&workspace, 1).await;
    workspace.recover().await.unwrap();
    workspace.prune().await.unwrap();
    workspace.list().await.unwrap();
    workspace.open(&OpenRequest::new(key(1), Attempt(2))).await.unwrap();
    fs::write(cwd.join("work.x"), "more\n").unwrap();
    workspace.rescue(&key(1), Attempt(2)).await.unwrap().unwrap();
    workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(!repo.beside("sprung").exists(), "{}", fs::read_to_string(repo.beside("sprung")).unwrap());
    // The traps are real.
    workspace.open(&OpenRequest::new(key(2), Attempt(1))).await.unwrap();
    _ = crate::support::run(&repo.root, ["status"]);
    assert!(repo.beside("sprung").exists());
}

#[tokio::test]
async fn a_detached_or_rewritten_history_is_all_kept() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let cwd = &opened.cwd;
    let first = commit(cwd, "first", "1\n");
    agent(cwd, &["checkout", "-q", "--detach"]);
    let ahead = commit(cwd, "ahead", "2\n");
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.tip.unwrap().as_str(), ahead);
    assert_eq!(agent(cwd, &["symbolic-ref", "HEAD"]).trim(), "refs/heads/watchfire/0001");
    // Off to the side of its branch, and dirty.
    agent(cwd, &["checkout", "-q", "--detach", &first]);
    let side = commit(cwd, "side", "3\n");
    fs::write(cwd.join("dirty"), "4\n").unwrap();
    capture(&workspace, 1).await;
    for commit in [&first, &ahead, &side] {
        assert!(!repo.git(["for-each-ref", "--contains", commit]).is_empty(), "{commit} is lost");
    }
    assert_eq!(repo.git(["show", "watchfire/0001:dirty"]), "4\n");
    assert_eq!(agent(cwd, &["status", "--porcelain"]), "");
    repo.fsck();
}

#[tokio::test]
async fn a_broken_or_missing_index_costs_nothing_but_time() {
    for breakage in [&b"garbage"[..], b"DIRC\0\0\0\x02\xff\xff\xff\xff", b""] {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        fs::write(opened.cwd.join("new"), "work\n").unwrap();
        let index = repo.root.join(".git/worktrees/watchfire-0001/index");
        if breakage.is_empty() { fs::remove_file(index) } else { fs::write(index, breakage) }.unwrap();
        let captured = capture(&workspace, 1).await;
        assert_eq!(captured.paths.len(), 1, "{:?}", captured.paths);
        assert_eq!(agent(&opened.cwd, &["status", "--porcelain"]), "");
    }
}

#[tokio::test]
async fn a_repository_inside_is_neither_committed_nor_deleted() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let nested = opened.cwd.join("cloned");
    fs::create_dir(&nested).unwrap();
    agent(&nested, &["init", "-q"]);
    commit(&nested, "inside", "precious\n");
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["new"]);
    publish(&workspace, 1).await;
    let kept = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
    assert!(matches!(kept, Removed::Kept { .. }), "{kept:?}");
    let gone = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    let Removed::Gone { rescued: Some(rescued), .. } = gone else { panic!("{gone:?}") };
    assert_eq!(repo.git(["show", &format!("{}:cloned/inside", rescued.name)]), "precious\n");
    let aside = repo.root.join(".watchfire/worktrees/aside/0001-0001-1/cloned");
    assert_eq!(git(&aside, ["log", "--format=%s"]).trim(), "inside");
    assert_eq!(workspace.recover().await.unwrap().attention.len(), 1);
}

#[tokio::test]
async fn a_deleted_branch_is_named_as_the_reason_to_keep_its_folder() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    commit(&opened.cwd, "new", "work\n");
    agent(&opened.cwd, &["update-ref", "-d", "refs/heads/watchfire/0001"]);
    let kept = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
    let Removed::Kept { reason, .. } = kept else { panic!("{kept:?}") };
    assert_eq!(reason, "its branch is gone, so nothing in its folder counts as committed (1 file: new)");
}

#[tokio::test]
async fn hidden_from_its_own_index_is_not_hidden_from_us() {
    let repo = Repo::new();
    repo.write("b", "b\n");
    repo.write("c", "c\n");
    repo.commit("more");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    agent(&opened.cwd, &["update-index", "--assume-unchanged", "a file.txt"]);
    agent(&opened.cwd, &["update-index", "--skip-worktree", "b", "c"]);
    fs::write(opened.cwd.join("a file.txt"), "changed\n").unwrap();
    fs::write(opened.cwd.join("b"), "changed\n").unwrap();
    // As in a sparse checkout: absent on purpose.
    fs::remove_file(opened.cwd.join("c")).unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a file.txt", "b"]);
    assert_eq!(repo.git(["show", "watchfire/0001:c"]), "c\n");
}

#[tokio::test]
async fn a_branch_that_points_elsewhere_moves_nothing_of_the_person() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    let main = repo.git(["rev-parse", "main"]);
    let branch = repo.root.join(".git/refs/heads/watchfire/0001");
    fs::write(&branch, "ref: refs/heads/main\n").unwrap();
    let request = watchfire_core::workspace::CaptureRequest::new(key(1), "x");
    assert_eq!(workspace.capture(&request).await.unwrap_err().code(), "workspace_broken");
    fs::remove_file(&branch).unwrap();
    symlink("../main", &branch).unwrap();
    _ = workspace.capture(&request).await;
    let log = repo.root.join(".git/logs/refs/heads/watchfire/0001");
    let victim = repo.beside("victim");
    fs::write(&victim, "").unwrap();
    fs::remove_file(&log).unwrap();
    symlink(&victim, &log).unwrap();
    fs::write(opened.cwd.join("newer"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert_eq!(repo.git(["rev-parse", "main"]), main);
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[tokio::test]
async fn a_tree_that_would_escape_is_refused() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let blob = commit(&opened.cwd, "x", "evil\n");
    let blob = agent(&opened.cwd, &["rev-parse", &format!("{blob}:x")]);
    for name in [".git", "..", ".GIT"] {
        let tree = mktree(&opened.cwd, &format!("100644 blob {}\thooks\n", blob.trim()));
        // Before it, the same content at a harmless path.
        let entries = format!("100644 blob {}\t-a\n040000 tree {tree}\t{name}\n", blob.trim());
        let root = mktree(&opened.cwd, &entries);
        let made = agent(&opened.cwd, &["commit-tree", "-m", "evil", "-p", "HEAD", &root]);
        agent(&opened.cwd, &["update-ref", "refs/heads/watchfire/0001", made.trim()]);
        let request = watchfire_core::workspace::MergeRequest::new(key(1), "main", "merge");
        let refused = workspace.prepare_merge(&request).await;
        assert!(refused.is_err(), "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn watchfires_own_files_are_not_for_agents_to_commit() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    for name in [".watchfire/tasks/0050.yaml", ".Watchfire/project.yaml"] {
        let path = opened.cwd.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "status: ready\n").unwrap();
        agent(&opened.cwd, &["add", "-f", name]);
        agent(&opened.cwd, &["commit", "-q", "-m", "plant"]);
        let request = watchfire_core::workspace::MergeRequest::new(key(1), "main", "merge");
        let refused = workspace.prepare_merge(&request).await.unwrap_err();
        assert!(refused.to_string().contains("atchfire"), "{refused}");
        agent(&opened.cwd, &["reset", "-q", "--hard", "HEAD~1"]);
    }
}

#[tokio::test]
async fn a_branch_that_another_agent_made_is_not_taken_for_the_tasks_work() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let first = open(&workspace, 1).await;
    commit(&first.cwd, "planted", "evil\n");
    agent(&first.cwd, &["branch", "watchfire/0002", "HEAD"]);
    let second = open(&workspace, 2).await;
    assert!(!second.cwd.join("planted").exists());
    assert_eq!(second.rescued.len(), 1, "and it is kept: {:?}", second.rescued);
}

#[tokio::test]
async fn large_and_many_files_arrive() {
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let size = if long { 200 << 20 } else { 20 << 20 };
    let large: Vec<u8> = (0..size).map(|n: u32| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
    fs::write(opened.cwd.join("large"), &large).unwrap();
    let count = if long { 10_000 } else { 1_000 };
    for n in 0..count {
        let folder = opened.cwd.join(format!("many/{}", n % 37));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(n.to_string()), n.to_string()).unwrap();
    }
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.len(), count + 1);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(fs::read(repo.root.join("large")).unwrap(), large);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[tokio::test]
async fn damaged_or_missing_objects_are_refused() {
    for damage in ["missing", "garbage", "other content"] {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        let first = commit(&opened.cwd, "x", "content\n");
        commit(&opened.cwd, "x", "gone again\n");
        let blob = agent(&opened.cwd, &["rev-parse", &format!("{first}:x")]);
        let (head, tail) = blob.trim().split_at(2);
        let object = repo.root.join(".git/objects").join(head).join(tail);
        fs::set_permissions(&object, PermissionsExt::from_mode(0o644)).unwrap();
        match damage {
            "missing" => fs::remove_file(&object).unwrap(),
            "garbage" => fs::write(&object, "garbage").unwrap(),
            _ => {
                fs::write(opened.cwd.join("other"), "other\n").unwrap();
                let other = agent(&opened.cwd, &["hash-object", "-w", "other"]);
                let (head, tail) = other.trim().split_at(2);
                fs::copy(repo.root.join(".git/objects").join(head).join(tail), &object).unwrap();
            }
        }
        let request = watchfire_core::workspace::MergeRequest::new(key(1), "main", "merge");
        let refused = workspace.prepare_merge(&request).await;
        assert_eq!(refused.unwrap_err().code(), "workspace_broken", "{damage}");
    }
}

#[tokio::test]
async fn a_link_that_git_would_follow_is_refused() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    symlink("/etc/passwd", opened.cwd.join(".gitmodules")).unwrap();
    capture(&workspace, 1).await;
    let request = watchfire_core::workspace::MergeRequest::new(key(1), "main", "merge");
    assert_eq!(workspace.prepare_merge(&request).await.unwrap_err().code(), "workspace_broken");
}

/// Makes a tree without git's own checks.
pub(crate) fn mktree(cwd: &Path, listing: &str) -> String {
    use std::io::Write;
    let mut content = Vec::new();
    for line in listing.lines() {
        let (head, name) = line.split_once('\t').unwrap();
        let mut parts = head.split(' ');
        let (mode, id) = (parts.next().unwrap().trim_start_matches('0'), parts.nth(1).unwrap());
        content.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        content.extend((0..20).map(|at| u8::from_str_radix(&id[at * 2..at * 2 + 2], 16).unwrap()));
    }
    let mut child = std::process::Command::new("git")
        .args(["hash-object", "-t", "tree", "-w", "--stdin", "--literally"])
        .current_dir(cwd)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn an_agent_does_not_sign() {
    let repo = Repo::new();
    for key in ["commit.gpgSign", "tag.gpgSign"] {
        repo.git(["config", key, "true"]);
    }
    repo.git(["config", "gpg.program", "false"]);
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work").unwrap();
    for args in [&["add", "."][..], &["commit", "-qm", "work"], &["tag", "-m", "x", "x"]] {
        let mut git = std::process::Command::new("git");
        let output = git.args(args).current_dir(&opened.cwd).envs(opened.env.clone()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}
