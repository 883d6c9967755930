//! Runs: requests that own lives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{TaskNumber, Timestamp};
use crate::schedule::{Ending, LifeState, RunOptions, Wait};

/// Identifies a run within its project's journal. Grows, and is never used twice.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The tasks that a run covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every ready task in work order, including tasks that become ready during the run.
    All,
    /// One task.
    Task(TaskNumber),
}

impl Scope {
    /// Returns true if it includes `task`.
    #[must_use]
    pub fn covers(self, task: TaskNumber) -> bool {
        match self {
            Self::All => true,
            Self::Task(only) => only == task,
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The tasks that it covers.
    pub scope: Scope,
    /// The overrides for the lives that it owns.
    #[serde(default)]
    pub options: RunOptions,
    /// Time of the request.
    pub began: Timestamp,
    /// True once a person stopped it.
    #[serde(default)]
    pub stopped: bool,
    /// Its end. Absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
    /// The endings of its tasks so far.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "by_task")]
    pub endings: BTreeMap<TaskNumber, Ending>,
}

impl Run {
    /// Returns a run that begins now.
    #[must_use]
    pub fn new(id: RunId, scope: Scope, options: RunOptions, began: Timestamp) -> Self {
        Self { id, scope, options, began, stopped: false, ended: None, endings: BTreeMap::new() }
    }

    /// Returns true if it would start `task`.
    pub(in crate::schedule) fn wants(&self, task: TaskNumber) -> bool {
        !self.stopped && self.ended.is_none() && self.scope.covers(task) && !self.endings.contains_key(&task)
    }

    /// Returns the summary, once it has ended.
    #[must_use]
    pub fn summary(&self) -> Option<RunSummary> {
        let ended = self.ended.clone()?;
        Some(RunSummary {
            endings: self.endings.clone(),
            waiting: ended.waiting,
            open: ended.open,
            stopped: self.stopped,
            interrupted: ended.interrupted,
        })
    }
}

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunEnd {
    /// Tasks that were not started.
    #[serde(default, with = "by_task")]
    pub waiting: BTreeMap<TaskNumber, Wait>,
    /// Tasks that wait for a person.
    #[serde(default, with = "by_task")]
    pub open: BTreeMap<TaskNumber, LifeState>,
    /// True if the orchestrator ended first.
    #[serde(default)]
    pub interrupted: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The tasks whose lives ended, with their last ending.
    pub endings: BTreeMap<TaskNumber, Ending>,
    /// Ready tasks that were not started.
    pub waiting: BTreeMap<TaskNumber, Wait>,
    /// Tasks that wait for a person: asking, limited or held.
    pub open: BTreeMap<TaskNumber, LifeState>,
    /// True if a person stopped the run.
    pub stopped: bool,
    /// True if the orchestrator ended before the run.
    pub interrupted: bool,
}

impl RunSummary {
    /// Returns true if no person needs to look at it.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !self.stopped
            && !self.interrupted
            && self.waiting.is_empty()
            && self.open.is_empty()
            && self.endings.values().all(Ending::is_good)
    }
}

/// Maps by task with text keys: inside a tagged enum, serde passes the keys of a JSON object only as text.
mod by_task {
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::model::TaskNumber;

    pub(in crate::schedule) fn serialize<S: Serializer, V: Serialize>(
        map: &BTreeMap<TaskNumber, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        map.serialize(to)
    }

    pub(in crate::schedule) fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        from: D,
    ) -> Result<BTreeMap<TaskNumber, V>, D::Error> {
        let map = BTreeMap::<String, V>::deserialize(from)?;
        let number = |text: &str| text.parse().ok().and_then(TaskNumber::new);
        map.into_iter()
            .map(|(task, value)| {
                let task = number(&task).ok_or_else(|| D::Error::custom("not a task number"))?;
                Ok((task, value))
            })
            .collect()
    }
}
