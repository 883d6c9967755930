//! Settings: `settings.yaml` in the Watchfire home.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lenient::{map_or_default, or_default, or_true};
use super::{Extra, SandboxSettings};

/// The person's own settings; only these name programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The version of the format: 1.
    #[serde(default = "one")]
    pub version: u32,
    /// Per backend name: where its program is and what to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub agents: BTreeMap<String, AgentSettings>,
    /// Values for projects that do not say.
    #[serde(default, deserialize_with = "or_default")]
    pub defaults: Defaults,
    /// Grants and denials beyond the base policy.
    #[serde(default, skip_serializing_if = "SandboxSettings::is_default", deserialize_with = "or_default")]
    pub sandbox: SandboxSettings,
    /// What git may do for them.
    #[serde(default, skip_serializing_if = "GitSettings::is_default", deserialize_with = "or_default")]
    pub git: GitSettings,
    /// Update checks, kept for the Go edition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    /// Themes, for clients with a screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appearance: Option<Appearance>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: 1,
            agents: BTreeMap::new(),
            defaults: Defaults::default(),
            sandbox: SandboxSettings::default(),
            git: GitSettings::default(),
            updates: None,
            appearance: None,
            extra: Extra::new(),
        }
    }
}

fn one() -> u32 {
    1
}

/// One entry of `agents`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentSettings {
    /// The program; missing: looked up in `PATH` and the known places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Arguments: those of the `command` backend, or more for a known agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub args: Vec<String>,
    /// The model to ask for, where the agent takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variables for this agent alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub env: BTreeMap<String, String>,
    /// Variables of ours that this agent may have, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub pass_env: Vec<String>,
    /// Fields that this version does not know, and options of single backends.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What git may do for a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitSettings {
    /// Filter drivers of their configuration, such as `lfs`, that may run on merged files when those come to a checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub filters: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl GitSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Values for projects that do not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Defaults {
    /// See [`Project::auto_merge`](super::Project::auto_merge).
    #[serde(default = "yes", deserialize_with = "or_true")]
    pub auto_merge: bool,
    /// See [`Project::auto_delete_branch`](super::Project::auto_delete_branch).
    #[serde(default = "yes", deserialize_with = "or_true")]
    pub auto_delete_branch: bool,
    /// See [`Project::auto_start_tasks`](super::Project::auto_start_tasks).
    #[serde(default = "yes", deserialize_with = "or_true")]
    pub auto_start_tasks: bool,
    /// Offered by `init` as the merge target.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_branch: String,
    /// The sandbox; empty: `auto`.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_sandbox: String,
    /// The backend; empty: the orchestrator's own default.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_agent: String,
    /// Stop a chain when a merge fails, as the old Watchfire did.
    #[serde(default, deserialize_with = "or_default")]
    pub stop_on_merge_failure: bool,
    /// How often each project is cleaned up by itself: `24h`, `never`; empty: once a day.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub prune_every: String,
    /// How many folders are kept ready for tasks to come; 0: none.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "or_default")]
    pub ready_worktrees: u32,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            auto_merge: true,
            auto_delete_branch: true,
            auto_start_tasks: true,
            default_branch: String::new(),
            default_sandbox: String::new(),
            default_agent: String::new(),
            stop_on_merge_failure: false,
            prune_every: String::new(),
            ready_worktrees: 0,
            extra: Extra::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn yes() -> bool {
    true
}

/// Update checks. Watchfire for Rust keeps them and does none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Updates {
    /// All of it.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How clients with a screen look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Appearance {
    /// `system`, `light` or `dark`.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub theme: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}
