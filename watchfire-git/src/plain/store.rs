//! The store of a plain folder's snapshots: which folder has one, and what proves that the folder is there.
//!
//! The store is the record of the folder's kind, and lies where no agent reaches it. Nothing else makes a folder without
//! `.git` a plain one: a repository whose `.git` is gone is refused.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::{Error, ErrorKind, Result};

use crate::error::{During, broken};
use crate::files;
use crate::options::GitOptions;
use crate::repository::project::{Kind, Project};

/// The branch of the snapshots.
pub(crate) const BRANCH: &str = "main";

/// File in `.watchfire` that names the store. It proves that the folder itself is there and no empty mount point, and keeps
/// a second home from working in the folder. It is compared, and never followed.
pub(crate) const POINTER: &str = ".watchfire/snapshots";

/// File in the store that says that the folder has been a repository since.
const SINCE: &str = "repository-since";

/// Upper bound for the pointer, in bytes.
const SMALL: u64 = 64 << 10;

/// Finds the repository of the project at `root`: its own, else the store of its snapshots at `store`.
pub(crate) fn find(root: &Path, store: &Path, options: GitOptions) -> Result<Project> {
    let given = root;
    let root =
        root.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(given))?;
    let store = store.canonicalize().ok().filter(|store| is_store(store));
    match (store, has_git(&root)) {
        (None, true) => Project::find(&root, options),
        (None, false) => Project::find(&root, options).map_err(|error| match pointer(&root) {
            Ok(Some(store)) if error.kind() == ErrorKind::NotFound => elsewhere(&root, &store),
            _ => error,
        }),
        (Some(store), true) => {
            let project = Project::find(&root, options.clone())?;
            // Before anything else: from now on a missing `.git` is a loss, and no plain folder.
            let since = store.join(SINCE);
            if !since.exists() {
                files::replace_durably(&since, b"")?;
            }
            let before = Project::plain(root, store, options, Kind::Past);
            Ok(Project { before: Some(Box::new(before)), ..project })
        }
        (Some(store), false) if store.join(SINCE).exists() => {
            let error = Error::new(
                ErrorKind::WorkspaceBroken,
                "the folder was a git repository, and its .git is gone",
            );
            let hint = "bring .git back, or mount the disk that it is on; `watchfire init --plain` goes on with snapshots";
            Err(error.with_path(root).with("snapshots", store.display()).with("hint", hint))
        }
        (Some(store), false) => Ok(Project::plain(root, store, options, Kind::Plain)),
    }
}

/// Checks that the folder of a plain project is there, and is a plain one still.
pub(crate) fn check(project: &Project) -> Result<()> {
    if has_git(&project.root) {
        let hint =
            "close the project and open it again (`watchfire daemon restart` where the daemon has it open)";
        return Err(broken("the folder has a git repository now")
            .with_path(&project.root)
            .with("hint", hint));
    }
    match pointer(&project.root)? {
        Some(store) if store == project.git => Ok(()),
        Some(store) => Err(elsewhere(&project.root, &store)),
        None => {
            let hint = "mount the disk that it is on; if .watchfire/snapshots was deleted, `watchfire init --plain` writes \
                        it anew";
            let error = broken("the folder does not name its snapshots: it may be another one, or empty");
            Err(error.with_path(&project.root).with("hint", hint))
        }
    }
}

/// Writes down in the folder where its snapshots lie, and that it is a plain folder.
pub(super) fn claim(root: &Path, store: &Path) -> Result<()> {
    files::absent(fs::remove_file(store.join(SINCE))).during("making a folder a plain one")?;
    files::replace_durably(&root.join(POINTER), store.as_os_str().as_bytes())
}

/// Returns the store that the folder names, if it names one.
pub(super) fn pointer(root: &Path) -> Result<Option<PathBuf>> {
    let text = files::read_plain(&root.join(POINTER), SMALL)?;
    Ok(text.map(|text| PathBuf::from(std::ffi::OsStr::from_bytes(&text))))
}

/// Returns true if a store lies at `path`.
pub(super) fn is_store(path: &Path) -> bool {
    path.join("HEAD").is_file()
}

/// Returns true if anything called `.git` lies in the folder, also what is no repository.
pub(super) fn has_git(root: &Path) -> bool {
    fs::symlink_metadata(root.join(".git")).is_ok()
}

/// Refuses a folder whose snapshots lie in another home.
pub(super) fn elsewhere(root: &Path, store: &Path) -> Error {
    let error = Error::new(ErrorKind::Conflict, "the snapshots of this folder are in another Watchfire home");
    let hint = "use that home (WATCHFIRE_HOME); if it is gone, remove .watchfire/snapshots, and `watchfire init --plain` \
                begins anew";
    error.with_path(root).with("snapshots", store.display()).with("hint", hint)
}
