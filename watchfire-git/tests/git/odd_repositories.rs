//! Repositories that are not as usual: they work, or are refused before anything is touched.

use std::fs;

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    Isolation, OpenRequest, PublishRequest, Published, RemoveRequest, Removed, Workspace,
};
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::steps::{ISOLATIONS, candidate, capture, key, open, publish};
use crate::support::{Repo, git};

fn refused(root: &std::path::Path) -> watchfire_core::Error {
    GitWorkspace::open(root, GitOptions::default()).unwrap_err()
}

#[test]
fn what_is_no_checkout_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refused(&folder.path().join("missing")).code(), "not_found");
    let error = refused(folder.path());
    assert_eq!(error.code(), "not_found");
    assert!(error.message().contains("git init"), "{error}");
    let repo = Repo::new();
    fs::create_dir(repo.root.join("sub")).unwrap();
    assert_eq!(refused(&repo.root.join("sub")).code(), "not_supported");
    git(&repo.beside(""), ["clone", "-q", "--bare", "project", "bare.git"]);
    assert_eq!(refused(&repo.beside("bare.git")).code(), "not_supported");
    git(&repo.beside(""), ["init", "-q", "--object-format=sha256", "sha256"]);
    assert_eq!(refused(&repo.beside("sha256")).code(), "not_supported");
    assert_eq!(repo.git(["status", "--porcelain", "--ignored"]), "");
}

#[tokio::test]
async fn the_first_task_becomes_the_first_commit() {
    let repo = Repo::empty();
    repo.write("mine", "untracked\n");
    repo.write("staged", "staged\n");
    repo.git(["add", "staged"]);
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    assert_eq!((opened.base.clone(), opened.target.as_deref()), (None, Some("main")));
    assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "");
    assert!(!open(&workspace, 1).await.cwd.join("mine").exists());
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.commits, 1);
    let second = open(&workspace, 2).await;
    fs::write(second.cwd.join("second"), "work\n").unwrap();
    capture(&workspace, 2).await;
    assert_eq!(publish(&workspace, 1).await, Published::done(vec![repo.root.clone()]));
    assert_eq!(repo.read("new"), "work\n");
    // The second one has a history of its own by now.
    assert!(matches!(publish(&workspace, 2).await, Published::Done { .. }));
    assert_eq!(repo.git(["status", "--porcelain"]), "A  staged\n?? .watchfire/\n?? mine\n");
    for n in [1, 2] {
        let removed = workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
        assert_eq!(removed, Removed::gone(None));
    }
    repo.fsck();
}

#[tokio::test]
async fn nothing_done_in_an_empty_repository_leaves_nothing() {
    let repo = Repo::empty();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let captured = capture(&workspace, 1).await;
    assert_eq!((captured.tip, captured.commits), (None, 0));
    assert_eq!(workspace.remove(&RemoveRequest::new(key(1))).await.unwrap(), Removed::gone(None));
    assert!(!opened.cwd.exists());
    assert!(!repo.root.join(".git/worktrees/watchfire-0001").exists());
}

#[tokio::test]
async fn a_detached_head_needs_a_named_target() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "--detach"]);
    let error = repo.workspace().open(&OpenRequest::new(key(1), Attempt(1))).await.unwrap_err();
    assert_eq!(error.code(), "not_supported");
    assert!(!repo.root.join(".watchfire").exists());
    let options = GitOptions::default().with_default_branch("main");
    let workspace = GitWorkspace::open(&repo.root, options).unwrap();
    let opened = open(&workspace, 1).await;
    assert_eq!(opened.target.as_deref(), Some("main"));
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let before = repo.git(["rev-parse", "HEAD"]);
    assert_eq!(publish(&workspace, 1).await, Published::done(Vec::new()));
    assert_eq!(repo.git(["rev-parse", "HEAD"]), before);
    assert!(!repo.root.join("new").exists());
    let unknown = workspace.open(&OpenRequest::new(key(2), Attempt(1)).with_target("no such")).await;
    assert_eq!(unknown.unwrap_err().code(), "invalid_input");
    let unknown = workspace.open(&OpenRequest::new(key(2), Attempt(1)).with_target("missing")).await;
    assert_eq!(unknown.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn a_linked_checkout_can_be_the_project() {
    let repo = Repo::new();
    let linked = repo.beside("linked checkout");
    repo.git(["worktree", "add", "-q", "-b", "feature", linked.to_str().unwrap()]);
    let workspace = GitWorkspace::open(&linked, GitOptions::default()).unwrap();
    let opened = open(&workspace, 1).await;
    assert_eq!(opened.target.as_deref(), Some("feature"));
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let merge = watchfire_core::workspace::MergeRequest::new(key(1), "feature", "merge");
    let merge = workspace.prepare_merge(&merge).await.unwrap();
    let watchfire_core::workspace::Merge::Ready(candidate) = merge else { panic!("{merge:?}") };
    let published = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
    assert_eq!(published, Published::done(vec![linked.clone()]));
    assert_eq!(fs::read_to_string(linked.join("new")).unwrap(), "work\n");
    assert_eq!(git(&linked, ["status", "--porcelain"]), "");
    // The main checkout is another project on the same repository.
    let other = repo.workspace().open(&OpenRequest::new(key(1), Attempt(1))).await.unwrap_err();
    assert_eq!(other.code(), "workspace_broken", "{other}");
    repo.fsck();
}

#[tokio::test]
async fn a_checkout_of_a_bare_repository_can_be_the_project() {
    let repo = Repo::new();
    let (bare, linked) = (repo.beside("bare.git"), repo.beside("of bare"));
    git(&repo.beside(""), ["clone", "-q", "--bare", "project", "bare.git"]);
    git(&bare, ["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let workspace = GitWorkspace::open(&linked, GitOptions::default()).unwrap();
    for (number, isolation) in (1..).zip(ISOLATIONS) {
        let request = OpenRequest::new(key(number), Attempt(1)).with_isolation(isolation);
        let opened = workspace.open(&request).await.unwrap();
        assert_eq!(opened.target.as_deref(), Some("main"));
        fs::write(opened.cwd.join(format!("new-{number}")), "work\n").unwrap();
        capture(&workspace, number).await;
        assert_eq!(publish(&workspace, number).await, Published::done(vec![linked.clone()]));
        assert_eq!(fs::read_to_string(linked.join(format!("new-{number}"))).unwrap(), "work\n");
    }
    assert_eq!(git(&linked, ["status", "--porcelain"]), "");
    git(&bare, ["fsck", "--strict"]);
}

#[tokio::test]
async fn any_name_of_a_folder_will_do() {
    for name in ["a project", "quo\"te's", "漢字 ümlaut", "-x", "tab\tbell\u{7}"] {
        let repo = Repo::named(name);
        repo.write("file", "1\n");
        repo.commit("first");
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "", "{name}");
        fs::write(opened.cwd.join("new"), "work\n").unwrap();
        capture(&workspace, 1).await;
        let candidate = candidate(&workspace, 1).await;
        let scratch = workspace.checkout(&candidate).await.unwrap();
        assert_eq!(git(scratch.path(), ["status", "--porcelain"]), "", "{name}");
        drop(scratch);
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }), "{name}");
        assert_eq!(repo.read("new"), "work\n");
    }
}

#[tokio::test]
async fn submodules_are_recorded_and_left_alone() {
    let repo = Repo::new();
    let library = Repo::new();
    let url = library.root.to_str().unwrap();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "lib"]);
    repo.commit("submodule");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    assert_eq!(git(&opened.cwd, ["status", "--porcelain"]), "");
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.len(), 1, "{:?}", captured.paths);
    library.write("more", "more\n");
    let moved = library.commit("more");
    git(&opened.cwd, ["update-index", "--cacheinfo", &format!("160000,{moved},lib")]);
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.len(), 1, "{:?}", captured.paths);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(repo.git(["ls-tree", "HEAD", "lib"]).contains(&moved));
    assert!(repo.root.join("lib").join(watchfire_core::workspace::conformance::FILE).exists());
}

#[tokio::test]
async fn commits_in_a_submodule_are_set_aside() {
    let repo = Repo::new();
    let library = Repo::new();
    let url = library.root.to_str().unwrap();
    let allow = ["-c", "protocol.file.allow=always", "-c", "user.name=x", "-c", "user.email=x"];
    repo.git(allow.iter().chain(&["submodule", "--quiet", "add", url, "lib"]));
    repo.commit("submodule");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    git(&opened.cwd, allow.iter().chain(&["submodule", "--quiet", "update", "--init"]));
    fs::write(opened.cwd.join("lib/inside"), "precious\n").unwrap();
    git(&opened.cwd.join("lib"), allow.iter().chain(&["add", "inside"]));
    git(&opened.cwd.join("lib"), allow.iter().chain(&["commit", "-qm", "precious"]));
    capture(&workspace, 1).await;
    workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    let aside = repo.root.join(".watchfire/worktrees/aside");
    assert_eq!(fs::read_to_string(aside.join("0001-0001-1/lib/inside")).unwrap(), "precious\n");
    let module = aside.join("0001-watchfire-0001-1/modules/lib");
    assert_eq!(
        git(&aside, ["--git-dir", module.to_str().unwrap(), "--work-tree=.", "log", "-1", "--format=%s"])
            .trim(),
        "precious"
    );
}

#[tokio::test]
async fn sparse_checkouts_stay_sparse() {
    let repo = Repo::new();
    repo.write("in/file", "1\n");
    repo.write("out/file", "1\n");
    repo.commit("folders");
    repo.git(["sparse-checkout", "set", "--no-sparse-index", "in"]);
    assert!(!repo.root.join("out").exists());
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    assert!(opened.cwd.join("out/file").exists());
    fs::write(opened.cwd.join("in/file"), "2\n").unwrap();
    fs::write(opened.cwd.join("out/file"), "2\n").unwrap();
    capture(&workspace, 1).await;
    let published = publish(&workspace, 1).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    assert!(!repo.root.join("out").exists());
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // A sparse index cannot be read by libgit2.
    repo.git(["sparse-checkout", "reapply", "--sparse-index"]);
    fs::write(opened.cwd.join("in/file"), "3\n").unwrap();
    capture(&workspace, 1).await;
    let published = publish(&workspace, 1).await;
    assert!(matches!(published, Published::Held { .. } | Published::Done { .. }), "{published:?}");
    assert_eq!(repo.git(["status", "--porcelain"]).trim(), "");
}

#[tokio::test]
async fn a_worktrees_folder_that_leads_elsewhere_is_refused() {
    let repo = Repo::new();
    fs::create_dir(repo.beside("elsewhere")).unwrap();
    std::os::unix::fs::symlink(repo.beside("elsewhere"), repo.root.join(".watchfire")).unwrap();
    let error = repo.workspace().open(&OpenRequest::new(key(1), Attempt(1))).await.unwrap_err();
    assert_eq!(error.code(), "workspace_broken");
}

#[tokio::test]
async fn what_others_left_is_taken_up_or_rescued() {
    // A branch without a record or a folder, as another tool leaves it.
    let repo = Repo::new();
    repo.git(["checkout", "-qb", "watchfire/0001"]);
    repo.write("theirs", "work\n");
    let theirs = repo.commit("theirs");
    repo.git(["checkout", "-q", "main"]);
    repo.write("later", "later\n");
    repo.commit("later");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    // It may be anyone's, another agent's among them: kept, and not taken for this task's work.
    assert!(!opened.reused && !opened.cwd.join("theirs").exists(), "{opened:?}");
    assert_eq!(opened.rescued[0].commit.as_str(), theirs);
    repo.write(".watchfire/worktrees/0001/ours", "work\n");
    assert_eq!(capture(&workspace, 1).await.commits, 1);
    let ours = git(&opened.cwd, ["rev-parse", "HEAD"]);
    // Folder and administration taken away by hand.
    fs::remove_dir_all(&opened.cwd).unwrap();
    fs::remove_dir_all(repo.root.join(".git/worktrees/watchfire-0001")).unwrap();
    let again = open(&workspace, 1).await;
    assert_eq!(git(&again.cwd, ["rev-parse", "HEAD"]), ours);
    // A folder without a branch.
    fs::create_dir_all(repo.root.join(".watchfire/worktrees/0002")).unwrap();
    repo.write(".watchfire/worktrees/0002/orphan", "work\n");
    let pruned = workspace.prune().await.unwrap();
    assert_eq!((pruned.removed.len(), pruned.kept.len()), (0, 1), "{pruned:?}");
    let opened = open(&workspace, 2).await;
    assert_eq!(opened.rescued.len(), 1, "{opened:?}");
    assert!(repo.git(["ls-tree", "-r", "--name-only", &opened.rescued[0].name]).contains("orphan"));
    assert!(!opened.cwd.join("orphan").exists());
}

/// Names that a program could take for options, locks or other files.
#[tokio::test]
async fn hostile_names_of_branches_are_names() {
    let repo = Repo::new();
    let first = repo.git(["rev-parse", "HEAD"]).trim().to_owned();
    for (n, target) in [(1, "-x"), (2, "--help"), (3, "a.lock.b"), (4, "watchfire-x"), (5, "\u{fc}/\u{6f22}")]
    {
        repo.git(["update-ref", &format!("refs/heads/{target}"), &first]);
        let workspace = repo.workspace();
        let opened = workspace.open(&OpenRequest::new(key(n), Attempt(1)).with_target(target)).await.unwrap();
        fs::write(opened.cwd.join("new"), "work\n").unwrap();
        capture(&workspace, n).await;
        let request = watchfire_core::workspace::MergeRequest::new(key(n), target, "-m merge");
        let merge = workspace.prepare_merge(&request).await.unwrap();
        let watchfire_core::workspace::Merge::Ready(candidate) = merge else { panic!("{merge:?}") };
        let published = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
        assert_eq!(published, Published::done(Vec::new()), "{target}");
        assert_eq!(repo.git(["show", &format!("refs/heads/{target}:new")]), "work\n");
        let removed = workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
        assert_eq!(removed, Removed::gone(None), "{target}");
    }
    for target in ["", "a..b", "a b", "a.lock", "../main", "a\\b", "@{-1}", "a\nb"] {
        let request = OpenRequest::new(key(9), Attempt(1)).with_target(target);
        let opened = repo.workspace().open(&request).await;
        assert!(opened.is_ok() == target.is_empty(), "{target:?}: {opened:?}");
    }
    repo.fsck();
}

/// What git leaves beside a branch when it is killed, and what an agent puts there instead.
#[tokio::test]
async fn a_lock_beside_a_branch_goes_when_it_is_old() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    for (n, is_folder) in [(1, false), (2, true)] {
        let opened = open(&workspace, n).await;
        let lock = repo.root.join(format!(".git/refs/heads/watchfire/{n:04}.lock"));
        if is_folder {
            fs::create_dir(&lock).unwrap();
            fs::write(lock.join("x"), "").unwrap();
        } else {
            fs::write(&lock, "").unwrap();
        }
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        fs::File::open(&lock).unwrap().set_modified(old).unwrap();
        fs::write(opened.cwd.join("new"), "work\n").unwrap();
        assert_eq!(capture(&workspace, n).await.commits, 1);
        assert!(!lock.exists());
        // While an agent works, its list is not confused by it either.
        fs::write(&lock, "").unwrap();
        assert_eq!(workspace.list().await.unwrap().len(), n as usize);
        fs::remove_file(&lock).unwrap();
    }
    repo.fsck();
}

/// On a file system that tells them apart, names that differ only in case are names; elsewhere they are refused before
/// a folder is there.
#[tokio::test]
async fn names_that_differ_only_in_case() {
    let repo = Repo::new();
    repo.git(["config", "core.ignorecase", "true"]);
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    for name in ["Name", "name", "NAME", "Folder/a", "folder/a"] {
        fs::create_dir_all(opened.cwd.join(name).parent().unwrap()).unwrap();
        fs::write(opened.cwd.join(name), name).unwrap();
    }
    let distinct = fs::read_to_string(opened.cwd.join("Name")).unwrap() == "Name";
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    if distinct {
        for name in ["Name", "name", "NAME", "Folder/a", "folder/a"] {
            assert_eq!(repo.read(name), name);
        }
        assert!(open(&workspace, 2).await.cwd.join("folder/a").exists());
    }
    repo.fsck();
}

/// Nobody writes where a link leads that an agent may have made.
#[tokio::test]
async fn links_where_git_writes_are_refused() {
    for place in ["refs/heads/watchfire", "logs/refs/heads/watchfire", "objects/info"] {
        let (repo, elsewhere) = (Repo::new(), tempfile::tempdir().unwrap());
        let link = repo.root.join(".git").join(place);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        _ = fs::rename(&link, link.with_extension("old"));
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        let request = OpenRequest::new(key(1), Attempt(1)).with_isolation(Isolation::Bound);
        let error = repo.workspace().open(&request).await.unwrap_err();
        assert_eq!(error.code(), "workspace_broken", "{place}: {error}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "{place}");
    }
}

#[tokio::test]
async fn a_renamed_project_goes_on_with_its_work() {
    for isolation in ISOLATIONS {
        let mut repo = Repo::new();
        let key = crate::support::steps::key(1);
        let request = OpenRequest::new(key.clone(), Attempt(1)).with_isolation(isolation);
        let opened = repo.workspace().open(&request).await.unwrap();
        fs::write(opened.cwd.join("new"), "work\n").unwrap();
        crate::support::inside(&repo.root, 1, ["add", "new"]);
        crate::support::inside(&repo.root, 1, ["commit", "-qm", "work"]);
        let renamed = repo.beside("renamed");
        fs::rename(&repo.root, &renamed).unwrap();
        repo.root = renamed;

        let workspace = repo.workspace();
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.attention.is_empty(), "{recovery:?}");
        let again = workspace.open(&request).await.unwrap();
        assert_eq!(again.cwd, repo.root.join(".watchfire/worktrees/0001"));
        assert!(again.reused && again.rescued.is_empty() && again.attention.is_empty(), "{again:?}");
        assert_eq!(crate::support::inside(&repo.root, 1, ["status", "--porcelain"]), "");
        capture(&workspace, 1).await;
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        assert_eq!(repo.read("new"), "work\n");
        assert!(!repo.root.join(".watchfire/worktrees/aside").exists());
    }
}

#[tokio::test]
async fn a_copied_project_leaves_the_originals_work_alone() {
    let mut repo = Repo::new();
    let linked = repo.beside("linked");
    repo.git(["checkout", "-qb", "elsewhere"]);
    repo.git(["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let options = || GitOptions::default().with_default_branch("main");
    let original = GitWorkspace::open(&repo.root, options()).unwrap();
    let opened = open(&original, 1).await;
    fs::write(opened.cwd.join("new"), "original\n").unwrap();
    capture(&original, 1).await;
    let copy = repo.beside("copy");
    let copied = std::process::Command::new("cp").arg("-a").arg(&repo.root).arg(&copy).status().unwrap();
    assert!(copied.success());

    let workspace = GitWorkspace::open(&copy, options()).unwrap();
    workspace.recover().await.unwrap();
    let fresh = open(&workspace, 1).await;
    assert_eq!(fresh.cwd, copy.join(".watchfire/worktrees/0001"));
    assert!(!fresh.cwd.join("new").exists() && fresh.rescued.len() == 1, "{fresh:?}");
    fs::write(fresh.cwd.join("other"), "copy\n").unwrap();
    capture(&workspace, 1).await;
    // The linked checkout is the original's.
    assert_eq!(publish(&workspace, 1).await, Published::done(Vec::new()));
    assert!(!linked.join("other").exists());
    assert_eq!(git(&linked, ["status", "--porcelain"]), "");
    let root = repo.root.clone();
    assert_eq!(publish(&original, 1).await, Published::done(vec![linked.clone()]));
    repo.root = root;
    repo.fsck();
}
