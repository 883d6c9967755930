//! `git clean -fdx` takes settings and tasks along, and they come back.

use std::fs;

use crate::support::Repo;
use watchfire_core::workspace::Workspace;

#[tokio::test]
async fn what_git_clean_deletes_comes_back() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    assert_eq!(workspace.backed_up_at().await.unwrap(), None);
    repo.write(".watchfire/project.yaml", "name: x\n");
    repo.write(".watchfire/tasks/0001.yaml", "title: one\n");
    repo.write(".watchfire/secrets/instructions.md", "a secret\n");
    repo.write(".watchfire/worktrees/0009/file", "an agent's\n");
    std::os::unix::fs::symlink("/etc/passwd", repo.root.join(".watchfire/link")).unwrap();
    assert!(workspace.back_up().await.unwrap().is_some());
    assert!(workspace.back_up().await.unwrap().is_none(), "nothing has changed");
    repo.write(".watchfire/tasks/0002.yaml", "title: two\n");
    // Cleaning up saves too.
    workspace.prune().await.unwrap();
    let kept = repo.git(["ls-tree", "-r", "--name-only", "refs/watchfire/backup"]);
    assert_eq!(kept, "project.yaml\ntasks/0001.yaml\ntasks/0002.yaml\n");
    assert_eq!(repo.git(["log", "--format=%s", "refs/watchfire/backup"]).lines().count(), 2);
    assert!(workspace.backed_up_at().await.unwrap().is_some());

    repo.git(["clean", "-ffdxq"]);
    assert!(!repo.root.join(".watchfire").exists());
    assert!(workspace.back_up().await.unwrap().is_none(), "an empty folder replaces nothing");
    repo.write(".watchfire/tasks/0001.yaml", "title: written again\n");
    let restored = workspace.restore_backup().await.unwrap();
    let restored: Vec<_> = restored.iter().map(ToString::to_string).collect();
    assert_eq!(restored, ["project.yaml", "tasks/0002.yaml"]);
    assert_eq!(repo.read(".watchfire/tasks/0001.yaml"), "title: written again\n", "what is there stays");
    assert_eq!(repo.read(".watchfire/tasks/0002.yaml"), "title: two\n");
    assert!(fs::symlink_metadata(repo.root.join(".watchfire/link")).is_err());
    repo.fsck();
}
