//! The trait [`Workspace`] and its requests.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    BranchInfo, Candidate, Captured, Commit, Exchanged, InTargets, Merge, Opened, Pruned, Published,
    Recovery, Removed, RescueRef, Reverted, Scratch,
};
use crate::model::{Attempt, MergeStrategy, RepoPath, SessionId, TaskNumber};
use crate::sandbox::NamePattern;
use crate::store::Fence;
use crate::{Error, ErrorKind, Result};

/// The folders in which the agents of one project work. Never destroys work.
///
/// A task's work goes through [`open`](Self::open), [`capture`](Self::capture),
/// [`prepare_merge`](Self::prepare_merge), [`checkout`](Self::checkout) (where the caller verifies) and
/// [`publish`](Self::publish). Order, batching and eviction are the caller's policy.
///
/// **Implementers ensure** that
/// - no committed or uncommitted work, of agents or people, becomes unreachable by any call, even one that is killed
///   half-way: commits that leave their branch are in a rescue ref first;
/// - the person's checkout is theirs: no call but `publish`, `exchange` and `leave` changes a file, an index entry or a
///   ref there; `publish` moves the target and updates a checkout of the target only where that touches no local edit;
///   the other two do what a session in the root did, and only where the person did nothing else;
/// - `publish` is atomic: the target moves from the candidate's base to its commit or not at all, and a candidate is
///   published at most once. With parts in several repositories, all targets move, or none, except where a process is
///   killed, or a target moves in the same moment: then the rest is completed at the next start, or the candidate is
///   held as [half published](super::ObstacleKind::HalfPublished);
/// - nothing that an agent wrote (hooks, filters, configuration, a replaced `.git`) is ever run;
/// - every call may be repeated after a crash, and [`recover`](Self::recover) completes or undoes what was left.
///
/// **Callers may not assume** that a workspace survives [`remove`](Self::remove), that a candidate stays
/// publishable, that two calls on one key may overlap, or that calls are quick: they touch the disk.
#[async_trait]
pub trait Workspace: Debug + Send + Sync + 'static {
    /// Returns the root of the project.
    fn root(&self) -> &Path;

    /// Returns the folder that all orchestrators of one repository share, for its lock, leases and fences. Creates it
    /// with the owner and mode of the git directory around it, so that a run as root does not lock out the user.
    /// Agents can neither see nor change it: a rule of every [`Opened`] and [`Scratch`] denies it, and the caller
    /// adds the same rule for sessions that were not opened here. `None` without a repository.
    fn shared_dir(&self) -> Option<PathBuf>;

    /// Checks that work can begin on this target. Changes nothing. Asked once for a whole run, so that a mistyped branch
    /// is one error, and not one for each task. An empty name is the default target.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open) that do not depend on the task.
    async fn check_target(&self, target: &str) -> Result<()> {
        let _ = target;
        Ok(())
    }

    /// Opens a folder for an agent to work in: the one of an earlier attempt, else a fresh one.
    ///
    /// # Errors
    /// `workspace_broken` when the existing folder needs a person; `not_supported` for a repository that cannot have
    /// one.
    async fn open(&self, request: &OpenRequest) -> Result<Opened>;

    /// Prepares the root itself for a session that works there beside its person, as a chat does. If it is `isolated`
    /// (see [`Isolation::Bound`]), the session gets private copies of the repository, and
    /// [`exchange`](Self::exchange) carries over what either side does, but for commits that change what `guard` holds. May be
    /// repeated.
    ///
    /// # Errors
    /// `invalid_input` for a protected path that leads out of the repository; errors of the disk.
    async fn enter(&self, session: &SessionId, isolated: bool, guard: &MergeGuard) -> Result<Opened> {
        let (_, _, _) = (session, isolated, guard);
        Ok(Opened::at(self.root()))
    }

    /// Carries the commits, branches and stashes of a session in the root over to the person's repository, checked, and
    /// what the person did there to the session. Where both moved the same, the person's stays, and the session's is
    /// kept under a ref of its own. Waits for no git: what cannot be carried over now is left to the next call.
    ///
    /// # Errors
    /// As [`import`](Self::import). Nothing is carried over then.
    async fn exchange(&self, session: &SessionId) -> Result<Exchanged> {
        let _ = session;
        Ok(Exchanged::default())
    }

    /// Carries over the last work of a session in the root, and removes its copies. Called when nothing of the session
    /// runs any more, also after a crash. May be repeated.
    ///
    /// # Errors
    /// Errors of the disk. The session's work is still there then.
    async fn leave(&self, session: &SessionId) -> Result<Exchanged> {
        let _ = session;
        Ok(Exchanged::default())
    }

    /// Commits the agent's uncommitted changes and returns the state of the work. Keeps the folder. May be repeated.
    ///
    /// # Errors
    /// `not_found` when nothing was opened under this key.
    async fn capture(&self, request: &CaptureRequest) -> Result<Captured>;

    /// Imports the commits that the agent made in private copies, and nothing uncommitted. May be repeated, also while
    /// the agent works. Every other call does it first. Most workspaces have nothing to import.
    ///
    /// # Errors
    /// `workspace_broken` when the agent's repository holds something that no git would have written. Nothing is
    /// imported then.
    async fn import(&self, key: &WorkspaceKey) -> Result<()> {
        let _ = key;
        Ok(())
    }

    /// Returns the paths that [`capture`](Self::capture) would commit now. Changes nothing, so it may be called while
    /// the agent works.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    async fn uncommitted(&self, key: &WorkspaceKey) -> Result<Vec<RepoPath>> {
        let _ = key;
        Ok(Vec::new())
    }

    /// Merges the work with the current target, in memory. Moves no ref and changes no file. Where the person's edits become
    /// commits by themselves, as in a folder without git, those come first; and edits in the way of
    /// [`publish`](Self::publish) are a target that has moved.
    ///
    /// Onto another candidate, the work is merged with the target as it would be after that one. Publishing the
    /// result publishes both; publishing the other afterwards is `Done`. The base of such a candidate is that of the
    /// other.
    ///
    /// # Errors
    /// `not_found` for a key or a target that does not exist.
    async fn prepare_merge(&self, request: &MergeRequest) -> Result<Merge>;

    /// Writes the merged tree to a scratch folder for verification. Dropping the [`Scratch`] removes the folder.
    ///
    /// # Errors
    /// Errors of the disk.
    async fn checkout(&self, candidate: &Candidate) -> Result<Scratch>;

    /// Moves the target to the candidate.
    ///
    /// # Errors
    /// `claim_lost` when a higher fence was seen for this key; errors of the disk before the target has moved. A
    /// target that has moved, and a checkout that is in the way or cannot be updated, are outcomes, not errors.
    async fn publish(&self, candidate: &Candidate, request: &PublishRequest) -> Result<Published>;

    /// Returns true if `target` contains `commit`. A target that does not exist contains nothing.
    ///
    /// # Errors
    /// Errors of the disk. The answer is then not known, and must not be guessed.
    async fn is_published(&self, target: &str, commit: &Commit) -> Result<bool>;

    /// Returns whether the targets of a candidate contain it. A candidate that has its parts in several repositories can
    /// be in some of them only.
    ///
    /// # Errors
    /// As [`is_published`](Self::is_published).
    async fn found_in_targets(&self, candidate: &Candidate) -> Result<InTargets> {
        let contained = self.is_published(&candidate.target, &candidate.commit).await?;
        Ok(if contained { InTargets::All } else { InTargets::None })
    }

    /// Takes the work under a key out of what waits for a held target: no later candidate is built on it, and one that is
    /// built on it already is not published. What waits behind it is merged again. The work itself is kept, and can be
    /// merged by a new request. Returns its candidate if the target has it already, published with other work. May be
    /// repeated. Workspaces in which nothing waits have nothing to do.
    ///
    /// # Errors
    /// Errors of the disk. The work may then still wait.
    async fn withdraw(&self, key: &WorkspaceKey) -> Result<Option<Candidate>> {
        let _ = key;
        Ok(None)
    }

    /// Takes all work but that under `keys` out of the queues of held targets. Called at a start, before anything is merged:
    /// an earlier program may have left work there that nobody wants any more.
    ///
    /// # Errors
    /// As [`withdraw`](Self::withdraw).
    async fn withdraw_others(&self, keys: &[WorkspaceKey]) -> Result<()> {
        let _ = keys;
        Ok(())
    }

    /// Puts the work under this key, committed or not, under a ref of its own that nothing else moves. Returns `None`
    /// if there is no work.
    ///
    /// # Errors
    /// Errors of the disk.
    async fn rescue(&self, key: &WorkspaceKey, attempt: Attempt) -> Result<Option<RescueRef>>;

    /// Removes folder and branch if all of the work is reachable without them. Otherwise keeps them and returns the
    /// reason.
    ///
    /// # Errors
    /// Errors of the disk.
    async fn remove(&self, request: &RemoveRequest) -> Result<Removed>;

    /// Puts on the branch of a new key a commit that takes back what was merged, and keeps what came after it. Moves no
    /// other ref and changes no file: the work is merged like any other.
    ///
    /// # Errors
    /// `not_found` if the target does not contain the merge; `already_exists` if there is work under the new key;
    /// `not_supported` where what was merged is not known, or without a repository.
    async fn revert(&self, request: &RevertRequest) -> Result<Reverted> {
        Err(Error::new(ErrorKind::NotSupported, "this workspace takes no merge back")
            .with("key", &request.key))
    }

    /// Returns true if [`revert`](Self::revert) of the `commit` by which the work `of` was merged into `target` would find
    /// something to take back, or something in its way. Changes nothing.
    ///
    /// # Errors
    /// The errors of [`revert`](Self::revert), except those about the new key.
    async fn can_revert(&self, of: &WorkspaceKey, commit: &Commit, target: &str) -> Result<bool> {
        let (_, _, _) = (of, commit, target);
        Ok(true)
    }

    /// Returns all branches and folders of agents.
    ///
    /// # Errors
    /// Errors of the disk.
    async fn list(&self) -> Result<Vec<BranchInfo>>;

    /// Removes leftovers that no work depends on: folders without a branch, administration without a folder, scratch
    /// folders.
    ///
    /// # Errors
    /// Errors of the disk.
    async fn prune(&self) -> Result<Pruned>;

    /// Returns the ignored ones among `paths`, which lie below the root. No capture takes them. Without a repository
    /// none is ignored.
    ///
    /// # Errors
    /// Errors of the disk.
    async fn ignored(&self, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        drop(paths);
        Ok(Vec::new())
    }

    /// Prepares `count` folders for [`open`](Self::open) and [`checkout`](Self::checkout), and removes those beyond.
    /// May take long, so it is meant for idle times. Dropping the future stops it. Most workspaces have nothing to
    /// prepare.
    ///
    /// # Errors
    /// Errors of the disk. Folders that are ready stay so.
    async fn keep_ready(&self, count: usize) -> Result<()> {
        let _ = count;
        Ok(())
    }

    /// Completes or undoes the operations that a killed process left half-done. Called first at every start.
    ///
    /// # Errors
    /// `workspace_broken` when it cannot, with a hint for a person.
    async fn recover(&self) -> Result<Recovery>;
}

/// Key of the work in one folder.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(try_from = "Written", into = "Written")]
pub enum WorkspaceKey {
    /// The work on a task.
    #[non_exhaustive]
    Task {
        /// The task.
        task: TaskNumber,
        /// Number among parallel attempts. `None` for the only one.
        parallel: Option<u32>,
    },
    /// The work of chats that have a folder of their own.
    Chat,
    /// The part of some work that lies in another repository than the rest.
    #[non_exhaustive]
    Part {
        /// Name of the project that works there too: small letters, digits and hyphens.
        of: Box<str>,
        /// The key of the work in that project.
        key: Box<Self>,
    },
}

impl WorkspaceKey {
    /// Returns the key of the only work on `task`.
    #[must_use]
    pub fn new(task: TaskNumber) -> Self {
        Self::Task { task, parallel: None }
    }

    /// Returns the key of one of several works on `task` at a time, or of the only one.
    #[must_use]
    pub fn one_of(task: TaskNumber, parallel: Option<u32>) -> Self {
        Self::Task { task, parallel }
    }

    /// Returns the key of the part that lies in another repository, for the project named `of`.
    #[must_use]
    pub fn part(&self, of: &str) -> Self {
        Self::Part { of: of.into(), key: Box::new(self.clone()) }
    }

    /// Returns the task, if the work is on one of the project's own.
    #[must_use]
    pub fn task(&self) -> Option<TaskNumber> {
        match self {
            Self::Task { task, .. } => Some(*task),
            // The number is that of another project's task.
            Self::Chat | Self::Part { .. } => None,
        }
    }
}

/// A key as journals and notes have it.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parallel: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    chat: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<Box<str>>,
}

impl From<WorkspaceKey> for Written {
    fn from(key: WorkspaceKey) -> Self {
        match key {
            WorkspaceKey::Task { task, parallel } => {
                Self { task: Some(task), parallel, chat: false, of: None }
            }
            WorkspaceKey::Chat => Self { task: None, parallel: None, chat: true, of: None },
            WorkspaceKey::Part { of, key } => Self { of: Some(of), ..Self::from(*key) },
        }
    }
}

impl TryFrom<Written> for WorkspaceKey {
    type Error = &'static str;

    fn try_from(written: Written) -> std::result::Result<Self, Self::Error> {
        let key = match (written.task, written.chat) {
            (Some(task), false) => Self::Task { task, parallel: written.parallel },
            (None, true) => Self::Chat,
            _ => return Err("a key names either a task or the chats"),
        };
        Ok(match written.of {
            Some(of) => Self::Part { of, key: Box::new(key) },
            None => key,
        })
    }
}

impl From<TaskNumber> for WorkspaceKey {
    fn from(task: TaskNumber) -> Self {
        Self::new(task)
    }
}

impl fmt::Display for WorkspaceKey {
    /// Writes `0001`, `0001.2` for a parallel attempt, `chat`, or `0001@shop` for a part: the last part of folder and
    /// branch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task { task, parallel: None } => write!(f, "{task}"),
            // A dot, which no task number contains, so that the two parts can be told apart again.
            Self::Task { task, parallel: Some(parallel) } => write!(f, "{task}.{parallel}"),
            Self::Chat => f.write_str("chat"),
            Self::Part { of, key } => write!(f, "{key}@{of}"),
        }
    }
}

/// The repository that an agent's git writes to. What it writes to private copies reaches the person's repository only after
/// `capture` has checked it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Isolation {
    /// The person's own.
    #[default]
    None,
    /// Private copies that the sandbox shows at the real paths, given as [`Opened::binds`].
    Bound,
    /// Private copies that the folder itself leads to, for a sandbox that can show nothing at another path.
    Linked,
}

/// Request for a folder to work in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenRequest {
    /// The work.
    pub key: WorkspaceKey,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// The branch to start from and to merge into. `None` for the branch that is checked out in the root.
    pub target: Option<String>,
    /// True to start again from the target. Existing work goes to a rescue ref.
    pub fresh: bool,
    /// The repository that the agent's git writes to.
    pub isolation: Isolation,
    /// Names that the sandbox hides from the agent. A tracked file with such a name keeps its content, even if the
    /// agent commits another.
    pub hidden: Vec<NamePattern>,
}

impl OpenRequest {
    /// Requests the folder for `key`, as an earlier attempt left it, or fresh from the branch that is checked out.
    #[must_use]
    pub fn new(key: impl Into<WorkspaceKey>, attempt: Attempt) -> Self {
        Self {
            key: key.into(),
            attempt,
            target: None,
            fresh: false,
            isolation: Isolation::None,
            hidden: Vec::new(),
        }
    }

    /// Sets the target. An empty name means the branch that is checked out.
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

    /// Sets the repository that the agent's git writes to.
    #[must_use]
    pub fn with_isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets the names that the sandbox hides.
    #[must_use]
    pub fn with_hidden(mut self, hidden: Vec<NamePattern>) -> Self {
        self.hidden = hidden;
        self
    }
}

/// Request to commit the uncommitted changes of an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaptureRequest {
    /// The work.
    pub key: WorkspaceKey,
    /// The commit message, without trailers.
    pub message: String,
    /// Trailers: `Watchfire-Task: 0001`, …
    pub trailers: Vec<(String, String)>,
}

impl CaptureRequest {
    /// Requests a commit with `message`.
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

/// Request to merge.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MergeRequest {
    /// The work.
    pub key: WorkspaceKey,
    /// The branch to merge into.
    pub target: String,
    /// The shape of the result.
    pub strategy: MergeStrategy,
    /// The message of the merge commit.
    pub message: String,
    /// Candidate to merge onto, which is not published yet. `None` for the target itself.
    pub onto: Option<Candidate>,
    /// True to merge work with conflict marks from a merge that its agent left unfinished.
    pub accept_marks: bool,
    /// The changes that hold the merge.
    pub guard: MergeGuard,
}

/// Kinds of changes with which work is held instead of merged. A workspace without a repository ignores them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MergeGuard {
    /// Paths that must not change, as `protected` of the project lists them.
    pub protected: Vec<String>,
    /// True to hold changes of files that git runs or obeys: hooks, drivers of attributes, `.gitmodules`.
    pub wiring: bool,
    /// True to hold changes of files that other tools run by themselves.
    pub tools: bool,
}

impl MergeGuard {
    /// Holds changes of these paths.
    #[must_use]
    pub fn with_protected(mut self, paths: Vec<String>) -> Self {
        self.protected = paths;
        self
    }

    /// Holds changes of files that git runs or obeys.
    #[must_use]
    pub fn with_wiring(mut self, held: bool) -> Self {
        self.wiring = held;
        self
    }

    /// Holds changes of files that other tools run by themselves.
    #[must_use]
    pub fn with_tools(mut self, held: bool) -> Self {
        self.tools = held;
        self
    }
}

impl MergeRequest {
    /// Requests a merge commit of `key` into `target`.
    pub fn new(key: impl Into<WorkspaceKey>, target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            target: target.into(),
            strategy: MergeStrategy::Merge,
            message: message.into(),
            onto: None,
            accept_marks: false,
            guard: MergeGuard::default(),
        }
    }

    /// Also merges work with conflict marks.
    #[must_use]
    pub fn with_accept_marks(mut self, accept_marks: bool) -> Self {
        self.accept_marks = accept_marks;
        self
    }

    /// Holds the work if it changes what `guard` names.
    #[must_use]
    pub fn with_guard(mut self, guard: MergeGuard) -> Self {
        self.guard = guard;
        self
    }

    /// Merges onto a candidate for the same target.
    #[must_use]
    pub fn with_onto(mut self, candidate: Candidate) -> Self {
        self.onto = Some(candidate);
        self
    }

    /// Sets the shape of the result.
    #[must_use]
    pub fn with_strategy(mut self, strategy: MergeStrategy) -> Self {
        self.strategy = strategy;
        self
    }
}

/// Request to publish.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PublishRequest {
    /// Fencing token of the task's claim. The highest one is recorded for each key, and a lower one is refused with
    /// `claim_lost`.
    pub fence: Fence,
    /// True to forget a candidate that is held, so that no other work is merged onto it while it waits.
    pub once: bool,
}

impl PublishRequest {
    /// Requests a publication under this fencing token.
    #[must_use]
    pub fn new(fence: Fence) -> Self {
        Self { fence, once: false }
    }

    /// Forgets the candidate if it is held.
    #[must_use]
    pub fn with_once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }
}

/// Request to take back a merge.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RevertRequest {
    /// The key for the work that takes it back. Nothing is under it yet.
    pub key: WorkspaceKey,
    /// The work that was merged.
    pub of: WorkspaceKey,
    /// The commit to which the target moved then.
    pub commit: Commit,
    /// The branch that contains it.
    pub target: String,
    /// Message of the commit.
    pub message: String,
}

impl RevertRequest {
    /// Requests to take back the `commit` by which the work `of` was merged into `target`.
    #[must_use]
    pub fn new(
        key: impl Into<WorkspaceKey>,
        of: impl Into<WorkspaceKey>,
        commit: Commit,
        target: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), of: of.into(), commit, target: target.into(), message: message.into() }
    }
}

/// Request to remove folder and branch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoveRequest {
    /// The work.
    pub key: WorkspaceKey,
    /// True to remove work that is not merged, after it was put under a rescue ref. Otherwise such work is kept.
    pub discard: bool,
}

impl RemoveRequest {
    /// Requests the removal of merged work.
    #[must_use]
    pub fn new(key: impl Into<WorkspaceKey>) -> Self {
        Self { key: key.into(), discard: false }
    }

    /// Also removes work that is not merged, after putting it under a rescue ref.
    #[must_use]
    pub fn with_discard(mut self, discard: bool) -> Self {
        self.discard = discard;
        self
    }
}
