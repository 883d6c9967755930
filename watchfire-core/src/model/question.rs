//! Questions of agents.

use serde::{Deserialize, Serialize};

/// A question that an agent needs answered before it goes on.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// Id of the question, unique within its session. An answer names it.
    pub id: String,
    /// The question, in the agent's words.
    pub question: String,
}

impl Question {
    /// Returns the question `question` under `id`.
    pub fn new(id: impl Into<String>, question: impl Into<String>) -> Self {
        Self { id: id.into(), question: question.into() }
    }
}
