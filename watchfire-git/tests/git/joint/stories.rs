//! The way of work in several repositories.

use std::fs;

use watchfire_core::model::{Attempt, MergeStrategy};
use watchfire_core::sandbox::RuleAccess;
use watchfire_core::workspace::{
    BranchStatus, InTargets, Isolation, Merge, MergeRequest, ObstacleKind, OpenRequest, PublishRequest,
    Published, RemoveRequest, Removed, Workspace,
};
use watchfire_git::diff::DiffRequest;

use super::{World, candidate, capture, open, open_joint, prepare, publish, work};
use crate::support::git;
use crate::support::steps::key;

#[tokio::test]
async fn what_a_task_did_in_several_repositories_is_published_together() {
    let world = World::new();
    let workspace = world.workspace();
    let opened = open(&workspace, 1).await;
    let [lib, site] = [&opened.others[0], &opened.others[1]];
    assert_eq!(lib.repository.to_str(), Some("../lib"));
    // The folders lie to each other as the repositories do.
    for part in [lib, site] {
        assert_eq!(opened.cwd.join(&part.repository).canonicalize().unwrap(), part.cwd);
        assert_eq!(part.target.as_deref(), Some("main"));
        let is_named = |rule: &&watchfire_core::sandbox::Rule| rule.path == part.cwd;
        let rule = opened.policy_rules.iter().find(is_named).unwrap();
        assert_eq!(rule.access, RuleAccess::Write);
    }
    for root in [&world.lib, &world.site] {
        let rule = opened.policy_rules.iter().find(|rule| rule.path == **root).unwrap();
        assert_eq!(rule.access, RuleAccess::Deny, "the checkout is the person's");
    }
    fs::write(opened.cwd.join("new"), "app\n").unwrap();
    fs::write(lib.cwd.join("text"), "changed\n").unwrap();
    let uncommitted = workspace.uncommitted(&key(1)).await.unwrap();
    let uncommitted: Vec<_> = uncommitted.iter().map(ToString::to_string).collect();
    assert_eq!(uncommitted, ["new", "../lib/text"]);
    let captured = capture(&workspace, 1).await;
    assert_eq!((captured.commits, captured.paths.len()), (2, 2));

    let diffs = workspace.diffs(&DiffRequest::new(key(1))).await.unwrap();
    let diffs: Vec<_> = diffs.iter().map(|(at, diff)| (at.to_str().unwrap(), diff.total_files)).collect();
    assert_eq!(diffs, [("", 1), ("../lib", 1), ("../site", 0)]);
    let branches = workspace.list().await.unwrap();
    assert_eq!((branches.len(), branches[0].others.len()), (1, 2), "{branches:?}");
    assert_eq!(branches[0].status, BranchStatus::Unmerged);

    let candidate = candidate(&workspace, 1).await;
    let scratch = workspace.checkout(&candidate).await.unwrap();
    let path = scratch.path().to_path_buf();
    for (file, content) in [
        ("new", "app\n"),
        ("../lib/text", "changed\n"),
        ("../site/text", "site\n"),
        ("a file.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
    ] {
        assert_eq!(fs::read_to_string(path.join(file)).unwrap(), content, "{file}");
    }
    // While another task is tidied up.
    workspace.prune().await.unwrap();
    assert!(path.join("../lib/text").exists());
    fs::write(path.join("../beside"), "left by a command").unwrap();
    drop(scratch);
    assert_eq!(fs::read_dir(world.app.root.join(".watchfire/scratch")).unwrap().count(), 0);

    let before = world.tips();
    assert_eq!(workspace.found_in_targets(&candidate).await.unwrap(), InTargets::None);
    let Published::Done { mut checkouts, .. } = publish(&workspace, &candidate).await else { panic!() };
    checkouts.sort();
    assert_eq!(checkouts, [world.lib.clone(), world.app.root.clone()]);
    assert_eq!(workspace.found_in_targets(&candidate).await.unwrap(), InTargets::All);
    assert_eq!(world.app.read("new"), "app\n");
    assert_eq!(fs::read_to_string(world.lib.join("text")).unwrap(), "changed\n");
    let after = world.tips();
    assert!(before[0] != after[0] && before[1] != after[1] && before[2] == after[2]);
    // Once.
    assert_eq!(publish(&workspace, &candidate).await, Published::done(Vec::new()));
    assert!(matches!(prepare(&workspace, 1).await, Merge::Nothing));
    assert_eq!(world.tips(), after);

    let merged = DiffRequest::new(key(1)).with_merged(Some(candidate.commit.to_string()));
    for is_removed in [false, true] {
        let diffs = workspace.diffs(&merged).await.unwrap();
        let diffs: Vec<_> = diffs.iter().map(|(at, diff)| (at.to_str().unwrap(), diff.total_files)).collect();
        assert_eq!(diffs, [("", 1), ("../lib", 1)], "{is_removed}");
        let removed = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
        assert_eq!(removed, Removed::gone(None));
    }
    assert_eq!(workspace.list().await.unwrap(), []);
    assert!(!world.app.root.join(".watchfire/together").exists());
    for root in world.roots() {
        assert_eq!(git(root, ["for-each-ref", "refs/heads/watchfire", "refs/watchfire/base"]), "");
        assert_eq!(git(root, ["worktree", "list"]).lines().count(), 1);
    }
    assert!(
        !world.lib.join(".watchfire").exists(),
        "nothing of ours lies in the checkout of another repository"
    );
    world.sound("");
}

#[tokio::test]
async fn work_in_another_repository_alone_is_work() {
    for strategy in [MergeStrategy::Merge, MergeStrategy::Squash, MergeStrategy::Rebase] {
        let world = World::new();
        let workspace = world.workspace();
        let opened = open(&workspace, 1).await;
        let nothing = capture(&workspace, 1).await;
        fs::write(opened.others[0].cwd.join("new"), "lib\n").unwrap();
        let captured = capture(&workspace, 1).await;
        // Otherwise the schedule would take it for an attempt without progress.
        assert!(captured.tip != nothing.tip && captured.commits == 1, "{captured:?}");
        let request = MergeRequest::new(key(1), "main", "merge").with_strategy(strategy);
        let merge = workspace.prepare_merge(&request).await.unwrap();
        let Merge::Ready(candidate) = merge else { panic!("{strategy:?}: {merge:?}") };
        assert_eq!(candidate.own_commit(), None);
        let before = world.tips();
        assert_eq!(workspace.found_in_targets(&candidate).await.unwrap(), InTargets::None);
        assert!(matches!(publish(&workspace, &candidate).await, Published::Done { .. }), "{strategy:?}");
        let after = world.tips();
        assert!(before[0] == after[0] && before[1] != after[1], "{strategy:?}");
        assert_eq!(workspace.found_in_targets(&candidate).await.unwrap(), InTargets::All);
        assert!(matches!(workspace.remove(&RemoveRequest::new(key(1))).await.unwrap(), Removed::Gone { .. }));
        world.sound("");
    }
}

#[tokio::test]
async fn what_is_in_the_way_in_one_repository_holds_all() {
    let world = World::new();
    let workspace = world.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "app\n").unwrap();
    fs::write(opened.others[0].cwd.join("text"), "changed\n").unwrap();
    capture(&workspace, 1).await;
    let candidate = candidate(&workspace, 1).await;
    let before = world.tips();

    fs::write(world.lib.join("text"), "mine\n").unwrap();
    let Published::Held(by) = publish(&workspace, &candidate).await else { panic!() };
    assert_eq!((by.kind, by.checkout.as_deref()), (ObstacleKind::LocalEdits, Some(&*world.lib)));
    assert_eq!(
        (world.tips(), fs::read_to_string(world.lib.join("text")).unwrap()),
        (before.clone(), "mine\n".into())
    );
    git(&world.lib, ["checkout", "-q", "text"]);
    world.sound("held");

    fs::write(world.lib.join(".git/index.lock"), "").unwrap();
    let Published::Held(by) = publish(&workspace, &candidate).await else { panic!() };
    assert_eq!(by.kind, ObstacleKind::IndexLocked);
    fs::remove_file(world.lib.join(".git/index.lock")).unwrap();
    assert_eq!(world.tips(), before);
    world.sound("locked");

    // Nothing waits in a queue: other work that was merged onto it would publish a part of it alone.
    for root in world.roots() {
        assert_eq!(git(root, ["for-each-ref", "refs/watchfire/queue"]), "");
    }
    assert!(matches!(publish(&workspace, &candidate).await, Published::Done { .. }));
    world.sound("published");
}

#[tokio::test]
async fn a_target_that_moved_before_anything_did_moves_nothing() {
    for moved in 0..3 {
        let world = World::new();
        let workspace = world.workspace();
        // In the last repository nothing is changed: it is part of what was verified.
        work(&workspace, 1, 2).await;
        let candidate = candidate(&workspace, 1).await;
        git(world.roots()[moved], ["commit", "-q", "--allow-empty", "-m", "mine"]);
        let before = world.tips();
        assert_eq!(publish(&workspace, &candidate).await, Published::Moved, "{moved}");
        assert_eq!(world.tips(), before, "{moved}");
        let again = super::candidate(&workspace, 1).await;
        assert!(matches!(publish(&workspace, &again).await, Published::Done { .. }), "{moved}");
        world.sound("");
    }
}

#[tokio::test]
async fn a_conflict_in_another_repository_is_named() {
    let world = World::new();
    let workspace = world.workspace();
    let opened = open(&workspace, 1).await;
    fs::write(opened.cwd.join("new"), "app\n").unwrap();
    fs::write(opened.others[0].cwd.join("text"), "theirs\n").unwrap();
    capture(&workspace, 1).await;
    fs::write(world.lib.join("text"), "mine\n").unwrap();
    git(&world.lib, ["commit", "-qam", "mine"]);
    let Merge::Conflicts(conflicts) = prepare(&workspace, 1).await else { panic!() };
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].path.to_string(), "../lib/text");
    // Nothing of it may go.
    let Removed::Kept { reason, .. } = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap() else {
        panic!()
    };
    assert!(reason.contains("has commits that main lacks"), "{reason}");
    let discarded = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(matches!(discarded, Removed::Gone { rescued: Some(_), .. }), "{discarded:?}");
    for root in [&world.app.root, &world.lib] {
        assert_eq!(git(root, ["for-each-ref", "refs/watchfire/rescue"]).lines().count(), 1);
    }
    world.sound("");
}

#[tokio::test]
async fn candidates_in_several_repositories_stack() {
    let world = World::new();
    let workspace = world.workspace();
    // The second has nothing in `lib`, the third nothing in the project itself.
    work(&workspace, 1, 2).await;
    work(&workspace, 2, 1).await;
    let third = open(&workspace, 3).await;
    fs::write(third.others[0].cwd.join("new 3"), "work 3\n").unwrap();
    capture(&workspace, 3).await;
    let mut stack = vec![candidate(&workspace, 1).await];
    for n in [2, 3] {
        let request = MergeRequest::new(key(n), "main", format!("merge {n}"));
        let merge =
            workspace.prepare_merge(&request.with_onto(stack[stack.len() - 1].clone())).await.unwrap();
        let Merge::Ready(candidate) = merge else { panic!("{n}: {merge:?}") };
        stack.push(candidate);
    }
    let scratch = workspace.checkout(&stack[2]).await.unwrap();
    for file in ["new 1", "new 2", "../lib/new 1", "../lib/new 3"] {
        assert!(scratch.path().join(file).exists(), "{file}");
    }
    drop(scratch);
    for candidate in stack.iter().rev() {
        let once = PublishRequest::default().with_once(true);
        let published = workspace.publish(candidate, &once).await.unwrap();
        assert!(matches!(published, Published::Done { .. }), "{}: {published:?}", candidate.key);
    }
    for n in 1..=3 {
        assert!(matches!(prepare(&workspace, n).await, Merge::Nothing), "{n}");
        let removed = workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
        assert!(matches!(removed, Removed::Gone { .. }), "{n}: {removed:?}");
    }
    assert!(world.lib.join("new 1").exists() && world.lib.join("new 3").exists());
    world.sound("");
}

#[tokio::test]
async fn a_repository_can_be_a_project_too() {
    let world = World::new();
    fs::write(world.lib.join(".gitignore"), ".watchfire/\n").unwrap();
    git(&world.lib, ["add", "-A"]);
    git(&world.lib, ["commit", "-qm", "ignore"]);
    let (joint, plain) =
        (world.workspace(), watchfire_git::GitWorkspace::open(&world.lib, Default::default()).unwrap());
    // And a third project names it as well.
    let other = open_joint(&world.site, &["../lib"]);
    work(&joint, 1, 2).await;
    // Not the same as that: it would add nothing then, and its branch would stay.
    let more = work(&other, 1, 2).await;
    fs::write(more.others[0].cwd.join("more"), "of the other\n").unwrap();
    capture(&other, 1).await;
    let opened = crate::support::steps::open(&plain, 1).await;
    fs::write(opened.cwd.join("its own"), "work\n").unwrap();
    crate::support::steps::capture(&plain, 1).await;
    for _ in 0..2 {
        // The start of each leaves the others' work alone.
        for recovery in [plain.recover().await, joint.recover().await, other.recover().await] {
            let recovery = recovery.unwrap();
            assert!(recovery.completed.is_empty() && recovery.undone.is_empty(), "{recovery:?}");
        }
        for pruned in [plain.prune().await, joint.prune().await, other.prune().await] {
            assert_eq!(pruned.unwrap().removed, Vec::<String>::new());
        }
    }
    assert_eq!(plain.list().await.unwrap().len(), 1);
    assert_eq!(joint.list().await.unwrap().len(), 1);
    for workspace in [&joint, &other] {
        let candidate = candidate(workspace, 1).await;
        assert!(matches!(publish(workspace, &candidate).await, Published::Done { .. }));
        let removed = workspace.remove(&RemoveRequest::new(key(1))).await.unwrap();
        assert!(matches!(removed, Removed::Gone { .. }), "{removed:?}");
    }
    assert_eq!(plain.list().await.unwrap().len(), 1, "its own work stays");
    let published = crate::support::steps::publish(&plain, 1).await;
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    world.sound("");
}

/// Each names the repositories in another order, and both publish at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_projects_with_the_same_repositories_do_not_wait_for_each_other() {
    let world = World::new();
    fs::write(world.lib.join(".gitignore"), ".watchfire/\n").unwrap();
    git(&world.lib, ["add", "-A"]);
    git(&world.lib, ["commit", "-qm", "ignore"]);
    let (a, b) = (open_joint(&world.app.root, &["../lib"]), open_joint(&world.lib, &["../project"]));
    for round in 1..=4 {
        let (left, right) = tokio::join!(merge_all(a.clone(), round), merge_all(b.clone(), round));
        assert!(left && right, "{round}");
    }
    world.sound("");
}

/// Works in both repositories, and publishes until it is done.
async fn merge_all(workspace: watchfire_git::JointWorkspace, n: u32) -> bool {
    let opened = open(&workspace, n).await;
    let who = workspace.root().file_name().unwrap().to_string_lossy().into_owned();
    for folder in [&opened.cwd, &opened.others[0].cwd] {
        fs::write(folder.join(format!("{who} {n}")), "work\n").unwrap();
    }
    capture(&workspace, n).await;
    for _ in 0..20 {
        let candidate = candidate(&workspace, n).await;
        match publish(&workspace, &candidate).await {
            Published::Done { .. } => return true,
            Published::Moved => {}
            other => panic!("{other:?}"),
        }
    }
    false
}

#[tokio::test]
async fn private_copies_are_made_of_each() {
    let world = World::new();
    let workspace = world.workspace();
    let request = OpenRequest::new(key(1), Attempt(1)).with_isolation(Isolation::Bound);
    let opened = workspace.open(&request).await.unwrap();
    for root in world.roots() {
        let git = root.join(".git");
        assert!(opened.binds.iter().any(|bind| bind.target == git.join("objects")), "{}", root.display());
        let is_written = |rule: &watchfire_core::sandbox::Rule| {
            rule.path.starts_with(&git) && rule.access == RuleAccess::Write
        };
        assert!(!opened.policy_rules.iter().any(is_written), "only the copies are written");
    }
    fs::write(opened.others[1].cwd.join("new"), "site\n").unwrap();
    workspace.import(&key(1)).await.unwrap();
    capture(&workspace, 1).await;
    let candidate = candidate(&workspace, 1).await;
    assert!(matches!(publish(&workspace, &candidate).await, Published::Done { .. }));
    assert!(matches!(workspace.remove(&RemoveRequest::new(key(1))).await.unwrap(), Removed::Gone { .. }));
    world.sound("");
}

#[tokio::test]
async fn a_target_that_was_renamed_in_another_repository_is_found() {
    let world = World::new();
    let workspace = world.workspace();
    work(&workspace, 1, 2).await;
    capture(&workspace, 1).await;
    git(&world.lib, ["branch", "-m", "main", "trunk"]);
    let candidate = candidate(&workspace, 1).await;
    assert_eq!(candidate.others[0].candidate.target, "trunk");
    assert!(matches!(publish(&workspace, &candidate).await, Published::Done { .. }));
    assert_eq!(git(&world.lib, ["show", "trunk:new 1"]), "work 1\n");
    // Another branch than the one at which the work began is no target.
    work(&workspace, 2, 2).await;
    capture(&workspace, 2).await;
    git(&world.lib, ["checkout", "-q", "--orphan", "other"]);
    git(&world.lib, ["commit", "-qm", "other"]);
    git(&world.lib, ["branch", "-qD", "trunk"]);
    let request = MergeRequest::new(key(2), "main", "merge 2");
    assert!(workspace.prepare_merge(&request).await.is_err());
}
