//! A host whose sessions live as long as this program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::contract::{HostChannel, HostRequest, Hosted, HostedSession, SessionHost};
use super::detached::Detached;
use crate::model::{ProcessIdentity, SessionId};
use crate::process::helper::Helper;
use crate::process::{SESSION_MARK, end_marked};
use crate::sandbox::SandboxGuard;
use crate::session::SessionProcess;
use crate::session::process::{Adopted, Guarded, Host, LinesSession, PtySession};
use crate::{Error, ErrorKind, Result};

/// The default host. Each session runs under a guardian that ends it when this program ends, however that happens.
/// After a restart there is nothing to adopt.
#[derive(Debug)]
pub struct InProcess {
    helper: Helper,
    /// The folder of the hosts that an earlier program may have left.
    left: Option<PathBuf>,
    running: Mutex<BTreeMap<SessionId, Running>>,
}

#[derive(Debug)]
struct Running {
    process: Weak<dyn SessionProcess>,
    entry: HostedSession,
}

impl InProcess {
    /// Returns a host whose guardians are run by `helper`.
    #[must_use]
    pub fn new(helper: Helper) -> Self {
        Self { helper, left: None, running: Mutex::default() }
    }

    /// Ends sessions that a [`Detached`] host with this folder has left, too.
    #[must_use]
    pub(crate) fn after(mut self, hosts: PathBuf) -> Self {
        self.left = Some(hosts);
        self
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<SessionId, Running>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // The handles belong to the sessions: a session whose last handle is dropped has been ended by that.
        running.retain(|_, it| it.process.strong_count() > 0);
        running
    }

    /// Starts the process of a session, which can outlive this program with `host`.
    pub(super) async fn launch_in(&self, request: HostRequest, host: Option<Host>) -> Result<Hosted> {
        let HostRequest { session, mut confined, channel, recording, .. } = request;
        if self.find(&session).await.is_some() {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the session runs already").with("session", session)
            );
        }
        // Lets recovery find every process of the session by its environment, whatever has killed us.
        confined.command = confined.command.with_env(SESSION_MARK, session.as_str());
        let hosted = match channel {
            HostChannel::Terminal(size) => {
                let process = PtySession::start(&self.helper, confined, size, recording, host).await?;
                let about = about(process.guarded());
                hosted(process, about)
            }
            HostChannel::Pipes => {
                let process = LinesSession::start(&self.helper, confined, recording, host).await?;
                let about = about(process.guarded());
                hosted(process, about)
            }
        };
        self.add(session, &hosted);
        Ok(hosted)
    }

    /// Takes charge of a session of an earlier run of this program.
    pub(super) fn take_over(&self, session: SessionId, adopted: Adopted, terminal: bool) -> Result<Hosted> {
        let answered = adopted.answered;
        let hosted = match terminal {
            true => {
                let process = PtySession::adopted(adopted)?;
                let about = about(process.guarded());
                hosted(process, about)
            }
            false => {
                let process = LinesSession::adopted(adopted)?;
                let about = about(process.guarded());
                hosted(process, about)
            }
        };
        self.add(session, &hosted);
        Ok(hosted.with_answered(answered))
    }

    fn add(&self, session: SessionId, hosted: &Hosted) {
        let entry = HostedSession::new(session.clone(), hosted);
        self.running().insert(session, Running { process: Arc::downgrade(&hosted.process), entry });
    }

    /// Returns the process of a session, if it runs.
    pub(super) async fn find(&self, session: &SessionId) -> Option<Arc<dyn SessionProcess>> {
        let process = self.running().get(session)?.process.upgrade()?;
        // A poll of the wait, which alone knows whether the whole tree is gone.
        let ended = tokio::time::timeout(Duration::ZERO, process.wait()).await.is_ok();
        (!ended).then_some(process)
    }
}

fn hosted(process: impl SessionProcess + 'static, about: (Arc<dyn SandboxGuard>, ProcessIdentity)) -> Hosted {
    Hosted::new(Arc::new(process), about.0).with_guardian(about.1)
}

fn about(guarded: &Guarded) -> (Arc<dyn SandboxGuard>, ProcessIdentity) {
    (Arc::clone(guarded.guard()), guarded.guardian().clone())
}

#[async_trait]
impl SessionHost for InProcess {
    async fn launch(&self, request: HostRequest) -> Result<Hosted> {
        self.launch_in(request, None).await
    }

    async fn adopt(&self, _: &SessionId) -> Result<Option<Hosted>> {
        Ok(None)
    }

    async fn list(&self) -> Result<Vec<HostedSession>> {
        let entries: Vec<_> = self.running().values().map(|it| it.entry.clone()).collect();
        let mut running = Vec::new();
        for entry in entries {
            if self.find(&entry.session).await.is_some() {
                running.push(entry);
            }
        }
        Ok(running)
    }

    async fn end(&self, session: &SessionId) -> Result<()> {
        if let Some(process) = self.find(session).await {
            return process.terminate(Duration::ZERO).await.map(drop);
        }
        match &self.left {
            // It knows what else is left of the session: folders of its host and of its sandbox.
            Some(hosts) if hosts.join(session.as_str()).exists() => {
                Detached::new(self.helper.clone(), hosts)?.end(session).await
            }
            _ => end_left(session).await,
        }
    }
}

/// Ends the processes that an earlier run of this program left behind.
pub(super) async fn end_left(session: &SessionId) -> Result<()> {
    let session = session.clone();
    let failed = |error| Error::new(ErrorKind::Internal, "ending a session").with_source(error);
    let ended = tokio::task::spawn_blocking(move || end_marked(&session)).await.map_err(failed)?;
    if ended > 0 {
        tracing::warn!(ended, "ended processes that outlived their guardian");
    }
    Ok(())
}
