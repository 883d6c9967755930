//! The process of an agent and all its descendants: started on a terminal or on pipes, under a guardian that ends the
//! whole tree. Knows nothing of sessions.

mod attached;
mod background;
mod channel;
mod complaints;
mod contract;
mod errors;
mod guarded;
mod guardian;
mod hosting;
mod intake;
mod lines;
mod output;
mod pty;
mod run;
#[cfg(target_os = "linux")]
mod slice;
mod socket;
#[cfg(feature = "orchestrator")]
pub(in crate::session) mod splitter;
#[cfg_attr(not(target_os = "linux"), path = "group.rs")]
mod tree;
mod wire;

pub use attached::{Attached, run_attached};
pub use contract::{Exit, Output, SessionProcess};
pub(in crate::session) use guarded::{Adopted, Guarded, Host};
pub(in crate::session) use lines::LinesSession;
pub(in crate::session) use pty::PtySession;
pub use run::run;
