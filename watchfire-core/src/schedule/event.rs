//! The vocabulary of the state machine: what it is told, and what it decides.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{BackendName, Task, TaskNumber, TaskStatus};
use crate::session::StopReason;

/// What the scheduler knows of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Its number.
    pub number: TaskNumber,
    /// Its place in the work order.
    pub position: i64,
    /// Where it stands.
    pub status: TaskStatus,
    /// Whether its work is in the target, so that tasks that depend on it may start.
    pub integrated: bool,
    /// What must be integrated first.
    pub depends_on: Vec<TaskNumber>,
    /// How often it may be tried again by itself.
    pub retries: u32,
    /// The backend that it will get.
    pub backend: Option<BackendName>,
}

impl Card {
    /// The card of a task that is not in the trash.
    #[must_use]
    pub fn new(task: &Task, integrated: bool, backend: Option<BackendName>) -> Self {
        Self {
            number: task.task_number,
            position: task.position,
            status: task.status,
            integrated,
            depends_on: task.depends_on.clone(),
            retries: task.retries.unwrap_or(0),
            backend,
        }
    }
}

/// What may run at once, and when to stop by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// How many tasks may run at once; at least one.
    pub parallel: u32,
    /// Start a task that becomes ready by any hand.
    pub auto_start: bool,
    /// How many finished tasks may be merged and verified together; at least one.
    pub batch: u32,
    /// End all runs when a merge fails.
    pub stop_on_merge_failure: bool,
    /// How often the same task may start in a row without progress.
    pub restarts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { parallel: 1, auto_start: false, batch: 1, stop_on_merge_failure: false, restarts: 3 }
    }
}

/// Names one request to run something; unique within one orchestrator.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

/// What a run is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Every ready task, in work order, also those that become ready meanwhile.
    All,
    /// One task.
    Task(TaskNumber),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The tasks that are not in the trash, as they are now.
    Board(Vec<Card>),
    /// The limits, as they are now.
    Limits(Limits),
    /// Someone wants something run.
    Run {
        /// Which request.
        run: RunId,
        /// What.
        scope: Scope,
    },
    /// Someone wants a run to end: what runs for it alone is stopped.
    StopRun(RunId),
    /// Someone wants everything to end.
    StopAll,
    /// A session has ended, its process tree with it, and its work is captured.
    AttemptEnded {
        /// The task.
        task: TaskNumber,
        /// None: the agent claims success, and the work may be merged.
        ending: Option<Ending>,
        /// Whether the branch has moved.
        progress: bool,
    },
    /// A merge has come to its end.
    MergeEnded {
        /// The task.
        task: TaskNumber,
        /// How.
        ending: Ending,
    },
    /// Something blocks all sessions of a backend, or no longer does.
    Blocked {
        /// The backend.
        backend: BackendName,
        /// Whether it is blocked now.
        blocked: bool,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Start an agent on a task.
    StartAttempt(TaskNumber),
    /// End the session that works on a task; [`Event::AttemptEnded`] follows.
    StopAttempt(TaskNumber, StopReason),
    /// Verify and merge a task's work; [`Event::MergeEnded`] follows.
    Merge(TaskNumber),
    /// Set a done task back to ready, for another try.
    Reopen(TaskNumber),
    /// Tell people that a task was started this often in a row without progress and is not started again.
    RestartLimit {
        /// The task.
        task: TaskNumber,
        /// How often.
        count: u32,
    },
    /// A run is over.
    RunEnded(RunId, RunSummary),
}

/// How an attempt or a merge ended.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Ending {
    /// Verified and merged.
    Merged {
        /// The commit that the target is at, if there is a repository.
        commit: Option<String>,
        /// The target.
        target: Option<String>,
    },
    /// Done, with nothing to merge.
    Nothing,
    /// Done, and by the project's choice not merged.
    Unmerged,
    /// The agent says that it failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// The agent ended without saying that it is done.
    Crashed {
        /// How it ended.
        reason: String,
    },
    /// It took longer than allowed.
    TimedOut {
        /// What was allowed.
        reason: String,
    },
    /// A verify command failed on the merged tree.
    VerifyFailed {
        /// Which, and the end of its output.
        reason: String,
    },
    /// The target changed the same places.
    Conflict {
        /// Which files.
        reason: String,
    },
    /// Publishing would touch local edits.
    Held {
        /// Which files.
        reason: String,
    },
    /// Someone stopped it.
    Cancelled,
    /// It could not be started, or something of ours failed.
    Error {
        /// What.
        reason: String,
    },
}

impl Ending {
    /// The stable word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Merged { .. } => "merged",
            Self::Nothing => "nothing to merge",
            Self::Unmerged => "unmerged",
            Self::Failed { .. } => "failed",
            Self::Crashed { .. } => "crashed",
            Self::TimedOut { .. } => "timed out",
            Self::VerifyFailed { .. } => "verify failed",
            Self::Conflict { .. } => "conflict",
            Self::Held { .. } => "held",
            Self::Cancelled => "cancelled",
            Self::Error { .. } => "error",
        }
    }

    /// Why, where there is more to say than the word.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Merged { .. } | Self::Nothing | Self::Unmerged | Self::Cancelled => None,
            Self::Failed { reason }
            | Self::Crashed { reason }
            | Self::TimedOut { reason }
            | Self::VerifyFailed { reason }
            | Self::Conflict { reason }
            | Self::Held { reason }
            | Self::Error { reason } => Some(reason),
        }
    }

    /// Whether nobody needs to look.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Merged { .. } | Self::Nothing | Self::Unmerged)
    }

    /// Whether the work is where dependants need it.
    #[must_use]
    pub fn is_integrated(&self) -> bool {
        matches!(self, Self::Merged { .. } | Self::Nothing)
    }

    /// Whether another try may help.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Crashed { .. } | Self::TimedOut { .. } | Self::VerifyFailed { .. } | Self::Conflict { .. }
        )
    }

    /// Whether a merge was tried and did not come through.
    pub(super) fn is_merge_failure(&self) -> bool {
        matches!(self, Self::VerifyFailed { .. } | Self::Conflict { .. } | Self::Held { .. })
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.reason().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The tasks that were worked on, with their last ending.
    pub endings: BTreeMap<TaskNumber, Ending>,
    /// Ready tasks that were not started, and why.
    pub waiting: BTreeMap<TaskNumber, Waiting>,
    /// Whether someone stopped it.
    pub stopped: bool,
}

impl RunSummary {
    /// Whether nobody needs to look.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !self.stopped && self.waiting.is_empty() && self.endings.values().all(Ending::is_good)
    }
}

/// Why a ready task was not started.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Waiting {
    /// Something blocks its backend.
    Backend(BackendName),
    /// These tasks are not integrated, or do not exist.
    DependsOn(Vec<TaskNumber>),
    /// It was started too often without progress.
    Restarts(u32),
    /// The run was over first.
    Stopped,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(backend) => write!(f, "{backend} is blocked"),
            Self::DependsOn(tasks) => {
                let tasks: Vec<_> = tasks.iter().map(|task| format!("#{task}")).collect();
                write!(f, "depends on {}", tasks.join(", "))
            }
            Self::Restarts(count) => write!(f, "started {count} times without progress"),
            Self::Stopped => f.write_str("stopped before its turn"),
        }
    }
}
