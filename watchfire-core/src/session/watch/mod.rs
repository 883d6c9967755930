//! The state of an agent, from all that it shows: its status, issues, tokens, refusals, and the result of its
//! session.

mod blocks;
pub(in crate::session) mod complaints;
pub(in crate::session) mod ended;
pub(in crate::session) mod refused;
pub(in crate::session) mod said;
pub(in crate::session) mod silence;
pub(in crate::session) mod standing;
pub(in crate::session) mod tallies;
pub(in crate::session) mod transcript;

pub use blocks::Blocks;
pub use ended::{Cause, Ended};
pub(crate) use refused::RefusalReporter;
pub(crate) use tallies::Counted;
