//! Figures of processes, as the kernel keeps them under `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Returns the proportional set size of a process in KiB.
#[must_use]
pub fn pss(pid: u32) -> Option<f64> {
    field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

/// Returns the anonymous part of the proportional set size of a process in KiB: what it does not map from files.
#[must_use]
pub fn anonymous(pid: u32) -> Option<f64> {
    field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss_Anon:")
}

/// Returns the resident set size of a process in KiB.
#[must_use]
pub fn rss(pid: u32) -> Option<f64> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// Returns the CPU seconds that a process has used so far.
#[must_use]
pub fn cpu(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns the number of open descriptors of a process.
#[must_use]
pub fn descriptors(pid: u32) -> f64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as f64
}

/// Returns the number of threads of a process.
#[must_use]
pub fn threads(pid: u32) -> f64 {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) as f64
}

/// Returns how often each thread of a process has been woken.
#[must_use]
pub fn wakeups(pid: u32) -> BTreeMap<u32, f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            let id = thread.file_name().to_str()?.parse().ok()?;
            Some((id, field(&status, "voluntary_ctxt_switches:")?))
        })
        .collect()
}

/// Returns how often the threads that are there now were woken since then: those that have ended do not count.
#[must_use]
pub fn woken(before: &BTreeMap<u32, f64>, now: &BTreeMap<u32, f64>) -> f64 {
    now.iter().map(|(thread, count)| count - before.get(thread).copied().unwrap_or(0.0)).sum()
}

/// Returns the children of this process with that name.
#[must_use]
pub fn children(name: &str) -> Vec<u32> {
    let me = std::process::id();
    all().into_iter().filter(|(_, (parent, is))| *parent == me && is == name).map(|(pid, _)| pid).collect()
}

/// Returns the processes that descend from this one, with their names.
#[must_use]
pub fn descendants() -> Vec<(u32, String)> {
    let all = all();
    let (mut family, mut parents) = (BTreeSet::<u32>::new(), BTreeSet::from([std::process::id()]));
    while !parents.is_empty() {
        parents = all.iter().filter(|(_, (of, _))| parents.contains(of)).map(|(pid, _)| *pid).collect();
        family.extend(&parents);
    }
    all.into_iter().filter(|(pid, _)| family.contains(pid)).map(|(pid, (_, name))| (pid, name)).collect()
}

/// Every process, with its parent and its name.
fn all() -> BTreeMap<u32, (u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        Some((pid, (tail.split_whitespace().nth(1)?.parse().ok()?, name)))
    })
    .collect()
}

fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find(|line| line.starts_with(name))?.split_whitespace().nth(1)?.parse().ok()
}
