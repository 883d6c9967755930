//! The parts of work that is done in several repositories at once.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{BranchInfo, Candidate, Commit};

/// The folder of some work in another repository than the project's own.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct OpenedPart {
    /// Path of the repository, relative to the project's root: `../lib`.
    pub repository: PathBuf,
    /// The folder in which the agent works on it.
    pub cwd: PathBuf,
    /// The branch of the work there, without `refs/heads/`.
    pub branch: Option<String>,
    /// The branch to merge into, without `refs/heads/`.
    pub target: Option<String>,
    /// The commit at which the work starts. `None` without commits.
    pub base: Option<Commit>,
}

impl OpenedPart {
    /// Returns the folder `cwd` for the repository at `repository`, without a branch.
    pub fn new(repository: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self { repository: repository.into(), cwd: cwd.into(), branch: None, target: None, base: None }
    }

    /// Names the branch, the branch to merge into, and the commit at which the work starts.
    #[must_use]
    pub fn with_branches(
        mut self,
        branch: Option<String>,
        target: Option<String>,
        base: Option<Commit>,
    ) -> Self {
        (self.branch, self.target, self.base) = (branch, target, base);
        self
    }
}

/// The part of a candidate in another repository than the project's own.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CandidatePart {
    /// Path of the repository, relative to the project's root: `../lib`.
    pub repository: PathBuf,
    /// The merge there. Its commit is its base where nothing is merged.
    pub candidate: Candidate,
}

impl CandidatePart {
    /// Returns the part of a candidate in the repository at `repository`.
    pub fn new(repository: impl Into<PathBuf>, candidate: Candidate) -> Self {
        Self { repository: repository.into(), candidate }
    }
}

/// The branch of some work in another repository than the project's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchPart {
    /// Path of the repository, relative to the project's root: `../lib`.
    pub repository: PathBuf,
    /// The branch there.
    pub branch: BranchInfo,
}

impl BranchPart {
    /// Returns a branch in the repository at `repository`.
    pub fn new(repository: impl Into<PathBuf>, branch: BranchInfo) -> Self {
        Self { repository: repository.into(), branch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TaskNumber;
    use crate::workspace::WorkspaceKey;

    #[test]
    fn a_candidate_of_one_repository_is_written_as_before() {
        let key = WorkspaceKey::new(TaskNumber::new(1).unwrap());
        let at = |id: &str| Commit::new(id);
        let alone = Candidate::new(key.clone(), "main", Some(at("a")), at("b"), "t", at("w"));
        let written = serde_json::to_value(&alone).unwrap();
        assert!(written.get("others").is_none(), "{written}");
        assert_eq!(serde_json::from_value::<Candidate>(written).unwrap(), alone);

        let part = Candidate::new(key.part("shop"), "main", Some(at("c")), at("d"), "u", at("x"));
        let both = alone.with_others(vec![CandidatePart::new("../lib", part)]);
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Candidate>(&text).unwrap(), both);
        assert_eq!(both.others[0].candidate.key.to_string(), "0001@shop");
        assert_eq!(both.others[0].candidate.key.task(), None);
    }

    #[test]
    fn what_a_candidate_brings_to_its_first_target_is_known() {
        let key = WorkspaceKey::new(TaskNumber::new(1).unwrap());
        let at = |id: &str| Commit::new(id);
        let nothing = Candidate::new(key, "main", Some(at("a")), at("a"), "t", at("a"));
        assert_eq!(nothing.clone().with_onto(Some(at("a"))).own_commit(), None);
        assert_eq!(nothing.with_onto(None).own_commit(), Some(&at("a")), "the first commit of a target");
    }
}
