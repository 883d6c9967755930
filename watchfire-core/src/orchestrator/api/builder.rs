//! The builder of an orchestrator.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::Orchestrator;
use crate::Result;
use crate::backend::{Backend, Backends};
use crate::clock::{Clock, SystemClock};
use crate::model::PromptSection;
use crate::observe::{LogOptions, WatcherSlots};
use crate::orchestrator::dispatch;
use crate::orchestrator::shared::{
    Aliases, MakeStore, MakeTerminal, MakeWorkspace, OpenStore, Parts, Reports, Spending,
};
use crate::process::helper::Helper;
use crate::sandbox::SandboxSet;
use crate::session::{Detached, InProcess, SessionHost};
use crate::store::{Home, TaskStore};
use crate::terminal::{PlainTerminal, Size, Terminal};
use crate::workspace::{InPlace, Workspace};

/// Builds an [`Orchestrator`]. Every part has a default that needs nothing: work in place, a plain terminal, YAML
/// files, all linked backends, and no sandbox (so nothing runs until the embedder gives one, or a request renounces
/// it).
#[must_use]
pub struct OrchestratorBuilder {
    home: Option<PathBuf>,
    helper: Option<Helper>,
    host: Option<Arc<dyn SessionHost>>,
    hosted: bool,
    backends: Vec<Arc<dyn Backend>>,
    linked_backends: bool,
    default_backend: String,
    sandboxes: SandboxSet,
    workspaces: Box<MakeWorkspace>,
    terminals: Box<MakeTerminal>,
    stores: Box<MakeStore>,
    clock: Arc<dyn Clock>,
    environment: BTreeMap<OsString, OsString>,
    wording: BTreeMap<PromptSection, String>,
    automation: bool,
    resume: bool,
    watchers: (usize, usize),
}

impl Default for OrchestratorBuilder {
    fn default() -> Self {
        Self {
            home: None,
            helper: None,
            host: None,
            hosted: false,
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
            wording: BTreeMap::new(),
            automation: false,
            resume: false,
            watchers: (32, 1024),
        }
    }
}

impl OrchestratorBuilder {
    /// Sets the folder for state, settings and logs. Default: `WATCHFIRE_HOME`, else `~/.watchfire`.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets the helper program. Default: this very program, which then must call
    /// [`run_if_asked`](crate::process::helper::run_if_asked) first in `main`.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = Some(helper);
        self
    }

    /// Sets how many watches that wait and streams there may be at once: of one session, and of all together. More are refused
    /// with `too_many_watchers`. Default: 32 and 1,024.
    pub fn watchers(mut self, of_one_session: usize, of_all: usize) -> Self {
        self.watchers = (of_one_session, of_all);
        self
    }

    /// Sets the host of all sessions. Default: [`InProcess`], which ends them with this program.
    pub fn host(mut self, host: impl SessionHost + 'static) -> Self {
        self.host = Some(Arc::new(host));
        self
    }

    /// Lets agents outlive this program: they go on when it is killed, crashes or [detaches](Orchestrator::detach), and
    /// the next one with this home takes them over when it opens their project. Default: no. Ignored with a
    /// [`host`](Self::host) of the embedder's own. Linux only.
    ///
    /// A session that cannot be taken over (a conversation in a protocol, a step of wildfire, a prompt that was being typed)
    /// is ended, its work is captured, and its life starts again.
    pub fn hosted(mut self, hosted: bool) -> Self {
        self.hosted = hosted;
        self
    }

    /// Adds a backend. It replaces a linked one of the same name.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.backends.push(Arc::new(backend));
        self
    }

    /// Sets whether backends of linked crates are collected. Default: yes.
    pub fn linked_backends(mut self, linked: bool) -> Self {
        self.linked_backends = linked;
        self
    }

    /// Sets the backend for requests that name none. Default: `claude-code`.
    pub fn default_backend(mut self, name: impl Into<String>) -> Self {
        self.default_backend = name.into();
        self
    }

    /// Sets the sandboxes. Default: only `none`, which a request must choose explicitly.
    pub fn sandboxes(mut self, sandboxes: SandboxSet) -> Self {
        self.sandboxes = sandboxes;
        self
    }

    /// Sets the function that makes the workspace of a project from its root. Default: [`InPlace`].
    pub fn workspaces(
        mut self,
        make: impl Fn(&Path) -> Result<Arc<dyn Workspace>> + Send + Sync + 'static,
    ) -> Self {
        self.workspaces = Box::new(make);
        self
    }

    /// Sets the function that makes a session's terminal. Default: [`PlainTerminal`], which keeps the text of lines and does not
    /// know what a program paints: from an agent that runs on a terminal it is not learned whether it waits or is at work.
    /// `watchfire_term::Emulator::boxed` is the real one.
    pub fn terminals(mut self, make: impl Fn(Size) -> Box<dyn Terminal> + Send + Sync + 'static) -> Self {
        self.terminals = Box::new(make);
        self
    }

    /// Sets the function that opens the task store of a project. Default: the YAML files in its root.
    pub fn stores<F>(mut self, open: impl Fn(OpenStore) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Arc<dyn TaskStore>>> + Send + 'static,
    {
        self.stores = Box::new(move |project| Box::pin(open(project)));
        self
    }

    /// Sets the clock. Default: the machine's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets our environment, from which agents get the variables that the sandbox policy passes. Default: this
    /// process's.
    pub fn environment(mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment = environment.into_iter().collect();
        self
    }

    /// Sets the text of a section of the prompts, in place of the built-in one; an empty text leaves the section out. A
    /// project's own text goes before it.
    pub fn prompt(mut self, section: PromptSection, text: impl Into<String>) -> Self {
        self.wording.insert(section, text.into());
        self
    }

    /// Lets tasks start by themselves where `auto_start_tasks` is on. Default: no, so that opening a project starts
    /// nothing.
    pub fn automation(mut self, automation: bool) -> Self {
        self.automation = automation;
        self
    }

    /// Continues runs and lives of an earlier orchestrator when their project is opened. Default: no; they wait until
    /// a person resumes them, or a new run covers them.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Starts the orchestrator, inside a tokio runtime with I/O and time. No project is open yet.
    ///
    /// # Errors
    /// `helper_missing`; `not_supported` for hosted agents on other systems than Linux; `already_exists` for two linked backends of one name; `malformed` settings; a home that cannot
    /// be written.
    pub async fn start(self) -> Result<Orchestrator> {
        let helper = self.helper.map_or_else(Helper::current, Ok)?;
        let mut backends = if self.linked_backends { Backends::linked()? } else { Backends::default() };
        for backend in self.backends {
            // After the linked ones, so that a given backend replaces one of its name.
            if let Some(replaced) = backends.insert(backend)? {
                tracing::info!(name = replaced.name(), "a given backend takes the place of a linked one");
            }
        }
        let default_backend = self.default_backend.parse()?;
        let user_home = self.environment.get(OsStr::new("HOME")).map(PathBuf::from);
        let home_dir = match self.home {
            Some(home) => home,
            None => Home::default_path(|name| self.environment.get(OsStr::new(name)).cloned())?,
        };
        let home = Arc::new(Home::open(home_dir, Arc::clone(&self.clock)).await?);
        let aliases = Aliases::new(home.path().join("aliases"));
        // Read now, so that a malformed file fails here, not in the middle of a run.
        let settings = home.settings().await?;
        let host: Arc<dyn SessionHost> = match self.host {
            Some(host) => host,
            None if self.hosted => Arc::new(Detached::new(helper.clone(), home.path().join("hosts"))?),
            None => Arc::new(InProcess::new(helper.clone()).after(home.path().join("hosts"))),
        };
        let (reports, inbox) = Reports::new();
        tokio::spawn(dispatch::run(inbox, Arc::clone(&self.clock)));
        let parts = Parts {
            holder: home.holder().clone(),
            home: home.path().to_path_buf(),
            store_home: home,
            host,
            helper,
            backends,
            default_backend,
            sandboxes: self.sandboxes,
            workspaces: self.workspaces,
            terminals: self.terminals,
            stores: self.stores,
            clock: self.clock,
            environment: self.environment,
            user_home,
            wording: self.wording,
            automation: self.automation,
            resume: self.resume,
            reports,
            open: Mutex::default(),
            settings: Mutex::new(settings),
            spending: Spending::default(),
            aliases,
            log_options: LogOptions {
                watchers: self.watchers.0,
                slots: WatcherSlots::new(self.watchers.1),
                ..LogOptions::default()
            },
        };
        Ok(Orchestrator::new(Arc::new(parts)))
    }
}

impl fmt::Debug for OrchestratorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrchestratorBuilder").field("home", &self.home).finish_non_exhaustive()
    }
}
