//! What runs next. Pure: no clock, no I/O, no tokio.
//!
//! [`Chain`] is the state machine of one project: facts come in as [`Event`]s, decisions go out as [`Action`]s, and the
//! orchestrator carries them out. [`Queue`] orders merges, [`Bisection`] finds
//! the bad one among several, [`Guard`] stops endless restarts, [`resolve`] finds out
//! which backend and sandbox a session gets and who said so.

mod chain;
mod event;
mod guard;
mod queue;
pub mod resolve;
#[cfg(test)]
mod tests;

pub use crate::session::StopReason;
pub use chain::Chain;
pub use event::{Action, Card, Ending, Event, Limits, RunId, RunSummary, Scope, Waiting};
pub use guard::Guard;
pub use queue::{Bisection, MergeTicket, Queue};
