//! Descriptors that a program finds open when it starts.

#![expect(unsafe_code, reason = "an inherited descriptor is only known by its number")]

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

/// The numbers, from 3 up, that were open when the program started and that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Inherited(BTreeSet<RawFd>);

/// How far to look where the system does not list them.
const PROBED: RawFd = 256;

impl Inherited {
    /// Finds them and marks each close-on-exec, so that none goes on to a child by accident.
    ///
    /// To be called before the program opens anything.
    pub(super) fn find() -> Self {
        let listed = std::fs::read_dir("/dev/fd").map(|entries| {
            let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            names.collect::<Vec<RawFd>>()
        });
        // The listing's own descriptor is closed by now and drops out below.
        let numbers = listed.unwrap_or_else(|_| (3..PROBED).collect());
        Self(numbers.into_iter().filter(|number| *number > 2 && close_on_exec(*number).is_ok()).collect())
    }

    /// Takes one, once.
    pub(super) fn take(&mut self, number: RawFd) -> io::Result<OwnedFd> {
        if !self.0.remove(&number) {
            return Err(Errno::BADF.into());
        }
        close_on_exec(number)?;
        // SAFETY: it is open (just checked), was open before this program ran any code of ours, so that nobody here
        // owns it, and leaves the set, so that nobody will take it twice.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }
}

fn close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: borrowed for two calls that fail with EBADF when it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(fd)?;
    Ok(fcntl_setfd(fd, flags | FdFlags::CLOEXEC)?)
}
