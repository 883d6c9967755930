//! The `Workspace` seam on several git repositories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use watchfire_core::model::{Attempt, RepoPath, SessionId};
use watchfire_core::workspace::{
    BranchInfo, Candidate, CaptureRequest, Captured, Commit, Exchanged, InTargets, Merge, MergeGuard,
    MergeRequest, OpenRequest, Opened, Pruned, PublishRequest, Published, Recovery, RemoveRequest, Removed,
    RescueRef, RevertRequest, Reverted, Scratch, Workspace, WorkspaceKey,
};
use watchfire_core::{Error, ErrorKind, Result};

use crate::diff::{Diff, DiffRequest};
use crate::joint::repositories::Joint;
use crate::joint::revert::{self, Ways};
use crate::joint::{list, merge, publish, recover, work};
use crate::options::GitOptions;
use crate::workspace::GitWorkspace;

/// Several git repositories, in each of which every task has a worktree and a branch of its own.
///
/// The project's own repository holds the claims and the records. Its worktree is where agents begin, and the worktrees of
/// the others lie to it as the repositories lie to each other. What a task did in them is merged, verified and published
/// together. Sessions in the root, folders kept ready and settings are those of the project's own repository.
///
/// Cheap to clone. It needs a tokio runtime: all work is done in `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct JointWorkspace {
    own: GitWorkspace,
    joint: Arc<Joint>,
}

impl JointWorkspace {
    /// Opens the repository whose checkout is `root`, and the `others`, whose paths are relative to it. Changes nothing.
    ///
    /// # Errors
    /// As [`GitWorkspace::open`], with the entry for one of the others; `invalid_input` if two are the same, if one lies in
    /// another, or if one holds the home folder.
    pub fn open(root: impl AsRef<Path>, options: GitOptions, others: &[PathBuf]) -> Result<Self> {
        let own = GitWorkspace::open(&root, options.clone())?;
        Ok(Self { own, joint: Arc::new(Joint::find(root.as_ref(), options, others)?) })
    }

    /// Returns the changes of the work under a key, with the path of each repository relative to the root. The project's own
    /// comes first, with an empty path.
    ///
    /// # Errors
    /// As [`GitWorkspace::diff`].
    pub async fn diffs(&self, request: &DiffRequest) -> Result<Vec<(PathBuf, Diff)>> {
        let request = request.clone();
        self.blocking(move |joint| list::diffs(joint, &request)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Joint) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let joint = Arc::clone(&self.joint);
        let done = tokio::task::spawn_blocking(move || work(&joint)).await;
        // The work panicked, or the runtime is shutting down.
        done.map_err(|e| Error::new(ErrorKind::Internal, "git work was cut off").with_source(e))?
    }
}

#[async_trait]
impl Workspace for JointWorkspace {
    fn root(&self) -> &Path {
        self.own.root()
    }

    fn shared_dir(&self) -> Option<PathBuf> {
        self.own.shared_dir()
    }

    async fn check_target(&self, target: &str) -> Result<()> {
        let target = target.to_owned();
        self.blocking(move |joint| work::check_target(joint, &target)).await
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opened> {
        let request = request.clone();
        self.blocking(move |joint| work::open(joint, &request)).await
    }

    async fn enter(&self, session: &SessionId, isolated: bool, guard: &MergeGuard) -> Result<Opened> {
        self.own.enter(session, isolated, guard).await
    }

    async fn exchange(&self, session: &SessionId) -> Result<Exchanged> {
        self.own.exchange(session).await
    }

    async fn leave(&self, session: &SessionId) -> Result<Exchanged> {
        self.own.leave(session).await
    }

    async fn capture(&self, request: &CaptureRequest) -> Result<Captured> {
        let request = request.clone();
        self.blocking(move |joint| work::capture(joint, &request)).await
    }

    async fn import(&self, key: &WorkspaceKey) -> Result<()> {
        let key = key.clone();
        self.blocking(move |joint| work::import(joint, &key)).await
    }

    async fn uncommitted(&self, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
        let key = key.clone();
        self.blocking(move |joint| work::uncommitted(joint, &key)).await
    }

    async fn ignored(&self, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        self.own.ignored(paths).await
    }

    async fn prepare_merge(&self, request: &MergeRequest) -> Result<Merge> {
        let request = request.clone();
        self.blocking(move |joint| merge::prepare(joint, &request)).await
    }

    async fn checkout(&self, candidate: &Candidate) -> Result<Scratch> {
        let candidate = candidate.clone();
        self.blocking(move |joint| merge::checkout(joint, &candidate)).await
    }

    async fn publish(&self, candidate: &Candidate, request: &PublishRequest) -> Result<Published> {
        let (candidate, request) = (candidate.clone(), request.clone());
        self.blocking(move |joint| publish::publish(joint, &candidate, &request)).await
    }

    async fn is_published(&self, target: &str, commit: &Commit) -> Result<bool> {
        self.own.is_published(target, commit).await
    }

    async fn found_in_targets(&self, candidate: &Candidate) -> Result<InTargets> {
        let candidate = candidate.clone();
        self.blocking(move |joint| publish::found_in_targets(joint, &candidate)).await
    }

    async fn withdraw(&self, key: &WorkspaceKey) -> Result<Option<Candidate>> {
        let key = key.clone();
        self.blocking(move |joint| work::withdraw(joint, &key)).await
    }

    async fn withdraw_others(&self, keys: &[WorkspaceKey]) -> Result<()> {
        // In the other repositories nothing of the project's ever waits.
        self.own.withdraw_others(keys).await
    }

    async fn rescue(&self, key: &WorkspaceKey, attempt: Attempt) -> Result<Option<RescueRef>> {
        let key = key.clone();
        self.blocking(move |joint| work::rescue(joint, &key, attempt)).await
    }

    async fn remove(&self, request: &RemoveRequest) -> Result<Removed> {
        let request = request.clone();
        self.blocking(move |joint| work::remove(joint, &request)).await
    }

    async fn revert(&self, request: &RevertRequest) -> Result<Reverted> {
        let request = request.clone();
        self.blocking(move |joint| revert::revert(joint, &request)).await
    }

    async fn can_revert(&self, of: &WorkspaceKey, commit: &Commit, target: &str) -> Result<bool> {
        let request = RevertRequest::new(of.clone(), of.clone(), commit.clone(), target, "");
        self.blocking(move |joint| Ok(!matches!(revert::look(joint, &request)?, Ways::Nothing))).await
    }

    async fn list(&self) -> Result<Vec<BranchInfo>> {
        self.blocking(list::list).await
    }

    async fn prune(&self) -> Result<Pruned> {
        self.blocking(list::prune).await
    }

    async fn keep_ready(&self, count: usize) -> Result<()> {
        self.own.keep_ready(count).await
    }

    async fn recover(&self) -> Result<Recovery> {
        let mut recovery = self.blocking(recover::recover).await?;
        // What sessions in the root left is the own repository's.
        recovery.attention.extend(self.own.after_recovery().await?);
        Ok(recovery)
    }
}
