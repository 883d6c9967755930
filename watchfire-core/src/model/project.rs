//! Projects: `.watchfire/project.yaml`.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::form::{color, commands, from_one, paths_below_root, paths_from_root, time_span};
use super::lenient::or_default;
use super::task::defer_empty;
use super::timestamp::optional;
use super::{BackendName, Extra, Phase, ProjectId, ProjectSandbox, Timestamp};
use crate::{Error, ErrorKind, Result};

/// A git repository or a folder in which agents work.
///
/// Automation flags that are missing defer to the settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Project {
    /// The version of the format: 1.
    pub version: u32,
    /// The id, which stays when the folder moves.
    pub project_id: ProjectId,
    /// The name shown to users.
    pub name: String,
    /// Active or archived.
    #[serde(default, deserialize_with = "or_default")]
    pub status: ProjectStatus,
    /// A hex colour for graphical clients.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "color")]
    pub color: String,
    /// The merge target. Empty: the branch that was checked out when the attempt began.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_branch: String,
    /// Further repositories in which its tasks work, by paths relative to the root. The settings must allow them.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "paths_from_root")]
    pub repositories: Vec<String>,
    /// The backend of its sessions. Empty defers to the settings.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "defer_empty")]
    pub default_agent: Option<BackendName>,
    /// The sandbox by name, as written. Empty defers to the settings.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub sandbox: String,
    /// Restrictions on top of the user's sandbox settings. A project can only tighten them.
    #[serde(default, skip_serializing_if = "ProjectSandbox::is_default", deserialize_with = "or_default")]
    pub sandbox_rules: ProjectSandbox,
    /// True if a task is merged once it is done and verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<bool>,
    /// True if worktree and branch are removed after a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_delete_branch: Option<bool>,
    /// True if a task is started when it becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_start_tasks: Option<bool>,
    /// A description of the project for prompts.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub definition: String,
    /// Shell commands that prepare a fresh task folder before its agent starts, and the merged tree before it is verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "commands")]
    pub setup: Vec<String>,
    /// Shell commands that must succeed on the merged tree before the target moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "commands")]
    pub verify: Vec<String>,
    /// Ignored folders of the checkout that show in a task's folder as a copy-on-write view.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "paths_below_root")]
    pub share: Vec<String>,
    /// Ignored files of the checkout that are copied into a task's folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "paths_below_root")]
    pub copy: Vec<String>,
    /// Files and folders that agents may not change: work that does is held before it is verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "paths_below_root")]
    pub protected: Vec<String>,
    /// The changes of agents that a person wants to see before they are merged.
    #[serde(default, skip_serializing_if = "Review::is_default", deserialize_with = "or_default")]
    pub review: Review,
    /// Maximum number of tasks that run at once. Missing: 1.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "from_one")]
    pub max_parallel: Option<u32>,
    /// Maximum duration of a session, such as `45m` or `2h`. Missing: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "time_span")]
    pub time_limit: Option<String>,
    /// Length of a silence after which a session counts as stalled, such as `10m`. Missing: `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "time_span")]
    pub stall_after: Option<String>,
    /// Reaction to a used-up limit of the provider's plan. Missing: the settings decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
    /// Options of merging.
    #[serde(default, skip_serializing_if = "MergeSettings::is_default", deserialize_with = "or_default")]
    pub merge: MergeSettings,
    /// Options of wildfire.
    #[serde(default, skip_serializing_if = "WildfireSettings::is_default", deserialize_with = "or_default")]
    pub wildfire: WildfireSettings,
    /// Permissions of agents beyond their work.
    #[serde(default, skip_serializing_if = "AgentsMay::is_default", deserialize_with = "or_default")]
    pub agents_may: AgentsMay,
    /// Time of creation.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub created_at: Option<Timestamp>,
    /// Time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub updated_at: Option<Timestamp>,
    /// The number of the next task, unless a file with a higher number exists.
    #[serde(default = "one", deserialize_with = "or_default")]
    pub next_task_number: u32,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Project {
    /// Creates an active project with defaults for everything else.
    pub fn new(project_id: ProjectId, name: impl Into<String>) -> Self {
        Self {
            version: 1,
            project_id,
            name: name.into(),
            status: ProjectStatus::Active,
            color: String::new(),
            default_branch: String::new(),
            repositories: Vec::new(),
            default_agent: None,
            sandbox: String::new(),
            sandbox_rules: ProjectSandbox::default(),
            auto_merge: None,
            auto_delete_branch: None,
            auto_start_tasks: None,
            definition: String::new(),
            setup: Vec::new(),
            verify: Vec::new(),
            share: Vec::new(),
            copy: Vec::new(),
            protected: Vec::new(),
            review: Review::default(),
            max_parallel: None,
            time_limit: None,
            stall_after: None,
            on_limit: None,
            merge: MergeSettings::default(),
            wildfire: WildfireSettings::default(),
            agents_may: AgentsMay::default(),
            created_at: None,
            updated_at: None,
            next_task_number: 1,
            extra: Extra::new(),
        }
    }
}

impl Project {
    /// Returns the project as it is in a phase of wildfire, with the backend that is named for it.
    pub(crate) fn in_phase(&self, phase: Option<Phase>) -> Cow<'_, Self> {
        match phase.and_then(|phase| self.wildfire.agent(phase)) {
            None => Cow::Borrowed(self),
            Some(agent) => Cow::Owned(Self { default_agent: Some(agent.clone()), ..self.clone() }),
        }
    }

    /// Returns the key that names the backend of a phase of wildfire, or of other work.
    pub(crate) fn agent_key(&self, phase: Option<Phase>) -> String {
        let wildfire = &self.wildfire;
        match phase.filter(|phase| wildfire.agent(*phase).is_some()) {
            None => "default_agent".to_owned(),
            Some(phase) if wildfire.phase(phase).agent.is_some() => format!("wildfire.{phase}.agent"),
            Some(_) => "wildfire.agent".to_owned(),
        }
    }
}

fn one() -> u32 {
    1
}

/// The reaction to a used-up limit of the plan of an agent's provider.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum OnLimit {
    /// Work stays as it is until a person resumes it.
    #[default]
    Ask,
    /// Work goes on by itself when the limit is over, in the same conversation.
    Wait,
    /// Work ends, and its branch is kept.
    Stop,
}

impl fmt::Display for OnLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ask => "ask",
            Self::Wait => "wait",
            Self::Stop => "stop",
        })
    }
}

impl OnLimit {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes of agents that a person reviews before they are merged.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum Review {
    /// Only changes of protected paths and of files that git runs.
    #[default]
    None,
    /// Also changes of files that other tools run by themselves, such as `package.json`.
    Tools,
}

impl Review {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The status of a project.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum ProjectStatus {
    /// In use.
    #[default]
    Active,
    /// No longer in use, and hidden by clients.
    Archived,
}

/// Options of how finished work reaches the target branch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MergeSettings {
    /// The shape of the history.
    #[serde(default, deserialize_with = "or_default")]
    pub strategy: MergeStrategy,
    /// Maximum number of finished tasks that are merged and verified together. Missing: 1.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "from_one")]
    pub batch: Option<u32>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl MergeSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Options of wildfire: tasks are refined, generated and worked on until nothing is left to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WildfireSettings {
    /// Maximum number of times that a run generates tasks. Missing or 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// True if a run ends after it has generated tasks, so that a person looks at them first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<bool>,
    /// The backend that refines and generates tasks. Missing: the backend of the project.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "defer_empty")]
    pub agent: Option<BackendName>,
    /// The work on tasks.
    #[serde(default, skip_serializing_if = "PhaseSettings::is_default", deserialize_with = "or_default")]
    pub execute: PhaseSettings,
    /// The refinement of drafts.
    #[serde(default, skip_serializing_if = "PhaseSettings::is_default", deserialize_with = "or_default")]
    pub refine: PhaseSettings,
    /// The generation of tasks.
    #[serde(default, skip_serializing_if = "PhaseSettings::is_default", deserialize_with = "or_default")]
    pub generate: PhaseSettings,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Options of one phase of wildfire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PhaseSettings {
    /// The backend of its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "defer_empty")]
    pub agent: Option<BackendName>,
    /// The model of its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl PhaseSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl WildfireSettings {
    /// Returns the options of a phase.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> &PhaseSettings {
        match phase {
            Phase::Execute => &self.execute,
            Phase::Refine => &self.refine,
            Phase::Generate => &self.generate,
        }
    }

    /// Returns the backend that is named for a phase.
    #[must_use]
    pub fn agent(&self, phase: Phase) -> Option<&BackendName> {
        let of_steps = self.agent.as_ref().filter(|_| phase != Phase::Execute);
        self.phase(phase).agent.as_ref().or(of_steps)
    }

    /// Returns the model that is named for a phase.
    ///
    /// # Errors
    /// `invalid_input` for a text that an agent or a shell could take for something else: the file comes with the repository.
    pub fn model(&self, phase: Phase) -> Result<Option<&str>> {
        let model = self.phase(phase).model.as_deref().map(str::trim).filter(|model| !model.is_empty());
        let is_name = |model: &&str| {
            model.chars().all(|c| c.is_ascii_alphanumeric() || "._:/@+-[]".contains(c))
                && !model.starts_with('-')
        };
        match model.filter(|model| !is_name(model)) {
            None => Ok(model),
            Some(model) => Err(Error::new(ErrorKind::InvalidInput, "not the name of a model")
                .with("model", format_args!("{model:?}"))
                .with("file", "project.yaml")
                .with("field", format_args!("wildfire.{phase}.model"))),
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Permissions of agents beyond their work. All are given unless the project takes them away. An agent can never start anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentsMay {
    /// False if agents do not see which others run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub see_peers: Option<bool>,
    /// False if agents ask no other agent, and are asked by none. Who is not seen cannot be asked either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_peers: Option<bool>,
    /// False if agents ask the person nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_person: Option<bool>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl AgentsMay {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The shape of the history that a merge makes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum MergeStrategy {
    /// No commit of its own: the target moves forward to the task's branch, or there is a conflict.
    FastForwardOnly,
    /// A merge commit with two parents.
    #[default]
    Merge,
    /// The task's commits one by one on top of the target.
    Rebase,
    /// One commit on top of the target.
    Squash,
}
