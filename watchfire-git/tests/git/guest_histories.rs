//! Random histories of a session in the root and its person, and kills at every point of an exchange.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use watchfire_core::model::SessionId;
use watchfire_core::workspace::{MergeGuard, Workspace};

use crate::guests::Guest;
use crate::support::Repo;

/// One thing that either side does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u8, u8),
    Stage(u8),
    Commit,
    Amend,
    Switch(u8),
    Branch(u8),
    DeleteBranch(u8),
    Stash,
    Pop,
    Tag(u8),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Guest(Act),
    Person(Act),
    Exchange,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..4u8, any::<u8>()).prop_map(|(file, content)| Act::Write(file, content)),
        3 => (0..4u8).prop_map(Act::Stage),
        3 => Just(Act::Commit),
        1 => Just(Act::Amend),
        1 => (0..3u8).prop_map(Act::Switch),
        1 => (0..3u8).prop_map(Act::Branch),
        1 => (0..3u8).prop_map(Act::DeleteBranch),
        1 => Just(Act::Stash),
        1 => Just(Act::Pop),
        1 => (0..3u8).prop_map(Act::Tag),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => act().prop_map(Step::Guest), 3 => act().prop_map(Step::Person), 2 => Just(Step::Exchange)]
}

impl Act {
    /// Does it with `git`, which may fail as a person's often does.
    fn run(self, root: &Path, git: &dyn Fn(&[&str]) -> Result<String, String>) {
        let (file, branch) = (|n: u8| format!("f{n}"), |n: u8| format!("b{n}"));
        _ = match self {
            Self::Write(n, content) => {
                fs::write(root.join(file(n)), format!("{content}\n")).unwrap();
                Ok(String::new())
            }
            Self::Stage(n) => git(&["add", &file(n)]),
            Self::Commit => git(&["commit", "-qm", "x"]),
            Self::Amend => git(&["commit", "-q", "--amend", "--allow-empty", "-m", "y"]),
            Self::Switch(n) => git(&["switch", "-q", &branch(n)]),
            Self::Branch(n) => git(&["branch", &branch(n)]),
            Self::DeleteBranch(n) => git(&["branch", "-qD", &branch(n)]),
            Self::Stash => git(&["stash", "push", "-qm", "s"]),
            Self::Pop => git(&["stash", "pop", "-q"]),
            Self::Tag(n) => git(&["tag", &format!("t{n}")]),
        };
    }
}

/// The commits that a log names.
fn logged(git: &Path, log: &str) -> BTreeSet<String> {
    let log = fs::read_to_string(git.join("logs").join(log)).unwrap_or_default();
    let new = |line: &str| line.get(41..81).map(str::to_owned);
    log.lines().filter_map(new).collect()
}

/// The paths that differ between HEAD and index, with the staged content.
fn staged(repo: &Repo) -> BTreeSet<(String, String)> {
    let listed = repo.git(["diff", "--cached", "--no-renames", "--raw", "--abbrev=40"]);
    let parse = |line: &str| {
        let mut parts = line.split('\t');
        let id = parts.next()?.split(' ').nth(3)?.to_owned();
        Some((parts.next()?.to_owned(), id))
    };
    listed.lines().filter_map(parse).collect()
}

/// Both sides commit, stage, switch and stash at random. Nothing of either is lost, and the person's index differs from
/// HEAD only where the person staged something.
#[test]
fn nothing_of_either_side_is_lost() {
    let cases = if std::env::var_os("WATCHFIRE_LONG").is_some() { 400 } else { 12 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 64, ..Config::default() };
    let histories = proptest::collection::vec(step(), 1..30);
    TestRunner::new(config).run(&histories, |steps| runtime.block_on(live(steps))).unwrap();
}

/// git refuses to delete a branch that is checked out. The guest did not see that it is.
#[tokio::test]
async fn a_branch_that_the_person_has_switched_to_is_not_deleted() {
    let (guest, person) = (Act::DeleteBranch(0), Act::Switch(0));
    live(vec![Step::Guest(Act::Branch(0)), Step::Exchange, Step::Guest(guest), Step::Person(person)])
        .await
        .unwrap();
}

async fn live(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let repo = Repo::new();
    for n in 0..4 {
        repo.write(format!("f{n}"), "0\n");
    }
    repo.commit("files");
    let guest = Guest::enter(&repo).await;
    let person = |args: &[&str]| {
        let output = crate::support::run(&repo.root, args);
        output.status.success().then(String::new).ok_or_else(String::new)
    };
    let (mut made, mut own) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        match step {
            Step::Guest(act) => {
                let before = logged(&guest.top(), "refs/stash");
                act.run(&repo.root, &|args| guest.try_git(args));
                if guest.try_git(&["ls-files", "-u"]).is_ok_and(|unmerged| !unmerged.is_empty()) {
                    guest.git(&["reset", "-q"]);
                }
                let now = logged(&guest.top(), "refs/stash");
                made.retain(|id| !before.contains(id) || now.contains(id));
                made.extend(now.difference(&before).cloned());
                made.extend(logged(&guest.top(), "HEAD"));
            }
            Step::Person(act) => {
                let before = logged(&repo.root.join(".git"), "refs/stash");
                act.run(&repo.root, &person);
                // What the person took out is the person's to lose.
                let now = logged(&repo.root.join(".git"), "refs/stash");
                made.retain(|id| !before.contains(id) || now.contains(id));
                // What a failed pop leaves is for its side to sort out.
                if !repo.git(["ls-files", "-u"]).is_empty() {
                    repo.git(["reset", "-q"]);
                }
                own.extend(staged(&repo));
            }
            Step::Exchange => {
                // The person drops only stashes that are the person's to drop.
                let stashed = logged(&repo.root.join(".git"), "refs/stash");
                guest.exchange().await;
                let reachable = repo.git(["rev-list", "--all", "--reflog"]);
                prop_assert!(stashed.iter().all(|id| reachable.contains(id)), "a stash is lost");
                let odd: Vec<_> = staged(&repo).into_iter().filter(|entry| !own.contains(entry)).collect();
                prop_assert!(odd.is_empty(), "staged by nobody: {odd:?}");
            }
        }
        made.extend(logged(&repo.root.join(".git"), "HEAD"));
    }
    guest.leave().await;
    let odd: Vec<_> = staged(&repo).into_iter().filter(|entry| !own.contains(entry)).collect();
    prop_assert!(odd.is_empty(), "staged by nobody at the end: {odd:?}");
    repo.fsck();
    // What the person's own git has in a log is as safe as it always was.
    let reachable = repo.git(["rev-list", "--all", "--reflog"]);
    for commit in made.iter().filter(|id| id.bytes().any(|byte| byte != b'0')) {
        prop_assert!(reachable.contains(commit.as_str()), "{commit} is lost");
    }
    Ok(())
}

/// Everything that an exchange does, in a way that may be repeated from the start.
async fn exchanges(repo: &Repo, session: &SessionId) {
    let workspace = repo.workspace();
    workspace.enter(session, true, &MergeGuard::default()).await.unwrap();
    let guest = Guest { repo, workspace, session: session.clone() };
    for n in 0..2 {
        repo.write("theirs", format!("theirs {n}\n"));
        _ = guest.try_git(&["add", "theirs"]);
        _ = guest.try_git(&["commit", "-qm", &format!("theirs {n}")]);
        repo.write("stashed", format!("stashed {n}\n"));
        _ = guest.try_git(&["add", "stashed"]);
        _ = guest.try_git(&["stash", "push", "-qm", &format!("stash {n}"), "--", "stashed"]);
        _ = guest.try_git(&["branch", &format!("b{n}")]);
        guest.exchange().await;
        repo.write("mine", format!("mine {n}\n"));
        _ = crate::support::run(&repo.root, ["add", "mine"]);
        _ = crate::support::run(&repo.root, ["commit", "-qm", &format!("mine {n}"), "--", "mine"]);
        guest.exchange().await;
    }
    _ = guest.try_git(&["commit", "-q", "--allow-empty", "-m", "last"]);
    _ = guest.try_git(&["branch", "-qD", "b0"]);
    guest.workspace.leave(session).await.unwrap();
}

#[tokio::test]
#[ignore = "started by the other test, in a process to be killed"]
async fn child() {
    let Some(root) = crate::half_way::root() else { return };
    let session = fs::read_to_string(root.join("../session")).unwrap().parse().unwrap();
    exchanges(&Repo::existing(root), &session).await;
}

#[tokio::test]
async fn a_kill_loses_nothing() {
    let step = if std::env::var_os("WATCHFIRE_LONG").is_some() { 1 } else { 5 };
    for at in (1..).step_by(step) {
        let repo = Repo::new();
        let session = SessionId::random();
        fs::write(repo.beside("session"), session.as_str()).unwrap();
        let env = [("WATCHFIRE_KILL_AT", at.to_string())];
        let env = env.each_ref().map(|(name, at)| (*name, at.as_str()));
        let output = crate::half_way::child_of("guest_histories::child", "", &repo, &env);
        let is_done = output.status.success();
        // The next start takes over what was left.
        let workspace = repo.workspace();
        workspace.recover().await.unwrap();
        let left = Guest { repo: &repo, workspace, session };
        let mut made = logged(&repo.root.join(".git"), "HEAD");
        made.extend(logged(&left.top(), "HEAD"));
        made.extend(logged(&left.top(), "refs/stash"));
        left.leave().await;
        assert!(!repo.root.join(".git/index.lock").exists(), "point {at}: a lock is left");
        let reachable = repo.git(["rev-list", "--all", "--reflog"]);
        for commit in made.iter().filter(|id| id.bytes().any(|byte| byte != b'0')) {
            assert!(reachable.contains(commit.as_str()), "point {at}: {commit} is lost");
        }
        let odd = repo.git(["diff", "--cached", "--name-only"]);
        assert!(odd.lines().all(|path| path == "mine"), "point {at}: staged by nobody: {odd}");
        repo.fsck();
        if is_done {
            assert_eq!(repo.git(["log", "-1", "--format=%s"]).trim(), "last");
            assert_eq!(repo.git(["stash", "list"]).lines().count(), 2);
            break;
        }
    }
}

/// A kill right after HEAD moves leaves nothing staged: the person's next commit would contain it.
#[tokio::test]
async fn the_index_is_there_before_head_moves() {
    let repo = Repo::new();
    let session = SessionId::random();
    fs::write(repo.beside("session"), session.as_str()).unwrap();
    let env = [("WATCHFIRE_KILL_AT", "guest: references moved")];
    let output = crate::half_way::child_of("guest_histories::child", "", &repo, &env);
    assert!(!output.status.success());
    assert_ne!(repo.git(["log", "--format=%s"]).lines().count(), 1);
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "");
    let workspace = repo.workspace();
    workspace.recover().await.unwrap();
    Guest { repo: &repo, workspace, session }.leave().await;
    assert!(!repo.root.join(".git/index.lock").exists());
    repo.fsck();
}
