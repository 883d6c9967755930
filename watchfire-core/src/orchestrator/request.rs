//! What is asked of an orchestrator, and what it answers.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::Step;
use super::dispatcher::{Message, Outbox};
use crate::journal::{self, TaskState};
use crate::model::{Attempt, BackendName, ProjectId, Task, TaskNumber};
use crate::sandbox::{Enforcement, SandboxChoice};
use crate::schedule::{Ending, RunId, RunSummary, Scope};
use crate::terminal::Size;
use crate::{Error, ErrorKind, Result};

/// Overrides of one run, for every session of it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunOptions {
    /// The backend, whatever task, project and settings say.
    pub agent: Option<BackendName>,
    /// The sandbox, whatever project and settings say.
    pub sandbox: Option<SandboxChoice>,
    /// What happens where the sandbox cannot enforce the policy.
    pub enforcement: Enforcement,
    /// Whether work is merged, whatever project and settings say.
    pub merge: Option<bool>,
    /// The size of the terminals.
    pub size: Size,
}

impl RunOptions {
    /// Puts them into the recipe of a session, so that they outlive the process.
    pub(super) fn to_recipe(&self) -> serde_json::Value {
        serde_json::json!({
            "merge": self.merge,
            "sandbox": self.sandbox.as_ref().map(ToString::to_string),
            "enforcement": self.enforcement,
        })
    }

    /// Those of the run that a session with this recipe belonged to; what cannot be read is as nobody asked.
    pub(super) fn from_recipe(recipe: &serde_json::Value) -> Self {
        let options = &recipe["options"];
        Self {
            merge: options["merge"].as_bool(),
            sandbox: options["sandbox"].as_str().map(SandboxChoice::from),
            enforcement: serde_json::from_value(options["enforcement"].clone()).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// The setters that every request has for its `options`.
macro_rules! overrides {
    () => {
        /// Chooses the backend, whatever task, project and settings say.
        #[must_use]
        pub fn with_agent(mut self, agent: $crate::model::BackendName) -> Self {
            self.options.agent = Some(agent);
            self
        }

        /// Chooses the sandbox, whatever project and settings say.
        #[must_use]
        pub fn with_sandbox(mut self, sandbox: $crate::sandbox::SandboxChoice) -> Self {
            self.options.sandbox = Some(sandbox);
            self
        }

        /// Chooses what happens where the sandbox cannot enforce the policy. The default is that nothing starts.
        #[must_use]
        pub fn with_enforcement(mut self, enforcement: $crate::sandbox::Enforcement) -> Self {
            self.options.enforcement = enforcement;
            self
        }
    };
}
pub(super) use overrides;

/// A request to run tasks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunRequest {
    /// Which tasks.
    pub scope: Scope,
    /// The overrides.
    pub options: RunOptions,
}

impl RunRequest {
    /// All ready tasks in work order, also those that become ready meanwhile, until none is left.
    #[must_use]
    pub fn all() -> Self {
        Self { scope: Scope::All, options: RunOptions::default() }
    }

    /// One task. If it is a draft it becomes ready first.
    #[must_use]
    pub fn task(number: TaskNumber) -> Self {
        Self { scope: Scope::Task(number), options: RunOptions::default() }
    }

    overrides!();

    /// Chooses whether work is merged, whatever project and settings say.
    #[must_use]
    pub fn with_merge(mut self, merge: bool) -> Self {
        self.options.merge = Some(merge);
        self
    }

    /// Chooses the size of the terminals.
    #[must_use]
    pub fn with_size(mut self, size: Size) -> Self {
        self.options.size = size;
        self
    }
}

/// A run under way. Dropping it changes nothing.
#[derive(Clone)]
pub struct Run {
    pub(super) id: RunId,
    pub(super) project: ProjectId,
    pub(super) outbox: Outbox,
    pub(super) summary: watch::Receiver<Option<Arc<RunSummary>>>,
}

impl Run {
    /// Which run.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Ends it: what runs for it alone is stopped, its work captured and kept. Returns at once.
    pub fn stop(&self) {
        self.outbox.send(Message::StopRun { project: self.project.clone(), run: self.id });
    }

    /// Waits until it is over, and says what came of it.
    ///
    /// # Errors
    /// `cancelled` when the orchestrator has shut down first.
    pub async fn wait(&self) -> Result<Arc<RunSummary>> {
        let mut summary = self.summary.clone();
        let cancelled = || Error::new(ErrorKind::Cancelled, "the orchestrator has shut down");
        let summary = summary.wait_for(Option::is_some).await.map_err(|_| cancelled())?;
        summary.clone().ok_or_else(cancelled)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("project", &self.project).finish_non_exhaustive()
    }
}

/// A task with what its file has no word for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task.
    pub task: Task,
    /// The last attempt; 0 before the first.
    pub attempt: Attempt,
    /// What happens with it right now.
    pub step: Option<Step>,
    /// How the last attempt, or its merge, ended.
    pub ending: Option<Ending>,
}

impl TaskInfo {
    /// A task that nothing more is known of.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { task, attempt: Attempt(0), step: None, ending: None }
    }

    /// A task with what a [journal](crate::journal::Journal::read) says of it, for those who do not run it themselves.
    #[must_use]
    pub fn recorded(task: Task, state: &journal::State) -> Self {
        let Some(record) = state.tasks.get(&task.task_number) else { return Self::new(task) };
        let (step, ending) = match &record.state {
            Some(TaskState::Ended { ending }) => (None, Some(ending.clone())),
            Some(TaskState::Running) => (Some(Step::Running), None),
            Some(TaskState::Capturing) => (Some(Step::Capturing), None),
            Some(TaskState::Queued) => (Some(Step::Queued), None),
            Some(TaskState::Merging) => (Some(Step::Merging), None),
            Some(TaskState::Verifying) => (Some(Step::Verifying), None),
            Some(TaskState::Parked { .. }) | None => (None, None),
        };
        Self { task, attempt: record.attempt, step, ending }
    }

    /// The one word that says where it stands: `draft`, `ready`, `running`, `merged`, `conflict`, …
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.step, &self.ending) {
            (Some(step), _) => step.as_str(),
            // Setting it back to draft or ready by hand makes an old ending history.
            (None, Some(ending))
                if self.task.status == crate::model::TaskStatus::Done || !ending.is_good() =>
            {
                ending.word()
            }
            _ if self.task.status == crate::model::TaskStatus::Done && self.task.success == Some(false) => {
                "failed"
            }
            _ => self.task.status.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Entry, State, fold};
    use crate::model::TaskStatus;

    #[test]
    fn a_journal_says_where_a_task_stands() {
        let number = TaskNumber::new(1).unwrap();
        let mut task = Task::new("abcdefgh".parse().unwrap(), number, "t");
        task.status = TaskStatus::Ready;
        let mut state = State::default();
        assert_eq!(TaskInfo::recorded(task.clone(), &state).state(), "ready");
        let mut say = |said| {
            fold(&mut state, &Entry::TaskState { task: number, attempt: Attempt(2), state: said });
            TaskInfo::recorded(task.clone(), &state)
        };
        assert_eq!(say(TaskState::Verifying).state(), "verifying");
        let info = say(TaskState::Ended { ending: Ending::Crashed { reason: "exit code 1".into() } });
        assert_eq!((info.state(), info.attempt), ("crashed", Attempt(2)));
    }
}
