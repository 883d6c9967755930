//! Reasons to end a session.

use serde::{Deserialize, Serialize};

/// Reason for which a session is ended from outside.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// A person marked the task as done; its work goes through the gate.
    DoneByHand,
    /// A person or an embedder asked for it.
    Requested,
    /// The task was set back to draft, or deleted.
    Withdrawn,
    /// The orchestrator shuts down or detaches; the work goes on at its next start.
    Suspended,
    /// Another orchestrator has claimed the task.
    ClaimLost,
}
