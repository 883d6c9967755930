//! The `Workspace` seam on a git repository. The other modules do the work, on threads that may block.

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

use crate::branches::backup;
use crate::branches::list;
use crate::branches::prune;
use crate::branches::recover;
use crate::diff::{self, Diff, DiffRequest};
use crate::guest::exchange as guest;
use crate::index::hidden::Hidden;
use crate::merge::revert::{self, Found};
use crate::merge::taken;
use crate::merge::withdraw;
use crate::options::GitOptions;
use crate::plain::{snapshot, store};
use crate::private::import;
use crate::publish::convert;
use crate::publish::publication;
use crate::repository::last_merge::LastMerge;
use crate::repository::layout::Layout;
use crate::repository::project::{Kind, Project};
use crate::worktree::capture;
use crate::worktree::checkout;
use crate::worktree::ignore::Ignore;
use crate::worktree::open;
use crate::worktree::ready;
use crate::worktree::remove;
use crate::worktree::rescue;

/// A git repository in which every task has a worktree and a branch of its own.
///
/// Cheap to clone. It needs a tokio runtime: all work is done in `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct GitWorkspace {
    project: Arc<Project>,
}

impl GitWorkspace {
    /// Opens the repository whose checkout is `root`. Changes nothing.
    ///
    /// # Errors
    /// `not_found` if `root` is no repository; `not_supported` if it is bare, a folder inside a repository,
    /// or in a format that libgit2 cannot read (sha256, reftable, partial clones).
    pub fn open(root: impl AsRef<Path>, options: GitOptions) -> Result<Self> {
        Ok(Self { project: Arc::new(Project::find(root.as_ref(), options)?) })
    }

    /// Opens the project at `root`: its repository, or, for a folder that [`init_plain`](crate::init::init_plain) made ready, the
    /// snapshots in `store`, where no agent may reach. A plain folder that has got a repository is a project of git from then on;
    /// work from before is held. A folder whose repository is gone is never taken for a plain one.
    ///
    /// # Errors
    /// As [`open`](Self::open); `workspace_broken` if the folder was a repository and `.git` is gone; `conflict` if its
    /// snapshots are in another store.
    pub fn open_with_snapshots(
        root: impl AsRef<Path>,
        store: impl AsRef<Path>,
        options: GitOptions,
    ) -> Result<Self> {
        Ok(Self { project: Arc::new(store::find(root.as_ref(), store.as_ref(), options)?) })
    }

    /// Returns true if the project is a folder without git, of which snapshots are taken.
    #[must_use]
    pub fn has_snapshots(&self) -> bool {
        self.project.kind == Kind::Plain
    }

    /// Returns all rescued work.
    ///
    /// # Errors
    /// Errors of the disk.
    pub async fn rescued(&self) -> Result<Vec<RescueRef>> {
        self.blocking(|project| rescue::list(&project.open()?)).await
    }

    /// Gives rescued work a branch of its own again. The rescue reference stays.
    ///
    /// # Errors
    /// `not_found` for a name that no rescued work has; `already_exists` if the branch exists;
    /// `invalid_input` for a name that no branch of a person can have.
    pub async fn restore(&self, rescue: &str, branch: &str) -> Result<RescueRef> {
        let (rescue, branch) = (rescue.to_owned(), branch.to_owned());
        self.blocking(move |project| rescue::restore(&project.open()?, &rescue, &branch)).await
    }

    /// Saves the project's settings and tasks under `refs/watchfire/backup`, because `git clean -fdx` deletes
    /// `.watchfire/`. Leaves out secrets and the folders of agents. Returns the commit, or `None` if nothing
    /// has changed.
    ///
    /// # Errors
    /// Errors of the disk.
    pub async fn back_up(&self) -> Result<Option<Commit>> {
        self.blocking(backup::save).await
    }

    /// Returns the time of the last backup, in seconds since 1970.
    ///
    /// # Errors
    /// Errors of the disk.
    pub async fn backed_up_at(&self) -> Result<Option<i64>> {
        self.blocking(backup::saved_at).await
    }

    /// Writes the files of the last backup that are missing, and returns their paths in `.watchfire/`.
    /// Existing files are left alone.
    ///
    /// # Errors
    /// Errors of the disk.
    pub async fn restore_backup(&self) -> Result<Vec<RepoPath>> {
        self.blocking(backup::restore).await
    }

    /// Returns one line for each option that changes nothing here: a filter that git's configuration does not define.
    ///
    /// # Errors
    /// Errors of the disk.
    pub async fn unread_options(&self) -> Result<Vec<String>> {
        self.blocking(convert::undefined).await
    }

    /// Returns the changes of the work under a key.
    ///
    /// # Errors
    /// `not_found` if no work was opened under this key.
    pub async fn diff(&self, request: &DiffRequest) -> Result<Diff> {
        let request = request.clone();
        self.blocking(move |project| diff::diff(project.holding(&request.key)?, &request)).await
    }

    /// Carries over what sessions in the root left, and returns remarks for a person.
    pub(crate) async fn after_recovery(&self) -> Result<Vec<String>> {
        self.blocking(|project| {
            let mut attention = guest::make_up(project)?;
            attention.extend(convert::undefined(project)?);
            Ok(attention)
        })
        .await
    }

    /// Works on what is under a key. Refuses if a part of it lies in a repository that the project no longer names.
    async fn alone<T: Send + 'static>(
        &self,
        key: &WorkspaceKey,
        work: impl FnOnce(&Project) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let key = key.clone();
        self.blocking(move |project| {
            if Layout::read(&project.state(), &key)?.is_some() {
                return Err(several(&key));
            }
            work(project.holding(&key)?)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Project) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let project = Arc::clone(&self.project);
        let done = tokio::task::spawn_blocking(move || work(&project)).await;
        // The work panicked, or the runtime is shutting down.
        done.map_err(|e| Error::new(ErrorKind::Internal, "git work was cut off").with_source(e))?
    }
}

fn several(key: &WorkspaceKey) -> Error {
    let message = "the work is in several repositories, and the project does not name them any more: put them back into \
                   `repositories`";
    Error::new(ErrorKind::NotSupported, message)
        .with("key", key)
        .with("file", "project.yaml")
        .with("field", "repositories")
}

/// Returns an error if the merge went to other repositories too: taken back in one alone, the others would not fit it.
fn refuse_several(project: &Project, request: &RevertRequest) -> Result<()> {
    match LastMerge::of(project, &request.of, &request.commit)? {
        Some(last) if last.has_others() => Err(several(&request.of)),
        _ => Ok(()),
    }
}

#[async_trait]
impl Workspace for GitWorkspace {
    fn root(&self) -> &Path {
        &self.project.root
    }

    fn shared_dir(&self) -> Option<PathBuf> {
        Some(self.project.shared())
    }

    async fn check_target(&self, target: &str) -> Result<()> {
        let target = Some(target.to_owned()).filter(|target| !target.is_empty());
        self.blocking(move |project| open::check_target(project, target.as_deref())).await
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opened> {
        let request = request.clone();
        self.alone(&request.key.clone(), move |project| open::open(project, &request)).await
    }

    async fn enter(&self, session: &SessionId, isolated: bool, guard: &MergeGuard) -> Result<Opened> {
        let (session, guard) = (session.clone(), guard.clone());
        self.blocking(move |project| guest::enter(project, &session, isolated, &guard)).await
    }

    async fn exchange(&self, session: &SessionId) -> Result<Exchanged> {
        let session = session.clone();
        self.blocking(move |project| guest::exchange(project, &session)).await
    }

    async fn leave(&self, session: &SessionId) -> Result<Exchanged> {
        let session = session.clone();
        self.blocking(move |project| guest::leave(project, &session)).await
    }

    async fn capture(&self, request: &CaptureRequest) -> Result<Captured> {
        let request = request.clone();
        self.alone(&request.key.clone(), move |project| capture::capture(project, &request)).await
    }

    async fn import(&self, key: &WorkspaceKey) -> Result<()> {
        let key = key.clone();
        let import = move |project: &Project| {
            let project = project.holding(&key)?;
            import::import(project, &project.open()?, &key)
        };
        self.blocking(import).await
    }

    async fn uncommitted(&self, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
        let key = key.clone();
        self.blocking(move |project| capture::uncommitted(project.holding(&key)?, &key)).await
    }

    async fn ignored(&self, mut paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        self.blocking(move |project| {
            let ignore = Ignore::new(project)?;
            // No snapshot has them, so they are as little in a task's folder as ignored files.
            let hidden = match project.kind {
                Kind::Plain => snapshot::secrets(&project.root),
                Kind::Git | Kind::Past => Hidden::new(&[], &project.root),
            };
            let is_out = |path: &PathBuf| {
                ignore.covers(&project.root, path) || hidden.has(path.as_os_str().as_encoded_bytes())
            };
            paths.retain(is_out);
            Ok(paths)
        })
        .await
    }

    async fn prepare_merge(&self, request: &MergeRequest) -> Result<Merge> {
        let request = request.clone();
        self.alone(&request.key.clone(), move |project| taken::prepare(project, &request)).await
    }

    async fn checkout(&self, candidate: &Candidate) -> Result<Scratch> {
        let candidate = candidate.clone();
        self.alone(&candidate.key.clone(), move |project| checkout::checkout(project, &candidate)).await
    }

    async fn publish(&self, candidate: &Candidate, request: &PublishRequest) -> Result<Published> {
        let (candidate, request) = (candidate.clone(), request.clone());
        let publish = move |project: &Project| match candidate.others.is_empty() {
            true => publication::publish(project.holding(&candidate.key)?, &candidate, &request),
            // Its parts belong together.
            false => Err(several(&candidate.key)),
        };
        self.blocking(publish).await
    }

    async fn is_published(&self, target: &str, commit: &Commit) -> Result<bool> {
        let (target, commit) = (target.to_owned(), commit.clone());
        self.blocking(move |project| publication::is_published(project, &target, &commit)).await
    }

    async fn found_in_targets(&self, candidate: &Candidate) -> Result<InTargets> {
        if !candidate.others.is_empty() {
            return Err(several(&candidate.key));
        }
        let contained = self.is_published(&candidate.target, &candidate.commit).await?;
        Ok(if contained { InTargets::All } else { InTargets::None })
    }

    async fn withdraw(&self, key: &WorkspaceKey) -> Result<Option<Candidate>> {
        let key = key.clone();
        self.blocking(move |project| withdraw::withdraw(project.holding(&key)?, &key)).await
    }

    async fn withdraw_others(&self, keys: &[WorkspaceKey]) -> Result<()> {
        let keys = keys.to_vec();
        self.blocking(move |project| withdraw::withdraw_others(project, &keys)).await
    }

    async fn rescue(&self, key: &WorkspaceKey, attempt: Attempt) -> Result<Option<RescueRef>> {
        let key = key.clone();
        self.blocking(move |project| rescue::rescue(project.holding(&key)?, &key, attempt)).await
    }

    async fn remove(&self, request: &RemoveRequest) -> Result<Removed> {
        let request = request.clone();
        self.alone(&request.key.clone(), move |project| remove::remove(project, &request)).await
    }

    async fn revert(&self, request: &RevertRequest) -> Result<Reverted> {
        let request = request.clone();
        self.blocking(move |project| {
            refuse_several(project, &request)?;
            revert::revert(project, &request)
        })
        .await
    }

    async fn can_revert(&self, of: &WorkspaceKey, commit: &Commit, target: &str) -> Result<bool> {
        let request = RevertRequest::new(of.clone(), of.clone(), commit.clone(), target, "");
        self.blocking(move |project| {
            refuse_several(project, &request)?;
            Ok(!matches!(revert::look(project, &request)?, Found::Nothing))
        })
        .await
    }

    async fn list(&self) -> Result<Vec<BranchInfo>> {
        self.blocking(list::list).await
    }

    async fn prune(&self) -> Result<Pruned> {
        self.blocking(prune::prune).await
    }

    async fn keep_ready(&self, count: usize) -> Result<()> {
        // Dropped with this future: the work stops once the caller no longer waits for it.
        let waiting = Arc::new(());
        let here = Arc::downgrade(&waiting);
        self.blocking(move |project| ready::keep(project, count, &|| here.strong_count() > 0)).await
    }

    async fn recover(&self) -> Result<Recovery> {
        let mut recovery = self.blocking(recover::recover).await?;
        recovery.attention.extend(self.after_recovery().await?);
        Ok(recovery)
    }
}
