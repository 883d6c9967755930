//! Waiting for a child process without a signal handler.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Liveness;
use crate::model::ProcessIdentity;

/// A child process that a task can wait for.
///
/// Unlike tokio's, it installs no handler for SIGCHLD, which would change process-wide state of the embedder. A child
/// that is dropped while it runs is reaped by a thread of its own, so drop only children that will end.
#[derive(Debug)]
pub(crate) struct AsyncChild {
    /// `None` after it was handed to the thread.
    child: Option<Child>,
    #[cfg(target_os = "linux")]
    ended: AsyncFd<OwnedFd>,
}

impl AsyncChild {
    /// Wraps a child. Must be called within a tokio runtime.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(child: Child) -> io::Result<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        // The child is not reaped yet, so its pid cannot have been reused.
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pidfd = pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::NONBLOCK)?;
        Ok(Self { child: Some(child), ended: registered(pidfd, Interest::READABLE)? })
    }

    /// Wraps a child.
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
            // A pidfd stays readable after the end; `try_wait` above decides.
            self.ended.readable().await?.clear_ready();
            #[cfg(not(target_os = "linux"))]
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

impl Drop for AsyncChild {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take()
            && !matches!(child.try_wait(), Ok(Some(_)))
        {
            // A thread, because the runtime may be gone. If none can be started, the child stays a zombie until this
            // process ends.
            let _ =
                std::thread::Builder::new().name("watchfire-reaper".to_owned()).spawn(move || child.wait());
        }
    }
}

/// A process that a task can wait for, a child of ours or another's.
#[derive(Debug)]
pub(crate) enum Awaited {
    Child(AsyncChild),
    /// One that an earlier process of ours started.
    Other(Other),
}

/// A process that is no child of ours.
#[derive(Debug)]
pub(crate) struct Other {
    identity: ProcessIdentity,
    /// `None` if it had ended already.
    #[cfg(target_os = "linux")]
    ended: Option<AsyncFd<OwnedFd>>,
}

impl Awaited {
    /// Wraps a child. Must be called within a tokio runtime.
    pub(crate) fn child(child: Child) -> io::Result<Self> {
        AsyncChild::new(child).map(Self::Child)
    }

    /// Wraps a process that is no child. Must be called within a tokio runtime.
    pub(crate) fn other(identity: &ProcessIdentity) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let ended = {
            use rustix::process::{PidfdFlags, pidfd_open};
            let pid = identity.rustix_pid().map_err(|_| io::ErrorKind::InvalidInput)?;
            // The handle comes before the check of the identity, so that the checked process is the one that is awaited.
            let handle = pidfd_open(pid, PidfdFlags::NONBLOCK).ok();
            let handle = handle.filter(|_| identity.liveness() == Liveness::Alive);
            handle.map(|handle| registered(handle, Interest::READABLE)).transpose()?
        };
        Ok(Self::Other(Other {
            identity: identity.clone(),
            #[cfg(target_os = "linux")]
            ended,
        }))
    }

    /// Kills a child. Another process is left alone.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        match self {
            Self::Child(child) => child.kill(),
            Self::Other(_) => Ok(()),
        }
    }

    /// Waits until it has ended. Returns true if it exited with code 0, and `None` if its code cannot be known.
    pub(crate) async fn wait(&mut self) -> io::Result<Option<bool>> {
        match self {
            Self::Child(child) => child.wait().await.map(|status| Some(status.code() == Some(0))),
            Self::Other(other) => {
                #[cfg(target_os = "linux")]
                if let Some(ended) = &other.ended {
                    ended.readable().await?.retain_ready();
                }
                while other.identity.liveness() == Liveness::Alive {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                Ok(None)
            }
        }
    }
}

/// Registers a descriptor with the current runtime, for readers or for writers.
#[expect(deprecated, reason = "sound for an OwnedFd, which is open for as long as it is registered")]
pub(crate) fn registered(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}
