//! A person's terminal, which a client has handed over.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::termios::{isatty, tcgetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_util::bytes::{Buf as _, BytesMut};
use watchfire_core::terminal::Size;

/// A terminal. Nothing that is done with it blocks.
#[derive(Debug)]
pub(super) struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// # Errors
    /// `InvalidInput` for a descriptor that is none of a terminal, or that blocks; I/O errors.
    pub(super) fn new(terminal: OwnedFd) -> io::Result<Self> {
        if !isatty(&terminal) || !fcntl_getfl(&terminal)?.contains(OFlags::NONBLOCK) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        #[expect(deprecated, reason = "sound for an OwnedFd, which is open for as long as it is registered")]
        AsyncFd::with_interest(terminal, Interest::READABLE | Interest::WRITABLE).map(Self)
    }

    /// Returns its size, or 80 by 24 if it does not say.
    pub(super) fn size(&self) -> Size {
        match tcgetwinsize(self.0.get_ref()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::new(size.ws_col, size.ws_row),
            _ => Size::default(),
        }
    }

    /// Waits for what is typed next. Cancel safe. Returns `None` once the terminal is gone.
    pub(super) async fn read(&self, into: &mut [u8]) -> Option<usize> {
        loop {
            let mut ready = self.0.readable().await.ok()?;
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut *into)?));
            let Ok(read) = read else { continue };
            let read = read.ok().filter(|read| *read > 0)?;
            if read < into.len() {
                // The next look would find nothing.
                ready.clear_ready();
            }
            return Some(read);
        }
    }

    /// Draws as much as the terminal takes now.
    pub(super) fn try_write(&self, bytes: &mut BytesMut) {
        match rustix::io::write(self.0.get_ref(), bytes) {
            Ok(written) => bytes.advance(written),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            // It has gone, which a read says.
            Err(_) => bytes.clear(),
        }
    }

    /// Waits until it takes more, and draws that. Cancel safe.
    pub(super) async fn write(&self, bytes: &mut BytesMut) {
        let write = |fd: &OwnedFd| Ok(rustix::io::write(fd, bytes)?);
        match self.0.async_io(Interest::WRITABLE, write).await {
            Ok(written) => bytes.advance(written),
            Err(_) => bytes.clear(),
        }
    }
}
