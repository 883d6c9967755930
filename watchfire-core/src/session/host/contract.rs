//! The seam between a session and the owner of its process.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::Result;
use crate::model::{ProcessIdentity, SessionId};
use crate::sandbox::{Confined, SandboxGuard};
use crate::session::SessionProcess;
use crate::terminal::Size;

/// Starter and owner of the processes of sessions.
///
/// **Implementers ensure** that
/// - a session is launched once: [`launch`](Self::launch) with an id that runs already is refused;
/// - a launch that fails or whose future is dropped leaves no process behind;
/// - when [`end`](Self::end) returns, no process of the session is left, whether or not its handle still exists;
/// - every process of a session carries its id in its environment, as [`SESSION_MARK`](crate::process::SESSION_MARK);
/// - the whole output is recorded where the request says, whether or not anyone reads it.
///
/// - where sessions [outlive](Self::outlives) this program, one that is adopted has its whole recorded output, also if it
///   has ended by then.
///
/// **Callers may not assume** that a session outlives this program, or that [`adopt`](Self::adopt) finds a session that
/// [`list`](Self::list) named a moment ago.
#[async_trait]
pub trait SessionHost: Debug + Send + Sync {
    /// Returns true if sessions outlive this program.
    fn outlives(&self) -> bool {
        false
    }

    /// Starts the process of a session.
    ///
    /// # Errors
    /// `already_exists` for a session that runs; `program_missing`, `not_found` for the working directory,
    /// `permission_denied`, `helper_missing`, `not_supported` for a helper of another release, and what the system refused.
    async fn launch(&self, request: HostRequest) -> Result<Hosted>;

    /// Takes over a session that an earlier run of this program launched, or returns `None` if it was not kept. One that
    /// ended meanwhile can be read to its end.
    ///
    /// # Errors
    /// `already_exists` for a session that runs here; `busy` if its guardian does not answer; `not_supported` for one of
    /// another release; I/O errors.
    async fn adopt(&self, session: &SessionId) -> Result<Option<Hosted>>;

    /// Returns the sessions that run.
    ///
    /// # Errors
    /// `io` if the host cannot be reached.
    async fn list(&self) -> Result<Vec<HostedSession>>;

    /// Kills all processes of a session. Does nothing for one that does not run.
    ///
    /// # Errors
    /// `io` if the host cannot be reached.
    async fn end(&self, session: &SessionId) -> Result<()>;
}

/// A process to start for a session.
#[derive(Debug)]
#[non_exhaustive]
pub struct HostRequest {
    /// The session.
    pub session: SessionId,
    /// The command in its sandbox.
    pub confined: Confined,
    /// The channel between session and process.
    pub channel: HostChannel,
    /// The folder for the recording of its output, a [`Recording`](crate::session::Recording). It does not exist yet; the
    /// folder above it does.
    pub recording: PathBuf,
    /// Descriptors that a host whose sessions outlive this program holds as long as the session runs: locks, for example.
    pub held: Vec<OwnedFd>,
    /// Time after which such a host ends the session unless an orchestrator is attached. See
    /// [`SessionProcess::end_in`](crate::session::SessionProcess::end_in).
    pub limit: Option<Duration>,
}

impl HostRequest {
    /// Returns a request to run `confined` for `session`.
    #[must_use]
    pub fn new(
        session: SessionId,
        confined: Confined,
        channel: HostChannel,
        recording: impl Into<PathBuf>,
    ) -> Self {
        Self { session, confined, channel, recording: recording.into(), held: Vec::new(), limit: None }
    }

    /// Sets the time limit.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Adds descriptors to hold.
    #[must_use]
    pub fn with_held(mut self, held: impl IntoIterator<Item = OwnedFd>) -> Self {
        self.held.extend(held);
        self
    }
}

/// Channel between a session and its process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum HostChannel {
    /// A pseudo-terminal of this size.
    Terminal(Size),
    /// Three pipes.
    Pipes,
}

/// A running process of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hosted {
    /// The process.
    pub process: Arc<dyn SessionProcess>,
    /// The guard of its sandbox.
    pub guard: Arc<dyn SandboxGuard>,
    /// Identity of the agent's process.
    pub agent: ProcessIdentity,
    /// Identity of the process that keeps the agent and outlives it, if there is one.
    pub guardian: Option<ProcessIdentity>,
    /// For an adopted session, the offset of its output before which all queries of its terminal are answered. 0 for one
    /// that was launched.
    pub answered: u64,
}

impl Hosted {
    /// Returns a process without a guardian.
    #[must_use]
    pub fn new(process: Arc<dyn SessionProcess>, guard: Arc<dyn SandboxGuard>) -> Self {
        let agent = process.identity().clone();
        Self { process, guard, agent, guardian: None, answered: 0 }
    }

    /// Adds the identity of its guardian.
    #[must_use]
    pub fn with_guardian(mut self, guardian: ProcessIdentity) -> Self {
        self.guardian = Some(guardian);
        self
    }

    /// Sets the offset before which all queries are answered.
    #[must_use]
    pub fn with_answered(mut self, offset: u64) -> Self {
        self.answered = offset;
        self
    }
}

/// A session in a host's list.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HostedSession {
    /// The session.
    pub session: SessionId,
    /// Identity of the agent's process.
    pub agent: ProcessIdentity,
    /// Identity of the guardian, if there is one.
    pub guardian: Option<ProcessIdentity>,
}

impl HostedSession {
    /// Returns an entry for `session`, which runs as `hosted`.
    #[must_use]
    pub fn new(session: SessionId, hosted: &Hosted) -> Self {
        Self { session, agent: hosted.agent.clone(), guardian: hosted.guardian.clone() }
    }
}
