//! The reference daemon: an orchestrator that stays, with an API for many clients.
//!
//! [`run`] is the whole program. It holds the lock of its home, serves its services on a Unix socket and on a port of
//! the loopback interface, writes `daemon.yaml` once both accept connections, and leaves its agents at work when it ends.

#![forbid(unsafe_code)]

mod agents_file;
mod attach;
pub mod compose;
mod connections;
mod daemon;
mod daemon_log;
mod deadline;
mod identity;
mod last_client;
mod life;
mod notify;
#[cfg(feature = "otel")]
mod otel;
mod program;
mod repositories;
mod service;
#[cfg(feature = "tls")]
mod tls;
mod watchers;
mod within;

pub use daemon::Daemon;
pub use life::{Options, run};
pub use program::{DaemonArgs, main, program};
pub use repositories::Repositories;
pub use service::{earlier, history, queue};
#[cfg(feature = "tls")]
pub use tls::{TlsArgs, TlsOptions};
pub use within::{Within, within};
