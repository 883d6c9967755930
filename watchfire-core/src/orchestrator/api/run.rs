//! The handle of a run.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::Result;
use crate::orchestrator::shared::{Message, ProjectShared, shut_down};
use crate::schedule::{Request, RunId, RunSummary};

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

    /// Stops it: every life that no other run covers is stopped, its work captured and kept. Returns at once.
    pub fn stop(&self) {
        let (reply, _) = oneshot::channel();
        let (project, request) = (self.shared.id.clone(), Request::StopRun { run: self.id });
        self.shared.inner.reports.send(Message::Request { project, command: None, request, reply });
    }

    /// Waits until nothing moves without a person, and returns the summary. Lives that wait for a person (held,
    /// asking, limited without a known end) do not keep the run from ending; the summary names them.
    ///
    /// # Errors
    /// `cancelled` when the orchestrator has shut down first, or there is no such run.
    pub async fn wait(&self) -> Result<Arc<RunSummary>> {
        let (reply, summary) = oneshot::channel();
        let project = self.shared.id.clone();
        self.shared.inner.reports.send(Message::AwaitRun { project, run: self.id, reply });
        summary.await.map_err(|_| shut_down())
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("project", &self.shared.id).finish_non_exhaustive()
    }
}
