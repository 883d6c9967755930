//! The results of a workspace's calls.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{BranchPart, CandidatePart, Obstacle, OpenedPart, WorkspaceKey};
use crate::model::{Attempt, RepoPath};
use crate::sandbox::{Bind, Rule};

/// A commit, by its full hexadecimal object id.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Commit(Box<str>);

impl Commit {
    /// Returns the commit with this object id.
    pub fn new(id: impl Into<Box<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the object id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its first ten digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        // An id is not checked, so one that is shorter is shown whole.
        self.0.get(..10).unwrap_or(&self.0)
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A folder that is ready for an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The agent's working directory.
    pub cwd: PathBuf,
    /// Variables that the agent needs there.
    pub env: Vec<(OsString, OsString)>,
    /// Rules that the sandbox must enforce for it. This is how git's rules reach the sandbox.
    pub policy_rules: Vec<Rule>,
    /// Paths that the sandbox must show at another place, where private copies are bound.
    pub binds: Vec<Bind>,
    /// The branch of the work, without `refs/heads/`. `None` without a repository.
    pub branch: Option<String>,
    /// The branch to merge into, without `refs/heads/`. `None` without a repository.
    pub target: Option<String>,
    /// The commit at which the work starts. `None` without a repository or without commits.
    pub base: Option<Commit>,
    /// True if the folder holds work of an earlier attempt.
    pub reused: bool,
    /// Rescue refs of work that stood in the way.
    pub rescued: Vec<RescueRef>,
    /// Remarks that a person should see.
    pub attention: Vec<String>,
    /// The folders of the same work in other repositories, in the project's order.
    pub others: Vec<OpenedPart>,
}

impl Opened {
    /// Returns a folder without a repository.
    #[must_use]
    pub fn at(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            env: Vec::new(),
            policy_rules: Vec::new(),
            binds: Vec::new(),
            branch: None,
            target: None,
            base: None,
            reused: false,
            rescued: Vec::new(),
            attention: Vec::new(),
            others: Vec::new(),
        }
    }
}

/// Result of an exchange between a session in the root and its person.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Exchanged {
    /// Remarks for the person about work that was not carried over, with the reason and its place.
    pub told: Vec<String>,
}

/// State of the work after a capture.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Captured {
    /// The tip of the work. `None` without a repository.
    pub tip: Option<Commit>,
    /// The commit that this capture made, if there was something to commit.
    pub committed: Option<Commit>,
    /// Number of commits that the work has beyond its base.
    pub commits: usize,
    /// Paths that were uncommitted and are committed now.
    pub paths: Vec<RepoPath>,
    /// Files that were not committed, and the reasons.
    pub left_out: Vec<LeftOut>,
    /// Files with conflict marks of a merge that the agent did not finish. The attempt is not a success then.
    pub unmerged: Vec<RepoPath>,
    /// Refs that the agent named and the work does not contain, kept under refs of their own: other branches, tags,
    /// notes, and commits of the task's branch that its HEAD lacked.
    pub kept: Vec<RescueRef>,
}

/// A file that a capture did not commit.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// The path.
    pub path: RepoPath,
    /// The reason.
    pub reason: LeftOutReason,
}

impl LeftOut {
    /// Creates an entry for `path`.
    #[must_use]
    pub fn new(path: RepoPath, reason: LeftOutReason) -> Self {
        Self { path, reason }
    }
}

/// Reason for which a capture did not commit a file.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeftOutReason {
    /// The folder is a repository of its own.
    NestedRepository,
    /// A name that git refuses, because some file system takes it for `.git`.
    RefusedName,
    /// A file with the name of a secret, which the sandbox hides.
    SecretName,
    /// A FIFO, socket or device.
    Special,
    /// A folder that lies more than 200 folders deep.
    TooDeep,
    /// Larger than the limit for one file.
    TooLarge,
}

impl LeftOutReason {
    /// Returns the stable code of this reason, part of the wire contract.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NestedRepository => "nested_repository",
            Self::RefusedName => "refused_name",
            Self::SecretName => "secret_name",
            Self::Special => "special",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
        }
    }

    /// Returns the reason in words, for people.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::NestedRepository => "a repository of its own",
            Self::RefusedName => "a name that git refuses, as some systems take it for .git",
            Self::SecretName => "the name of a secret",
            Self::Special => "no regular file",
            Self::TooDeep => "more than 200 folders deep",
            Self::TooLarge => "larger than 512 MiB, the limit for one file",
        }
    }
}

/// Result of a merge in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Merge {
    /// The candidate can be published.
    Ready(Candidate),
    /// The work adds nothing to the target.
    Nothing,
    /// Both sides changed the same lines; a person or an agent must decide.
    Conflicts(Vec<Conflict>),
    /// The work must not be merged as it is; a person must act first.
    Held(Obstacle),
}

/// A merge that exists in the object database and nowhere else.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Candidate {
    /// The work.
    pub key: WorkspaceKey,
    /// The branch to move, without `refs/heads/`.
    pub target: String,
    /// The commit of that branch at the time of the merge. `None` if the branch does not exist yet.
    pub base: Option<Commit>,
    /// The commit to which the branch will move.
    pub commit: Commit,
    /// The merged tree, by object id.
    pub tree: String,
    /// The tip of the work that went in.
    pub work: Commit,
    /// The first files that it changes and that other tools run by themselves, such as `package.json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_files: Vec<RepoPath>,
    /// The commit that the work was merged onto: the base, or a candidate that waits for it. `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<Commit>,
    /// The candidate's parts in other repositories, in the project's order. All are published together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<CandidatePart>,
}

impl Candidate {
    /// Returns a candidate for `target`.
    pub fn new(
        key: WorkspaceKey,
        target: impl Into<String>,
        base: Option<Commit>,
        commit: Commit,
        tree: impl Into<String>,
        work: Commit,
    ) -> Self {
        let (target, tree) = (target.into(), tree.into());
        Self { key, target, base, commit, tree, work, tool_files: Vec::new(), onto: None, others: Vec::new() }
    }

    /// Adds the parts in other repositories.
    #[must_use]
    pub fn with_others(mut self, others: Vec<CandidatePart>) -> Self {
        self.others = others;
        self
    }

    /// Returns the commit that holds work of this candidate's own in its first target. `None` if only its parts in other
    /// repositories bring something.
    #[must_use]
    pub fn own_commit(&self) -> Option<&Commit> {
        (self.onto.as_ref() != Some(&self.commit)).then_some(&self.commit)
    }

    /// Names the commit that the work was merged onto.
    #[must_use]
    pub fn with_onto(mut self, onto: Option<Commit>) -> Self {
        self.onto = onto;
        self
    }

    /// Names the files that other tools run by themselves.
    #[must_use]
    pub fn with_tool_files(mut self, files: Vec<RepoPath>) -> Self {
        self.tool_files = files;
        self
    }
}

/// Result of taking back a merge.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reverted {
    /// The commit is on the branch of its key.
    Done(Commit),
    /// Nothing of it is left in the target.
    Nothing,
    /// Later work has changed the same places of these files.
    Conflicts(Vec<RepoPath>),
}

/// A path on which both sides changed something.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Conflict {
    /// The path.
    pub path: RepoPath,
    /// The text with conflict marks, up to a limit. `None` for binary content.
    pub hunks: Option<String>,
}

impl Conflict {
    /// Returns a conflict at `path`.
    #[must_use]
    pub fn new(path: RepoPath, hunks: Option<String>) -> Self {
        Self { path, hunks }
    }
}

/// Result of a publication.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Published {
    /// The target is now at the candidate's commit.
    #[non_exhaustive]
    Done {
        /// The checkouts that were updated.
        checkouts: Vec<PathBuf>,
    },
    /// A checkout of the target is in the way. Nothing has changed; the same candidate may be published again. Where the
    /// obstacle is [`HalfPublished`](super::ObstacleKind::HalfPublished), some targets have moved, and the work must be
    /// merged again.
    Held(Obstacle),
    /// The target is at the candidate's commit, but a checkout could not be updated. The next
    /// [`recover`](super::Workspace::recover) or `publish` completes it.
    Incomplete(Obstacle),
    /// The target is no longer at the candidate's base. The work must be merged again.
    Moved,
}

impl Published {
    /// Returns [`Done`](Self::Done).
    #[must_use]
    pub fn done(checkouts: Vec<PathBuf>) -> Self {
        Self::Done { checkouts }
    }
}

/// Whether the targets of a candidate contain it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InTargets {
    /// None does.
    None,
    /// All do: the candidate is published.
    All,
    /// Some do. The obstacle names which.
    Some(Obstacle),
}

type CleanUp = Box<dyn FnOnce(&Path) + Send + Sync>;

/// A folder with a merged tree. Dropping it removes the folder.
pub struct Scratch {
    path: PathBuf,
    /// Rules that the sandbox must enforce there.
    pub policy_rules: Vec<Rule>,
    clean_up: Option<CleanUp>,
}

impl Scratch {
    /// Returns the folder at `path`. Dropping it calls `clean_up`.
    pub fn new(path: impl Into<PathBuf>, clean_up: impl FnOnce(&Path) + Send + Sync + 'static) -> Self {
        Self { path: path.into(), policy_rules: Vec::new(), clean_up: Some(Box::new(clean_up)) }
    }

    /// Adds rules for the sandbox.
    #[must_use]
    pub fn with_policy_rules(mut self, rules: Vec<Rule>) -> Self {
        self.policy_rules = rules;
        self
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scratch").field(&self.path).finish()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // An `FnOnce` is called by value, and `drop` has only a reference.
        if let Some(clean_up) = self.clean_up.take() {
            clean_up(&self.path);
        }
    }
}

/// A ref that keeps rescued work reachable.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RescueRef {
    /// The full name: `refs/watchfire/rescue/0001/2`.
    pub name: String,
    /// The commit that it points to.
    pub commit: Commit,
    /// The task, taken from the name.
    pub task: String,
    /// The attempt. 0 where the name has none, as for commits that an agent left behind.
    pub attempt: Attempt,
}

impl RescueRef {
    /// Returns the rescue ref `name` at `commit`.
    pub fn new(name: impl Into<String>, commit: Commit, task: impl Into<String>, attempt: Attempt) -> Self {
        Self { name: name.into(), commit, task: task.into(), attempt }
    }
}

/// Result of removing folder and branch.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Removed {
    /// Both are gone, and all of the work is reachable.
    #[non_exhaustive]
    Gone {
        /// Rescue ref of work that was not merged.
        rescued: Option<RescueRef>,
    },
    /// Both are kept.
    #[non_exhaustive]
    Kept {
        /// The reason.
        reason: String,
    },
}

impl Removed {
    /// Returns [`Kept`](Self::Kept).
    #[must_use]
    pub fn kept(reason: impl Into<String>) -> Self {
        Self::Kept { reason: reason.into() }
    }

    /// Returns [`Gone`](Self::Gone).
    #[must_use]
    pub fn gone(rescued: Option<RescueRef>) -> Self {
        Self::Gone { rescued }
    }
}

/// A branch or folder of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchInfo {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The task and parallel attempt, taken from the name: `0001`, `0001.2`.
    pub key: String,
    /// Its state.
    pub status: BranchStatus,
    /// Its tip. `None` if only a folder is left.
    pub tip: Option<Commit>,
    /// Its folder, if there is one.
    pub worktree: Option<PathBuf>,
    /// The branch that it is compared with.
    pub target: Option<String>,
    /// Commits that the target does not have.
    pub ahead: usize,
    /// Commits that only the target has.
    pub behind: usize,
    /// Time at which its tip was committed, in seconds since 1970.
    pub committed_at: Option<i64>,
    /// The subject of its tip.
    pub subject: Option<String>,
    /// Size of its changes since it left its target. `None` where that is not known.
    pub size: Option<BranchSize>,
    /// The branches of the same work in other repositories, in the project's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<BranchPart>,
}

/// Size of a branch's changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchSize {
    /// Number of files that it adds, changes or deletes.
    pub files: usize,
    /// Size in bytes of the files that it adds or changes.
    pub bytes: u64,
}

impl BranchSize {
    /// Returns a size of `files` files with `bytes` bytes.
    #[must_use]
    pub fn new(files: usize, bytes: u64) -> Self {
        Self { files, bytes }
    }
}

impl BranchInfo {
    /// Returns a branch of which nothing else is known.
    pub fn new(branch: impl Into<String>, key: impl Into<String>, status: BranchStatus) -> Self {
        Self {
            branch: branch.into(),
            key: key.into(),
            status,
            tip: None,
            worktree: None,
            target: None,
            ahead: 0,
            behind: 0,
            committed_at: None,
            subject: None,
            size: None,
            others: Vec::new(),
        }
    }
}

/// State of a branch.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum BranchStatus {
    /// It has no commits of its own: the target contains all that it has, and nothing of it was merged.
    Empty,
    /// The target contains its work.
    Merged,
    /// A folder without a branch.
    Orphaned,
    /// The target lacks some of its commits.
    Unmerged,
}

/// Result of pruning.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Pruned {
    /// Removed leftovers, one line each.
    pub removed: Vec<String>,
    /// Leftovers that look abandoned and were kept, with the reason.
    pub kept: Vec<String>,
}

/// Result of recovery.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Recovery {
    /// Publications found incomplete and completed, one line each.
    pub completed: Vec<String>,
    /// Publications found incomplete and rolled back, one line each.
    pub undone: Vec<String>,
    /// Remarks that a person should see.
    pub attention: Vec<String>,
    /// Publications whose target has moved, but whose checkouts still could not be updated.
    pub incomplete: Vec<Obstacle>,
    /// Publications in several repositories of which some targets have moved, and the others cannot.
    pub half: Vec<Obstacle>,
}
