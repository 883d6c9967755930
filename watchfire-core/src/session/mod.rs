//! The life of one agent process: how it is started, watched, talked to and ended.
//!
//! [`SessionProcess`] is the agent's process as a session sees it, on a pseudo-terminal or on pipes. It runs under a
//! guardian, a process of ours that ends everything the agent started. [`run()`] runs a plain command to its end in the
//! same way, and [`run_attached()`] runs one on our own streams.
//!
//! A [`SessionHost`] starts these processes and keeps them: [`InProcess`] for as long as this program runs, [`Detached`]
//! beyond its end.
//!
//! [`Session`] watches over such a process: it feeds the terminal and the log, types the texts that people
//! send, checks the agent's claims, and ends with the whole process tree.

#[cfg(feature = "orchestrator")]
mod actor;
#[cfg(feature = "testing")]
pub(crate) mod fake;
#[cfg(feature = "orchestrator")]
mod handle;
#[cfg(feature = "runtime")]
mod host;
#[cfg(feature = "runtime")]
mod process;
#[cfg(feature = "runtime")]
mod recording;
#[cfg(feature = "orchestrator")]
mod screen;
#[cfg(feature = "orchestrator")]
mod state;
#[cfg(feature = "orchestrator")]
mod talk;
#[cfg(all(test, feature = "orchestrator"))]
mod tests;
#[cfg(feature = "orchestrator")]
mod watch;

#[cfg(feature = "orchestrator")]
pub(crate) use actor::{Reach, SessionParts, Taken};
#[cfg(feature = "orchestrator")]
pub use handle::Session;
#[cfg(feature = "orchestrator")]
pub(crate) use handle::blocking;
#[cfg(feature = "testing")]
pub use host::conformance;
#[cfg(feature = "runtime")]
pub use host::{
    Detached, HostChannel, HostRequest, Hosted, HostedSession, InProcess, SessionDirectory, SessionHost,
};
#[cfg(feature = "runtime")]
pub use process::{Attached, Exit, Output, SessionProcess, run, run_attached};
#[cfg(feature = "runtime")]
pub(crate) use recording::Checkpoints;
pub use recording::{Asciicast, AsciicastVersion, FollowLines, FollowRecording, Recorded, Recording};
#[cfg(feature = "orchestrator")]
pub(crate) use screen::LogFile;
#[cfg(feature = "orchestrator")]
pub use screen::{AttachRequest, Attachment, ScreenChange, ScreenUpdate};
#[cfg(feature = "orchestrator")]
pub use state::{Blocks, Cause, Claim, Completion, Ended, Receipt, SessionInfo};
#[cfg(feature = "orchestrator")]
pub(crate) use state::{Counted, Left, Mailbox, Notes};
#[cfg(feature = "orchestrator")]
pub(crate) use talk::{Deadline, Desk, Meter, Reply, SignalWatch, Uncommitted};
#[cfg(feature = "orchestrator")]
pub(crate) use watch::{RefusalReporter, SHORTEST_STALL, STALL_AFTER, Sinks};
