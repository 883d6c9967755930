//! Finding sessions by what they are called, and their logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ProjectHandle;
use crate::model::{Mode, ProjectId, SessionId, TaskNumber, Timestamp};
use crate::observe::{Candidate, Log};
use crate::orchestrator::shared::{SessionLog, blocking};
use crate::session::Session;
use crate::store::TaskQuery;
use crate::{Error, ErrorKind, Result};

impl ProjectHandle {
    /// Returns the sessions that a [`Target`](crate::observe::Target) can name: those that run, and if `ended` is set those
    /// that ended and whose logs are kept, which reads the beginnings of all logs. Newest first.
    ///
    /// # Errors
    /// Those of the store and of the disk.
    pub async fn candidates(&self, ended: bool) -> Result<Vec<Candidate>> {
        let names = self.names().await?;
        let folder = self.logs_dir().to_owned();
        let list = move || if ended { SessionLog::list(&folder) } else { Ok(Vec::new()) };
        let logs = blocking("listing the logs", list).await?;
        // Read after the logs: a session that ended in between is then in both, not in none.
        let running = self.sessions();
        let ended = logs.into_iter().filter_map(|log| {
            let session = log.session.filter(|id| running.iter().all(|it| it.info().id != *id))?;
            let mode = log.mode.unwrap_or(Mode::Task);
            let (backend, started_at) = (log.agent.parse().ok()?, log.started_at?);
            let known = Candidate::new(session, log.alias, names.project.clone(), mode, backend, started_at);
            Some(known.with_task(log.task, names.labels(log.task)).with_running(false))
        });
        let mut known: Vec<_> = running.iter().map(|it| names.candidate(it)).chain(ended).collect();
        known.sort_by(|a, b| (&b.started_at, &b.session).cmp(&(&a.started_at, &a.session)));
        Ok(known)
    }

    /// Returns the sessions that began after the first `seen` of this orchestrator, also those that have ended. None of them
    /// began before `since`.
    pub(super) async fn arrived(&self, seen: u64, since: &Timestamp) -> Result<Vec<Candidate>> {
        match self.shared().begun_since(seen) {
            Some(sessions) => {
                let names = self.names().await?;
                Ok(sessions.iter().map(|session| names.candidate(session)).collect())
            }
            // A reader that was away for that long finds the first of them in their files.
            None => {
                let mut known = self.candidates(true).await?;
                known.retain(|candidate| candidate.started_at >= *since);
                Ok(known)
            }
        }
    }

    async fn names(&self) -> Result<Names> {
        let project = (self.id().clone(), self.store().project().await?.value.name);
        let tasks = self.store().list(&TaskQuery::new()).await?.tasks;
        let labels = tasks.into_iter().map(|task| (task.value.task_number, task.value.labels)).collect();
        Ok(Names { project, labels })
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

/// What the store knows about sessions.
struct Names {
    project: (ProjectId, String),
    labels: BTreeMap<TaskNumber, Vec<String>>,
}

impl Names {
    fn labels(&self, task: Option<TaskNumber>) -> Vec<String> {
        task.and_then(|task| self.labels.get(&task).cloned()).unwrap_or_default()
    }

    /// Describes a session of this orchestrator.
    fn candidate(&self, session: &Session) -> Candidate {
        let info = session.info().clone();
        let (labels, running) = (self.labels(info.task), !session.has_ended());
        Candidate::new(
            info.id,
            Some(info.alias),
            self.project.clone(),
            info.mode,
            info.backend,
            info.started_at,
        )
        .with_task(info.task, labels)
        .with_running(running)
    }
}
