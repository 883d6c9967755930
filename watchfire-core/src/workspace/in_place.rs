//! The reference implementation: the project root, as it is.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{
    BranchInfo, Candidate, CaptureRequest, Captured, Commit, Merge, MergeRequest, OpenRequest, Opened,
    Pruned, PublishRequest, Published, Recovery, RemoveRequest, Removed, RescueRef, Scratch, Workspace,
    WorkspaceKey,
};
use crate::model::Attempt;
use crate::sandbox::{Rule, RuleAccess};
use crate::{Error, ErrorKind, Result};

/// A folder in which agents work directly: no branches, nothing to merge, nothing to lose.
///
/// All sessions share it, so only one task should run at a time.
#[derive(Clone, Debug)]
pub struct InPlace {
    root: PathBuf,
}

impl InPlace {
    /// Returns a workspace in which agents work in `root`.
    ///
    /// # Errors
    /// `not_found` or `io` when there is no such folder.
    pub fn new(root: impl AsRef<Path>) -> Result<Self> {
        let given = root.as_ref();
        let root =
            // Rules of the sandbox name real paths.
            given.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(given))?;
        if !root.is_dir() {
            return Err(Error::new(ErrorKind::InvalidInput, "the project is not a folder").with_path(root));
        }
        Ok(Self { root })
    }

    fn no_candidates() -> Error {
        Error::new(ErrorKind::NotSupported, "work in place has nothing to merge")
    }
}

#[async_trait]
impl Workspace for InPlace {
    fn root(&self) -> &Path {
        &self.root
    }

    fn shared_dir(&self) -> Option<PathBuf> {
        None
    }

    async fn open(&self, _request: &OpenRequest) -> Result<Opened> {
        let mut opened = Opened::at(&self.root);
        opened.policy_rules.push(Rule::new(&self.root, RuleAccess::Write, "workspace: the project root"));
        // The root always holds the work of earlier sessions.
        opened.reused = true;
        Ok(opened)
    }

    async fn capture(&self, _request: &CaptureRequest) -> Result<Captured> {
        // The agent's files are already where they belong.
        Ok(Captured::default())
    }

    async fn prepare_merge(&self, _request: &MergeRequest) -> Result<Merge> {
        // The work is in the root, so there is nothing to bring there.
        Ok(Merge::Nothing)
    }

    async fn checkout(&self, _candidate: &Candidate) -> Result<Scratch> {
        Err(Self::no_candidates())
    }

    async fn publish(&self, _candidate: &Candidate, _request: &PublishRequest) -> Result<Published> {
        Err(Self::no_candidates())
    }

    async fn is_published(&self, _target: &str, _commit: &Commit) -> Result<bool> {
        // Without a repository there is no commit that a target could contain.
        Ok(false)
    }

    async fn rescue(&self, _key: &WorkspaceKey, _attempt: Attempt) -> Result<Option<RescueRef>> {
        Ok(None)
    }

    // Nothing was made for this key. The root itself is the person's.
    async fn remove(&self, _request: &RemoveRequest) -> Result<Removed> {
        Ok(Removed::Gone { rescued: None })
    }

    async fn list(&self) -> Result<Vec<BranchInfo>> {
        Ok(Vec::new())
    }

    async fn prune(&self) -> Result<Pruned> {
        Ok(Pruned::default())
    }

    async fn recover(&self) -> Result<Recovery> {
        Ok(Recovery::default())
    }
}
