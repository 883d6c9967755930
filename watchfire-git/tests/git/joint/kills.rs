//! Joint publications that are killed, or overtaken half-way.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use watchfire_core::workspace::{
    InTargets, Merge, ObstacleKind, PublishRequest, Published, RemoveRequest, Removed, Workspace,
};

use super::{World, candidate, capture, open, prepare, publish, work};
use crate::support::git;
use crate::support::steps::key;

/// Runs the ignored test `name` of this file in a process of its own.
fn child(name: &str, world: &World, env: &[(&str, &str)]) -> std::process::Output {
    crate::half_way::child_of(&format!("joint::kills::{name}"), "", &world.app, env)
}

/// The world that [`child`] names.
fn given() -> Option<World> {
    crate::half_way::root().map(World::existing)
}

#[tokio::test]
#[ignore = "started by the others, to be killed or to fail"]
async fn publishing() {
    let Some(world) = given() else { return };
    let workspace = world.workspace();
    let candidate = candidate(&workspace, 1).await;
    println!("{:?}", publish(&workspace, &candidate).await);
}

/// Moves `main` as a push would, although the index is locked.
fn push(root: &Path) -> String {
    let commit = git(root, ["commit-tree", "-p", "main", "-m", "pushed", "main^{tree}"]).trim().to_owned();
    git(root, ["update-ref", "refs/heads/main", &commit]);
    commit
}

/// Returns the number of commits of `main` that merge task `n`, in each of the first two repositories.
fn merges(world: &World, n: u32) -> [usize; 2] {
    let grep = format!("--grep=^merge {n}$");
    [&world.app.root, &world.lib].map(|root| git(root, ["log", "--format=%s", &grep, "main"]).lines().count())
}

#[tokio::test]
async fn a_kill_between_the_targets_is_completed_at_the_next_start() {
    for at in [
        "joint: intent written",
        "joint: noted",
        "joint: all checked",
        "joint: a target moved",
        "joint: a part ended",
        "joint: intent to be removed",
    ] {
        let world = World::new();
        let workspace = world.workspace();
        work(&workspace, 1, 2).await;
        let candidate = candidate(&workspace, 1).await;
        let before = world.tips();
        let output = child("publishing", &world, &[("WATCHFIRE_KILL_AT", at)]);
        assert!(!output.status.success(), "{at}: {output:?}");
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.attention.is_empty() && recovery.half.is_empty(), "{at}: {recovery:?}");
        let is_completed = merges(&world, 1) == [1, 1];
        match is_completed {
            true => assert!(!recovery.completed.is_empty(), "{at}: {recovery:?}"),
            false => assert_eq!(world.tips(), before, "{at}"),
        }
        assert_eq!(
            is_completed,
            !["joint: intent written", "joint: noted", "joint: all checked"].contains(&at),
            "{at}"
        );
        world.sound(at);
        // The child made a candidate of its own, at another second perhaps.
        match prepare(&workspace, 1).await {
            Merge::Nothing => assert!(is_completed, "{at}"),
            Merge::Ready(_) => {
                assert!(!is_completed, "{at}");
                let again = super::candidate(&workspace, 1).await;
                assert!(matches!(publish(&workspace, &again).await, Published::Done { .. }), "{at}");
            }
            other => panic!("{at}: {other:?}"),
        }
        assert_eq!(merges(&world, 1), [1, 1], "{at}");
        drop(candidate);
        assert!(
            matches!(workspace.remove(&RemoveRequest::new(key(1))).await.unwrap(), Removed::Gone { .. }),
            "{at}"
        );
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.completed.is_empty() && recovery.undone.is_empty(), "{at}: {recovery:?}");
        world.sound(at);
    }
}

/// The start of another project on one of the repositories comes first.
#[tokio::test]
async fn a_start_of_another_project_in_between_is_no_harm() {
    for at in ["joint: all checked", "joint: a target moved"] {
        let world = World::new();
        let workspace = world.workspace();
        work(&workspace, 1, 2).await;
        child("publishing", &world, &[("WATCHFIRE_KILL_AT", at)]);
        for root in [&world.lib, &world.app.root] {
            let plain = watchfire_git::GitWorkspace::open(root, Default::default()).unwrap();
            plain.recover().await.unwrap();
        }
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.half.is_empty(), "{at}: {recovery:?}");
        let expected = if at == "joint: a target moved" { [1, 1] } else { [0, 0] };
        assert_eq!(merges(&world, 1), expected, "{at}");
        world.sound(at);
    }
}

#[tokio::test]
async fn a_target_that_moved_meanwhile_makes_it_half_published() {
    let world = World::new();
    let workspace = world.workspace();
    work(&workspace, 1, 2).await;
    let output = child("publishing", &world, &[("WATCHFIRE_KILL_AT", "joint: a target moved")]);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(merges(&world, 1), [0, 1], "the other repository goes first");
    let pushed = push(&world.app.root);
    for start in 0..3 {
        // A start neither takes anything back nor forgets it.
        let recovery = workspace.recover().await.unwrap();
        assert_eq!(recovery.half.len(), 1, "{start}: {recovery:?}");
        let by = &recovery.half[0];
        assert_eq!(by.kind, ObstacleKind::HalfPublished);
        assert!(by.message.contains("in main of ../lib, and not in main of the project's own"), "{by}");
        assert_eq!(merges(&world, 1), [0, 1], "{start}");
        assert_eq!(world.tips()[0], pushed);
        world.sound("half");
    }
    // Other work goes on.
    work(&workspace, 2, 2).await;
    let second = candidate(&workspace, 2).await;
    assert!(matches!(publish(&workspace, &second).await, Published::Done { .. }));
    assert_eq!((merges(&world, 1), merges(&world, 2)), ([0, 1], [1, 1]));

    // A person asks for the merge again: what is missing is merged, and nothing twice.
    let missing = candidate(&workspace, 1).await;
    assert!(matches!(publish(&workspace, &missing).await, Published::Done { .. }));
    assert_eq!(merges(&world, 1), [1, 1]);
    assert_eq!(workspace.recover().await.unwrap(), Default::default());
    assert!(matches!(workspace.remove(&RemoveRequest::new(key(1))).await.unwrap(), Removed::Gone { .. }));
    world.sound("completed");
}

#[tokio::test]
async fn the_target_says_that_a_candidate_is_half_published() {
    let world = World::new();
    let workspace = world.workspace();
    work(&workspace, 1, 2).await;
    let candidate = candidate(&workspace, 1).await;
    // A person merges one part by hand, and moves on in the other repository.
    let part = candidate.others[0].candidate.commit.to_string();
    git(&world.lib, ["merge", "-q", "--ff-only", &part]);
    push(&world.app.root);
    let InTargets::Some(by) = workspace.found_in_targets(&candidate).await.unwrap() else { panic!() };
    assert_eq!(by.kind, ObstacleKind::HalfPublished);
    let before = world.tips();
    let Published::Held(by) = publish(&workspace, &candidate).await else { panic!() };
    assert_eq!(by.kind, ObstacleKind::HalfPublished);
    assert_eq!(world.tips(), before);
    world.sound("");
    // Discarded: nothing is lost, and nothing is told any more.
    let removed = workspace.remove(&RemoveRequest::new(key(1)).with_discard(true)).await.unwrap();
    assert!(matches!(removed, Removed::Gone { rescued: Some(_), .. }), "{removed:?}");
    assert_eq!(workspace.recover().await.unwrap(), Default::default());
}

#[tokio::test]
async fn a_checkout_that_cannot_be_brought_along_is_completed_later() {
    for place in ["bring", "index"] {
        let world = World::new();
        let workspace = world.workspace();
        work(&workspace, 1, 2).await;
        let output = child("publishing", &world, &[("WATCHFIRE_FAIL_AT", place)]);
        let said = String::from_utf8_lossy(&output.stdout);
        // All targets have moved: nothing is taken back in one of several.
        assert!(said.contains("Incomplete(Obstacle { kind: OutOfSpace"), "{place}: {said}");
        assert_eq!(merges(&world, 1), [1, 1], "{place}");
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.incomplete.is_empty() && recovery.half.is_empty(), "{place}: {recovery:?}");
        world.sound(place);
        assert!(world.app.root.join("new 1").exists() && world.lib.join("new 1").exists(), "{place}");
    }
}

/// Everything that is done to the repositories, in a way that may be repeated from the start.
async fn live(world: &World, log: &Path) {
    let wrote = |path: &Path, content: &str| {
        fs::write(path, content).unwrap();
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{content}").unwrap();
    };
    let workspace = world.workspace();
    workspace.recover().await.unwrap();
    for (n, places) in [(1, [true, true]), (2, [false, true])] {
        let opened = open(&workspace, n).await;
        for (folder, is_wanted) in [(&opened.cwd, places[0]), (&opened.others[0].cwd, places[1])] {
            if is_wanted {
                wrote(&folder.join(format!("new {n}")), &format!("work {n}"));
                _ = fs::remove_file(folder.join("text"));
            }
        }
        capture(&workspace, n).await;
        if let Merge::Ready(candidate) = prepare(&workspace, n).await {
            drop(workspace.checkout(&candidate).await.unwrap());
            workspace.publish(&candidate, &PublishRequest::default()).await.unwrap();
        }
        workspace.remove(&RemoveRequest::new(key(n))).await.unwrap();
    }
    let opened = open(&workspace, 3).await;
    wrote(&opened.others[1].cwd.join("discarded"), "discarded work");
    workspace.remove(&RemoveRequest::new(key(3)).with_discard(true)).await.unwrap();
    workspace.prune().await.unwrap();
}

#[tokio::test]
#[ignore = "started by the other test, in a process to be killed"]
async fn living() {
    let Some(world) = given() else { return };
    live(&world, Path::new(&std::env::var_os("WATCHFIRE_TEST_LOG").unwrap())).await;
}

fn run_child(world: &World, kill_at: Option<u32>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "joint::kills::living", "--nocapture"])
        .env("WATCHFIRE_TEST_ROOT", &world.app.root)
        .env("WATCHFIRE_TEST_LOG", world.app.beside("log"))
        .stdout(Stdio::null());
    if let Some(n) = kill_at {
        command.env("WATCHFIRE_KILL_AT", n.to_string());
    }
    command.status().unwrap().success()
}

fn nothing_is_lost(world: &World, at: u32) {
    let mut all = String::new();
    for root in world.roots() {
        all += &git(root, ["log", "--all", "-p", "--format=%H"]);
        assert!(!root.join(".git/index.lock").exists(), "point {at}: a lock is left");
        assert_eq!(git(root, ["status", "--porcelain"]), "", "point {at}: {}", root.display());
    }
    let folders = fs::read_dir(world.app.root.join(".watchfire/together")).into_iter().flatten().flatten();
    for folder in folders {
        for name in ["project", "lib", "site"] {
            for file in ["new 1", "new 2", "discarded"] {
                all += &fs::read_to_string(folder.path().join(name).join(file)).unwrap_or_default();
            }
        }
    }
    for written in fs::read_to_string(world.app.beside("log")).unwrap_or_default().lines() {
        assert!(all.contains(written), "point {at}: {written:?} is lost");
    }
}

#[tokio::test]
async fn a_kill_at_any_point_loses_nothing_and_publishes_nothing_twice() {
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    let (mut at, mut points) = (1, 0);
    loop {
        let world = World::new();
        let survived = run_child(&world, Some(at));
        let workspace = world.workspace();
        let recovery = workspace.recover().await.unwrap();
        assert!(recovery.attention.is_empty() && recovery.half.is_empty(), "point {at}: {recovery:?}");
        nothing_is_lost(&world, at);
        // After a start it is all or nothing.
        assert!([[0, 0], [1, 1]].contains(&merges(&world, 1)), "point {at}: {:?}", merges(&world, 1));
        assert!(run_child(&world, None), "point {at}: the second run failed");
        nothing_is_lost(&world, at);
        assert_eq!((merges(&world, 1), merges(&world, 2)), ([1, 1], [0, 1]), "point {at}: not merged once");
        for root in world.roots() {
            assert_eq!(git(root, ["for-each-ref", "refs/heads/watchfire"]), "", "point {at}");
            assert_eq!(git(root, ["for-each-ref", "refs/watchfire/base"]), "", "point {at}");
            assert_eq!(git(root, ["worktree", "list"]).lines().count(), 1, "point {at}");
            for folder in ["publish", "publish-together", "together", "scratch"] {
                let left: Vec<_> = fs::read_dir(root.join(".git/watchfire").join(folder))
                    .into_iter()
                    .flatten()
                    .map(|entry| entry.unwrap().file_name())
                    .collect();
                assert!(left.is_empty(), "point {at}: {left:?} in {folder} of {}", root.display());
            }
        }
        for folder in ["together", "scratch"] {
            let left =
                fs::read_dir(world.app.root.join(".watchfire").join(folder)).into_iter().flatten().count();
            assert_eq!(left, 0, "point {at}: {folder}");
        }
        world.sound(&format!("point {at}"));
        if survived {
            break;
        }
        points = at;
        // A prime step meets different steps of different loops.
        at += if long { 1 } else { 23 };
    }
    eprintln!("killed at about {points} points");
    assert!(points > 100, "only {points} points were reached");
}
