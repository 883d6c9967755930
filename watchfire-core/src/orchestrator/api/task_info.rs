//! Tasks with their state.

use serde::Serialize;

use crate::journal;
use crate::model::{Attempt, Task, TaskStatus};
use crate::schedule::{Ending, Ledger, Life, LifeState, MergeRecord, Schedule, TaskRecord, Wait};

/// A task with the state that its file has no word for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task.
    pub task: Task,
    /// Its life, if one is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<Life>,
    /// Its latest life in brief; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<TaskRecord>,
    /// The reason why a ready task without a life waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

impl TaskInfo {
    /// Returns a task of which nothing else is known.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { task, life: None, last: None, wait: None }
    }

    /// Returns a task with its record in a [journal](crate::journal::Journal::read), for programs that do not run it
    /// themselves.
    #[must_use]
    pub fn recorded(task: Task, state: &journal::State) -> Self {
        Self::with(task, &state.ledger)
    }

    pub(super) fn of(task: Task, schedule: &Schedule) -> Self {
        let mut info = Self::with(task, schedule.ledger());
        if info.life.is_none() && info.task.status == TaskStatus::Ready {
            info.wait = schedule.expected_wait(info.task.task_number);
        }
        info
    }

    fn with(task: Task, ledger: &Ledger) -> Self {
        let life = ledger.life_of(task.task_number).cloned();
        let last = ledger.tasks.get(&task.task_number).cloned();
        Self { task, life, last, wait: None }
    }

    /// Returns the latest attempt, or 0 before the first.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        self.last.as_ref().map_or(Attempt(0), |last| last.attempt)
    }

    /// Returns the state of its current life.
    #[must_use]
    pub fn state(&self) -> Option<&LifeState> {
        self.life.as_ref().map(|life| &life.state)
    }

    /// Returns the commit of its merge, if that is how it ended and nothing has begun since.
    #[must_use]
    pub fn merged(&self) -> Option<&str> {
        match self.ending() {
            Some(Ending::Merged { commit, .. }) if self.life.is_none() => commit.as_deref(),
            _ => None,
        }
    }

    /// Returns the last merge of its work, whatever came after it.
    #[must_use]
    pub fn last_merge(&self) -> Option<MergeRecord> {
        self.last.as_ref()?.last_merge()
    }

    /// Returns the ending of the latest life, unless a person has changed the task since.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        let ending = self.last.as_ref()?.ending.as_ref()?;
        // By hand, a person may set a merged task back to draft or ready, or mark a failed one as done. Both
        // outdate the ending.
        let fixed = self.task.claims_success() && self.last.as_ref().is_some_and(|last| !last.claimed);
        match self.task.status {
            TaskStatus::Done if fixed && !ending.is_good() => None,
            TaskStatus::Done => Some(ending),
            _ => Some(ending).filter(|ending| !ending.is_good()),
        }
    }

    /// Returns the word for its state: `draft`, `ready`, `running`, `merged`, `conflict`, …
    #[must_use]
    pub fn word(&self) -> &'static str {
        if let Some(state) = self.state() {
            return state.word();
        }
        match self.ending() {
            Some(ending) => ending.word(),
            None if self.task.status == TaskStatus::Done && self.task.success == Some(false) => "failed",
            None => self.task.status.as_str(),
        }
    }

    /// Returns a detail for people: the reason why it waits, asks or is held, or how it ended.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self.state() {
            Some(state) => state.detail(),
            None => match self.ending() {
                Some(ending) => ending.reason().map(std::borrow::Cow::into_owned),
                None => self.wait.as_ref().map(ToString::to_string),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{TaskNumber, Timestamp};
    use crate::schedule::{Change, LifeId, Subject};

    #[test]
    fn a_journal_says_where_a_task_stands() {
        let number = TaskNumber::new(1).unwrap();
        let mut task = Task::new("abcdefgh".parse().unwrap(), number, "t");
        task.status = TaskStatus::Ready;
        let mut state = journal::State::default();
        assert_eq!(TaskInfo::recorded(task.clone(), &state).word(), "ready");
        let now = Timestamp::from_unix_millis(0);
        let mut life = Life::new(LifeId(1), Subject::Task { task: number }, now);
        life.attempt = Attempt(2);
        let mut say = |said| {
            life.state = said;
            state.ledger.apply(&Change::Life(Box::new(life.clone())));
            TaskInfo::recorded(task.clone(), &state)
        };
        assert_eq!(say(LifeState::Verifying { command: "make".into() }).word(), "verifying");
        let info = say(LifeState::Ended { how: Ending::Crashed { reason: "exit code 1".into() } });
        assert_eq!((info.word(), info.attempt()), ("crashed", Attempt(2)));
    }
}
