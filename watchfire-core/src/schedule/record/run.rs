//! Runs: requests that own lives.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::{TaskNumber, Timestamp};
use crate::schedule::{Ending, LifeState, RunOptions, Subject, Wait};

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
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every ready task in work order, including tasks that become ready during the run.
    All,
    /// One task.
    Task(TaskNumber),
    /// These tasks, in work order.
    Tasks(BTreeSet<TaskNumber>),
    /// As [`All`](Self::All); and when nothing is left to do, drafts are refined one by one, and then further tasks
    /// generated, until none are.
    Wildfire,
}

impl Scope {
    /// Returns true if it includes `task`.
    #[must_use]
    pub fn covers(&self, task: TaskNumber) -> bool {
        match self {
            Self::All | Self::Wildfire => true,
            Self::Task(only) => *only == task,
            Self::Tasks(tasks) => tasks.contains(&task),
        }
    }

    /// Returns the tasks that it names.
    pub fn named(&self) -> impl Iterator<Item = TaskNumber> {
        let (one, several) = match self {
            Self::All | Self::Wildfire => (None, None),
            Self::Task(only) => (Some(*only), None),
            Self::Tasks(tasks) => (None, Some(tasks)),
        };
        one.into_iter().chain(several.into_iter().flatten().copied())
    }

    /// Returns true if it names no tasks.
    #[must_use]
    pub fn is_general(&self) -> bool {
        matches!(self, Self::All | Self::Wildfire)
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
    /// The course of wildfire so far.
    #[serde(default, skip_serializing_if = "Course::is_empty")]
    pub course: Course,
}

/// The course of a wildfire run.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Course {
    /// Number of times that tasks were generated.
    pub rounds: u32,
    /// Tasks that were generated.
    pub generated: BTreeSet<TaskNumber>,
    /// Drafts that could not be refined, with the ending of the last attempt. They wait for a person.
    #[serde(with = "by_task")]
    pub left: BTreeMap<TaskNumber, Ending>,
    /// The ending of the last attempt to generate tasks, unless it wrote some.
    pub last: Option<Ending>,
}

impl Course {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes in the end of a step.
    pub(in crate::schedule) fn ended(&mut self, step: Subject, ending: &Ending) {
        match (step, ending) {
            // A closed step did nothing, and a refined draft shows as ready on the next board.
            (_, Ending::Closed) | (Subject::Refine { .. }, Ending::Refined) => {}
            (Subject::Refine { draft }, ending) => drop(self.left.insert(draft, ending.brief())),
            (Subject::Generate, Ending::Generated { tasks }) if !tasks.is_empty() => {
                self.rounds += 1;
                self.generated.extend(tasks);
            }
            (Subject::Generate, ending) => {
                self.rounds += 1;
                self.last = Some(ending.brief());
            }
            _ => {}
        }
    }
}

impl Run {
    /// Returns a run that begins now.
    #[must_use]
    pub fn new(id: RunId, scope: Scope, options: RunOptions, began: Timestamp) -> Self {
        let (endings, course) = (BTreeMap::new(), Course::default());
        Self { id, scope, options, began, stopped: false, ended: None, endings, course }
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
            step: ended.step,
            course: self.course.clone(),
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
    /// The state of a step of wildfire that waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<LifeState>,
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
    /// The state of a step of wildfire that waits for a person.
    pub step: Option<LifeState>,
    /// The course of wildfire.
    pub course: Course,
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
            && self.step.is_none()
            && self.course.left.is_empty()
            && self.course.last.as_ref().is_none_or(Ending::is_good)
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
