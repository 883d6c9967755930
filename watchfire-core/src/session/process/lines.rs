//! An agent on pipes.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::sync::Notify;

use super::channel::{Reader, Writer, channel};
use super::contract::{Exit, Output, SessionProcess};
use super::guarded::{End, Guarded, Record, Streams};
use super::output::OutputReader;
use super::wire::RecordIn;
use crate::model::ProcessIdentity;
use crate::process::BoundedBytes;
use crate::process::helper::Helper;
use crate::sandbox::{Confined, SandboxGuard};
use crate::terminal::Size;
use crate::{Error, ErrorKind, Result};

/// Number of bytes of stderr that are kept.
const STDERR: usize = 64 * 1024;

/// An agent that speaks in lines on stdin and stdout, without a terminal, under a guardian.
///
/// Its output is its stdout. Of stderr, the beginning and the end are kept. Everything else is as with
/// [`PtySession`](super::PtySession).
pub(in crate::session) struct LinesSession {
    guarded: Guarded,
    output: OutputReader,
    writer: Writer,
    stderr: Arc<Stderr>,
}

/// The kept part of stderr, and a notification for every write.
#[derive(Debug)]
struct Stderr {
    kept: Mutex<BoundedBytes>,
    more: Notify,
}

impl LinesSession {
    /// Starts a command. Its environment is exactly the command's. Its stdout is recorded in the folder `recording`,
    /// which must not exist.
    ///
    /// Dropping the future ends what was started.
    ///
    /// # Errors
    /// As [`PtySession::start`](super::PtySession::start).
    pub(in crate::session) async fn start(
        helper: &Helper,
        confined: Confined,
        recording: PathBuf,
    ) -> Result<Self> {
        let Pipes { theirs, input, output, errors } = Pipes::new()?;
        let writer = Writer::new(channel(input, Interest::WRITABLE)?);
        let errors = Reader::new(channel(errors, Interest::READABLE)?);
        let record = Record { output, to: RecordIn { folder: recording, size: None } };
        let (guarded, output) = Guarded::start_recorded(helper, confined, theirs, record).await?;
        let stderr = Arc::new(Stderr { kept: Mutex::new(BoundedBytes::new(STDERR)), more: Notify::new() });
        tokio::spawn(collect_stderr(errors, Arc::clone(&stderr), guarded.end()));
        Ok(Self { guarded, output, writer, stderr })
    }

    /// Returns the kept part of stderr.
    #[must_use]
    pub(in crate::session) fn stderr(&self) -> BoundedBytes {
        self.stderr.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the identity of its guardian.
    #[must_use]
    pub(in crate::session) fn guardian(&self) -> &ProcessIdentity {
        self.guarded.guardian()
    }

    /// Returns the guard of its sandbox, with report and denials.
    #[must_use]
    pub(in crate::session) fn guard(&self) -> &Arc<dyn SandboxGuard> {
        self.guarded.guard()
    }
}

/// Three pipes for a command.
pub(super) struct Pipes {
    /// The command's ends. They are closed here by its start, so that each pipe ends with its last process.
    pub(super) theirs: Streams,
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) errors: OwnedFd,
}

impl Pipes {
    pub(super) fn new() -> Result<Self> {
        let failed = |error| Error::io("making a pipe", error);
        let (stdin, input) = std::io::pipe().map_err(failed)?;
        let (output, stdout) = std::io::pipe().map_err(failed)?;
        let (errors, stderr) = std::io::pipe().map_err(failed)?;
        let theirs = Streams::Pipes([stdin.into(), stdout.into(), stderr.into()]);
        Ok(Self { theirs, input: input.into(), output: output.into(), errors: errors.into() })
    }
}

/// Drains stderr to its end. A full pipe would block the agent.
async fn collect_stderr(errors: Reader, stderr: Arc<Stderr>, end: End) {
    let mut offset = 0;
    while let Ok(output) = errors.read_from(offset, end.over()).await {
        offset = output.next_offset();
        stderr.kept.lock().unwrap_or_else(PoisonError::into_inner).push(&output.bytes);
        stderr.more.notify_one();
        if output.ended {
            return;
        }
    }
}

#[async_trait]
impl SessionProcess for LinesSession {
    async fn write(&self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes, self.guarded.over()).await
    }

    async fn close_input(&self) {
        self.writer.close().await;
    }

    async fn resize(&self, _: Size) -> Result<()> {
        Err(Error::new(ErrorKind::NotSupported, "an agent on pipes has no terminal to resize"))
    }

    async fn read_from(&self, offset: u64) -> Result<Output> {
        self.output.read_from(offset, &self.guarded).await
    }

    /// Sends SIGINT to the agent's process group.
    async fn interrupt(&self) -> Result<()> {
        self.guarded.signal(Signal::INT).await
    }

    async fn terminate(&self, grace: Duration) -> Result<Exit> {
        self.guarded.terminate(grace).await
    }

    async fn wait(&self) -> Exit {
        self.guarded.wait().await
    }

    fn complaints(&self) -> String {
        self.stderr().text()
    }

    async fn complained(&self) {
        self.stderr.more.notified().await;
    }

    fn processor_time(&self) -> Option<Duration> {
        self.guarded.processor_time()
    }

    fn identity(&self) -> &ProcessIdentity {
        self.guarded.identity()
    }
}

impl fmt::Debug for LinesSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinesSession").field("identity", self.guarded.identity()).finish_non_exhaustive()
    }
}
