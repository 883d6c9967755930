//! The decisions about what happens next. Pure: no clock, no I/O, no tokio.
//!
//! `Schedule` is the state machine of one project. It knows one thing, a [`Life`]: a piece of work from its request
//! to its ending. Facts go in, `Step`s come out: [`Change`]s, which the journal records, and `Command`s, which the
//! orchestrator's effects carry out and answer with further facts.
//!
//! ```text
//!              ┌──────────── retry, resume ────────────┐
//!              v                                       │
//!  request → waiting → starting → running → ending → capturing → queued → merging → verifying → publishing → ended
//!                                  │   ^                 ^         ^                                │
//!                                  v   │                 │         └── target moved ──┐             v
//!                            asking, limited ────────────┘                            └────────── held
//! ```
//!
//! A stop is part of a life and cannot be lost: from every state it leads to `ended`, except from `publishing` and
//! `incomplete`, which are completed. Beside the lives, there is only what they compete for: slots, merge queues,
//! blocked backends, runs. [`Ledger`] is the durable part; replaying all changes through [`Ledger::apply`] restores
//! it.
//!
//! # Where to change something
//!
//! A new state is a variant of [`LifeState`]; a new request one of [`Request`], decided in `requests`; a new fact one of
//! `Fact`, taken in by `Schedule::step`. Attempts are in `sessions`, merges in `merging`, stops in `stops`, and
//! everything that comes due in `time`; `admission` says which task starts and `runs` when a run is over. Every change
//! goes through `changes`. The model in `tests` has the invariants in words: a new fact belongs there first.

mod admission;
mod block;
mod board;
mod changes;
mod ending;
mod fact;
mod ledger;
mod life;
mod machine;
mod merging;
mod notice;
mod options;
#[cfg(feature = "yaml")]
mod places;
mod queue;
mod request;
mod requests;
pub mod resolve;
mod run;
mod runs;
mod session;
mod sessions;
mod stops;
#[cfg(test)]
mod tests;
mod time;

pub use block::Block;
pub(crate) use board::{Card, Limits};
pub use ending::{Ending, StopReason};
pub use fact::{Change, SessionEnd};
pub(crate) use fact::{Command, Fact, MergeResult, Outcome, Step, Ticket};
pub use ledger::{CommandRecord, Ledger, TaskRecord};
pub use life::{Answer, Life, LifeId, LifeState, SessionRef, Subject, Wait};
pub(crate) use machine::Schedule;
pub use notice::{Notice, NoticeCode};
pub use options::RunOptions;
pub(crate) use queue::Bisection;
pub use request::{Accepted, CommandId, Refusal, Request, ResumeTarget};
pub use run::{Run, RunEnd, RunId, RunSummary, Scope};
