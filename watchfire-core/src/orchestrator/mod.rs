//! The public handle: run tasks of projects in this process.
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
//! Four rooms on a common ground, with arrows one way: `api` (handles, requests, the log that goes out) uses `dispatch`
//! (takes facts in one order, steps the schedule, records, emits; the only one that emits), which hands commands to
//! `effects` (start, capture, merge, verify, publish, prune: carry a command out, answer with a fact), which ask
//! `compose` what one session gets (folders, launch, policy, environment). `shared` is what all of them need: the parts
//! of the orchestrator, the open project, the way to the dispatcher, the log.

mod api;
mod compose;
mod dispatch;
mod effects;
mod shared;

pub use crate::schedule::RunOptions;
pub use api::{
    ChatRequest, ConfineRequest, Confinement, MergeOptions, Orchestrator, OrchestratorBuilder, ProjectHandle,
    Run, RunRequest, Snapshot, Subscription, TaskInfo,
};
pub use compose::{SandboxRecord, Spent};
pub use shared::{Gap, LogStream, OpenStore, Record, Seen};
