//! Descriptors that are open when a program starts.

#![expect(unsafe_code, reason = "an inherited descriptor is only known by its number")]

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

/// Numbers from 3 up that were open when the program started and have not been taken.
#[derive(Debug)]
pub(super) struct InheritedFds(BTreeSet<RawFd>);

/// Numbers to probe where the system does not list open descriptors.
const PROBED: RawFd = 256;

impl InheritedFds {
    /// Finds the inherited descriptors and marks each close-on-exec, so that no child gets one by accident.
    ///
    /// Call it before the program opens anything: the set must hold only descriptors that have no owner.
    pub(super) fn find() -> Self {
        // Works on Linux and macOS alike.
        let listed = std::fs::read_dir("/dev/fd").map(|entries| {
            let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            names.collect::<Vec<RawFd>>()
        });
        // The listing includes its own descriptor. It is closed by now, so marking it fails and drops it.
        let numbers = listed.unwrap_or_else(|_| (3..PROBED).collect());
        Self(numbers.into_iter().filter(|number| *number > 2 && close_on_exec(*number).is_ok()).collect())
    }

    /// Takes the descriptor `number`. Each can be taken once.
    pub(super) fn take(&mut self, number: RawFd) -> io::Result<OwnedFd> {
        if !self.0.remove(&number) {
            return Err(Errno::BADF.into());
        }
        // Fails if it was closed since, which keeps the ownership below sound.
        close_on_exec(number)?;
        // SAFETY: the descriptor is open (just checked), was open before any code of this program ran, so that nothing
        // here owns it, and has left the set, so that it cannot be taken twice.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }
}

fn close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: borrowed for two calls that fail with EBADF if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(fd)?;
    Ok(fcntl_setfd(fd, flags | FdFlags::CLOEXEC)?)
}
