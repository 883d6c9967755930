//! The handles that embedders hold.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::builder::{Inner, OrchestratorBuilder};
use super::compose::SessionRequest;
use super::dispatcher::{Message, Outbox};
use super::events::EventStream;
use super::launch;
use super::project::ProjectShared;
use super::request::{Run, RunOptions, RunRequest, TaskInfo};
use super::{Event, start};
use crate::backend::Backends;
use crate::journal::Entry;
use crate::model::{Mode, ProjectId, Settings, TaskStatus};
use crate::sandbox::SandboxSet;
use crate::schedule::Scope;
use crate::session::Session;
use crate::store::{Home, TaskPatch, TaskQuery, TaskStore};
use crate::terminal::Size;
use crate::workspace::Workspace;
use crate::{Error, ErrorKind, Result};

/// Runs agents on the tasks of projects, in this process. Cheap to clone.
///
/// Agents end with it: dropping the last handle, or the end of the process however it comes about, ends every agent
/// with all of its processes. Their work is kept, and the next start goes on from there. [`shutdown`](Self::shutdown)
/// ends them in order.
#[derive(Clone)]
pub struct Orchestrator(Arc<Inner>, Arc<LastHandle>);

/// Ends everything when the last handle is dropped.
struct LastHandle(Outbox);

impl Drop for LastHandle {
    fn drop(&mut self) {
        let (reply, _) = oneshot::channel();
        self.0.send(Message::Close { project: None, reply });
    }
}

impl Orchestrator {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let last = LastHandle(inner.outbox.clone());
        Self(inner, Arc::new(last))
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// A builder with defaults that need nothing.
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::default()
    }

    /// Opens the project at `root`: takes its lock, settles what a killed orchestrator left, and from then on starts
    /// tasks by itself where `auto_start_tasks` says so.
    ///
    /// # Errors
    /// `locked` when another orchestrator has it open, with its pid; `already_exists` when this one has; `not_found`
    /// when there is no project; `busy` when an agent of an earlier orchestrator does not end.
    pub async fn open(&self, root: impl AsRef<Path>) -> Result<ProjectHandle> {
        start::open(&self.0, root.as_ref()).await.map(|shared| ProjectHandle(shared, Arc::clone(&self.1)))
    }

    /// Everything that happens from now on, in one order.
    ///
    /// # Errors
    /// `too_many_watchers`.
    pub fn events(&self) -> Result<EventStream> {
        self.0.events.subscribe()
    }

    /// The backends.
    #[must_use]
    pub fn backends(&self) -> &Backends {
        &self.0.backends
    }

    /// The sandboxes.
    #[must_use]
    pub fn sandboxes(&self) -> &SandboxSet {
        &self.0.sandboxes
    }

    /// The Watchfire home.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.0.store_home
    }

    /// The person's settings, as they were last read well.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.0.settings()
    }

    /// Ends everything in order: stops all sessions, captures their work, lets merges under way finish, closes all
    /// projects. When it returns, all that is to be remembered is on the disk.
    pub async fn shutdown(&self) {
        let (reply, closed) = oneshot::channel();
        self.0.outbox.send(Message::Close { project: None, reply });
        // An error means that the dispatcher has ended already.
        let _ = closed.await;
    }
}

impl fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator").field("home", &self.0.home).finish_non_exhaustive()
    }
}

/// An open project. Cheap to clone.
#[derive(Clone)]
pub struct ProjectHandle(
    pub(super) Arc<ProjectShared>,
    #[expect(dead_code, reason = "held")] Arc<LastHandle>,
);

impl ProjectHandle {
    /// Which project.
    #[must_use]
    pub fn id(&self) -> &ProjectId {
        &self.0.id
    }

    /// Its root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Its tasks.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn TaskStore> {
        &self.0.store
    }

    /// Its workspaces.
    #[must_use]
    pub fn workspace(&self) -> &Arc<dyn Workspace> {
        &self.0.workspace
    }

    /// The folder of its session logs.
    #[must_use]
    pub fn logs_dir(&self) -> &Path {
        &self.0.logs_dir
    }

    /// The sessions that run right now.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        self.0.sessions()
    }

    /// The tasks that match, in work order, each with where it stands.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskInfo>> {
        let list = self.0.store.list(query).await?;
        let tasks = list.tasks.into_iter().map(|task| task.value).collect();
        let (reply, infos) = oneshot::channel();
        self.0.inner.outbox.send(Message::Tasks { project: self.0.id.clone(), tasks, reply });
        infos.await.map_err(|_| Error::new(ErrorKind::Cancelled, "the orchestrator has shut down"))
    }

    /// Runs tasks. A draft that is asked for by its number becomes ready first.
    ///
    /// # Errors
    /// `not_found` for a task that does not exist or lies in the trash; `invalid_input` for one that is done.
    pub async fn run(&self, request: RunRequest) -> Result<Run> {
        if let Scope::Task(number) = request.scope {
            let task = self.0.store.get(number).await?.value;
            if task.is_deleted() {
                return Err(Error::new(ErrorKind::NotFound, "the task is in the trash").with("task", number));
            }
            match task.status {
                TaskStatus::Ready => {}
                TaskStatus::Draft => {
                    self.0
                        .store
                        .update(number, TaskPatch::new().with_status(TaskStatus::Ready), None, None)
                        .await?;
                }
                TaskStatus::Done => {
                    return Err(Error::new(
                        ErrorKind::InvalidInput,
                        "the task is done; set it back to ready first",
                    )
                    .with("task", number));
                }
            }
        }
        // The run is judged by the tasks as they are now.
        while !start::load_board(&self.0).await? {
            tokio::task::yield_now().await;
        }
        let (reply, run) = oneshot::channel();
        let (project, RunRequest { scope, options }) = (self.0.id.clone(), request);
        self.0.inner.outbox.send(Message::Run { project, scope, options, reply });
        run.await.map_err(|_| Error::new(ErrorKind::Cancelled, "the orchestrator has shut down"))?
    }

    /// Starts a chat in the project root.
    ///
    /// # Errors
    /// What keeps a session from starting: an unknown or missing agent, a sandbox that cannot enforce the policy.
    pub async fn chat(&self, request: ChatRequest) -> Result<Session> {
        let shared = Arc::clone(&self.0);
        let closed = || Error::new(ErrorKind::Cancelled, "the project is being closed");
        if *shared.closing.borrow() {
            return Err(closed());
        }
        let under_way = shared.finishing();
        let started =
            launch::start(&shared, SessionRequest::in_root(&shared, Mode::Chat, request.options)).await?;
        let session = started.session.clone();
        let watched = session.clone();
        if *shared.closing.borrow() {
            session.stop();
        }
        tokio::spawn(async move {
            let ended = watched.ended().await;
            let info = watched.info();
            shared.tell(&Event::SessionEnded {
                project: shared.id.clone(),
                session: info.id.clone(),
                task: None,
                exit: ended.exit.to_string(),
                usage: ended.usage,
                cost: ended.cost,
            });
            let outcome = ended.cause.word().to_owned();
            let entry = Entry::SessionEnded { session: info.id.clone(), exit: ended.exit.code(), outcome };
            shared.journal.post(vec![entry]);
            started.finish(&shared).await;
            drop(under_way);
        });
        Ok(session)
    }

    /// Ends everything in this project in order and lets go of its lock.
    pub async fn close(self) {
        let (reply, closed) = oneshot::channel();
        let shared = self.0;
        shared.inner.outbox.send(Message::Close { project: Some(shared.id.clone()), reply });
        let _ = closed.await;
    }
}

impl fmt::Debug for ProjectHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectHandle")
            .field("id", &self.0.id)
            .field("root", &self.0.root)
            .finish_non_exhaustive()
    }
}

/// A request for a chat.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The overrides; `merge` means nothing here.
    pub options: RunOptions,
}

impl ChatRequest {
    /// A chat with what project and settings say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    super::request::overrides!();

    /// Chooses the size of the terminal.
    #[must_use]
    pub fn with_size(mut self, size: Size) -> Self {
        self.options.size = size;
        self
    }
}
