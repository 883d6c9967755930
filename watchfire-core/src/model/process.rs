//! Which process.

use serde::{Deserialize, Serialize};

/// One process among all that ever had its number: safe to write down and to compare after a restart or a reboot.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number, in our pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks since the boot; 0 where the system does not tell.
    pub start_time: u64,
    /// The boot in which it started; empty where the system does not tell.
    pub boot_id: String,
}
