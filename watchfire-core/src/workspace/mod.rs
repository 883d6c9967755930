//! Seam 5: the place where an agent works, and the way its work comes back.
//!
//! [`Workspace`] is the trait, one per project. Git is one implementation (`watchfire-git`); [`InPlace`], for folders
//! without a repository and for sessions in the project root, is the reference implementation that needs nothing.

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod in_place;
mod obstacle;
mod outcome;
mod part;

pub use contract::{
    CaptureRequest, Isolation, MergeGuard, MergeRequest, OpenRequest, PublishRequest, RemoveRequest,
    RevertRequest, Workspace, WorkspaceKey,
};
pub use in_place::InPlace;
pub use obstacle::{Obstacle, ObstacleKind};
pub use outcome::{
    BranchInfo, BranchSize, BranchStatus, Candidate, Captured, Commit, Conflict, Exchanged, InTargets,
    LeftOut, LeftOutReason, Merge, Opened, Pruned, Published, Recovery, Removed, RescueRef, Reverted,
    Scratch,
};
pub use part::{BranchPart, CandidatePart, OpenedPart};
