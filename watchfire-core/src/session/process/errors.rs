//! The guardian's reading of an agent's stderr.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::process::BoundedBytes;

/// Number of bytes that are kept for an orchestrator that comes later: the beginning and the end.
const KEPT: usize = 64 * 1024;
/// Room for one `read`.
const READ: usize = 16 * 1024;

/// Reader of stderr.
pub(super) struct Errors {
    /// `None` after its end.
    fd: Option<OwnedFd>,
    kept: BoundedBytes,
}

impl Errors {
    /// With `keep`, what it reads is kept.
    pub(super) fn new(fd: OwnedFd, keep: bool) -> std::io::Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self { fd: Some(fd), kept: BoundedBytes::new(if keep { KEPT } else { 0 }) })
    }

    /// Returns the descriptor to wait for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Reads what the agent has written, and returns it. Returns `None` if there is nothing now.
    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; READ];
        loop {
            match rustix::io::read(self.fd.as_ref()?, &mut bytes) {
                Ok(count) if count > 0 => {
                    bytes.truncate(count);
                    self.kept.push(&bytes);
                    return Some(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Ok(_) | Err(_) => {
                    self.fd = None;
                    return None;
                }
            }
        }
    }

    /// Returns the kept end of the output, as text.
    pub(super) fn kept(&self) -> String {
        self.kept.text()
    }
}
