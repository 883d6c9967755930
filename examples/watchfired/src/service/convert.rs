//! Messages of the library's types.

use watchfire_api::daemon_proto as proto;
use watchfire_core::model::{Project, ProjectEntry, ProjectStatus, TaskNumber, TaskStatus, Timestamp};
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::schedule::LifeState;
use watchfire_core::{Error, ErrorKind, Result};

use crate::notify;

/// Returns a time as text, or nothing for none.
pub(super) fn time(time: Option<&Timestamp>) -> String {
    time.map(ToString::to_string).unwrap_or_default()
}

pub(super) fn timestamp(time: &Timestamp) -> prost_types::Timestamp {
    let millis = time.unix_millis();
    let nanos = i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or(0);
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

/// Returns a task's number.
///
/// # Errors
/// `invalid_input` for a number that no task has.
pub(super) fn number(number: i32) -> Result<TaskNumber> {
    let task = u32::try_from(number).ok().and_then(TaskNumber::new);
    task.ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "task numbers begin at 1").with("task_number", number)
    })
}

pub(super) fn numbers(given: &[i32]) -> Result<Vec<TaskNumber>> {
    given.iter().map(|it| number(*it)).collect()
}

/// Returns the number of a task on the wire. Numbers in files have at most eight digits.
pub(super) fn wire(number: TaskNumber) -> i32 {
    i32::try_from(number.value()).unwrap_or(i32::MAX)
}

pub(super) fn task_status(text: &str) -> Result<TaskStatus> {
    let all = [TaskStatus::Draft, TaskStatus::Ready, TaskStatus::Done];
    all.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "not a status, expected draft, ready or done")
            .with("status", format_args!("{text:?}"))
    })
}

/// Returns the text, unless it is empty.
pub(super) fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Refuses a title or a name that a terminal would not show as one line.
pub(super) fn check_line(field: &'static str, text: &str) -> Result<()> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => {
            let message = "a control character or a line break, expected one line";
            Err(Error::new(ErrorKind::InvalidInput, message)
                .with("field", field)
                .with("found", format_args!("{c:?}")))
        }
    }
}

pub(super) fn task(info: TaskInfo, project: &str) -> proto::Task {
    let (state, detail) = (info.word().to_owned(), info.detail().unwrap_or_default());
    let held_by = match info.state() {
        Some(LifeState::Held { by, .. } | LifeState::Incomplete { by, .. }) => by.kind.code().to_owned(),
        _ => String::new(),
    };
    let failed = info.ending().is_some_and(notify::is_failure);
    let task = info.task;
    proto::Task {
        task_id: task.task_id.to_string(),
        task_number: wire(task.task_number),
        project_id: project.to_owned(),
        title: task.title,
        prompt: task.prompt,
        acceptance_criteria: task.acceptance_criteria,
        status: task.status.as_str().to_owned(),
        success: task.success,
        failure_reason: task.failure_reason.unwrap_or_default(),
        merge_failure_reason: task.merge_failure_reason.unwrap_or_default(),
        position: task.position,
        agent_sessions: i32::try_from(task.agent_sessions).unwrap_or(i32::MAX),
        created_at: time(task.created_at.as_ref()),
        started_at: time(task.started_at.as_ref()),
        completed_at: time(task.completed_at.as_ref()),
        updated_at: time(task.updated_at.as_ref()),
        deleted_at: time(task.deleted_at.as_ref()),
        agent: task.agent.map(|agent| agent.to_string()).unwrap_or_default(),
        depends_on: task.depends_on.into_iter().map(wire).collect(),
        labels: task.labels,
        state,
        detail,
        held_by,
        failed,
    }
}

/// Returns a project, with the defaults of the settings for what it leaves open.
pub(super) fn project(
    entry: &ProjectEntry,
    project: Project,
    defaults: &watchfire_core::model::Defaults,
) -> proto::Project {
    let status = match project.status {
        ProjectStatus::Archived => "archived",
        _ => "active",
    };
    proto::Project {
        project_id: entry.project_id.to_string(),
        name: project.name,
        path: entry.path.display().to_string(),
        status: status.to_owned(),
        color: project.color,
        default_branch: project.default_branch,
        default_agent: project.default_agent.map(|agent| agent.to_string()).unwrap_or_default(),
        sandbox: project.sandbox,
        auto_merge: project.auto_merge.unwrap_or(defaults.auto_merge),
        auto_delete_branch: project.auto_delete_branch.unwrap_or(defaults.auto_delete_branch),
        auto_start_tasks: project.auto_start_tasks.unwrap_or(defaults.auto_start_tasks),
        definition: project.definition,
        created_at: time(project.created_at.as_ref()),
        updated_at: time(project.updated_at.as_ref()),
        next_task_number: project.next_task_number,
        position: entry.position,
        problem: String::new(),
    }
}
