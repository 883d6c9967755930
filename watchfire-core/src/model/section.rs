//! Sections of prompts that a project may word for itself.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// A section of the prompts whose text a project or an embedder may replace: rules for the agent's work. The other
/// sections state things that Watchfire itself relies on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum PromptSection {
    /// Habits that spoil work.
    AntiPatterns,
    /// Ways to ground a plan in the code, for sessions that write tasks or the definition.
    CodebaseExploration,
    /// Sparing use of the model's context.
    ContextManagement,
    /// Rules for the case that reality differs from the task.
    DeviationRules,
    /// The course of the work on a task.
    ExecutionProtocol,
    /// Use of git in a task's worktree.
    GitWorkflow,
    /// Bounds of a task: the changes that belong to it.
    ScopeRules,
    /// Qualities of a good task, for sessions that write tasks.
    TaskQuality,
    /// Rules for tests.
    TestIntegrity,
}

impl PromptSection {
    /// All sections, in alphabetical order of their names.
    pub const ALL: &'static [Self] = &[
        Self::AntiPatterns,
        Self::CodebaseExploration,
        Self::ContextManagement,
        Self::DeviationRules,
        Self::ExecutionProtocol,
        Self::GitWorkflow,
        Self::ScopeRules,
        Self::TaskQuality,
        Self::TestIntegrity,
    ];

    /// Returns the name, which its tag in the prompt and its file `.watchfire/prompts/<name>.md` also have.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AntiPatterns => "anti_patterns",
            Self::CodebaseExploration => "codebase_exploration",
            Self::ContextManagement => "context_management",
            Self::DeviationRules => "deviation_rules",
            Self::ExecutionProtocol => "execution_protocol",
            Self::GitWorkflow => "git_workflow",
            Self::ScopeRules => "scope_rules",
            Self::TaskQuality => "task_quality",
            Self::TestIntegrity => "test_integrity",
        }
    }
}

impl fmt::Display for PromptSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PromptSection {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|section| section.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|section| section.as_str()).collect();
            Error::new(ErrorKind::NotFound, "there is no such section")
                .with("section", name)
                .with("sections", names.join(", "))
        })
    }
}
