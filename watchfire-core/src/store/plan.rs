//! Rules that all stores of this crate share.

use std::collections::BTreeSet;

use super::{NewTask, Patch, ProjectPatch, TaskPatch, Versioned};
use crate::model::form::{below_root, check_color, check_count, check_lines, duration};
use crate::model::{Task, TaskId, TaskNumber, TaskStatus, Timestamp};
use crate::{Error, ErrorKind, Result};

/// Returns the task that `new` describes, with the number and id from the store, beside `others`.
pub(super) fn new_task<'a>(
    new: NewTask,
    id: TaskId,
    number: TaskNumber,
    others: impl Iterator<Item = &'a Task>,
    now: &Timestamp,
) -> Task {
    // Never below 1, even if all others have negative positions.
    let last = others.map(|task| task.position).max().unwrap_or(0).max(0);
    let mut task = Task::new(id, number, new.title);
    task.prompt = new.prompt;
    task.acceptance_criteria = new.acceptance_criteria;
    task.agent = new.agent;
    task.status = if new.ready { TaskStatus::Ready } else { TaskStatus::Draft };
    task.position = new.position.unwrap_or_else(|| last.saturating_add(1));
    task.depends_on = new.depends_on;
    task.labels = new.labels;
    task.retries = new.retries;
    task.request_id = new.request_id;
    task.created_at = Some(now.clone());
    task.updated_at = Some(now.clone());
    task
}

/// Upper bound for the id of a request, in bytes.
const LONGEST_ID: usize = 64;

/// Returns the task that an earlier request with the id of `new` created, in the trash or not.
pub(super) fn created<'a>(
    new: &NewTask,
    mut tasks: impl Iterator<Item = &'a Versioned<Task>>,
) -> Option<Versioned<Task>> {
    let id = new.request_id.as_ref()?;
    tasks.find(|task| task.value.request_id.as_ref() == Some(id)).cloned()
}

/// Rejects a new task without a title, with an unknown dependency, or with an impossible id of its request.
pub(super) fn check_new(new: &NewTask, exists: impl Fn(TaskNumber) -> bool) -> Result<()> {
    if new.title.trim().is_empty() {
        return Err(Error::new(ErrorKind::InvalidInput, "the title is empty, expected one line"));
    }
    if new.request_id.as_ref().is_some_and(|id| !(1..=LONGEST_ID).contains(&id.len())) {
        return Err(Error::new(ErrorKind::InvalidInput, "the id of a request has 1 to 64 bytes"));
    }
    check_depends_on(&new.depends_on, exists)
}

/// Rejects a patch with an empty title, or with a new dependency on a task that does not exist or on the task itself, also by way of
/// others. `depends_on` returns the dependencies of each task that exists.
pub(super) fn check_patch(
    number: TaskNumber,
    patch: &TaskPatch,
    depends_on: impl Fn(TaskNumber) -> Option<Vec<TaskNumber>>,
) -> Result<()> {
    if patch.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
        return Err(Error::new(ErrorKind::InvalidInput, "the title is empty, expected one line"));
    }
    let (Some(wanted), Some(present)) = (&patch.depends_on, depends_on(number)) else { return Ok(()) };
    // What stands in the file already must not keep a person from mending the rest.
    let new: Vec<_> = wanted.iter().copied().filter(|it| !present.contains(it)).collect();
    check_depends_on(&new, |number| depends_on(number).is_some())?;
    let after = |task| if task == number { new.clone() } else { depends_on(task).unwrap_or_default() };
    let Some(ring) = Task::ring(number, after) else { return Ok(()) };
    let ring: Vec<_> = ring.iter().map(|task| task.value().to_string()).collect();
    let error = Error::new(ErrorKind::InvalidInput, "a task cannot depend on itself");
    Err(error.with("task", number).with("depends_on", ring.join(" -> ")))
}

fn check_depends_on(tasks: &[TaskNumber], exists: impl Fn(TaskNumber) -> bool) -> Result<()> {
    match tasks.iter().find(|number| !exists(**number)) {
        Some(number) => Err(Error::new(ErrorKind::InvalidInput, "depends on a task that does not exist")
            .with("depends_on", number)),
        None => Ok(()),
    }
}

/// Rejects a patch with a value that could not be read again: a colour, a time span or a path that is none, and the like.
pub(super) fn check_project(patch: &ProjectPatch) -> Result<()> {
    for (field, checked) in [
        ("color", patch.color.as_deref().map_or(Ok(()), check_color)),
        ("time_limit", check_span(&patch.time_limit)),
        ("stall_after", check_span(&patch.stall_after)),
        ("share", check_paths(patch.share.as_deref())),
        ("copy", check_paths(patch.copy.as_deref())),
        ("setup", check_lines(patch.setup.as_deref().unwrap_or_default())),
        ("verify", check_lines(patch.verify.as_deref().unwrap_or_default())),
        ("max_parallel", check_count(patch.max_parallel.set().copied())),
        ("merge.batch", check_count(patch.merge.as_ref().and_then(|merge| merge.batch))),
    ] {
        checked.map_err(|error| error.with("field", field))?;
    }
    if patch.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
        return Err(Error::new(ErrorKind::InvalidInput, "the name is empty").with("field", "name"));
    }
    Ok(())
}

/// Rejects what is no path below the project's root.
pub(super) fn check_paths(paths: Option<&[String]>) -> Result<()> {
    paths.unwrap_or_default().iter().try_for_each(|path| below_root(path).map(drop))
}

fn check_span(span: &Patch<String>) -> Result<()> {
    span.set().map_or(Ok(()), |text| duration(text).map(drop))
}

/// Returns the positions that change when `order` comes first, as 1, 2, …. The other tasks keep their order, and move
/// only if they would be in the way.
pub(super) fn reorder(tasks: &[Task], order: &[TaskNumber]) -> Result<Vec<(TaskNumber, i64)>> {
    let mut seen = BTreeSet::new();
    for number in order {
        if !seen.insert(*number) {
            return Err(Error::new(ErrorKind::InvalidInput, "a task is named twice").with("task", number));
        }
        if !tasks.iter().any(|task| task.task_number == *number) {
            return Err(no_such_task(*number));
        }
    }
    let mut others: Vec<&Task> = tasks.iter().filter(|task| !seen.contains(&task.task_number)).collect();
    others.sort_by_key(|task| task.work_order());
    let length = i64::try_from(order.len()).unwrap_or(i64::MAX);
    // Moving fewer tasks rewrites fewer files, which people may have open.
    if others.iter().all(|task| task.position > length) {
        others.clear();
    }
    let all = order.iter().copied().chain(others.iter().map(|task| task.task_number));
    Ok((1..)
        .zip(all)
        .filter(|(position, number)| {
            tasks.iter().any(|task| task.task_number == *number && task.position != *position)
        })
        .map(|(position, number)| (number, position))
        .collect())
}

pub(super) fn no_such_task(number: TaskNumber) -> Error {
    Error::new(ErrorKind::NotFound, "no such task").with("task", number)
}

pub(super) fn not_in_trash(number: TaskNumber) -> Error {
    Error::new(ErrorKind::InvalidInput, "the task is not in the trash: delete it first").with("task", number)
}
