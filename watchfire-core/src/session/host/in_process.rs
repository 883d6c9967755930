//! A host whose sessions live as long as this program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::contract::{HostChannel, HostRequest, Hosted, HostedSession, SessionHost};
use crate::model::SessionId;
use crate::process::helper::Helper;
use crate::process::{SESSION_MARK, end_marked};
use crate::session::SessionProcess;
use crate::session::process::{LinesSession, PtySession};
use crate::{Error, ErrorKind, Result};

/// The default host. Each session runs under a guardian that ends it when this program ends, however that happens.
/// After a restart there is nothing to adopt.
#[derive(Debug)]
pub struct InProcess {
    helper: Helper,
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
        Self { helper, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<SessionId, Running>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // The handles belong to the sessions: a session whose last handle is dropped has been ended by that.
        running.retain(|_, it| it.process.strong_count() > 0);
        running
    }

    /// Returns the process of a session, if it runs.
    async fn find(&self, session: &SessionId) -> Option<Arc<dyn SessionProcess>> {
        let process = self.running().get(session)?.process.upgrade()?;
        // A poll of the wait, which alone knows whether the whole tree is gone.
        let ended = tokio::time::timeout(Duration::ZERO, process.wait()).await.is_ok();
        (!ended).then_some(process)
    }
}

#[async_trait]
impl SessionHost for InProcess {
    async fn launch(&self, request: HostRequest) -> Result<Hosted> {
        let HostRequest { session, mut confined, channel, recording } = request;
        if self.find(&session).await.is_some() {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the session runs already").with("session", session)
            );
        }
        // Lets recovery find every process of the session by its environment, whatever has killed us.
        confined.command = confined.command.with_env(SESSION_MARK, session.as_str());
        let hosted = match channel {
            HostChannel::Terminal(size) => {
                let process = PtySession::start(&self.helper, confined, size, recording).await?;
                let (guard, guardian) = (Arc::clone(process.guard()), process.guardian().clone());
                Hosted::new(Arc::new(process), guard).with_guardian(guardian)
            }
            HostChannel::Pipes => {
                let process = LinesSession::start(&self.helper, confined, recording).await?;
                let (guard, guardian) = (Arc::clone(process.guard()), process.guardian().clone());
                Hosted::new(Arc::new(process), guard).with_guardian(guardian)
            }
        };
        let entry = HostedSession::new(session.clone(), &hosted);
        self.running().insert(session, Running { process: Arc::downgrade(&hosted.process), entry });
        Ok(hosted)
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
        // Processes that an earlier run of this program left behind.
        let session = session.clone();
        let failed = |error| Error::new(ErrorKind::Internal, "ending a session").with_source(error);
        let ended = tokio::task::spawn_blocking(move || end_marked(&session)).await.map_err(failed)?;
        if ended > 0 {
            tracing::warn!(ended, "ended processes that outlived their guardian");
        }
        Ok(())
    }
}
