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
//! The **dispatcher** takes in all facts in one order and decides; **effects** carry decisions out and report back; a
//! **session** owns one process. They share no state, only messages.

mod attempt;
mod branches;
mod builder;
mod compose;
mod confine;
mod dispatcher;
mod event;
mod events;
mod files;
mod handle;
mod launch;
mod memory;
mod merge;
mod policy;
mod project;
mod prune;
mod record;
mod request;
mod resume;
mod spent;
mod start;
mod verify;

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

pub use builder::{OpenStore, OrchestratorBuilder};
pub use confine::{ConfineRequest, Confinement};
pub use event::{Event, Step};
pub use events::{EventStream, Events, Seen};
pub use handle::{ChatRequest, Orchestrator, ProjectHandle};
pub use record::SandboxRecord;
pub use request::{Run, RunOptions, RunRequest, TaskInfo};
pub use spent::Spent;

/// How long we hold a task without renewing. The holder is the same after a restart, so this bounds only how long
/// another machine on the same store waits for one that is gone.
const LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs what blocks where blocking is allowed.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let failed = |error| Error::new(ErrorKind::Internal, what).with_source(error);
    tokio::task::spawn_blocking(act).await.map_err(failed)?
}
