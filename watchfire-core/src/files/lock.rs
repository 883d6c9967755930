//! Advisory locks on files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{failure, owner};
use crate::{Error, ErrorKind, Result};

/// A lock on a file, held until it is dropped or the process ends. The file itself is never removed.
///
/// The file must not lie where an agent can open it: every process that can open a file can lock it.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A child that was forked and has not yet called exec holds a duplicate of the descriptor, and closing ours
        // would leave the lock to it. Unlocking ends it for all duplicates.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl FileLock {
    /// Takes the lock on the file at `path` alone. The file is created if missing. Returns `None` if another process or
    /// another part of this one holds it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn try_acquire(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        Ok(try_lock(&file, path, EXCLUSIVE)?.then_some(Self { file }))
    }

    /// Takes the lock together with others that share it, or returns `None` if somebody holds it alone.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn try_share(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        Ok(try_lock(&file, path, FlockOperation::NonBlockingLockShared)?.then_some(Self { file }))
    }

    /// Returns a copy of its descriptor, which keeps the lock after this process was killed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn copy(&self) -> Result<OwnedFd> {
        self.file.try_clone().map(Into::into).map_err(|error| Error::io("copying a lock", error))
    }

    /// Takes the lock alone, waiting for other holders at most `patience`. Blocks the thread.
    ///
    /// The kernel grants the lock to any waiter, not to the first. Writers of one process should queue before they
    /// come here.
    ///
    /// # Errors
    /// `busy` after `patience`; errors of the system.
    pub fn acquire(path: &Path, patience: Duration) -> Result<Self> {
        let file = open(path)?;
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        // Polling, because a blocking `flock` cannot be given a time limit.
        while !try_lock(&file, path, EXCLUSIVE)? {
            if begin.elapsed() >= patience {
                return Err(Error::new(ErrorKind::Busy, "another process holds the lock").with_path(path));
            }
            std::thread::sleep(pause);
            // Doubled, so that a short wait stays short and a long one costs little processor time.
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(Self { file })
    }
}

/// Maximum time to wait for the lock of a process that has ended. A child that was forked and has not yet called exec
/// holds a duplicate of the descriptor, which outlives SIGKILL of the parent for a moment.
const ORPHANED: Duration = Duration::from_secs(5);

/// Returns true if a process has this id here, also one of another user.
pub(crate) fn is_alive(pid: &str) -> bool {
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    // Only ESRCH proves that there is no such process: EPERM means one of another user.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// A lock that one process holds for as long as it works on a folder. The file names the last holder's process id.
#[derive(Debug)]
pub(crate) struct DirLock {
    _held: FileLock,
}

impl DirLock {
    /// Takes the lock on the file at `path`, which is created if missing.
    ///
    /// # Errors
    /// `locked`, with the holder's `pid`, if another process or another part of this one holds the lock.
    pub(crate) fn acquire(path: &Path) -> Result<Self> {
        let mut file = open(path)?;
        let begin = Instant::now();
        while !try_lock(&file, path, EXCLUSIVE)? {
            let mut holder = String::new();
            // An id that is missing or cannot be read counts as that of an ended process: the wait is bounded
            // all the same.
            let _ = file.rewind().and_then(|()| (&file).take(32).read_to_string(&mut holder));
            let holder = holder.trim();
            // A living holder is reported at once, since it keeps the lock for as long as it works on the
            // folder.
            if begin.elapsed() >= ORPHANED || is_alive(holder) {
                return Err(Error::new(ErrorKind::Locked, "another orchestrator works on this project")
                    .with("pid", if holder.is_empty() { "unknown" } else { holder })
                    .with_path(path));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Reading the holder's id has moved the position, and writing there would leave NULs before ours.
        let _ = file.rewind();
        let pid = format!("{}\n", std::process::id());
        // Only after the lock is held, so that the holder's id is never erased by one who failed.
        file.set_len(0)
            .and_then(|()| file.write_all(pid.as_bytes()))
            .map_err(|error| Error::io("writing the lock file", error).with_path(path))?;
        Ok(Self { _held: FileLock { file } })
    }
}

/// Opens the lock file. A new one takes owner and permissions of its folder, so that everyone who may work there can
/// lock it.
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    // A link at this path could make the caller lock a file elsewhere.
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let opened = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Closed to others until `follow` has given it the owner and mode of the folder.
            match options.create_new(true).mode(0o600).open(path) {
                Ok(file) => owner::follow(&file, path.parent().unwrap_or(Path::new("/"))).map(|()| file),
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    options.create_new(false).open(path)
                }
                Err(error) => Err(error),
            }
        }
        opened => opened,
    };
    opened.map_err(|error| Error::io("opening the lock file", error).with_path(path))
}

const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

fn try_lock(file: &File, path: &Path, how: FlockOperation) -> Result<bool> {
    loop {
        match flock(file, how) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(failure("locking the file", path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_learns_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = DirLock::acquire(&path).unwrap();
        let error = DirLock::acquire(&path).unwrap_err();
        assert_eq!(error.code(), "locked");
        assert_eq!(error.detail("pid"), Some(std::process::id().to_string().as_str()));
        // A child between fork and exec has such a duplicate.
        let inherited = first._held.file.try_clone().unwrap();
        drop(first);
        DirLock::acquire(&path).unwrap();
        drop(inherited);
    }

    #[test]
    fn the_lock_of_a_dead_process_is_awaited_while_its_child_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let child = FileLock::acquire(&path, Duration::ZERO).unwrap();
        (&child.file).write_all(format!("{}\n", dead.id()).as_bytes()).unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(child);
        });
        DirLock::acquire(&path).unwrap();
        end.join().unwrap();
    }

    #[test]
    fn a_lock_has_one_holder_and_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::acquire(&path, Duration::ZERO).unwrap();
        assert_eq!(FileLock::acquire(&path, Duration::ZERO).unwrap_err().kind(), ErrorKind::Busy);
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        let inherited = held.file.try_clone().unwrap();
        drop(held);
        FileLock::acquire(&path, Duration::ZERO).unwrap();
        drop(inherited);
    }
}
