//! The durable part of a schedule.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{Attempt, BackendName, Phase, TaskNumber, Timestamp};
use crate::schedule::{
    Accepted, Block, Change, CommandId, Ending, Life, LifeId, Refusal, Run, RunId, Scope, Subject,
};
use crate::workspace::Commit;

/// Number of ended lives and runs that are kept in memory. Older lives are read from the disk.
const KEPT: usize = 200;
/// Number of decided requests that are kept however old they are.
const KEPT_COMMANDS: usize = 1_000;
/// Upper bound for the endings in ended runs, all together.
const KEPT_ENDINGS: usize = 5_000;

/// State to which the changes so far fold. Replaying a journal gives the same ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ledger {
    /// The lives that have not ended.
    #[serde(default)]
    pub lives: BTreeMap<LifeId, Life>,
    /// The last lives that have ended.
    #[serde(default)]
    pub ended: BTreeMap<LifeId, Life>,
    /// The latest life of every task that ever had one.
    #[serde(default)]
    pub tasks: BTreeMap<TaskNumber, TaskRecord>,
    /// The runs that have not ended, and the last that have.
    #[serde(default)]
    pub runs: BTreeMap<RunId, Run>,
    /// The blocked backends.
    #[serde(default)]
    pub blocked: BTreeMap<BackendName, Block>,
    /// Decided requests, by the id that their callers chose.
    #[serde(default)]
    pub commands: BTreeMap<CommandId, CommandRecord>,
    /// True after a person stopped all work, until one runs or resumes something: no task starts by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub halted: bool,
    /// The highest life id so far.
    #[serde(default)]
    pub last_life: LifeId,
    /// The highest run id so far.
    #[serde(default)]
    pub last_run: RunId,
}

/// The latest life of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The life.
    pub life: LifeId,
    /// Its attempt.
    pub attempt: Attempt,
    /// The tip of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<Commit>,
    /// The branch that its work merges into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// True if the task file carries an agent's claim that this life left unmerged.
    #[serde(default)]
    pub claimed: bool,
    /// Its ending. Absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The last merge of its work, by this life or by one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergeRecord>,
}

impl TaskRecord {
    /// Returns the last merge of the task. In a record that an earlier release wrote, only a merge by its latest life is known.
    #[must_use]
    pub fn last_merge(&self) -> Option<MergeRecord> {
        self.merged.clone().or_else(|| MergeRecord::of(self.ending.as_ref()?))
    }
}

/// A merge of a task's work.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MergeRecord {
    /// The merge commit.
    pub commit: String,
    /// The branch that moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The repository that holds the commit, relative to the project's root. Absent for the project's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
}

impl MergeRecord {
    fn of(ending: &Ending) -> Option<Self> {
        match ending {
            Ending::Merged { commit: Some(commit), target, repository } => {
                Some(Self { commit: commit.clone(), target: target.clone(), repository: repository.clone() })
            }
            _ => None,
        }
    }
}

/// A decided request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommandRecord {
    /// The digest of the request, which distinguishes a repetition from another request under the same id.
    pub digest: u64,
    /// The time of the decision.
    pub at: Timestamp,
    /// The decision.
    pub outcome: Result<Accepted, Refusal>,
}

impl Ledger {
    /// Returns the phase of wildfire that `life` belongs to.
    #[must_use]
    pub fn phase(&self, life: &Life) -> Option<Phase> {
        let scope = life.run.and_then(|run| self.runs.get(&run)).map(|run| &run.scope);
        let executes = life.subject.task().is_some() && scope == Some(&Scope::Wildfire);
        life.subject.phase().or(executes.then_some(Phase::Execute))
    }

    /// Applies `change`.
    ///
    /// Never fails: after damage, a change may concern something unknown, and then changes what it can.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Life(life) => self.apply_life(life),
            Change::Run(run) => self.apply_run(run),
            Change::Reopened { task } => {
                if let Some(record) = self.tasks.get_mut(task) {
                    record.claimed = false;
                }
            }
            Change::Backend { backend, block: Some(block) } => {
                self.blocked.insert(backend.clone(), block.clone());
            }
            Change::Backend { backend, block: None } => {
                self.blocked.remove(backend);
            }
            Change::Command { id, record } => {
                self.commands.insert(id.clone(), record.clone());
            }
            Change::Halted { halted } => self.halted = *halted,
            Change::CommandsForgotten { before } => {
                for id in self.forgotten(before) {
                    self.commands.remove(&id);
                }
            }
            Change::Notice(_) | Change::SessionOver { .. } => {}
        }
    }

    /// Returns the requests whose records can be removed: they are older than `before`, and the life or run that they began
    /// has ended. The newest are kept however old they seem: a clock that jumps ahead would make a repeated request begin its
    /// work again.
    pub(in crate::schedule) fn forgotten(&self, before: &Timestamp) -> Vec<CommandId> {
        let excess = self.commands.len().saturating_sub(KEPT_COMMANDS);
        if excess == 0 {
            return Vec::new();
        }
        let mut oldest: Vec<_> = self.commands.iter().collect();
        oldest.sort_by_key(|(_, record)| record.at.unix_millis());
        oldest.truncate(excess);
        oldest.retain(|(_, record)| record.at.unix_millis() < before.unix_millis() && !self.goes_on(record));
        oldest.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// Returns true if the life or run of a request is under way. As long as it is, a repeated request must get its answer
    /// instead of beginning the work again.
    fn goes_on(&self, record: &CommandRecord) -> bool {
        let accepted = record.outcome.as_ref().ok();
        let life = accepted.and_then(|accepted| accepted.life);
        let run = accepted.and_then(|accepted| self.runs.get(&accepted.run?));
        life.is_some_and(|life| self.lives.contains_key(&life)) || run.is_some_and(|run| run.ended.is_none())
    }

    fn apply_run(&mut self, run: &Run) {
        self.last_run = self.last_run.max(run.id);
        self.runs.insert(run.id, run.clone());
        if run.ended.is_none() {
            return;
        }
        // Newest first. The run that ended just now is always kept, however old it is and many endings it has.
        let (mut runs, mut endings, mut old) = (1, run.endings.len(), Vec::new());
        for other in self.runs.values().rev().filter(|other| other.ended.is_some() && other.id != run.id) {
            (runs, endings) = (runs + 1, endings + other.endings.len());
            if runs > KEPT || endings > KEPT_ENDINGS {
                old.push(other.id);
            }
        }
        old.iter().for_each(|id| drop(self.runs.remove(id)));
    }

    fn apply_life(&mut self, life: &Life) {
        self.last_life = self.last_life.max(life.id);
        if let Subject::Task { task } = life.subject {
            let before = self.tasks.get(&task).and_then(TaskRecord::last_merge);
            self.tasks.insert(
                task,
                TaskRecord {
                    life: life.id,
                    attempt: life.attempt,
                    tip: life.tip.clone(),
                    target: life.target.clone(),
                    claimed: life.claimed,
                    // Kept for every task of the project, so long outputs would add up.
                    ending: life.ending().map(Ending::brief),
                    merged: life.ending().and_then(MergeRecord::of).or(before),
                },
            );
        }
        let Some(ending) = life.ending() else {
            self.lives.insert(life.id, life.clone());
            return;
        };
        self.lives.remove(&life.id);
        self.ended.insert(life.id, life.clone());
        while self.ended.len() > KEPT {
            // Never the one that has just ended, however old it is: it is still to be released.
            let Some(oldest) = self.ended.keys().copied().find(|id| *id != life.id) else { break };
            self.ended.remove(&oldest);
        }
        if let Some(run) = life.run.and_then(|run| self.runs.get_mut(&run)).filter(|run| run.ended.is_none())
        {
            run.course.ended(life.subject, ending);
        }
        if let Some(task) = life.subject.task() {
            // Every open run that covers the task reports its ending, not only the owner of the life.
            for run in self.runs.values_mut() {
                if run.ended.is_none() && run.scope.covers(task) {
                    run.endings.insert(task, ending.brief());
                }
            }
        }
    }

    /// Returns the life `id`, if it is under way or among the last that ended.
    #[must_use]
    pub fn life(&self, id: LifeId) -> Option<&Life> {
        self.lives.get(&id).or_else(|| self.ended.get(&id))
    }

    /// Returns the life of `task` that has not ended.
    #[must_use]
    pub(crate) fn life_of(&self, task: TaskNumber) -> Option<&Life> {
        // The record names the latest life, which stays in `lives` only until it ends.
        self.tasks.get(&task).and_then(|record| self.lives.get(&record.life))
    }
}
