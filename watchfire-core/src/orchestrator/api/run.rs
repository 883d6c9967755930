//! The handle of a run.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::Result;
use crate::orchestrator::shared::{Message, ProjectShared, archive, shut_down};
use crate::schedule::{self, Request, RunId, RunSummary};

/// A run. Dropping the handle changes nothing.
#[derive(Clone)]
pub struct Run {
    id: RunId,
    shared: Arc<ProjectShared>,
}

impl Run {
    pub(super) fn new(id: RunId, shared: Arc<ProjectShared>) -> Self {
        Self { id, shared }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Stops it: every life that no other run covers is stopped, its work captured and kept. Work that is held stays held.
    /// Returns at once.
    pub fn stop(&self) {
        let (reply, _) = oneshot::channel();
        let (project, request) = (self.shared.id.clone(), Request::StopRun { run: self.id });
        self.shared.inner.reports.send(Message::Request { project, command: None, request, reply });
    }

    /// Waits until nothing moves without a person, and returns the summary. Lives that wait for a person (held,
    /// asking, limited without a known end) do not keep the run from ending; the summary names them.
    ///
    /// # Errors
    /// `cancelled` when the orchestrator has shut down first; `not_found` if there is no such run.
    pub async fn wait(&self) -> Result<Arc<RunSummary>> {
        let (reply, summary) = oneshot::channel();
        let project = self.shared.id.clone();
        self.shared.inner.reports.send(Message::AwaitRun { project, run: self.id, reply });
        match summary.await {
            Ok(summary) => Ok(summary),
            // Closed, or too long ago for the dispatcher.
            Err(_) if *self.shared.closing.borrow() => Err(shut_down()),
            Err(_) => {
                let run: schedule::Run = archive::read(&self.shared, self.id).await?;
                run.summary().map(Arc::new).ok_or_else(shut_down)
            }
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("project", &self.shared.id).finish_non_exhaustive()
    }
}
