//! Puts a pack into the repository in one step.

use std::fs;
use std::path::{Path, PathBuf};

use git2::Repository;
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::repository::project::Project;

const DURING: &str = "writing a pack";

/// A folder of ours in which a pack and its index are made.
///
/// In the repository's own folder, libgit2 would leave an unfinished pack behind after a kill. git does not know
/// libgit2's temporary names, and never removes them.
pub(crate) struct NewPack(PathBuf);

impl NewPack {
    /// Creates the folder in `scratch`, which is swept at every start.
    pub(crate) fn new(scratch: &Path) -> Result<Self> {
        let folder = scratch.join(files::unique("pack"));
        fs::create_dir_all(&folder).map_err(|e| Error::io(DURING, e).with_path(&folder))?;
        Ok(Self(folder))
    }

    /// Returns the folder for the pack and its index.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Moves the pack into `repo`, whose handle then finds its objects.
    pub(crate) fn put(self, repo: &Repository) -> Result<()> {
        let packs = repo.commondir().join("objects/pack");
        let failed = |e| Error::io(DURING, e).with_path(&packs);
        fs::create_dir_all(&packs).map_err(failed)?;
        let mut made = files::entries(&self.0)?;
        // The index last: git looks for packs by their indices.
        made.sort_by_key(|(_, path)| path.extension().is_some_and(|it| it == "idx"));
        for (name, path) in made {
            fs::rename(&path, packs.join(name)).map_err(failed)?;
            reached("pack: moved");
        }
        // The handle has listed the packs before, and would not find the new one.
        repo.odb().and_then(|odb| odb.refresh()).during(DURING)
    }
}

/// Completes the packs that killed processes were moving, because git would never remove a pack without an
/// index.
pub(crate) fn complete(project: &Project) -> Result<()> {
    let packs = project.common.join("objects/pack");
    for (name, folder) in files::entries(&project.state().join("tmp"))? {
        if !files::is_abandoned(&name) || !folder.is_dir() {
            continue;
        }
        for (name, index) in files::entries(&folder)? {
            let pack = Path::new(&name).with_extension("pack");
            let is_index = index.extension().is_some_and(|it| it == "idx");
            if is_index && !folder.join(&pack).exists() && packs.join(&pack).exists() {
                fs::rename(&index, packs.join(&name)).map_err(|e| Error::io(DURING, e).with_path(&index))?;
            }
        }
    }
    Ok(())
}

impl Drop for NewPack {
    fn drop(&mut self) {
        _ = files::remove_tree(&self.0);
    }
}
