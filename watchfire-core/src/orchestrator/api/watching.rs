//! Finding sessions by what they are called, and their logs.

use std::sync::Arc;

use super::ProjectHandle;
use crate::model::{SessionId, Timestamp};
use crate::observe::{Candidate, Log};
use crate::orchestrator::shared::{Names, SessionLog, blocking, candidates};
use crate::{Error, ErrorKind, Result};

impl ProjectHandle {
    /// Returns the sessions that a [`Target`](crate::observe::Target) can name: those that run, and if `ended` is set those
    /// that ended and whose logs are kept, which reads the beginnings of all logs. Newest first.
    ///
    /// # Errors
    /// Errors of the store and of the disk.
    pub async fn candidates(&self, ended: bool) -> Result<Vec<Candidate>> {
        candidates(self.shared(), ended).await
    }

    /// Returns the sessions that began after the first `seen` of this orchestrator, also those that have ended. All
    /// began at `since` or later.
    pub(super) async fn arrived(&self, seen: u64, since: &Timestamp) -> Result<Vec<Candidate>> {
        match self.shared().begun_since(seen) {
            Some(sessions) => {
                let names = Names::of(self.shared()).await?;
                Ok(sessions.iter().map(|(_, session)| names.candidate(session)).collect())
            }
            // A reader that was away for that long finds the first of them in their files.
            None => {
                let mut known = self.candidates(true).await?;
                known.retain(|candidate| candidate.started_at >= *since);
                Ok(known)
            }
        }
    }

    /// Returns the log of a session, which is read back from its files where the session ended long ago.
    ///
    /// # Errors
    /// `not_found` where there is no such session, or its log was removed; I/O errors.
    pub async fn log_of(&self, session: &SessionId) -> Result<Log> {
        if let Some(session) = self.session(session) {
            return Ok(session.log().clone());
        }
        let (shared, wanted) = (Arc::clone(self.shared()), session.clone());
        let read = move || {
            let log = SessionLog::list(&shared.logs_dir)?
                .into_iter()
                .find(|it| it.session.as_ref() == Some(&wanted));
            let gone =
                || Error::new(ErrorKind::NotFound, "there is no such session").with("session", &wanted);
            let log = log.ok_or_else(gone)?;
            let backend = shared.inner.backend(&log.agent.parse()?, &shared.inner.settings())?;
            log.replay(&*backend, &shared.inner.clock)
        };
        blocking("reading a log", read).await
    }
}
