//! Processes that a session left behind when both its orchestrator and its guardian were killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};

use super::SESSION_MARK;
use crate::model::SessionId;

/// Number of times the list of processes is read, to catch processes that start during a reading.
const ROUNDS: usize = 32;
/// Pause before processes are read again that are just starting another program, and the number of pauses: on a busy machine one
/// may be held up there.
const STARTING: (Duration, usize) = (Duration::from_millis(2), 500);
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
    let (mut rounds, mut pauses) = (ROUNDS, STARTING.1);
    // Those that nobody knows of yet.
    let mut waited: Option<BTreeSet<u32>> = None;
    while rounds > 0 {
        rounds -= 1;
        let (before, mut unclear) = (held.len(), BTreeSet::new());
        // A process that starts during a reading of `/proc` is found in the next round, since its parent is
        // stopped by then.
        for pid in own_processes() {
            if held.contains_key(&pid) {
                continue;
            }
            match is_marked(pid, &mark) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    unclear.insert(pid);
                    continue;
                }
            }
            let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
            let Ok(handle) = pidfd_open(target, PidfdFlags::empty()) else { continue };
            // The number may have been used again before the handle was opened.
            match is_marked(pid, &mark) {
                Some(true) if pidfd_send_signal(&handle, Signal::STOP).is_ok() => {
                    drop(held.insert(pid, handle))
                }
                None => drop(unclear.insert(pid)),
                _ => {}
            }
        }
        // Otherwise a whole reading found nothing new, and everything found before is stopped: what begins to start from here on
        // is nobody's of this session.
        if held.len() == before {
            let left = waited.map_or(unclear.clone(), |waited| &waited & &unclear);
            if left.is_empty() || pauses == 0 {
                break;
            }
            waited = Some(left);
            pauses -= 1;
            rounds += 1;
            std::thread::sleep(STARTING.0);
        } else {
            waited = None;
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

/// Returns `None` for a process that is, or was just now, within `execve`, where the kernel shows no environment yet.
fn is_marked(pid: u32, mark: &str) -> Option<bool> {
    let environment = environment(pid).unwrap_or_default();
    // A zombie and a thread of the kernel have none either, and no program.
    if environment.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_ok() && !has_none(pid) {
        return None;
    }
    Some(environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()))
}

/// Reads the environment of a process at once: between two reads it may begin another program, and the second one ends as if
/// there were no more.
fn environment(pid: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let length = File::open(format!("/proc/{pid}/environ"))?.read(&mut bytes)?;
        if length < bytes.len() {
            bytes.truncate(length);
            return Ok(bytes);
        }
        bytes.resize(2 * length, 0);
    }
}

/// Returns true if a process has an empty environment: in its `stat`, `env_start` and `env_end` (fields 50 and 51) are one place.
/// They are for a moment within `execve`, too, and `end_code` (27) is 0 until that is over.
fn has_none(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program may hold spaces and parentheses; field 3 is the first behind it.
    let fields: Vec<_> =
        stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split_ascii_whitespace().collect();
    let [end_code, start, end] =
        [27, 50, 51].map(|field: usize| fields.get(field - 3).copied().unwrap_or("0"));
    end_code != "0" && start != "0" && start == end
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn one_that_starts_another_program_does_not_slip_through() {
        let again = "exec sh -c \"$0\" \"$0\"";
        // Often enough that one is within `execve` when it is looked at.
        for round in 0..16 {
            let own = format!("starting-{}-{round}", std::process::id());
            let start = || {
                Command::new("/bin/sh").args(["-c", again, again]).env(SESSION_MARK, &own).spawn().unwrap()
            };
            let mut all: Vec<_> = (0..16).map(|_| start()).collect();
            let ended = end_marked(&own.parse().unwrap());
            let left = all.iter_mut().map(|child| child.try_wait().unwrap()).filter(Option::is_none).count();
            all.iter_mut().for_each(|child| drop(child.kill()));
            all.iter_mut().for_each(|child| assert!(child.wait().is_ok()));
            assert_eq!((ended, left), (16, 0));
        }
    }

    #[test]
    fn one_without_an_environment_is_not_waited_for() {
        let mut empty = Command::new("/bin/sleep").arg("300").env_clear().spawn().unwrap();
        let known = || is_marked(empty.id(), "A=b");
        let end = Instant::now() + GONE;
        while known().is_none() && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(known(), Some(false));
        empty.kill().unwrap();
        empty.wait().unwrap();
    }

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
