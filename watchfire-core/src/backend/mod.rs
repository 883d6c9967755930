//! Seam 1: an agent, as a program with habits.
//!
//! [`Backend`] says who an agent is, how to prepare one session of it, how to talk to it and how to read it. It never
//! starts anything itself: [`prepare`](Backend::prepare) returns a [`Launch`], plain data that the orchestrator
//! confines, starts and watches. The smallest backend is about forty lines: see `examples/custom-backend`.

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

pub use contract::{Backend, Capabilities, Located, ProgramSearch, SessionContext};
pub use delivery::{Delivery, Framing, SubmitKeys};
pub use dialogue::{Dialogue, Move};
pub use fact::{Fact, Issue, IssueKind, Observation, Source, Status};
pub use input_box::InputBox;
#[doc(hidden)]
pub use inventory as __inventory;
pub use launch::{FileToWrite, Grant, Launch, LinkToMake, PromptDelivery, Readiness, Secret, Transport};
pub use registry::{Backends, Family, Registration};
pub use transcript::{Message, Part, Role, Transcript, TranscriptFormat};
pub use usage::{Price, Tally, Usage, total_usage};
