//! A life and its states.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::session::{Answer, SessionRef};
use crate::backend::{Issue, IssueKind};
use crate::model::{Alias, Attempt, BackendName, Mode, Phase, Question, TaskNumber, Timestamp};
use crate::schedule::{Ending, RunId, RunOptions, StopReason};
use crate::store::Fence;
use crate::workspace::{Candidate, Commit, Obstacle, ObstacleKind};

/// Identifies a life within its project's journal. Grows, and is never used twice.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LifeId(pub u64);

impl fmt::Display for LifeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One request for one subject, from the request to its ending.
///
/// A life holds its attempts, at most one of them alive, and ends once. A new request for the same subject is a new
/// life that names the one before. A change of any field is a [`Change`](crate::schedule::Change) in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Life {
    /// Its id.
    pub id: LifeId,
    /// The subject of the work.
    pub subject: Subject,
    /// The run that owns it. Absent if a person or the automation requested it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The overrides of its request.
    #[serde(default)]
    pub options: RunOptions,
    /// The life before it on the same subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<LifeId>,
    /// Time of the request.
    pub began: Timestamp,
    /// Time at which it entered its state.
    pub since: Timestamp,
    /// The attempt, counted over all lives of the subject; 0 before the first.
    pub attempt: Attempt,
    /// Number of attempts that may still follow a failed one.
    #[serde(default)]
    pub retries_left: u32,
    /// Number of starts in a row without progress.
    #[serde(default)]
    pub fruitless: u32,
    /// Its session, from before the process exists until the process tree is gone and its work captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionRef>,
    /// The name for people of its sessions, from the first one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// The backend of its latest session, or the one that was looked for in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
    /// The fence of its claim on the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// The branch that its work merges into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The tip of its captured work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<Commit>,
    /// True once the task file carries an agent's claim of success that is not merged yet.
    #[serde(default)]
    pub claimed: bool,
    /// A stop that was accepted. It stays until the life has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// The ending of the attempt before, for the next prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setback: Option<Ending>,
    /// Answers to the agent's questions, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// Its state.
    #[serde(flatten)]
    pub state: LifeState,
}

/// Subject of a life.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "subject")]
pub enum Subject {
    /// A task.
    #[non_exhaustive]
    Task {
        /// Its number.
        task: TaskNumber,
    },
    /// A conversation in the project root.
    Chat,
    /// A step of wildfire: a draft is made ready.
    #[non_exhaustive]
    Refine {
        /// The number of the draft.
        draft: TaskNumber,
    },
    /// A step of wildfire: the work that remains is written as tasks.
    Generate,
    /// The definition of the project is proposed.
    GenerateDefinition,
    /// Tasks are proposed.
    GenerateTasks,
}

impl Subject {
    /// Returns [`Task`](Self::Task).
    #[must_use]
    pub fn of_task(task: TaskNumber) -> Self {
        Self::Task { task }
    }

    /// Returns [`Refine`](Self::Refine).
    #[must_use]
    pub fn refine(draft: TaskNumber) -> Self {
        Self::Refine { draft }
    }

    /// Returns the task, if it is one.
    #[must_use]
    pub fn task(self) -> Option<TaskNumber> {
        match self {
            Self::Task { task } => Some(task),
            _ => None,
        }
    }

    /// Returns the task that it is about: the one that it works on, or the draft that it refines.
    #[must_use]
    pub fn about(self) -> Option<TaskNumber> {
        match self {
            Self::Refine { draft } => Some(draft),
            other => other.task(),
        }
    }

    /// Returns the phase of wildfire, for a step that works on no task.
    #[must_use]
    pub fn phase(self) -> Option<Phase> {
        match self {
            Self::Refine { .. } => Some(Phase::Refine),
            Self::Generate => Some(Phase::Generate),
            _ => None,
        }
    }

    /// Returns true for work without a task and without a conversation: its agent reads the checkout and
    /// writes drafts or a definition into its session's folder.
    pub(crate) fn is_step(self) -> bool {
        !matches!(self, Self::Task { .. } | Self::Chat)
    }

    /// Returns true if a person has to accept its result.
    pub(crate) fn is_proposal(self) -> bool {
        matches!(self, Self::GenerateDefinition | Self::GenerateTasks)
    }

    /// Returns the mode of its sessions.
    #[must_use]
    pub fn mode(self) -> Mode {
        match self {
            Self::Task { .. } => Mode::Task,
            Self::Chat => Mode::Chat,
            Self::Refine { .. } | Self::Generate => Mode::Wildfire,
            Self::GenerateDefinition => Mode::GenerateDefinition,
            Self::GenerateTasks => Mode::GenerateTasks,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task { task } => write!(f, "task #{task}"),
            Self::Chat => f.write_str("chat"),
            Self::Refine { draft } => write!(f, "refine #{draft}"),
            Self::Generate => f.write_str("generate"),
            Self::GenerateDefinition => f.write_str("generate definition"),
            Self::GenerateTasks => f.write_str("generate tasks"),
        }
    }
}

/// The state of a life, in the order in which a task goes through them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum LifeState {
    /// It waits for its turn.
    #[non_exhaustive]
    Waiting {
        /// The reason.
        on: Wait,
    },
    /// Its workspace is opened and its session prepared.
    Starting,
    /// The agent works.
    Running,
    /// The agent waits for answers. It holds no slot.
    #[non_exhaustive]
    Asking {
        /// The open questions.
        questions: Vec<Question>,
    },
    /// An issue blocks the agent. It holds no slot.
    #[non_exhaustive]
    Limited {
        /// The issue, with its end if that is known.
        issue: Issue,
        /// Time at which the agent goes on by itself. `None` if it waits for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// Its process tree is being ended.
    Ending,
    /// Its process tree is gone; its work is captured.
    Capturing,
    /// Its work waits in the merge queue of its target.
    Queued,
    /// Its work is merged in memory.
    Merging,
    /// A verify command runs on the merged tree.
    #[non_exhaustive]
    Verifying {
        /// The command line.
        command: String,
    },
    /// The target may move at any moment from now on.
    #[non_exhaustive]
    Publishing {
        /// The verified merge.
        candidate: Box<Candidate>,
    },
    /// An obstacle that a person can clear keeps the work from being merged or published. Tried again periodically.
    #[non_exhaustive]
    Held {
        /// The verified merge, if it got that far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        candidate: Option<Box<Candidate>>,
        /// The obstacle.
        by: Obstacle,
    },
    /// Published, but a checkout of the target could not be updated. Tried again periodically, and can no longer be
    /// stopped.
    #[non_exhaustive]
    Incomplete {
        /// The published merge.
        candidate: Box<Candidate>,
        /// The obstacle.
        by: Obstacle,
    },
    /// The life has ended.
    #[non_exhaustive]
    Ended {
        /// The ending.
        how: Ending,
    },
}

impl LifeState {
    /// Returns [`Waiting`](Self::Waiting).
    #[must_use]
    pub fn waiting(on: Wait) -> Self {
        Self::Waiting { on }
    }

    /// Returns [`Verifying`](Self::Verifying).
    #[must_use]
    pub fn verifying(command: impl Into<String>) -> Self {
        Self::Verifying { command: command.into() }
    }

    /// Returns [`Ended`](Self::Ended).
    #[must_use]
    pub fn ended(how: Ending) -> Self {
        Self::Ended { how }
    }

    /// Returns [`Asking`](Self::Asking).
    #[must_use]
    pub fn asking(questions: Vec<Question>) -> Self {
        Self::Asking { questions }
    }

    /// Returns the stable word for this state.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Asking { .. } => "asking",
            Self::Limited { .. } => "limited",
            Self::Ending => "ending",
            Self::Capturing => "capturing",
            Self::Queued => "queued",
            Self::Merging => "merging",
            Self::Verifying { .. } => "verifying",
            Self::Publishing { .. } => "publishing",
            Self::Held { .. } => "held",
            Self::Incomplete { .. } => "incomplete",
            // People ask how it ended, not whether: `merged`, `failed`, `stopped`.
            Self::Ended { how } => how.word(),
        }
    }

    /// Returns true if its publication is tried again periodically.
    pub(in crate::schedule) fn is_held(&self) -> bool {
        matches!(self, Self::Held { candidate: Some(_), .. } | Self::Incomplete { .. })
    }

    /// Returns true if trouble of this machine keeps it from being merged, which passes by itself.
    pub(in crate::schedule) fn is_in_trouble(&self) -> bool {
        matches!(self, Self::Held { candidate: None, by } if by.kind == ObstacleKind::OutOfSpace)
    }

    /// Returns true if its agent is missing.
    pub(in crate::schedule) fn lacks_agent(&self) -> bool {
        matches!(self, Self::Limited { issue, .. } if issue.kind == IssueKind::AgentMissing)
    }

    /// Returns true if it waits for variables that a restart has lost.
    pub(in crate::schedule) fn lacks_variables(&self) -> bool {
        match self {
            Self::Limited { issue, .. } => issue.kind == IssueKind::VariablesGone,
            Self::Held { by, .. } => by.kind == ObstacleKind::VariablesGone,
            _ => false,
        }
    }

    /// Returns a detail for people: the obstacle, the command, the question.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Waiting { on } => Some(on.to_string()),
            Self::Asking { questions } => {
                let questions: Vec<_> = questions.iter().map(|asked| asked.question.as_str()).collect();
                Some(questions.join(" / "))
            }
            Self::Limited { issue, .. } => Some(match &issue.reset_at {
                Some(until) => format!("{} (until {})", issue.message, until.local()),
                None => issue.message.clone(),
            }),
            Self::Verifying { command } => Some(command.clone()),
            Self::Held { by, .. } | Self::Incomplete { by, .. } => Some(by.to_string()),
            Self::Ended { how } => how.reason().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }
}

impl fmt::Display for LifeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.detail().map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

/// Reason for which a task or a life waits.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "wait")]
pub enum Wait {
    /// A free slot.
    Turn,
    /// A free slot, of those that all projects share.
    OtherProjects,
    /// Tasks that are not merged, or do not exist.
    #[non_exhaustive]
    DependsOn {
        /// Their numbers.
        tasks: Vec<TaskNumber>,
    },
    /// An issue of its backend.
    #[non_exhaustive]
    Backend {
        /// The backend.
        backend: BackendName,
        /// The time at which the issue ends, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// The pause before another attempt.
    #[non_exhaustive]
    Retry {
        /// The end of the pause.
        until: Timestamp,
    },
    /// Another orchestrator, which holds the claim on its task.
    #[non_exhaustive]
    Elsewhere {
        /// Time of the next attempt to take the claim.
        until: Timestamp,
    },
    /// A request to resume it, because the orchestrator ended while it was under way.
    Resume,
    /// Trouble of this machine, which is no fault of the task.
    #[non_exhaustive]
    Trouble {
        /// The stable code of the error.
        code: String,
        /// The error, for people.
        message: String,
        /// Time of the next attempt.
        until: Timestamp,
    },
    /// Another run, because the one that covered it has ended.
    Run,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("for a free slot"),
            Self::OtherProjects => f.write_str(
                "for a free slot; the others are taken by other projects (`max_parallel` in settings.yaml)",
            ),
            Self::DependsOn { tasks } => {
                let tasks: Vec<_> = tasks.iter().map(|task| format!("#{task}")).collect();
                write!(f, "depends on {}", tasks.join(", "))
            }
            Self::Backend { backend, until: None } => write!(f, "{backend} is blocked"),
            Self::Backend { backend, until: Some(until) } => {
                write!(f, "{backend} is blocked until {}", until.local())
            }
            Self::Retry { until } => write!(f, "for another attempt at {}", until.local()),
            Self::Elsewhere { until } => {
                write!(f, "another orchestrator works on it; next look at {}", until.local())
            }
            Self::Resume => f.write_str("to be resumed"),
            Self::Trouble { message, until, .. } => {
                write!(f, "{message}; next attempt at {}", until.local())
            }
            Self::Run => f.write_str("the run ended before its turn"),
        }
    }
}

impl Life {
    /// Returns a life that waits for its turn.
    #[must_use]
    pub fn new(id: LifeId, subject: Subject, now: Timestamp) -> Self {
        Self {
            id,
            subject,
            run: None,
            options: RunOptions::default(),
            before: None,
            began: now.clone(),
            since: now,
            // Counted at each start, so a life that never started has made none.
            attempt: Attempt(0),
            retries_left: 0,
            fruitless: 0,
            session: None,
            alias: None,
            backend: None,
            fence: None,
            target: None,
            tip: None,
            claimed: false,
            stop: None,
            setback: None,
            answers: Vec::new(),
            state: LifeState::Waiting { on: Wait::Turn },
        }
    }

    /// Returns true if it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, LifeState::Ended { .. })
    }

    /// Returns its ending, if it has ended.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        match &self.state {
            LifeState::Ended { how } => Some(how),
            _ => None,
        }
    }

    /// Returns true if it holds one of the slots that [`Limits::parallel`](crate::schedule::Limits::parallel) counts.
    pub(in crate::schedule) fn holds_slot(&self) -> bool {
        // A chat is the person's own, and takes no place from tasks.
        self.subject != Subject::Chat
            && matches!(
                self.state,
                LifeState::Starting | LifeState::Running | LifeState::Ending | LifeState::Capturing
            )
    }

    /// Returns true if an attempt is under way: a session is being started, at work or ended, or its work captured.
    pub(in crate::schedule) fn has_attempt(&self) -> bool {
        match self.state {
            LifeState::Starting | LifeState::Running | LifeState::Ending | LifeState::Capturing => true,
            // Once its session was put aside or lost, no effect is at work on such a life.
            LifeState::Asking { .. } | LifeState::Limited { .. } => self.session.is_some(),
            _ => false,
        }
    }

    /// Returns true if its agent's work is done, and on its way to the target.
    pub(in crate::schedule) fn is_finished(&self) -> bool {
        matches!(
            self.state,
            LifeState::Queued | LifeState::Merging | LifeState::Verifying { .. } | LifeState::Held { .. }
        )
    }

    /// Returns true if its work may wait for its target, or be in it.
    #[cfg(feature = "orchestrator")]
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.is_finished()
            || matches!(self.state, LifeState::Publishing { .. } | LifeState::Incomplete { .. })
    }

    /// Returns true if a stop has ended the way of its work to the target.
    pub(in crate::schedule) fn is_to_be_withdrawn(&self) -> bool {
        self.is_finished() && self.stop.is_some_and(|by| by != StopReason::DoneByHand)
    }

    /// Returns the latest answer to the question `id`.
    #[must_use]
    pub fn answer(&self, id: &str) -> Option<&Answer> {
        self.answers.iter().rev().find(|answer| answer.id == id)
    }

    /// Returns true if nothing moves until a person does something.
    #[must_use]
    pub fn waits_for_person(&self) -> bool {
        match &self.state {
            // First, because this work is `Held` too, but is tried again without a person.
            state if state.is_in_trouble() => false,
            LifeState::Asking { .. }
            | LifeState::Held { .. }
            | LifeState::Incomplete { .. }
            | LifeState::Waiting { on: Wait::Resume } => true,
            LifeState::Limited { until, .. } => until.is_none(),
            _ => false,
        }
    }
}
