//! The trait.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    BranchInfo, Candidate, Captured, Commit, Merge, Opened, Pruned, Published, Recovery, Removed, RescueRef,
    Scratch,
};
use crate::Result;
use crate::model::{Attempt, MergeStrategy, RepoPath, TaskNumber};
use crate::sandbox::NamePattern;
use crate::store::Fence;

/// The folders in which the agents of one project work. Never destroys work.
///
/// A task's work goes through [`open`](Self::open), [`capture`](Self::capture),
/// [`prepare_merge`](Self::prepare_merge), [`checkout`](Self::checkout) (where the caller verifies) and
/// [`publish`](Self::publish). Order, batching and eviction are the caller's policy.
///
/// **Implementers ensure** that
/// - no committed or uncommitted work, of agents or people, becomes unreachable by any call, also by one that is
///   killed half-way: what leaves its branch is in a rescue ref first;
/// - the person's checkout is theirs: no call changes a file, an index entry or a ref of theirs but `publish`, which
///   moves the target and brings a checkout of it along only where that touches no local edit;
/// - `publish` is atomic: the target moves from the candidate's base to its commit or not at all, and a candidate is
///   published at most once;
/// - nothing that an agent wrote (hooks, filters, configuration, a replaced `.git`) is ever run;
/// - every call may be repeated after a crash, and [`recover`](Self::recover) completes or undoes what was left.
///
/// **Callers may not assume** that a workspace survives [`remove`](Self::remove), that a candidate stays
/// publishable, that two calls on one key may overlap, or that calls are quick: they touch the disk.
#[async_trait]
pub trait Workspace: Debug + Send + Sync + 'static {
    /// The root of the project.
    fn root(&self) -> &Path;

    /// Returns the folder for what all orchestrators of one repository share: its lock, leases and fences. Creates it
    /// with the owner and mode of the git directory that it lies in, so that a run as root does not lock out the
    /// user. Agents can neither see nor change it: a rule of every [`Opened`] and [`Scratch`] denies it, and the
    /// caller adds the same rule for sessions that were not opened here. `None` without a repository.
    fn shared_dir(&self) -> Option<PathBuf>;

    /// Gives an agent a folder to work in: the one of an earlier attempt if there is one, else a fresh one.
    ///
    /// # Errors
    /// `workspace_broken` when what is there needs a person; `not_supported` for a repository that cannot have one.
    async fn open(&self, request: &OpenRequest) -> Result<Opened>;

    /// Commits what the agent left uncommitted, and says what the work now is. Ends nothing; may be repeated.
    ///
    /// # Errors
    /// `not_found` when nothing was opened under this key.
    async fn capture(&self, request: &CaptureRequest) -> Result<Captured>;

    /// Takes over what the agent has committed in private copies, and nothing that is not committed. May be repeated,
    /// also while the agent works. Every other call does it first; for most workspaces there is nothing to do.
    ///
    /// # Errors
    /// `workspace_broken` when the agent's repository has what no git would have written; nothing of it is taken then.
    async fn import(&self, key: &WorkspaceKey) -> Result<()> {
        let _ = key;
        Ok(())
    }

    /// What [`capture`](Self::capture) would commit now. May be asked while the agent works, and changes nothing; what is
    /// committed at once is no work for it.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    async fn uncommitted(&self, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
        let _ = key;
        Ok(Vec::new())
    }

    /// Merges the work with the target as it is now, in memory. Nothing anyone can see changes.
    ///
    /// Onto another candidate, it is merged with what the target would be with that: publishing it publishes both, and
    /// publishing the other afterwards is `Done`. Such a candidate's base is the other's.
    ///
    /// # Errors
    /// `not_found` for a key or a target that does not exist.
    async fn prepare_merge(&self, request: &MergeRequest) -> Result<Merge>;

    /// Puts the merged tree in a scratch folder, to be verified. It goes when the [`Scratch`] is dropped.
    ///
    /// # Errors
    /// Those of the disk.
    async fn checkout(&self, candidate: &Candidate) -> Result<Scratch>;

    /// Makes the candidate the target.
    ///
    /// # Errors
    /// `claim_lost` when a higher fence was seen for this key; those of the disk before the target has moved. That the
    /// target has moved, that a checkout of it stands in the way, or cannot be brought along, are outcomes.
    async fn publish(&self, candidate: &Candidate, request: &PublishRequest) -> Result<Published>;

    /// Returns true if `target` contains `commit`. A target that does not exist contains nothing.
    ///
    /// # Errors
    /// Those of the disk: the answer is not known then, and must not be guessed.
    async fn is_published(&self, target: &str, commit: &Commit) -> Result<bool>;

    /// Puts the work under this key, committed or not, under a ref of its own that nothing else moves.
    /// None when there is no work.
    ///
    /// # Errors
    /// Those of the disk.
    async fn rescue(&self, key: &WorkspaceKey, attempt: Attempt) -> Result<Option<RescueRef>>;

    /// Removes folder and branch, if all of the work is reachable without them; else keeps them and says why.
    ///
    /// # Errors
    /// Those of the disk.
    async fn remove(&self, request: &RemoveRequest) -> Result<Removed>;

    /// All branches and folders of agents.
    ///
    /// # Errors
    /// Those of the disk.
    async fn list(&self) -> Result<Vec<BranchInfo>>;

    /// Cleans up what no work depends on: folders without a branch, administration without a folder, scratch folders.
    ///
    /// # Errors
    /// Those of the disk.
    async fn prune(&self) -> Result<Pruned>;

    /// Keeps `count` folders ready for [`open`](Self::open) and [`checkout`](Self::checkout) to take, and removes those
    /// beyond. Takes its time: it is for when nothing else is to be done. Who stops waiting for it stops it. Most
    /// workspaces have nothing to prepare.
    ///
    /// # Errors
    /// Those of the disk. What is ready stays so.
    async fn keep_ready(&self, count: usize) -> Result<()> {
        let _ = count;
        Ok(())
    }

    /// Completes or undoes what a killed process left half-done. Called before anything else at every start.
    ///
    /// # Errors
    /// `workspace_broken` when it cannot, with what a person should do.
    async fn recover(&self) -> Result<Recovery>;
}

/// Which work: a task, and which of several parallel attempts.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct WorkspaceKey {
    /// The task.
    pub task: TaskNumber,
    /// Which of several parallel attempts; none: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
}

impl WorkspaceKey {
    /// The only work on `task`.
    #[must_use]
    pub fn new(task: TaskNumber) -> Self {
        Self { task, parallel: None }
    }
}

impl From<TaskNumber> for WorkspaceKey {
    fn from(task: TaskNumber) -> Self {
        Self::new(task)
    }
}

impl fmt::Display for WorkspaceKey {
    /// `0001`, or `0001.2` for a parallel attempt: the last part of folder and branch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.task)?;
        self.parallel.map_or(Ok(()), |parallel| write!(f, ".{parallel}"))
    }
}

/// A request for a folder to work in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenRequest {
    /// Which work.
    pub key: WorkspaceKey,
    /// Which try.
    pub attempt: Attempt,
    /// The branch to start from and to merge into; none: the one that is checked out in the root.
    pub target: Option<String>,
    /// Start again from the target; what was there goes to a rescue ref.
    pub fresh: bool,
    /// The sandbox can show private copies at the real paths: the agent's repository is then such copies, given as
    /// [`Opened::binds`], and nothing that it writes there is in the person's before `capture` has checked it.
    pub isolated: bool,
    /// Names that the sandbox hides from the agent: a tracked file of such a name is what it was, whatever the agent
    /// commits.
    pub hidden: Vec<NamePattern>,
}

impl OpenRequest {
    /// The folder for `key`, as an earlier attempt left it or fresh from what is checked out.
    #[must_use]
    pub fn new(key: impl Into<WorkspaceKey>, attempt: Attempt) -> Self {
        Self { key: key.into(), attempt, target: None, fresh: false, isolated: false, hidden: Vec::new() }
    }

    /// Names the target; an empty name means the branch that is checked out.
    #[must_use]
    pub fn with_target(mut self, target: &str) -> Self {
        self.target = Some(target.to_owned()).filter(|target| !target.is_empty());
        self
    }

    /// Starts again from the target.
    #[must_use]
    pub fn with_fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// Gives the agent private copies, which the caller's sandbox shows at the real paths.
    #[must_use]
    pub fn with_isolated(mut self, isolated: bool) -> Self {
        self.isolated = isolated;
        self
    }

    /// Says which names the sandbox hides.
    #[must_use]
    pub fn with_hidden(mut self, hidden: Vec<NamePattern>) -> Self {
        self.hidden = hidden;
        self
    }
}

/// A request to commit what an agent left.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaptureRequest {
    /// Which work.
    pub key: WorkspaceKey,
    /// The commit message, without trailers.
    pub message: String,
    /// Trailers: `Watchfire-Task: 0001`, …
    pub trailers: Vec<(String, String)>,
}

impl CaptureRequest {
    /// Commits under `message`.
    pub fn new(key: impl Into<WorkspaceKey>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), trailers: Vec::new() }
    }

    /// Adds a trailer.
    #[must_use]
    pub fn with_trailer(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.trailers.push((name.into(), value.into()));
        self
    }
}

/// A request to merge.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MergeRequest {
    /// Which work.
    pub key: WorkspaceKey,
    /// The branch to merge into.
    pub target: String,
    /// The shape of the result.
    pub strategy: MergeStrategy,
    /// The message of the merge commit.
    pub message: String,
    /// Merge onto this candidate, which is not published yet, instead of onto the target.
    pub onto: Option<Candidate>,
    /// Merge work with conflict marks of a merge that its agent left unfinished.
    pub accept_marks: bool,
}

impl MergeRequest {
    /// A merge commit of `key` into `target`.
    pub fn new(key: impl Into<WorkspaceKey>, target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            target: target.into(),
            strategy: MergeStrategy::Merge,
            message: message.into(),
            onto: None,
            accept_marks: false,
        }
    }

    /// Merges also work with conflict marks.
    #[must_use]
    pub fn with_accept_marks(mut self, accept_marks: bool) -> Self {
        self.accept_marks = accept_marks;
        self
    }

    /// Merges onto a candidate for the same target.
    #[must_use]
    pub fn with_onto(mut self, candidate: Candidate) -> Self {
        self.onto = Some(candidate);
        self
    }

    /// Chooses the shape.
    #[must_use]
    pub fn with_strategy(mut self, strategy: MergeStrategy) -> Self {
        self.strategy = strategy;
        self
    }
}

/// A request to publish.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PublishRequest {
    /// Fencing token of the task's claim. The highest one is recorded for each key, and a lower one is refused with
    /// `claim_lost`.
    pub fence: Fence,
}

impl PublishRequest {
    /// Publishes under this fencing token.
    #[must_use]
    pub fn new(fence: Fence) -> Self {
        Self { fence }
    }
}

/// A request to remove folder and branch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoveRequest {
    /// Which work.
    pub key: WorkspaceKey,
    /// Put work that is not merged under a rescue ref and remove anyway; without it such work keeps its branch.
    pub discard: bool,
}

impl RemoveRequest {
    /// Removes what is merged.
    #[must_use]
    pub fn new(key: impl Into<WorkspaceKey>) -> Self {
        Self { key: key.into(), discard: false }
    }

    /// Removes also what is not merged, after putting it under a rescue ref.
    #[must_use]
    pub fn with_discard(mut self, discard: bool) -> Self {
        self.discard = discard;
        self
    }
}
