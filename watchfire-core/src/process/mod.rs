//! Starting programs. No other room starts one.
//!
//! [`CommandSpec`] describes a command as plain data that a sandbox can wrap. With the feature `runtime`, `spawn` and
//! `run_blocking` start one, `helper` runs the embedder's own program again in another role, and
//! [`ProcessIdentity`](crate::model::ProcessIdentity) finds out later whether a process still runs.

#[cfg(feature = "runtime")]
mod capture;
#[cfg(feature = "runtime")]
pub(crate) mod child;
#[cfg(feature = "runtime")]
pub mod helper;
#[cfg(feature = "runtime")]
mod inherited;
#[cfg(feature = "runtime")]
pub(crate) mod liveness;
#[cfg(feature = "runtime")]
#[cfg_attr(not(target_os = "linux"), path = "unmarked.rs")]
mod marked;
#[cfg(feature = "runtime")]
pub(crate) mod spawn;
mod spec;
#[cfg(feature = "runtime")]
pub(crate) mod wait;

#[cfg(feature = "runtime")]
pub use capture::{BoundedBytes, CommandOutput, RunLimits, run_blocking};
#[cfg(feature = "runtime")]
pub use liveness::Liveness;
#[cfg(feature = "runtime")]
pub(crate) use marked::end_marked;
#[cfg(feature = "runtime")]
pub use spawn::{Group, SpawnOptions, resolve_program, spawn};
pub use spec::CommandSpec;

/// Variable that carries the session's id in the environment of its guardian, its agent and all that they start.
#[cfg(feature = "runtime")]
pub const SESSION_MARK: &str = "WATCHFIRE_SESSION";
