//! What must hold after any kill, once a later orchestrator has come to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use watchfire_core::journal::{Journal, State};
use watchfire_core::model::TaskNumber;
use watchfire_core::schedule::{Ending, Life, StopReason, Subject};
use watchfire_core::store::{Holder, TaskStore as _};

use crate::support::World;
use crate::world::{self, BREAKS, EDITED, EDITS, FAILS, IS_STOPPED, RIVALS, TASKS};

/// Returns everything that is wrong.
pub(super) async fn problems(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let folder = world.folder.path();
    let root = folder.join("project");
    let id = world::store(folder).await.project().await.unwrap().value.project_id;
    let state_dir = world::home(folder).await.state_dir(&id);
    match Journal::read(state_dir.join("journal")) {
        Ok((state, warnings)) => {
            wrong.extend(warnings.iter().map(|warning| format!("journal: {warning}")));
            ends(&state, &mut wrong);
            merges(world, &root, &state, &mut wrong);
        }
        Err(error) => wrong.push(error.report()),
    }
    work(world, &root, &mut wrong);
    claims(folder, &mut wrong).await;
    leftovers(folder, &root, &state_dir, &mut wrong);
    log(folder, &mut wrong);
    outcomes(folder, &mut wrong);
    wrong
}

/// Every life has ended, and in a way that its script explains.
fn ends(state: &State, wrong: &mut Vec<String>) {
    let ledger = &state.ledger;
    for life in ledger.lives.values() {
        wrong.push(format!("life {} of {:?} is {}", life.id, life.subject, life.state));
    }
    for life in ledger.ended.values() {
        let Some(ending) = life.ending() else { continue };
        let stopped = matches!(ending, Ending::Stopped { by: StopReason::Requested });
        let is_right = match life.subject {
            // Without its person a chat is over.
            Subject::Chat => stopped || *ending == Ending::Closed,
            // With its run a step is over.
            Subject::Refine { .. } => matches!(ending, Ending::Refined | Ending::Closed),
            Subject::Generate => matches!(ending, Ending::Generated { .. } | Ending::Closed),
            Subject::Task { task } => match task.value() {
                FAILS => matches!(ending, Ending::Failed { reason } if reason == "too hard"),
                BREAKS => matches!(ending, Ending::VerifyFailed { .. }),
                IS_STOPPED => stopped,
                rival if RIVALS.contains(&rival) => {
                    matches!(ending, Ending::Merged { .. } | Ending::Conflict { .. })
                }
                _ => matches!(ending, Ending::Merged { .. }),
            },
            _ => false,
        };
        if !is_right {
            wrong.push(format!("life {} of {:?} ended: {ending}", life.id, life.subject));
        }
    }
    for run in ledger.runs.values().filter(|run| run.ended.is_none()) {
        wrong.push(format!("run {} has not ended", run.id));
    }
    let generated =
        |life: &&Life| matches!(life.ending(), Some(Ending::Generated { tasks }) if !tasks.is_empty());
    let generations = ledger.ended.values().filter(generated).count();
    // None, if its kill came after its tasks were written: the next one found them.
    if generations > 1 {
        wrong.push(format!("{generations} lives generated tasks"));
    }
    for task in 1..=TASKS {
        let number = TaskNumber::new(task).unwrap();
        let lives = ledger.ended.values().filter(|life| life.subject.task() == Some(number)).count();
        // The stopped one stays ready, so that each further run starts it again.
        if lives != 1 && task != IS_STOPPED {
            wrong.push(format!("task {task} has {lives} lives"));
        }
    }
}

/// Work is in the target once if its life says so, else not at all; and the target was only ever what was verified.
fn merges(world: &World, root: &Path, state: &State, wrong: &mut Vec<String>) {
    let subjects = world.git(root, &["log", "--format=%s", "main"]);
    for task in 1..=TASKS {
        let number = TaskNumber::new(task).unwrap();
        let merged = state.ledger.ended.values().any(|life| {
            life.subject.task() == Some(number) && matches!(life.ending(), Some(Ending::Merged { .. }))
        });
        let start = format!("Merge watchfire/{number}:");
        let count = subjects.lines().filter(|subject| subject.starts_with(&start)).count();
        if count != usize::from(merged) {
            wrong.push(format!("task {task} was merged {count} times, and its life says {merged}"));
        }
    }
    let verified = fs::read_to_string(world.path("verified")).unwrap_or_default();
    let verified: BTreeSet<&str> = verified.lines().collect();
    let tips = world.git(root, &["log", "-g", "--format=%H", "main"]);
    for tip in
        tips.lines().filter(|tip| !world.git(root, &["log", "-1", "--format=%s", tip]).starts_with("more"))
    {
        if world.git(root, &["log", "-1", "--format=%s", tip]) == "first\n" {
            continue;
        }
        let script = format!(
            "for f in $(git ls-tree --name-only {tip} | grep '[.]txt$' | LC_ALL=C sort); do git show {tip}:$f; done | sha256sum"
        );
        let mut sum = std::process::Command::new("sh");
        world.isolate(&mut sum);
        let sum = sum.args(["-c", &script]).current_dir(root).output().unwrap();
        if !verified.contains(String::from_utf8_lossy(&sum.stdout).trim_end()) {
            wrong.push(format!("{tip} was the target and was not verified"));
        }
    }
}

/// What an agent noted is reachable, or in its worktree.
fn work(world: &World, root: &Path, wrong: &mut Vec<String>) {
    let mut all = world.git(root, &["log", "--all", "-p", "--format="]);
    for worktree in fs::read_dir(root.join(".watchfire/worktrees")).into_iter().flatten().flatten() {
        for file in fs::read_dir(worktree.path()).unwrap().flatten() {
            all += &fs::read_to_string(file.path()).unwrap_or_default();
        }
    }
    for line in fs::read_to_string(world.path("written")).unwrap_or_default().lines() {
        if !all.contains(line) {
            wrong.push(format!("{line:?} was written and is lost"));
        }
    }
    let reachable = world.git(root, &["rev-list", "--all"]);
    let reachable: BTreeSet<&str> = reachable.lines().collect();
    for commit in fs::read_to_string(world.path("commits")).unwrap_or_default().lines() {
        if !reachable.contains(commit) {
            wrong.push(format!("the commit {commit} cannot be reached"));
        }
    }
    world.git(root, &["fsck", "--no-dangling"]);
}

/// Another orchestrator may take every task.
async fn claims(folder: &Path, wrong: &mut Vec<String>) {
    let store = world::store(folder).await;
    let other = Holder::new("another machine", "another home", "a start");
    for task in 1..=TASKS {
        let task = TaskNumber::new(task).unwrap();
        if let Err(error) = store.claim(task, &other, Duration::from_secs(1)).await {
            wrong.push(format!("task {task} is still claimed: {}", error.report()));
        }
    }
}

fn leftovers(folder: &Path, root: &Path, state_dir: &Path, wrong: &mut Vec<String>) {
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let is_task = |name: &&String| name.ends_with(".yaml");
    let tasks = names(&root.join(".watchfire/tasks")).iter().filter(is_task).count();
    if tasks != TASKS as usize {
        wrong.push(format!("there are {tasks} tasks"));
    }
    for session in names(&state_dir.join("sessions")) {
        wrong.push(format!("the folder of session {session} is left"));
    }
    // The work of these is not merged.
    let kept = [FAILS, BREAKS, IS_STOPPED, RIVALS[0], RIVALS[1]];
    // An edit of the person's that a merge displaced, because the file was saved once more meanwhile.
    let aside = root.join(".watchfire/worktrees/aside");
    for name in names(&aside) {
        let text = fs::read_to_string(aside.join(&name)).unwrap_or_else(|error| error.to_string());
        if !name.starts_with(&format!("{EDITED}-")) || !["", EDITS[0], EDITS[1]].contains(&&*text) {
            wrong.push(format!("{name} was set aside: {text:?}"));
        }
    }
    for worktree in names(&root.join(".watchfire/worktrees")).iter().filter(|name| *name != "aside") {
        if !kept.iter().any(|task| format!("{task:04}") == *worktree) {
            wrong.push(format!("the worktree {worktree} is left"));
        }
    }
    for path in
        [root.join(".git"), root.join(".git/refs/heads"), root.join(".git/watchfire"), root.to_owned()]
    {
        let is_lock = |name: &&String| name.ends_with(".lock") && name.as_str() != "orchestrator.lock";
        for name in names(&path).iter().filter(is_lock) {
            wrong.push(format!("{} is left in {}", name, path.display()));
        }
    }
    for pid in fs::read_to_string(folder.join("pids")).unwrap_or_default().lines() {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.contains(&*folder.to_string_lossy()) {
            wrong.push(format!("the agent {pid} is still running"));
        }
    }
}

/// The readers, one after the other, have seen each record once.
fn log(folder: &Path, wrong: &mut Vec<String>) {
    let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
    for (at, line) in text.lines().enumerate() {
        let seq = line.split_once(' ').and_then(|(cursor, _)| cursor.split_once(':')).map(|(_, seq)| seq);
        if seq != Some(&(at + 1).to_string()) {
            wrong.push(format!("record {} of the log is {line:.80}", at + 1));
            return;
        }
    }
    if text.is_empty() {
        wrong.push("nobody read the log".to_owned());
    }
}

/// A request that was repeated under its id had the same outcome.
fn outcomes(folder: &Path, wrong: &mut Vec<String>) {
    let text = fs::read_to_string(folder.join("outcomes")).unwrap_or_default();
    let mut known = BTreeMap::new();
    for (id, outcome) in text.lines().filter_map(|line| line.split_once(' ')) {
        let first = known.entry(id).or_insert(outcome);
        if *first != outcome {
            wrong.push(format!("{id} was answered {first} and then {outcome}"));
        }
    }
}
