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

#[cfg(feature = "yaml")]
mod actor;
#[cfg(feature = "yaml")]
mod handle;
#[cfg(feature = "runtime")]
mod host;
#[cfg(feature = "runtime")]
mod process;
#[cfg(feature = "runtime")]
mod recording;
#[cfg(feature = "yaml")]
mod screen;
#[cfg(feature = "yaml")]
mod state;
#[cfg(feature = "yaml")]
mod talk;
#[cfg(all(test, feature = "yaml"))]
mod tests;
#[cfg(feature = "yaml")]
mod watch;

#[cfg(feature = "yaml")]
pub(crate) use actor::{Notes, Reach, SessionParts, Taken};
#[cfg(feature = "yaml")]
pub use handle::Session;
#[cfg(feature = "testing")]
pub use host::conformance;
#[cfg(feature = "runtime")]
pub use host::{
    Detached, HostChannel, HostRequest, Hosted, HostedSession, InProcess, SessionDirectory, SessionHost,
};
#[cfg(feature = "runtime")]
pub use process::{Attached, Exit, Output, SessionProcess, run, run_attached};
#[cfg(feature = "runtime")]
pub use recording::{Asciicast, AsciicastVersion, FollowLines, FollowRecording, Recorded, Recording};
#[cfg(feature = "yaml")]
pub(crate) use screen::LogFile;
#[cfg(feature = "yaml")]
pub use screen::{AttachRequest, Attachment, ScreenChange, ScreenUpdate};
#[cfg(feature = "yaml")]
pub(crate) use state::Counted;
#[cfg(feature = "yaml")]
pub use state::{Blocks, Cause, Claim, Completion, Ended, Receipt, SessionInfo};
#[cfg(feature = "yaml")]
pub(crate) use talk::{Deadline, Desk, Meter, SignalWatch, Uncommitted};
#[cfg(feature = "yaml")]
pub(crate) use watch::{RefusalReporter, Sinks};
