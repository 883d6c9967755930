//! Fakes to test a program against that embeds an orchestrator. Feature `testing`.
//!
//! [`Orchestrator`](crate::orchestrator::Orchestrator), [`ProjectHandle`](crate::orchestrator::ProjectHandle) and
//! [`Session`](crate::session::Session) stay the real ones; what lies below them is replaced:
//!
//! - [`FakeHost`] starts no process. Its sessions print what the test says, and the test reads what was typed.
//! - [`FakeWorkspace`] needs no git. Merges conflict and are held when the test wants it.
//! - [`FakeClock`] skips the hours of a limit.
//!
//! The suites for implementations of the seams are in [`conformance`](crate::conformance).

mod clock;
mod workspace;

pub use crate::session::fake::{FakeAgent, FakeHost};
pub use clock::FakeClock;
pub use workspace::FakeWorkspace;
