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
    let opened = GitWorkspace::open(root, GitOptions::default()).map(drop);
    let made_ready = watchfire_git::init::init(root, false, &GitOptions::default()).map(drop);
    for error in [opened, made_ready].map(Result::unwrap_err) {
        assert_eq!(error.code(), "not_supported", "{}", error.report());
        assert!(error.report().contains(cure), "{}", error.report());
    }
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
    repo.git(["config", "core.splitIndex", "true"]);
    repo.git(["update-index", "--split-index"]);
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    fs::write(opened.cwd.join("work"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let Published::Held(obstacle) = publish(&workspace, 1).await else { panic!("not held") };
    assert!(obstacle.kind.cure().contains("git update-index --no-split-index"));
    repo.git(["config", "core.splitIndex", "false"]);
    repo.git(["update-index", "--no-split-index"]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("work"), "work\n");
}

#[tokio::test]
async fn alternates() {
    let other = Repo::new();
    let repo = Repo::named("borrower");
    // It borrows from one that borrows itself.
    other.git(["clone", "-q", "--shared", ".", repo.beside("between").to_str().unwrap()]);
    git(&repo.beside("between"), ["clone", "-q", "--shared", ".", repo.beside("clone").to_str().unwrap()]);
    fs::remove_dir_all(&repo.root).unwrap();
    fs::rename(repo.beside("clone"), &repo.root).unwrap();
    repo.git(["config", "user.name", "A Person"]);
    repo.git(["config", "user.email", "person@example.org"]);
    works(&repo).await;
    // No other folder is opened, whatever the file says.
    let alternates = repo.root.join(".git/objects/info/alternates");
    let named = fs::read_to_string(&alternates).unwrap();
    fs::write(&alternates, format!("{named}{}\n", repo.beside("").display())).unwrap();
    let rules = open_isolated(&repo.workspace(), 7).await.policy_rules;
    let borrowed: Vec<_> = rules.iter().filter(|rule| rule.origin.ends_with("borrows")).collect();
    assert!(borrowed.iter().all(|rule| rule.access == watchfire_core::sandbox::RuleAccess::Read));
    let borrowed: Vec<_> = borrowed.iter().map(|rule| rule.path.clone()).collect();
    assert_eq!(borrowed, [repo.beside("between"), other.root.clone()].map(|root| root.join(".git/objects")));
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
    // As git 2.48 marks such a repository. An older git refuses it.
    let config = fs::read(repo.root.join(".git/config")).unwrap();
    let mark = b"[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\trelativeWorktrees = true\n";
    fs::write(repo.root.join(".git/config"), [&config, &mark[..]].concat()).unwrap();
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
    fs::write(repo.root.join(".git/config"), config).unwrap();
    assert_eq!(fs::read_to_string(repo.beside("beside").join("work")).unwrap(), "work\n");
    assert_eq!(git(&repo.beside("beside"), ["status", "--porcelain"]), "");
}

/// What `feature.manyFiles` asks for: an index of version 4 without a hash, and an untracked cache.
#[tokio::test]
async fn many_files() {
    let repo = Repo::new();
    repo.git(["config", "feature.manyFiles", "true"]);
    repo.git(["config", "index.skipHash", "true"]);
    repo.git(["update-index", "--force-untracked-cache", "--index-version", "4"]);
    repo.git(["status"]);
    works(&repo).await;
}

/// Without one loose object or loose reference, and with every index of objects that git knows.
#[tokio::test]
async fn packed_to_the_last() {
    let repo = Repo::new();
    repo.write("second", "second\n");
    repo.commit("second");
    repo.git(["repack", "-adq", "--write-midx", "--write-bitmap-index"]);
    repo.git(["commit-graph", "write", "--reachable", "--changed-paths"]);
    repo.git(["pack-refs", "--all"]);
    works(&repo).await;
}

/// What nothing reaches lies in a pack with times of its own.
#[tokio::test]
async fn cruft_packs() {
    let repo = Repo::new();
    repo.write("goes", "goes\n");
    repo.commit("goes");
    repo.git(["reset", "-q", "--hard", "HEAD~1"]);
    repo.git(["reflog", "expire", "--expire=all", "--all"]);
    repo.git(["gc", "-q", "--cruft", "--prune=never"]);
    works(&repo).await;
}

/// The git directory lies elsewhere.
#[tokio::test]
async fn separate_git_directories() {
    let repo = Repo::new();
    let elsewhere = repo.beside("elsewhere.git");
    repo.git(["init", "-q", "--separate-git-dir", elsewhere.to_str().unwrap()]);
    assert!(repo.root.join(".git").is_file());
    let workspace = repo.workspace();
    let opened = crate::support::steps::open(&workspace, 1).await;
    fs::write(opened.cwd.join("work"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(
        (repo.read("work"), repo.git(["status", "--porcelain"])),
        ("work\n".to_owned(), String::new())
    );
    repo.fsck();
}

#[tokio::test]
async fn configuration_per_worktree() {
    let repo = Repo::new();
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["config", "--worktree", "core.autocrlf", "false"]);
    works(&repo).await;
}

#[tokio::test]
async fn precious_objects() {
    let repo = Repo::new();
    repo.git(["config", "core.repositoryFormatVersion", "1"]);
    repo.git(["config", "extensions.preciousObjects", "true"]);
    works(&repo).await;
}

/// Commits that git shows in the place of others: the merge has the real one as its parent, and reverts nothing.
#[tokio::test]
async fn replaced_commits() {
    let repo = Repo::new();
    repo.write("second", "second\n");
    let second = repo.commit("second");
    let tree = repo.git(["rev-parse", "HEAD^{tree}"]);
    let alone = repo.git(["commit-tree", "-m", "alone", tree.trim()]);
    repo.git(["replace", &second, alone.trim()]);
    works(&repo).await;
    repo.git(["replace", "-d", &second]);
    assert_eq!(repo.git(["log", "--format=%s", "--first-parent", "main"]), "merge\nsecond\nfirst\n");
}

#[test]
fn unknown_extensions_are_refused_by_name() {
    let repo = Repo::new();
    repo.git(["config", "core.repositoryFormatVersion", "1"]);
    fs::write(
        repo.root.join(".git/config"),
        fs::read_to_string(repo.root.join(".git/config")).unwrap() + "[extensions]\n\tfromTomorrow = true\n",
    )
    .unwrap();
    refused(&repo.root, "fromtomorrow");
}

/// Held where the target is checked out, with a cure of its own.
#[tokio::test]
async fn sparse_index() {
    let repo = Repo::new();
    for folder in ["in", "out/deeper"] {
        repo.write(format!("{folder}/file"), "1\n");
    }
    repo.commit("folders");
    repo.git(["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    assert!(repo.git(["ls-files", "--sparse"]).contains("out/\n"));
    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    fs::write(opened.cwd.join("out/deeper/file"), "2\n").unwrap();
    capture(&workspace, 1).await;
    let Published::Held(obstacle) = publish(&workspace, 1).await else { panic!("not held") };
    assert!(obstacle.kind.cure().contains("git sparse-checkout reapply --no-sparse-index"), "{obstacle:?}");
    repo.git(["sparse-checkout", "reapply", "--no-sparse-index"]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(repo.git(["show", "main:out/deeper/file"]), "2\n");
    assert!(!repo.root.join("out").exists());
}

/// 100,000 files and 1,000,000 objects. Only in the long form.
#[tokio::test]
async fn very_large_repositories() {
    if std::env::var_os("WATCHFIRE_LONG").is_none() {
        return;
    }
    let repo = Repo::new();
    let mut stream = String::from("reset refs/heads/main\nfrom refs/heads/main^0\n\n");
    for commit in 0..10 {
        stream += "commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nx\n";
        for file in 0..100_000 {
            let content = format!("{commit} {file}\n");
            stream += &format!("M 644 inline d{}/f{file}\ndata {}\n{content}", file / 100, content.len());
        }
    }
    fs::write(repo.beside("stream"), stream).unwrap();
    let stream = fs::File::open(repo.beside("stream")).unwrap();
    let mut import = std::process::Command::new("git");
    import.args(["fast-import", "--quiet"]).current_dir(&repo.root).stdin(stream);
    assert!(import.status().unwrap().success());
    repo.git(["reset", "-q", "--hard", "main"]);
    let counts = repo.git(["count-objects", "-v"]);
    let packed = counts.lines().find_map(|line| line.strip_prefix("in-pack: ")).unwrap();
    assert!(packed.parse::<u32>().unwrap() > 1_000_000, "{counts}");
    works(&repo).await;
}
