//! What is known about an agent, and how we know it.

use serde::{Deserialize, Serialize};

use crate::model::Timestamp;

/// Something seen of an agent that its backend may understand.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// A message of its protocol or a line of its structured stream.
    Protocol(&'a str),
    /// The payload of one of its hooks: the agent's claim.
    Hook {
        /// The event, as configured.
        event: &'a str,
        /// What it sent.
        payload: &'a str,
        /// The vendor's session id, where it is known by now: some vendors run hooks for sessions of their own, too.
        session: Option<&'a str>,
    },
    /// A line of its transcript.
    Transcript(&'a str),
    /// Its window title.
    Title(&'a str),
    /// The text of its screen, after it has been quiet for a moment, or once a second while it is not: some agents
    /// never stop to draw.
    Screen(&'a str),
}

impl Observation<'_> {
    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> Source {
        match self {
            Self::Protocol(_) => Source::Protocol,
            Self::Hook { .. } => Source::Hook,
            Self::Transcript(_) => Source::Transcript,
            Self::Title(_) => Source::Osc,
            Self::Screen(_) => Source::Screen,
        }
    }
}

/// How we know something, weakest first. A weaker source never overrides a stronger one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Read off the rendered screen.
    Screen,
    /// An operating system command, such as the window title.
    Osc,
    /// Its transcript.
    Transcript,
    /// A hook of the agent, at the moment when it happens: its claim.
    Hook,
    /// Its protocol.
    Protocol,
    /// The process itself.
    Process,
}

/// Something that a backend understood.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// What the agent is doing.
    Status(Status),
    /// A turn ended, whatever the status says. Agents that do not say so show it by a status that goes from
    /// [`Processing`](Status::Processing) to [`Idle`](Status::Idle).
    TurnCompleted,
    /// The vendor's session id.
    VendorSession(String),
    /// Something blocks it.
    Issue(Issue),
    /// What blocked it is gone.
    IssueCleared(IssueKind),
}

/// What an agent is doing: the normalised vocabulary of the wire.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for an answer that only a person can give.
    ActionRequired,
    /// It failed.
    Error,
    /// It waits for input.
    Idle,
    /// No process.
    Off,
    /// It works.
    Processing,
    /// It was started and has not shown itself ready.
    Starting,
    /// Can't tell. Never means dead.
    #[default]
    Unknown,
}

impl Status {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActionRequired => "action_required",
            Self::Error => "error",
            Self::Idle => "idle",
            Self::Off => "off",
            Self::Processing => "processing",
            Self::Starting => "starting",
            Self::Unknown => "unknown",
        }
    }
}

/// A condition that blocks an agent and that a person or a timer must clear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Issue {
    /// Which condition.
    pub kind: IssueKind,
    /// The agent's or the provider's own words.
    pub message: String,
    /// When the provider says that it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
}

impl Issue {
    /// An issue in the provider's own words.
    #[must_use]
    pub fn new(kind: IssueKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), reset_at: None }
    }

    /// Adds when it ends.
    #[must_use]
    pub fn with_reset_at(mut self, reset_at: Timestamp) -> Self {
        self.reset_at = Some(reset_at);
        self
    }
}

/// What blocks an agent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum IssueKind {
    /// A login is needed.
    AuthRequired,
    /// The account has no money left.
    OutOfCredit,
    /// The provider is overloaded.
    Overloaded,
    /// Too many requests.
    RateLimited,
    /// The sandbox refused a tool a file. The agent goes on; when a whole turn got by without another one, it is over.
    SandboxDenied,
    /// The agent asks whether to trust the folder.
    TrustDialog,
    /// The plan's limit is used up.
    UsageLimit,
}

impl IssueKind {
    /// Returns true if the agent cannot go on until a person or a timer clears the issue.
    #[must_use]
    pub fn is_blocking(self) -> bool {
        self != Self::SandboxDenied
    }
}
