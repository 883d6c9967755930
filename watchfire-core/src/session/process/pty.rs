//! An agent on a pseudo-terminal.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::tcsetwinsize;
use tokio::io::Interest;

use super::channel::{Channel, Writer, channel, gone};
use super::contract::{Exit, Output, SessionProcess};
use super::guarded::{Adopted, Guarded, Host, Record, Streams};
use super::intake::winsize;
use super::output::OutputReader;
use super::wire::RecordIn;
use crate::model::ProcessIdentity;
use crate::process::helper::Helper;
use crate::sandbox::Confined;
use crate::terminal::Size;
use crate::{Error, Result};

/// An agent on a pseudo-terminal, which is its controlling terminal, under a guardian.
///
/// It belongs to the tokio runtime in which it was started, of either kind, with io and time. Dropping it
/// ends the agent, and so does any end of our process, unless it is hosted.
pub(in crate::session) struct PtySession {
    guarded: Guarded,
    /// `None` for an agent that ended before it was taken over.
    terminal: Option<Channel>,
    output: OutputReader,
    writer: Writer,
}

impl PtySession {
    /// Starts a command on a new terminal of that size. Its environment is exactly the command's. Its output is recorded
    /// in the folder `recording`, which must not exist. With `host`, it can outlive this process.
    ///
    /// Dropping the future ends what was started.
    ///
    /// # Errors
    /// `program_missing`, `not_found` for the working directory, `permission_denied`, `helper_missing` when the
    /// helper turns out to be none, and what the system refused.
    pub(in crate::session) async fn start(
        helper: &Helper,
        confined: Confined,
        size: Size,
        recording: PathBuf,
        host: Option<Host>,
    ) -> Result<Self> {
        let opened = |error: rustix::io::Errno| Error::io("opening a terminal", error.into());
        let (ours, theirs) = open_terminal().map_err(opened)?;
        // Before the start: a program that asks for its size at once would otherwise see 0x0 and draw for
        // that.
        tcsetwinsize(&ours, winsize(size)).map_err(opened)?;
        // The guardian reads, this process writes.
        let output = ours.try_clone().map_err(|error| Error::io("opening a terminal", error))?;
        let terminal = channel(ours, Interest::WRITABLE)?;
        let to = RecordIn { folder: recording, size: Some(size) };
        let record = Record { output, errors: None, to, host };
        let (guarded, output, _) =
            Guarded::start_recorded(helper, confined, Streams::Terminal(theirs), record).await?;
        let writer = Writer::new(Some(Arc::clone(&terminal)));
        Ok(Self { guarded, output, writer, terminal: Some(terminal) })
    }

    /// Returns the session that was taken over.
    ///
    /// # Errors
    /// What the system refused.
    pub(in crate::session) fn adopted(adopted: Adopted) -> Result<Self> {
        let Adopted { guarded, output, input, .. } = adopted;
        let terminal = input.map(|terminal| channel(terminal, Interest::WRITABLE)).transpose()?;
        Ok(Self { guarded, output, writer: Writer::new(terminal.clone()), terminal })
    }

    pub(in crate::session) fn guarded(&self) -> &Guarded {
        &self.guarded
    }
}

/// Opens a terminal and returns our side and the agent's. Both are close-on-exec from the start.
fn open_terminal() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    // `NOCTTY`: a session leader without a terminal, such as a daemon, would otherwise get this one as its
    // own.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    let ours = openpt(flags | OpenptFlags::CLOEXEC)?;
    #[cfg(not(target_os = "linux"))]
    let ours = {
        let ours = openpt(flags)?;
        // Without an atomic flag: a child that another thread starts right here inherits the master.
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
        ours
    };
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = {
        // Through our side, not by a path: `/dev/pts` may be another mount in this namespace.
        #[cfg(target_os = "linux")]
        let opened = rustix::pty::ioctl_tiocgptpeer(&ours, flags | OpenptFlags::CLOEXEC);
        #[cfg(not(target_os = "linux"))]
        let opened = {
            use rustix::fs::{Mode, OFlags, open};
            let path = rustix::pty::ptsname(&ours, Vec::new())?;
            open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
        };
        opened?
    };
    Ok((ours, theirs))
}

#[async_trait]
impl SessionProcess for PtySession {
    async fn write(&self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes, self.guarded.over()).await
    }

    async fn resize(&self, size: Size) -> Result<()> {
        self.guarded.resize(size).await
    }

    async fn read_from(&self, offset: u64) -> Result<Output> {
        self.output.read_from(offset, &self.guarded).await
    }

    /// Types Ctrl+C past a stuck write. The terminal turns it into a signal, or the agent reads it as a key.
    async fn interrupt(&self) -> Result<()> {
        const CTRL_C: &[u8] = b"\x03";
        let terminal = self.terminal.as_ref().ok_or_else(gone)?;
        match rustix::io::write(terminal.get_ref(), CTRL_C) {
            Ok(_) => Ok(()),
            // The input queue is full, because the agent reads nothing. A signal needs no room in it.
            Err(rustix::io::Errno::AGAIN) => self.guarded.signal(rustix::process::Signal::INT).await,
            Err(rustix::io::Errno::IO) => Err(gone()),
            Err(error) => Err(Error::io("interrupting the agent", error.into())),
        }
    }

    async fn terminate(&self, grace: Duration) -> Result<Exit> {
        self.guarded.terminate(grace).await
    }

    async fn wait(&self) -> Exit {
        self.guarded.wait().await
    }

    async fn answered(&self, offset: u64) {
        self.guarded.answered(offset).await;
    }

    async fn end_in(&self, left: Option<Duration>) {
        self.guarded.end_in(left).await;
    }

    async fn detach(&self) {
        self.guarded.detach().await;
    }

    fn processor_time(&self) -> Option<Duration> {
        self.guarded.processor_time()
    }

    fn identity(&self) -> &ProcessIdentity {
        self.guarded.identity()
    }
}

impl fmt::Debug for PtySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PtySession").field("identity", self.guarded.identity()).finish_non_exhaustive()
    }
}
