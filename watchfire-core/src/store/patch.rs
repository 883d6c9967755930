//! Changes of stored items, field by field.

use crate::model::{
    BackendName, MergeSettings, OnLimit, Project, ProjectStatus, Task, TaskNumber, TaskStatus, Timestamp,
};

/// Change of an optional field.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Patch<T> {
    /// The field stays as it is.
    #[default]
    Keep,
    /// The field gets this value.
    Set(T),
    /// The field is removed.
    Clear,
}

impl<T: Clone> Patch<T> {
    /// Returns the new value, if there is one.
    #[must_use]
    pub fn set(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }

    /// Applies the change to an optional field.
    pub fn apply(&self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Set(value) => *field = Some(value.clone()),
            Self::Clear => *field = None,
        }
    }
}

impl<T> From<Option<T>> for Patch<T> {
    /// `None` clears.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Clear, Self::Set)
    }
}

/// A task to create.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NewTask {
    /// The title, one line, not empty.
    pub title: String,
    /// The instruction.
    pub prompt: String,
    /// Acceptance criteria.
    pub acceptance_criteria: String,
    /// The backend. Default: chosen by project or settings.
    pub agent: Option<BackendName>,
    /// True for `ready`, false for `draft`.
    pub ready: bool,
    /// Position in work order. Default: last.
    pub position: Option<i64>,
    /// Tasks that must be merged first.
    pub depends_on: Vec<TaskNumber>,
    /// Its labels.
    pub labels: Vec<String>,
    /// Number of retries.
    pub retries: Option<u32>,
    /// The caller's id of the request, which makes it idempotent: 1 to 64 bytes.
    pub request_id: Option<String>,
}

impl NewTask {
    /// Returns a draft with this title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Sets the instruction.
    #[must_use]
    pub fn with_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Sets the acceptance criteria.
    #[must_use]
    pub fn with_acceptance_criteria(mut self, criteria: impl Into<String>) -> Self {
        self.acceptance_criteria = criteria.into();
        self
    }

    /// Sets the backend.
    #[must_use]
    pub fn with_agent(mut self, agent: BackendName) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets whether it is ready at once.
    #[must_use]
    pub fn with_ready(mut self, ready: bool) -> Self {
        self.ready = ready;
        self
    }

    /// Sets its position in work order.
    #[must_use]
    pub fn with_position(mut self, position: i64) -> Self {
        self.position = Some(position);
        self
    }

    /// Sets the tasks that must be merged first.
    #[must_use]
    pub fn with_depends_on(mut self, depends_on: Vec<TaskNumber>) -> Self {
        self.depends_on = depends_on;
        self
    }

    /// Sets its labels.
    #[must_use]
    pub fn with_labels(mut self, labels: Vec<String>) -> Self {
        self.labels = labels;
        self
    }

    /// Sets the number of retries.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Makes the request idempotent under `id`.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }
}

/// A change of a task. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TaskPatch {
    /// The title.
    pub title: Option<String>,
    /// The instruction. Empty removes it.
    pub prompt: Option<String>,
    /// Acceptance criteria. Empty removes them.
    pub acceptance_criteria: Option<String>,
    /// The backend.
    pub agent: Patch<BackendName>,
    /// The status.
    pub status: Option<TaskStatus>,
    /// True if the work succeeded.
    pub success: Patch<bool>,
    /// The reason of a failure.
    pub failure_reason: Patch<String>,
    /// The reason why it was not merged.
    pub merge_failure_reason: Patch<String>,
    /// The position.
    pub position: Option<i64>,
    /// Number of sessions so far.
    pub agent_sessions: Option<u32>,
    /// Time of the first start of an agent. An existing one stays.
    pub started_at: Option<Timestamp>,
    /// True to put it in the trash, false to take it out.
    pub deleted: Option<bool>,
    /// Tasks that must be merged first.
    pub depends_on: Option<Vec<TaskNumber>>,
    /// Its labels.
    pub labels: Option<Vec<String>>,
    /// Number of retries.
    pub retries: Patch<u32>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident, $field:ident: $type:ty;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: impl Into<$type>) -> Self {
            self.$field = value.into().into();
            self
        })*
    };
}

impl TaskPatch {
    /// Returns a patch that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the title.
        with_title, title: String;
        /// Sets the instruction.
        with_prompt, prompt: String;
        /// Sets the acceptance criteria.
        with_acceptance_criteria, acceptance_criteria: String;
        /// Sets or clears the backend.
        with_agent, agent: Option<BackendName>;
        /// Sets the status.
        with_status, status: TaskStatus;
        /// Sets or clears the success.
        with_success, success: Option<bool>;
        /// Sets or clears the reason of a failure.
        with_failure_reason, failure_reason: Option<String>;
        /// Sets or clears the reason why it was not merged.
        with_merge_failure_reason, merge_failure_reason: Option<String>;
        /// Sets its position.
        with_position, position: i64;
        /// Sets the number of sessions so far.
        with_agent_sessions, agent_sessions: u32;
        /// Sets the time of the first start of an agent.
        with_started_at, started_at: Timestamp;
        /// Puts it in the trash, or takes it out.
        with_deleted, deleted: bool;
        /// Sets the tasks that must be merged first.
        with_depends_on, depends_on: Vec<TaskNumber>;
        /// Sets its labels.
        with_labels, labels: Vec<String>;
        /// Sets or clears the number of retries.
        with_retries, retries: Option<u32>;
    }

    /// Applies the patch to `task` at the time `now`, with its consequences: the timestamps that the store owns, and
    /// the fields that a return to `ready` or `draft` clears. Returns true if any field has another value now;
    /// otherwise even `updated_at` stays.
    pub fn apply(&self, task: &mut Task, now: &Timestamp) -> bool {
        let before = task.clone();
        if let Some(title) = &self.title {
            task.title.clone_from(title);
        }
        if let Some(prompt) = &self.prompt {
            task.prompt.clone_from(prompt);
        }
        if let Some(criteria) = &self.acceptance_criteria {
            task.acceptance_criteria.clone_from(criteria);
        }
        // Before the other fields: a patch may set the reason of a failure together with the status that
        // clears the old one.
        if let Some(status) = self.status {
            // The results of the last attempt would otherwise pass for claims of the next.
            if before.status == TaskStatus::Done && status != TaskStatus::Done {
                task.success = None;
                task.failure_reason = None;
                task.merge_failure_reason = None;
                task.completed_at = None;
            }
            // Of a refinement that failed.
            if before.status == TaskStatus::Draft && status == TaskStatus::Ready {
                task.failure_reason = None;
            }
            // Setting `done` once more keeps the time at which the task first became done.
            if status == TaskStatus::Done && task.completed_at.is_none() {
                task.completed_at = Some(now.clone());
            }
            task.status = status;
        }
        self.agent.apply(&mut task.agent);
        self.success.apply(&mut task.success);
        self.failure_reason.apply(&mut task.failure_reason);
        self.merge_failure_reason.apply(&mut task.merge_failure_reason);
        self.retries.apply(&mut task.retries);
        if let Some(position) = self.position {
            task.position = position;
        }
        if let Some(sessions) = self.agent_sessions {
            task.agent_sessions = sessions;
        }
        // The first start stays; later sessions count in `agent_sessions`.
        if let (Some(started), None) = (&self.started_at, &task.started_at) {
            task.started_at = Some(started.clone());
        }
        if let Some(deleted) = self.deleted {
            // Deleting again keeps the time of the first deletion.
            task.deleted_at =
                if deleted { task.deleted_at.take().or_else(|| Some(now.clone())) } else { None };
        }
        if let Some(depends_on) = &self.depends_on {
            task.depends_on.clone_from(depends_on);
        }
        if let Some(labels) = &self.labels {
            task.labels.clone_from(labels);
        }
        // Compared as a whole: a field that is set to the value it has is no change, and a write for it would
        // wake every subscriber.
        let changed = *task != before;
        if changed {
            task.updated_at = Some(now.clone());
        }
        changed
    }
}

/// A change of a project. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProjectPatch {
    /// The name.
    pub name: Option<String>,
    /// The status: active or archived.
    pub status: Option<ProjectStatus>,
    /// The colour. Empty removes it.
    pub color: Option<String>,
    /// The merge target. Empty removes it.
    pub default_branch: Option<String>,
    /// The backend.
    pub default_agent: Patch<BackendName>,
    /// The sandbox. Empty removes it.
    pub sandbox: Option<String>,
    /// See [`Project::auto_merge`].
    pub auto_merge: Patch<bool>,
    /// See [`Project::auto_delete_branch`].
    pub auto_delete_branch: Patch<bool>,
    /// See [`Project::auto_start_tasks`].
    pub auto_start_tasks: Patch<bool>,
    /// The definition. Empty removes it.
    pub definition: Option<String>,
    /// The setup commands.
    pub setup: Option<Vec<String>>,
    /// The verify commands.
    pub verify: Option<Vec<String>>,
    /// See [`Project::share`].
    pub share: Option<Vec<String>>,
    /// See [`Project::copy`].
    pub copy: Option<Vec<String>>,
    /// Number of tasks that may run at once.
    pub max_parallel: Patch<u32>,
    /// Time limit of one session.
    pub time_limit: Patch<String>,
    /// Silence after which a session counts as stalled.
    pub stall_after: Patch<String>,
    /// Reaction to a used-up limit.
    pub on_limit: Patch<OnLimit>,
    /// Merge strategy.
    pub merge: Option<MergeSettings>,
}

impl ProjectPatch {
    /// Returns a patch that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the name.
        with_name, name: String;
        /// Sets the status: active or archived.
        with_status, status: ProjectStatus;
        /// Sets the colour.
        with_color, color: String;
        /// Sets the merge target.
        with_default_branch, default_branch: String;
        /// Sets or clears the backend.
        with_default_agent, default_agent: Option<BackendName>;
        /// Sets the sandbox.
        with_sandbox, sandbox: String;
        /// Sets or clears [`Project::auto_merge`].
        with_auto_merge, auto_merge: Option<bool>;
        /// Sets or clears [`Project::auto_delete_branch`].
        with_auto_delete_branch, auto_delete_branch: Option<bool>;
        /// Sets or clears [`Project::auto_start_tasks`].
        with_auto_start_tasks, auto_start_tasks: Option<bool>;
        /// Sets the definition.
        with_definition, definition: String;
        /// Sets the setup commands.
        with_setup, setup: Vec<String>;
        /// Sets the verify commands.
        with_verify, verify: Vec<String>;
        /// Sets [`Project::share`].
        with_share, share: Vec<String>;
        /// Sets [`Project::copy`].
        with_copy, copy: Vec<String>;
        /// Sets or clears the number of tasks that may run at once.
        with_max_parallel, max_parallel: Option<u32>;
        /// Sets or clears the time limit of a session.
        with_time_limit, time_limit: Option<String>;
        /// Sets or clears [`Project::stall_after`].
        with_stall_after, stall_after: Option<String>;
        /// Sets or clears [`Project::on_limit`].
        with_on_limit, on_limit: Option<OnLimit>;
        /// Sets the merge strategy.
        with_merge, merge: MergeSettings;
    }

    /// Applies the patch to `project` at the time `now`. Returns true if any field has another value now; only then
    /// does `updated_at` change.
    pub fn apply(&self, project: &mut Project, now: &Timestamp) -> bool {
        let before = project.clone();
        let set = |from: &Option<String>, to: &mut String| {
            if let Some(text) = from {
                to.clone_from(text);
            }
        };
        set(&self.name, &mut project.name);
        set(&self.color, &mut project.color);
        set(&self.default_branch, &mut project.default_branch);
        set(&self.sandbox, &mut project.sandbox);
        set(&self.definition, &mut project.definition);
        if let Some(status) = self.status {
            project.status = status;
        }
        self.default_agent.apply(&mut project.default_agent);
        self.auto_merge.apply(&mut project.auto_merge);
        self.auto_delete_branch.apply(&mut project.auto_delete_branch);
        self.auto_start_tasks.apply(&mut project.auto_start_tasks);
        self.max_parallel.apply(&mut project.max_parallel);
        self.time_limit.apply(&mut project.time_limit);
        self.stall_after.apply(&mut project.stall_after);
        self.on_limit.apply(&mut project.on_limit);
        let lists = [
            (&self.setup, &mut project.setup),
            (&self.verify, &mut project.verify),
            (&self.share, &mut project.share),
            (&self.copy, &mut project.copy),
        ];
        for (from, to) in lists {
            if let Some(list) = from {
                to.clone_from(list);
            }
        }
        if let Some(merge) = &self.merge {
            project.merge.clone_from(merge);
        }
        let changed = *project != before;
        if changed {
            project.updated_at = Some(now.clone());
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TaskId;

    fn task() -> Task {
        let id: TaskId = "k7xm2nq9".parse().unwrap();
        Task::new(id, TaskNumber::new(1).unwrap(), "t")
    }

    #[test]
    fn going_back_to_ready_starts_over() {
        let (early, late) = (Timestamp::from_unix_millis(0), Timestamp::from_unix_millis(5_000));
        let mut task = task();
        let done = TaskPatch::new()
            .with_status(TaskStatus::Done)
            .with_success(Some(false))
            .with_failure_reason("broken".to_owned());
        assert!(done.apply(&mut task, &early));
        assert_eq!((task.completed_at.clone(), task.success), (Some(early.clone()), Some(false)));
        assert!(!done.apply(&mut task, &late), "nothing new");
        assert_eq!(task.updated_at, Some(early));
        assert!(TaskPatch::new().with_status(TaskStatus::Ready).apply(&mut task, &late));
        assert_eq!((task.completed_at, task.success, task.failure_reason), (None, None, None));
    }

    #[test]
    fn the_first_start_stays() {
        let (early, late) = (Timestamp::from_unix_millis(0), Timestamp::from_unix_millis(5_000));
        let mut task = task();
        TaskPatch::new().with_started_at(early.clone()).apply(&mut task, &early);
        TaskPatch::new().with_started_at(late.clone()).with_deleted(true).apply(&mut task, &late);
        assert_eq!((task.started_at, task.deleted_at), (Some(early), Some(late)));
    }
}
