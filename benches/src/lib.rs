//! What the benchmarks share.

pub mod agent;
pub mod api;
pub mod proc;
mod report;
pub mod tmux;

pub use report::{Report, median};

use std::time::Instant;

/// Milliseconds since `start`.
#[must_use]
pub fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
