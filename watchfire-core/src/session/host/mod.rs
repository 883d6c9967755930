//! The host of a session's process, and the session's folder.

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod detached;
mod directory;
mod in_process;

pub use contract::{HostChannel, HostRequest, Hosted, HostedSession, SessionHost};
pub use detached::Detached;
pub use directory::SessionDirectory;
pub use in_process::InProcess;
