//! The agent's process group, where there are no subreapers: descendants that left it are out of reach.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::model::ProcessIdentity;
use crate::process::Liveness;

/// Sends `signal` to the agent's group.
pub(super) fn signal_all(agent: Option<Pid>, signal: Signal) {
    if let Some(agent) = agent {
        // It may have ended just now.
        let _ = kill_process_group(agent, signal);
    }
}

/// Returns nothing: without a process tree, the processes are not known.
pub(super) fn processor_time(_guardian: u32) -> Option<Duration> {
    None
}

/// Returns false: without a process tree, the remaining processes are not known.
pub(super) fn only_leaving() -> bool {
    false
}

/// Kills the agent's group.
pub(super) fn kill_all(agent: Option<Pid>) {
    signal_all(agent, Signal::KILL);
}

/// Kills a guardian that does not react. Its agent's group is killed when its end is noticed.
pub(super) fn kill_with_root(guardian: &ProcessIdentity) {
    if guardian.liveness() != Liveness::Dead
        && let Ok(pid) = guardian.rustix_pid()
    {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::KILL);
    }
}
