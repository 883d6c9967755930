//! Requests of people and programs.

use serde::{Deserialize, Serialize};

use super::CallerEnvironment;
use crate::model::{BackendName, Mode, Question, TaskNumber};
use crate::schedule::{Accept, LifeId, RunId, RunOptions, Scope, StopReason};
use crate::{Error, ErrorKind, Result};

/// Id of a request, chosen by its caller, so that repeating the request has no second effect.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandId(Box<str>);

/// Upper bound for an id, in bytes.
const LONGEST: usize = 64;

impl CommandId {
    /// Checks `text`.
    ///
    /// # Errors
    /// `invalid_input` for an empty text or one of more than 64 bytes.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self> {
        let text = text.into();
        if (1..=LONGEST).contains(&text.len()) {
            return Ok(Self(text));
        }
        Err(Error::new(ErrorKind::InvalidInput, "a command id has 1 to 64 bytes").with("bytes", text.len()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CommandId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<CommandId> for String {
    fn from(id: CommandId) -> Self {
        id.0.into()
    }
}

/// A request. The dispatcher answers it once it is decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "request")]
pub enum Request {
    /// Run tasks.
    #[non_exhaustive]
    Run {
        /// The tasks.
        scope: Scope,
        /// The overrides.
        options: RunOptions,
    },
    /// Start a chat.
    #[non_exhaustive]
    Chat {
        /// The overrides.
        options: RunOptions,
    },
    /// Let an agent propose the definition of the project, or tasks.
    #[non_exhaustive]
    Generate {
        /// `generate-definition` or `generate-tasks`.
        mode: Mode,
        /// The overrides; `merge` has no effect.
        options: RunOptions,
    },
    /// Merge the finished work of a task, also where `auto_merge` is off.
    #[non_exhaustive]
    Merge {
        /// The task.
        task: TaskNumber,
        /// The branch that it merges into.
        target: String,
        /// The obstacles that do not hold it.
        #[serde(flatten)]
        accept: Accept,
    },
    /// Stop a run. Its lives are stopped unless another run covers them, or their work is held.
    #[non_exhaustive]
    StopRun {
        /// The run.
        run: RunId,
    },
    /// Stop all work of the project but finished work on its way to its target. Then nothing starts by itself until a
    /// person runs or resumes something.
    StopAll,
    /// Stop one life.
    #[non_exhaustive]
    StopLife {
        /// The life.
        life: LifeId,
        /// The reason.
        reason: StopReason,
    },
    /// Continue lives that wait for a person.
    #[non_exhaustive]
    Resume {
        /// The lives.
        target: ResumeTarget,
    },
    /// Give the next sessions of a life the variables of the caller.
    #[non_exhaustive]
    Equip {
        /// The life.
        life: LifeId,
        /// The variables.
        environment: CallerEnvironment,
    },
    /// Answer a question of an agent.
    #[non_exhaustive]
    Answer {
        /// The life that asks.
        life: LifeId,
        /// The id of the question.
        question: String,
        /// The words of the question, where they are known: an agent may ask another one by its id meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<String>,
        /// The answer.
        text: String,
    },
    /// Suspend everything and close the project.
    Close,
}

impl Request {
    /// Returns [`StopLife`](Self::StopLife).
    #[must_use]
    pub fn stop_life(life: LifeId, reason: StopReason) -> Self {
        Self::StopLife { life, reason }
    }

    /// Returns [`Chat`](Self::Chat).
    #[must_use]
    pub fn chat(options: RunOptions) -> Self {
        Self::Chat { options }
    }

    /// Returns [`Answer`](Self::Answer).
    #[must_use]
    pub fn answer(life: LifeId, question: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Answer { life, question: question.into(), asked: None, text: text.into() }
    }

    /// Returns [`Answer`](Self::Answer) to this very question, and to no other that has its id by then. A question without
    /// words stands for any of its id.
    #[must_use]
    pub fn answer_to(life: LifeId, question: &Question, text: impl Into<String>) -> Self {
        let asked = Some(&question.question).filter(|words| !words.is_empty()).cloned();
        Self::Answer { life, question: question.id.clone(), asked, text: text.into() }
    }

    /// Returns [`Run`](Self::Run).
    #[must_use]
    pub fn run(scope: Scope, options: RunOptions) -> Self {
        Self::Run { scope, options }
    }

    /// Returns [`Resume`](Self::Resume).
    #[must_use]
    pub fn resume(target: ResumeTarget) -> Self {
        Self::Resume { target }
    }
}

/// The lives that a request resumes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum ResumeTarget {
    /// One life.
    Life(LifeId),
    /// All lives of a backend, which is unblocked.
    Backend(BackendName),
    /// Every life that was interrupted, or waits for a limit or a login. All backends are unblocked.
    All,
}

/// A request that was accepted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accepted {
    /// The run that it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The life that it began or concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<LifeId>,
}

/// A request that was refused.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code.
    pub code: String,
    /// The reason, for people.
    pub message: String,
}

impl Refusal {
    pub(in crate::schedule) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { code: kind.code().to_owned(), message: message.into() }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::from_code(&refusal.code, refusal.message)
    }
}
