//! The state machine: takes facts in, and decides. One file for each thing that it decides about.

mod admission;
pub(in crate::schedule) mod block;
mod changes;
mod merging;
mod queue;
mod requests;
mod runs;
mod sessions;
mod state;
mod stops;
mod time;
mod wildfire;

pub use block::Block;
pub(crate) use queue::Bisection;
pub(crate) use state::Schedule;
