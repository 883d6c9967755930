//! Finding sessions by what they are called, and their logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ProjectHandle;
use crate::model::{Mode, SessionId};
use crate::observe::{Candidate, Log};
use crate::orchestrator::shared::{SessionLog, blocking};
use crate::store::TaskQuery;
use crate::{Error, ErrorKind, Result};

impl ProjectHandle {
    /// Returns the sessions that a [`Target`](crate::observe::Target) can name: those that run, and if `ended` is set those
    /// that ended and whose logs are kept, which reads the beginnings of all logs. Newest first.
    ///
    /// # Errors
    /// Those of the store and of the disk.
    pub async fn candidates(&self, ended: bool) -> Result<Vec<Candidate>> {
        let name = self.store().project().await?.value.name;
        let tasks = self.store().list(&TaskQuery::new()).await?.tasks;
        let labels: BTreeMap<_, _> =
            tasks.into_iter().map(|task| (task.value.task_number, task.value.labels)).collect();
        let labels = |task| labels.get(&task).cloned().unwrap_or_default();
        let folder = self.logs_dir().to_owned();
        let list = move || if ended { SessionLog::list(&folder) } else { Ok(Vec::new()) };
        let logs = blocking("listing the logs", list).await?;
        // Read after the logs: a session that ended in between is then in both, not in none.
        let running: Vec<_> = self.sessions().iter().map(|session| session.info().clone()).collect();
        let project = (self.id().clone(), name);
        let ended = logs.into_iter().filter_map(|log| {
            let session = log.session.filter(|id| running.iter().all(|info| info.id != *id))?;
            let mode = log.mode.unwrap_or(Mode::Task);
            let (backend, started_at) = (log.agent.parse().ok()?, log.started_at?);
            let known = Candidate::new(session, log.alias, project.clone(), mode, backend, started_at);
            let labels = log.task.map(labels).unwrap_or_default();
            Some(known.with_task(log.task, labels).with_running(false))
        });
        let mut known: Vec<_> = running
            .iter()
            .map(|info| {
                let alias = Some(info.alias.clone());
                let (mode, backend) = (info.mode, info.backend.clone());
                let started_at = info.started_at.clone();
                Candidate::new(info.id.clone(), alias, project.clone(), mode, backend, started_at)
                    .with_task(info.task, info.task.map(labels).unwrap_or_default())
            })
            .chain(ended)
            .collect();
        known.sort_by(|a, b| (&b.started_at, &b.session).cmp(&(&a.started_at, &a.session)));
        Ok(known)
    }

    /// Returns the log of a session, which is read back from its files where the session ended long ago.
    ///
    /// # Errors
    /// `not_found` where there is no such session, or its log was removed; those of the disk.
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
