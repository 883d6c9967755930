//! The orchestrator's handle.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{OrchestratorBuilder, ProjectHandle, Subscription, Subscriptions};
use crate::Result;
use crate::backend::Backends;
use crate::journal::Cursor;
use crate::model::{ProjectId, Settings};
use crate::orchestrator::effects::{self, Entered, OpenedJournal};
use crate::orchestrator::shared::{
    LogStream, Message, Opening, Parts, Reports, caught, shut_down, supervise,
};
use crate::sandbox::SandboxSet;
use crate::store::Home;

/// Orchestrator of agents for tasks of projects, in this process. Cheap to clone.
///
/// Agents end with it: when the last handle is dropped, or the process ends for any reason, every agent ends with all
/// of its processes. The work is kept, and the lives continue at the next start. [`shutdown`](Self::shutdown) does
/// the same in order. Agents of a [hosted](OrchestratorBuilder::hosted) orchestrator outlive the end of the process, and
/// the next start takes them over.
#[derive(Clone)]
pub struct Orchestrator(Arc<Parts>, Arc<LastHandle>);

/// Guard that ends everything when the last handle is dropped.
pub(super) struct LastHandle(Reports);

impl Drop for LastHandle {
    fn drop(&mut self) {
        // `drop` cannot wait, so the reply is not needed.
        let (reply, _) = oneshot::channel();
        self.0.send(Message::Close { project: None, detach: false, reply });
    }
}

impl Orchestrator {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        let last = LastHandle(parts.reports.clone());
        Self(parts, Arc::new(last))
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.0
    }

    /// Returns a builder with defaults that need nothing.
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::default()
    }

    /// Opens the project at `root`: takes its locks, finds the outcome of everything that an earlier orchestrator
    /// left under way, and completes merges that it began. Nothing else starts, unless
    /// [`automation`](OrchestratorBuilder::automation) or [`resume`](OrchestratorBuilder::resume) is on.
    ///
    /// # Errors
    /// `locked` when another orchestrator has it open, with its pid; `already_exists` when this one has; `not_found`
    /// when there is no project; `busy` when an agent of an earlier orchestrator does not end.
    pub async fn open(&self, root: impl AsRef<Path>) -> Result<ProjectHandle> {
        let Entered { shared, opened, reserved } = effects::enter(&self.0, root.as_ref()).await?;
        // Before the dispatcher knows of the project: no effect may run on half-published work.
        let recovery = shared.workspace.recover().await?;
        let (reply, unknown) = oneshot::channel();
        let OpenedJournal { id, state, recent, warnings } = opened;
        let state = effects::name_targets(&shared, state).await?;
        effects::withdraw_others(&shared, &state).await?;
        let left = effects::sessions_left(&shared, &state.ledger).await?;
        let kept = effects::not_released(&shared, &state);
        let open = state.ledger.lives.keys().copied().collect();
        let opening = Opening { project: Arc::clone(&shared), state, journal_id: id, recent, reply };
        self.0.reports.send(Message::Open(Box::new(opening)));
        // From here on the dispatcher owns the project. If opening fails, it must close it, or the project
        // stays locked for good.
        reserved.hand_over();
        let recovering = Arc::clone(&shared);
        // In a task of its own: a foreign workspace or store may panic, and the project must be closed again.
        let settled = caught("opening", async move {
            let shared = recovering;
            let unknown = unknown.await.map_err(|_| shut_down())?;
            let unrecovered = effects::Unrecovered::new(&shared, unknown);
            OpenedJournal::report_damage(&warnings, &shared);
            effects::report_recovery(&shared, &recovery);
            effects::release_left(&shared, kept).await;
            effects::sweep_lives(&shared, open).await;
            effects::recover(&shared, unrecovered).await?;
            effects::end_strangers(&shared, &left).await;
            effects::sweep(&shared, left).await;
            effects::load_board(&shared).await.map(|_| ())
        });
        if let Err(error) = settled.await {
            let (reply, closed) = oneshot::channel();
            let project = Some(shared.id.clone());
            self.0.reports.send(Message::Close { project, detach: false, reply });
            // An error means that the dispatcher has ended already.
            let _ = closed.await;
            return Err(error);
        }
        // Weak references: these loops must not keep a project open whose handles are gone.
        self.0.opened(&shared);
        let (weak, clock) = (|| Arc::downgrade(&shared), Arc::clone(&self.0.clock));
        supervise(weak(), "watching the tasks", effects::feed_board);
        let renewing = Arc::clone(&clock);
        supervise(weak(), "renewing claims", move |it| effects::renew_claims(it, Arc::clone(&renewing)));
        supervise(weak(), "cleaning up", move |it| effects::prune_periodically(it, Arc::clone(&clock)));
        Ok(ProjectHandle::new(shared, Arc::clone(&self.1)))
    }

    /// Returns the projects that are open, in the order of their ids. Each handle keeps its project open.
    #[must_use]
    pub fn projects(&self) -> Vec<ProjectHandle> {
        let open = self.0.projects().into_iter();
        open.map(|shared| ProjectHandle::new(shared, Arc::clone(&self.1))).collect()
    }

    /// Subscribes to the logs of all open projects, as [`ProjectHandle::subscribe`] does to one. `since` has a place for each project
    /// that goes on; order is kept within each project. A project that is opened later is added with [`LogStream::and`].
    ///
    /// # Errors
    /// The errors of [`ProjectHandle::subscribe`].
    pub async fn subscribe(&self, since: &BTreeMap<ProjectId, Cursor>) -> Result<Subscriptions> {
        let mut all = Subscriptions { projects: Vec::new(), changes: LogStream::none() };
        for project in self.projects() {
            let Subscription { snapshot, expired, changes } =
                project.subscribe(since.get(project.id()).cloned()).await?;
            all.projects.push((snapshot, expired));
            all.changes = all.changes.and(changes);
        }
        Ok(all)
    }

    /// Returns the backends.
    #[must_use]
    pub fn backends(&self) -> &Backends {
        &self.0.backends
    }

    /// Returns the sandboxes.
    #[must_use]
    pub fn sandboxes(&self) -> &SandboxSet {
        &self.0.sandboxes
    }

    /// Returns the Watchfire home.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.0.store_home
    }

    /// Returns the person's settings, as of the last valid file.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.0.settings()
    }

    /// Suspends everything in order: ends all sessions, captures their work, completes publications under way, closes
    /// all projects. Cancels verification, and begins no merge. When it returns, everything is on disk, and the lives
    /// continue from there at the next start.
    pub async fn shutdown(&self) {
        self.close(false).await;
    }

    /// Closes all projects like [`shutdown`](Self::shutdown), but leaves the agents of a
    /// [hosted](OrchestratorBuilder::hosted) orchestrator at work, for the next one with this home: for an upgrade, for
    /// example. Sessions that cannot be taken over are suspended.
    pub async fn detach(&self) {
        self.close(true).await;
    }

    async fn close(&self, detach: bool) {
        let (reply, closed) = oneshot::channel();
        self.0.reports.send(Message::Close { project: None, detach, reply });
        // An error means that the dispatcher has ended already.
        let _ = closed.await;
    }
}

impl fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator").field("home", &self.0.home).finish_non_exhaustive()
    }
}
