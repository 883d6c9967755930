//! The public handle: runs tasks of projects in this process.
//!
//! By itself it has no agent, no sandbox and no git, works in the project's own folder, and knows of a terminal only its text. The
//! builder takes all of these: the README has the usual composition.
//!
//! ```no_run
//! use watchfire_core::orchestrator::{Orchestrator, RunRequest};
//!
//! fn main() -> watchfire_core::Result<()> {
//!     watchfire_core::process::helper::run_if_asked();
//!     let runtime = tokio::runtime::Runtime::new().expect("a runtime");
//!     runtime.block_on(async {
//!         let orchestrator = Orchestrator::builder().start().await?;
//!         let project = orchestrator.open("/path/to/project").await?;
//!         let summary = project.run(RunRequest::all()).await?.wait().await?;
//!         println!("{} tasks", summary.endings.len());
//!         orchestrator.shutdown().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! Four rooms on a common ground, with arrows one way: `api` (handles, requests, the outgoing log) uses `dispatch`
//! (takes facts in one order, steps the schedule, records, emits; the only one that emits), which hands commands to
//! `effects` (start, capture, merge, verify, publish, prune: each carries out a command and answers with a fact),
//! which ask `compose` for the parts of one session (folders, launch, policy, environment), and `desk` to carry out the
//! calls of its agent. `shared` is used by all:
//! the parts of the orchestrator, the open project, the way to the dispatcher, the log.

mod api;
mod compose;
mod desk;
mod dispatch;
mod effects;
mod shared;

pub use api::{
    ChatRequest, ConfineRequest, Confinement, EndedChat, FollowSessions, Followed, MergeOptions,
    Orchestrator, OrchestratorBuilder, ProjectHandle, Run, RunRequest, Snapshot, Subscription, Subscriptions,
    TaskInfo, Undone,
};
pub use compose::SandboxRecord;
pub use effects::check_commands;
pub use shared::{
    Costs, CostsBy, Gap, LogStream, OpenStore, Proposal, Record, Seen, SessionLog, SessionOutcome, Spent,
    SpentRecord,
};
