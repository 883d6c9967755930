//! One open project: what its effects share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use super::builder::Inner;
use super::dispatcher::{BoardRead, Message};
use super::{Event, Step};
use crate::Result;
use crate::journal::{self, Entry, JournalHandle};
use crate::model::{Attempt, Project, ProjectId, SessionId, Settings, TaskNumber};
use crate::schedule::{Ending, Limits};
use crate::session::Session;
use crate::store::{Malformed, TaskStore};
use crate::workspace::Workspace;

/// What everything that happens in one project shares.
pub(super) struct ProjectShared {
    pub(super) inner: Arc<Inner>,
    pub(super) id: ProjectId,
    pub(super) root: PathBuf,
    /// `state/<project_id>`.
    pub(super) state_dir: PathBuf,
    pub(super) logs_dir: PathBuf,
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) workspace: Arc<dyn Workspace>,
    pub(super) journal: JournalHandle,
    pub(super) sessions: Mutex<BTreeMap<SessionId, Session>>,
    /// Asks for the board to be read again.
    pub(super) reload: Arc<Notify>,
    /// Grows with every change that an effect made to the store, so that a board read before it is not believed.
    pub(super) epoch: AtomicU64,
    /// The malformed files that people were told of.
    malformed: Mutex<Vec<Malformed>>,
    next_intent: AtomicU64,
    /// Whether it is being closed: nothing new starts.
    pub(super) closing: watch::Sender<bool>,
    /// How many times the board was read.
    boards: AtomicU64,
    /// How many ended sessions are being cleaned up after.
    finishing: watch::Sender<usize>,
}

impl ProjectShared {
    #[expect(clippy::too_many_arguments, reason = "the fields of a private struct, made in one place")]
    pub(super) fn new(
        inner: Arc<Inner>,
        id: ProjectId,
        root: PathBuf,
        state_dir: PathBuf,
        logs_dir: PathBuf,
        store: Arc<dyn TaskStore>,
        workspace: Arc<dyn Workspace>,
        journal: JournalHandle,
        state: &journal::State,
    ) -> Self {
        Self {
            inner,
            id,
            root,
            state_dir,
            logs_dir,
            store,
            workspace,
            journal,
            sessions: Mutex::default(),
            reload: Arc::default(),
            malformed: Mutex::default(),
            epoch: AtomicU64::new(0),
            next_intent: AtomicU64::new(state.next_intent().0),
            closing: watch::Sender::new(false),
            boards: AtomicU64::new(0),
            finishing: watch::Sender::new(0),
        }
    }

    /// The project's settings and the person's, as they are now.
    pub(super) async fn settings(&self) -> Result<(Project, Settings)> {
        let project = self.store.project().await?.value;
        Ok((project, self.inner.settings()))
    }

    /// What may run at once here.
    pub(super) fn limits(&self, project: &Project, settings: &Settings) -> Limits {
        Limits {
            parallel: project.max_parallel.unwrap_or(1).max(1),
            auto_start: self.inner.automation
                && project.auto_start_tasks.unwrap_or(settings.defaults.auto_start_tasks),
            batch: project.merge.batch.unwrap_or(1),
            stop_on_merge_failure: settings.defaults.stop_on_merge_failure,
            ..Limits::default()
        }
    }

    /// Tells those who watch.
    pub(super) fn tell(&self, event: &Event) {
        self.inner.events.push(event);
    }

    pub(super) fn attention(&self, task: Option<TaskNumber>, message: impl Into<String>) {
        self.tell(&Event::Attention { project: self.id.clone(), task, message: message.into() });
    }

    /// Tells of malformed files, once each.
    pub(super) fn tell_malformed(&self, malformed: &[Malformed]) {
        let mut told = self.malformed.lock().unwrap_or_else(PoisonError::into_inner);
        let told = std::mem::replace(&mut *told, malformed.to_vec());
        for fault in malformed.iter().filter(|fault| !told.contains(fault)) {
            self.attention(fault.number, fault.to_string());
        }
    }

    /// Says that a task has come a step further.
    pub(super) fn progress(&self, task: TaskNumber, attempt: Attempt, step: Step, detail: impl Into<String>) {
        self.tell(&Event::TaskProgress {
            project: self.id.clone(),
            task,
            attempt,
            step,
            detail: detail.into(),
        });
        self.inner.outbox.send(Message::Progress { project: self.id.clone(), task, attempt, step });
    }

    /// Writes down how an attempt or its merge ended. Lazy: what it says can be found out again.
    pub(super) fn record_ending(&self, task: TaskNumber, attempt: Attempt, ending: &Ending) {
        let state = journal::TaskState::Ended { ending: ending.clone() };
        self.journal.post(vec![Entry::TaskState { task, attempt, state }]);
    }

    /// A fresh intent.
    pub(super) fn intent(&self, step: journal::Step) -> (journal::IntentId, Entry) {
        let id = journal::IntentId(self.next_intent.fetch_add(1, Ordering::Relaxed));
        (id, Entry::Intent { id, step })
    }

    /// Says that an effect has changed the store: boards read before now are stale.
    pub(super) fn store_changed(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.reload.notify_one();
    }

    pub(super) fn add_session(&self, session: Session) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session.info().id.clone(), session);
    }

    pub(super) fn remove_session(&self, id: &SessionId) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// The moment at which a board is about to be read.
    pub(super) fn begin_board(&self) -> BoardRead {
        BoardRead {
            number: self.boards.fetch_add(1, Ordering::AcqRel) + 1,
            epoch: self.epoch.load(Ordering::Acquire),
        }
    }

    /// Has folders made ready for the tasks to come, while agents work and we have nothing else to do. Ends when the
    /// project is closed.
    pub(super) fn make_ready(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let count = shared.inner.settings().defaults.ready_worktrees as usize;
            let mut closing = shared.closing.subscribe();
            let made = tokio::select! {
                made = shared.workspace.keep_ready(count) => made,
                _ = closing.wait_for(|closing| *closing) => Ok(()),
            };
            if let Err(error) = made {
                shared.attention(None, format!("making folders ready: {}", error.report()));
            }
        });
    }

    /// Counts a clean-up under way until the guard is dropped.
    pub(super) fn finishing(self: &Arc<Self>) -> Finishing {
        self.finishing.send_modify(|count| *count += 1);
        Finishing(Arc::clone(self))
    }

    /// Waits until nothing is being cleaned up, then closes the journal and lets go of its lock.
    pub(super) async fn settle(&self) {
        let mut finishing = self.finishing.subscribe();
        // The sender is ours.
        let _ = finishing.wait_for(|count| *count == 0).await;
        if let Err(error) = self.journal.append(vec![Entry::Shutdown]).await {
            tracing::error!("closing the journal: {}", error.report());
        }
        self.journal.close().await;
    }

    /// The running sessions.
    pub(super) fn sessions(&self) -> Vec<Session> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// A clean-up under way.
pub(super) struct Finishing(Arc<ProjectShared>);

impl Drop for Finishing {
    fn drop(&mut self) {
        self.0.finishing.send_modify(|count| *count = count.saturating_sub(1));
    }
}
