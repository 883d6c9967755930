//! Files of an agent's that git or libgit2 would wait for, follow, or never be done with.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use watchfire_core::workspace::{LeftOutReason, MergeRequest, Published, RemoveRequest, Removed, Workspace};

use crate::agent::{agent, mktree};
use crate::support::steps::{capture, key, open, open_isolated, publish};
use crate::support::{Repo, git, run};

/// Ends the whole program where `work` does not end: a runtime waits for its blocking calls, so that a test that only panicked
/// would hang the suite.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), work).await {
        Ok(done) => done,
        Err(_) => {
            eprintln!("it hangs: {}", std::thread::current().name().unwrap_or_default());
            std::process::exit(101);
        }
    }
}

fn fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_in_place_of_an_ignore_file_hangs_nothing() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fifo(&opened.cwd.join("sub/.gitignore"));
    fifo(&opened.cwd.join("sub/.gitattributes"));
    fifo(&opened.cwd.join("pipe"));
    fs::create_dir(opened.cwd.join("linked")).unwrap();
    symlink("/dev/zero", opened.cwd.join("linked/.gitignore")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(opened.cwd.join("socket")).unwrap();
    for name in ["sub/y", "linked/y"] {
        fs::write(opened.cwd.join(name), "work").unwrap();
    }
    let captured = in_time(capture(&workspace, 1)).await;
    let mut left_out: Vec<_> =
        captured.left_out.iter().map(|left| (left.path.to_string(), left.reason)).collect();
    left_out.sort();
    let names = ["pipe", "socket", "sub/.gitattributes", "sub/.gitignore"];
    assert_eq!(left_out, names.map(|name| (name.to_owned(), LeftOutReason::Special)));
    // The link itself is refused when it would be merged, as before.
    fs::remove_file(opened.cwd.join("linked/.gitignore")).unwrap();
    capture(&workspace, 1).await;
    let tree = repo.git(["ls-tree", "-r", "--name-only", "watchfire/0001"]);
    assert!(tree.contains("sub/y") && tree.contains("linked/y"), "{tree}");
}

/// git reads a path, converts it and complains before it reads the next one.
#[tokio::test(flavor = "multi_thread")]
async fn very_many_complaints_of_git_hang_no_publication() {
    let repo = Repo::new();
    repo.write(".gitattributes", "long*.txt working-tree-encoding=UTF-16\n");
    repo.commit("attributes");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let blob = repo.beside("blob");
    fs::write(&blob, b"\xff\xfe\xfd").unwrap();
    let id = agent(&opened.cwd, &["hash-object", "-w", "--no-filters", blob.to_str().unwrap()]);
    let entries: String =
        (0..1500).map(|n| format!("100644 blob {}\t{}{n:04}.txt\n", id.trim(), "long ".repeat(20))).collect();
    let tree = mktree(&opened.cwd, &entries);
    let made = agent(&opened.cwd, &["commit-tree", "-m", "files", "-p", "HEAD", &tree]);
    agent(&opened.cwd, &["update-ref", "refs/heads/watchfire/0001", made.trim()]);
    // It complains, and writes them as they are.
    assert!(matches!(in_time(publish(&workspace, 1)).await, Published::Done { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beyond_the_limit_is_left_out() {
    let repo = Repo::new();
    repo.write("tracked", "small");
    repo.commit("tracked");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    for name in ["disk.img", "tracked"] {
        fs::File::create(opened.cwd.join(name)).unwrap().set_len(1 << 40).unwrap();
    }
    fs::write(opened.cwd.join("work"), "work").unwrap();
    let captured = in_time(capture(&workspace, 1)).await;
    let left_out: Vec<_> =
        captured.left_out.iter().map(|left| (left.path.to_string(), left.reason)).collect();
    assert_eq!(left_out, ["disk.img", "tracked"].map(|name| (name.to_owned(), LeftOutReason::TooLarge)));
    assert_eq!(captured.paths.len(), 1);
    assert!(matches!(in_time(publish(&workspace, 1)).await, Published::Done { .. }));
    assert_eq!((repo.read("work"), repo.read("tracked")), ("work".to_owned(), "small".to_owned()));
    let removed = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
    assert!(matches!(removed, Removed::Gone { .. }), "{removed:?}");
    assert!(repo.root.join(".watchfire/worktrees/aside/0001-0001-1/disk.img").exists());
    repo.fsck();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_git_refuses_and_folders_too_deep_are_left_out() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let write = |name: &str| {
        let path = opened.cwd.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "work").unwrap();
    };
    let refused = [".git ", ".g\u{200c}it", "GIT~1", "a/git~1", "a\\.git", "sub/.GIT:x"];
    for name in [&refused[..3], &["a/git~1"]].concat() {
        write(&format!("{name}/deep/er"));
    }
    for name in &refused[4..] {
        write(name);
    }
    // What no rule would commit is not named either.
    write("ignored/git~1/x");
    write("work");
    write("a/b");
    let deepest = vec!["d"; 200].join("/");
    write(&format!("{deepest}/last"));
    write(&format!("{deepest}/d/d/beyond"));
    let captured = in_time(capture(&workspace, 1)).await;
    let mut left_out: Vec<_> =
        captured.left_out.iter().map(|left| (left.path.as_bytes().to_vec(), left.reason)).collect();
    left_out.sort();
    let mut wanted: Vec<_> =
        refused.map(|name| (name.as_bytes().to_vec(), LeftOutReason::RefusedName)).to_vec();
    wanted.push((format!("{deepest}/d").into_bytes(), LeftOutReason::TooDeep));
    wanted.sort();
    assert_eq!(left_out, wanted);
    assert_eq!(captured.paths.len(), 3, "{:?}", captured.paths);
    // The same again: nothing is taken for a deletion.
    assert_eq!(capture(&workspace, 1).await.committed, None);
    assert!(matches!(in_time(publish(&workspace, 1)).await, Published::Done { .. }));
    assert_eq!((repo.read("work"), repo.read(&format!("{deepest}/last"))), ("work".into(), "work".into()));
    assert!(!repo.root.join("GIT~1").exists() && !repo.root.join("a/git~1").exists());
    let removed = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
    assert!(matches!(removed, Removed::Gone { .. }), "{removed:?}");
    assert!(repo.root.join(".watchfire/worktrees/aside/0001-0001-1/GIT~1/deep/er").exists());
    repo.fsck();
}

/// The agent's git had `core.protectNTFS` off: its commit is refused, and the capture neither fails nor takes it apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_name_in_a_commit_of_the_agents_stays_there() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::create_dir(opened.cwd.join("git~1")).unwrap();
    fs::write(opened.cwd.join("git~1/x"), "work").unwrap();
    agent(&opened.cwd, &["-c", "core.protectNTFS=false", "add", "-A"]);
    agent(&opened.cwd, &["-c", "core.protectNTFS=false", "commit", "-qm", "odd"]);
    fs::write(opened.cwd.join("git~1/x"), "edited").unwrap();
    fs::write(opened.cwd.join("work"), "work").unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["work"]);
    assert_eq!(captured.left_out.len(), 1);
    assert_eq!(repo.git(["cat-file", "blob", "watchfire/0001:git~1/x"]), "work");
    let request = MergeRequest::new(key(1), "main", "merge");
    let error = workspace.prepare_merge(&request).await.unwrap_err();
    assert!(error.report().contains("git~1/x"), "{}", error.report());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_explodes_costs_nothing() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join(".gitignore"), format!("{}b\n", "*a".repeat(60))).unwrap();
    fs::write(opened.cwd.join("a".repeat(200)), "work").unwrap();
    in_time(capture(&workspace, 1)).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(repo.root.join("a".repeat(200)).exists());
}

/// Merged by the person or an agent, these files are read at every later merge and publication.
#[tokio::test(flavor = "multi_thread")]
async fn patterns_in_the_checkout_that_explode_cost_nothing() {
    let repo = Repo::new();
    let long = "a".repeat(200);
    let pattern = "*a".repeat(60);
    repo.write(".gitattributes", format!("{pattern}b merge=union\n{pattern}b eol=crlf\n"));
    repo.write(".gitignore", format!("{pattern}b\n"));
    repo.write(&long, "1\n2\n3\n4\n5\n6\n7\n");
    repo.commit("patterns");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join(&long), "one\n2\n3\n4\n5\n6\n7\n").unwrap();
    fs::rename(opened.cwd.join(".gitignore"), opened.cwd.join("ignored")).unwrap();
    in_time(capture(&workspace, 1)).await;
    // The same file on both sides: its attribute decides how it is merged.
    repo.write(&long, "1\n2\n3\n4\n5\n6\nseven\n");
    repo.write(".gitignore", format!("{pattern}b\nx\n"));
    repo.commit("theirs");
    assert!(matches!(in_time(publish(&workspace, 1)).await, Published::Done { .. }));
    assert_eq!(repo.read(&long), "one\n2\n3\n4\n5\n6\nseven\n");
    repo.write(".gitignore", format!("{pattern}b\nx\n"));
    let asked = vec![long.into(), "x".into(), "x/y".into()];
    let ignored = in_time(workspace.ignored(asked)).await.unwrap();
    assert_eq!(ignored, ["x", "x/y"].map(std::path::PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifos_in_the_repository_hang_nothing() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    // Where an agent without private copies may write.
    let git = repo.root.join(".git");
    for name in ["refs/heads/watchfire/zz", "refs/heads/watchfire/deep/er", "logs/refs/heads/watchfire/zz"] {
        fifo(&git.join(name));
    }
    let blob = repo.git(["hash-object", "a file.txt"]);
    fs::write(opened.cwd.join("new"), "never stored\n").unwrap();
    let id = repo.git(["hash-object", opened.cwd.join("new").to_str().unwrap()]);
    let (folder, name) = id.trim().split_at(2);
    fifo(&git.join("objects").join(folder).join(name));
    assert_ne!(blob, id);
    let index = git.join("worktrees/watchfire-0001/index");
    fs::remove_file(&index).unwrap();
    fifo(&index);
    in_time(async {
        capture(&workspace, 1).await;
        workspace.list().await.unwrap();
        workspace.recover().await.unwrap();
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        workspace.prune().await.unwrap();
    })
    .await;
    repo.fsck();
}

#[tokio::test(flavor = "multi_thread")]
async fn fifos_in_private_copies_hang_nothing() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    let private = repo.private(1);
    for name in [
        "top/refs/heads/watchfire/zz",
        "top/refs/stash",
        "top/logs/refs/stash",
        "admin/MERGE_HEAD",
        "objects/pack/x.pack",
    ] {
        fifo(&private.join(name));
    }
    for name in ["admin/index", "admin/HEAD", "top/packed-refs"] {
        fs::remove_file(private.join(name)).unwrap();
        fifo(&private.join(name));
    }
    fs::write(opened.cwd.join("new"), "work").unwrap();
    in_time(async {
        capture(&workspace, 1).await;
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    })
    .await;
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ignored_is_what_git_ignores() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let mut random = Random(7);
    let parts = [
        "a",
        "b",
        "ab",
        "*",
        "**",
        "?",
        "[ab]",
        "[!a]",
        "/",
        "/",
        "!",
        "\\a",
        " ",
        "\\ ",
        ".x",
        "a.b",
        "[[:alpha:]]",
    ];
    let line = |random: &mut Random| {
        (0..=random.below(5)).map(|_| parts[random.below(parts.len())]).collect::<String>()
    };
    for n in 1..=12 {
        let opened = open(&workspace, n).await;
        fs::remove_file(opened.cwd.join(".gitignore")).unwrap();
        let folders = ["", "a", "b/ab", "a/b/a", "ab"].map(|folder| opened.cwd.join(folder));
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        for folder in folders {
            for name in ["a", "b", "ab", "a.b", "x.x", "a b", "x "] {
                if !folder.join(name).exists() {
                    fs::write(folder.join(name), "").unwrap();
                }
            }
            if random.below(2) == 0 {
                let lines: Vec<_> = (0..4).map(|_| line(&mut random)).collect();
                fs::write(folder.join(".gitignore"), lines.join("\n")).unwrap();
            }
        }
        let listed = git(&opened.cwd, ["ls-files", "-z", "--others", "--exclude-standard"]);
        let mut expected: Vec<_> = listed.split_terminator('\0').map(str::to_owned).collect();
        expected.push(".gitignore".to_owned());
        expected.sort();
        expected.dedup();
        let found = workspace.uncommitted(&crate::support::steps::key(n)).await.unwrap();
        let mut found: Vec<_> =
            found.iter().map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap()).collect();
        found.sort();
        let rules = run(&opened.cwd, ["grep", "--no-index", "-n", "", "--", "*.gitignore"]);
        assert_eq!(found, expected, "{n}: {}", String::from_utf8_lossy(&rules.stdout));
    }
}
