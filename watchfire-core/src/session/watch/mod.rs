//! Everything that an agent shows is read here: its output, its transcript, its silence, the errors of its tools.

pub(in crate::session) mod complaints;
pub(in crate::session) mod pump;
pub(in crate::session) mod refused;
pub(in crate::session) mod silence;
pub(in crate::session) mod transcript;

pub(crate) use pump::Sinks;
pub(crate) use refused::RefusalReporter;
pub(crate) use silence::{SHORTEST_STALL, STALL_AFTER};
