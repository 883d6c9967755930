//! What the orchestrator means to do and what came of it, on disk before it counts.
//!
//! Every effect on the world is written down twice: an [`Entry::Intent`] before, an [`Entry::Outcome`] after. Folding
//! all entries in order ([`fold()`]) gives the [`State`] in which a killed process left things, and
//! [`recovery::plan`] what the next one must see to before it does anything else. Both are pure.
//!
//! With the feature `runtime`, [`Journal`] keeps the entries in a folder of its own, and [`JournalHandle`] shares one
//! among tasks, many commits to one `fdatasync`. What [`Journal::append`] has acknowledged survives a crash of the
//! machine; what it has not may be there or not, but an append is never half there. Damage is reported, never hidden,
//! and everything that can still be read is kept.

mod entry;
mod fold;
pub mod recovery;

#[cfg(feature = "runtime")]
mod frame;
#[cfg(feature = "runtime")]
mod handle;
#[cfg(feature = "runtime")]
mod log;
#[cfg(feature = "runtime")]
mod read;
#[cfg(feature = "runtime")]
mod segment;

#[cfg(feature = "runtime")]
pub use crate::files::DirLock;
pub use entry::{ChainRecord, Entry, IntentId, Position, Step, StepResult, TaskState};
pub use fold::{LiveSession, State, TaskRecord, fold};
#[cfg(feature = "runtime")]
pub use handle::JournalHandle;
#[cfg(feature = "runtime")]
pub use log::{Journal, JournalOptions};
#[cfg(feature = "runtime")]
pub use read::Warning;
