//! Finding out whether a recorded process still runs.

use std::fs;
use std::io;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::model::ProcessIdentity;
use crate::{Error, ErrorKind, Result};

/// The state of a recorded process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// The process runs.
    Alive,
    /// The process has ended: it is gone, a zombie, from an earlier boot, or no program runs in it any more, and the kernel is about to
    /// remove it.
    Dead,
    /// Not known. Must not be treated as `Dead`.
    Unknown,
}

impl ProcessIdentity {
    /// Returns the identity of the process that has this pid now.
    ///
    /// # Errors
    /// `not_found` if there is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let start_time = match Stat::read(pid) {
            Ok(stat) => stat.start_time,
            // Without `/proc`, an identity has no start time and can never be more than `Unknown`.
            Err(_) if !Stat::supported() && exists(pid) != Some(false) => 0,
            Err(error) => return Err(Error::io("looking at a process", error).with("pid", pid)),
        };
        Ok(Self { pid, start_time, boot_id: boot_id() })
    }

    /// Returns the identity of a process of this boot with the given start time.
    pub(crate) fn with_start_time(pid: u32, start_time: u64) -> Self {
        Self { pid, start_time, boot_id: boot_id() }
    }

    /// Returns the identity of this process.
    ///
    /// # Errors
    /// I/O errors, where `/proc` cannot be read.
    pub fn current() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// Finds out whether the process still runs.
    ///
    /// A pid alone is not enough: it is reused, and starts over at boot. Start time and boot id tell processes apart.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        let boot_id = boot_id();
        // Nothing survives a reboot, whatever has the number now.
        if !boot_id.is_empty() && !self.boot_id.is_empty() && boot_id != self.boot_id {
            return Liveness::Dead;
        }
        if !Stat::supported() {
            return if exists(self.pid) == Some(false) { Liveness::Dead } else { Liveness::Unknown };
        }
        match Stat::read(self.pid) {
            // Recorded where start times are not known: the number may have been reused.
            Ok(_) if self.start_time == 0 => Liveness::Unknown,
            Ok(stat) if stat.start_time == self.start_time && !stat.ended && !stat.leaving => Liveness::Alive,
            Ok(_) => Liveness::Dead,
            Err(_) if exists(self.pid) == Some(false) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }

    pub(crate) fn rustix_pid(&self) -> Result<Pid> {
        i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "not a process number").with("pid", self.pid))
    }
}

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
    /// True for a zombie or a process that is being removed.
    pub(crate) ended: bool,
    /// True if the last thread is exiting: no program runs in the process any more, and only the kernel's cleanup is
    /// left, which callers need not wait for.
    pub(crate) leaving: bool,
    /// Processor time of the process and of its children that have ended, in clock ticks.
    pub(crate) ticks: u64,
}

/// The kernel's `PF_EXITING`.
const EXITING: u32 = 4;

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn supported() -> bool {
        fs::exists("/proc/self/stat").unwrap_or(false)
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field, the name, stands in parentheses and may itself contain any, so the last one ends it.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // Fields 9 (flags), 14 to 17 (times), 20 (threads) and 22 (start time) of proc(5), counted from the state.
        let flags: u32 = fields.nth(4)?.parse().ok()?;
        let times: Option<Vec<u64>> =
            fields.by_ref().skip(4).take(4).map(|ticks| ticks.parse::<i64>().ok()?.try_into().ok()).collect();
        let threads = fields.nth(2)?;
        let start_time = fields.nth(1)?.parse().ok()?;
        // A zombie keeps its number until its parent reaps it, but runs nothing any more.
        let ended = matches!(state, "Z" | "X" | "x");
        let ticks = times?.iter().sum();
        Some(Self { parent, start_time, ended, ticks, leaving: flags & EXITING != 0 && threads == "1" })
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

fn exists(pid: u32) -> Option<bool> {
    match test_kill_process(Pid::from_raw(i32::try_from(pid).ok()?)?) {
        // EPERM: the process exists and belongs to another user.
        Ok(()) | Err(rustix::io::Errno::PERM) => Some(true),
        Err(rustix::io::Errno::SRCH) => Some(false),
        Err(_) => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_read() {
        let text = "42 (a) b) S 7 1 1 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 999 0 0";
        let stat = Stat { parent: 7, start_time: 999, ended: false, leaving: false, ticks: 10 };
        assert_eq!(Stat::parse(text), Some(stat));
        let leaving = text.replace("-1 0", "-1 4194308");
        assert!(Stat::parse(&leaving).unwrap().leaving);
        assert!(
            !Stat::parse(&leaving.replace("20 0 1", "20 0 2")).unwrap().leaving,
            "another thread goes on"
        );
        assert_eq!(Stat::parse("garbage"), None);
    }

    #[test]
    fn another_start_or_boot_is_another_process() {
        let me = ProcessIdentity::current().unwrap();
        assert_eq!(me.liveness(), Liveness::Alive);
        assert_eq!(
            ProcessIdentity { start_time: me.start_time + 1, ..me.clone() }.liveness(),
            Liveness::Dead
        );
        assert_eq!(ProcessIdentity { boot_id: "other".into(), ..me.clone() }.liveness(), Liveness::Dead);
        assert_eq!(ProcessIdentity { start_time: 0, ..me.clone() }.liveness(), Liveness::Unknown);
        let text = serde_json::to_string(&me).unwrap();
        assert_eq!(serde_json::from_str::<ProcessIdentity>(&text).unwrap(), me);
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        rustix::process::waitid(
            rustix::process::WaitId::Pid(identity.rustix_pid().unwrap()),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert_eq!(identity.liveness(), Liveness::Dead, "while it is not reaped");
        child.wait().unwrap();
        assert_eq!(identity.liveness(), Liveness::Dead);
    }
}
