//! Worktrees of the person's that are on a disk that is away, or were deleted by hand.

use std::fs;
use std::path::Path;

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{Obstacle, ObstacleKind, OpenRequest, Published, Workspace};
use watchfire_git::GitWorkspace;

use crate::support::steps::{capture, key, open, publish};
use crate::support::{Repo, git, run};

/// A project on another branch, with `main` checked out in a worktree `usb`.
fn project() -> Repo {
    let repo = Repo::new();
    repo.git(["checkout", "-qb", "other"]);
    let usb = repo.beside("usb");
    repo.git(["worktree", "add", "-q", usb.to_str().unwrap(), "main"]);
    repo
}

async fn work(workspace: &GitWorkspace) {
    let opened = open(workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(workspace, 1).await;
}

async fn held(workspace: &GitWorkspace) -> Obstacle {
    match publish(workspace, 1).await {
        Published::Held(by) => by,
        other => panic!("{other:?}"),
    }
}

fn git_refuses(repo: &Repo, worktree: &Path) {
    let output = run(&repo.root, ["branch", "-f", "main", "main"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("used by worktree at") && said.contains(worktree.to_str().unwrap()), "{said}");
}

#[tokio::test]
async fn a_worktree_of_the_target_that_is_away_holds_the_merge() {
    for locked in [true, false] {
        let repo = project();
        let (usb, unplugged) = (repo.beside("usb"), repo.beside("unplugged"));
        if locked {
            repo.git(["worktree", "lock", usb.to_str().unwrap()]);
        }
        let workspace = repo.workspace();
        work(&workspace).await;
        fs::rename(&usb, &unplugged).unwrap();
        git_refuses(&repo, &usb);
        let main = repo.git(["rev-parse", "main"]);
        let by = held(&workspace).await;
        assert_eq!((by.kind, by.checkout.as_ref()), (ObstacleKind::WorktreeAway, Some(&usb)));
        assert!(by.message.contains("main"), "{by}");
        assert_eq!(repo.git(["rev-parse", "main"]), main);
        // Back again, it gets the merge.
        fs::rename(&unplugged, &usb).unwrap();
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        assert_eq!(git(&usb, ["status", "--porcelain"]), "");
        assert!(usb.join("new").exists());
    }
}

#[tokio::test]
async fn the_cure_lets_the_merge_go_on() {
    let repo = project();
    let usb = repo.beside("usb");
    let workspace = repo.workspace();
    work(&workspace).await;
    fs::remove_dir_all(&usb).unwrap();
    let by = held(&workspace).await;
    assert!(by.kind.cure().contains("git worktree prune"), "{by}");
    repo.git(["worktree", "prune"]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
}

#[tokio::test]
async fn a_worktree_that_is_away_on_another_branch_is_in_nobodys_way() {
    let repo = project();
    let usb = repo.beside("usb");
    git(&usb, ["checkout", "-qb", "third"]);
    let workspace = repo.workspace();
    work(&workspace).await;
    fs::rename(&usb, repo.beside("unplugged")).unwrap();
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
}

/// During a rebase of the target its HEAD is detached, and git keeps others from the branch.
#[tokio::test]
async fn a_rebase_in_a_worktree_that_is_away_holds_the_merge() {
    let repo = project();
    let usb = repo.beside("usb");
    repo.git(["commit", "-q", "--allow-empty", "-m", "other"]);
    for (folder, text) in [(&repo.root, "theirs\n"), (&usb, "ours\n")] {
        fs::write(folder.join("both"), text).unwrap();
        git(folder, ["add", "-A"]);
        git(folder, ["commit", "-qm", "both"]);
    }
    let workspace = repo.workspace();
    let opened = workspace.open(&OpenRequest::new(key(1), Attempt(1)).with_target("main")).await.unwrap();
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert!(!run(&usb, ["rebase", "-q", "other"]).status.success());
    fs::rename(&usb, repo.beside("unplugged")).unwrap();
    git_refuses(&repo, &usb);
    let by = held(&workspace).await;
    assert_eq!((by.kind, by.checkout), (ObstacleKind::WorktreeAway, Some(usb)));
}

/// The project was moved, and git finds neither way.
#[tokio::test]
async fn a_worktree_that_has_lost_its_project_holds_the_merge() {
    let repo = project();
    let usb = repo.beside("usb");
    let moved = repo.beside("moved");
    fs::rename(&repo.root, &moved).unwrap();
    let repo = Repo::existing(moved);
    let workspace = repo.workspace();
    work(&workspace).await;
    let by = held(&workspace).await;
    assert_eq!((by.kind, by.checkout.as_ref()), (ObstacleKind::WorktreeAway, Some(&usb)));
    assert!(by.kind.cure().contains("git worktree repair"), "{by}");
    repo.git(["worktree", "repair", usb.to_str().unwrap()]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(git(&usb, ["status", "--porcelain"]), "");
}
