//! `agents.yaml` in the home: everything that is under way, for programs that only read files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchfire_core::files::{Replace, open_untrusted};
use watchfire_core::{Error, ErrorKind, Result};

use crate::daemon_proto::AgentStatus;

const NAME: &str = "agents.yaml";
/// Upper bound for its size that is read.
const LARGEST: u64 = 4 << 20;

/// What is under way in a home. Only its person can read the file. One that is there without a daemon says what the last one
/// left at work.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AgentsFile {
    /// Version of the format: 1.
    version: u32,
    /// Everything that is under way.
    pub agents: Vec<RunningAgent>,
}

/// Something that is under way.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct RunningAgent {
    /// Its project.
    pub project_id: String,
    /// The project's name.
    pub project_name: String,
    /// The project's folder.
    pub project_path: String,
    /// Its mode: `chat`, `task`, `start-all`, `wildfire` or one of the generations.
    pub mode: String,
    /// Its task, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_number: Option<i32>,
    /// The task's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_title: Option<String>,
    /// The issue that hinders it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_type: Option<String>,
    /// The issue in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_message: Option<String>,
}

impl RunningAgent {
    /// Returns what the file says of an agent of the project in `root`.
    #[must_use]
    pub fn new(status: AgentStatus, root: &Path) -> Self {
        let has_task = status.task_number > 0;
        let issue = status.issue.filter(|issue| !issue.issue_type.is_empty());
        Self {
            project_id: status.project_id,
            project_name: status.project_name,
            project_path: root.display().to_string(),
            mode: status.mode,
            task_number: has_task.then_some(status.task_number),
            task_title: has_task.then_some(status.task_title),
            issue_type: issue.as_ref().map(|issue| issue.issue_type.clone()),
            issue_message: issue.map(|issue| issue.message),
        }
    }
}

impl AgentsFile {
    /// Returns a file that says this.
    #[must_use]
    pub fn new(agents: Vec<RunningAgent>) -> Self {
        Self { version: 1, agents }
    }

    /// Writes it into the home at `home`, for its person alone.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&self, home: &Path) -> Result<()> {
        let text = serde_yaml::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Internal, "writing what runs").with_source(error))?;
        Replace::new().with_mode(0o600).without_sync().write(&path(home), text.as_bytes())
    }

    /// Reads it, or returns `None` if there is none.
    ///
    /// # Errors
    /// `malformed`; I/O errors.
    pub fn read(home: &Path) -> Result<Option<Self>> {
        let path = path(home);
        let Some(file) = open_untrusted(&path)? else { return Ok(None) };
        let mut text = String::new();
        file.take(LARGEST)
            .read_to_string(&mut text)
            .map_err(|error| Error::io("reading what runs", error).with_path(&path))?;
        serde_yaml::from_str(&text).map(Some).map_err(|error| {
            Error::new(ErrorKind::Malformed, "not a list of agents").with_source(error).with_path(path)
        })
    }

    /// Removes it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove(home: &Path) -> Result<()> {
        let path = path(home);
        std::fs::remove_file(&path).map_err(|error| Error::io("removing what ran", error).with_path(path))
    }
}

fn path(home: &Path) -> PathBuf {
    home.join(NAME)
}
