//! Projects: `.watchfire/project.yaml`.

use serde::{Deserialize, Serialize};

use super::lenient::or_default;
use super::task::defer_empty;
use super::timestamp::optional;
use super::{BackendName, Extra, ProjectId, ProjectSandbox, Timestamp};

/// A git repository (or a folder) on which agents work.
///
/// The automation flags are optional so that a missing one defers to the settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Project {
    /// The version of the format: 1.
    pub version: u32,
    /// Identifies the project wherever its folder moves.
    pub project_id: ProjectId,
    /// What people call it.
    pub name: String,
    /// Active or archived.
    #[serde(default, deserialize_with = "or_default")]
    pub status: ProjectStatus,
    /// A hex colour for clients with a screen.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub color: String,
    /// The merge target; empty: the branch that was checked out when the attempt began.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_branch: String,
    /// The backend of its sessions; empty defers to the settings.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "defer_empty")]
    pub default_agent: Option<BackendName>,
    /// The sandbox asked for, as written; empty defers to the settings.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub sandbox: String,
    /// What the project adds to the person's sandbox settings: it can only tighten them.
    #[serde(default, skip_serializing_if = "ProjectSandbox::is_default", deserialize_with = "or_default")]
    pub sandbox_rules: ProjectSandbox,
    /// Merge a task when it is done and verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<bool>,
    /// Remove worktree and branch after a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_delete_branch: Option<bool>,
    /// Start a task when it becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_start_tasks: Option<bool>,
    /// What the project is, for the agents' prompts.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub definition: String,
    /// Shell commands that must succeed on the merged tree before the target moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub verify: Vec<String>,
    /// How many tasks may run at once; missing: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// How long one session may take, such as `45m` or `2h`; missing: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<String>,
    /// How work is merged.
    #[serde(default, skip_serializing_if = "MergeSettings::is_default", deserialize_with = "or_default")]
    pub merge: MergeSettings,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub created_at: Option<Timestamp>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub updated_at: Option<Timestamp>,
    /// The number of the next task, unless a higher file is there already.
    #[serde(default = "one", deserialize_with = "or_default")]
    pub next_task_number: u32,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Project {
    /// A new active project.
    pub fn new(project_id: ProjectId, name: impl Into<String>) -> Self {
        Self {
            version: 1,
            project_id,
            name: name.into(),
            status: ProjectStatus::Active,
            color: String::new(),
            default_branch: String::new(),
            default_agent: None,
            sandbox: String::new(),
            sandbox_rules: ProjectSandbox::default(),
            auto_merge: None,
            auto_delete_branch: None,
            auto_start_tasks: None,
            definition: String::new(),
            verify: Vec::new(),
            max_parallel: None,
            time_limit: None,
            merge: MergeSettings::default(),
            created_at: None,
            updated_at: None,
            next_task_number: 1,
            extra: Extra::new(),
        }
    }
}

fn one() -> u32 {
    1
}

/// Whether a project is worked on.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectStatus {
    /// Worked on.
    #[default]
    Active,
    /// Put away.
    Archived,
}

/// How finished work reaches the target branch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MergeSettings {
    /// The shape of the result.
    #[serde(default, deserialize_with = "or_default")]
    pub strategy: MergeStrategy,
    /// How many finished tasks may be merged and verified together, such as 4; missing: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl MergeSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The shape of a merge.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum MergeStrategy {
    /// Move the target only where no merge commit is needed; otherwise it counts as a conflict.
    FastForwardOnly,
    /// A merge commit with two parents.
    #[default]
    Merge,
    /// The task's commits one by one on top of the target.
    Rebase,
    /// One commit on top of the target.
    Squash,
}
