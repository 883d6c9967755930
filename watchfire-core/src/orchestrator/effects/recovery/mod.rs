//! Recovery of the lives of an earlier start: their sessions are taken over or ended, and their outcomes reported.

mod adopt;
mod recover;

pub(crate) use adopt::end_strangers;
pub(crate) use recover::{Unrecovered, recover, report_recovery, sessions_left, sweep};
