//! Makes a folder without git ready: a store for its snapshots, and the first of them.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Repository, RepositoryInitOptions};
use watchfire_core::files::make_private;
use watchfire_core::model::RepoPath;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::options::GitOptions;
use crate::plain::store::{self, BRANCH};
use crate::plain::{places, snapshot};
use crate::repository::project::{Kind, Project};

/// Checks that the folder `root` can be a project with snapshots in `store`, where nothing need be yet. Changes nothing.
///
/// # Errors
/// `invalid_input` for a folder of the system, a home folder, and one with a Watchfire home; `not_supported` for a repository,
/// a folder inside one, and a folder beyond the limits of snapshots; `conflict` if another home has its snapshots.
pub fn check_plain(root: impl AsRef<Path>, store: impl AsRef<Path>) -> Result<()> {
    checked(root.as_ref(), store.as_ref()).map(drop)
}

/// Makes the folder `root` a project with snapshots in `store`, and takes the first. The folder gets no `.git`, only a file in
/// `.watchfire` that names the store. Returns the repositories in the folder, which snapshots leave out.
///
/// # Errors
/// The errors of [`check_plain`], and errors of the disk.
pub fn init_plain(
    root: impl AsRef<Path>,
    store: impl AsRef<Path>,
    options: &GitOptions,
) -> Result<Vec<RepoPath>> {
    let (root, store) = checked(root.as_ref(), store.as_ref())?;
    if !store::is_store(&store) {
        make(&store)?;
    }
    reached("plain: store made");
    let store = store.canonicalize().during("opening the snapshots")?;
    store::claim(&root, &store)?;
    reached("plain: claimed");
    let project = Project::plain(root, store, options.clone(), Kind::Plain);
    Ok(snapshot::take(&project)?.nested)
}

/// Returns both paths without links.
fn checked(root: &Path, store: &Path) -> Result<(PathBuf, PathBuf)> {
    let real =
        |path: &Path| path.canonicalize().map_err(|e| Error::io("opening a folder", e).with_path(path));
    let root = real(root)?;
    // The store is still to be made, and perhaps the folder for it.
    let there = store.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/"));
    let store = real(there)?.join(store.strip_prefix(there).unwrap_or(Path::new("")));
    places::refuse(&root, &store)?;
    let refused = |message| Error::new(ErrorKind::NotSupported, message).with_path(&root);
    if store::has_git(&root) {
        return Err(refused("the folder has a git repository, with which its tasks work")
            .with("hint", "leave out --plain"));
    }
    if let Ok(repository) = Repository::discover(&root) {
        return Err(refused("the folder lies in a git repository")
            .with("repository", repository.path().display())
            .with("hint", "make the top of that repository the project, or move the folder out of it"));
    }
    match store::pointer(&root)? {
        Some(other) if other != store && store::is_store(&other) => {
            return Err(store::elsewhere(&root, &other));
        }
        _ => {}
    }
    snapshot::measure(&root)?;
    Ok((root, store))
}

/// Makes an empty store. Under another name until it is whole: a store is the record of a plain folder.
fn make(store: &Path) -> Result<()> {
    let above = store.parent().unwrap_or(Path::new("/"));
    make_private(above)?;
    let fresh = above.join(files::unique("snapshots"));
    let made = (|| {
        make_private(&fresh)?;
        let mut how = RepositoryInitOptions::new();
        // No template: it could bring hooks.
        how.bare(true).no_reinit(true).external_template(false).initial_head(BRANCH);
        let repo = Repository::init_opts(&fresh, &how).during("making a store for snapshots")?;
        // As in a repository with a checkout, and git in a bare one does not by itself.
        let config = repo.config().and_then(|mut config| config.set_bool("core.logAllRefUpdates", true));
        config.during("making a store for snapshots")?;
        fs::create_dir_all(fresh.join("info")).during("making a store for snapshots")?;
        files::replace(&fresh.join("info/exclude"), b"/.watchfire/\n")?;
        fs::rename(&fresh, store).map_err(|e| Error::io("making a store for snapshots", e).with_path(store))
    })();
    if made.is_err() {
        _ = files::remove_tree(&fresh);
    }
    made
}
