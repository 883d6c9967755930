//! The vocabulary of the machine: facts in, steps out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Accepted, Block, Card, CommandId, CommandRecord, Ending, Life, LifeId, LifeState, Limits, Notice,
    Refusal, Request, Run, SessionRef, StopReason,
};
use crate::backend::{Issue, Usage};
use crate::model::{BackendName, ProcessIdentity, Question, TaskNumber, Timestamp};
use crate::store::Fence;
use crate::workspace::{Candidate, Commit, Obstacle};

/// Something that happened. Time is part of every [`step`](super::Schedule::step).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum Fact {
    /// Time passed.
    Tick,
    /// The current limits.
    Limits(Limits),
    /// Number of slots of [`Limits::in_all`] that other projects have, or are due before this one.
    Elsewhere(usize),
    /// All current tasks that are not in the trash.
    Board(Vec<Card>),
    /// The board is as new as [`Command::Look`] asked for, or cannot be read.
    Looked,
    /// A request for this task follows. Nothing else starts it until then, also once it is ready.
    Reserved(TaskNumber),
    /// The request for this task does not follow.
    Released(TaskNumber),
    /// A person or a program makes a request.
    Request {
        /// The caller's id, if it wants the request to be idempotent.
        command: Option<CommandId>,
        /// The request.
        request: Request,
    },
    /// The session of a life is prepared and its process may be started. Answered by [`Step::Permit`].
    Prepared {
        /// The life.
        life: LifeId,
        /// The session.
        session: SessionRef,
        /// The fence of the claim on the task.
        fence: Option<Fence>,
        /// The branch that the work merges into.
        target: Option<String>,
    },
    /// The process of a session exists.
    Running {
        /// The life.
        life: LifeId,
        /// The agent's process.
        agent: ProcessIdentity,
        /// The guardian's process, if known.
        guardian: Option<ProcessIdentity>,
    },
    /// The current issues and questions of a running session.
    Blocks {
        /// The life.
        life: LifeId,
        /// The issue that blocks the agent.
        issue: Option<Issue>,
        /// The open questions.
        questions: Vec<Question>,
    },
    /// The process tree of a session is gone.
    SessionOver {
        /// The life.
        life: LifeId,
        /// Its end.
        end: SessionEnd,
    },
    /// An attempt is over and its work captured, or the attempt could not be made.
    Attempted {
        /// The life.
        life: LifeId,
        /// The result.
        outcome: Outcome,
        /// The tip of the captured work.
        tip: Option<Commit>,
        /// True if the branch has moved since the attempt before.
        progress: bool,
    },
    /// The merge of a life's work begins.
    Merging(LifeId),
    /// A verify command begins on a life's merged tree.
    Verifying {
        /// The life.
        life: LifeId,
        /// The command line.
        command: String,
    },
    /// These candidates are verified and will be published, bottom first. Answered by [`Step::Permit`].
    Publishing(Vec<(LifeId, Candidate)>),
    /// A ticket of the merge queue is finished.
    TicketOver {
        /// The ticket.
        ticket: Ticket,
        /// The results of the lives that have one.
        results: Vec<(LifeId, MergeResult)>,
        /// True if the target moved under the others.
        moved: bool,
    },
    /// The result of another attempt to publish held work. Absent if it is still held.
    HeldTried {
        /// The life.
        life: LifeId,
        /// The result.
        result: Option<MergeResult>,
    },
    /// The work of a stopped life no longer waits for its target. Without an ending, it may still wait there.
    Withdrawn {
        /// The life.
        life: LifeId,
        /// Its ending: merged, if its target has the work already, else stopped.
        ending: Option<Ending>,
    },
    /// The target was asked whether it contains the commit of a publication that a killed orchestrator began.
    Published {
        /// The life.
        life: LifeId,
        /// True if the target contains it.
        contained: bool,
    },
    /// The targets were asked the same, and some contain their part of the candidate.
    HalfPublished {
        /// The life.
        life: LifeId,
        /// The obstacle, which names them.
        by: Obstacle,
    },
    /// Another orchestrator took over the task of a life.
    ClaimLost(LifeId),
    /// Another project of this orchestrator met an issue of a backend, or saw it cleared.
    BackendBlocked {
        /// The backend.
        backend: BackendName,
        /// The issue; absent when it cleared.
        issue: Option<Issue>,
    },
    /// Something that a person should know.
    Noticed(Notice),
}

/// The end of a session's process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionEnd {
    /// The exit status in words: `exit code 0`, `signal 9`; `ended after its claim` if we ended it then.
    pub exit: String,
    /// The tokens that its provider counted.
    #[serde(default)]
    pub usage: Usage,
    /// The cost in millionths of a US dollar, if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

impl SessionEnd {
    /// Returns the end of a session without known costs.
    pub fn new(exit: impl Into<String>) -> Self {
        Self { exit: exit.into(), ..Self::default() }
    }
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum Outcome {
    /// The agent claims success, and the task file says so.
    Claimed,
    /// The attempt failed with this ending.
    Ended(Ending),
    /// The agent claims success, and the task file says so, but its work could not be captured. Nothing merges.
    Uncaptured(Ending),
    /// The agent asked and ended its process, or was ended while it asked.
    Asked(Vec<Question>),
    /// The process ended under an issue that is no fault of the task.
    Limited(Issue),
    /// The session was ended because the orchestrator shuts down, or was lost with the orchestrator before.
    Interrupted,
    /// The orchestrator shuts down before the outcome is known, because the agent's claim cannot be written, or its
    /// processes do not end. The next start determines it, as after a kill.
    Undetermined,
    /// Another orchestrator works on the task.
    Elsewhere,
    /// Trouble of this machine, or of the store, kept the session from starting.
    Trouble {
        /// The stable code of the error.
        code: String,
        /// The error, for people.
        message: String,
    },
}

/// The result of a merge for one life.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum MergeResult {
    /// The life ended.
    Ended(Ending),
    /// An obstacle that a person can clear is in the way.
    Held {
        /// The verified merge, if it got that far.
        candidate: Option<Box<Candidate>>,
        /// The obstacle.
        by: Obstacle,
    },
    /// Published, but a checkout could not be updated.
    Incomplete {
        /// The published merge.
        candidate: Box<Candidate>,
        /// The obstacle.
        by: Obstacle,
    },
    /// The target moved, so the work must be merged again.
    Moved,
    /// The target could not be asked whether it contains the merge. [`Fact::Published`] follows.
    Unknown {
        /// The merge.
        candidate: Box<Candidate>,
    },
}

/// The right to merge some lives into their target now, one on top of the other.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub(crate) struct Ticket {
    /// The lives in order; more than one only where batches are allowed.
    pub lives: Vec<LifeId>,
    /// The target.
    pub target: String,
    /// Number of times that the target has moved under them.
    pub moves: u32,
}

/// One result of a step, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum Step {
    /// Records this change, which is applied already.
    Record(Change),
    /// Carries this out, after the changes before it are recorded.
    Do(Command),
    /// Answers the effect that reported the fact: continue or give up.
    Permit(bool),
    /// Answers the request.
    Reply(Result<Accepted, Refusal>),
}

/// A durable change: an entry of the journal and of the log that subscribers read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// A life changed to this.
    Life(Box<Life>),
    /// A session of a life is over.
    #[non_exhaustive]
    SessionOver {
        /// The life.
        life: LifeId,
        /// The session.
        session: Box<SessionRef>,
        /// Its end.
        end: SessionEnd,
    },
    /// A run changed to this.
    Run(Box<Run>),
    /// A person took back a claim of success that was never merged. If the person marks it as done, it counts as
    /// finished.
    #[non_exhaustive]
    Reopened {
        /// The task.
        task: TaskNumber,
    },
    /// A backend was blocked or unblocked.
    #[non_exhaustive]
    Backend {
        /// The backend.
        backend: BackendName,
        /// The block. Absent when it has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block: Option<Block>,
    },
    /// A request with an id was decided.
    #[non_exhaustive]
    Command {
        /// The id.
        id: CommandId,
        /// The request's digest and outcome.
        record: CommandRecord,
    },
    /// A notice.
    Notice(Notice),
    /// A person stopped all work, or began some again.
    #[non_exhaustive]
    Halted {
        /// True while the automation starts nothing.
        halted: bool,
    },
    /// Records of requests older than this are forgotten.
    #[non_exhaustive]
    CommandsForgotten {
        /// The time.
        before: Timestamp,
    },
}

impl Change {
    /// Returns [`SessionOver`](Self::SessionOver).
    #[must_use]
    pub fn session_over(life: LifeId, session: Box<SessionRef>, end: SessionEnd) -> Self {
        Self::SessionOver { life, session, end }
    }

    /// Returns the session of a life that now runs.
    #[must_use]
    pub fn running(&self) -> Option<&SessionRef> {
        match self {
            Self::Life(life) if life.state == LifeState::Running => life.session.as_ref(),
            _ => None,
        }
    }
}

/// One line for people.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Life(life) => write!(f, "{}: {}", life.subject, life.state),
            Self::SessionOver { session, end, .. } => write!(f, "session {}: {}", session.id, end.exit),
            Self::Run(run) if run.ended.is_some() => write!(f, "run {}: ended", run.id),
            Self::Run(run) if run.stopped => write!(f, "run {}: stopped", run.id),
            Self::Run(run) => write!(f, "run {}: under way", run.id),
            Self::Reopened { task } => write!(f, "task #{task}: set back by a person"),
            Self::Backend { backend, block: Some(block) } => {
                write!(f, "{backend}: blocked: {}", block.issue.message)
            }
            Self::Backend { backend, block: None } => write!(f, "{backend}: no longer blocked"),
            Self::Command { id, .. } => write!(f, "request {}: decided", id.as_str()),
            Self::Notice(notice) => f.write_str(&notice.message),
            Self::Halted { halted: true } => {
                f.write_str("nothing starts by itself until a person starts something")
            }
            Self::Halted { halted: false } => f.write_str("ready tasks start by themselves again"),
            Self::CommandsForgotten { before } => write!(f, "requests before {before}: forgotten"),
        }
    }
}

/// A command for an effect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum Command {
    /// Make an attempt: claim, open, start, watch, capture.
    Start(LifeId),
    /// Read the tasks once more: a run of all tasks seems to be over, and some may have been added that no board shows yet.
    Look,
    /// End the session of a life, or its start.
    End(LifeId, StopReason),
    /// Merge, verify and publish a ticket.
    Merge(Ticket),
    /// Give up a merge before it is published.
    CancelMerge(LifeId),
    /// Try to publish held work again, in this order.
    TryHeld(Vec<LifeId>),
    /// Take the work of a stopped life out of what waits for its target.
    Withdraw(LifeId),
    /// Deliver an answer to the running session of a life.
    Deliver(LifeId, String),
    /// Ask the running session of a life to continue.
    Continue(LifeId),
    /// Release everything that is held for a life: its claim, and after a merge its branch.
    Release(Box<Life>),
}
