//! Overrides of a request.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CallerEnvironment;
use crate::model::{BackendName, SessionId};
use crate::sandbox::{Enforcement, SandboxChoice};
use crate::terminal::Size;

/// Overrides of one request. They hold for every session of every life that it owns, also after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOptions {
    /// The backend, ahead of task, project and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<BackendName>,
    /// The sandbox, ahead of project and settings.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_sandbox",
        deserialize_with = "read_sandbox"
    )]
    pub sandbox: Option<SandboxChoice>,
    /// The reaction to a sandbox that cannot enforce the policy.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// True to merge, false to keep the branch; ahead of project and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<bool>,
    /// The obstacles that a person has accepted. They hold for the work as it is: another attempt begins without them.
    #[serde(flatten)]
    pub accept: Accept,
    /// A person's words about the work so far, for the agent that goes on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The place of a chat. Without effect for tasks.
    #[serde(default, skip_serializing_if = "ChatPlace::is_root")]
    pub place: ChatPlace,
    /// The chat that a chat goes on with. Without effect for tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<SessionId>,
    /// The size of the terminals.
    #[serde(default, with = "size")]
    pub size: Size,
    /// The variables of the caller, in place of the orchestrator's own. They do not outlive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<CallerEnvironment>,
}

/// The place in which a chat works.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum ChatPlace {
    /// In the root, on the person's own files.
    #[default]
    Root,
    /// In a folder and on a branch of its own, where the last such chat left off unless its work was merged.
    Worktree,
    /// The same, begun again from the project's branch. Earlier work goes to a rescue ref.
    FreshWorktree,
}

impl ChatPlace {
    /// Returns true for the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        *self == Self::Root
    }
}

/// Obstacles that a person accepts in work to be merged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accept {
    /// Conflict marks that the agent left.
    #[serde(default, rename = "accept_marks", skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// Changes of paths that the project protects.
    #[serde(default, rename = "accept_protected", skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// Changes of what git or other tools run by themselves.
    #[serde(default, rename = "accept_commands", skip_serializing_if = "std::ops::Not::not")]
    pub commands: bool,
}

impl Accept {
    /// Accepts conflict marks.
    #[must_use]
    pub fn with_marks(mut self, accepted: bool) -> Self {
        self.marks = accepted;
        self
    }

    /// Accepts changes of protected paths.
    #[must_use]
    pub fn with_protected(mut self, accepted: bool) -> Self {
        self.protected = accepted;
        self
    }

    /// Accepts changes of what git or other tools run by themselves.
    #[must_use]
    pub fn with_commands(mut self, accepted: bool) -> Self {
        self.commands = accepted;
        self
    }

    /// Returns what either accepts.
    pub(in crate::schedule) fn or(self, other: Self) -> Self {
        Self {
            marks: self.marks || other.marks,
            protected: self.protected || other.protected,
            commands: self.commands || other.commands,
        }
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn write_sandbox<S: Serializer>(choice: &Option<SandboxChoice>, to: S) -> Result<S::Ok, S::Error> {
    choice.as_ref().map(ToString::to_string).serialize(to)
}

/// Accepts any name. It was checked when the request came, and whether the sandbox still exists shows at the next
/// start.
fn read_sandbox<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SandboxChoice>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.map(|name| match name.as_str() {
        "auto" => SandboxChoice::Auto,
        "none" => SandboxChoice::None,
        _ => SandboxChoice::Named(name),
    }))
}

mod size {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Size};

    pub(in crate::schedule) fn serialize<S: Serializer>(size: &Size, to: S) -> Result<S::Ok, S::Error> {
        (size.cols(), size.rows()).serialize(to)
    }

    pub(in crate::schedule) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        <(u16, u16)>::deserialize(from).map(|(cols, rows)| Size::new(cols, rows))
    }
}
