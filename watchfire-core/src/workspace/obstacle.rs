//! Obstacles that keep work from being published.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::RepoPath;

/// Something that keeps a merge or a publication from being carried out, and that a person can clear away.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Obstacle {
    /// Kind of obstacle, for programs.
    pub kind: ObstacleKind,
    /// Description for people: a lowercase fragment.
    pub message: String,
    /// Checkout in which the obstacle lies; `None` if it is not in a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<PathBuf>,
    /// Files in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RepoPath>,
}

impl Obstacle {
    /// Creates an obstacle that is in no checkout and names no files.
    pub fn new(kind: ObstacleKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), checkout: None, files: Vec::new() }
    }

    /// Names the checkout.
    #[must_use]
    pub fn with_checkout(mut self, checkout: impl Into<PathBuf>) -> Self {
        self.checkout = Some(checkout.into());
        self
    }

    /// Names the files in the way.
    #[must_use]
    pub fn with_files(mut self, files: Vec<RepoPath>) -> Self {
        self.files = files;
        self
    }
}

impl fmt::Display for Obstacle {
    /// Writes message, checkout and the first three files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(checkout) = &self.checkout {
            write!(f, " in {}", checkout.display())?;
        }
        // Three, since this is one line of a list; a program reads all of them from the field.
        for (n, file) in self.files.iter().take(3).enumerate() {
            write!(f, "{}{file}", if n == 0 { ": " } else { ", " })?;
        }
        match self.files.len().saturating_sub(3) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

macro_rules! obstacles {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $cure:literal;)*) => {
        /// Kind of an [`Obstacle`].
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ObstacleKind {
            $($(#[$doc])* $variant,)*
        }

        impl ObstacleKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable code of this kind, part of the wire contract.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns the steps that clear the obstacle away, for people.
            #[must_use]
            pub fn cure(self) -> &'static str {
                match self { $(Self::$variant => $cure,)* }
            }
        }
    };
}

obstacles! {
    /// The work began in a folder without git, which has a repository now.
    BegunInSnapshots = "begun_in_snapshots",
        "take the commits over as the message says; then `watchfire task draft N` and `watchfire branches delete N --discard` let go of the work";
    /// The target got changes that the rewritten work cannot be replayed on, or the work contains the old target.
    BranchRewritten = "branch_rewritten",
        "rebase the agent's own commits (`git rebase --onto TARGET BEGINNING` in its folder), or close the task: its commits stay on the branch";
    /// git could not convert files on their way to the checkout.
    ConversionFailed = "conversion_failed",
        "repair the filter or encoding that the message names, or merge the branch with git";
    /// The files need a filter driver that is not allowed to run.
    FilterNotAllowed = "filter_not_allowed",
        "list the filter under git.filters in settings.yaml, or merge the branch with git";
    /// The work changes files that git runs or obeys: hooks, drivers of attributes, `.gitmodules`.
    GitWiring = "git_wiring",
        "look at the changes with `watchfire diff N`, and accept them with `watchfire branches merge N --accept`";
    /// The work is in the targets of some of its repositories, and the target of another has moved since it was merged.
    HalfPublished = "half_published",
        "look at the repositories that the message names; `watchfire branches merge N` merges again what is missing, and publishes it";
    /// Another git command holds the lock of the index, or left it behind.
    IndexLocked = "index_locked",
        "wait for the git command that runs there; if none does, remove index.lock in its git directory";
    /// The index is sparse: some of its entries stand for whole folders.
    IndexSparse = "index_sparse", "run `git sparse-checkout reapply --no-sparse-index` in the checkout";
    /// The index is damaged, or the current user may not read it.
    IndexUnreadable = "index_unreadable", "run `git status` in the checkout, and repair what it reports";
    /// The index has a form that is not supported, such as a split index.
    IndexUnsupported = "index_unsupported",
        "run `git config core.splitIndex false` and `git update-index --no-split-index` in the checkout";
    /// Local edits would be overwritten.
    LocalEdits = "local_edits", "commit these edits, or set them aside with `git stash`; move files away that git does not track";
    /// A merge, rebase, bisection or the like is under way in the checkout.
    OperationUnderWay = "operation_under_way", "finish what is under way there, or abort it";
    /// The file system of the checkout is full.
    OutOfSpace = "out_of_space", "make room on the file system of the checkout";
    /// The work changes paths that `protected` of the project lists.
    ProtectedPaths = "protected_paths",
        "look at the changes with `watchfire diff N`, and accept them with `watchfire branches merge N --accept-protected`";
    /// Files or folders of the checkout cannot be written.
    ReadOnly = "read_only", "make the files and folders of the checkout writable";
    /// The repository signs its commits, and the merge could not be signed.
    SigningFailed = "signing_failed",
        "make `git commit -S` work in the checkout, then `watchfire branches merge N`, or turn commit.gpgSign off";
    /// The work changes files that other tools run by themselves, and the project wants these reviewed.
    ToolFiles = "tool_files",
        "look at the changes with `watchfire diff N`, and accept them with `watchfire branches merge N --accept`";
    /// The agent left a merge unfinished: files still have conflict marks.
    UnfinishedMerge = "unfinished_merge",
        "resolve the conflict marks on the branch, or accept them with `watchfire branches merge N --accept-marks`";
    /// The target is checked out in a worktree that cannot be read: on a disk that is away, moved, or deleted by hand.
    WorktreeAway = "worktree_away",
        "bring the worktree back (`git worktree repair` if it or the project was moved), or let go of it: `git worktree unlock` \
         where it is locked, then `git worktree prune`";
    /// Publishing failed for another reason, which the message names.
    WriteFailed = "write_failed", "repair what the message names";
    /// A restart has lost variables that the verify commands would get.
    VariablesGone = "variables_gone", "run `watchfire resume N` where these variables are set";
}

impl fmt::Display for ObstacleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_what_is_serialised() {
        for kind in ObstacleKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.code());
        }
    }

    #[test]
    fn an_obstacle_names_its_checkout_and_a_few_files() {
        let files = ["a", "b", "c", "d"].map(|name| RepoPath::new(name.as_bytes())).to_vec();
        let obstacle = Obstacle::new(ObstacleKind::LocalEdits, "local edits are in the way")
            .with_checkout("/p")
            .with_files(files);
        assert_eq!(obstacle.to_string(), "local edits are in the way in /p: a, b, c and 1 more");
        let text = serde_json::to_string(&obstacle).unwrap();
        assert_eq!(serde_json::from_str::<Obstacle>(&text).unwrap(), obstacle);
    }
}
