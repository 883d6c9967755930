//! Putting an orchestrator together.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::dispatcher::{self, Outbox};
use super::{Events, Orchestrator};
use crate::backend::{Backend, Backends, ProgramSearch};
use crate::clock::{Clock, SystemClock};
use crate::model::{AgentSettings, BackendName, ProjectId, Settings};
use crate::process::helper::Helper;
use crate::sandbox::SandboxSet;
use crate::session::{InProcess, SessionHost};
use crate::store::{Holder, Home, TaskStore};
use crate::terminal::{PlainTerminal, Size, Terminal};
use crate::workspace::{InPlace, Workspace};
use crate::{Error, ErrorKind, Result};

type MakeWorkspace = dyn Fn(&Path) -> Result<Arc<dyn Workspace>> + Send + Sync;
type MakeTerminal = dyn Fn(Size) -> Box<dyn Terminal> + Send + Sync;
type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn TaskStore>>> + Send>>;
type MakeStore = dyn Fn(OpenStore) -> Opening + Send + Sync;

/// The project whose store is to be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenStore {
    /// Root of the project.
    pub root: PathBuf,
    /// The orchestrator's home.
    pub home: Arc<Home>,
    /// Folder that all homes share which can work on the project. `None` without a repository.
    pub shared_dir: Option<PathBuf>,
}

/// Builds an [`Orchestrator`]. Every part has a default that needs nothing: work in place, a plain terminal, YAML
/// files, all linked backends, and no sandbox (which means that nothing runs until one is given or none is asked for).
#[must_use]
pub struct OrchestratorBuilder {
    home: Option<PathBuf>,
    helper: Option<Helper>,
    host: Option<Arc<dyn SessionHost>>,
    backends: Vec<Arc<dyn Backend>>,
    linked_backends: bool,
    default_backend: String,
    sandboxes: SandboxSet,
    workspaces: Box<MakeWorkspace>,
    terminals: Box<MakeTerminal>,
    stores: Box<MakeStore>,
    clock: Arc<dyn Clock>,
    environment: BTreeMap<OsString, OsString>,
    automation: bool,
}

impl Default for OrchestratorBuilder {
    fn default() -> Self {
        Self {
            home: None,
            helper: None,
            host: None,
            backends: Vec::new(),
            linked_backends: true,
            default_backend: "claude-code".to_owned(),
            sandboxes: SandboxSet::none_only(),
            workspaces: Box::new(|root| Ok(Arc::new(InPlace::new(root)?))),
            terminals: Box::new(|size| Box::new(PlainTerminal::new(size))),
            stores: Box::new(|OpenStore { root, home, shared_dir }| {
                Box::pin(async move {
                    Ok(Arc::new(home.open_store(root, shared_dir).await?) as Arc<dyn TaskStore>)
                })
            }),
            clock: Arc::new(SystemClock),
            environment: std::env::vars_os().collect(),
            automation: true,
        }
    }
}

impl OrchestratorBuilder {
    /// The folder for state, settings and logs. Default: `WATCHFIRE_HOME`, else `~/.watchfire`.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// The helper program. Default: this very program, which then must call
    /// [`run_if_asked`](crate::process::helper::run_if_asked) first in `main`.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = Some(helper);
        self
    }

    /// Sets the host of all sessions. Default: [`InProcess`], which ends them with this program.
    pub fn host(mut self, host: impl SessionHost + 'static) -> Self {
        self.host = Some(Arc::new(host));
        self
    }

    /// Adds a backend; it takes the place of a linked one of the same name.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.backends.push(Arc::new(backend));
        self
    }

    /// Whether backends of linked crates are collected. Default: yes.
    pub fn linked_backends(mut self, linked: bool) -> Self {
        self.linked_backends = linked;
        self
    }

    /// The backend where nobody names one. Default: `claude-code`.
    pub fn default_backend(mut self, name: impl Into<String>) -> Self {
        self.default_backend = name.into();
        self
    }

    /// The sandboxes. Default: none, which must be asked for.
    pub fn sandboxes(mut self, sandboxes: SandboxSet) -> Self {
        self.sandboxes = sandboxes;
        self
    }

    /// How the workspace of a project is made from its root. Default: [`InPlace`].
    pub fn workspaces(
        mut self,
        make: impl Fn(&Path) -> Result<Arc<dyn Workspace>> + Send + Sync + 'static,
    ) -> Self {
        self.workspaces = Box::new(make);
        self
    }

    /// How a session's terminal is made. Default: [`PlainTerminal`].
    pub fn terminals(mut self, make: impl Fn(Size) -> Box<dyn Terminal> + Send + Sync + 'static) -> Self {
        self.terminals = Box::new(make);
        self
    }

    /// Sets how the task store of a project is opened. Default: the YAML files in its root.
    pub fn stores<F>(mut self, open: impl Fn(OpenStore) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Arc<dyn TaskStore>>> + Send + 'static,
    {
        self.stores = Box::new(move |project| Box::pin(open(project)));
        self
    }

    /// The clock. Default: the machine's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Our environment, from which agents get what the sandbox policy lets through. Default: this process's.
    pub fn environment(mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment = environment.into_iter().collect();
        self
    }

    /// Whether tasks may start by themselves where `auto_start_tasks` says so. Default: yes.
    pub fn automation(mut self, automation: bool) -> Self {
        self.automation = automation;
        self
    }

    /// Starts it, inside a tokio runtime with I/O and time. No project is open yet.
    ///
    /// # Errors
    /// `helper_missing`; `already_exists` for two linked backends of one name; `malformed` settings; a home that cannot
    /// be written.
    pub async fn start(self) -> Result<Orchestrator> {
        let helper = self.helper.map_or_else(Helper::current, Ok)?;
        let mut backends = if self.linked_backends { Backends::linked()? } else { Backends::default() };
        for backend in self.backends {
            if let Some(replaced) = backends.insert(backend)? {
                tracing::info!(name = replaced.name(), "a given backend takes the place of a linked one");
            }
        }
        let default_backend = self.default_backend.parse()?;
        let user_home = self.environment.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
        let home_dir = match self.home {
            Some(home) => home,
            None => Home::default_path(|name| self.environment.get(std::ffi::OsStr::new(name)).cloned())?,
        };
        let home = Arc::new(Home::open(home_dir, Arc::clone(&self.clock)).await?);
        let settings = home.settings().await?;
        let (outbox, inbox) = Outbox::new();
        tokio::spawn(dispatcher::run(inbox));
        let inner = Inner {
            holder: home.holder().clone(),
            home: home.path().to_path_buf(),
            store_home: home,
            host: self.host.unwrap_or_else(|| Arc::new(InProcess::new(helper.clone()))),
            helper,
            backends,
            default_backend,
            sandboxes: self.sandboxes,
            workspaces: self.workspaces,
            terminals: self.terminals,
            stores: self.stores,
            events: Events::new(Arc::clone(&self.clock)),
            clock: self.clock,
            environment: self.environment,
            user_home,
            automation: self.automation,
            outbox,
            open: Mutex::default(),
            settings: Mutex::new(settings),
        };
        Ok(Orchestrator::new(Arc::new(inner)))
    }
}

impl fmt::Debug for OrchestratorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrchestratorBuilder").field("home", &self.home).finish_non_exhaustive()
    }
}

/// What all projects of an orchestrator share.
pub(super) struct Inner {
    /// Who holds our claims: the same after a restart, so that a claim outlives its process.
    pub(super) holder: Holder,
    pub(super) home: PathBuf,
    pub(super) store_home: Arc<Home>,
    pub(super) helper: Helper,
    pub(super) host: Arc<dyn SessionHost>,
    pub(super) backends: Backends,
    pub(super) default_backend: BackendName,
    pub(super) sandboxes: SandboxSet,
    pub(super) workspaces: Box<MakeWorkspace>,
    pub(super) terminals: Box<MakeTerminal>,
    pub(super) stores: Box<MakeStore>,
    pub(super) events: Events,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) user_home: Option<PathBuf>,
    pub(super) automation: bool,
    pub(super) outbox: Outbox,
    pub(super) open: Mutex<BTreeSet<ProjectId>>,
    settings: Mutex<Settings>,
}

impl Inner {
    /// The settings, as they were last read well.
    pub(super) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the settings again; a malformed file leaves the last good ones in force.
    pub(super) async fn reload_settings(&self) -> Result<()> {
        let settings = self.store_home.settings().await?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }

    /// The backend of that name: a known one, or a program that the settings describe.
    pub(super) fn backend(&self, name: &BackendName, settings: &Settings) -> Result<Arc<dyn Backend>> {
        let mut only = Settings::default();
        // Another entry that makes no sense is another task's trouble.
        only.agents.extend(
            settings.agents.get_key_value(name.as_str()).map(|(name, agent)| (name.clone(), agent.clone())),
        );
        self.backends.clone().with_configured(&only)?.get(name.as_str())
    }

    /// Where to look for a backend's program.
    pub(super) fn search(&self, agent: &AgentSettings) -> ProgramSearch {
        let path = self.environment.get(std::ffi::OsStr::new("PATH")).cloned();
        ProgramSearch::new(path, self.user_home.clone()).with_settings(agent.clone())
    }

    /// How our own program is started inside of a sandbox, up to the name of the role.
    pub(super) fn helper_inside(&self) -> Vec<OsString> {
        self.helper.command_line_inside()
    }

    /// Marks a project as open here.
    pub(super) fn reserve(&self, id: &ProjectId) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.insert(id.clone()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::AlreadyExists, "the project is open already").with("project", id))
    }

    pub(super) fn unreserve(&self, id: &ProjectId) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}
