//! Plain data: what the files say and what the wire carries. No I/O.
//!
//! Every on-disk type keeps the fields it does not know, so that reading and writing back loses nothing.

mod ids;
mod index;
mod lenient;
mod path;
mod process;
mod project;
mod runtime;
mod sandbox;
mod settings;
mod task;
mod timestamp;

pub use ids::{Alias, Attempt, BackendName, ProjectId, SessionId, TaskId, TaskNumber};
pub use index::{ProjectEntry, ProjectIndex};
pub use path::RepoPath;
pub use process::ProcessIdentity;
pub use project::{MergeSettings, MergeStrategy, Project, ProjectStatus};
pub use runtime::{AgentEntry, AgentState, DaemonInfo, Mode, Phase};
pub use sandbox::{NetworkSetting, ProjectSandbox, ResourceLimits, SandboxSettings, Sharing};
pub use settings::{AgentSettings, Appearance, Defaults, GitSettings, Settings, Updates};
pub use task::{Task, TaskStatus};
pub use timestamp::Timestamp;

/// Fields that this version does not know, kept as they are.
pub type Extra = std::collections::BTreeMap<String, serde_json::Value>;
