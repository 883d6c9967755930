//! The list of tasks: sections, order, and the selected one.

use watchfire_client::daemon_proto as proto;

use crate::model::Model;

/// A row of the list.
#[derive(Clone, Debug)]
pub(crate) enum Row<'a> {
    /// Title of a section, and the number of its rows.
    Section(&'static str, usize),
    /// A file that is no task.
    Malformed(&'a proto::MalformedTask),
    /// A task.
    Task(&'a proto::Task),
    /// Between two sections.
    Blank,
}

/// Returns the rows of the list, with the tasks that the filter lets through.
pub(crate) fn rows(model: &Model) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (title, status) in [("Draft", "draft"), ("Ready", "ready"), ("Done", "done")] {
        let tasks: Vec<_> =
            model.tasks.iter().filter(|task| task.status == status && is_shown(model, task)).collect();
        if tasks.is_empty() {
            continue;
        }
        if !rows.is_empty() {
            rows.push(Row::Blank);
        }
        rows.push(Row::Section(title, tasks.len()));
        rows.extend(tasks.into_iter().map(Row::Task));
    }
    if !model.malformed.is_empty() && model.filter.0.is_empty() {
        // After the tasks: it is not chosen, and a list of tasks ends where it did.
        rows.extend((!rows.is_empty()).then_some(Row::Blank));
        rows.push(Row::Section("Malformed", model.malformed.len()));
        rows.extend(model.malformed.iter().map(Row::Malformed));
    }
    rows
}

fn is_shown(model: &Model, task: &proto::Task) -> bool {
    if model.filter.0.is_empty() {
        return true;
    }
    let wanted = model.filter.0.to_lowercase();
    let number = format!("#{:04}", task.task_number);
    [task.title.as_str(), &task.state, &number].iter().any(|text| text.to_lowercase().contains(&wanted))
        || task.labels.iter().any(|label| label.to_lowercase().contains(&wanted))
}

/// Returns the numbers of the tasks in the order of the list.
pub(crate) fn numbers(model: &Model) -> Vec<i32> {
    let tasks = rows(model).into_iter().filter_map(|row| match row {
        Row::Task(task) => Some(task.task_number),
        _ => None,
    });
    tasks.collect()
}

/// Returns the first row that is shown in a list of `height` rows: as before, unless the selected task would not be among them.
pub(crate) fn first_row(model: &Model, height: usize) -> usize {
    let (rows, height) = (rows(model), height.max(1));
    let at = rows.iter().position(|row| matches!(row, Row::Task(task) if task.task_number == model.selected));
    // No row is empty below the last one.
    let most = rows.len().saturating_sub(height);
    let is_last = |at: usize| !rows.iter().skip(at + 1).any(|row| matches!(row, Row::Task(_)));
    match at {
        // The title of the first section shows with its first task, and what comes after the tasks with the last one.
        None | Some(0 | 1) => 0,
        Some(at) if is_last(at) => most.min(at),
        Some(at) => model.list_at.min(most).clamp((at + 1).saturating_sub(height), at),
    }
}

/// Selects the first task if the selected one is not in the list.
pub(crate) fn keep_selected(model: &mut Model) {
    keep_selected_at(model, 0);
}

/// Selects the task at a place of the list if the selected one is not in it.
pub(crate) fn keep_selected_at(model: &mut Model, at: usize) {
    let numbers = numbers(model);
    if !numbers.contains(&model.selected) {
        model.selected = numbers.get(at).or(numbers.last()).copied().unwrap_or(0);
    }
}

/// Moves the selection by `by` tasks.
pub(crate) fn select(model: &mut Model, by: isize) {
    let numbers = numbers(model);
    let Some(at) = numbers.iter().position(|number| *number == model.selected) else {
        return keep_selected(model);
    };
    let last = numbers.len().saturating_sub(1);
    let next = at.saturating_add_signed(by).min(last);
    model.selected = numbers.get(next).copied().unwrap_or(0);
}

/// Moves a task to the place of another one of its section.
pub(crate) fn carry(model: &mut Model, number: i32, to: i32) {
    let place = |number| model.tasks.iter().position(|task| task.task_number == number);
    let (Some(from), Some(to)) = (place(number), place(to)) else { return };
    if model.tasks[from].status == model.tasks[to].status {
        let task = model.tasks.remove(from);
        model.tasks.insert(to, task);
        model.is_reordered = true;
    }
}

/// Lets the selected task change places with its neighbour in its section, and returns the order of all tasks.
pub(crate) fn moved(model: &mut Model, by: isize) -> Option<Vec<i32>> {
    let selected = model.task(model.selected)?;
    let of = |task: &&proto::Task| task.status == selected.status;
    let section: Vec<_> = model.tasks.iter().filter(of).map(|task| task.task_number).collect();
    let at = section.iter().position(|number| *number == selected.task_number)?;
    let other = *section.get(at.checked_add_signed(by)?)?;
    let place = |number| model.tasks.iter().position(|task| task.task_number == number);
    let (a, b) = (place(selected.task_number)?, place(other)?);
    // At once: the next key may come before the daemon's answer.
    model.tasks.swap(a, b);
    Some(model.tasks.iter().map(|task| task.task_number).collect())
}
