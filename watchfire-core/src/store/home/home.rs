//! The handle of a home.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use tokio::sync::Notify;

use super::files::{Files, PROJECTS, SETTINGS};
use super::{NewProject, identity, project, repositories};
use crate::clock::Clock;
use crate::files::make_private;
use crate::model::{Project, ProjectEntry, ProjectId, ProjectIndex, ProjectStatus, Settings};
use crate::store::Holder;
use crate::store::changes::lock;
use crate::store::yaml::follow::{Pace, Watched, follow};
use crate::store::yaml::{Watching, YamlOptions, YamlStore, blocking};
use crate::{Error, ErrorKind, Result};

/// A file of the home that changed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum HomeChange {
    /// `settings.yaml`.
    Settings,
    /// `projects.yaml`.
    Projects,
    /// Anything. Everything has to be read again.
    Everything,
}

/// Stream of changes to the home. Changes coalesce while the reader is slow; the last one is never dropped.
pub type HomeChanges = Pin<Box<dyn Stream<Item = HomeChange> + Send>>;

/// The Watchfire home: a folder that only its owner can open, and that agents never see.
///
/// A missing file stands for its defaults. A malformed one is an error that names file, line and reason, and is never
/// written over. Edits change the lines of the changed fields and no other byte. Needs a tokio runtime with time.
#[derive(Debug)]
pub struct Home {
    files: Arc<Files>,
    clock: Arc<dyn Clock>,
    signal: Arc<Notify>,
    holder: Holder,
}

impl Home {
    /// Opens the home at `path`, and creates it if missing. An existing one keeps its permissions.
    ///
    /// # Errors
    /// Errors of the system.
    pub async fn open(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Result<Self> {
        // Only the pace of these options is used; the state folder has no effect here.
        Self::open_with(path, clock, &YamlOptions::new("")).await
    }

    /// Opens the home at `path`, and follows it at the pace of `options`. Their state folder has no effect.
    ///
    /// # Errors
    /// Errors of the system.
    pub async fn open_with(
        path: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        options: &YamlOptions,
    ) -> Result<Self> {
        let path = path.into();
        let unusable = |error: Error| {
            error.with("hint", "Watchfire keeps its settings and logs there: make it a folder of yours, or name another in WATCHFIRE_HOME")
        };
        let (files, holder) = blocking(move || {
            make_private(&path).map_err(unusable)?;
            let path =
                // After the folder exists: the real path is the one that sandboxes deny.
                path.canonicalize().map_err(|error| Error::io("opening the home", error).with_path(&path))?;
            make_private(&path.join("state")).map_err(unusable)?;
            let files = Files::new(path)?;
            let holder = identity::holder(&files.dir()?)?;
            Ok((Arc::new(files), holder))
        })
        .await?;
        let signal = Arc::new(Notify::new());
        let (weak, waker) = (Arc::downgrade(&files), Arc::clone(&signal));
        tokio::spawn(follow(weak, waker, Arc::clone(&clock), Pace::from(options)));
        Ok(Self { files, clock, signal, holder })
    }

    /// Returns the default path of the home: `$WATCHFIRE_HOME`, or `~/.watchfire`. `variable` reads the environment.
    ///
    /// # Errors
    /// `invalid_input` for a relative `WATCHFIRE_HOME`; `not_found` when neither it nor `HOME` is there.
    pub fn default_path(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(given) = variable("WATCHFIRE_HOME")
            .filter(|given| !given.is_empty() && !PathBuf::from(given).is_absolute())
        {
            // Silently using another home would hide the person's tasks.
            return Err(Error::new(ErrorKind::InvalidInput, "WATCHFIRE_HOME is not an absolute path")
                .with("value", given.display()));
        }
        absolute("WATCHFIRE_HOME").or_else(|| Some(absolute("HOME")?.join(".watchfire"))).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no home: set WATCHFIRE_HOME or HOME to an absolute path")
        })
    }

    /// Returns the path of the home.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.files.path
    }

    /// Returns the current source of changes by other programs.
    #[must_use]
    pub fn watching(&self) -> Watching {
        lock(self.files.watching()).clone()
    }

    /// Returns a stream of changes from now on. Ends when the home is dropped.
    #[must_use]
    pub fn subscribe(&self) -> HomeChanges {
        self.files.feed.subscribe()
    }

    /// Returns the person's settings.
    ///
    /// # Errors
    /// `malformed`.
    pub async fn settings(&self) -> Result<Settings> {
        self.run(|files| files.read(SETTINGS)).await
    }

    /// Changes the settings and returns the result. `change` is called again with another state when others write at
    /// the same time.
    ///
    /// # Errors
    /// `malformed`, with nothing changed; `conflict` when others never stop writing.
    pub async fn update_settings(
        &self,
        mut change: impl FnMut(&mut Settings) + Send + 'static,
    ) -> Result<Settings> {
        self.write(move |files| {
            files.change(SETTINGS, &mut |settings| {
                change(settings);
                Ok(())
            })
        })
        .await
    }

    /// Returns all registered projects, in their order.
    ///
    /// # Errors
    /// `malformed`.
    pub async fn projects(&self) -> Result<Vec<ProjectEntry>> {
        let index: ProjectIndex = self.run(|files| files.read(PROJECTS)).await?;
        let mut projects = index.projects;
        projects.sort_by(|a, b| (a.position, &a.name).cmp(&(b.position, &b.name)));
        Ok(projects)
    }

    /// Registers a project at the end of the order. A known id gets the new name and path. Another id at the same
    /// path is replaced.
    ///
    /// # Errors
    /// `malformed`, with nothing changed.
    pub async fn register(&self, id: ProjectId, name: String, path: PathBuf) -> Result<ProjectEntry> {
        self.write(move |files| register(files, &id, &name, &path)).await
    }

    /// Removes a project from the index. Its folder stays as it is. An unknown project is no error.
    ///
    /// # Errors
    /// `malformed`, with nothing changed.
    pub async fn unregister(&self, id: ProjectId) -> Result<()> {
        self.change_index(move |index| {
            index.projects.retain(|entry| entry.project_id != id);
            Ok(())
        })
        .await
    }

    /// Sets the positions of these projects to 1, 2, …; the others follow in their order.
    ///
    /// # Errors
    /// `not_found` for an unknown project, `malformed`; with nothing changed.
    pub async fn reorder(&self, order: Vec<ProjectId>) -> Result<()> {
        self.change_index(move |index| {
            if let Some(id) = order.iter().find(|id| !index.projects.iter().any(|e| e.project_id == **id)) {
                return Err(Error::new(ErrorKind::NotFound, "no such project").with("project", id));
            }
            let place = |entry: &ProjectEntry| order.iter().position(|id| *id == entry.project_id);
            let mut sorted: Vec<_> = index
                .projects
                .iter()
                .map(|entry| (place(entry).unwrap_or(usize::MAX), entry.position, entry.project_id.clone()))
                .collect();
            // Those not named come after, by their old position.
            sorted.sort();
            for (position, (_, _, id)) in (1..).zip(sorted) {
                if let Some(entry) = index.projects.iter_mut().find(|entry| entry.project_id == id) {
                    entry.position = position;
                }
            }
            Ok(())
        })
        .await
    }

    /// Returns true if the project at `root` is archived.
    ///
    /// # Errors
    /// `not_found` when there is no project, `malformed`.
    pub async fn is_archived(&self, root: impl Into<PathBuf>) -> Result<bool> {
        let root = root.into();
        self.run(move |_| Ok(project::read(&root)?.1.status == ProjectStatus::Archived)).await
    }

    /// Returns the repositories that the project at `root` names beside its own, as it names them: relative to `root`. None
    /// without a project.
    ///
    /// # Errors
    /// `malformed`; `invalid_input` for one that the settings do not allow; errors of the disk.
    pub async fn repositories(&self, root: impl Into<PathBuf>) -> Result<Vec<PathBuf>> {
        let root = root.into();
        let settings = self.settings().await?;
        let user_home = std::env::home_dir();
        self.run(move |_| repositories::named(&root, &settings, user_home.as_deref())).await
    }

    /// Repairs the index: reads the project at `root`, registers it if missing, corrects its path if it has moved,
    /// and takes it out of the archive.
    ///
    /// # Errors
    /// `not_found` when there is no project, `malformed`; `conflict` for a copy of a project that is still at its place (see
    /// [`renew_id`](Self::renew_id)).
    pub async fn ensure_registered(&self, root: impl Into<PathBuf>) -> Result<ProjectEntry> {
        let (root, clock) = (root.into(), Arc::clone(&self.clock));
        self.write(move |files| {
            let (root, project) = project::read(&root)?;
            let entry = register(files, &project.project_id, &project.name, &root)?;
            let state = state_dir(&files.path, &project.project_id);
            // The lock that `reactivate` takes lies there.
            make_private(&state)?;
            project::reactivate(&root, &project, &state, &clock.now())?;
            Ok(entry)
        })
        .await
    }

    /// Refuses folders that are no place for a project: this home with everything in it, and, unless `anywhere` is set, `/` and the
    /// person's home folder. The folder need not exist. To be asked before anything is made there.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn check_root(&self, root: &Path, anywhere: bool) -> Result<()> {
        project::check_root(root, self.path(), anywhere)
    }

    /// Turns the folder `root` into a project and registers it: creates `.watchfire/` with `project.yaml`, `tasks/`
    /// and `secrets/instructions.md`. Does not touch git.
    ///
    /// # Errors
    /// `already_exists` when it is a project already (then see [`import_project`](Self::import_project)).
    pub async fn init_project(&self, root: impl Into<PathBuf>, new: NewProject) -> Result<Project> {
        let (root, clock) = (root.into(), Arc::clone(&self.clock));
        self.write(move |files| {
            let (root, project) = project::init(&root, new, &clock.now())?;
            register(files, &project.project_id, &project.name, &root)?;
            Ok(project)
        })
        .await
    }

    /// Registers the existing project at `root`.
    ///
    /// # Errors
    /// `not_found` when there is none, `malformed`.
    pub async fn import_project(&self, root: impl Into<PathBuf>) -> Result<Project> {
        let root = root.into();
        let again = root.clone();
        self.ensure_registered(root).await?;
        self.run(move |_| project::read(&again).map(|(_, project)| project)).await
    }

    /// Gives the project at `root`, a copy of another one, an id of its own, and registers it. Its tasks stay; lives, claims and
    /// logs are those of the original.
    ///
    /// # Errors
    /// `not_found` when there is no project, `malformed`.
    pub async fn renew_id(&self, root: impl Into<PathBuf>) -> Result<Project> {
        let (root, clock) = (root.into(), Arc::clone(&self.clock));
        self.write(move |files| {
            let (root, project) = project::renew_id(&root, &clock.now())?;
            register(files, &project.project_id, &project.name, &root)?;
            Ok(project)
        })
        .await
    }

    /// Opens the tasks of the project at `root`, with their state in this home and their claims in `shared_dir`, which is
    /// [`Workspace::shared_dir`](crate::workspace::Workspace::shared_dir) of the project.
    ///
    /// # Errors
    /// `not_found` when there is no project, `malformed` when its id cannot be read.
    pub async fn open_store(
        &self,
        root: impl Into<PathBuf>,
        shared_dir: Option<PathBuf>,
    ) -> Result<YamlStore> {
        let root = root.into();
        let (root, project) = blocking(move || project::read(&root)).await?;
        let options = YamlOptions::new(self.state_dir(&project.project_id)).with_shared_dir(shared_dir);
        YamlStore::open(root, Arc::clone(&self.clock), options).await
    }

    /// Returns the folder for the state of a project, `state/<project_id>`, which may not exist yet.
    #[must_use]
    pub fn state_dir(&self, id: &ProjectId) -> PathBuf {
        state_dir(&self.files.path, id)
    }

    /// Returns the folder for the snapshots of the project at `root`, if it is one without git: `state/<project_id>/snapshots`,
    /// which may not exist. `None` where this home knows no project.
    ///
    /// # Errors
    /// Errors of the home.
    pub async fn snapshots_dir(&self, root: impl Into<PathBuf>) -> Result<Option<PathBuf>> {
        let root = root.into();
        self.run(move |files| {
            let id = match project::read(&root) {
                Ok((_, project)) => Some(project.project_id),
                // The project's own files may be what is to be restored.
                Err(_) => {
                    let root = root.canonicalize().unwrap_or(root);
                    let mut known = files.read::<ProjectIndex>(PROJECTS)?.projects.into_iter();
                    known.rfind(|entry| entry.path == root).map(|entry| entry.project_id)
                }
            };
            Ok(id.map(|id| state_dir(&files.path, &id).join("snapshots")))
        })
        .await
    }

    /// Returns the folder for logs of a project's sessions, `logs/<project_id>`, which may not exist yet.
    #[must_use]
    pub fn logs_dir(&self, id: &ProjectId) -> PathBuf {
        self.files.path.join("logs").join(id.as_str())
    }

    /// Returns the holder under which this start of the home claims tasks. Its ids are sent nowhere.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    async fn change_index(
        &self,
        mut change: impl FnMut(&mut ProjectIndex) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.write(move |files| files.change(PROJECTS, &mut change).map(drop)).await
    }

    /// Runs `work`, which may write, in turn with the other writers of this process.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.files.queue.turn().await;
        self.run(move |files| {
            // Moved in, so that the turn lasts as long as the work, even if the caller stops waiting.
            let _turn = turn;
            work(files)
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let files = Arc::clone(&self.files);
        blocking(move || work(&files)).await
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Wakes the follower, which then finds the home gone and ends.
        self.signal.notify_one();
    }
}

fn state_dir(home: &Path, id: &ProjectId) -> PathBuf {
    home.join("state").join(id.as_str())
}

fn register(files: &Files, id: &ProjectId, name: &str, path: &Path) -> Result<ProjectEntry> {
    let mut registered = None;
    files.change(PROJECTS, &mut |index: &mut ProjectIndex| {
        if let Some(entry) = index.projects.iter().find(|entry| entry.project_id == *id) {
            project::check_place(&entry.path, path, id)?;
        }
        // A project that was deleted and made anew at the same path has another id.
        index.projects.retain(|entry| entry.project_id == *id || entry.path != path);
        let last = index.projects.iter().map(|entry| entry.position).max().unwrap_or(0);
        let entry = match index.projects.iter_mut().find(|entry| entry.project_id == *id) {
            Some(entry) => {
                name.clone_into(&mut entry.name);
                path.clone_into(&mut entry.path);
                entry.clone()
            }
            None => {
                let entry = ProjectEntry::new(id.clone(), name, path, last.saturating_add(1));
                index.projects.push(entry.clone());
                entry
            }
        };
        // Overwritten when the closure is called again: only the last call's entry was written.
        registered = Some(entry);
        Ok(())
    })?;
    registered.ok_or_else(|| Error::new(ErrorKind::Internal, "the project was not registered"))
}
