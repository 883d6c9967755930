//! Processes that a session left behind when both its orchestrator and its guardian were killed.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};

use super::SESSION_MARK;
use crate::model::SessionId;

/// Number of times the list of processes is read, to catch processes that start during a reading.
const ROUNDS: usize = 32;
/// Maximum time to wait until killed processes are gone.
const GONE: Duration = Duration::from_secs(5);

/// Kills every process of this user whose environment says that it belongs to `session`, waits until they are gone, and
/// returns their number. Blocks.
///
/// For recovery, when no guardian is left to do it: descendants that left the agent's process group and session are found
/// by the environment that they inherited. Those that cleared it are not. All are stopped before the first is killed, so
/// that none can start another one unseen.
#[must_use]
pub(crate) fn end_marked(session: &SessionId) -> usize {
    let mark = format!("{SESSION_MARK}={session}");
    let mut held: BTreeMap<u32, OwnedFd> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let before = held.len();
        // A process that starts during a reading of `/proc` is found in the next round, since its parent is
        // stopped by then.
        for pid in own_processes() {
            if held.contains_key(&pid) || !is_marked(pid, &mark) {
                continue;
            }
            let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
            let Ok(handle) = pidfd_open(target, PidfdFlags::empty()) else { continue };
            // The number may have been used again before the handle was opened.
            if is_marked(pid, &mark) && pidfd_send_signal(&handle, Signal::STOP).is_ok() {
                held.insert(pid, handle);
            }
        }
        // A whole reading found nothing new, and everything found before is stopped.
        if held.len() == before {
            break;
        }
    }
    let end = Instant::now() + GONE;
    for handle in held.values() {
        // It may have ended by itself.
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    // Waits on all with one deadline: killed processes may take long to leave the kernel.
    for handle in held.values() {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
        // A pidfd is readable once its process has ended.
        let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], left.as_ref());
    }
    held.len()
}

/// Returns the numbers of all processes of this user except this one.
fn own_processes() -> Vec<u32> {
    let (me, user) = (getpid().as_raw_pid().cast_unsigned(), geteuid().as_raw());
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let owned = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // Others could not be signalled, and their environment not be read.
        (pid != me && entry.metadata().ok()?.uid() == user).then_some(pid)
    };
    entries.filter_map(|entry| owned(entry.ok()?)).collect()
}

fn is_marked(pid: u32, mark: &str) -> bool {
    // A zombie has no environment, and nothing is left to be ended.
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn those_of_the_session_end_and_no_others() {
        let start = |session: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "setsid sleep 300 & echo; wait"]).env(SESSION_MARK, session);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            // It writes a line once its child runs.
            std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            child
        };
        let own = format!("marked-{}", std::process::id());
        let (mut ours, mut other) = (start(&own), start(&format!("{own}-other")));
        let session: SessionId = own.parse().unwrap();
        assert_eq!(end_marked(&session), 2);
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        assert_eq!(end_marked(&session), 0);
        assert_eq!(end_marked(&format!("{own}-other").parse().unwrap()), 2);
        other.wait().unwrap();
    }
}
