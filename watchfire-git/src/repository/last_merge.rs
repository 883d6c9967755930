//! The record of the last merge of some work in several repositories, which an undo takes back as one.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchfire_core::workspace::{Commit, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::files;
use crate::repository::project::Project;

/// The parts of the last merge of some work, in the state of the project's own repository.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct LastMerge {
    pub(crate) parts: Vec<MergedPart>,
    /// True while some of its parts are missing in their targets. The rest is then merged by a candidate of its own.
    #[serde(default)]
    pub(crate) is_half: bool,
}

/// The merge in one repository.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct MergedPart {
    /// Path of the repository, relative to the root of the project. Empty for the project's own.
    pub(crate) repository: PathBuf,
    pub(crate) target: String,
    pub(crate) commit: Commit,
}

impl LastMerge {
    /// Reads the record of the merge of `key` whose commit in one of the repositories is `commit`. Returns `None` for a merge
    /// that was recorded by an earlier version, or that has been followed by another one.
    pub(crate) fn of(first: &Project, key: &WorkspaceKey, commit: &Commit) -> Result<Option<Self>> {
        Ok(Self::read(first, key)?.filter(|last| last.has(commit)))
    }

    /// Records the parts of a merge that have reached their targets, beside those of the half published merge that they complete.
    pub(crate) fn record(
        first: &Project,
        key: &WorkspaceKey,
        new: Vec<MergedPart>,
        is_half: bool,
    ) -> Result<()> {
        // A call that is repeated must not drop what the first one has joined.
        let is_same = |known: &Self| known.is_half || new.iter().any(|part| known.has(&part.commit));
        let mut parts = Self::read(first, key)?.filter(is_same).unwrap_or_default().parts;
        parts.retain(|known| new.iter().all(|part| part.repository != known.repository));
        parts.extend(new);
        let bytes = serde_json::to_vec_pretty(&Self { parts, is_half })
            .map_err(|e| Error::new(ErrorKind::Internal, "writing a record").with_source(e))?;
        files::replace(&path(first, key), &bytes)
    }

    /// Returns true if the merge went to other repositories than the project's own.
    pub(crate) fn has_others(&self) -> bool {
        self.parts.iter().any(|part| !part.repository.as_os_str().is_empty())
    }

    /// Returns the commit of the merge in `repository`, if it is among its parts.
    pub(crate) fn commit_in(&self, repository: &Path) -> Option<&Commit> {
        self.parts.iter().find(|part| part.repository == repository).map(|part| &part.commit)
    }

    fn has(&self, commit: &Commit) -> bool {
        self.parts.iter().any(|part| part.commit == *commit)
    }

    fn read(first: &Project, key: &WorkspaceKey) -> Result<Option<Self>> {
        let path = path(first, key);
        // Written without fsync, as other records are: an empty file means that the machine went down.
        let bytes = files::read(&path)?.filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::new(ErrorKind::Malformed, "the record of a merge cannot be read")
                .with_path(&path)
                .with_source(e)
        })
    }
}

fn path(first: &Project, key: &WorkspaceKey) -> PathBuf {
    first.state().join("merged-together").join(format!("{key}.json"))
}
