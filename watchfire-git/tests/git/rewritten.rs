//! A target that its person has rewritten: what was taken away does not come back.

use std::fs;

use watchfire_core::model::MergeStrategy;
use watchfire_core::workspace::{
    Merge, MergeRequest, Obstacle, ObstacleKind, PublishRequest, Published, RemoveRequest, Removed, Workspace,
};
use watchfire_git::GitWorkspace;

use crate::support::steps::{capture, key, open, prepare, publish};
use crate::support::{Repo, git};

const AGENT: [&str; 4] = ["-c", "user.name=An Agent", "-c", "user.email=agent@example.org"];

fn held(merge: Merge) -> Obstacle {
    match merge {
        Merge::Held(obstacle) => obstacle,
        other => panic!("{other:?}"),
    }
}

/// A task on top of a commit with a secret, which its person amends away meanwhile.
async fn amended(repo: &Repo, name: &str) -> (GitWorkspace, String) {
    repo.write("secret.txt", "hunter2\n");
    repo.write("kept", "kept\n");
    repo.commit("wip");
    let old = repo.git(["rev-parse", "HEAD"]).trim().to_owned();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join(name), "work\n").unwrap();
    capture(&workspace, 1).await;
    repo.git(["rm", "-q", "secret.txt"]);
    repo.git(["commit", "-q", "--amend", "-m", "wip2"]);
    (workspace, old)
}

#[tokio::test]
async fn what_a_person_amended_away_does_not_come_back() {
    for strategy in [MergeStrategy::Merge, MergeStrategy::Squash, MergeStrategy::Rebase] {
        let repo = Repo::new();
        let (workspace, old) = amended(&repo, "new").await;
        let request = MergeRequest::new(key(1), "main", "merge").with_strategy(strategy);
        let merge = workspace.prepare_merge(&request).await.unwrap();
        let Merge::Ready(candidate) = merge else { panic!("{strategy:?}: {merge:?}") };
        let published = workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
        assert!(matches!(published, Published::Done { .. }), "{strategy:?}: {published:?}");
        assert_eq!(repo.read("new"), "work\n");
        assert!(!repo.root.join("secret.txt").exists(), "{strategy:?}");
        let history = repo.git(["log", "--format=%H", "main"]);
        assert!(!history.contains(&old), "{strategy:?}: the old commit is reachable again");
        let objects = repo.git(["rev-list", "--objects", "main"]);
        assert!(!objects.contains("secret.txt"), "{strategy:?}");
        // The agent's own commits stay.
        let removed = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
        let Removed::Gone { rescued: Some(rescued), .. } = removed else { panic!("{removed:?}") };
        assert!(repo.git(["log", "--format=%H", &rescued.name]).contains(&old));
    }
}

#[tokio::test]
async fn dropped_commits_do_not_come_back() {
    let repo = Repo::new();
    repo.write("dropped", "dropped\n");
    repo.commit("dropped");
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    repo.git(["reset", "-q", "--hard", "HEAD~1"]);
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert!(repo.root.join("new").exists() && !repo.root.join("dropped").exists());
}

#[tokio::test]
async fn what_cannot_be_told_apart_is_held() {
    // A conflict.
    let repo = Repo::new();
    let (workspace, _) = amended(&repo, "secret.txt").await;
    let held = |merge| match merge {
        Merge::Held(obstacle) => (obstacle.kind, obstacle.files.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(held(prepare(&workspace, 1).await), (ObstacleKind::BranchRewritten, 1));
    // The agent took over what was dropped later, by a fast-forward.
    let repo = Repo::new();
    let workspace = repo.workspace();
    let opened = open(&workspace, 1).await;
    repo.write("dropped", "dropped\n");
    repo.commit("dropped");
    git(&opened.cwd, ["merge", "-q", "main"]);
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    repo.write("other", "other\n");
    repo.git(["checkout", "-q", "--orphan", "fresh"]);
    repo.commit("all new");
    repo.git(["checkout", "-q", "-B", "main"]);
    assert_eq!(held(prepare(&workspace, 1).await), (ObstacleKind::BranchRewritten, 0));
}

/// As the cure of the obstacle says.
#[tokio::test]
async fn what_was_held_merges_once_it_is_rebased() {
    let held = |merge| match merge {
        Merge::Held(obstacle) => obstacle,
        other => panic!("{other:?}"),
    };
    let who = ["-c", "user.name=x", "-c", "user.email=x"];
    let conflicting = async || {
        let repo = Repo::new();
        repo.write("file", "old\n");
        repo.write("secret.txt", "hunter2\n");
        repo.commit("wip");
        let old = repo.git(["rev-parse", "--short=7", "HEAD"]).trim().to_owned();
        let workspace = repo.workspace();
        let cwd = open(&workspace, 1).await.cwd;
        fs::write(cwd.join("file"), "work\n").unwrap();
        capture(&workspace, 1).await;
        repo.write("file", "new\n");
        repo.git(["rm", "-q", "secret.txt"]);
        repo.git(["commit", "-qa", "--amend", "-m", "wip2"]);
        let obstacle = held(prepare(&workspace, 1).await);
        assert!(obstacle.message.contains(&old), "{obstacle}");
        assert!(obstacle.kind.cure().contains("git rebase --onto TARGET BEGINNING"));
        (repo, workspace, cwd, old)
    };
    let (repo, workspace, cwd, old) = conflicting().await;
    let rebase = ["rebase", "-q", "-Xtheirs", "--onto", "main", &old];
    git(&cwd, who.iter().chain(&rebase));
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(repo.read("file"), "work\n");
    assert!(!repo.root.join("secret.txt").exists());
    // Rebased with the commit that was amended: what that dropped would come back.
    let (_repo, workspace, cwd, _) = conflicting().await;
    git(&cwd, who.iter().chain(&["rebase", "-q", "-Xtheirs", "main"]));
    let obstacle = held(prepare(&workspace, 1).await);
    assert_eq!(obstacle.kind, ObstacleKind::BranchRewritten);
    assert!(obstacle.files.iter().any(|file| file.to_string() == "secret.txt"), "{obstacle:?}");
}

/// A task that merged a commit with a secret from its target, which its person amends away afterwards.
async fn merged_before(repo: &Repo) -> (GitWorkspace, std::path::PathBuf, String) {
    let workspace = repo.workspace();
    let cwd = open(&workspace, 1).await.cwd;
    fs::write(cwd.join("new"), "work\n").unwrap();
    git(&cwd, ["add", "-A"]);
    git(&cwd, AGENT.iter().chain(&["commit", "-qm", "new"]));
    repo.write("secret.txt", "hunter2\n");
    repo.write("kept", "kept\n");
    let old = repo.commit("wip");
    git(&cwd, AGENT.iter().chain(&["merge", "-q", "--no-edit", "main"]));
    capture(&workspace, 1).await;
    (workspace, cwd, old)
}

#[tokio::test]
async fn what_an_agent_merged_before_it_was_dropped_does_not_come_back() {
    for strategy in [MergeStrategy::Merge, MergeStrategy::Squash, MergeStrategy::Rebase] {
        let repo = Repo::new();
        let (workspace, cwd, old) = merged_before(&repo).await;
        repo.git(["rm", "-q", "secret.txt"]);
        repo.git(["commit", "-q", "--amend", "-m", "wip2"]);
        let request = MergeRequest::new(key(1), "main", "merge").with_strategy(strategy);
        let obstacle = held(workspace.prepare_merge(&request).await.unwrap());
        assert_eq!(obstacle.kind, ObstacleKind::BranchRewritten);
        assert!(obstacle.message.contains(&old[..7]), "{obstacle}");
        // As the cure says.
        git(&cwd, AGENT.iter().chain(&["rebase", "-q", "--onto", "main", &old]));
        assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
        assert_eq!(repo.read("new"), "work\n");
        assert!(!repo.root.join("secret.txt").exists());
    }
    // It is reachable from a log only, and not the tip of an entry.
    let repo = Repo::new();
    let (workspace, _, old) = merged_before(&repo).await;
    repo.write("later", "later\n");
    repo.commit("later");
    repo.git(["reflog", "delete", "refs/heads/main@{1}"]);
    assert!(!repo.git(["reflog", "--format=%H", "main"]).contains(&old));
    repo.git(["reset", "-q", "--hard", "HEAD~2"]);
    assert_eq!(held(prepare(&workspace, 1).await).kind, ObstacleKind::BranchRewritten);
}

#[tokio::test]
async fn a_rename_of_the_target_changes_nothing() {
    let into = MergeRequest::new(key(1), "trunk", "merge");
    let repo = Repo::new();
    let (workspace, old) = amended(&repo, "new").await;
    repo.git(["branch", "-m", "main", "trunk"]);
    let merge = workspace.prepare_merge(&into).await.unwrap();
    let Merge::Ready(candidate) = merge else { panic!("{merge:?}") };
    let history = repo.git(["log", "--format=%H", candidate.commit.as_str()]);
    assert!(!history.contains(&old), "the old commit is reachable again");
    let repo = Repo::new();
    let (workspace, ..) = merged_before(&repo).await;
    repo.git(["reset", "-q", "--hard", "HEAD~1"]);
    repo.git(["branch", "-m", "main", "trunk"]);
    let obstacle = held(workspace.prepare_merge(&into).await.unwrap());
    assert_eq!(obstacle.kind, ObstacleKind::BranchRewritten);
}

#[tokio::test]
async fn what_only_a_merge_of_ours_brought_may_come_again() {
    let repo = Repo::new();
    let workspace = repo.workspace();
    let cwd = open(&workspace, 1).await.cwd;
    fs::write(cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    repo.write("later", "later\n");
    repo.commit("later");
    repo.git(["reset", "-q", "--hard", "HEAD~2"]);
    assert!(matches!(prepare(&workspace, 1).await, Merge::Ready(_)));
    // Without a log nothing is known, and none is made.
    fs::remove_file(repo.root.join(".git/logs/refs/heads/main")).unwrap();
    assert!(matches!(prepare(&workspace, 1).await, Merge::Ready(_)));
    assert!(!repo.root.join(".git/logs/refs/heads/main").exists());
}

#[tokio::test]
async fn a_dropped_file_does_not_come_back_under_another_name() {
    let repo = Repo::new();
    repo.write("secret.txt", "hunter2\n");
    repo.write("empty", "");
    repo.commit("wip");
    let workspace = repo.workspace();
    let cwd = open(&workspace, 1).await.cwd;
    fs::copy(cwd.join("secret.txt"), cwd.join("config.txt")).unwrap();
    fs::write(cwd.join("also empty"), "").unwrap();
    capture(&workspace, 1).await;
    repo.git(["rm", "-q", "secret.txt", "empty"]);
    repo.git(["commit", "-q", "--amend", "--allow-empty", "-m", "wip2"]);
    let obstacle = held(prepare(&workspace, 1).await);
    assert_eq!(obstacle.kind, ObstacleKind::BranchRewritten);
    let files: Vec<_> = obstacle.files.iter().map(ToString::to_string).collect();
    assert_eq!(files, ["config.txt"]);
}
