//! The vocabulary of the journal.

use serde::{Deserialize, Serialize};

use crate::model::{Attempt, BackendName, Mode, Phase, ProcessIdentity, SessionId, TaskNumber, Timestamp};
use crate::schedule::{Ending, RunId};
use crate::store::Fence;
use crate::workspace::{Commit, WorkspaceKey};

/// One line of the journal. What a reader does not know is an error, never skipped: it may be what matters.
///
/// ```
/// # use watchfire_core::journal::Entry;
/// let json = r#"{"entry":"task_state","task":1,"attempt":2,"state":"capturing"}"#;
/// let entry: Entry = serde_json::from_str(json)?;
/// assert_eq!(serde_json::to_string(&entry)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// A session is about to start: from here on its process may exist.
    SessionStarting {
        /// Which session.
        session: SessionId,
        /// The work it is for; none for one in the project root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<WorkspaceKey>,
        /// Which try.
        attempt: Attempt,
        /// What the user asked to run.
        mode: Mode,
        /// The step of wildfire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<Phase>,
        /// The agent.
        backend: BackendName,
        /// What it takes to start it again in the same way, in the words of whoever starts sessions.
        recipe: serde_json::Value,
    },
    /// Its process exists.
    SessionStarted {
        /// Which session.
        session: SessionId,
        /// Which process.
        identity: ProcessIdentity,
    },
    /// Its process tree is gone.
    SessionEnded {
        /// Which session.
        session: SessionId,
        /// The exit status of the agent, where it is known; signals as 128 plus their number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
        /// What it came to, in a word.
        outcome: String,
    },
    /// An effect is about to be tried.
    Intent {
        /// Which one; unique within the journal.
        id: IntentId,
        /// What.
        step: Step,
    },
    /// An effect is over.
    Outcome {
        /// Which one.
        id: IntentId,
        /// How.
        result: StepResult,
    },
    /// Where a task stands, beyond the words of its file.
    TaskState {
        /// Which task.
        task: TaskNumber,
        /// Which try.
        attempt: Attempt,
        /// Where it stands.
        #[serde(flatten)]
        state: TaskState,
    },
    /// We hold a task.
    Claimed {
        /// Which task.
        task: TaskNumber,
        /// Under which token.
        fence: Fence,
    },
    /// What a request to run goes on with when a session ends.
    Chain {
        /// Which request.
        run: RunId,
        /// What it runs; none: it is over.
        chain: Option<ChainRecord>,
    },
    /// How often something started in a row without progress.
    Restarts {
        /// What: a task number, `refine`, `generate`.
        subject: String,
        /// How often; 0 forgets it.
        count: u32,
    },
    /// Everything was ended in order.
    Shutdown,
}

/// Names an intent; unique within the journal.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntentId(pub u64);

/// Where in the journal an append is: grows by one with each.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

/// An effect on the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Step {
    /// Give an agent its folder.
    Open {
        /// Which work.
        key: WorkspaceKey,
        /// Which try.
        attempt: Attempt,
        /// The branch to merge into; none: the one checked out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        /// Start again from the target.
        fresh: bool,
    },
    /// Commit what an agent left.
    Capture {
        /// Which work.
        key: WorkspaceKey,
        /// Which try.
        attempt: Attempt,
    },
    /// Merge in memory.
    Prepare {
        /// Which work.
        key: WorkspaceKey,
        /// Which try.
        attempt: Attempt,
        /// The branch to merge into.
        target: String,
    },
    /// Run the verify commands on the merged tree.
    Verify {
        /// Which work.
        key: WorkspaceKey,
        /// Which try.
        attempt: Attempt,
        /// The merged commit.
        commit: Commit,
    },
    /// Move the target.
    Publish {
        /// Which task.
        task: TaskNumber,
        /// Which try.
        attempt: Attempt,
        /// The branch to move.
        target: String,
        /// Where it was; none: it did not exist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<Commit>,
        /// Where it goes.
        commit: Commit,
    },
    /// Remove folder and branch.
    Remove {
        /// Which work.
        key: WorkspaceKey,
        /// Also what is not merged, after a rescue.
        discard: bool,
    },
    /// Put work under a rescue ref.
    Rescue {
        /// Which work.
        key: WorkspaceKey,
        /// Which try.
        attempt: Attempt,
    },
    /// Write into a task's file what happened.
    Stamp {
        /// Which task.
        task: TaskNumber,
        /// Which try.
        attempt: Attempt,
        /// The fields and their values; writing them twice changes nothing.
        fields: serde_json::Value,
    },
}

impl Step {
    /// The task it is about.
    #[must_use]
    pub fn task(&self) -> TaskNumber {
        match self {
            Self::Open { key, .. }
            | Self::Capture { key, .. }
            | Self::Prepare { key, .. }
            | Self::Verify { key, .. }
            | Self::Remove { key, .. }
            | Self::Rescue { key, .. } => key.task,
            Self::Publish { task, .. } | Self::Stamp { task, .. } => *task,
        }
    }
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum StepResult {
    /// It happened.
    Done,
    /// It did not happen.
    Failed {
        /// The stable code of the error.
        code: String,
        /// What it said.
        message: String,
    },
    /// A later start found it open, and that it did not happen or no longer matters.
    Abandoned,
}

/// Where a task stands between ready and done, and how it came to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum TaskState {
    /// It waits for its turn.
    Queued,
    /// An agent works on it.
    Running,
    /// What the agent left is being committed.
    Capturing,
    /// The merged tree is being verified.
    Verifying,
    /// It is being merged.
    Merging,
    /// It is set aside.
    Parked {
        /// Why.
        reason: String,
        /// Until when, if a time is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// It came to an end: merged, failed, crashed, timed out, conflict, held, and so on.
    Ended {
        /// How.
        ending: Ending,
    },
}

/// A request to run, as it must survive a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChainRecord {
    /// What was asked to run.
    pub mode: Mode,
    /// The step of wildfire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The only task, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskNumber>,
    /// The sandbox asked for, for every session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The backend asked for, for every session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
}

impl ChainRecord {
    /// A request without overrides.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, phase: None, task: None, sandbox: None, backend: None }
    }
}
