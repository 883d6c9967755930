//! What a task changes, as data.

use std::fs;

use watchfire_core::ErrorKind;
use watchfire_core::workspace::{BranchSize, Workspace};
use watchfire_git::diff::{DiffRequest, FileChange, LineKind};

use crate::support::Repo;
use crate::support::steps::{capture, key, open};

#[tokio::test]
async fn every_kind_of_change_is_told_apart() {
    let repo = Repo::new();
    repo.write("moves", (0..50).map(|n| format!("line {n}\n")).collect::<String>());
    repo.write("goes", "goes\n");
    repo.write("program", "#!/bin/sh\n");
    repo.commit("more");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    let cwd = &opened.cwd;
    fs::rename(cwd.join("moves"), cwd.join("moved")).unwrap();
    fs::remove_file(cwd.join("goes")).unwrap();
    fs::write(cwd.join("picture"), b"\x89PNG\0\0").unwrap();
    capture(&workspace, 1).await;
    let content = fs::read_to_string(cwd.join("a file.txt")).unwrap().replace('5', "five");
    fs::write(cwd.join("a file.txt"), content).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(cwd.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    // What the target gained meanwhile is not the task's.
    repo.write("theirs", "theirs\n");
    repo.commit("theirs");

    let diff = workspace.diff(&DiffRequest::new(key(1))).await.unwrap();
    let seen: Vec<_> = diff.files.iter().map(|f| (f.path.to_string(), f.change, f.binary)).collect();
    assert_eq!(
        seen,
        [
            ("a file.txt".to_owned(), FileChange::Modified, false),
            ("goes".to_owned(), FileChange::Deleted, false),
            ("moved".to_owned(), FileChange::Renamed, false),
            ("picture".to_owned(), FileChange::Added, true),
            ("program".to_owned(), FileChange::Modified, false),
        ]
    );
    let [edited, _, moved, _, program] = &diff.files[..] else { panic!() };
    assert_eq!((edited.additions, edited.deletions), (1, 1));
    let hunk = &edited.hunks[0];
    assert_eq!((hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines), (2, 7, 2, 7));
    let changed: Vec<_> =
        hunk.lines.iter().filter(|l| l.kind != LineKind::Context).map(|l| l.text.as_str()).collect();
    assert_eq!(changed, ["5", "five"]);
    assert_eq!(moved.old_path.as_ref().unwrap().to_string(), "moves");
    assert_eq!((program.old_mode.as_deref(), program.new_mode.as_deref()), (Some("100644"), Some("100755")));

    let committed = workspace.diff(&DiffRequest::new(key(1)).with_uncommitted(false)).await.unwrap();
    assert_eq!(committed.total_files, 3);
    let little = workspace.diff(&DiffRequest::new(key(1)).with_limits(1, 2)).await.unwrap();
    assert_eq!((little.files.len(), little.total_files, little.files[0].truncated), (1, 5, true));
    assert_eq!(little.files[0].hunks[0].lines.len(), 2);
}

/// A deleted branch is not shown as work that deletes every file.
#[tokio::test]
async fn without_its_branch_work_is_what_its_folder_has() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "new\n").unwrap();
    capture(&workspace, 1).await;
    repo.git(["update-ref", "-d", "refs/heads/watchfire/0001"]);
    let diff = workspace.diff(&DiffRequest::new(key(1))).await.unwrap();
    let seen: Vec<_> = diff.files.iter().map(|file| (file.path.to_string(), file.change)).collect();
    assert_eq!(seen, [("new".to_owned(), FileChange::Added)]);
    let committed = workspace.diff(&DiffRequest::new(key(1)).with_uncommitted(false)).await.unwrap_err();
    assert_eq!((committed.kind(), committed.detail("branch")), (ErrorKind::NotFound, Some("watchfire/0001")));

    open(&workspace, 2).await;
    fs::remove_dir_all(repo.root.join(".watchfire/worktrees/0002")).unwrap();
    repo.git(["update-ref", "-d", "refs/heads/watchfire/0002"]);
    let gone = workspace.diff(&DiffRequest::new(key(2))).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
}

/// What a branch changes against where it left its target, whatever the target has gained.
#[tokio::test]
async fn the_list_says_how_much_a_branch_changes() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), vec![b'x'; 5000]).unwrap();
    fs::remove_file(opened.cwd.join(".gitignore")).unwrap();
    capture(&workspace, 1).await;
    repo.write("theirs", "theirs\n");
    repo.commit("theirs");
    open(&workspace, 2).await;
    let sizes: Vec<_> = workspace.list().await.unwrap().into_iter().map(|branch| branch.size).collect();
    assert_eq!(sizes, [Some(BranchSize::new(2, 5000)), Some(BranchSize::new(0, 0))]);
}
