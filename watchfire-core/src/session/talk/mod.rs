//! The exchange between a session and its agent: texts and keys to it, messages and claims from it, and its end.

pub(in crate::session) mod budget;
pub(in crate::session) mod control;
pub(in crate::session) mod deadline;
pub(in crate::session) mod deliver;
pub(in crate::session) mod desk;
pub(in crate::session) mod last_call;
pub(in crate::session) mod nudge;
pub(in crate::session) mod opening;
mod signals;
pub(in crate::session) mod socket;
pub(in crate::session) mod spool;

pub(crate) use budget::Meter;
pub(crate) use deadline::Deadline;
pub(crate) use desk::{Desk, Reply};
pub(crate) use last_call::Uncommitted;
pub(crate) use signals::SignalWatch;
