//! The parts that an orchestrator was built from.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::aliases::Aliases;
use super::{ProjectShared, Reports, Spending};
use crate::backend::{Backend, Backends, ProgramSearch};
use crate::clock::Clock;
use crate::model::{AgentSettings, BackendName, ProjectId, PromptSection, Settings};
use crate::observe::LogOptions;
use crate::process::helper::Helper;
use crate::sandbox::SandboxSet;
use crate::schedule::{CallerEnvironment, RunOptions};
use crate::session::SessionHost;
use crate::store::{Holder, Home, TaskStore};
use crate::terminal::{Size, Terminal};
use crate::workspace::Workspace;
use crate::{Error, ErrorKind, Result};

pub(crate) type MakeWorkspace = dyn Fn(&Path) -> Result<Arc<dyn Workspace>> + Send + Sync;
pub(crate) type MakeTerminal = dyn Fn(Size) -> Box<dyn Terminal> + Send + Sync;
pub(crate) type StoreOpening = Pin<Box<dyn Future<Output = Result<Arc<dyn TaskStore>>> + Send>>;
pub(crate) type MakeStore = dyn Fn(OpenStore) -> StoreOpening + Send + Sync;

/// Project whose store is to be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenStore {
    /// Root of the project.
    pub root: PathBuf,
    /// The orchestrator's home.
    pub home: Arc<Home>,
    /// Folder that all homes with access to the project share. `None` without a repository.
    pub shared_dir: Option<PathBuf>,
}

/// The parts that all projects of an orchestrator share.
pub(crate) struct Parts {
    pub(crate) home: PathBuf,
    pub(crate) store_home: Arc<Home>,
    pub(crate) helper: Helper,
    pub(crate) host: Arc<dyn SessionHost>,
    pub(crate) backends: Backends,
    pub(crate) default_backend: BackendName,
    pub(crate) sandboxes: SandboxSet,
    pub(crate) workspaces: Box<MakeWorkspace>,
    pub(crate) terminals: Box<MakeTerminal>,
    pub(crate) stores: Box<MakeStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) user_home: Option<PathBuf>,
    pub(crate) wording: BTreeMap<PromptSection, String>,
    pub(crate) automation: bool,
    pub(crate) resume: bool,
    pub(crate) reports: Reports,
    /// The holder of our claims.
    pub(crate) holder: Holder,
    pub(crate) open: Mutex<BTreeMap<ProjectId, Weak<ProjectShared>>>,
    pub(crate) settings: Mutex<Settings>,
    /// Cost of this day's sessions.
    pub(crate) spending: Spending,
    /// The aliases of the home's sessions.
    pub(crate) aliases: Aliases,
    /// Bounds of the logs of sessions, which share one number of watchers.
    pub(crate) log_options: LogOptions,
}

impl Parts {
    /// Returns the settings of the last valid file.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the settings again. A malformed file leaves the last valid ones in force.
    pub(crate) async fn reload_settings(&self) -> Result<()> {
        let settings = self.store_home.settings().await?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }

    /// Returns the backend of that name: a linked one, or a program from the settings.
    pub(crate) fn backend(&self, name: &BackendName, settings: &Settings) -> Result<Arc<dyn Backend>> {
        let mut only = Settings::default();
        // A malformed entry of another agent concerns only its own tasks.
        only.agents.extend(
            settings.agents.get_key_value(name.as_str()).map(|(name, agent)| (name.clone(), agent.clone())),
        );
        self.backends.clone().with_configured(&only)?.get(name.as_str()).map_err(|error| {
            // What was meant may be another program of the settings, if their entries are sound.
            let all = self.backends.clone().with_configured(settings);
            all.ok().and_then(|all| all.get(name.as_str()).err()).unwrap_or(error)
        })
    }

    /// Returns the variables from which sessions get theirs: the caller's, but that their home is ours; else ours.
    pub(crate) fn variables(&self, options: &RunOptions) -> Cow<'_, BTreeMap<OsString, OsString>> {
        let Some(theirs) = options.environment.as_ref().and_then(CallerEnvironment::variables) else {
            return Cow::Borrowed(&self.environment);
        };
        let mut variables = theirs.clone();
        replace(&mut variables, "HOME", &self.environment);
        Cow::Owned(variables)
    }

    /// Returns the variables that say which programs and folders a session may use. The caller only says where programs are, so that a
    /// request opens no folder that we would not.
    pub(crate) fn places(&self, options: &RunOptions) -> Cow<'_, BTreeMap<OsString, OsString>> {
        let Some(theirs) = options.environment.as_ref().and_then(CallerEnvironment::variables) else {
            return Cow::Borrowed(&self.environment);
        };
        let mut places = self.environment.clone();
        replace(&mut places, "PATH", theirs);
        Cow::Owned(places)
    }

    /// Returns the places in which to look for a backend's program, with a session's variables.
    pub(crate) fn search(
        &self,
        agent: &AgentSettings,
        variables: &BTreeMap<OsString, OsString>,
    ) -> ProgramSearch {
        let path = variables.get(OsStr::new("PATH")).cloned();
        ProgramSearch::new(path, self.user_home.clone()).with_settings(agent.clone())
    }

    /// Returns the command line that starts our own program inside a sandbox, up to the name of the role.
    pub(crate) fn helper_inside(&self) -> Vec<OsString> {
        self.helper.command_line_inside()
    }

    /// Marks a project as open here.
    pub(crate) fn reserve(&self, id: &ProjectId) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains_key(id) {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the project is open already").with("project", id)
            );
        }
        open.insert(id.clone(), Weak::new());
        Ok(())
    }

    /// Makes a project that was opened known to [`projects`](Self::projects).
    pub(crate) fn opened(&self, project: &Arc<ProjectShared>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have been closed by now.
        if let Some(known) = open.get_mut(&project.id) {
            *known = Arc::downgrade(project);
        }
    }

    /// Returns the projects that are open, in the order of their ids.
    pub(crate) fn projects(&self) -> Vec<Arc<ProjectShared>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().filter_map(Weak::upgrade).filter(|project| !*project.closing.borrow()).collect()
    }

    pub(crate) fn unreserve(&self, id: &ProjectId) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// Gives a variable the value that it has in `from`, also if that is none.
fn replace(variables: &mut BTreeMap<OsString, OsString>, name: &str, from: &BTreeMap<OsString, OsString>) {
    match from.get(OsStr::new(name)) {
        Some(value) => drop(variables.insert(name.into(), value.clone())),
        None => drop(variables.remove(OsStr::new(name))),
    }
}
