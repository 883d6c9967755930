//! Obstacles that keep an agent from going on.

use crate::backend::Issue;
use crate::model::Question;

/// Open issues and questions of an agent that a person or a timer must clear before it can go on.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Blocks {
    /// Open issues, oldest first, each with its expected end if known: those that block, and a stall. A denial by the
    /// sandbox is not among them: the agent continues without.
    pub issues: Vec<Issue>,
    /// Questions that have no answer, oldest first.
    pub questions: Vec<Question>,
}

impl Blocks {
    /// Returns true if nothing keeps the agent from going on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.issues.iter().all(|issue| !issue.kind.is_blocking()) && self.questions.is_empty()
    }
}
