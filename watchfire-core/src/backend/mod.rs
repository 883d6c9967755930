//! Seam 1: agent programs.
//!
//! A [`Backend`] describes one agent CLI: its name, how to find it, how to prepare a session, how to type into it and how
//! to interpret what it shows. It starts nothing itself. [`prepare`](Backend::prepare) returns a [`Launch`], plain data
//! that the orchestrator confines, starts and watches. The smallest backend is about forty lines: see
//! `examples/custom-backend`.

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod delivery;
mod dialogue;
mod fact;
mod input_box;
mod launch;
mod registry;
mod transcript;
mod usage;

pub use contract::{Backend, Capabilities, LocatedProgram, ProgramSearch, SessionContext};
pub use delivery::{Delivery, Framing, SubmitKeys};
pub use dialogue::{Dialogue, Move};
pub use fact::{Fact, FailedAccess, Issue, IssueKind, Observation, Source, Status};
pub use input_box::InputBox;
#[doc(hidden)]
pub use inventory as __inventory;
pub use launch::{
    FileToWrite, Grant, Launch, LeftBehind, LinkToMake, PromptDelivery, Readiness, Secret, Transport,
};
pub use registry::{Backends, Family, Registration};
pub use transcript::{Message, Part, Role, Transcript, TranscriptFormat};
#[cfg(feature = "orchestrator")]
pub(crate) use usage::Tally;
pub use usage::{Price, Usage, total_usage};
