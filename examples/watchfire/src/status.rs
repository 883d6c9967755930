//! Shows the state of a task in one mark and one word.

use serde_json::{Value, json};
use watchfire_core::journal::State;
use watchfire_core::model::{Task, TaskStatus};
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::schedule::LifeState;
use watchfire_core::store::Malformed;

use crate::style::Style;
use crate::text;

/// Returns a task with its state from the journal. If no process has the project open, no life is running.
pub(crate) fn info(task: Task, state: &State, is_open: bool) -> TaskInfo {
    let mut info = TaskInfo::recorded(task, state);
    // The journal of a killed process still has its lives. Those that wait for a person do so without a
    // process, too.
    let gone = info.life.take_if(|life| !is_open && !life.waits_for_person());
    // The next start tries again. Until then the task is not done, whatever its file says.
    if let (Some(setback), Some(last)) = (gone.and_then(|life| life.setback), &mut info.last) {
        (last.ending, last.claimed) = (Some(setback), true);
    }
    info
}

/// Returns true if an agent, or the merge of its work, is under way.
pub(crate) fn is_at_work(info: &TaskInfo) -> bool {
    info.life.as_ref().is_some_and(|life| !life.waits_for_person())
}

/// Returns the mark of a task in lists: `[ ]`, `[R]`, `[●]`, `[!]`, `[✓]` or `[✗]`.
pub(crate) fn mark(info: &TaskInfo, style: Style) -> String {
    match &info.life {
        Some(life) if life.waits_for_person() => return style.yellow("[!]"),
        Some(_) => return style.yellow("[●]"),
        None => {}
    }
    let is_bad = info.ending().is_some_and(|ending| !ending.is_good());
    match info.task.status {
        // A task may be done by its file, and its work still not merged.
        TaskStatus::Done if info.task.success == Some(false) || is_bad => style.red("[✗]"),
        TaskStatus::Done => style.green("[✓]"),
        // Whatever became of it before: it runs next.
        TaskStatus::Ready => style.cyan("[R]"),
        TaskStatus::Draft => "[ ]".to_owned(),
    }
}

/// Returns the word for the state of a task. Of a merge that one of `all` has taken back it says so.
pub(crate) fn word(info: &TaskInfo, all: &[TaskInfo]) -> String {
    let by = info.taken_back_by(all).filter(|_| info.word() == MERGED);
    by.map_or_else(
        || info.word().to_owned(),
        |by| format!("{MERGED}, taken back by #{}", by.task.task_number),
    )
}

pub(crate) const MERGED: &str = "merged";

/// Returns why no run ever starts a task: it depends on one that is neither in `all` nor malformed, or on itself.
pub(crate) fn never_starts(task: &Task, all: &[&Task], malformed: &[Malformed]) -> Option<String> {
    let open =
        |number| all.iter().find(|it| it.task_number == number && it.status != TaskStatus::Done).copied();
    // A malformed one may come back once its file is mended.
    let is_there = |number| {
        all.iter().any(|it| it.task_number == number) || malformed.iter().any(|it| it.number == Some(number))
    };
    open(task.task_number)?;
    if let Some(missing) = task.depends_on.iter().find(|number| !is_there(**number)) {
        return Some(format!("depends on #{missing}, which is not there or in the trash: it never starts"));
    }
    let below = |number| open(number).map(|task| task.depends_on.clone()).unwrap_or_default();
    let ring: Vec<_> = Task::ring(task.task_number, below)?.iter().map(|it| format!("#{it}")).collect();
    Some(format!("depends on itself ({}): it never starts", ring.join(" -> ")))
}

/// Returns the remark beside the title, if the mark does not say everything.
pub(crate) fn remark(info: &TaskInfo, all: &[TaskInfo]) -> String {
    let state = word(info, all);
    let first = |reason: String| text::line(reason.lines().next().unwrap_or_default());
    // The heading of the list already says it.
    if state == info.task.status.as_str() {
        let refinement = info.task.failure_reason.clone().filter(|_| info.task.status == TaskStatus::Draft);
        return refinement.map(first).unwrap_or_default();
    }
    let reason = reason(info).map(first);
    reason.map_or_else(|| state.clone(), |reason| format!("{state}: {reason}"))
}

fn reason(info: &TaskInfo) -> Option<String> {
    let said = || match info.word() {
        // A task that a person marked as failed has its reason only in the file, and so has a draft that could not be refined.
        "failed" | "draft" => info.task.failure_reason.clone(),
        _ => None,
    };
    info.detail().or_else(said)
}

/// Returns a task as JSON: the fields of its file, and its state.
pub(crate) fn json(info: &TaskInfo) -> Value {
    let mut value = serde_json::to_value(&info.task).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("state".to_owned(), info.word().into());
        fields.insert("attempt".to_owned(), info.attempt().0.into());
        fields.insert("reason".to_owned(), reason(info).map_or(Value::Null, |reason| json!(reason)));
        let obstacle = match info.state() {
            Some(LifeState::Held { by, .. } | LifeState::Incomplete { by, .. }) => json!(by),
            _ => Value::Null,
        };
        fields.insert("obstacle".to_owned(), obstacle);
    }
    value
}
