//! What runs: modes, phases, and the files that a daemon leaves for its clients.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ProjectId, TaskNumber, Timestamp};

/// What the user asked to run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A conversation in the project root.
    Chat,
    /// One-shot: write the project's definition.
    GenerateDefinition,
    /// One-shot: write tasks.
    GenerateTasks,
    /// All ready tasks, in order.
    StartAll,
    /// One task.
    Task,
    /// Execute, refine and generate until nothing is left to do.
    Wildfire,
}

impl Mode {
    /// The word on the wire and in log names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::GenerateDefinition => "generate-definition",
            Self::GenerateTasks => "generate-tasks",
            Self::StartAll => "start-all",
            Self::Task => "task",
            Self::Wildfire => "wildfire",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A step of wildfire.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Work on a ready task.
    Execute,
    /// Improve a draft.
    Refine,
    /// Look for more to do.
    Generate,
}

/// `daemon.yaml`: where the daemon listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DaemonInfo {
    /// The version of the format: 1.
    pub version: u32,
    /// The host to connect to.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The process.
    pub pid: u32,
    /// When it began to listen.
    pub started_at: Timestamp,
}

impl DaemonInfo {
    /// The daemon `pid`, listening on `host` and `port` since `started_at`.
    pub fn new(host: impl Into<String>, port: u16, pid: u32, started_at: Timestamp) -> Self {
        Self { version: 1, host: host.into(), port, pid, started_at }
    }
}

/// `agents.yaml`: what runs right now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentState {
    /// The version of the format: 1.
    pub version: u32,
    /// One entry per running session.
    #[serde(default)]
    pub agents: Vec<AgentEntry>,
}

impl AgentState {
    /// The state with these entries.
    #[must_use]
    pub fn new(agents: Vec<AgentEntry>) -> Self {
        Self { version: 1, agents }
    }
}

/// One running session, as `agents.yaml` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentEntry {
    /// Which project.
    pub project_id: ProjectId,
    /// Its name.
    pub project_name: String,
    /// Its root.
    pub project_path: PathBuf,
    /// What was asked to run.
    pub mode: Mode,
    /// The task, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_number: Option<TaskNumber>,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_title: Option<String>,
    /// The blocking issue, if any: `auth_required`, `rate_limited`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_type: Option<String>,
    /// Its original message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_message: Option<String>,
}
