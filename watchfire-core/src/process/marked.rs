//! Processes that a session left behind when both its orchestrator and its guardian were killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};

use super::SESSION_MARK;
use crate::model::SessionId;

/// Number of times the list of processes is read, to catch processes that start during a reading.
const ROUNDS: usize = 32;
/// Pause before processes are read again that are just starting another program, and the number of pauses: on a busy machine one
/// may be held up there.
const STARTING: (Duration, usize) = (Duration::from_millis(2), 500);
/// Number of readings in a row that find nothing before none is left.
const QUIET: usize = 2;
/// Number of processes that are held at once, each by a descriptor. The others are stopped once these are gone.
const HANDLES: usize = 128;
/// Maximum time to wait until killed processes are gone, and for a reading during which none ends.
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
    let (mut rounds, mut pauses, mut ended, mut quiet) = (ROUNDS, STARTING.1, 0, 0);
    let end = Instant::now() + GONE;
    // Those of which nobody knows yet whose they are.
    let mut waited: Option<BTreeSet<u32>> = None;
    // Those of others, whose children are of others too.
    let mut strangers = BTreeSet::new();
    while rounds > 0 && quiet < QUIET {
        rounds -= 1;
        let (mut found, mut gone, mut cramped) = (false, false, false);
        let (mut unclear, mut foreign) = (BTreeSet::new(), BTreeSet::new());
        let listed = own_processes();
        if listed.is_err() {
            (found, cramped) = (!held.is_empty(), true);
            ended += kill(&std::mem::take(&mut held));
        }
        // A process that starts during a reading of `/proc` is found in the next round, since its parent is
        // stopped by then.
        for pid in listed.unwrap_or_default() {
            if held.contains_key(&pid) {
                continue;
            }
            match hold(pid, &mark) {
                Held::Ours(handle) => {
                    held.insert(pid, handle);
                    found = true;
                }
                Held::Foreign => drop(foreign.insert(pid)),
                Held::Unclear => drop(unclear.insert(pid)),
                Held::Gone => gone |= !strangers.contains(&pid),
                Held::Full => {
                    // Room for the others.
                    (found, cramped) = (found || !held.is_empty(), true);
                    ended += kill(&std::mem::take(&mut held));
                }
            }
            if held.len() >= HANDLES {
                ended += kill(&std::mem::take(&mut held));
            }
        }
        // Only those that were so at first: what begins to start meanwhile is nobody's of this session, unless one has gone that
        // may have started it.
        let left = waited.as_ref().map_or(unclear.clone(), |waited| waited & &unclear);
        let is_gone = |pid: &u32| !unclear.contains(pid) && !foreign.contains(pid);
        gone |= waited.is_some_and(|waited| waited.iter().any(is_gone));
        // A number may be used again, so only those of the last reading.
        strangers = foreign;
        // What is gone may have had a child that was not listed yet.
        if found || gone {
            (waited, quiet) = (None, 0);
            rounds += usize::from(gone && Instant::now() < end);
        } else if (cramped || !left.is_empty()) && pauses > 0 {
            // Where no descriptor was left, not all were looked at.
            waited = (!cramped).then_some(left);
            pauses -= 1;
            rounds += 1;
            std::thread::sleep(STARTING.0);
        } else {
            (waited, quiet) = (None, quiet + 1);
        }
    }
    ended + kill(&held)
}

/// The result of trying to hold a process.
enum Held {
    /// It belongs to the session, and is stopped.
    Ours(OwnedFd),
    /// It does not.
    Foreign,
    /// It is just starting a program.
    Unclear,
    /// It has ended.
    Gone,
    /// There is no descriptor left to look at it or to hold it by.
    Full,
}

fn hold(pid: u32, mark: &str) -> Held {
    let known = |marked: Option<bool>| match marked {
        None => Held::Unclear,
        Some(_) if Path::new("/proc").join(pid.to_string()).exists() => Held::Foreign,
        Some(_) => Held::Gone,
    };
    let Ok(first) = is_marked(pid, mark) else { return Held::Full };
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let (Some(true), Some(target)) = (first, target) else { return known(first) };
    let handle = match pidfd_open(target, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::MFILE | Errno::NFILE) => return Held::Full,
        Err(_) => return known(Some(false)),
    };
    // The number may have been used again before the handle was opened.
    match is_marked(pid, mark) {
        Ok(Some(true)) if pidfd_send_signal(&handle, Signal::STOP).is_ok() => Held::Ours(handle),
        Ok(other) => known(other),
        Err(_) => Held::Full,
    }
}

/// Kills processes, waits until they are gone, and returns their number.
fn kill(held: &BTreeMap<u32, OwnedFd>) -> usize {
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
fn own_processes() -> io::Result<Vec<u32>> {
    let (me, user) = (getpid().as_raw_pid().cast_unsigned(), geteuid().as_raw());
    let Some(entries) = shown(fs::read_dir("/proc").map(Some))? else { return Ok(Vec::new()) };
    let owned = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // Others could not be signalled, and their environment not be read.
        (pid != me && entry.metadata().ok()?.uid() == user).then_some(pid)
    };
    Ok(entries.filter_map(|entry| owned(entry.ok()?)).collect())
}

/// Returns `None` for a process that is, or was just now, within `execve`, where the kernel shows no environment yet. Fails
/// only where there is no descriptor to read by.
fn is_marked(pid: u32, mark: &str) -> io::Result<Option<bool>> {
    let environment = shown(environment(pid))?;
    // A zombie and a thread of the kernel have none either, and no program.
    if environment.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_ok() && !has_none(pid)? {
        return Ok(None);
    }
    Ok(Some(environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())))
}

/// Returns what was read of a process: nothing, if it is gone or shows nothing.
fn shown<T: Default>(read: io::Result<T>) -> io::Result<T> {
    match read {
        Err(error) if !matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
            Ok(T::default())
        }
        read => read,
    }
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
fn has_none(pid: u32) -> io::Result<bool> {
    let stat = shown(fs::read_to_string(format!("/proc/{pid}/stat")))?;
    // The name of the program may hold spaces and parentheses; field 3 is the first behind it.
    let fields: Vec<_> =
        stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split_ascii_whitespace().collect();
    let [end_code, start, end] =
        [27, 50, 51].map(|field: usize| fields.get(field - 3).copied().unwrap_or("0"));
    Ok(end_code != "0" && start != "0" && start == end)
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
    fn one_that_hands_on_to_its_child_does_not_slip_through() {
        // A bounded number of times, whatever happens to this test.
        let hop = r#"sleep 0.02; test "$1" -gt 0 && sh -c "$0" "$0" $(($1 - 1)) &"#;
        for round in 0..8 {
            let own = format!("hopping-{}-{round}", std::process::id());
            let start = || {
                Command::new("/bin/sh").args(["-c", hop, hop, "50"]).env(SESSION_MARK, &own).spawn().unwrap()
            };
            let mut all: Vec<_> = (0..4).map(|_| start()).collect();
            // On a busy machine they may have ended by themselves.
            let _ = end_marked(&own.parse().unwrap());
            all.iter_mut().for_each(|child| drop(child.wait()));
            let mark = format!("{SESSION_MARK}={own}");
            let is_left = |pid: &u32| is_marked(*pid, &mark).unwrap() == Some(true);
            let left: Vec<_> = own_processes().unwrap().into_iter().filter(is_left).collect();
            let _ = end_marked(&own.parse().unwrap());
            assert!(left.is_empty(), "{left:?}");
        }
    }

    /// In a process of its own, that has few descriptors.
    #[test]
    fn more_than_there_are_descriptors_for_end() {
        const AGAIN: &str = "WATCHFIRE_TEST_FEW_DESCRIPTORS";
        let count = 40;
        if std::env::var_os(AGAIN).is_none() {
            let name = "more_than_there_are_descriptors_for_end";
            let me = std::env::current_exe().unwrap();
            let limited = r#"ulimit -n 24 && exec "$0" --test-threads=1 "$1""#;
            let mut again = Command::new("/bin/sh");
            let output = again.args(["-c", limited]).arg(me).arg(name).env(AGAIN, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let own = format!("crowded-{}", std::process::id());
        let start = || Command::new("/bin/sleep").arg("30").env(SESSION_MARK, &own).spawn().unwrap();
        let mut all: Vec<_> = (0..count).map(|_| start()).collect();
        assert_eq!(end_marked(&own.parse().unwrap()), count);
        all.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
    }

    #[test]
    fn one_without_an_environment_is_not_waited_for() {
        let mut empty = Command::new("/bin/sleep").arg("300").env_clear().spawn().unwrap();
        let known = || is_marked(empty.id(), "A=b").unwrap();
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
