//! The folders of work that is in several repositories at once.
//!
//! The layout of some work stays as it was when the work began, whatever becomes of the project's list of repositories: the
//! record of it is written before the first folder is made, and goes after the last one.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchfire_core::workspace::WorkspaceKey;
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::files;
use crate::names;

/// Name of the folder, in `.watchfire`, that holds the folders of such work.
pub(crate) const TOGETHER: &str = "together";

/// The folders of some work, the project's own first.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Layout {
    pub(crate) places: Vec<Placed>,
    /// True once the work was opened in all of them, so that one in which it is not has lost it.
    #[serde(default)]
    pub(crate) is_open: bool,
}

/// The folder of some work in one repository. Both paths are relative to the root of the project, so that they stay right
/// if everything is moved.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Placed {
    /// The repository; empty for the project's own.
    pub(crate) repository: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Layout {
    /// Reads the layout of the work under `key`. Returns `None` if that is in one repository.
    pub(crate) fn read(state: &Path, key: &WorkspaceKey) -> Result<Option<Self>> {
        let path = path(state, key);
        let Some(bytes) = files::read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::new(ErrorKind::Malformed, "the record of a task's repositories cannot be read")
                .with_path(&path)
                .with_source(e)
        })
    }

    /// Writes the layout of the work under `key`.
    pub(crate) fn write(&self, state: &Path, key: &WorkspaceKey) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Internal, "writing a record").with_source(e))?;
        files::replace_durably(&path(state, key), &bytes)
    }

    /// Removes the layout of the work under `key`, if there is one.
    pub(crate) fn forget(state: &Path, key: &WorkspaceKey) -> Result<()> {
        files::absent(fs::remove_file(path(state, key))).during("removing a record").map(drop)
    }

    /// Returns the keys of work that has a layout.
    pub(crate) fn keys(state: &Path) -> Result<Vec<WorkspaceKey>> {
        let entries = files::entries(&folder(state))?.into_iter();
        let name = |name: &std::ffi::OsStr| name.to_str()?.strip_suffix(".json").and_then(names::parse_key);
        Ok(entries.filter_map(|(file, _)| name(&file)).collect())
    }

    /// Returns the folder for `repository`, of a project in `root`.
    pub(crate) fn folder(&self, root: &Path, repository: &Path) -> Option<PathBuf> {
        let place = self.places.iter().find(|place| place.repository == repository)?;
        Some(root.join(&place.folder))
    }
}

fn folder(state: &Path) -> PathBuf {
    state.join(TOGETHER)
}

fn path(state: &Path, key: &WorkspaceKey) -> PathBuf {
    folder(state).join(format!("{key}.json"))
}
