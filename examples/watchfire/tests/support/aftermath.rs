//! What must hold of every project after any kill, once a later orchestrator has come to the end.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use watchfire_core::model::TaskNumber;
use watchfire_core::store::{Holder, TaskStore as _};

use crate::driver;
use crate::support::World;

/// Returns a verify command that notes which files it saw, for [`verified`].
pub(crate) fn verify(folder: &Path) -> String {
    format!(
        "LC_ALL=C ls *.txt | git hash-object --no-filters --stdin-paths | sha256sum >> '{}/verified'",
        folder.display()
    )
}

/// The target was only ever what was verified, unless the person moved it.
pub(crate) fn verified(world: &World, root: &Path, wrong: &mut Vec<String>) {
    let verified = fs::read_to_string(world.path("verified")).unwrap_or_default();
    let verified: BTreeSet<&str> = verified.lines().collect();
    let is_of_the_person =
        |subject: &str| ["first", "more"].contains(&subject) || subject.starts_with("edits ");
    let tips = world.git(root, &["log", "-g", "--format=%H %s", "main"]);
    let tips = tips.lines().filter_map(|line| line.split_once(' '));
    for (tip, _) in tips.filter(|(_, subject)| !is_of_the_person(subject)) {
        let script = format!(
            "git ls-tree {tip} | grep '[.]txt$' | sed 's/^[^ ]* [^ ]* \\([0-9a-f]*\\).*/\\1/' | sha256sum"
        );
        let mut sum = std::process::Command::new("sh");
        world.isolate(&mut sum);
        let sum = sum.args(["-c", &script]).current_dir(root).output().unwrap();
        if !verified.contains(String::from_utf8_lossy(&sum.stdout).trim_end()) {
            wrong.push(format!("{tip} was the target and was not verified"));
        }
    }
}

/// Returns how often a task was merged into `main`.
pub(crate) fn merges(subjects: &str, task: TaskNumber) -> usize {
    let start = format!("Merge watchfire/{task}:");
    subjects.lines().filter(|subject| subject.starts_with(&start)).count()
}

/// Checks that each commit an agent noted is reachable, or in its worktree.
pub(crate) fn work(world: &World, root: &Path, wrong: &mut Vec<String>) {
    let mut all = world.git(root, &["log", "--all", "-p", "--format="]);
    for worktree in fs::read_dir(root.join(".watchfire/worktrees")).into_iter().flatten().flatten() {
        for file in fs::read_dir(worktree.path()).unwrap().flatten() {
            // As in the output of git.
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            all.extend(text.lines().map(|line| format!("+{line}\n")));
        }
    }
    let all: HashSet<&str> = all.lines().filter_map(|line| line.strip_prefix('+')).collect();
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
pub(crate) async fn claims(folder: &Path, tasks: &[TaskNumber], wrong: &mut Vec<String>) {
    let store = driver::store(folder).await;
    let other = Holder::new("another machine", "another home", "a start");
    for task in tasks {
        if let Err(error) = store.claim(*task, &other, Duration::from_secs(1)).await {
            wrong.push(format!("task {task} is still claimed: {}", error.report()));
        }
    }
}

/// Neither sessions nor locks are left, and every worktree in `kept`, by the number of its task, is of work that is not merged.
/// Leaves out what a merge put aside, which the caller judges.
pub(crate) fn leftovers(root: &Path, state_dir: &Path, kept: &[u32], wrong: &mut Vec<String>) {
    for session in names(&state_dir.join("sessions")) {
        wrong.push(format!("the folder of session {session} is left"));
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
}

/// Returns the names in a folder. Returns none if there is no folder.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The readers, one after the other, have seen each record once.
pub(crate) fn log(folder: &Path, wrong: &mut Vec<String>) {
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
pub(crate) fn outcomes(folder: &Path, wrong: &mut Vec<String>) {
    let text = fs::read_to_string(folder.join("outcomes")).unwrap_or_default();
    let mut known = BTreeMap::new();
    for (id, outcome) in text.lines().filter_map(|line| line.split_once(' ')) {
        let first = known.entry(id).or_insert(outcome);
        if *first != outcome {
            wrong.push(format!("{id} was answered {first} and then {outcome}"));
        }
    }
}
