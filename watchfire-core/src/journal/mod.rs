//! The changes of a project's lives, durable before they take effect.
//!
//! An [`Entry`] is one [`Change`](crate::schedule::Change) of the schedule. Applying all of them in order gives the
//! [`State`] that a killed process left. The next start compares that state with the world, and feeds what it finds
//! to the same machine that made the changes. The log of a project is its journal read out.
//!
//! With the feature `runtime`, [`Journal`] keeps the entries in a folder of its own, and `JournalHandle` shares one
//! among tasks, many commits to one `fdatasync`. An append that was acknowledged survives a crash of the machine; one
//! that was not is there whole or not at all. Damage is reported, never hidden, and everything readable is kept.

mod entry;

#[cfg(feature = "runtime")]
mod frame;
#[cfg(feature = "runtime")]
mod handle;
#[cfg(feature = "runtime")]
mod legacy;
#[cfg(feature = "runtime")]
mod log;
#[cfg(feature = "runtime")]
mod read;
#[cfg(feature = "runtime")]
mod segment;

pub use entry::{Cursor, Entry, State};
#[cfg(feature = "runtime")]
pub(crate) use handle::JournalHandle;
#[cfg(feature = "runtime")]
pub use log::Journal;
#[cfg(feature = "runtime")]
pub(crate) use log::Opened;
#[cfg(feature = "runtime")]
pub use read::Warning;
