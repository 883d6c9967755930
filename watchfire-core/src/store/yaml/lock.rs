//! One writer at a time, among ours.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::{Error, ErrorKind, Result};

/// How long another writer is waited for. Writers hold the lock for one change, which takes milliseconds; who holds
/// it longer is stopped or hangs on its disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// An exclusive lock on a file, until it is dropped; the file itself is never removed.
#[derive(Debug)]
pub(in crate::store) struct Lock(#[expect(dead_code, reason = "held, and closed on drop")] File);

impl Lock {
    /// Waits for the lock on the file at `path`, which is made where it is missing. Blocks the thread.
    ///
    /// # Errors
    /// `busy` after 30 seconds.
    pub(in crate::store) fn acquire(path: &Path) -> Result<Self> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|error| Error::io("opening the lock file", error).with_path(path))?;
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(super::files::failure("locking the file", path, error)),
            }
            if begin.elapsed() > PATIENCE {
                return Err(
                    Error::new(ErrorKind::Busy, "another process holds the write lock").with_path(path)
                );
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}
