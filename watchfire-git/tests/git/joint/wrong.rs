//! Lists of repositories that cannot be, and lists that change.

use std::fs;
use std::path::PathBuf;

use watchfire_core::model::Attempt;
use watchfire_core::workspace::{
    CaptureRequest, InTargets, MergeRequest, OpenRequest, PublishRequest, Published, RemoveRequest, Removed,
    Workspace,
};
use watchfire_git::{GitOptions, JointWorkspace};

use super::{World, candidate, capture, open, open_joint, publish, work};
use crate::support::steps::key;
use crate::support::{git, steps};

#[test]
fn a_list_that_cannot_be_is_refused_with_its_entry() {
    let world = World::new();
    fs::create_dir_all(world.lib.join("folder")).unwrap();
    fs::create_dir_all(world.app.root.join("inner")).unwrap();
    git(&world.app.root.join("inner"), ["init", "-q"]);
    let linked = world.app.beside("linked");
    git(&world.lib, ["worktree", "add", "-q", "-b", "other", linked.to_str().unwrap()]);
    std::os::unix::fs::symlink(&world.lib, world.app.beside("link")).unwrap();
    for (entries, wrong, says) in [
        (vec!["../lib", "../missing"], "../missing", "not the top of a repository"),
        (vec!["../lib/folder"], "../lib/folder", "folder inside a repository"),
        (vec!["../lib", "../lib/"], "../lib/", "the same repository as ../lib"),
        (vec!["../lib", "../link"], "../link", "the same repository as ../lib"),
        (vec!["../lib", "../linked"], "../linked", "the same repository as ../lib"),
        (vec!["."], ".", "the same repository as the project's own"),
        (vec!["inner"], "inner", "lie in each other"),
    ] {
        let others: Vec<_> = entries.iter().map(PathBuf::from).collect();
        let error = JointWorkspace::open(&world.app.root, GitOptions::default(), &others).unwrap_err();
        assert!(error.report().contains(says), "{entries:?}: {}", error.report());
        let found = ["file", "field", "value"].map(|name| error.detail(name));
        assert_eq!(found, [Some("project.yaml"), Some("repositories"), Some(wrong)], "{entries:?}");
    }
}

#[tokio::test]
async fn work_in_several_repositories_is_not_done_by_halves_after_the_list_has_changed() {
    let world = World::new();
    let before = world.workspace();
    work(&before, 1, 3).await;
    let candidate = candidate(&before, 1).await;
    let fewer = open_joint(&world.app.root, &["../lib"]);
    let alone = world.app.workspace();
    let workspaces: [&dyn Workspace; 2] = [&fewer, &alone];
    let tips = world.tips();
    for workspace in workspaces {
        let errors = [
            workspace.open(&OpenRequest::new(key(1), Attempt(2))).await.err(),
            workspace.capture(&CaptureRequest::new(key(1), "captured")).await.err(),
            workspace.prepare_merge(&MergeRequest::new(key(1), "main", "merge")).await.err(),
            workspace.publish(&candidate, &PublishRequest::default()).await.err(),
            workspace.found_in_targets(&candidate).await.err(),
            workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.err(),
        ];
        for error in errors {
            let error = error.expect("a refusal");
            assert_eq!(error.code(), "not_supported");
            assert!(error.report().contains("back into `repositories`"), "{}", error.report());
        }
        // Others go on.
        workspace.open(&OpenRequest::new(key(2), Attempt(1))).await.unwrap();
        workspace.remove(&RemoveRequest::new(key(2))).await.unwrap();
        workspace.recover().await.unwrap();
        workspace.prune().await.unwrap();
    }
    assert_eq!(world.tips(), tips);
    // The list of before is back.
    assert!(matches!(publish(&before, &candidate).await, Published::Done { .. }));
    world.sound("");
}

/// A person has removed its branch in one of them, or made that repository anew.
#[tokio::test]
async fn work_that_is_lost_in_one_repository_is_not_merged_in_the_others() {
    for is_anew in [false, true] {
        let world = World::new();
        let before = world.workspace();
        let opened = work(&before, 1, 3).await;
        let candidate = candidate(&before, 1).await;
        let part = &opened.others[0];
        match is_anew {
            false => {
                git(&world.lib, ["worktree", "remove", "-ff", part.cwd.to_str().unwrap()]);
                git(&world.lib, ["branch", "-D", part.branch.as_deref().unwrap()]);
            }
            true => {
                fs::remove_dir_all(&world.lib).unwrap();
                fs::create_dir(&world.lib).unwrap();
                git(&world.lib, ["init", "-q", "-b", "main"]);
                git(&world.lib, ["config", "user.name", "A Person"]);
                git(&world.lib, ["config", "user.email", "person@example.org"]);
                git(&world.lib, ["commit", "-q", "--allow-empty", "-m", "anew"]);
            }
        }
        let after = world.workspace();
        let tips = world.tips();
        let lost = after.prepare_merge(&MergeRequest::new(key(1), "main", "merge")).await.unwrap_err();
        assert!(lost.report().contains("its work in ../lib is gone"), "{}", lost.report());
        if is_anew {
            assert_eq!(after.found_in_targets(&candidate).await.unwrap(), InTargets::None);
            let lost = after.publish(&candidate, &PublishRequest::default()).await.unwrap_err();
            assert!(lost.report().contains("the merged work is gone from"), "{}", lost.report());
            assert_eq!(lost.detail("repository"), Some("../lib"));
        }
        assert_eq!(world.tips(), tips);
        // What is left of it can be given up, and is kept.
        let removed = after.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
        assert!(matches!(removed, Removed::Gone { rescued: Some(_), .. }), "{removed:?}");
        work(&after, 1, 3).await;
        assert!(matches!(publish(&after, &super::candidate(&after, 1).await).await, Published::Done { .. }));
        world.sound("");
    }
}

#[tokio::test]
async fn work_that_began_in_one_repository_goes_on_in_its_folder() {
    let world = World::new();
    let opened = steps::open(&world.app.workspace(), 1).await;
    fs::write(opened.cwd.join("early"), "work\n").unwrap();
    let joint = world.workspace();
    assert_eq!(capture(&joint, 1).await.commits, 1);
    let again = open(&joint, 1).await;
    assert_eq!((&again.cwd, again.reused, again.others.len()), (&opened.cwd, true, 2));
    fs::write(again.others[0].cwd.join("late"), "work\n").unwrap();
    capture(&joint, 1).await;
    let candidate = candidate(&joint, 1).await;
    assert!(matches!(publish(&joint, &candidate).await, Published::Done { .. }));
    assert!(world.app.root.join("early").exists() && world.lib.join("late").exists());
    joint.remove(&RemoveRequest::new(key(1))).await.unwrap();
    assert!(!opened.cwd.exists());
    world.sound("");
}

#[tokio::test]
async fn a_project_that_is_renamed_keeps_its_work_and_a_copy_takes_none() {
    let mut world = World::new();
    work(&world.workspace(), 1, 2).await;
    let renamed = world.app.beside("renamed");
    fs::rename(&world.app.root, &renamed).unwrap();
    world.app.root = renamed;
    let workspace = world.workspace();
    let opened = open(&workspace, 1).await;
    assert!(opened.reused, "{opened:?}");
    assert!(opened.cwd.join("new 1").exists() && opened.others[0].cwd.join("new 1").exists());

    let copy = world.app.beside("copy");
    let copied = std::process::Command::new("cp").arg("-a").arg(&world.app.root).arg(&copy).status();
    assert!(copied.unwrap().success());
    let stranger = open_joint(&copy, &["../lib", "../site"]);
    let opened = open(&stranger, 1).await;
    assert!(!opened.others[0].cwd.join("new 1").exists(), "the work is the original's");
    fs::write(opened.others[0].cwd.join("of the copy"), "work\n").unwrap();
    capture(&stranger, 1).await;

    let candidate = candidate(&workspace, 1).await;
    assert!(matches!(publish(&workspace, &candidate).await, Published::Done { .. }));
    assert!(world.lib.join("new 1").exists() && !world.lib.join("of the copy").exists());
    world.sound("");
}
