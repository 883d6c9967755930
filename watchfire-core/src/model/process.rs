//! The identity of a process.

use serde::{Deserialize, Serialize};

/// A process, distinguished from all others that had or will have its number. It can be stored and compared after a
/// restart or a reboot.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process id in our pid namespace.
    pub pid: u32,
    /// Time of its start in clock ticks since the boot, or 0 if the system does not report it.
    pub start_time: u64,
    /// The id of the boot in which it started, or empty if the system does not report it.
    pub boot_id: String,
}
