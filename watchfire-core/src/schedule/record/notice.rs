//! Notices: messages for a person that no life's state contains.

use serde::{Deserialize, Serialize};

use crate::model::TaskNumber;
use crate::schedule::LifeId;

/// A message for a person. It changes no life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notice {
    /// The stable code.
    pub code: NoticeCode,
    /// The task concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskNumber>,
    /// The life concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<LifeId>,
    /// One line for people.
    pub message: String,
}

impl Notice {
    /// Returns a notice about the project as a whole.
    pub fn new(code: NoticeCode, message: impl Into<String>) -> Self {
        Self { code, task: None, life: None, message: message.into() }
    }

    /// Names the task concerned.
    #[must_use]
    pub(crate) fn with_task(mut self, task: Option<TaskNumber>) -> Self {
        self.task = task;
        self
    }
}

/// Stable codes of notices.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum NoticeCode {
    /// A file of a person or an agent cannot be read.
    Malformed,
    /// A key of a file changes nothing.
    UnknownKey,
    /// Leftovers of a killed orchestrator were repaired.
    Recovered,
    /// A clean-up failed.
    Cleanup,
    /// A session ran differently from the request.
    Session,
    /// The sandbox refused something to an agent.
    SandboxDenied,
    /// A budget is nearly or wholly used up, or cannot hold.
    Budget,
    /// Nothing is heard of an agent, and nothing shows that it works.
    Stalled,
    /// Work that is to be merged changes files that tools run by themselves.
    ToolFiles,
    /// Work was kept under a rescue ref or on its branch.
    WorkKept,
    /// Writing to the store or the journal failed.
    Store,
    /// Trouble of this machine pauses new sessions.
    Trouble,
    /// An agent wrote something that its session may not change.
    Refused,
    /// Anything else about a workspace.
    Workspace,
}

impl NoticeCode {
    /// Returns the word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::Recovered => "recovered",
            Self::Cleanup => "cleanup",
            Self::Session => "session",
            Self::SandboxDenied => "sandbox_denied",
            Self::Budget => "budget",
            Self::Stalled => "stalled",
            Self::ToolFiles => "tool_files",
            Self::WorkKept => "work_kept",
            Self::Store => "store",
            Self::Trouble => "trouble",
            Self::Refused => "refused",
            Self::Workspace => "workspace",
        }
    }
}
