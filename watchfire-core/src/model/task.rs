//! Tasks: `.watchfire/tasks/NNNN.yaml`.

use serde::{Deserialize, Serialize};

use super::lenient::or_default;
use super::timestamp::optional;
use super::{BackendName, Extra, TaskId, TaskNumber, Timestamp};

/// A unit of work for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// The version of the format: 1.
    pub version: u32,
    /// The internal id, never shown.
    pub task_id: TaskId,
    /// The number by which people know it; also its file name.
    pub task_number: TaskNumber,
    /// One line that says what it is about.
    pub title: String,
    /// The instruction for the agent.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub prompt: String,
    /// What must hold when it is done.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub acceptance_criteria: String,
    /// The backend that works on it; empty defers to the project.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "defer_empty")]
    pub agent: Option<BackendName>,
    /// Where it stands.
    pub status: TaskStatus,
    /// With `done`: whether it succeeded. Missing counts as a claim of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// With `success: false`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why its work was not merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_failure_reason: Option<String>,
    /// Display and work order, ascending; ties go by number.
    #[serde(default, deserialize_with = "or_default")]
    pub position: i64,
    /// How many sessions have worked on it.
    #[serde(default, deserialize_with = "or_default")]
    pub agent_sessions: u32,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub created_at: Option<Timestamp>,
    /// When an agent first started on it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub started_at: Option<Timestamp>,
    /// When it became done.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub completed_at: Option<Timestamp>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub updated_at: Option<Timestamp>,
    /// When it was put in the trash.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub deleted_at: Option<Timestamp>,
    /// Tasks that must be merged before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub depends_on: Vec<TaskNumber>,
    /// How often a crash, a hang or a failed verification is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Words to select tasks by.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub labels: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Task {
    /// A draft with number and title, and nothing else.
    pub fn new(task_id: TaskId, task_number: TaskNumber, title: impl Into<String>) -> Self {
        Self {
            version: 1,
            task_id,
            task_number,
            title: title.into(),
            prompt: String::new(),
            acceptance_criteria: String::new(),
            agent: None,
            status: TaskStatus::Draft,
            success: None,
            failure_reason: None,
            merge_failure_reason: None,
            position: 0,
            agent_sessions: 0,
            created_at: None,
            started_at: None,
            completed_at: None,
            updated_at: None,
            deleted_at: None,
            depends_on: Vec::new(),
            retries: None,
            labels: Vec::new(),
            extra: Extra::new(),
        }
    }

    /// Whether it lies in the trash.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// Whether it is done and claims success.
    #[must_use]
    pub fn claims_success(&self) -> bool {
        self.status == TaskStatus::Done && self.success != Some(false)
    }

    /// The key of the work order: position, then number.
    #[must_use]
    pub fn work_order(&self) -> (i64, TaskNumber) {
        (self.position, self.task_number)
    }
}

/// Where a task stands. What YAML has no word for is in the journal.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Not ready for an agent.
    Draft,
    /// An agent may pick it up, or works on it.
    Ready,
    /// Finished, well or badly.
    Done,
}

impl TaskStatus {
    /// The word in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Ready => "ready",
            Self::Done => "done",
        }
    }
}

impl std::fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for TaskStatus {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        [Self::Draft, Self::Ready, Self::Done].into_iter().find(|status| status.as_str() == text).ok_or_else(
            || {
                crate::Error::new(
                    crate::ErrorKind::InvalidInput,
                    "invalid task status, expected draft, ready or done",
                )
                .with("value", format_args!("{text:?}"))
            },
        )
    }
}

/// Reads an optional backend name; the empty string defers to the next level.
pub(super) fn defer_empty<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<BackendName>, D::Error> {
    match Option::<String>::deserialize(d)? {
        Some(text) if !text.trim().is_empty() => text.parse().map(Some).map_err(serde::de::Error::custom),
        _ => Ok(None),
    }
}
