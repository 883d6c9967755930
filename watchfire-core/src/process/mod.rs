//! Everything that starts a program goes through here.
//!
//! [`CommandSpec`] says what to start, as plain data that wrappers go around. With the feature `runtime`, `helper` is
//! how our own program runs again in another role, `spawn` and `run_blocking` start programs, and `ProcessIdentity`
//! tells later whether one still runs.

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
pub(crate) mod spawn;
mod spec;
#[cfg(feature = "runtime")]
pub(crate) mod wait;

#[cfg(feature = "runtime")]
#[doc(hidden)]
pub use inventory as __inventory;

pub use crate::model::ProcessIdentity;
#[cfg(feature = "runtime")]
pub use capture::{Bounded, Captured, RunLimits, run_blocking};
#[cfg(feature = "runtime")]
pub use liveness::Liveness;
#[cfg(feature = "runtime")]
pub use spawn::{Group, SpawnOptions, resolve_program, spawn};
pub use spec::CommandSpec;
