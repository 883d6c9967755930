//! Settings: `settings.yaml` in the Watchfire home.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::form::{events, places, theme, time_span_or_never, variables};
use super::keys::{Key, KeyFile};
use super::lenient::{map_or_default, or_default, or_true};
use super::words::in_words;
use super::{Dollars, Extra, OnLimit, SandboxSettings};
use crate::{Error, ErrorKind, Result};

/// The settings of the user. No other file may name programs to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The version of the format: 1.
    #[serde(default = "one")]
    pub version: u32,
    /// Settings of backends, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub agents: BTreeMap<String, AgentSettings>,
    /// Maximum number of tasks that run at once in all projects of one orchestrator. 0: no limit.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "or_default")]
    pub max_parallel: u32,
    /// Values for what projects leave open.
    #[serde(default, deserialize_with = "or_default")]
    pub defaults: Defaults,
    /// Changes of the sandbox's base policy.
    #[serde(default, skip_serializing_if = "SandboxSettings::is_default", deserialize_with = "or_default")]
    pub sandbox: SandboxSettings,
    /// Options of git.
    #[serde(default, skip_serializing_if = "GitSettings::is_default", deserialize_with = "or_default")]
    pub git: GitSettings,
    /// Upper bounds for the cost of sessions.
    #[serde(default, skip_serializing_if = "BudgetSettings::is_default", deserialize_with = "or_default")]
    pub budget: BudgetSettings,
    /// Limits of the logs of sessions.
    #[serde(default, skip_serializing_if = "LogSettings::is_default", deserialize_with = "or_default")]
    pub logs: LogSettings,
    /// How the person is told when work needs them.
    #[serde(default, skip_serializing_if = "NotifySettings::is_default", deserialize_with = "or_default")]
    pub notify: NotifySettings,
    /// Options of the terminal interface.
    #[serde(default, skip_serializing_if = "TuiSettings::is_default", deserialize_with = "or_default")]
    pub tui: TuiSettings,
    /// Where new releases are looked for.
    #[serde(default, skip_serializing_if = "UpdateSettings::is_default", deserialize_with = "or_default")]
    pub updates: UpdateSettings,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: 1,
            agents: BTreeMap::new(),
            max_parallel: 0,
            defaults: Defaults::default(),
            sandbox: SandboxSettings::default(),
            git: GitSettings::default(),
            budget: BudgetSettings::default(),
            logs: LogSettings::default(),
            notify: NotifySettings::default(),
            tui: TuiSettings::default(),
            updates: UpdateSettings::default(),
            extra: Extra::new(),
        }
    }
}

fn one() -> u32 {
    1
}

/// Settings of one backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentSettings {
    /// The program. Missing: looked up in `PATH` and in its usual places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// All arguments of a configured program, or additional ones for a known agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub args: Vec<String>,
    /// The model to use, for agents that can choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Environment variables that only this agent gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub env: BTreeMap<String, String>,
    /// Names of environment variables that this agent gets from our environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "variables")]
    pub pass_env: Vec<String>,
    /// Unknown fields, and options of single backends, which [`option`](Self::option) reads.
    #[serde(flatten, deserialize_with = "options")]
    pub(super) extra: Extra,
}

impl AgentSettings {
    /// Returns an option of single backends, such as `transport`, of the agent of this name. `null` counts as missing.
    ///
    /// Only a declared key can be read: a [listed](Key::listed_for_agents) one, or one that the backend
    /// [declares](Key::of_agent).
    ///
    /// # Errors
    /// `invalid_input`, with the file and the key, for a value of another type; `internal` for a key that is no option of
    /// agents.
    pub fn option<T: DeserializeOwned>(&self, agent: &str, key: &Key) -> Result<Option<T>> {
        let Some(name) = key.agent_option() else {
            return Err(at(agent, key.path, ErrorKind::Internal, "the key is no option of agents"));
        };
        let value = self.extra.get(name).filter(|value| !value.is_null());
        value.map(|value| T::deserialize(value).map_err(|error| wrong(agent, name, &error))).transpose()
    }

    /// Yields the names of the options of single backends that are set, except those that belong to other programs.
    pub(crate) fn options_named(&self) -> impl Iterator<Item = &str> {
        self.extra.keys().map(String::as_str).filter(|name| !name.starts_with("x-"))
    }

    /// Returns all options of single backends at once, as fields of `T`, each of which must have a default.
    ///
    /// # Errors
    /// `invalid_input`, with the file and the key, for an option that `T` rejects.
    pub fn options<T: DeserializeOwned>(&self, agent: &str) -> Result<T> {
        for (name, value) in &self.extra {
            // One at a time: an error of all together does not say which it is.
            let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
            T::deserialize(alone).map_err(|error| wrong(agent, name, &error))?;
        }
        let all = Value::Object(self.extra.clone().into_iter().collect());
        T::deserialize(all).map_err(|error| wrong(agent, "*", &error))
    }
}

/// Reads the options of an agent, of which the listed ones must have their kind.
fn options<'de, D: Deserializer<'de>>(d: D) -> Result<Extra, D::Error> {
    let options = Extra::deserialize(d)?;
    for (name, value) in &options {
        if let Some(key) = Key::listed_for_agents(name) {
            key.kind.check(value).map_err(D::Error::custom)?;
        }
    }
    Ok(options)
}

fn wrong(agent: &str, name: &str, error: &serde_json::Error) -> Error {
    at(agent, name, ErrorKind::InvalidInput, &in_words(&format!("invalid option: {error}")))
}

fn at(agent: &str, name: &str, kind: ErrorKind, what: &str) -> Error {
    Error::new(kind, what.to_owned())
        .with("file", KeyFile::Settings)
        .with("field", format_args!("agents.{agent}.{name}"))
}

/// Options of git.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitSettings {
    /// Filter drivers of the user's configuration, such as `lfs`, that may run when merged files are written to a checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub filters: Vec<String>,
    /// True if changes of hooks, of attributes that name drivers and of `.gitmodules` are merged without asking.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_default")]
    pub allow_git_wiring: bool,
    /// Repositories, or folders of repositories, that projects may name as theirs beside their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "places")]
    pub repositories: Vec<PathBuf>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl GitSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits of the logs of a project's sessions. The clean-up removes what exceeds them, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogSettings {
    /// Days for which a log is kept after its last change. Absent: 30. 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub keep_days: Option<u32>,
    /// Size of all logs of a project, in MiB. Absent: 1024. 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub max_mb: Option<u64>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl LogSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the person is told when work needs them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NotifySettings {
    /// A command of the shell that gets each event as JSON on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub command: Option<String>,
    /// True to show notifications on the desktop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_default")]
    pub desktop: bool,
    /// The events: `asks`, `limited`, `held`, `failed`, `over`. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "events")]
    pub events: Option<Vec<String>>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl NotifySettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Options of the terminal interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TuiSettings {
    /// `dark` or `light`. Absent: what the terminal's background is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "theme")]
    pub theme: Option<String>,
    /// False to tell of what needs the person without a bell and without a notification of the terminal. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub bell: Option<bool>,
    /// False to start no chat where nothing runs, and none after a chain. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub chat: Option<bool>,
    /// The person's own keys, by the names of actions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "map_or_default")]
    pub keys: BTreeMap<String, String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl TuiSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where new releases are looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UpdateSettings {
    /// A git repository whose version tags are the releases. Absent: nothing is looked up.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub source: Option<String>,
    /// False to look only when asked. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub check_on_startup: Option<bool>,
    /// The shortest time between two looks.
    #[serde(default, skip_serializing_if = "CheckFrequency::is_default", deserialize_with = "or_default")]
    pub check_frequency: CheckFrequency,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl UpdateSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How often a program that starts looks for a new release.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum CheckFrequency {
    /// At every start.
    EveryLaunch,
    /// Once a day.
    #[default]
    Daily,
    /// Once a week.
    Weekly,
}

impl CheckFrequency {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Upper bounds for the cost of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetSettings {
    /// Bound for all sessions of one task. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub task: Option<Dollars>,
    /// Bound for all sessions of one day, which begins at this machine's midnight. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub day: Option<Dollars>,
    /// Reaction to agents that do not report their spending.
    #[serde(default, skip_serializing_if = "UnknownSpending::is_default", deserialize_with = "or_default")]
    pub unknown: UnknownSpending,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl BudgetSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if any budget is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.task.is_some() || self.day.is_some()
    }
}

/// The reaction to an agent that does not report its spending, where there is a budget.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum UnknownSpending {
    /// It starts, with a warning to the person.
    #[default]
    Allow,
    /// It does not start.
    Refuse,
}

impl UnknownSpending {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Values for what projects leave open.
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
    /// The merge target that `init` offers.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_branch: String,
    /// The sandbox by name. Empty: `auto`.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_sandbox: String,
    /// The backend by name. Empty: the default of the orchestrator.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub default_agent: String,
    /// True if a run ends when a merge fails, as in Watchfire 10.
    #[serde(default, deserialize_with = "or_default")]
    pub stop_on_merge_failure: bool,
    /// Reaction to a used-up limit of the provider's plan.
    #[serde(default, skip_serializing_if = "OnLimit::is_default", deserialize_with = "or_default")]
    pub on_limit: OnLimit,
    /// Interval of the automatic clean-up, such as `24h`, or `never`. Empty: once a day.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "time_span_or_never")]
    pub prune_every: String,
    /// Time after which a daemon without clients stops its agents, such as `10s`. Empty or `never`: they go on.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "time_span_or_never")]
    pub stop_without_clients: String,
    /// Number of worktrees that are prepared in advance.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "or_default")]
    pub ready_worktrees: u32,
    /// Unknown fields.
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
            on_limit: OnLimit::default(),
            prune_every: String::new(),
            stop_without_clients: String::new(),
            ready_worktrees: 0,
            extra: Extra::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn yes() -> bool {
    true
}
