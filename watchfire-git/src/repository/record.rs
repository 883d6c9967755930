//! The record about the work under a key, kept where no agent can reach it.
//!
//! A record outlives folder and branch, because it holds the fencing token and the last publication: a
//! candidate is published at most once, whichever process asks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use watchfire_core::model::RepoPath;
use watchfire_core::sandbox::NamePattern;
use watchfire_core::workspace::{Candidate, Commit, WorkspaceKey};
use watchfire_core::{Error, ErrorKind, Result};

use crate::files;
use crate::names;
use crate::repository::project::Project;

/// The files of an unfinished merge, with the content that they had when it was found.
pub(crate) type Unfinished = BTreeMap<RepoPath, String>;

/// The record of one key.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Record {
    /// The root of the project that the work belongs to. Several projects may share a repository.
    pub(crate) root: PathBuf,
    /// Git directory of that project's checkout, relative to the shared git directory. Older records have
    /// none.
    #[serde(default)]
    pub(crate) checkout: Option<PathBuf>,
    /// The branch to merge into.
    pub(crate) target: String,
    /// The commit from which the work started.
    pub(crate) base: Option<Commit>,
    /// Names that the agent could not see. Of such files the committed content counts, not the one on disk.
    #[serde(default)]
    pub(crate) hidden: Vec<NamePattern>,
    /// Files of a merge that the agent left unfinished, with their content.
    #[serde(default)]
    pub(crate) unmerged: Unfinished,
    /// The highest fencing token of a claim that was seen. Older versions kept attempts under the plain name.
    #[serde(default, rename = "claim_fence")]
    pub(crate) fence: u64,
    /// The last candidate that was published.
    #[serde(default)]
    pub(crate) published: Option<Commit>,
    /// The last candidate that was held.
    #[serde(default)]
    pub(crate) queued: Option<Queued>,
    /// The commit with the work that was merged. All its changes are in the target, even if a squash or
    /// rebase made other commits.
    #[serde(default)]
    pub(crate) merged: Option<Commit>,
    /// The commit that this work was merged onto. What it changed is the difference between it and
    /// [`published`](Self::published). Older records have none.
    #[serde(default)]
    pub(crate) merged_onto: Option<Commit>,
}

/// A candidate that waits for a held target.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Queued {
    pub(crate) target: String,
    pub(crate) base: Option<Commit>,
    pub(crate) commit: Commit,
    pub(crate) tree: String,
    pub(crate) work: Commit,
    #[serde(default)]
    pub(crate) onto: Option<Commit>,
}

impl Queued {
    pub(crate) fn new(candidate: &Candidate) -> Self {
        let Candidate { target, base, commit, tree, work, onto, .. } = candidate.clone();
        Self { target, base, commit, tree, work, onto }
    }

    pub(crate) fn candidate(self, key: &WorkspaceKey) -> Candidate {
        let Self { target, base, commit, tree, work, onto } = self;
        Candidate::new(key.clone(), target, base, commit, tree, work).with_onto(onto)
    }
}

impl Record {
    pub(crate) fn read(project: &Project, key: &WorkspaceKey) -> Result<Option<Self>> {
        let path = Self::path(project, key);
        // Records are written without fsync. An empty file means that the machine went down before the
        // content was on disk.
        let bytes = files::read(&path)?.filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::new(ErrorKind::Malformed, "the record of a workspace cannot be read")
                .with_path(&path)
                .with_source(e)
        })
    }

    pub(crate) fn write(&self, project: &Project, key: &WorkspaceKey) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Internal, "writing a record").with_source(e))?;
        files::replace(&Self::path(project, key), &bytes)
    }

    /// Returns the keys of all records.
    pub(crate) fn keys(project: &Project) -> Result<Vec<WorkspaceKey>> {
        let entries = files::entries(&project.state().join("work"))?.into_iter();
        let key = |(name, _): (std::ffi::OsString, PathBuf)| {
            names::parse_key(name.to_str()?.strip_suffix(".json")?)
        };
        Ok(entries.filter_map(key).collect())
    }

    fn path(project: &Project, key: &WorkspaceKey) -> PathBuf {
        project.state().join("work").join(format!("{key}.json"))
    }
}
