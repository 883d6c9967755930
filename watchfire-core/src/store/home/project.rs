//! Creating, reading and reactivating projects. All functions block.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::{Dir, FileLock, read_untrusted, replace};
use crate::model::form::check_lines;
use crate::model::{BackendName, Project, ProjectId, ProjectStatus, TaskNumber, Timestamp};
use crate::store::ProjectPatch;
use crate::store::plan::check_paths;
use crate::store::yaml::atomic::{self, Unread, unreadable};
use crate::store::yaml::{PATIENCE, already_exists};
use crate::{Error, ErrorKind, Result};

/// See [`Home::check_root`](super::Home::check_root).
pub(super) fn check_root(root: &Path, home: &Path, anywhere: bool) -> Result<()> {
    let root = real(root);
    let refused = |why: &str| {
        let message = format!("{why}, and a project is what agents may change");
        Err(Error::new(ErrorKind::InvalidInput, message).with_path(&root))
    };
    if root.starts_with(real(home)) {
        let error = refused("this is Watchfire's own folder");
        return error.map_err(|error| error.with("hint", "make the project in a folder of its own"));
    }
    if anywhere {
        return Ok(());
    }
    if root.parent().is_none() {
        return refused("this is the root of the file system");
    }
    match std::env::home_dir() {
        Some(home) if real(&home) == root => refused("this is your home folder"),
        _ => Ok(()),
    }
}

/// Returns a path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        above.canonicalize().ok().map(|above| if rest == Path::new("") { above } else { above.join(rest) })
    });
    found.unwrap_or_else(|| path.to_owned())
}

const FILE: &str = "project.yaml";

/// Upper bound for the length of a path, which is the kernel's.
const PATH_LIMIT: u64 = 4096;

/// Initial content of the instructions.
const INSTRUCTIONS: &str = "\
<!--
Everything in this file outside of comments goes into the prompt of every session of this project, word for word.
Say here what agents need and the repository must not hold: test accounts, local addresses, names of credentials.
The file lies in .watchfire/, which git ignores. Write names of variables rather than the secrets themselves:
what stands here is sent to the agent's provider.
-->
";

/// Distinct colours for projects that name none.
const COLORS: [&str; 8] =
    ["#e5484d", "#f2762e", "#d9a514", "#3d9a50", "#12a594", "#3e7bfa", "#8e5cf0", "#d6409f"];

/// A project to create. By default, everything but the name is left to the settings.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NewProject {
    /// The name. Default: the name of the folder.
    pub name: Option<String>,
    /// The colour. Default: one of ours.
    pub color: Option<String>,
    /// Definition of the project.
    pub definition: String,
    /// The merge target. Default: the branch that is checked out when an attempt begins.
    pub default_branch: String,
    /// The backend. Default: chosen by the settings.
    pub default_agent: Option<BackendName>,
    /// The sandbox. Default: chosen by the settings.
    pub sandbox: String,
    /// See [`Project::auto_merge`].
    pub auto_merge: Option<bool>,
    /// See [`Project::auto_delete_branch`].
    pub auto_delete_branch: Option<bool>,
    /// See [`Project::auto_start_tasks`].
    pub auto_start_tasks: Option<bool>,
    /// See [`Project::setup`].
    pub setup: Vec<String>,
    /// The verify commands.
    pub verify: Vec<String>,
    /// See [`Project::share`].
    pub share: Vec<String>,
    /// See [`Project::copy`].
    pub copy: Vec<String>,
    /// Comment at the beginning of `project.yaml`, without its `#`. Default: none.
    pub comment: String,
    /// Number of the last task before this project. Its first task gets the next one. Default: none, and it gets 1.
    pub after: Option<TaskNumber>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident, $field:ident: $type:ty;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: impl Into<$type>) -> Self {
            self.$field = value.into();
            self
        })*
    };
}

impl NewProject {
    /// Returns a project with all defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the name.
        with_name, name: Option<String>;
        /// Sets the colour.
        with_color, color: Option<String>;
        /// Sets the definition.
        with_definition, definition: String;
        /// Sets the merge target.
        with_default_branch, default_branch: String;
        /// Sets the backend.
        with_default_agent, default_agent: Option<BackendName>;
        /// Sets the sandbox.
        with_sandbox, sandbox: String;
        /// Sets [`Project::auto_merge`].
        with_auto_merge, auto_merge: Option<bool>;
        /// Sets [`Project::auto_delete_branch`].
        with_auto_delete_branch, auto_delete_branch: Option<bool>;
        /// Sets [`Project::auto_start_tasks`].
        with_auto_start_tasks, auto_start_tasks: Option<bool>;
        /// Sets [`Project::setup`].
        with_setup, setup: Vec<String>;
        /// Sets the verify commands.
        with_verify, verify: Vec<String>;
        /// Sets [`Project::share`].
        with_share, share: Vec<String>;
        /// Sets [`Project::copy`].
        with_copy, copy: Vec<String>;
        /// Sets the comment at the beginning of `project.yaml`.
        with_comment, comment: String;
        /// Sets the number of the last task before this project.
        with_after, after: Option<TaskNumber>;
    }
}

pub(super) fn init(root: &Path, new: NewProject, now: &Timestamp) -> Result<(PathBuf, Project)> {
    let root = canonical(root)?;
    for (field, paths) in [("share", &new.share), ("copy", &new.copy)] {
        check_paths(Some(paths)).map_err(|error| error.with("field", field))?;
    }
    for (field, commands) in [("setup", &new.setup), ("verify", &new.verify)] {
        check_lines(commands).map_err(|error| error.with("field", field))?;
    }
    let id = ProjectId::random();
    let folder = root.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut project = Project::new(id, new.name.or(folder).unwrap_or_else(|| "project".to_owned()));
    let hash = project.project_id.as_str().bytes().map(usize::from).sum::<usize>();
    let color = COLORS.get(hash % COLORS.len()).copied().unwrap_or_default();
    project.color = new.color.unwrap_or_else(|| color.to_owned());
    project.definition = new.definition;
    project.default_branch = new.default_branch;
    project.default_agent = new.default_agent;
    project.sandbox = new.sandbox;
    project.auto_merge = new.auto_merge;
    project.auto_delete_branch = new.auto_delete_branch;
    project.auto_start_tasks = new.auto_start_tasks;
    project.setup = new.setup;
    project.verify = new.verify;
    project.share = new.share;
    project.copy = new.copy;
    if let Some(after) = new.after {
        project.next_task_number = after.value().saturating_add(1);
    }
    project.created_at = Some(now.clone());
    project.updated_at = Some(now.clone());
    let dir = Dir::open(&root)?.make_child(".watchfire", 0o755)?;
    dir.make_child("tasks", 0o755)?;
    let secrets = dir.make_child("secrets", 0o700)?;
    // `project.yaml` comes last, so that a project with that file is complete. Its creation decides between
    // two processes.
    unless_there(atomic::create_text(&secrets, "instructions.md", INSTRUCTIONS, 0o600))?;
    // Empty: what stands in it goes into prompts.
    unless_there(atomic::create_text(&dir, "memory.md", "", 0o644))?;
    match atomic::create_below(&dir, FILE, &new.comment, &project, 0o644) {
        Err(error) if already_exists(&error) => {
            Err(Error::new(ErrorKind::AlreadyExists, "it is a Watchfire project already").with_path(root))
        }
        other => other.map(|stored| (root, stored.value)),
    }
}

/// Returns the project at `root`, and `root` without links.
pub(super) fn read(root: &Path) -> Result<(PathBuf, Project)> {
    let root = canonical(root)?;
    let missing = || {
        let message = "not a Watchfire project: no .watchfire/project.yaml, initialise it first";
        Error::new(ErrorKind::NotFound, message).with_path(&root)
    };
    let dir = Dir::open(&root)?.child(".watchfire")?.ok_or_else(missing)?;
    match atomic::load::<Project>(&dir, FILE) {
        Ok(stored) => Ok((root, stored.value)),
        Err(Unread::Missing) => Err(missing()),
        Err(unread) => Err(unreadable(&dir, FILE, unread)),
    }
}

/// Name of the file in a project's state folder that holds the path of the project.
const PLACE: &str = "root";

/// Checks that the project at `root` is no copy of the one at `known`, which has the same id: a copy must not get the lives,
/// claims and logs of its original.
///
/// # Errors
/// `conflict` if both are there.
pub(super) fn check_place(known: &Path, root: &Path, id: &ProjectId) -> Result<()> {
    if known == root {
        return Ok(());
    }
    // A folder that is gone, or holds another project by now, has moved.
    let Ok((known, original)) = read(known) else { return Ok(()) };
    // One folder may be mounted at two places.
    if original.project_id != *id || is_same_file(&known, root) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Conflict, "this project is a copy of another one, and has its id")
        .with_path(root)
        .with("original", known.display())
        .with("hint", "give the copy an id of its own: watchfire init --new-id"))
}

/// Notes in the state folder of a project where the project is, and checks that it is no copy of the one that was there.
///
/// # Errors
/// The errors of [`check_place`]; errors of the file system.
pub(crate) fn take_place(state: &Path, root: &Path, id: &ProjectId) -> Result<()> {
    let bytes = root.as_os_str().as_bytes();
    match read_untrusted(&state.join(PLACE), PATH_LIMIT)? {
        Some(known) if known == bytes => return Ok(()),
        Some(known) => check_place(Path::new(OsStr::from_bytes(&known)), root, id)?,
        None => {}
    }
    replace(&state.join(PLACE), bytes)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |root: &Path| root.join(".watchfire").join(FILE).metadata().map(|it| (it.dev(), it.ino())).ok();
    of(one).is_some_and(|one| of(other) == Some(one))
}

/// Gives the project at `root` a new id.
pub(super) fn renew_id(root: &Path, now: &Timestamp) -> Result<(PathBuf, Project)> {
    let (root, _) = read(root)?;
    let missing = || Error::new(ErrorKind::NotFound, "not a Watchfire project").with_path(&root);
    let dir = Dir::open(&root)?.child(".watchfire")?.ok_or_else(missing)?;
    let id = ProjectId::random();
    let renewed = atomic::update::<Project>(&dir, FILE, None, |project| {
        project.project_id = id.clone();
        project.updated_at = Some(now.clone());
        Ok(true)
    })?;
    Ok((root, renewed.0.value))
}

/// Takes an archived project out of the archive.
pub(super) fn reactivate(root: &Path, project: &Project, state: &Path, now: &Timestamp) -> Result<()> {
    if project.status == ProjectStatus::Active {
        return Ok(());
    }
    // The lock of the project's store, which another process may have open.
    let _lock = FileLock::acquire(&state.join("store.lock"), PATIENCE)?;
    let Some(dir) = Dir::open(root)?.child(".watchfire")? else { return Ok(()) };
    let patch = ProjectPatch::new().with_status(ProjectStatus::Active);
    atomic::update::<Project>(&dir, FILE, None, |project| Ok(patch.apply(project, now))).map(drop)
}

fn canonical(root: &Path) -> Result<PathBuf> {
    root.canonicalize().map_err(|error| Error::io("opening the project folder", error).with_path(root))
}

fn unless_there(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if already_exists(&error) => Ok(()),
        other => other,
    }
}
