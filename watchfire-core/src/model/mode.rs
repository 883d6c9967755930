//! Modes and phases of sessions.

use serde::{Deserialize, Serialize};

/// The kind of work that a person asked for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A conversation in the project root.
    Chat,
    /// One session that writes the definition of the project.
    GenerateDefinition,
    /// One session that writes tasks.
    GenerateTasks,
    /// All ready tasks, in work order.
    StartAll,
    /// One task.
    Task,
    /// Execute, refine and generate, until nothing is left to do.
    Wildfire,
}

impl Mode {
    /// Returns the word for the wire and for names of logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::GenerateDefinition => "generate-definition",
            Self::GenerateTasks => "generate-tasks",
            Self::StartAll => "start-all",
            Self::Task => "task",
            Self::Wildfire => "wildfire",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Unlike `write_str`, this honours a width in the format string.
        f.pad(self.as_str())
    }
}

/// A step of [`Mode::Wildfire`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Work on a ready task.
    Execute,
    /// Improve a draft.
    Refine,
    /// Write new tasks.
    Generate,
}

impl Phase {
    /// Returns the word for the wire and for files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Refine => "refine",
            Self::Generate => "generate",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
