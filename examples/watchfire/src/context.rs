//! The context that commands share: the folder, the output, and the project around the folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchfire_core::clock::{Clock, SystemClock};
use watchfire_core::journal::Journal;
use watchfire_core::model::{Project, ProjectId, Task, TaskNumber};
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::store::{Home, TaskQuery, TaskStore, YamlOptions, YamlStore};
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_git::{GitOptions, GitWorkspace};
use watchfired::Repositories;

use crate::out::Out;
use crate::status;

/// The options that every command has.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) out: Out,
    directory: Option<PathBuf>,
}

impl Context {
    pub(crate) fn new(directory: Option<PathBuf>, json: bool) -> Self {
        Self { out: Out::new(json), directory }
    }

    /// Returns the folder that the command is about.
    pub(crate) fn directory(&self) -> Result<PathBuf> {
        let given = match &self.directory {
            Some(given) => given.clone(),
            None => std::env::current_dir().map_err(|e| Error::io("finding the current folder", e))?,
        };
        opened(&given)
    }

    /// Returns a folder whose name is relative to that folder.
    pub(crate) fn within(&self, folder: &str) -> Result<PathBuf> {
        opened(&self.directory()?.join(folder))
    }

    /// Opens the Watchfire home.
    pub(crate) async fn home(&self) -> Result<Home> {
        open_home(home_path()?).await
    }

    /// Opens the project around the folder, and registers it in the home if it is not there yet.
    pub(crate) async fn project(&self) -> Result<OpenProject> {
        let root = find_project(&self.directory()?)?;
        let home = self.home().await?;
        let was_archived = home.is_archived(&root).await?;
        let project = OpenProject::open(home, root).await?;
        if was_archived && !self.out.json {
            eprintln!("watchfire: this project was archived; this command makes it active again");
        }
        Ok(project)
    }
}

/// Returns the one name of a folder, by which projects are registered.
fn opened(given: &Path) -> Result<PathBuf> {
    let path = given.canonicalize().map_err(|e| Error::io("opening the folder", e).with_path(given))?;
    if !path.is_dir() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a folder").with_path(path));
    }
    Ok(path)
}

/// Returns the path of the Watchfire home.
pub(crate) fn home_path() -> Result<PathBuf> {
    Home::default_path(|name| std::env::var_os(name)).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            error.with("hint", "begin it at the root, for example WATCHFIRE_HOME=\"$HOME/.watchfire\"")
        }
        _ => error,
    })
}

/// Opens the home at `path` without watching it: a command reads it when needed.
pub(crate) async fn open_home(path: PathBuf) -> Result<Home> {
    Home::open_with(path, clock(), &YamlOptions::new("").with_watch(false)).await
}

/// Opens the repository of the project at `root`, or the snapshots of its folder.
pub(crate) async fn workspace(root: &Path, options: GitOptions) -> Result<GitWorkspace> {
    Repositories::own(&open_home(home_path()?).await?, root, options).await
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// Returns the nearest folder upwards that is a project.
pub(crate) fn find_project(from: &Path) -> Result<PathBuf> {
    // The file, not the folder: the Watchfire home is called `.watchfire` too.
    let is_project = |folder: &&Path| folder.join(".watchfire/project.yaml").is_file();
    from.ancestors().find(is_project).map(Path::to_path_buf).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "no Watchfire project here or above").with_path(from).with(
            "hint",
            "watchfire init makes this folder a project; watchfire restore brings back one that was deleted",
        )
    })
}

/// A project, open for reading and for changes of its tasks. Another process may be running tasks in it.
#[derive(Debug)]
pub(crate) struct OpenProject {
    pub(crate) home: Home,
    pub(crate) root: PathBuf,
    pub(crate) id: ProjectId,
    pub(crate) store: YamlStore,
}

impl OpenProject {
    /// Opens the project at `root`.
    pub(crate) async fn open(home: Home, root: PathBuf) -> Result<Self> {
        let registered = home.ensure_registered(&root).await?;
        let id = registered.project_id;
        let options = YamlOptions::new(home.state_dir(&id)).with_watch(false);
        let store = YamlStore::open(&root, clock(), options).await?;
        Ok(Self { home, root, id, store })
    }

    pub(crate) async fn project(&self) -> Result<Project> {
        Ok(self.store.project().await?.value)
    }

    /// Returns tasks with their states, also those that another process runs.
    pub(crate) fn infos(&self, tasks: impl IntoIterator<Item = Task>) -> Result<Vec<TaskInfo>> {
        let journal = self.home.state_dir(&self.id).join("journal");
        let is_open = Journal::writer(&journal).is_some();
        let (state, _) = Journal::read(journal)?;
        Ok(tasks.into_iter().map(|task| status::info(task, &state, is_open)).collect())
    }

    /// Returns all tasks with their states, but for those in the trash.
    pub(crate) async fn all_infos(&self) -> Result<Vec<TaskInfo>> {
        let tasks = self.store.list(&TaskQuery::new()).await?.tasks;
        self.infos(tasks.into_iter().map(|task| task.value))
    }

    /// Returns one task with its state.
    pub(crate) async fn info(&self, number: TaskNumber) -> Result<TaskInfo> {
        let task = self.store.get(number).await?.value;
        // The same way as for lists, so that both show the same state.
        let mut infos = self.infos([task.clone()])?;
        Ok(infos.pop().unwrap_or_else(|| TaskInfo::new(task)))
    }
}
