//! The sessions of a project, as targets name them.

use std::collections::BTreeMap;

use super::{ProjectShared, SessionLog, blocking};
use crate::Result;
use crate::model::{Mode, ProjectId, TaskNumber};
use crate::observe::Candidate;
use crate::session::Session;
use crate::store::TaskQuery;

/// Returns the sessions that run, and if `ended` is set those that ended and whose logs are kept. Newest first.
pub(crate) async fn candidates(shared: &ProjectShared, ended: bool) -> Result<Vec<Candidate>> {
    let names = Names::of(shared).await?;
    let folder = shared.logs_dir.clone();
    let list = move || if ended { SessionLog::list(&folder) } else { Ok(Vec::new()) };
    let logs = blocking("listing the logs", list).await?;
    // Read after the logs: a session that ended in between is then in both, not in none.
    let running = shared.sessions();
    let ended = logs.into_iter().filter_map(|log| {
        let session = log.session.filter(|id| running.iter().all(|it| it.info().id != *id))?;
        let mode = log.mode.unwrap_or(Mode::Task);
        let (backend, started_at) = (log.agent.parse().ok()?, log.started_at?);
        let known = Candidate::new(session, log.alias, names.project.clone(), mode, backend, started_at);
        let known = known.with_task(log.task, names.labels(log.task)).with_phase(log.phase);
        Some(known.with_running(false))
    });
    let mut known: Vec<_> = running.iter().map(|it| names.candidate(it)).chain(ended).collect();
    known.sort_by(|a, b| (&b.started_at, &b.session).cmp(&(&a.started_at, &a.session)));
    Ok(known)
}

/// The store's part of the answer about sessions.
pub(crate) struct Names {
    project: (ProjectId, String),
    /// Labels and title of each task.
    tasks: BTreeMap<TaskNumber, (Vec<String>, String)>,
}

impl Names {
    pub(crate) async fn of(shared: &ProjectShared) -> Result<Self> {
        let project = (shared.id.clone(), shared.store.project().await?.value.name);
        let tasks = shared.store.list(&TaskQuery::new()).await?.tasks;
        let tasks = tasks.into_iter().map(|task| task.value);
        let tasks = tasks.map(|task| (task.task_number, (task.labels, task.title))).collect();
        Ok(Self { project, tasks })
    }

    fn labels(&self, task: Option<TaskNumber>) -> Vec<String> {
        task.and_then(|task| Some(self.tasks.get(&task)?.0.clone())).unwrap_or_default()
    }

    pub(crate) fn title(&self, task: Option<TaskNumber>) -> &str {
        task.and_then(|task| Some(self.tasks.get(&task)?.1.as_str())).unwrap_or_default()
    }

    /// Describes a session of this orchestrator.
    pub(crate) fn candidate(&self, session: &Session) -> Candidate {
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
        .with_phase(info.phase)
        .with_running(running)
    }
}
