//! An inquiry and its parties, as they are on disk.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Alias, SessionId, TaskNumber, Timestamp};
use crate::{Error, ErrorKind, Result};

/// One side of an inquiry.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Party {
    /// The person who owns the project.
    Person,
    /// The agent of a session.
    #[non_exhaustive]
    Session {
        /// Its session.
        session: SessionId,
        /// Its alias, which a task keeps over its attempts.
        alias: Alias,
        /// Its task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskNumber>,
    },
}

impl Party {
    /// Returns its session; `None` for the person.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Person => None,
            Self::Session { session, .. } => Some(session),
        }
    }

    /// Returns its task, if it has one.
    #[must_use]
    pub fn task(&self) -> Option<TaskNumber> {
        match self {
            Self::Person => None,
            Self::Session { task, .. } => *task,
        }
    }

    /// Returns its alias, if it is a session.
    #[cfg(feature = "orchestrator")]
    pub(crate) fn alias(&self) -> Option<&Alias> {
        match self {
            Self::Person => None,
            Self::Session { alias, .. } => Some(alias),
        }
    }

    /// Returns true if `later` goes on where this one was: with the same task, under the same alias.
    pub(super) fn goes_on_as(&self, later: &Self) -> bool {
        match (self, later) {
            (
                Self::Session { alias, task: Some(task), .. },
                Self::Session { alias: other, task: Some(later), .. },
            ) => alias == other && task == later,
            _ => self == later,
        }
    }
}

impl fmt::Display for Party {
    /// Writes `the person`, or the alias and task, such as `brave-otter (task #0001)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person => f.write_str("the person"),
            Self::Session { alias, task: None, .. } => write!(f, "{alias}"),
            Self::Session { alias, task: Some(task), .. } => write!(f, "{alias} (task #{task})"),
        }
    }
}

/// A question of one session to another, or of the person to a session.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Inquiry {
    /// Id, unique within the project, such as `q7-1f3a`.
    pub id: String,
    /// Place in the order of all inquiries of the project.
    pub number: u64,
    /// The one that asks.
    pub from: Party,
    /// The one that is asked.
    pub to: Party,
    /// The question.
    pub text: String,
    /// Time at which it was asked.
    pub asked_at: Timestamp,
    /// Time up to which it can be answered.
    pub deadline: Timestamp,
    /// Current state.
    pub state: InquiryState,
    /// Id of the call that made it. The same call again makes no second one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<String>,
    /// True once the one that is asked was given the text.
    #[serde(default)]
    pub(super) shown: bool,
    /// True once the one that asks was given the end.
    #[serde(default)]
    pub(super) told: bool,
}

impl Inquiry {
    /// Returns true while it can be answered.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state == InquiryState::Pending
    }
}

/// State of an inquiry.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InquiryState {
    /// It waits for an answer.
    Pending,
    /// It was answered.
    #[non_exhaustive]
    Answered {
        /// The answer.
        text: String,
        /// True if the person answered in place of the one that was asked.
        #[serde(default)]
        by_person: bool,
        /// What the one that was asked says of the request.
        #[serde(default)]
        status: AnswerStatus,
    },
    /// Its deadline has passed.
    Expired,
    /// The session that was asked has ended.
    TargetOff,
    /// The one that asked has ended, or no longer waits.
    Withdrawn,
}

/// What became of a request, in the words of the one that was asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerStatus {
    /// It was done, or the question is answered.
    #[default]
    Done,
    /// It cannot be done now: something is missing.
    Blocked,
    /// It was tried, and failed.
    Failed,
}

impl AnswerStatus {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
        }
    }
}

impl std::str::FromStr for AnswerStatus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Done, Self::Blocked, Self::Failed];
        all.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidInput,
                "unknown status of an answer, expected done, blocked or failed",
            )
            .with("status", format_args!("{text:?}"))
        })
    }
}

impl InquiryState {
    /// Returns [`Answered`](Self::Answered).
    #[must_use]
    pub fn answered(text: impl Into<String>, by_person: bool, status: AnswerStatus) -> Self {
        Self::Answered { text: text.into(), by_person, status }
    }

    /// Returns the word for it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered { .. } => "answered",
            Self::Expired => "expired",
            Self::TargetOff => "target_off",
            Self::Withdrawn => "withdrawn",
        }
    }
}
