//! One run of one agent.
//!
//! [`SessionProcess`] is the agent's process as a session sees it. [`PtySession`] runs it on a pseudo-terminal,
//! [`LinesSession`] on pipes; both under a guardian, a process of ours that ends whatever the agent started. [`run()`]
//! does the same for a command that only has to be run to its end, [`run_attached()`] for one on our own streams.

//! [`Session`] watches over such a process: it feeds the terminal and the log, types what people say, sees what the
//! agent claims, and ends with the whole process tree.

#[cfg(feature = "yaml")]
mod actor;
mod attached;
mod channel;
#[cfg(feature = "yaml")]
mod claim;
#[cfg(feature = "yaml")]
mod complaints;
#[cfg(feature = "yaml")]
mod control;
#[cfg(feature = "yaml")]
mod converse;
#[cfg(feature = "yaml")]
mod deliver;
mod directory;
#[cfg(feature = "yaml")]
mod ended;
mod guarded;
mod guardian;
#[cfg(feature = "yaml")]
mod last_call;
mod lines;
#[cfg(feature = "yaml")]
mod log_file;
mod process;
mod pty;
#[cfg(feature = "yaml")]
mod pump;
#[cfg(feature = "yaml")]
mod refused;
#[cfg(feature = "yaml")]
mod reset_time;
mod run;
#[cfg(feature = "yaml")]
mod signals;
#[cfg(feature = "yaml")]
mod splitter;
#[cfg(feature = "yaml")]
mod spool;
#[cfg(feature = "yaml")]
mod standing;
#[cfg(feature = "yaml")]
mod transcript;
#[cfg_attr(not(target_os = "linux"), path = "group.rs")]
mod tree;
#[cfg(feature = "yaml")]
mod untrusted;
mod wire;

#[cfg(feature = "yaml")]
pub(crate) use actor::{Reach, SessionParts};
#[cfg(feature = "yaml")]
pub use actor::{Session, SessionInfo};
pub use attached::{Attached, run_attached};
#[cfg(feature = "yaml")]
pub use claim::{Claim, Completion};
#[cfg(feature = "yaml")]
pub use deliver::Receipt;
pub use directory::SessionDirectory;
#[cfg(feature = "yaml")]
pub(crate) use directory::make_private;
#[cfg(feature = "yaml")]
pub use ended::{Cause, Ended};
#[cfg(feature = "yaml")]
pub(crate) use last_call::Uncommitted;
pub use lines::LinesSession;
#[cfg(feature = "yaml")]
pub(crate) use log_file::LogFile;
pub use process::{Exit, Output, SessionProcess};
pub use pty::PtySession;
#[cfg(feature = "yaml")]
pub(crate) use pump::Sinks;
#[cfg(feature = "yaml")]
pub(crate) use refused::Witness;
pub use run::run;
#[cfg(feature = "yaml")]
pub(crate) use signals::SignalWatch;
#[cfg(feature = "yaml")]
pub(crate) use untrusted::{open_file as open_untrusted, read_file as read_untrusted};
