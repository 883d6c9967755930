//! Observations of an agent, and the facts that a backend derives from them.

use serde::{Deserialize, Serialize};

use crate::model::Timestamp;

/// An observation of an agent that its backend may interpret.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// A message of the protocol, or a line of the structured stream.
    Protocol(&'a str),
    /// A call of a hook. Like everything that an agent sends, it is a claim.
    #[non_exhaustive]
    Hook {
        /// Name of the event, as configured.
        event: &'a str,
        /// Payload of the call.
        payload: &'a str,
        /// The vendor's session id, if it is known. Some vendors also run hooks for sessions of their own, which must be
        /// told apart by it.
        session: Option<&'a str>,
    },
    /// A line of the transcript.
    Transcript(&'a str),
    /// The window title.
    Title(&'a str),
    /// The text of the screen. Sent after a moment without output, and once a second during output: some agents animate
    /// their screen without end.
    Screen(&'a str),
}

impl<'a> Observation<'a> {
    /// Returns [`Hook`](Self::Hook).
    #[must_use]
    pub fn hook(event: &'a str, payload: &'a str, session: Option<&'a str>) -> Self {
        Self::Hook { event, payload, session }
    }
}

impl Observation<'_> {
    /// Returns the source of facts derived from this observation.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Protocol(_) => Source::Protocol,
            Self::Hook { .. } => Source::Hook,
            Self::Transcript(_) => Source::Transcript,
            Self::Title(_) => Source::Osc,
            Self::Screen(_) => Source::Screen,
        }
    }
}

/// A failed access to a file, as a program reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FailedAccess {
    /// The program's message.
    pub line: String,
    /// The file, as the program names it.
    pub path: String,
    /// True if the program tried to change it.
    pub change: bool,
    /// True if the file looked missing, which is also how a sandbox hides files.
    pub absent: bool,
}

/// The source of a fact, weakest first. A weaker source never overrides a stronger one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The rendered screen.
    Screen,
    /// An operating system command (OSC) sequence, such as the window title.
    Osc,
    /// The transcript file, which is written some time after the event.
    Transcript,
    /// A hook of the agent, called at the moment of the event.
    Hook,
    /// The protocol or structured stream.
    Protocol,
    /// The process itself.
    Process,
}

/// A fact about an agent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// The agent has this status.
    Status(Status),
    /// A turn ended. Backends whose agents do not report it leave it out; a change of status from
    /// [`Processing`](Status::Processing) to [`Idle`](Status::Idle) counts as one.
    TurnCompleted,
    /// The vendor's session id.
    VendorSession(String),
    /// An issue blocks the agent.
    Issue(Issue),
    /// The issue of this kind is over.
    IssueCleared(IssueKind),
}

/// Status of an agent, in the vocabulary of the watch protocol.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent waits for an answer that only a person can give.
    ActionRequired,
    /// The agent failed.
    Error,
    /// The agent waits for input.
    Idle,
    /// The agent has no process.
    Off,
    /// The agent works on a turn.
    Processing,
    /// The agent was started and is not ready yet.
    Starting,
    /// Not known. Must not be treated as `Off`.
    #[default]
    Unknown,
}

impl Status {
    /// Returns the name on the wire.
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

/// A condition that hinders an agent until a person or a timer clears it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Issue {
    /// Kind of the condition.
    pub kind: IssueKind,
    /// Message in the words of the agent or provider.
    pub message: String,
    /// Time at which the provider says that the condition ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
}

impl Issue {
    /// Creates an issue without a reset time.
    #[must_use]
    pub fn new(kind: IssueKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), reset_at: None }
    }

    /// Sets the time at which the issue ends.
    #[must_use]
    pub fn with_reset_at(mut self, reset_at: Timestamp) -> Self {
        self.reset_at = Some(reset_at);
        self
    }
}

/// The kinds of issues.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum IssueKind {
    /// The agent's program is not installed, or the settings know no agent of this name. No session was begun.
    AgentMissing,
    /// A login is missing, refused or expired.
    AuthRequired,
    /// The conversation does not fit into the model's context, and the agent could not make it shorter.
    ContextFull,
    /// The provider does not know the model, or does not let the account use it.
    ModelUnknown,
    /// The account has no credit left.
    OutOfCredit,
    /// The agent's version is too old for its provider, or waits for a person to install an update.
    Outdated,
    /// The provider is overloaded.
    Overloaded,
    /// The provider rejects requests because there were too many.
    RateLimited,
    /// The sandbox denied a tool access to a file. The agent goes on, and the issue is cleared after a turn without
    /// another denial.
    SandboxDenied,
    /// Nothing is heard of the agent, it uses no tool, and its processes do nothing. It is not ended, and the issue clears
    /// at its next sign of life.
    Stalled,
    /// The agent asks whether to trust the folder.
    TrustDialog,
    /// The provider cannot be reached, or its connections break off.
    Unreachable,
    /// The limit of the plan is used up.
    UsageLimit,
    /// Secrets that a client gave along are gone with a restart, and the orchestrator has none of its own by these names.
    /// Concerns that work alone, and passes when it is resumed from where they are set.
    VariablesGone,
}

impl IssueKind {
    /// Returns true if the agent cannot go on until a person or a timer clears the issue.
    #[cfg(any(test, feature = "orchestrator"))]
    #[must_use]
    pub(crate) fn is_blocking(self) -> bool {
        // An agent with one of these is left to go on by itself.
        !matches!(self, Self::SandboxDenied | Self::Stalled)
    }
}
