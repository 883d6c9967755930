//! What must hold after any kill, once a later orchestrator has come to the end.

use std::fs;
use std::path::Path;

use watchfire_core::journal::{Journal, State};
use watchfire_core::model::TaskNumber;
use watchfire_core::schedule::{Ending, Life, StopReason, Subject};
use watchfire_core::store::TaskStore as _;

use crate::aftermath::{self, names};
use crate::driver;
use crate::support::World;
use crate::world::{BREAKS, EDITED, EDITS, FAILS, IS_STOPPED, RIVALS, TASKS};

/// Returns everything that is wrong.
pub(super) async fn problems(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let folder = world.folder.path();
    let root = folder.join("project");
    let id = driver::store(folder).await.project().await.unwrap().value.project_id;
    let state_dir = driver::home(folder).await.state_dir(&id);
    // The last one is written by an agent. It lacks the number before it, if its store was killed after it had taken that.
    let files = names(&root.join(".watchfire/tasks"));
    let numbers = files.iter().filter_map(|name| name.strip_suffix(".yaml"));
    let tasks: Vec<TaskNumber> = numbers.map(|number| number.parse().unwrap()).collect();
    if tasks.len() != TASKS as usize {
        wrong.push(format!("there are {} tasks", tasks.len()));
    }
    match Journal::read(state_dir.join("journal")) {
        Ok((state, warnings)) => {
            wrong.extend(warnings.iter().map(|warning| format!("journal: {warning}")));
            ends(&state, &tasks, &mut wrong);
            merges(world, &root, &state, &tasks, &mut wrong);
        }
        Err(error) => wrong.push(error.report()),
    }
    aftermath::verified(world, &root, &mut wrong);
    aftermath::work(world, &root, &mut wrong);
    aftermath::claims(folder, &tasks, &mut wrong).await;
    leftovers(folder, &root, &state_dir, &mut wrong);
    aftermath::log(folder, &mut wrong);
    aftermath::outcomes(folder, &mut wrong);
    wrong
}

/// Every life has ended, and in a way that its script explains.
fn ends(state: &State, tasks: &[TaskNumber], wrong: &mut Vec<String>) {
    let ledger = &state.ledger;
    for life in ledger.lives.values() {
        wrong.push(format!("life {} of {:?} is {}", life.id, life.subject, life.state));
    }
    for life in ledger.ended.values() {
        let Some(ending) = life.ending() else { continue };
        let stopped = matches!(ending, Ending::Stopped { by: StopReason::Requested, .. });
        let is_right = match life.subject {
            // Without its person a chat is over.
            Subject::Chat => stopped || *ending == Ending::Closed,
            // With its run a step is over.
            Subject::Refine { .. } => matches!(ending, Ending::Refined | Ending::Closed),
            Subject::Generate => matches!(ending, Ending::Generated { .. } | Ending::Closed),
            Subject::Task { task, .. } => match task.value() {
                FAILS => matches!(ending, Ending::Failed { reason, .. } if reason == "too hard"),
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
        |life: &&Life| matches!(life.ending(), Some(Ending::Generated { tasks, .. }) if !tasks.is_empty());
    let generations = ledger.ended.values().filter(generated).count();
    // None, if its kill came after its tasks were written: the next one found them.
    if generations > 1 {
        wrong.push(format!("{generations} lives generated tasks"));
    }
    for task in tasks {
        let lives = ledger.ended.values().filter(|life| life.subject.task() == Some(*task)).count();
        // The stopped one stays ready, so that each further run starts it again.
        if lives != 1 && task.value() != IS_STOPPED {
            wrong.push(format!("task {task} has {lives} lives"));
        }
    }
}

/// Work is in the target once if its life says so, else not at all.
fn merges(world: &World, root: &Path, state: &State, tasks: &[TaskNumber], wrong: &mut Vec<String>) {
    let subjects = world.git(root, &["log", "--format=%s", "main"]);
    for task in tasks {
        let merged = state.ledger.ended.values().any(|life| {
            life.subject.task() == Some(*task) && matches!(life.ending(), Some(Ending::Merged { .. }))
        });
        let count = aftermath::merges(&subjects, *task);
        if count != usize::from(merged) {
            wrong.push(format!("task {task} was merged {count} times, and its life says {merged}"));
        }
    }
}

fn leftovers(folder: &Path, root: &Path, state_dir: &Path, wrong: &mut Vec<String>) {
    // The work of these is not merged.
    let kept = [FAILS, BREAKS, IS_STOPPED, RIVALS[0], RIVALS[1]];
    aftermath::leftovers(root, state_dir, &kept, wrong);
    // An edit of the person's that a merge displaced, because the file was saved once more meanwhile.
    let aside = root.join(".watchfire/worktrees/aside");
    for name in names(&aside) {
        let text = fs::read_to_string(aside.join(&name)).unwrap_or_else(|error| error.to_string());
        if !name.starts_with(&format!("{EDITED}-")) || !["", EDITS[0], EDITS[1]].contains(&&*text) {
            wrong.push(format!("{name} was set aside: {text:?}"));
        }
    }
    for pid in fs::read_to_string(folder.join("pids")).unwrap_or_default().lines() {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.contains(&*folder.to_string_lossy()) {
            wrong.push(format!("the agent {pid} is still running"));
        }
    }
}
