//! What an orchestrator tells those who watch it.

use serde::{Deserialize, Serialize};

use crate::backend::Usage;
use crate::model::{Alias, Attempt, BackendName, Mode, ProjectId, SessionId, TaskNumber};
use crate::schedule::{Ending, RunId};

/// Something that happened in a project. As JSON, `event` names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Something needs a person's eye: a malformed file, a refused change, a step down.
    Attention {
        /// Which project.
        project: ProjectId,
        /// The task, where it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskNumber>,
        /// What and why, in one line.
        message: String,
    },
    /// What was left by a killed orchestrator is settled.
    Recovered {
        /// Which project.
        project: ProjectId,
        /// What was done, one line.
        message: String,
    },
    /// A run has ended.
    RunEnded {
        /// Which project.
        project: ProjectId,
        /// Which run.
        run: RunId,
    },
    /// A run has begun.
    RunStarted {
        /// Which project.
        project: ProjectId,
        /// Which run.
        run: RunId,
    },
    /// A session's process tree has ended.
    SessionEnded {
        /// Which project.
        project: ProjectId,
        /// Which session.
        session: SessionId,
        /// Its task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskNumber>,
        /// How its process ended: `exit 0`, `signal 9`.
        exit: String,
        /// The tokens that its provider counted.
        #[serde(default, skip_serializing_if = "is_nothing")]
        usage: Usage,
        /// What they cost, in millionths of a US dollar, where all prices are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<u64>,
    },
    /// A session's process has started.
    SessionStarted {
        /// Which project.
        project: ProjectId,
        /// Which session.
        session: SessionId,
        /// The name that people can say.
        alias: Alias,
        /// What was asked to run.
        mode: Mode,
        /// Its task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskNumber>,
        /// Its backend.
        backend: BackendName,
        /// The sandbox that it runs in, with the step: `landlock, without namespaces`.
        sandbox: String,
        /// What the policy asks for and this sandbox does not fully enforce, one line each.
        open: Vec<String>,
    },
    /// An attempt or a merge has ended.
    TaskEnded {
        /// Which project.
        project: ProjectId,
        /// Which task.
        task: TaskNumber,
        /// How.
        ending: Ending,
    },
    /// A task has come a step further.
    TaskProgress {
        /// Which project.
        project: ProjectId,
        /// Which task.
        task: TaskNumber,
        /// Which try.
        attempt: Attempt,
        /// The step that begins now.
        step: Step,
        /// More about it: the verify command, the branch.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
}

impl Event {
    /// Its name in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Attention { .. } => "attention",
            Self::Recovered { .. } => "recovered",
            Self::RunEnded { .. } => "run_ended",
            Self::RunStarted { .. } => "run_started",
            Self::SessionEnded { .. } => "session_ended",
            Self::SessionStarted { .. } => "session_started",
            Self::TaskEnded { .. } => "task_ended",
            Self::TaskProgress { .. } => "task_progress",
        }
    }
}

fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// A step on a task's way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Its workspace is opened and its session prepared.
    Starting,
    /// The agent works.
    Running,
    /// The agent's processes are gone; its work is captured.
    Capturing,
    /// Its work waits for its turn to be merged.
    Queued,
    /// Its work is merged in memory.
    Merging,
    /// A verify command runs on the merged tree.
    Verifying,
    /// The target moves.
    Publishing,
}

impl Step {
    /// The word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Capturing => "capturing",
            Self::Queued => "queued",
            Self::Merging => "merging",
            Self::Verifying => "verifying",
            Self::Publishing => "publishing",
        }
    }
}
