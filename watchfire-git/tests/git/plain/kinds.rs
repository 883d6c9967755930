//! Which folder is a plain project, and what becomes of one that gets or loses a repository.

use std::fs;
use std::path::Path;

use watchfire_core::ErrorKind;
use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    BranchStatus, Merge, ObstacleKind, OpenRequest, PublishRequest, Published, RemoveRequest, Removed,
    Workspace,
};
use watchfire_git::init::{check_plain, init_plain};
use watchfire_git::{GitOptions, GitWorkspace};

use super::Plain;
use crate::support::steps::{candidate, capture, key, open, prepare, publish};
use crate::support::{Repo, git};

/// Makes the folder a repository, with everything in it committed.
fn git_init(root: &Path) {
    git(root, ["init", "-q", "-b", "main"]);
    git(root, ["config", "user.name", "A Person"]);
    git(root, ["config", "user.email", "person@example.org"]);
    fs::write(root.join(".gitignore"), ".watchfire/\n").unwrap();
    git(root, ["add", "-A"]);
    git(root, ["commit", "-qm", "first"]);
}

#[tokio::test]
async fn a_folder_that_nobody_asked_for_is_refused() {
    let plain = Plain::bare();
    let error = plain.try_workspace().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.detail("hint").unwrap().contains("watchfire init --plain"), "{error:?}");
    assert!(!plain.store.exists());
    let error = GitWorkspace::open(&plain.root, GitOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn folders_that_hold_more_than_a_project_are_refused() {
    let plain = Plain::bare();
    let home = std::env::home_dir().unwrap();
    let above_store = plain.root.parent().unwrap();
    for root in [
        Path::new("/"),
        &home,
        home.parent().unwrap(),
        Path::new("/usr/share"),
        Path::new("/etc"),
        above_store,
    ] {
        let error = check_plain(root, &plain.store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}: {error:?}", root.display());
    }
    let repo = Repo::new();
    repo.write("inside/file", "");
    for root in [repo.root.clone(), repo.root.join("inside")] {
        let error = check_plain(&root, &plain.store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{}: {error:?}", root.display());
    }
    assert!(!repo.root.join(".watchfire").exists() && !plain.store.exists());
    check_plain(&plain.root, &plain.store).unwrap();
    // Made ready twice, it stays as it is.
    plain.init();
    let tip = plain.tip();
    plain.init();
    assert_eq!(plain.tip(), tip);
}

#[tokio::test]
async fn a_folder_that_is_away_is_never_taken_for_an_empty_one() {
    let plain = Plain::new();
    let workspace = plain.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&workspace, 1).await;
    let merged = candidate(&workspace, 1).await;
    let tip = plain.tip();
    // As where its disk is unmounted.
    let away = plain.beside("away");
    fs::rename(&plain.root, &away).unwrap();
    fs::create_dir(&plain.root).unwrap();
    for workspace in [&workspace, &plain.workspace()] {
        let error = workspace.open(&OpenRequest::new(key(2), Attempt(1))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WorkspaceBroken, "{error:?}");
        assert!(workspace.publish(&merged, &PublishRequest::default()).await.is_err());
    }
    assert_eq!((plain.tip(), fs::read_dir(&plain.root).unwrap().count()), (tip, 0));
    fs::remove_dir(&plain.root).unwrap();
    fs::rename(&away, &plain.root).unwrap();
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
}

#[tokio::test]
async fn a_renamed_folder_takes_its_work_along() {
    let plain = Plain::new();
    let opened = open(&plain.workspace(), 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    let moved = plain.beside("moved");
    fs::rename(&plain.root, &moved).unwrap();
    let workspace = GitWorkspace::open_with_snapshots(&moved, &plain.store, GitOptions::default()).unwrap();
    let opened = open(&workspace, 1).await;
    assert!(opened.reused && opened.cwd.starts_with(&moved));
    capture(&workspace, 1).await;
    assert!(matches!(publish(&workspace, 1).await, Published::Done { .. }));
    assert_eq!(fs::read_to_string(moved.join("new")).unwrap(), "work\n");
}

#[tokio::test]
async fn two_homes_do_not_share_a_folder() {
    let plain = Plain::new();
    let other = plain.beside("other home");
    let error = init_plain(&plain.root, &other, &GitOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    let error = GitWorkspace::open_with_snapshots(&plain.root, &other, GitOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    // A home that is gone claims nothing.
    fs::remove_dir_all(&plain.store).unwrap();
    init_plain(&plain.root, &other, &GitOptions::default()).unwrap();
    let workspace = GitWorkspace::open_with_snapshots(&plain.root, &other, GitOptions::default()).unwrap();
    open(&workspace, 1).await;
}

#[tokio::test]
async fn a_folder_that_gets_a_repository_is_one_of_git() {
    let plain = Plain::new();
    let old = plain.workspace();
    let opened = open(&old, 1).await;
    fs::write(opened.cwd.join("new"), "work\n").unwrap();
    capture(&old, 1).await;
    let merged = candidate(&old, 1).await;
    fs::write(opened.cwd.join("uncaptured"), "work\n").unwrap();
    git_init(&plain.root);
    // A process that has it open goes on with nothing.
    assert!(old.publish(&merged, &PublishRequest::default()).await.is_err());

    let workspace = plain.try_workspace().unwrap();
    assert!(!workspace.has_snapshots());
    workspace.recover().await.unwrap();
    // New work goes as in any repository.
    let other = open(&workspace, 2).await;
    assert!(other.attention.is_empty(), "{other:?}");
    fs::write(other.cwd.join("other"), "work\n").unwrap();
    capture(&workspace, 2).await;
    assert!(matches!(publish(&workspace, 2).await, Published::Done { .. }));
    assert_eq!(git(&plain.root, ["status", "--porcelain"]), "");

    // The old work is there, held, with the way to it.
    let captured = capture(&workspace, 1).await;
    assert_eq!(captured.paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["uncaptured"]);
    let branches = workspace.list().await.unwrap();
    let listed: Vec<_> = branches.iter().map(|it| (it.key.as_str(), it.status)).collect();
    assert_eq!(listed, [("0001", BranchStatus::Unmerged), ("0002", BranchStatus::Merged)]);
    let Merge::Held(obstacle) = prepare(&workspace, 1).await else { panic!("not held") };
    assert_eq!(obstacle.kind, ObstacleKind::BegunInSnapshots);
    let published = workspace.publish(&merged, &PublishRequest::default()).await.unwrap();
    assert!(matches!(published, Published::Held(_)), "{published:?}");
    let error = workspace.open(&OpenRequest::new(key(1), Attempt(2)).with_fresh(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkspaceBroken);
    // Literally as it says.
    let commands: Vec<_> = obstacle.message.split('`').skip(1).step_by(2).collect();
    assert_eq!(commands.len(), 2, "{obstacle}");
    for command in commands {
        let words = command.strip_prefix("git ").unwrap().split(' ').map(|word| word.trim_matches('\''));
        git(&plain.root, words);
    }
    assert_eq!((plain.read("new"), plain.read("uncaptured")), ("work\n".to_owned(), "work\n".to_owned()));
    let removed = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(matches!(removed, Removed::Gone { rescued: Some(_), .. }), "{removed:?}");
    assert!(!plain.root.join(".watchfire/worktrees/0001").exists());
    let opened = open(&workspace, 1).await;
    assert!(opened.cwd.join("new").exists());
}

#[tokio::test]
async fn a_repository_that_is_gone_is_no_plain_folder() {
    // Never one with snapshots.
    let repo = Repo::new();
    let store = repo.beside("home/snapshots");
    GitWorkspace::open_with_snapshots(&repo.root, &store, GitOptions::default()).unwrap();
    fs::rename(repo.root.join(".git"), repo.beside("away")).unwrap();
    let error = GitWorkspace::open_with_snapshots(&repo.root, &store, GitOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // What is called so and is none.
    fs::create_dir(repo.root.join(".git")).unwrap();
    assert!(GitWorkspace::open_with_snapshots(&repo.root, &store, GitOptions::default()).is_err());

    // Once one with snapshots.
    let plain = Plain::new();
    git_init(&plain.root);
    assert!(!plain.try_workspace().unwrap().has_snapshots());
    fs::rename(plain.root.join(".git"), plain.beside("away")).unwrap();
    let error = plain.try_workspace().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkspaceBroken);
    assert!(error.detail("hint").unwrap().contains("bring .git back"), "{error:?}");
    // The person says that it shall be one.
    plain.init();
    open(&plain.workspace(), 1).await;
}
