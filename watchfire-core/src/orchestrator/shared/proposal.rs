//! Proposals of agents.

use serde::{Deserialize, Serialize};

use crate::model::Task;

/// A definition or tasks that an agent wrote. They have no effect before a person accepts them, perhaps with
/// changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Proposal {
    /// The definition of the project.
    pub definition: Option<String>,
    /// Drafts. Their numbers are the agent's, and so are those in `depends_on`.
    pub tasks: Vec<Task>,
    /// Descriptions of everything else that the agent wrote and may not propose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}
