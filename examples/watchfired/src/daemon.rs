//! What the services share: the orchestrator, and the projects that it has open.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};
use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::model::{ProjectEntry, ProjectId, ProjectStatus, TaskNumber, Timestamp};
use watchfire_core::orchestrator::{LogStream, Orchestrator, ProjectHandle, Seen};
use watchfire_core::schedule::Change;
use watchfire_core::store::{Home, TaskStore, YamlOptions, YamlStore};
use watchfire_core::{Error, ErrorKind, Result};

use crate::notify;

/// Largest number of idempotency keys of created tasks that are known.
const KEYS: usize = 10_000;

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
    keys: Mutex<Keys>,
    /// Counts how often a project was opened or closed.
    turns: watch::Sender<u64>,
    /// Notified when a life changed.
    lives: Notify,
    ending: watch::Sender<bool>,
    /// True if its agents end with it.
    ends_agents: AtomicBool,
    /// True if its only client is the process itself.
    trusts: bool,
}

/// Tasks by the key of the call that created them.
#[derive(Default)]
struct Keys {
    tasks: BTreeMap<(ProjectId, String), TaskNumber>,
    /// In the order in which they came.
    order: std::collections::VecDeque<(ProjectId, String)>,
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
            keys: Mutex::default(),
            turns: watch::Sender::default(),
            lives: Notify::new(),
            ending: watch::Sender::new(false),
            ends_agents: AtomicBool::new(false),
            trusts,
        }))
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
        let entries = self.home().projects().await?;
        for entry in &entries {
            if let Err(error) = self.open(entry).await {
                tracing::warn!(project = %entry.project_id, "not opened: {}", error.report());
            }
        }
        let gone = |id: &ProjectId| entries.iter().all(|entry| entry.project_id != *id);
        let gone: Vec<_> = self.projects().into_iter().filter(|project| gone(project.id())).collect();
        for project in gone {
            self.close(project.id()).await;
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
            && let Some(project) = lock(&self.0.open).get(&id)
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
        if let Some(project) = lock(&self.0.open).get(&entry.project_id) {
            return Ok(Some(project.clone()));
        }
        if self.store_at(entry).await?.project().await?.value.status == ProjectStatus::Archived {
            return Ok(None);
        }
        let project = self.0.orchestrator.open(&entry.path).await?;
        let changes = project.subscribe(None).await?.changes;
        lock(&self.0.open).insert(project.id().clone(), project.clone());
        tokio::spawn(self.clone().hear(changes));
        let news = project.subscribe(None).await?.changes;
        tokio::spawn(notify::follow(self.0.orchestrator.clone(), project.clone(), news));
        self.turned();
        Ok(Some(project))
    }

    /// Signals each change of a life, until the project is closed.
    async fn hear(self, mut changes: LogStream) {
        while let Some(seen) = changes.next().await {
            let is_life = match &seen {
                Seen::Record(record) => matches!(record.change, Change::Life(_)),
                Seen::Gap(_) => true,
                _ => false,
            };
            if is_life {
                self.0.lives.notify_one();
            }
        }
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

    /// Returns the task that a call with this key created.
    pub(crate) fn created(&self, project: &ProjectId, key: &str) -> Option<TaskNumber> {
        lock(&self.0.keys).tasks.get(&(project.clone(), key.to_owned())).copied()
    }

    /// Keeps the key of a call that created a task.
    pub(crate) fn keep_created(&self, project: &ProjectId, key: &str, task: TaskNumber) {
        let (mut keys, key) = (lock(&self.0.keys), (project.clone(), key.to_owned()));
        keys.tasks.insert(key.clone(), task);
        keys.order.push_back(key);
        if keys.order.len() > KEYS
            && let Some(oldest) = keys.order.pop_front()
        {
            keys.tasks.remove(&oldest);
        }
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("home", &self.home().path()).finish_non_exhaustive()
    }
}
