//! An agent on pipes.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::io::Interest;

use super::channel::{Writer, channel};
use super::complaints::Complaints;
use super::contract::{Exit, Output, SessionProcess};
use super::guarded::{Adopted, Guarded, Host, Record, Streams};
use super::output::OutputReader;
use super::wire::RecordIn;
use crate::model::ProcessIdentity;
use crate::process::helper::Helper;
use crate::sandbox::Confined;
use crate::terminal::Size;
use crate::{Error, ErrorKind, Result};

/// An agent that speaks in lines on stdin and stdout, without a terminal, under a guardian.
///
/// Its output is its stdout. Of stderr, the beginning and the end are kept. Everything else is as with
/// [`PtySession`](super::PtySession).
pub(in crate::session) struct LinesSession {
    guarded: Guarded,
    output: OutputReader,
    writer: Writer,
    complaints: Arc<Complaints>,
}

impl LinesSession {
    /// Starts a command. Its environment is exactly the command's. Its stdout is recorded in the folder `recording`,
    /// which must not exist. With `host`, it can outlive this process.
    ///
    /// Dropping the future ends what was started.
    ///
    /// # Errors
    /// As [`PtySession::start`](super::PtySession::start).
    pub(in crate::session) async fn start(
        helper: &Helper,
        confined: Confined,
        recording: PathBuf,
        mut host: Option<Host>,
    ) -> Result<Self> {
        let Pipes { theirs, input, output, errors } = Pipes::new()?;
        if let Some(host) = &mut host {
            // Without it, the end of this process would be the end of the agent's input.
            host.input = Some(input.try_clone().map_err(|error| Error::io("making a pipe", error))?);
        }
        let writer = Writer::new(Some(channel(input, Interest::WRITABLE)?));
        let to = RecordIn { folder: recording, size: None };
        let record = Record { output, errors: Some(errors), to, host };
        let (guarded, output, complaints) = Guarded::start_recorded(helper, confined, theirs, record).await?;
        Ok(Self { guarded, output, writer, complaints })
    }

    /// Returns the session that was taken over.
    ///
    /// # Errors
    /// What the system refused.
    pub(in crate::session) fn adopted(adopted: Adopted) -> Result<Self> {
        let Adopted { guarded, output, complaints, input, .. } = adopted;
        let input = input.map(|input| channel(input, Interest::WRITABLE)).transpose()?;
        Ok(Self { guarded, output, writer: Writer::new(input), complaints })
    }

    pub(in crate::session) fn guarded(&self) -> &Guarded {
        &self.guarded
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

#[async_trait]
impl SessionProcess for LinesSession {
    async fn write(&self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes, self.guarded.over()).await
    }

    async fn close_input(&self) {
        self.writer.close().await;
        self.guarded.close_input().await;
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
        self.complaints.text()
    }

    async fn complained(&self) {
        self.complaints.more().await;
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

impl fmt::Debug for LinesSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinesSession").field("identity", self.guarded.identity()).finish_non_exhaustive()
    }
}
