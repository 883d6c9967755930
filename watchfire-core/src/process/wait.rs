//! Waiting for a child without a signal handler.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};

use tokio::io::unix::AsyncFd;

/// A child that a task waits for.
///
/// Unlike tokio's it never installs a handler for SIGCHLD, which would be process-wide state of the embedder. A
/// child that is dropped before its end is waited for by a thread, also when the runtime is gone: drop only those
/// that will end.
#[derive(Debug)]
pub(crate) struct Waited {
    /// None once it is handed to the thread.
    child: Option<Child>,
    #[cfg(target_os = "linux")]
    ended: AsyncFd<OwnedFd>,
}

impl Waited {
    /// Takes care of a child; to be called within a tokio runtime.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(child: Child) -> io::Result<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        // Not reaped yet, so the number is the child's.
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pidfd = pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::NONBLOCK)?;
        Ok(Self { child: Some(child), ended: registered(pidfd)? })
    }

    /// Takes care of a child; to be called within a tokio runtime.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(child: Child) -> io::Result<Self> {
        Ok(Self { child: Some(child) })
    }

    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.as_mut().map_or(Ok(()), Child::kill)
    }

    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            let child = self.child.as_mut().ok_or(io::ErrorKind::NotFound)?;
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            #[cfg(target_os = "linux")]
            self.ended.readable().await?.clear_ready();
            #[cfg(not(target_os = "linux"))]
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take()
            && !matches!(child.try_wait(), Ok(Some(_)))
        {
            // Without a thread it stays a zombie until we end.
            let _ =
                std::thread::Builder::new().name("watchfire-reaper".to_owned()).spawn(move || child.wait());
        }
    }
}

/// Registers a descriptor with the runtime that we are in.
#[expect(deprecated, reason = "sound for an OwnedFd, which is open for as long as it is registered")]
pub(crate) fn registered(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}
