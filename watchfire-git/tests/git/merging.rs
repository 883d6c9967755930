//! Merges give the tree that git gives.

use std::collections::BTreeMap;
use std::fs;

use git2::{Oid, Repository};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use watchfire_core::model::MergeStrategy;
use watchfire_core::workspace::{BranchStatus, Merge, MergeRequest, ObstacleKind, Published, Workspace};
use watchfire_git::GitWorkspace;

use crate::support::steps::{capture, key, open, prepare, publish};
use crate::support::{Repo, git, run};

/// What is at a path: mode, and lines.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Edit {
    /// Changes one line.
    Line(usize, u8),
    Append(u8),
    Delete,
    /// To a path, whatever is there.
    Create(String, u8),
    Rename(String),
    Chmod,
    Link(u8),
}

fn path() -> impl Strategy<Value = String> {
    // Few names, so that files and folders of one name collide.
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c.x", "a-b"]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn edits() -> impl Strategy<Value = Vec<(usize, Edit)>> {
    let edit = prop_oneof![
        4 => (0..12usize, any::<u8>()).prop_map(|(line, value)| Edit::Line(line, value)),
        1 => any::<u8>().prop_map(Edit::Append),
        2 => Just(Edit::Delete),
        2 => (path(), any::<u8>()).prop_map(|(path, value)| Edit::Create(path, value)),
        1 => path().prop_map(Edit::Rename),
        1 => Just(Edit::Chmod),
        1 => any::<u8>().prop_map(Edit::Link),
    ];
    prop::collection::vec((any::<prop::sample::Index>().prop_map(|i| i.index(64)), edit), 0..6)
}

fn text(seed: u8) -> Vec<u8> {
    // Every line is its own: where lines repeat, diff algorithms may differ.
    (0..12).map(|line| format!("{seed} line {line}\n")).collect::<String>().into_bytes()
}

fn put(files: &mut Files, path: &str, mode: u32, content: Vec<u8>) {
    files.retain(|other, _| {
        !other.starts_with(&format!("{path}/")) && !path.starts_with(&format!("{other}/"))
    });
    files.insert(path.to_owned(), (mode, content));
}

fn apply(base: &Files, edits: &[(usize, Edit)]) -> Files {
    let mut files = base.clone();
    for (which, edit) in edits {
        let chosen = files.keys().nth(which % files.len().max(1)).cloned();
        match (edit, chosen) {
            (Edit::Create(path, value), _) => put(&mut files, path, 0o100_644, text(*value)),
            (_, None) => {}
            (Edit::Delete, Some(path)) => _ = files.remove(&path),
            (Edit::Rename(to), Some(path)) => {
                if let Some((mode, content)) = files.remove(&path) {
                    put(&mut files, to, mode, content);
                }
            }
            (Edit::Chmod, Some(path)) => {
                files
                    .entry(path)
                    .and_modify(|(mode, _)| *mode = if *mode == 0o100_644 { 0o100_755 } else { *mode });
            }
            (Edit::Link(value), Some(path)) => {
                put(&mut files, &path, 0o120_000, vec![b'x', *value % 26 + b'a'])
            }
            (Edit::Append(value), Some(path)) => {
                files.entry(path).and_modify(|(mode, content)| {
                    if *mode != 0o120_000 {
                        content.extend(format!("appended {value}\n").bytes());
                    }
                });
            }
            (Edit::Line(line, value), Some(path)) => {
                files.entry(path).and_modify(|(mode, content)| {
                    if *mode != 0o120_000 {
                        let text = String::from_utf8(content.clone()).unwrap();
                        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                        let at = line % lines.len().max(1);
                        lines[at] = format!("edited {at} {value}");
                        *content = (lines.join("\n") + "\n").into_bytes();
                    }
                });
            }
        }
    }
    files
}

fn commit(repo: &Repository, files: &Files, parents: &[Oid]) -> Oid {
    let mut index = git2::Index::new().unwrap();
    for (path, (mode, content)) in files {
        let zero = git2::IndexTime::new(0, 0);
        index
            .add(&git2::IndexEntry {
                ctime: zero,
                mtime: zero,
                dev: 0,
                ino: 0,
                mode: *mode,
                uid: 0,
                gid: 0,
                file_size: 0,
                id: repo.blob(content).unwrap(),
                flags: 0,
                flags_extended: 0,
                path: path.clone().into_bytes(),
            })
            .unwrap();
    }
    let tree = repo.find_tree(index.write_tree_to(repo).unwrap()).unwrap();
    let who = git2::Signature::now("x", "x@example.org").unwrap();
    let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
    repo.commit(None, &who, &who, "x", &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
}

/// The tree that git makes of it, with renames; none for a conflict.
fn git_merge(repo: &Repo, ours: Oid, theirs: Oid) -> Option<String> {
    let (tree, conflicts) = git_merge_tree(repo, ours, theirs);
    conflicts.is_empty().then_some(tree)
}

/// Returns the tree of git's merge, and accepts conflicts where one side renamed what the other deleted. Git has no option to turn
/// these off.
fn git_merge_but_for_renames(repo: &Repo, ours: Oid, theirs: Oid) -> Option<String> {
    let (tree, conflicts) = git_merge_tree(repo, ours, theirs);
    conflicts.iter().all(|conflict| conflict.starts_with("CONFLICT (rename/delete)")).then_some(tree)
}

/// The tree that git makes of it, perhaps with marks, and its conflicts in words.
fn git_merge_tree(repo: &Repo, ours: Oid, theirs: Oid) -> (String, Vec<String>) {
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    // Renames of whole folders are git's alone.
    let folders = ["-c", "merge.directoryRenames=false"];
    let args = ["merge-tree", "--write-tree", "-Xdiff-algorithm=myers", &ours, &theirs];
    let output = run(&repo.root, folders.iter().chain(&args));
    assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let tree = said.lines().next().unwrap_or_default().to_owned();
    let conflicts: Vec<_> =
        said.lines().filter(|line| line.starts_with("CONFLICT (")).map(str::to_owned).collect();
    assert_eq!(output.status.success(), conflicts.is_empty(), "{said}");
    (tree, conflicts)
}

/// The tree that libgit2 makes of the whole trees, without renames; none for a conflict.
fn whole_merge(repo: &Repository, commits: [Oid; 3]) -> Option<String> {
    let [base, ours, theirs] = commits.map(|id| repo.find_commit(id).unwrap().tree().unwrap());
    let mut options = git2::MergeOptions::new();
    options.find_renames(false);
    let mut index = repo.merge_trees(&base, &ours, &theirs, Some(&options)).unwrap();
    (!index.has_conflicts()).then(|| index.write_tree_to(repo).unwrap().to_string())
}

fn merge(workspace: &GitWorkspace, runtime: &tokio::runtime::Runtime) -> Merge {
    runtime.block_on(workspace.prepare_merge(&MergeRequest::new(key(1), "main", "merge"))).unwrap()
}

/// Returns a repository without reflogs. Random histories make the same commit twice, which would look like one that was dropped.
fn without_log() -> Repo {
    let repo = Repo::new();
    repo.git(["config", "core.logAllRefUpdates", "false"]);
    repo
}

#[test]
fn trees_are_those_that_git_makes() {
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let project = without_log();
    let workspace = project.workspace();
    let repo = Repository::open(&project.root).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = std::cell::RefCell::new([0; 3]);
    let config =
        Config { cases: if long { 3000 } else { 60 }, failure_persistence: None, ..Config::default() };
    let base = prop::collection::btree_map(path(), any::<u8>(), 1..8);
    let outcome = TestRunner::new(config).run(&(base, edits(), edits()), |(base, ours, theirs)| {
        let mut files = Files::new();
        for (path, seed) in &base {
            put(&mut files, path, 0o100_644, text(*seed));
        }
        let root = commit(&repo, &files, &[]);
        let ours = commit(&repo, &apply(&files, &ours), &[root]);
        let theirs = commit(&repo, &apply(&files, &theirs), &[root]);
        repo.reference("refs/heads/main", ours, true, "test").unwrap();
        repo.reference("refs/heads/watchfire/0001", theirs, true, "test").unwrap();
        let plain = whole_merge(&repo, [root, ours, theirs]);
        let tree_of = |commit: Oid| repo.find_commit(commit).unwrap().tree_id().to_string();
        match merge(&workspace, &runtime) {
            Merge::Ready(candidate) => {
                let expected = plain.clone().or_else(|| git_merge(&project, ours, theirs));
                seen.borrow_mut()[usize::from(plain.is_none())] += 1;
                // Where git is of one mind with itself with and without renames, all three agree.
                let renamed = git_merge(&project, ours, theirs);
                prop_assert!(plain.is_none() || renamed.is_none() || renamed == plain);
                prop_assert_eq!(Some(candidate.tree), expected);
            }
            Merge::Nothing => prop_assert_eq!(plain.unwrap_or_default(), tree_of(ours)),
            _ => {
                seen.borrow_mut()[2] += 1;
                // libgit2 overlooks some collisions of a file with a folder, which git does not.
                prop_assert!(plain.is_none() || git_merge(&project, ours, theirs).is_none());
            }
        }
        Ok(())
    });
    let [clean, renamed, conflicts] = *seen.borrow();
    eprintln!("{clean} merged without renames, {renamed} by a rename, {conflicts} conflicts");
    outcome.unwrap();
    assert!(clean > 0 && conflicts > 0);
}

fn attribute_lines() -> impl Strategy<Value = String> {
    let pattern = prop::sample::select(vec!["*", "*.x", "a", "b", "/a", "a/*", "a-b", "**/b", "c.x"]);
    let given = prop::sample::select(vec![
        "merge=union",
        "-merge",
        "binary",
        "merge=binary",
        "merge=text",
        "merge=nobody",
        "!merge",
        "merge",
        "text",
    ]);
    let line = (pattern, given).prop_map(|(pattern, given)| format!("{pattern} {given}\n"));
    prop::collection::vec(line, 0..4).prop_map(|lines| lines.concat())
}

#[test]
fn trees_are_those_that_git_makes_with_attributes() {
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let project = without_log();
    let workspace = project.workspace();
    let repo = Repository::open(&project.root).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = std::cell::RefCell::new([0; 4]);
    let config =
        Config { cases: if long { 5000 } else { 60 }, failure_persistence: None, ..Config::default() };
    let base = prop::collection::btree_map(path(), any::<u8>(), 1..8);
    let cases = (base, edits(), edits(), attribute_lines(), attribute_lines());
    std::fs::create_dir_all(project.root.join("a")).unwrap();
    let outcome = TestRunner::new(config).run(&cases, |(base, ours, theirs, top, inner)| {
        std::fs::write(project.root.join(".gitattributes"), top).unwrap();
        std::fs::write(project.root.join("a/.gitattributes"), inner).unwrap();
        let mut files = Files::new();
        for (path, seed) in &base {
            put(&mut files, path, 0o100_644, text(*seed));
        }
        let root = commit(&repo, &files, &[]);
        let ours = commit(&repo, &apply(&files, &ours), &[root]);
        let theirs = commit(&repo, &apply(&files, &theirs), &[root]);
        repo.reference("refs/heads/main", ours, true, "test").unwrap();
        repo.reference("refs/heads/watchfire/0001", theirs, true, "test").unwrap();
        // A handle of its own: libgit2 remembers the attributes that it has read.
        let plain = whole_merge(&Repository::open(&project.root).unwrap(), [root, ours, theirs]);
        let renamed = git_merge(&project, ours, theirs);
        let tree_of = |commit: Oid| repo.find_commit(commit).unwrap().tree_id().to_string();
        match merge(&workspace, &runtime) {
            Merge::Ready(candidate) => {
                seen.borrow_mut()[usize::from(plain.is_none())] += 1;
                // libgit2 asks the driver too often (below), and where the same merge has what git takes for a rename and a
                // deletion, neither has a tree.
                let expected = plain.or(renamed);
                let expected = expected.or_else(|| git_merge_but_for_renames(&project, ours, theirs));
                prop_assert_eq!(Some(candidate.tree), expected);
            }
            // libgit2 asks the driver also where the content changed on one side and the mode on both.
            Merge::Nothing => prop_assert_eq!(plain.or(renamed).unwrap_or_default(), tree_of(ours)),
            _ => {
                seen.borrow_mut()[if renamed.is_some() { 3 } else { 2 }] += 1;
                prop_assert!(plain.is_none() || renamed.is_none(), "git merges it: {:?}", plain);
            }
        }
        Ok(())
    });
    let [clean, renames, conflicts, stricter] = *seen.borrow();
    eprintln!(
        "{clean} merged without renames, {renames} by a rename, {conflicts} conflicts, {stricter} more than git has"
    );
    outcome.unwrap();
    assert!(clean > 0 && conflicts > 0);
}

/// Both sides delete a file, and one has it elsewhere, or each somewhere else: no path has two sides, and yet git does not merge it.
#[test]
fn a_file_that_was_renamed_and_deleted_is_a_conflict() {
    let project = without_log();
    let (workspace, repo) = (project.workspace(), Repository::open(&project.root).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let files = |paths: &[&str]| -> Files {
        let all = paths.iter().map(|path| ((*path).to_owned(), (0o100_644, b"x\n".to_vec())));
        all.chain([("other".to_owned(), (0o100_644, b"y\n".to_vec()))]).collect()
    };
    for (ours, theirs, merges) in [
        (&["new"][..], &[][..], false),
        (&[], &["new"], false),
        (&["new"], &["else"], false),
        (&["new"], &["new"], true),
        (&[], &[], true),
    ] {
        let base = commit(&repo, &files(&["old"]), &[]);
        let [our, their] = [ours, theirs].map(|paths| commit(&repo, &files(paths), &[base]));
        repo.reference("refs/heads/main", our, true, "test").unwrap();
        repo.reference("refs/heads/watchfire/0001", their, true, "test").unwrap();
        assert_eq!(git_merge(&project, our, their).is_some(), merges, "{ours:?} {theirs:?}");
        match merge(&workspace, &runtime) {
            Merge::Conflicts(conflicts) => {
                assert!(!merges, "{ours:?} {theirs:?}");
                assert_eq!(conflicts[0].path.to_string(), "old");
            }
            _ => assert!(merges, "{ours:?} {theirs:?}"),
        }
    }
}

#[tokio::test]
async fn a_rename_on_one_side_takes_the_edit_of_the_other() {
    let repo = Repo::new();
    repo.write("old name", text(1));
    repo.commit("file");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    std::fs::rename(opened.cwd.join("old name"), opened.cwd.join("new name")).unwrap();
    capture(&workspace, 1).await;
    repo.write("old name", String::from_utf8(text(1)).unwrap().replace("line 5", "line five"));
    repo.commit("edit");
    publish(&workspace, 1).await;
    assert!(repo.read("new name").contains("line five"));
    assert!(!repo.root.join("old name").exists());
}

#[tokio::test]
async fn crossing_histories_merge() {
    let repo = Repo::new();
    repo.write("x", "1\n2\n3\n4\n5\n6\n7\n");
    repo.commit("x");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    std::fs::write(opened.cwd.join("x"), "one\n2\n3\n4\n5\n6\n7\n").unwrap();
    capture(&workspace, 1).await;
    repo.write("x", "1\n2\n3\n4\n5\n6\nseven\n");
    repo.commit("seven");
    // Each takes the other's first commit.
    let (main, work) = (repo.git(["rev-parse", "main"]), repo.git(["rev-parse", "watchfire/0001"]));
    repo.git(["merge", "-q", "--no-edit", work.trim()]);
    let who = ["-c", "user.name=x", "-c", "user.email=x"];
    crate::support::git(&opened.cwd, who.iter().chain(&["merge", "-q", "--no-edit", main.trim()]));
    std::fs::write(opened.cwd.join("x"), "one\n2\n3\nfour\n5\n6\nseven\n").unwrap();
    capture(&workspace, 1).await;
    repo.write("x", "one\ntwo\n3\n4\n5\n6\nseven\n");
    repo.commit("two");
    publish(&workspace, 1).await;
    assert_eq!(repo.read("x"), "one\ntwo\n3\nfour\n5\n6\nseven\n");
}

/// A branch on which nobody has worked is no merged one, also where the target has gone on.
#[tokio::test]
async fn a_branch_without_commits_is_empty() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    open(&workspace, 1).await;
    let status = async || workspace.list().await.unwrap()[0].status;
    assert_eq!(status().await, BranchStatus::Empty);
    repo.write("x", "later\n");
    repo.commit("later");
    assert_eq!(status().await, BranchStatus::Empty);
    // What a person merges by hand is merged.
    let opened = open(&workspace, 1).await;
    std::fs::write(opened.cwd.join("y"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert_eq!(status().await, BranchStatus::Unmerged);
    repo.git(["merge", "-q", "--no-edit", "watchfire/0001"]);
    assert_eq!(status().await, BranchStatus::Merged);
}

#[tokio::test]
async fn strategies_shape_the_history() {
    for (strategy, parents, log) in [
        (MergeStrategy::Merge, 2, "merge\nsecond\nfirst work\ntheirs\nfirst\n"),
        (MergeStrategy::Squash, 1, "merge\ntheirs\nfirst\n"),
        (MergeStrategy::Rebase, 1, "second\nfirst work\ntheirs\nfirst\n"),
    ] {
        let repo = Repo::new();
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        for name in ["first work", "second"] {
            std::fs::write(opened.cwd.join(name), "work\n").unwrap();
            let request = watchfire_core::workspace::CaptureRequest::new(key(1), name);
            workspace.capture(&request).await.unwrap();
        }
        repo.write("theirs", "theirs\n");
        repo.commit("theirs");
        let request = MergeRequest::new(key(1), "main", "merge").with_strategy(strategy);
        let Merge::Ready(candidate) = workspace.prepare_merge(&request).await.unwrap() else {
            panic!("{strategy:?}")
        };
        workspace.publish(&candidate, &watchfire_core::workspace::PublishRequest::default()).await.unwrap();
        let shown = repo.git(["log", "--topo-order", "--format=%s", "main"]);
        assert_eq!(shown, log, "{strategy:?}");
        assert_eq!(repo.git(["log", "-1", "--format=%P", "main"]).split_whitespace().count(), parents);
        let author = if strategy == MergeStrategy::Rebase { "Watchfire agent" } else { "A Person" };
        assert_eq!(repo.git(["log", "-1", "--format=%an|%cn"]).trim(), format!("{author}|A Person"));
        // What was squashed or rebased is not reachable from the target: its commits are kept, and the branch goes.
        let tip = repo.git(["rev-parse", "watchfire/0001"]);
        assert_eq!(workspace.list().await.unwrap()[0].status, BranchStatus::Merged, "{strategy:?}");
        let removed = workspace.remove(&watchfire_core::workspace::RemoveRequest::new(key(1))).await.unwrap();
        let watchfire_core::workspace::Removed::Gone { rescued, .. } = removed else {
            panic!("{strategy:?}: {removed:?}")
        };
        let kept = rescued.map(|rescued| rescued.commit.to_string());
        assert_eq!(kept, (strategy != MergeStrategy::Merge).then(|| tip.trim().to_owned()), "{strategy:?}");
    }
}

#[tokio::test]
async fn merges_are_signed_where_the_repository_signs() {
    use std::os::unix::fs::PermissionsExt;
    let repo = Repo::new();
    let gpg = repo.beside("gpg");
    let script = "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n\
                  printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nsigned\\n-----END PGP SIGNATURE-----\\n'\n";
    std::fs::write(&gpg, script).unwrap();
    std::fs::set_permissions(&gpg, PermissionsExt::from_mode(0o755)).unwrap();
    let workspace = repo.workspace();
    for (n, strategy) in [(1, MergeStrategy::Merge), (2, MergeStrategy::Squash), (3, MergeStrategy::Rebase)] {
        let opened = open(&workspace, n).await;
        std::fs::write(opened.cwd.join(format!("new {n}")), "work\n").unwrap();
        capture(&workspace, n).await;
        repo.write(format!("theirs {n}"), "theirs\n");
        repo.commit("theirs");
        repo.git(["config", "commit.gpgSign", "true"]);
        repo.git(["config", "gpg.program", gpg.to_str().unwrap()]);
        let request = MergeRequest::new(key(n), "main", "merge").with_strategy(strategy);
        let Merge::Ready(candidate) = workspace.prepare_merge(&request).await.unwrap() else { panic!() };
        let shown = repo.git(["cat-file", "commit", candidate.commit.as_str()]);
        assert!(shown.contains("gpgsig -----BEGIN PGP SIGNATURE-----"), "{strategy:?}: {shown}");
        repo.git(["config", "gpg.program", "false"]);
        let held = workspace.prepare_merge(&request).await.unwrap();
        let Merge::Held(by) = held else { panic!("{strategy:?}: {held:?}") };
        assert_eq!(by.kind, ObstacleKind::SigningFailed);
        assert!(by.message.contains("signing failed") && !by.message.contains('\n'), "{by:?}");
        repo.git(["config", "commit.gpgSign", "false"]);
        let published = workspace.publish(&candidate, &Default::default()).await.unwrap();
        assert!(matches!(published, Published::Done { .. }));
    }
    repo.fsck();
}

mod unfinished {
    use super::*;

    const AGENT: [&str; 4] = ["-c", "user.name=An Agent", "-c", "user.email=agent@example.org"];

    /// A task that is in the midst of merging another branch, with a conflict in one file.
    async fn merging(repo: &Repo) -> (GitWorkspace, std::path::PathBuf) {
        repo.git(["branch", "x"]);
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        repo.git(["checkout", "-q", "x"]);
        repo.write("a file.txt", "theirs\n");
        repo.commit("theirs");
        repo.git(["checkout", "-q", "main"]);
        fs::write(opened.cwd.join("a file.txt"), "ours\n").unwrap();
        git(&opened.cwd, AGENT.iter().chain(&["commit", "-qam", "ours"]));
        let output = crate::support::run(&opened.cwd, AGENT.iter().chain(&["merge", "x"]));
        assert!(!output.status.success());
        (workspace, opened.cwd)
    }

    #[tokio::test]
    async fn conflict_marks_are_not_published() {
        let repo = Repo::new();
        let (workspace, cwd) = merging(&repo).await;
        for _ in 0..2 {
            let captured = capture(&workspace, 1).await;
            let files: Vec<_> = captured.unmerged.iter().map(ToString::to_string).collect();
            assert_eq!(files, ["a file.txt"]);
            match prepare(&workspace, 1).await {
                Merge::Held(obstacle) => assert_eq!(obstacle.kind, ObstacleKind::UnfinishedMerge),
                other => panic!("{other:?}"),
            }
        }
        let accepting = MergeRequest::new(key(1), "main", "merge").with_accept_marks(true);
        assert!(matches!(workspace.prepare_merge(&accepting).await.unwrap(), Merge::Ready(_)));
        fs::write(cwd.join("a file.txt"), "both\n").unwrap();
        assert_eq!(capture(&workspace, 1).await.unmerged, []);
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        assert_eq!(repo.read("a file.txt"), "both\n");
    }

    #[tokio::test]
    async fn conflict_marks_that_the_agent_committed_are_not_published() {
        let repo = Repo::new();
        let (workspace, cwd) = merging(&repo).await;
        git(&cwd, AGENT.iter().chain(&["commit", "-qam", "merged, it says"]));
        let captured = capture(&workspace, 1).await;
        let files: Vec<_> = captured.unmerged.iter().map(ToString::to_string).collect();
        assert_eq!(files, ["a file.txt"]);
        match prepare(&workspace, 1).await {
            Merge::Held(obstacle) => assert_eq!(obstacle.kind, ObstacleKind::UnfinishedMerge),
            other => panic!("{other:?}"),
        }
    }

    /// A rebase, a cherry-pick, a stash and a squash leave files with marks, and no other trace.
    #[tokio::test]
    async fn conflict_marks_without_a_merge_are_not_published() {
        for (length, way) in [(7, &["cherry-pick", "x"][..]), (12, &["merge", "--squash", "x"])] {
            let repo = Repo::new();
            repo.write(".gitattributes", format!("* conflict-marker-size={length}\n"));
            repo.commit("attributes");
            let (workspace, cwd) = merging(&repo).await;
            git(&cwd, AGENT.iter().chain(&["merge", "--abort"]));
            assert!(!crate::support::run(&cwd, AGENT.iter().chain(way)).status.success());
            git(&cwd, AGENT.iter().chain(&["commit", "-qam", "resolved, it says"]));
            let captured = capture(&workspace, 1).await;
            let files: Vec<_> = captured.unmerged.iter().map(ToString::to_string).collect();
            assert_eq!(files, ["a file.txt"], "{way:?}");
            match prepare(&workspace, 1).await {
                Merge::Held(obstacle) => assert_eq!(obstacle.kind, ObstacleKind::UnfinishedMerge),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_merge_that_lacks_only_its_commit_keeps_both_parents() {
        let repo = Repo::new();
        let (workspace, cwd) = merging(&repo).await;
        fs::write(cwd.join("a file.txt"), "both\n").unwrap();
        git(&cwd, ["add", "."]);
        assert_eq!(capture(&workspace, 1).await.unmerged, []);
        let parents = repo.git(["log", "-1", "--format=%P", "watchfire/0001"]);
        assert_eq!(parents.split_whitespace().count(), 2, "{parents}");
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    }

    #[tokio::test]
    async fn marks_that_were_there_before_are_no_conflict() {
        let repo = Repo::new();
        repo.write("example", "<<<<<<< a\n=======\n>>>>>>> b\n");
        repo.commit("an example");
        let (workspace, cwd) = merging(&repo).await;
        fs::write(cwd.join("a file.txt"), "both\n").unwrap();
        fs::write(cwd.join("example"), "more\n<<<<<<< a\n=======\n>>>>>>> b\n").unwrap();
        git(&cwd, AGENT.iter().chain(&["commit", "-qam", "merged"]));
        assert_eq!(capture(&workspace, 1).await.unmerged, []);
    }
}

#[tokio::test]
async fn merge_attributes_are_obeyed() {
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    for (attribute, merges) in [
        ("default", false),
        ("text", true),
        ("-merge", false),
        ("binary", false),
        ("merge=binary", false),
        ("merge=nobody", true),
        ("merge=mine", false),
    ] {
        let repo = Repo::new();
        repo.write("file", lines("1", "9"));
        repo.write(".gitattributes", format!("file {attribute}\n"));
        repo.git(["config", "merge.mine.driver", "false"]);
        if attribute == "default" {
            repo.git(["config", "merge.default", "binary"]);
        }
        repo.commit("attributes");
        let workspace = repo.workspace();
        let opened = open(&workspace, 1).await;
        fs::write(opened.cwd.join("file"), lines("ours", "9")).unwrap();
        capture(&workspace, 1).await;
        repo.write("file", lines("1", "theirs"));
        repo.commit("theirs");
        let git = run(&repo.root, ["merge-tree", "--write-tree", "main", "watchfire/0001"]);
        assert_eq!(git.status.success(), merges, "{attribute}: {git:?}");
        let merge = prepare(&workspace, 1).await;
        assert_eq!(matches!(merge, Merge::Ready(_)), merges, "{attribute}: {merge:?}");
    }
    let repo = Repo::new();
    repo.write(".gitattributes", "list merge=union\n");
    repo.write("list", "1\n");
    repo.commit("attributes");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("list"), "1\nours\n").unwrap();
    capture(&workspace, 1).await;
    repo.write("list", "1\ntheirs\n");
    repo.commit("theirs");
    let git = run(&repo.root, ["merge-tree", "--write-tree", "main", "watchfire/0001"]);
    let tree = String::from_utf8(git.stdout).unwrap();
    match prepare(&workspace, 1).await {
        Merge::Ready(candidate) => assert_eq!(candidate.tree, tree.lines().next().unwrap()),
        other => panic!("{other:?}"),
    }
}
