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
//! What the journal records is in `record`: a new state is a variant of [`LifeState`], a new request one of [`Request`].
//! A new fact is a variant of `Fact`, taken in by `Schedule::step`. What is decided is in `machine`: requests in
//! `requests`, attempts in `sessions`, merges in `merging`, stops in `stops`, and everything that comes due in `time`;
//! `admission` says which task starts and `runs` when a run is over. Every change goes through `changes`. The model in
//! `tests` has the invariants in words: a new fact belongs there first.

mod board;
mod fact;
mod machine;
#[cfg(feature = "orchestrator")]
mod places;
mod record;
pub mod resolve;
#[cfg(test)]
mod tests;

pub(crate) use board::{Card, Limits};
pub use fact::{Change, SessionEnd};
pub(crate) use fact::{Command, Fact, MergeResult, Outcome, Step, Ticket};
pub use machine::Block;
pub(crate) use machine::{Bisection, Schedule};
pub use record::{
    Accept, Accepted, Answer, CallerEnvironment, ChatPlace, CommandId, CommandRecord, Course, Ending, Ledger,
    Life, LifeId, LifeState, MergeRecord, Notice, NoticeCode, Refusal, Request, ResumeTarget, Run, RunEnd,
    RunId, RunOptions, RunSummary, Scope, SessionRef, StopReason, Subject, TaskRecord, Wait,
};
