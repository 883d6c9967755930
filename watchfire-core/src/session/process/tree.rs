//! The descendants of this process: how they are found and signalled.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::model::ProcessIdentity;
use crate::process::Liveness;
use crate::process::liveness::Stat;

/// Sends `signal` to every descendant that can be found now.
pub(super) fn signal_all(_agent: Option<Pid>, signal: Signal) {
    let root = std::process::id();
    for (pid, parent) in descendants(root) {
        signal_one(pid, parent, root, signal);
    }
}

/// Kills every descendant, so that none can outrun it. First all are stopped, in rounds until no new ones
/// turn up, because a stopped process cannot fork. Then all are killed.
pub(super) fn kill_all(agent: Option<Pid>) {
    stop_all(std::process::id());
    signal_all(agent, Signal::KILL);
}

/// Kills a guardian that hangs, with its whole tree. The guardian goes last: until then its orphans stay
/// below it, where they are found.
pub(super) fn kill_with_root(guardian: &ProcessIdentity) {
    let Ok(root) = guardian.rustix_pid() else { return };
    // The handle comes before the check of the identity, so that the checked process is the one that is
    // signalled.
    let Ok(handle) = pidfd_open(root, PidfdFlags::empty()) else { return };
    if guardian.liveness() != Liveness::Alive {
        return;
    }
    // A guardian that only hung must not start anything between the rounds.
    let _ = pidfd_send_signal(&handle, Signal::STOP);
    stop_all(guardian.pid);
    for (pid, parent) in descendants(guardian.pid) {
        signal_one(pid, parent, guardian.pid, Signal::KILL);
    }
    let _ = pidfd_send_signal(&handle, Signal::KILL);
}

/// Stops every descendant of `root` that can be found, until no new ones turn up.
fn stop_all(root: u32) {
    /// Upper bound for the rounds, enough for any honest tree. After that, the caller kills the processes found so far
    /// and repeats.
    const ROUNDS: usize = 64;
    let mut stopped = BTreeSet::new();
    // A process may fork after it was listed and before it is stopped. The next round finds its child.
    for _ in 0..ROUNDS {
        let before = stopped.len();
        for (pid, parent) in descendants(root) {
            if stopped.insert(pid) {
                signal_one(pid, parent, root, Signal::STOP);
            }
        }
        if stopped.len() == before {
            break;
        }
    }
}

/// Signals a process if it is still a child of `parent`, or of `root`, which inherits orphans. So a reused
/// number hits no other process.
fn signal_one(pid: u32, parent: u32, root: u32, signal: Signal) {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(target, PidfdFlags::empty()) else { return };
    // The handle pins the process. Only after that is its parent read, so both are about the same process.
    if Stat::read(pid).is_ok_and(|stat| stat.parent == parent || stat.parent == root) {
        // It may be gone, or not ours to signal; the caller looks again.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// Returns true if all remaining processes have stopped running a program and have no children. The kernel
/// takes a while to release what a sandbox's first process held.
pub(super) fn only_leaving() -> bool {
    let me = std::process::id();
    let left = children(me);
    // In this order: a process that is leaving starts nothing new, and one that has not ended yet has not
    // passed its children on to its parent.
    let is_leaving = |pid: &u32| {
        Stat::read(*pid).is_ok_and(|stat| stat.leaving)
            && children(*pid).is_empty()
            && Stat::read(*pid).is_ok_and(|stat| !stat.ended)
    };
    // Without the kernel's lists of children, nothing is known, so the caller waits.
    !left.is_empty() && left.iter().all(is_leaving) && children(me) == left
}

/// Returns every descendant of `root` with its parent, parents first.
fn descendants(root: u32) -> Vec<(u32, u32)> {
    // Kernels may be built without `CONFIG_PROC_CHILDREN`. Then all of `/proc` has to be read.
    let lists = fs::exists(format!("/proc/{root}/task/{root}/children")).unwrap_or(false);
    let all = if lists { Vec::new() } else { everything() };
    let listed = |parent| if lists { children(parent) } else { children_among(&all, parent) };
    let mut found = Vec::new();
    let mut parents = VecDeque::from([root]);
    let mut seen = BTreeSet::from([root]);
    while let Some(parent) = parents.pop_front() {
        for child in listed(parent) {
            // Lists are not read together: a process that changed its parent in between is in two of them.
            if seen.insert(child) {
                found.push((child, parent));
                parents.push_back(child);
            }
        }
    }
    found
}

/// Returns the processor time of `root` and its descendants, including children that have ended.
pub(super) fn processor_time(root: u32) -> Option<Duration> {
    let pids = std::iter::once(root).chain(descendants(root).into_iter().map(|(pid, _)| pid));
    // A process that has ended since it was listed counts with its parent, once that has reaped it.
    let ticks: u64 = pids.filter_map(|pid| Some(Stat::read(pid).ok()?.ticks)).sum();
    Some(Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// Returns the children of every thread of a process.
fn children(parent: u32) -> Vec<u32> {
    // Each thread has a list of its own, with the children that this thread forked.
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let mut children = Vec::new();
    for list in lists {
        children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    children
}

fn children_among(all: &[(u32, u32)], parent: u32) -> Vec<u32> {
    all.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid).collect()
}

/// Returns every process with its parent.
fn everything() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, Stat::read(pid).ok()?.parent))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grandchildren_are_found() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It writes a line once the grandchild runs.
        std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let found = descendants(std::process::id());
        assert!(found.contains(&(child.id(), std::process::id())), "{found:?}");
        for (pid, parent) in &found {
            let both = (children(*parent), children_among(&everything(), *parent));
            assert!(both.0.contains(pid) && both.1.contains(pid), "both ways agree on {pid}: {both:?}");
        }
        assert!(!only_leaving(), "they run");
        let grandchild = found.iter().find(|(_, parent)| *parent == child.id()).copied();
        let (pid, parent) = grandchild.expect("the sleep");
        signal_one(pid, parent, std::process::id(), Signal::KILL);
        child.wait().unwrap();
    }
}
