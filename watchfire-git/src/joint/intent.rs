//! The intent of a joint publication: everything that is needed to complete it.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use watchfire_core::workspace::{Candidate, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::names;
use crate::repository::project::Project;

/// The intent, among the records of the project's own repository.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Intent {
    pub(crate) candidate: Candidate,
    /// The fencing token of the claim under which it is published.
    #[serde(rename = "claim_fence")]
    pub(crate) fence: u64,
    /// True if some targets have moved and the others could not: a person decides.
    #[serde(default)]
    pub(crate) is_half: bool,
}

impl Intent {
    /// Reads the intent of the work under `key`.
    pub(crate) fn read(first: &Project, key: &WorkspaceKey) -> Result<Option<Self>> {
        let path = path(first, key);
        let Some(bytes) = files::read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::new(
                ErrorKind::WorkspaceBroken,
                "the intent of a publication in several repositories cannot be read: remove it",
            )
            .with_path(&path)
            .with_source(e)
        })
    }

    /// Writes the intent, on the disk before any target moves.
    pub(crate) fn write(&self, first: &Project) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Internal, "writing an intent").with_source(e))?;
        files::replace_durably(&path(first, &self.candidate.key), &bytes)?;
        reached("joint: intent written");
        Ok(())
    }

    /// Removes the intent of the work under `key`, if there is one.
    pub(crate) fn forget(first: &Project, key: &WorkspaceKey) -> Result<()> {
        reached("joint: intent to be removed");
        files::absent(fs::remove_file(path(first, key))).during("removing an intent").map(drop)
    }

    /// Returns the keys of work that has an intent.
    pub(crate) fn keys(first: &Project) -> Result<Vec<WorkspaceKey>> {
        let entries = files::entries(&folder(first))?.into_iter();
        let name = |name: &std::ffi::OsStr| name.to_str()?.strip_suffix(".json").and_then(names::parse_key);
        Ok(entries.filter_map(|(file, _)| name(&file)).collect())
    }
}

fn folder(first: &Project) -> PathBuf {
    first.state().join("publish-together")
}

fn path(first: &Project, key: &WorkspaceKey) -> PathBuf {
    folder(first).join(format!("{key}.json"))
}
