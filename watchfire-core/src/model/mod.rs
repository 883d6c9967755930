//! Plain data: the types of the files on disk and of the wire. No I/O.
//!
//! Every on-disk type keeps unknown fields, so that an older version does not lose what a newer one wrote.

mod dollars;
pub(crate) mod form;
mod ids;
mod index;
mod keys;
mod lenient;
mod mode;
mod path;
mod process;
mod project;
mod question;
mod sandbox;
mod section;
mod settings;
mod task;
mod timestamp;
mod words;

pub use dollars::Dollars;
pub use ids::{Alias, Attempt, BackendName, ProjectId, SessionId, TaskId, TaskNumber};
pub use index::{ProjectEntry, ProjectIndex};
pub use keys::{KEYS, Key, KeyFile, KeyKind, UnknownKey, unknown_keys};
pub use mode::{Mode, Phase};
pub use path::RepoPath;
pub use process::ProcessIdentity;
pub use project::{
    AgentsMay, MergeSettings, MergeStrategy, OnLimit, PhaseSettings, Project, ProjectStatus, Review,
    WildfireSettings,
};
pub use question::Question;
pub use sandbox::{NetworkSetting, ProjectSandbox, ResourceLimits, SandboxSettings, Sharing, StepDown};
pub use section::PromptSection;
pub use settings::{
    AgentSettings, BudgetSettings, CheckFrequency, Defaults, GitSettings, LogSettings, NotifySettings,
    Settings, TuiSettings, UnknownSpending, UpdateSettings,
};
pub use task::{Task, TaskStatus};
pub use timestamp::Timestamp;
pub use words::in_words;

/// Unknown fields of a file, kept as they are.
pub type Extra = std::collections::BTreeMap<String, serde_json::Value>;
