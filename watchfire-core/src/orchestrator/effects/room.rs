//! Room on the disk, in memory and among the file descriptors. An agent without it fails in ways that look like its own fault.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Resource;

use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::{Error, ErrorKind, Result};

/// Free bytes below which a disk counts as full.
const LEAST: u64 = 1 << 20;

/// Available bytes of memory below which no session starts. Agents need more, and the kernel would kill one of those at
/// work for the new one.
const LEAST_MEMORY: u64 = 128 << 20;

/// Free file descriptors below which no session starts. One that runs keeps about seven; its start, and the merges of those
/// that end meanwhile, need more for a moment.
const LEAST_DESCRIPTORS: u64 = 32;

/// Returns an error if the disk, the memory or the file descriptors are too few for one more session.
///
/// # Errors
/// `out_of_space`; `io`, with the system's error for a lack of memory or descriptors.
pub(super) async fn check_all(shared: &Arc<ProjectShared>) -> Result<()> {
    check(shared).await?;
    blocking("asking for room for a session", || {
        enough(available(Path::new("/")))?;
        enough_descriptors(rustix::process::getrlimit(Resource::Nofile).current, open_descriptors()?)
    })
    .await
}

/// Returns the number of our open descriptors.
fn open_descriptors() -> Result<u64> {
    match std::fs::read_dir("/dev/fd") {
        // The listing itself is open meanwhile.
        Ok(entries) => Ok((entries.count() as u64).saturating_sub(1)),
        // Not even one is free to list them with.
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => Ok(u64::MAX),
        Err(error) => {
            let error = Error::io("counting the open files", error).with_path("/dev/fd");
            // A system without the folder has enough.
            if error.is_trouble() { Err(error) } else { Ok(0) }
        }
    }
}

fn enough_descriptors(most: Option<u64>, open: u64) -> Result<()> {
    match most.map(|most| most.saturating_sub(open)).filter(|free| *free < LEAST_DESCRIPTORS) {
        None => Ok(()),
        Some(free) => Err(Error::new(ErrorKind::Io, "too few file descriptors are free")
            .with("free", free)
            .with("ulimit -n", most.unwrap_or_default())
            .with_source(io::Error::from(Errno::MFILE))),
    }
}

/// Returns an error if the disk of the project or of its sessions is full.
///
/// # Errors
/// `out_of_space`.
pub(super) async fn check(shared: &Arc<ProjectShared>) -> Result<()> {
    let places = [shared.state_dir.clone(), shared.root.clone()];
    blocking("asking for room on the disk", move || {
        for path in places {
            // A file system that cannot say so is not full.
            let free =
                rustix::fs::statvfs(&path).map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
            if free < LEAST {
                return Err(Error::new(ErrorKind::OutOfSpace, "the disk is full")
                    .with("free_bytes", free)
                    .with_path(path));
            }
        }
        Ok(())
    })
    .await
}

fn enough(available: Option<u64>) -> Result<()> {
    // A system that does not say so has enough.
    match available.filter(|available| *available < LEAST_MEMORY) {
        None => Ok(()),
        Some(available) => Err(Error::new(ErrorKind::Io, "too little memory is free")
            .with("available_mb", available >> 20)
            .with_source(io::Error::from(Errno::NOMEM))),
    }
}

/// Returns the bytes of memory that are still available on the machine, or in our cgroups if that is less.
fn available(root: &Path) -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let meminfo = read("proc/meminfo")?;
    let swap = field(&meminfo, "SwapFree:").unwrap_or(0);
    let machine = field(&meminfo, "MemAvailable:").map(|kilobytes| (kilobytes + swap) << 10);
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    // A limit of any group around ours holds for us, too.
    let around = own.into_iter().flat_map(|own| Path::new(own).ancestors());
    machine
        .into_iter()
        .chain(around.filter_map(|group| left_in(&root.join("sys/fs/cgroup").join(group))))
        .min()
}

/// Returns the bytes that a cgroup may still use, if it has a limit.
fn left_in(group: &Path) -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(group.join(file)).ok();
    let max: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    // The kernel takes these back before it kills anything.
    let caches = ["inactive_file ", "active_file ", "slab_reclaimable "];
    let cached = caches.iter().filter_map(|name| field(&stat, name)).sum();
    Some(max.saturating_sub(used.saturating_sub(cached)))
}

/// Returns the number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_machine_and_our_cgroup_have() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(available(root.path()), None);
        write(
            "proc/meminfo",
            "MemTotal:       8000000 kB\nMemAvailable:    184320 kB\nSwapFree:  20480 kB\n",
        );
        assert_eq!(available(root.path()), Some(200 << 20));
        assert!(enough(available(root.path())).is_ok());
        write("proc/self/cgroup", "0::/a.slice/b.scope\n");
        write("sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
        assert_eq!(available(root.path()), Some(200 << 20), "no limit");
        write("sys/fs/cgroup/a.slice/b.scope/memory.max", "104857600\n");
        write("sys/fs/cgroup/a.slice/b.scope/memory.current", "94371840\n");
        write(
            "sys/fs/cgroup/a.slice/b.scope/memory.stat",
            "anon 1\ninactive_file 10485760\nactive_file 10485760\n",
        );
        assert_eq!(available(root.path()), Some(30 << 20));
        write("sys/fs/cgroup/a.slice/memory.max", "83886080\n");
        write("sys/fs/cgroup/a.slice/memory.current", "73400320\n");
        assert_eq!(available(root.path()), Some(10 << 20), "of the group around it");
        write("sys/fs/cgroup/a.slice/memory.max", "max\n");
        let error = enough(available(root.path())).unwrap_err();
        assert!(error.is_trouble(), "{error:?}");
        assert_eq!(
            error.report(),
            "too little memory is free (available_mb: 30): Cannot allocate memory (os error 12)"
        );
    }

    #[test]
    fn the_last_descriptors_are_kept() {
        assert!(enough_descriptors(Some(100), 100 - LEAST_DESCRIPTORS).is_ok());
        assert!(enough_descriptors(None, 1_000_000).is_ok(), "no limit");
        let error = enough_descriptors(Some(100), 101 - LEAST_DESCRIPTORS).unwrap_err();
        assert!(error.is_trouble(), "{error:?}");
        assert_eq!(
            error.report(),
            "too few file descriptors are free (free: 31, ulimit -n: 100): Too many open files (os error 24)"
        );
    }
}
