//! What the services share: the orchestrator, and the projects that it has open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_stream::StreamExt as _;
use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::model::{ProjectEntry, ProjectId, ProjectStatus, Timestamp};
use watchfire_core::orchestrator::{LogStream, Orchestrator, ProjectHandle, Seen};
use watchfire_core::schedule::Change;
use watchfire_core::store::{Change as FileChange, Home, TaskStore, YamlOptions, YamlStore};
use watchfire_core::{Error, ErrorKind, Result};

use crate::notify;
use crate::service::status::name;
use crate::watchers::Watchers;

/// An orchestrator with all registered projects open, for many clients. Cheap to clone.
#[derive(Clone)]
pub struct Daemon(Arc<Inner>);

struct Inner {
    orchestrator: Orchestrator,
    started: Timestamp,
    address: OnceLock<SocketAddr>,
    /// A handle keeps its project open.
    open: Mutex<BTreeMap<ProjectId, ProjectHandle>>,
    /// Held while a project is opened, so that two calls do not open it twice.
    opening: tokio::sync::Mutex<()>,
    /// Archived projects whose files are watched.
    archived: Mutex<BTreeMap<ProjectId, AbortHandle>>,
    /// Counts how often a project was opened or closed.
    turns: watch::Sender<u64>,
    /// Notified when a life changed.
    lives: Notify,
    watchers: Watchers,
    ending: watch::Sender<bool>,
    /// True if its agents end with it.
    ends_agents: AtomicBool,
    /// True if its only client is the process itself.
    trusts: bool,
}

/// A future whose type names no other, because opening a project and following it call each other.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn is_archived(store: &dyn TaskStore) -> Result<bool> {
    Ok(store.project().await?.value.status == ProjectStatus::Archived)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// Returns a daemon over `orchestrator`. No project is open yet.
    #[must_use]
    pub fn new(orchestrator: Orchestrator) -> Self {
        Self::of(orchestrator, BTreeMap::new(), false)
    }

    /// Returns a daemon over `orchestrator` and its open `project`, for the process itself.
    pub(crate) fn trusting(orchestrator: Orchestrator, project: &ProjectHandle) -> Self {
        Self::of(orchestrator, [(project.id().clone(), project.clone())].into(), true)
    }

    fn of(orchestrator: Orchestrator, open: BTreeMap<ProjectId, ProjectHandle>, trusts: bool) -> Self {
        Self(Arc::new(Inner {
            orchestrator,
            started: SystemClock.now(),
            address: OnceLock::new(),
            open: Mutex::new(open),
            opening: tokio::sync::Mutex::default(),
            archived: Mutex::default(),
            turns: watch::Sender::default(),
            lives: Notify::new(),
            watchers: Watchers::default(),
            ending: watch::Sender::new(false),
            ends_agents: AtomicBool::new(false),
            trusts,
        }))
    }

    /// Returns the clients that follow projects.
    pub(crate) fn watchers(&self) -> &Watchers {
        &self.0.watchers
    }

    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.0.orchestrator
    }

    /// Returns whether a call may start agents that are less confined than the settings say.
    pub(crate) fn trusts(&self) -> bool {
        self.0.trusts
    }

    pub(crate) fn home(&self) -> &Home {
        self.0.orchestrator.home()
    }

    pub(crate) fn started(&self) -> &Timestamp {
        &self.0.started
    }

    /// Returns the address of its port, once it listens.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.address.get().copied()
    }

    pub(crate) fn set_address(&self, address: SocketAddr) {
        // Set once, by the only caller.
        let _ = self.0.address.set(address);
    }

    /// Asks it to end.
    pub fn end(&self) {
        self.0.ending.send_replace(true);
    }

    /// Lets its agents end with it.
    pub(crate) fn end_agents_with_it(&self) {
        self.0.ends_agents.store(true, Ordering::Relaxed);
    }

    /// Returns true if its agents end with it.
    pub(crate) fn ends_agents(&self) -> bool {
        self.0.ends_agents.load(Ordering::Relaxed)
    }

    /// Returns once it is asked to end.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Returns the projects that are open.
    #[must_use]
    pub fn projects(&self) -> Vec<ProjectHandle> {
        lock(&self.0.open).values().cloned().collect()
    }

    /// Opens all active registered projects, and closes those that are registered no more. One that cannot be opened is
    /// told in the log, and opened by the next call that needs it.
    pub(crate) async fn open_all(&self) -> Result<()> {
        // An index that somebody deleted leaves no project: agents work on them.
        if !self.home().path().join("projects.yaml").exists() {
            for project in self.projects() {
                let (id, root) = (project.id().clone(), project.root().to_owned());
                self.home().register(id, name(&project).await, root).await?;
            }
        }
        let entries = self.home().projects().await?;
        for entry in &entries {
            if let Err(error) = self.open(entry).await {
                tracing::warn!(project = %entry.project_id, "not opened: {}", error.report());
            }
        }
        let archived: Vec<_> = lock(&self.0.archived).keys().cloned().collect();
        let known =
            self.projects().iter().map(|project| project.id().clone()).chain(archived).collect::<Vec<_>>();
        for id in known {
            if entries.iter().all(|entry| entry.project_id != id) {
                self.leave(&id).await;
            }
        }
        Ok(())
    }

    /// Closes a project: its sessions end, and their work is kept.
    pub(crate) async fn close(&self, id: &ProjectId) {
        let held = lock(&self.0.open).remove(id);
        if let Some(project) = held {
            project.close().await;
            self.turned();
        }
    }

    /// Closes a project that is registered no more, and waits no more until it is active.
    pub(crate) async fn leave(&self, id: &ProjectId) {
        self.close(id).await;
        if let Some(waiting) = lock(&self.0.archived).remove(id) {
            waiting.abort();
        }
    }

    /// Returns a registered project.
    pub(crate) async fn entry(&self, id: &str) -> Result<ProjectEntry> {
        let id: ProjectId = id.parse()?;
        let entries = self.home().projects().await?;
        entries.into_iter().find(|entry| entry.project_id == id).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no project with this id is registered")
                .with("project", id)
                .with("hint", "watchfire init in its folder registers it")
        })
    }

    /// Returns a project, and opens it if it is not open.
    pub(crate) async fn project(&self, id: &str) -> Result<ProjectHandle> {
        if let Ok(id) = id.parse::<ProjectId>()
            && let Some(project) = lock(&self.0.open).get(&id).filter(|project| project.root().is_dir())
        {
            return Ok(project.clone());
        }
        let entry = self.entry(id).await?;
        self.open(&entry).await?.ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "the project is archived")
                .with("project", &entry.project_id)
                .with("hint", "set its status to active first")
        })
    }

    /// Opens a project, unless it is archived.
    async fn open(&self, entry: &ProjectEntry) -> Result<Option<ProjectHandle>> {
        let _opening = self.0.opening.lock().await;
        let open = lock(&self.0.open).get(&entry.project_id).cloned();
        if let Some(project) = open {
            // A folder that was moved is a project at its new place, which a command in it has told the index.
            if project.root().is_dir() || project.root() == entry.path {
                return Ok(Some(project));
            }
            tracing::info!(project = %entry.project_id, "opened again at {}", entry.path.display());
            self.close(&entry.project_id).await;
        }
        if is_archived(&*self.store_at(entry).await?).await? {
            // The only project of a command has a person in front of it, who runs it again.
            if !self.0.trusts
                && let Entry::Vacant(place) = lock(&self.0.archived).entry(entry.project_id.clone())
            {
                // It takes itself out at its end, and waits for this lock until it is in.
                place.insert(tokio::spawn(self.clone().reopen(entry.clone())).abort_handle());
            }
            return Ok(None);
        }
        let project = self.0.orchestrator.open(&entry.path).await?;
        lock(&self.0.open).insert(project.id().clone(), project.clone());
        self.follow(&project).await?;
        let news = project.subscribe(None).await?.changes;
        tokio::spawn(notify::follow(self.0.orchestrator.clone(), project.clone(), news));
        self.turned();
        Ok(Some(project))
    }

    /// Follows what happens in an open project, until it is closed.
    pub(crate) async fn follow(&self, project: &ProjectHandle) -> Result<()> {
        let changes = project.subscribe(None).await?.changes;
        tokio::spawn(self.clone().hear(project.id().clone(), Arc::clone(project.store()), changes));
        Ok(())
    }

    /// Signals each change of a life, and closes the project once its file says that it is archived.
    fn hear(self, id: ProjectId, store: Arc<dyn TaskStore>, mut changes: LogStream) -> Task {
        Box::pin(async move {
            let mut files = store.subscribe();
            let mut may_be_archived = true;
            loop {
                // Not an error: a file that is being written is read again when it is whole.
                if std::mem::take(&mut may_be_archived) && is_archived(&*store).await.unwrap_or(false) {
                    return self.archive(&id).await;
                }
                tokio::select! {
                    seen = changes.next() => match seen {
                        None => return,
                        Some(Seen::Record(record)) if !matches!(record.change, Change::Life(_)) => {}
                        Some(Seen::Record(_) | Seen::Gap(_)) => self.0.lives.notify_one(),
                        Some(_) => {}
                    },
                    Some(change) = files.next() => may_be_archived = !matches!(change, FileChange::Task(_)),
                }
            }
        })
    }

    /// Closes a project that was archived, and waits in the background until it is active again.
    pub(crate) async fn archive(&self, id: &ProjectId) {
        self.close(id).await;
        if let Ok(entry) = self.entry(id.as_str()).await {
            // A file that cannot be read is read by the next call that needs it.
            let _ = self.open(&entry).await;
        }
    }

    /// Opens an archived project once its file says that it is active.
    fn reopen(self, entry: ProjectEntry) -> Task {
        Box::pin(async move {
            let becomes_active = async {
                // It may have been removed before this could be told to end.
                self.entry(entry.project_id.as_str()).await?;
                let options = YamlOptions::new(self.home().state_dir(&entry.project_id));
                let store = YamlStore::open(&entry.path, Arc::new(SystemClock), options).await?;
                let mut changes = store.subscribe();
                while is_archived(&store).await.unwrap_or(true) && changes.next().await.is_some() {}
                Ok::<_, Error>(())
            };
            let watched = tokio::select! {
                () = self.ended() => return,
                watched = becomes_active => watched,
            };
            lock(&self.0.archived).remove(&entry.project_id);
            let opened = match watched {
                Ok(()) => self.project(entry.project_id.as_str()).await.map(drop),
                // Without its file there is nothing to wait for: the next call that needs it looks.
                Err(error) => Err(error),
            };
            if let Err(error) = opened {
                tracing::warn!(project = %entry.project_id, "not opened: {}", error.report());
            }
        })
    }

    /// Signals that a project was opened or closed.
    fn turned(&self) {
        self.0.turns.send_modify(|turns| *turns += 1);
        self.0.lives.notify_one();
    }

    /// Returns the number of times that a project was opened or closed, which can be followed.
    pub(crate) fn turns(&self) -> watch::Receiver<u64> {
        self.0.turns.subscribe()
    }

    /// Returns once a life has changed since the last call. For one caller.
    pub(crate) async fn lives_changed(&self) {
        self.0.lives.notified().await;
    }

    /// Returns the store of a project, also of one that another program runs or that is archived.
    pub(crate) async fn store(&self, id: &str) -> Result<Arc<dyn TaskStore>> {
        match self.project(id).await {
            Ok(project) => Ok(Arc::clone(project.store())),
            Err(_) => self.store_at(&self.entry(id).await?).await,
        }
    }

    /// Returns the store of a registered project, without opening the project.
    pub(crate) async fn store_at(&self, entry: &ProjectEntry) -> Result<Arc<dyn TaskStore>> {
        if let Some(project) = lock(&self.0.open).get(&entry.project_id) {
            return Ok(Arc::clone(project.store()));
        }
        let options = YamlOptions::new(self.home().state_dir(&entry.project_id)).with_watch(false);
        Ok(Arc::new(YamlStore::open(&entry.path, Arc::new(SystemClock), options).await?))
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("home", &self.home().path()).finish_non_exhaustive()
    }
}
