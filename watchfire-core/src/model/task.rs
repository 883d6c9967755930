//! Tasks: `.watchfire/tasks/NNNN.yaml`.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

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
    /// The internal id, which is never shown.
    pub task_id: TaskId,
    /// The number, which is also the name of the file.
    pub task_number: TaskNumber,
    /// One line that describes the task.
    pub title: String,
    /// The instruction for the agent.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub prompt: String,
    /// Conditions that the finished work must meet.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub acceptance_criteria: String,
    /// The backend that works on it. Empty defers to the project.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "defer_empty")]
    pub agent: Option<BackendName>,
    /// The status.
    pub status: TaskStatus,
    /// With `done`, false if the task failed. Missing counts as a claim of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The reason for `success: false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The reason why its work was not merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_failure_reason: Option<String>,
    /// Position in display and work order, ascending. The lower number goes first among equals.
    #[serde(default, deserialize_with = "or_default")]
    pub position: i64,
    /// Number of sessions that have worked on it.
    #[serde(default, deserialize_with = "or_default")]
    pub agent_sessions: u32,
    /// Time of creation.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub created_at: Option<Timestamp>,
    /// Time at which the first session started.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub started_at: Option<Timestamp>,
    /// Time at which it became done.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub completed_at: Option<Timestamp>,
    /// Time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub updated_at: Option<Timestamp>,
    /// Set if the task is in the trash: the time at which it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    pub deleted_at: Option<Timestamp>,
    /// Tasks that must be merged before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub depends_on: Vec<TaskNumber>,
    /// Number of further attempts after a crash, a timeout or a failed verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Words by which tasks are selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub labels: Vec<String>,
    /// The caller's id of the request that created it. A repeated request finds the task by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Task {
    /// Number of bytes of a prompt, or of acceptance criteria, that reach an agent in its own prompt. The prompt refers
    /// the agent to the task's file for the rest.
    pub const LONGEST_PROMPT: usize = 256 * 1024;

    /// Creates a draft with a title and defaults for everything else.
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
            request_id: None,
            extra: Extra::new(),
        }
    }

    /// Returns true if the task is in the trash.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// Returns true if the task is done and does not say that it failed.
    #[must_use]
    pub fn claims_success(&self) -> bool {
        // Many agents and people set the status alone.
        self.status == TaskStatus::Done && self.success != Some(false)
    }

    /// Returns the way on which a task depends on itself, such as 1, 2, 1, or `None` if it does not. `depends_on` returns the
    /// dependencies of each task.
    #[must_use]
    pub fn ring(
        task: TaskNumber,
        depends_on: impl Fn(TaskNumber) -> Vec<TaskNumber>,
    ) -> Option<Vec<TaskNumber>> {
        let (mut above, mut left) = (BTreeMap::new(), VecDeque::from([task]));
        // The nearest first, so that the way is the shortest.
        while let Some(at) = left.pop_front() {
            for next in depends_on(at) {
                if next == task {
                    let way = std::iter::successors(Some(at), |at| above.get(at).copied());
                    let mut ring: Vec<_> = std::iter::once(task).chain(way).collect();
                    ring.reverse();
                    return Some(ring);
                }
                if let Entry::Vacant(entry) = above.entry(next) {
                    entry.insert(at);
                    left.push_back(next);
                }
            }
        }
        None
    }

    /// Returns the key by which tasks are ordered for work: position, then number.
    #[must_use]
    pub fn work_order(&self) -> (i64, TaskNumber) {
        (self.position, self.task_number)
    }
}

/// The status of a task, as its file has it. The journal knows more: running, merging, held and so on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Not ready for an agent.
    Draft,
    /// An agent may work on it, or does so now.
    Ready,
    /// Finished, with or without success.
    Done,
}

impl TaskStatus {
    /// Returns the word that stands in the file.
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
        // Unlike `write_str`, this honours a width in the format string.
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

/// Reads an optional backend name. An empty string counts as missing: files of Watchfire 10 have it.
pub(super) fn defer_empty<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<BackendName>, D::Error> {
    match Option::<String>::deserialize(d)? {
        Some(text) if !text.trim().is_empty() => text.parse().map(Some).map_err(serde::de::Error::custom),
        _ => Ok(None),
    }
}
