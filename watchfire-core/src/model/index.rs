//! The index of projects: `projects.yaml` in the Watchfire home.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lenient::or_default;
use super::{Extra, ProjectId};

/// All registered projects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProjectIndex {
    /// The version of the format: 1.
    #[serde(default = "one")]
    pub version: u32,
    /// The projects, in any order; [`ProjectEntry::position`] is the one to show.
    #[serde(default, deserialize_with = "or_default")]
    pub projects: Vec<ProjectEntry>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for ProjectIndex {
    fn default() -> Self {
        Self { version: 1, projects: Vec::new(), extra: Extra::new() }
    }
}

fn one() -> u32 {
    1
}

/// One registered project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProjectEntry {
    /// Id of the project.
    pub project_id: ProjectId,
    /// Name of the project when it was last opened.
    pub name: String,
    /// Root folder of the project when it was last opened.
    pub path: PathBuf,
    /// Display order, ascending.
    #[serde(default, deserialize_with = "or_default")]
    pub position: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ProjectEntry {
    /// Creates an entry for the project at `path`.
    pub fn new(
        project_id: ProjectId,
        name: impl Into<String>,
        path: impl Into<PathBuf>,
        position: i64,
    ) -> Self {
        Self { project_id, name: name.into(), path: path.into(), position, extra: Extra::new() }
    }
}
