//! The handles that embedders hold, and what they ask and get.

mod asking;
mod builder;
mod confine;
mod ended_chats;
mod following;
mod orchestrator;
mod project;
mod request;
mod run;
mod snapshot;
mod task_info;
mod undo;
mod watching;

pub use builder::OrchestratorBuilder;
pub use confine::{ConfineRequest, Confinement};
pub use ended_chats::EndedChat;
pub use following::{FollowSessions, Followed};
pub use orchestrator::Orchestrator;
pub use project::ProjectHandle;
pub use request::{ChatRequest, MergeOptions, RunRequest};
pub use run::Run;
pub use snapshot::{Snapshot, Subscription, Subscriptions};
pub use task_info::TaskInfo;
pub use undo::Undone;
