//! Taking back what was merged in several repositories.

use std::fs;

use watchfire_core::workspace::{
    Commit, Merge, ObstacleKind, Published, RemoveRequest, RevertRequest, Reverted, Workspace,
};
use watchfire_git::{GitWorkspace, JointWorkspace};

use super::{World, candidate, capture, open, prepare, publish, work};
use crate::support::git;
use crate::support::steps::key;

fn taking_back(n: u32, of: u32, commit: &Commit) -> RevertRequest {
    RevertRequest::new(key(n), key(of), commit.clone(), "main", "undo")
}

/// Merges the work of a task, and returns the commit that its project knows the merge by.
async fn merged(workspace: &JointWorkspace, n: u32) -> Commit {
    let candidate = candidate(workspace, n).await;
    assert!(matches!(publish(workspace, &candidate).await, Published::Done { .. }));
    workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
    let others = candidate.others.iter().find_map(|part| part.candidate.own_commit().cloned());
    candidate.own_commit().cloned().or(others).unwrap()
}

async fn is_left(workspace: &JointWorkspace, of: u32, commit: &Commit) -> bool {
    workspace.can_revert(&key(of), commit, "main").await.unwrap()
}

#[tokio::test]
async fn work_in_several_repositories_is_taken_back_as_one() {
    let world = World::new();
    let workspace = world.workspace();
    let opened = work(&workspace, 1, 2).await;
    fs::remove_file(opened.others[0].cwd.join("text")).unwrap();
    capture(&workspace, 1).await;
    let commit = merged(&workspace, 1).await;
    // What came later stays.
    work(&workspace, 2, 2).await;
    merged(&workspace, 2).await;
    assert!(is_left(&workspace, 1, &commit).await);
    let before = world.tips();

    let reverted = workspace.revert(&taking_back(3, 1, &commit)).await.unwrap();
    assert!(matches!(reverted, Reverted::Done(_)), "{reverted:?}");
    assert_eq!(world.tips(), before, "no target moves");
    let again = workspace.revert(&taking_back(3, 1, &commit)).await.unwrap_err();
    assert_eq!(again.code(), "already_exists");
    let back = candidate(&workspace, 3).await;
    // Held in one, held in all.
    fs::write(world.lib.join("new 1"), "mine\n").unwrap();
    let Published::Held(by) = publish(&workspace, &back).await else { panic!() };
    assert_eq!(by.kind, ObstacleKind::LocalEdits, "{by}");
    assert_eq!(world.tips(), before);
    git(&world.lib, ["checkout", "-q", "new 1"]);
    let undone = merged(&workspace, 3).await;
    for root in [&world.app.root, &world.lib] {
        assert!(!root.join("new 1").exists() && root.join("new 2").exists(), "{}", root.display());
    }
    assert_eq!(fs::read_to_string(world.lib.join("text")).unwrap(), "lib\n");
    assert_eq!(world.tips()[2], before[2]);
    world.sound("undone");
    assert!(!is_left(&workspace, 1, &commit).await);
    let nothing = workspace.revert(&taking_back(4, 1, &commit)).await.unwrap();
    assert_eq!(nothing, Reverted::Nothing);

    // An undo is undone like any work.
    workspace.revert(&taking_back(4, 3, &undone)).await.unwrap();
    merged(&workspace, 4).await;
    assert!(world.app.root.join("new 1").exists() && world.lib.join("new 1").exists());
    assert!(!world.lib.join("text").exists());
    world.sound("redone");
    assert_eq!(workspace.list().await.unwrap(), []);
}

#[tokio::test]
async fn work_in_another_repository_alone_is_taken_back() {
    let world = World::new();
    let workspace = world.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.others[0].cwd.join("new"), "lib\n").unwrap();
    capture(&workspace, 1).await;
    let commit = merged(&workspace, 1).await;
    let before = world.tips();
    workspace.revert(&taking_back(2, 1, &commit)).await.unwrap();
    merged(&workspace, 2).await;
    assert!(!world.lib.join("new").exists());
    let after = world.tips();
    assert!(before[0] == after[0] && before[1] != after[1], "the project's own has nothing of it");
    world.sound("");
}

#[tokio::test]
async fn a_conflict_in_one_repository_changes_none() {
    let world = World::new();
    let workspace = world.workspace();
    let mut commits = Vec::new();
    for n in 1..=2 {
        let opened = work(&workspace, n, 1).await;
        fs::write(opened.others[0].cwd.join("text"), format!("{n}\n")).unwrap();
        capture(&workspace, n).await;
        commits.push(merged(&workspace, n).await);
    }
    let refs = || world.roots().map(|root| git(root, ["for-each-ref"]));
    let before = refs();
    let found = workspace.revert(&taking_back(3, 1, &commits[0])).await.unwrap();
    let Reverted::Conflicts(files) = found else { panic!("{found:?}") };
    assert_eq!(files.iter().map(ToString::to_string).collect::<Vec<_>>(), ["../lib/text"]);
    assert_eq!(refs(), before);
    // Without the others named, their part would stay.
    let alone = GitWorkspace::open(&world.app.root, Default::default()).unwrap();
    let error = alone.revert(&taking_back(3, 1, &commits[0])).await.unwrap_err();
    assert_eq!((error.code(), error.detail("field")), ("not_supported", Some("repositories")));
    assert_eq!(refs(), before);
}

/// Only the last merge of a task counts, in whichever repositories it was.
#[tokio::test]
async fn the_last_merge_of_a_task_is_taken_back_and_no_earlier_one() {
    let world = World::new();
    let workspace = world.workspace();
    work(&workspace, 1, 2).await;
    let first = merged(&workspace, 1).await;
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("more"), "more\n").unwrap();
    capture(&workspace, 1).await;
    let last = merged(&workspace, 1).await;
    assert_ne!(first, last);
    workspace.revert(&taking_back(2, 1, &last)).await.unwrap();
    merged(&workspace, 2).await;
    assert!(!world.app.root.join("more").exists());
    assert!(world.app.root.join("new 1").exists() && world.lib.join("new 1").exists());
    world.sound("");
}

/// Both halves belong to the merge, though a second candidate brought the other one.
#[tokio::test]
async fn what_was_published_in_two_steps_is_taken_back_in_one() {
    let world = World::new();
    let workspace = world.workspace();
    work(&workspace, 1, 2).await;
    let half = candidate(&workspace, 1).await;
    // A person merges one part by hand, and moves on in the other repository.
    git(&world.lib, ["merge", "-q", "--ff-only", half.others[0].candidate.commit.as_str()]);
    git(&world.app.root, ["commit", "-q", "--allow-empty", "-m", "mine"]);
    let Published::Held(by) = publish(&workspace, &half).await else { panic!() };
    assert_eq!(by.kind, ObstacleKind::HalfPublished);
    let commit = merged(&workspace, 1).await;
    workspace.revert(&taking_back(2, 1, &commit)).await.unwrap();
    merged(&workspace, 2).await;
    for root in [&world.app.root, &world.lib] {
        assert!(!root.join("new 1").exists(), "{}", root.display());
    }
    world.sound("");
}

/// A kill leaves parts of the way back on branches. The next call makes all of them.
#[tokio::test]
async fn a_way_back_that_a_kill_cut_off_is_made_anew() {
    let world = World::new();
    let workspace = world.workspace();
    work(&workspace, 1, 2).await;
    let commit = merged(&workspace, 1).await;
    let env = [("WATCHFIRE_KILL_AT", "joint: a way back made"), ("WATCHFIRE_TEST_COMMIT", commit.as_str())];
    let output = crate::half_way::child_of("joint::undo::taking", "", &world.app, &env);
    assert!(!output.status.success(), "{output:?}");
    let branches = |root| git(root, ["for-each-ref", "--format=%(refname)", "refs/heads/watchfire"]);
    assert!(branches(&world.app.root).is_empty() && !branches(&world.lib).is_empty());
    workspace.recover().await.unwrap();
    workspace.revert(&taking_back(2, 1, &commit)).await.unwrap();
    let Merge::Ready(back) = prepare(&workspace, 2).await else { panic!() };
    assert!(matches!(publish(&workspace, &back).await, Published::Done { .. }));
    for root in [&world.app.root, &world.lib] {
        assert!(!root.join("new 1").exists(), "{}", root.display());
    }
    world.sound("");
}

#[tokio::test]
#[ignore = "started by the other test, to be killed"]
async fn taking() {
    let Some(root) = crate::half_way::root() else { return };
    let commit = Commit::new(std::env::var("WATCHFIRE_TEST_COMMIT").unwrap());
    let workspace = World::existing(root).workspace();
    workspace.revert(&taking_back(2, 1, &commit)).await.unwrap();
}
