//! The requirements on every [`Workspace`], as a suite that any implementation can run. Feature `testing`.
//!
//! Each case gets a workspace of its own, on a fresh project. If there is a history, it holds exactly one file:
//! [`FILE`], with [`CONTENT`]. Implementations without isolation (whose
//! [`Opened::branch`] is `None`) are held only to the parts that they can promise.

use std::fs;
use std::path::Path;

use super::{
    BranchStatus, Candidate, CaptureRequest, Commit, Exchanged, Isolation, Merge, MergeGuard, MergeRequest,
    ObstacleKind, OpenRequest, Opened, PublishRequest, Published, RemoveRequest, Removed, Workspace,
    WorkspaceKey,
};
use crate::ErrorKind;
use crate::conformance::cases;
use crate::model::{Attempt, MergeStrategy, SessionId, TaskNumber};
use crate::sandbox::{Bind, Rule, RuleAccess};
use crate::store::Fence;

/// The only file of the project's root.
pub const FILE: &str = "a file.txt";
/// Its content.
pub const CONTENT: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

cases! {
    async pub dyn Workspace:
    a_folder_is_kept_for_the_next_attempt,
    rules_let_the_agent_work_in_its_folder,
    keys_do_not_see_each_other,
    nothing_is_captured_of_nothing,
    uncommitted_work_arrives,
    preparing_shows_nobody_anything,
    a_candidate_can_be_tried_before_it_counts,
    a_candidate_is_published_once,
    published_is_asked_of_the_target,
    what_orchestrators_share_is_hidden_from_agents,
    an_outdated_candidate_moves_nothing,
    an_old_fence_is_refused,
    conflicts_are_named,
    every_strategy_gives_the_same_files,
    candidates_stack,
    local_edits_hold_a_publication,
    what_is_withdrawn_goes_with_no_other_work,
    unmerged_work_is_not_removed,
    merged_work_is_removed,
    discarded_work_is_rescued,
    a_fresh_start_rescues_first,
    a_session_in_the_root_comes_and_goes,
    cleaning_up_touches_no_work,
}

async fn a_session_in_the_root_comes_and_goes(workspace: &dyn Workspace) {
    let (session, stranger) = (SessionId::random(), SessionId::random());
    for isolated in [false, true] {
        let opened = workspace.enter(&session, isolated, &MergeGuard::default()).await.expect("the root");
        assert_eq!(opened.cwd, workspace.root());
        assert!(isolated || opened.binds.is_empty(), "{opened:?}");
        assert!(opened.binds.iter().all(|bind| bind.source.exists() && bind.target.exists()), "{opened:?}");
    }
    // Nothing was done, so there is nothing to tell, however often it is asked.
    for who in [&session, &session, &stranger] {
        assert_eq!(workspace.exchange(who).await.expect("an exchange"), Exchanged::default());
    }
    for who in [&session, &session, &stranger] {
        assert_eq!(workspace.leave(who).await.expect("an end"), Exchanged::default());
    }
    assert_eq!(text(&workspace.root().join(FILE)), CONTENT);
}

fn key(n: u32) -> WorkspaceKey {
    TaskNumber::new(n).expect("a task number").into()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

// Fails the case at once: without a folder nothing else can be checked.
async fn open(workspace: &dyn Workspace, n: u32) -> Opened {
    workspace.open(&OpenRequest::new(key(n), Attempt(1))).await.expect("a folder")
}

/// Opens a folder and makes `change` in it. Returns `None` where agents work in the root.
async fn work(workspace: &dyn Workspace, n: u32, change: impl FnOnce(&Path)) -> Option<Opened> {
    let opened = open(workspace, n).await;
    // A workspace without branches has no work to merge, so most cases end here.
    opened.branch.as_ref()?;
    change(&opened.cwd);
    workspace.capture(&CaptureRequest::new(key(n), "work")).await.expect("a capture");
    Some(opened)
}

fn request(opened: &Opened, n: u32) -> MergeRequest {
    MergeRequest::new(key(n), opened.target.clone().expect("a target"), format!("merge {n}"))
}

async fn candidate(workspace: &dyn Workspace, opened: &Opened, n: u32) -> Candidate {
    match workspace.prepare_merge(&request(opened, n)).await.expect("a merge") {
        Merge::Ready(candidate) => candidate,
        other => panic!("expected a candidate, got {other:?}"),
    }
}

async fn publish(workspace: &dyn Workspace, candidate: &Candidate) -> Published {
    workspace.publish(candidate, &PublishRequest::default()).await.expect("an outcome")
}

async fn a_folder_is_kept_for_the_next_attempt(workspace: &dyn Workspace) {
    let first = open(workspace, 1).await;
    assert!(first.cwd.is_dir(), "{first:?}");
    assert_eq!(text(&first.cwd.join(FILE)), CONTENT);
    fs::write(first.cwd.join("new"), "work").expect("writing");
    let second = workspace.open(&OpenRequest::new(key(1), Attempt(2))).await.expect("the folder");
    // Resumed agents expect their files at the same path, and their vendors store sessions by it.
    assert_eq!(second.cwd, first.cwd);
    // The prompt tells the agent whether earlier work is there.
    assert!(second.reused, "{second:?}");
    assert_eq!(text(&second.cwd.join("new")), "work");
}

async fn rules_let_the_agent_work_in_its_folder(workspace: &dyn Workspace) {
    let opened = open(workspace, 1).await;
    let rules = &opened.policy_rules;
    // Without this rule a sandbox would deny the agent its own folder.
    assert!(rules.iter().any(|r| r.path == opened.cwd && r.access == RuleAccess::Write), "{rules:?}");
    // A relative rule would mean another path in each process.
    assert!(rules.iter().all(|r| r.path.is_absolute()), "{rules:?}");
}

async fn keys_do_not_see_each_other(workspace: &dyn Workspace) {
    let Some(first) = work(workspace, 1, |cwd| fs::write(cwd.join("one"), "").expect("writing")).await else {
        return;
    };
    let second = open(workspace, 2).await;
    // Two agents in one folder would commit each other's files.
    assert_ne!(first.cwd, second.cwd);
    assert!(!second.cwd.join("one").exists());
    assert_eq!(workspace.list().await.expect("a list").len(), 2);
}

async fn nothing_is_captured_of_nothing(workspace: &dyn Workspace) {
    let opened = open(workspace, 1).await;
    let captured = workspace.capture(&CaptureRequest::new(key(1), "nothing")).await.expect("a capture");
    // An empty commit would count as progress and keep a fruitless task going.
    assert_eq!((captured.committed, captured.commits), (None, 0));
    if opened.branch.is_some() {
        // The tip is what the schedule compares between two attempts.
        assert_eq!(captured.tip, opened.base);
        let merge = workspace.prepare_merge(&request(&opened, 1)).await.expect("a merge");
        assert!(matches!(merge, Merge::Nothing), "{merge:?}");
        // A key that was never opened is a mistake of the caller, not an empty result.
        let unknown = workspace.capture(&CaptureRequest::new(key(9), "nothing")).await;
        assert_eq!(unknown.expect_err("no such key").kind(), ErrorKind::NotFound);
    }
}

async fn uncommitted_work_arrives(workspace: &dyn Workspace) {
    let opened = open(workspace, 1).await;
    if opened.branch.is_none() {
        return;
    }
    // A fresh folder is clean: files of the checkout itself must not count as work.
    assert_eq!(workspace.uncommitted(&key(1)).await.expect("a look"), []);
    // One new file in a new folder and one edited file: git stores them in different ways.
    fs::create_dir(opened.cwd.join("deep")).expect("a folder");
    fs::write(opened.cwd.join("deep/new"), "work").expect("writing");
    fs::write(opened.cwd.join(FILE), CONTENT.replace('9', "nine")).expect("writing");
    let uncommitted = workspace.uncommitted(&key(1)).await.expect("a look");
    let captured = workspace.capture(&CaptureRequest::new(key(1), "work")).await.expect("a capture");
    // `uncommitted` announces what `capture` then does; the agent was asked on that ground.
    assert_eq!((uncommitted.len(), uncommitted), (2, captured.paths));
    assert_eq!(workspace.uncommitted(&key(1)).await.expect("a look"), []);
    let published = publish(workspace, &candidate(workspace, &opened, 1).await).await;
    // The root is a checkout of the target, so its files follow.
    assert_eq!(published, Published::Done { checkouts: vec![workspace.root().to_path_buf()] });
    assert_eq!(text(&workspace.root().join("deep/new")), "work");
    assert_eq!(text(&workspace.root().join(FILE)), CONTENT.replace('9', "nine"));
}

async fn preparing_shows_nobody_anything(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "").expect("writing")).await
    else {
        return;
    };
    let before = workspace.list().await.expect("a list");
    candidate(workspace, &opened, 1).await;
    // The merge must exist in memory only: a ref or worktree of it would show here.
    assert_eq!(workspace.list().await.expect("a list"), before);
    assert!(!workspace.root().join("new").exists());
}

async fn a_candidate_can_be_tried_before_it_counts(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    let candidate = candidate(workspace, &opened, 1).await;
    let scratch = workspace.checkout(&candidate).await.expect("a folder");
    let path = scratch.path().to_path_buf();
    assert_eq!(text(&path.join("new")), "work");
    assert_eq!(text(&path.join(FILE)), CONTENT);
    // The verify command runs in a sandbox that knows only these rules.
    assert!(scratch.policy_rules.iter().any(|r| r.path == path && r.access == RuleAccess::Write));
    // Verifications leave caches and build folders behind.
    fs::write(path.join("left by verification"), "").expect("writing");
    // Another task's clean-up can run while this one verifies.
    workspace.prune().await.expect("pruning");
    assert!(path.is_dir(), "a scratch folder in use was pruned");
    // Not an async call: the folder must go even if the runtime is shutting down.
    drop(scratch);
    assert!(!path.exists());
    assert!(!workspace.root().join("new").exists());
}

async fn a_candidate_is_published_once(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    let candidate = candidate(workspace, &opened, 1).await;
    assert!(matches!(publish(workspace, &candidate).await, Published::Done { .. }));
    // A repeated publication must not reset what a person has edited since the first.
    fs::write(workspace.root().join("new"), "edited since").expect("writing");
    publish(workspace, &candidate).await;
    assert_eq!(text(&workspace.root().join("new")), "edited since");
    // Once published, the same work is nothing new.
    let merge = workspace.prepare_merge(&request(&opened, 1)).await.expect("a merge");
    assert!(matches!(merge, Merge::Nothing), "{merge:?}");
}

async fn published_is_asked_of_the_target(workspace: &dyn Workspace) {
    let nowhere = Commit::new("1234567890123456789012345678901234567890");
    let is_published = async |target: &str, commit: &Commit| {
        workspace.is_published(target, commit).await.expect("an answer")
    };
    // An unknown commit is an answer, not an error: recovery asks about commits that were never written.
    assert!(!is_published("main", &nowhere).await);
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    let candidate = candidate(workspace, &opened, 1).await;
    let (target, base) = (candidate.target.as_str(), candidate.base.clone().expect("a base"));
    // The target contains where it stands itself.
    assert!(is_published(target, &base).await);
    assert!(!is_published(target, &candidate.commit).await);
    // The branch may have been renamed or deleted since the publication began.
    assert!(!is_published("no-such-branch", &base).await);
    assert!(matches!(publish(workspace, &candidate).await, Published::Done { .. }));
    assert!(is_published(target, &candidate.commit).await && is_published(target, &base).await);
}

async fn what_orchestrators_share_is_hidden_from_agents(workspace: &dyn Workspace) {
    let Some(shared) = workspace.shared_dir() else { return };
    assert!(shared.is_dir());
    let denied = |rules: &[Rule]| rules.iter().any(|r| r.path == shared && r.access == RuleAccess::Deny);
    // The rules are made in different ways.
    for (n, isolation) in [(1, Isolation::None), (2, Isolation::Bound), (3, Isolation::Linked)] {
        let request = OpenRequest::new(key(n), Attempt(1)).with_isolation(isolation);
        let opened = workspace.open(&request).await.expect("a folder");
        assert!(denied(&opened.policy_rules), "{:?}", opened.policy_rules);
        // Neither the folder itself nor one above it.
        let shows = |bind: &Bind| bind.source == shared || shared.starts_with(&bind.source);
        assert!(!opened.binds.iter().any(shows), "{:?}", opened.binds);
    }
    let opened = work(workspace, 4, |cwd| fs::write(cwd.join("new"), "").expect("writing")).await;
    let candidate = candidate(workspace, &opened.expect("a branch"), 4).await;
    let scratch = workspace.checkout(&candidate).await.expect("a folder");
    assert!(denied(&scratch.policy_rules), "{:?}", scratch.policy_rules);
}

async fn an_outdated_candidate_moves_nothing(workspace: &dyn Workspace) {
    let Some(first) = work(workspace, 1, |cwd| fs::write(cwd.join("one"), "").expect("writing")).await else {
        return;
    };
    let second =
        work(workspace, 2, |cwd| fs::write(cwd.join("two"), "").expect("writing")).await.expect("a branch");
    let first = candidate(workspace, &first, 1).await;
    let outdated = candidate(workspace, &second, 2).await;
    assert!(matches!(publish(workspace, &first).await, Published::Done { .. }));
    // Publishing it would take back the first task's work.
    assert_eq!(publish(workspace, &outdated).await, Published::Moved);
    assert!(!workspace.root().join("two").exists());
    let again = candidate(workspace, &second, 2).await;
    assert!(matches!(publish(workspace, &again).await, Published::Done { .. }));
    assert!(workspace.root().join("one").exists() && workspace.root().join("two").exists());
}

async fn an_old_fence_is_refused(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("one"), "").expect("writing")).await
    else {
        return;
    };
    let first = candidate(workspace, &opened, 1).await;
    // The higher fence is from an orchestrator that took over the task.
    workspace.publish(&first, &PublishRequest::new(Fence(7))).await.expect("an outcome");
    fs::write(opened.cwd.join("two"), "").expect("writing");
    workspace.capture(&CaptureRequest::new(key(1), "more")).await.expect("a capture");
    let second = candidate(workspace, &opened, 1).await;
    // A write that comes late from the orchestrator that lost its claim.
    let refused = workspace.publish(&second, &PublishRequest::new(Fence(6))).await;
    assert_eq!(refused.expect_err("an old fence").kind(), ErrorKind::ClaimLost);
    assert!(!workspace.root().join("two").exists());
}

async fn conflicts_are_named(workspace: &dyn Workspace) {
    let edit = |to: &'static str| {
        move |cwd: &Path| fs::write(cwd.join(FILE), CONTENT.replace('5', to)).expect("writing")
    };
    let Some(first) = work(workspace, 1, edit("five")).await else { return };
    let second = work(workspace, 2, edit("FIVE")).await.expect("a branch");
    publish(workspace, &candidate(workspace, &first, 1).await).await;
    match workspace.prepare_merge(&request(&second, 2)).await.expect("a merge") {
        Merge::Conflicts(conflicts) => {
            assert_eq!(conflicts.len(), 1, "{conflicts:?}");
            // The next attempt's prompt names these files.
            assert!(conflicts.iter().all(|c| c.path.as_bytes() == FILE.as_bytes()), "{conflicts:?}");
            let hunks: Vec<_> = conflicts.iter().filter_map(|c| c.hunks.as_deref()).collect();
            // Both sides, so that an agent can resolve the conflict without a merge of its own.
            assert!(hunks.iter().all(|h| h.contains("five") && h.contains("FIVE")), "{conflicts:?}");
        }
        other => panic!("expected a conflict, got {other:?}"),
    }
    // The conflict has left no marks in the person's files.
    assert_eq!(text(&workspace.root().join(FILE)), CONTENT.replace('5', "five"));
    let list = workspace.list().await.expect("a list");
    assert!(list.iter().any(|b| b.key == "0002" && b.status == BranchStatus::Unmerged), "{list:?}");
}

async fn every_strategy_gives_the_same_files(workspace: &dyn Workspace) {
    for (n, strategy) in [(1, MergeStrategy::Merge), (3, MergeStrategy::Squash), (5, MergeStrategy::Rebase)] {
        let name = |n: u32| format!("file {n}");
        let write = |n: u32| move |cwd: &Path| fs::write(cwd.join(name(n)), "work").expect("writing");
        // The second task of each pair merges onto a target that has moved, which is where the strategies
        // differ.
        let Some(first) = work(workspace, n, write(n)).await else { return };
        let second = work(workspace, n + 1, write(n + 1)).await.expect("a branch");
        publish(workspace, &candidate(workspace, &first, n).await).await;
        let merge =
            workspace.prepare_merge(&request(&second, n + 1).with_strategy(strategy)).await.expect("a merge");
        let Merge::Ready(candidate) = merge else { panic!("{strategy:?}: {merge:?}") };
        let published = publish(workspace, &candidate).await;
        assert!(matches!(published, Published::Done { .. }), "{strategy:?}: {published:?}");
        assert!((1..=n + 1).all(|n| workspace.root().join(name(n)).exists()), "{strategy:?}");
    }
    let ahead =
        work(workspace, 8, |cwd| fs::write(cwd.join("eight"), "").expect("writing")).await.expect("a branch");
    let behind =
        work(workspace, 9, |cwd| fs::write(cwd.join("nine"), "").expect("writing")).await.expect("a branch");
    let only = |opened: &Opened, n| request(opened, n).with_strategy(MergeStrategy::FastForwardOnly);
    let Merge::Ready(candidate) = workspace.prepare_merge(&only(&ahead, 8)).await.expect("a merge") else {
        panic!("what is ahead can be fast-forwarded to")
    };
    publish(workspace, &candidate).await;
    // It started before `eight` was published, so its target is no longer an ancestor.
    let refused = workspace.prepare_merge(&only(&behind, 9)).await.expect("an outcome");
    assert!(matches!(refused, Merge::Conflicts(_)), "{refused:?}");
}

async fn candidates_stack(workspace: &dyn Workspace) {
    let write = |n: u32| move |cwd: &Path| fs::write(cwd.join(format!("file {n}")), "work").expect("writing");
    for (n, strategy) in [(1, MergeStrategy::Merge), (4, MergeStrategy::Squash), (7, MergeStrategy::Rebase)] {
        // Three tasks, each merged onto the candidate of the one before.
        let Some(mut opened) = work(workspace, n, write(n)).await else { return };
        let first = workspace.prepare_merge(&request(&opened, n).with_strategy(strategy)).await;
        let Ok(Merge::Ready(mut top)) = first else { panic!("{strategy:?}: {first:?}") };
        let mut stack = vec![top.clone()];
        for n in [n + 1, n + 2] {
            opened = work(workspace, n, write(n)).await.expect("a branch");
            let request = request(&opened, n).with_strategy(strategy).with_onto(top);
            let merge = workspace.prepare_merge(&request).await.expect("a merge");
            let Merge::Ready(candidate) = merge else { panic!("{strategy:?}: {merge:?}") };
            // All have the base of the lowest: publishing the topmost moves the target once.
            assert_eq!(candidate.base, stack.first().and_then(|c| c.base.clone()), "{strategy:?}");
            stack.push(candidate.clone());
            top = candidate;
        }
        let scratch = workspace.checkout(&top).await.expect("a folder");
        assert!((n..n + 3).all(|n| scratch.path().join(format!("file {n}")).exists()), "{strategy:?}");
        assert!(!workspace.root().join(format!("file {n}")).exists(), "{strategy:?}");
        // The topmost first. The others are then contained, which must count as done.
        for candidate in stack.iter().rev() {
            let published = publish(workspace, candidate).await;
            assert!(matches!(published, Published::Done { .. }), "{strategy:?}: {published:?}");
            assert!((n..n + 3).all(|n| workspace.root().join(format!("file {n}")).exists()), "{strategy:?}");
        }
        for n in n..n + 3 {
            let request = MergeRequest::new(key(n), &top.target, "again").with_strategy(strategy);
            let again = workspace.prepare_merge(&request).await.expect("an outcome");
            assert!(matches!(again, Merge::Nothing), "{strategy:?}: {again:?}");
        }
    }
}

async fn local_edits_hold_a_publication(workspace: &dyn Workspace) {
    let edit = |cwd: &Path| fs::write(cwd.join(FILE), CONTENT.replace('9', "nine")).expect("writing");
    let Some(opened) = work(workspace, 1, edit).await else { return };
    let candidate = candidate(workspace, &opened, 1).await;
    let mine = CONTENT.replace('1', "mine");
    // The person's edit and the task's are in the same file, in different lines.
    fs::write(workspace.root().join(FILE), &mine).expect("writing");
    match publish(workspace, &candidate).await {
        Published::Held(obstacle) => {
            assert_eq!(obstacle.kind, ObstacleKind::LocalEdits);
            // A person has to find the checkout and the file to clear the way.
            assert_eq!(obstacle.checkout.as_deref(), Some(workspace.root()));
            assert_eq!(obstacle.files.iter().map(|f| f.as_bytes()).collect::<Vec<_>>(), [FILE.as_bytes()]);
        }
        // Where edits of the person are commits of the target, they are merged with.
        Published::Moved => {
            assert_eq!(text(&workspace.root().join(FILE)), mine);
            let candidate = self::candidate(workspace, &opened, 1).await;
            assert!(matches!(publish(workspace, &candidate).await, Published::Done { .. }));
            assert_eq!(text(&workspace.root().join(FILE)), mine.replace('9', "nine"));
            return;
        }
        other => panic!("expected to be held, got {other:?}"),
    }
    // Held means that nothing was touched.
    assert_eq!(text(&workspace.root().join(FILE)), mine);
    fs::write(workspace.root().join(FILE), CONTENT).expect("writing");
    // The same candidate, as a later process reads it from the journal.
    let written = serde_json::to_string(&candidate).expect("a candidate can be written down");
    let read: Candidate = serde_json::from_str(&written).expect("a candidate can be read");
    assert_eq!(read, candidate);
    assert!(matches!(publish(workspace, &read).await, Published::Done { .. }));
}

async fn what_is_withdrawn_goes_with_no_other_work(workspace: &dyn Workspace) {
    let edit = |cwd: &Path| fs::write(cwd.join(FILE), CONTENT.replace('9', "nine")).expect("writing");
    let Some(opened) = work(workspace, 1, edit).await else { return };
    let other = work(workspace, 2, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await;
    let other = other.expect("a branch");
    fs::write(workspace.root().join(FILE), CONTENT.replace('1', "one")).expect("writing");
    if !matches!(publish(workspace, &candidate(workspace, &opened, 1).await).await, Published::Held(_)) {
        // Edits of the person are in no way here.
        return;
    }
    fs::write(workspace.root().join(FILE), CONTENT).expect("writing");
    // Made while the work of the first still waited, perhaps on top of it.
    let late = candidate(workspace, &other, 2).await;
    // Twice, because a killed orchestrator repeats the call.
    for _ in 0..2 {
        assert_eq!(workspace.withdraw(&key(1)).await.expect("a withdrawal"), None);
    }
    if publish(workspace, &late).await == Published::Moved {
        let again = candidate(workspace, &other, 2).await;
        assert!(matches!(publish(workspace, &again).await, Published::Done { .. }));
    }
    assert_eq!(text(&workspace.root().join("new")), "work");
    assert_eq!(text(&workspace.root().join(FILE)), CONTENT);
    // Its work is kept, for a person who asks for it by name.
    let again = candidate(workspace, &opened, 1).await;
    assert!(matches!(publish(workspace, &again).await, Published::Done { .. }));
    assert_eq!(text(&workspace.root().join(FILE)), CONTENT.replace('9', "nine"));
}

async fn unmerged_work_is_not_removed(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    let removed = workspace.remove(&RemoveRequest::new(key(1))).await.expect("an outcome");
    // Without `discard`, work that is nowhere else stays.
    assert!(matches!(removed, Removed::Kept { .. }), "{removed:?}");
    assert_eq!(text(&opened.cwd.join("new")), "work");
    // Uncaptured work is kept as well.
    publish(workspace, &candidate(workspace, &opened, 1).await).await;
    fs::write(opened.cwd.join("later"), "work").expect("writing");
    let removed = workspace.remove(&RemoveRequest::new(key(1))).await.expect("an outcome");
    assert!(matches!(removed, Removed::Kept { .. }), "{removed:?}");
    assert_eq!(text(&opened.cwd.join("later")), "work");
}

async fn merged_work_is_removed(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    publish(workspace, &candidate(workspace, &opened, 1).await).await;
    // Twice, because a killed orchestrator repeats the call.
    for _ in 0..2 {
        let removed = workspace.remove(&RemoveRequest::new(key(1))).await.expect("an outcome");
        assert_eq!(removed, Removed::Gone { rescued: None });
        assert!(!opened.cwd.exists());
        assert_eq!(workspace.list().await.expect("a list"), []);
    }
    assert_eq!(text(&workspace.root().join("new")), "work");
}

async fn discarded_work_is_rescued(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    fs::write(opened.cwd.join("uncommitted"), "").expect("writing");
    let removed = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.expect("an outcome");
    // Even discarded work stays reachable, uncommitted files included.
    let Removed::Gone { rescued: Some(rescued) } = removed else {
        panic!("expected a rescue, got {removed:?}")
    };
    // The name leads from the ref to the task.
    assert!(rescued.name.starts_with("refs/watchfire/rescue/0001/"), "{rescued:?}");
    assert!(!opened.cwd.exists());
}

async fn a_fresh_start_rescues_first(workspace: &dyn Workspace) {
    let Some(opened) = work(workspace, 1, |cwd| fs::write(cwd.join("new"), "work").expect("writing")).await
    else {
        return;
    };
    fs::write(opened.cwd.join("uncommitted"), "").expect("writing");
    let request = OpenRequest::new(key(1), Attempt(2)).with_fresh(true);
    let fresh = workspace.open(&request).await.expect("a folder");
    // The commit and the uncommitted file are one ref.
    assert_eq!(fresh.rescued.len(), 1, "{fresh:?}");
    assert!(!fresh.cwd.join("new").exists() && !fresh.cwd.join("uncommitted").exists());
    // A fresh start begins at the target, which has not moved.
    assert_eq!(fresh.base, opened.base);
}

async fn cleaning_up_touches_no_work(workspace: &dyn Workspace) {
    let opened = open(workspace, 1).await;
    fs::write(opened.cwd.join("new"), "work").expect("writing");
    // Recovery runs while agents of other tasks may have files in their folders.
    let recovery = workspace.recover().await.expect("recovery");
    assert!(recovery.completed.is_empty() && recovery.undone.is_empty(), "{recovery:?}");
    let pruned = workspace.prune().await.expect("pruning");
    // A folder with a branch is never a leftover.
    assert_eq!(pruned.removed, Vec::<String>::new());
    assert_eq!(text(&opened.cwd.join("new")), "work");
    assert_eq!(text(&workspace.root().join(FILE)), CONTENT);
}
