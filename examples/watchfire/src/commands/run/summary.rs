//! The end of a run, for people and for programs.

use std::collections::BTreeMap;

use serde_json::json;
use watchfire_core::backend::IssueKind;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{Spent, TaskInfo};
use watchfire_core::schedule::{Ending, LifeState, RunSummary, StopReason, Wait};
use watchfire_core::store::Malformed;

use crate::out::Out;
use crate::text;

/// The end of a run, and its tasks at that time.
pub(crate) struct Ended {
    pub(crate) summary: RunSummary,
    pub(crate) tasks: Vec<TaskInfo>,
    pub(crate) spent: Spent,
    /// Task files that could not be read, where the run was for all tasks.
    pub(crate) malformed: Vec<Malformed>,
    /// The waiting tasks that no run ever starts, with the reason.
    pub(crate) never: BTreeMap<TaskNumber, String>,
}

impl Ended {
    /// Returns true if nothing is left for a person to do. A task file that could not be read is no success.
    pub(super) fn is_good(&self) -> bool {
        self.summary.is_good() && self.malformed.is_empty()
    }

    /// Returns why a task waits.
    fn why(&self, task: TaskNumber, wait: &Wait) -> String {
        self.never.get(&task).cloned().unwrap_or_else(|| wait.to_string())
    }

    /// Joins this end with the end of a later run. Of a task that was in both, the later ending counts.
    pub(super) fn and_then(self, mut later: Self) -> Self {
        // `append` replaces equal keys by the later ones.
        let mut endings = self.summary.endings;
        endings.append(&mut later.summary.endings);
        later.summary.endings = endings;
        Self { spent: self.spent.plus(later.spent), ..later }
    }
}

pub(super) fn titles(tasks: &[TaskInfo]) -> BTreeMap<TaskNumber, String> {
    tasks.iter().map(|info| (info.task.task_number, text::line(&info.task.title))).collect()
}

pub(super) fn json_summary(ended: &Ended) -> serde_json::Value {
    let Ended { summary, spent, malformed, .. } = ended;
    let malformed: Vec<_> = malformed.iter().map(ToString::to_string).collect();
    let endings: Vec<_> = summary
        .endings
        .iter()
        .map(|(number, ending)| {
            json!({ "task": number.value(), "state": ending.word(), "reason": ending.reason(), "good": ending.is_good() })
        })
        .collect();
    let waiting: Vec<_> = summary
        .waiting
        .iter()
        .map(|(number, why)| json!({ "task": number.value(), "reason": ended.why(*number, why) }))
        .collect();
    let open: Vec<_> = summary
        .open
        .iter()
        .map(|(number, state)| {
            json!({ "task": number.value(), "state": state.word(), "reason": state.detail() })
        })
        .collect();
    let waiting_for: Vec<_> =
        summary.open.iter().map(|(number, state)| waiting_for(*number, state)).collect();
    json!({
        "schema": 1, "change": "summary", "good": ended.is_good(), "stopped": summary.stopped,
        "endings": endings, "open": open, "waiting": waiting, "waiting_for": waiting_for, "step": summary.step, "course": summary.course,
        "malformed": malformed, "spent": spent,
    })
}

/// Returns what a task waits for, for programs.
fn waiting_for(number: TaskNumber, state: &LifeState) -> serde_json::Value {
    let (what, questions) = match state {
        LifeState::Asking { questions, .. } => ("answer", questions.as_slice()),
        LifeState::Limited { .. } => ("limit", &[][..]),
        _ => ("obstacle", &[][..]),
    };
    let questions: Vec<_> =
        questions.iter().map(|asked| json!({ "id": asked.id, "question": asked.question })).collect();
    json!({ "task": number.value(), "for": what, "questions": questions })
}

/// Returns the summary: a line for each task that a person should look at, and a line of counts.
pub(crate) fn text_summary(out: Out, ended: &Ended) -> String {
    let Ended { summary, tasks, spent, malformed, .. } = ended;
    let titles = titles(tasks);
    let title = |number: &TaskNumber| titles.get(number).map(String::as_str).unwrap_or_default();
    let course = &summary.course;
    let did_nothing = course.last.is_none() && course.left.is_empty() && summary.step.is_none();
    if summary.endings.is_empty()
        && summary.waiting.is_empty()
        && summary.open.is_empty()
        && did_nothing
        && malformed.is_empty()
    {
        let stopped = if summary.stopped { "stopped before anything ran" } else { "no task is ready" };
        return format!("{stopped}\n");
    }
    let mut lines = vec![String::new()];
    // Good ends are only counted: the view has shown them.
    for (number, ending) in summary.endings.iter().filter(|(_, ending)| !ending.is_good()) {
        lines.push(format!("{} #{number} {}: {}", out.style.red("✗"), title(number), ending.word()));
        let reason = text::lines(&ending.reason().unwrap_or_default());
        let shown: Vec<_> = reason.lines().collect();
        // The end of a long output, such as a test's, says more than its beginning.
        let skipped = shown.len().saturating_sub(8);
        if skipped > 0 {
            lines.push(out.style.dim(&format!("    … {skipped} lines before")));
        }
        lines.extend(shown.iter().skip(skipped).map(|line| format!("    {line}").trim_end().to_owned()));
        // A task that is gone had its sessions, too.
        let it = tasks.iter().find(|info| info.task.task_number == *number);
        let started = it.is_none_or(|info| info.task.agent_sessions > 0);
        let is_done = it.is_some_and(|info| info.task.claims_success());
        if let Some(next) = next_step(number, ending, started, is_done) {
            lines.push(format!("    {}", out.style.dim(&next)));
        }
    }
    for (number, state) in &summary.open {
        let state_text = text::line(&state.to_string());
        lines.push(format!("{} #{number} {}: {state_text}", out.style.yellow("!"), title(number)));
        if let Some(next) = next_step_of(*number, state) {
            lines.push(format!("    {}", out.style.dim(&next)));
        }
    }
    for (number, why) in &summary.waiting {
        lines.push(format!(
            "{} #{number} {}: {}",
            out.style.yellow("…"),
            title(number),
            text::line(&ended.why(*number, why))
        ));
    }
    for (number, ending) in &course.left {
        let why = text::line(&ending.to_string());
        lines.push(format!("{} #{number} {}: still a draft: {why}", out.style.yellow("!"), title(number)));
    }
    if let Some(ending) = course.last.as_ref().filter(|ending| !ending.is_good()) {
        lines.push(format!("{} generate: {}", out.style.red("✗"), text::line(&ending.to_string())));
    }
    for fault in malformed {
        lines.push(format!("{} not run: {}", out.style.red("✗"), text::line(&fault.to_string())));
    }
    if let Some(state) = &summary.step {
        lines.push(format!("{} wildfire: {}", out.style.yellow("!"), text::line(&state.to_string())));
    }
    // The first line is empty too: without others one blank line is enough.
    if lines.len() > 1 {
        lines.push(String::new());
    }
    let count =
        |wanted: fn(&Ending) -> bool| summary.endings.values().filter(|ending| wanted(ending)).count();
    let merged = count(|ending| matches!(ending, Ending::Merged { .. }));
    let quiet = count(|ending| matches!(ending, Ending::Nothing));
    let kept = count(|ending| matches!(ending, Ending::Unmerged));
    let bad = count(|ending| !ending.is_good());
    let mut parts = vec![out.style.green(&format!("{merged} merged"))];
    let mut add = |number: usize, text: &str| {
        if number > 0 {
            parts.push(format!("{number} {text}"));
        }
    };
    add(course.generated.len(), "generated");
    add(quiet, "done with nothing to merge");
    add(kept, "done and kept on a branch");
    if !summary.open.is_empty() {
        let waiting = text::count(summary.open.len(), "task");
        parts.push(out.style.yellow(&format!("{waiting} waiting for you")));
    }
    if !course.left.is_empty() {
        parts.push(out.style.yellow(&text::count(course.left.len(), "draft")));
    }
    if bad > 0 {
        parts.push(out.style.red(&format!("{bad} not merged")));
    }
    if !summary.waiting.is_empty() {
        parts.push(out.style.yellow(&format!("{} not started", summary.waiting.len())));
    }
    if summary.stopped {
        parts.push("stopped".to_owned());
    }
    if !spent.is_nothing() {
        parts.push(spent.to_string());
    }
    lines.push(parts.join(", "));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns what a person may do about a task that waits for them.
pub(in crate::commands) fn next_step_of(number: TaskNumber, state: &LifeState) -> Option<String> {
    match state {
        LifeState::Held { by, .. } | LifeState::Incomplete { by, .. } => Some(by.kind.cure().to_owned()),
        LifeState::Asking { .. } => Some(format!("watchfire answer {} \"…\"", number.value())),
        LifeState::Limited { issue, .. } if issue.kind == IssueKind::VariablesGone => {
            Some(format!("from a shell that has them: watchfire resume {}", number.value()))
        }
        LifeState::Limited { issue, .. } if issue.kind == IssueKind::AgentMissing => {
            Some(format!("install it, or name another agent; then: watchfire resume {}", number.value()))
        }
        LifeState::Limited { issue, until, .. } => {
            let by_itself = match issue.reset_at.is_some() && until.is_none() {
                true => "; `on_limit: wait` in project.yaml goes on by itself",
                false => "",
            };
            Some(format!("when it is over: watchfire resume {}{by_itself}", number.value()))
        }
        _ => None,
    }
}

/// Returns what a person may do about an ending.
fn next_step(number: &TaskNumber, ending: &Ending, started: bool, is_done: bool) -> Option<String> {
    let number = number.value();
    Some(match ending {
        Ending::Conflict { .. } | Ending::VerifyFailed { .. } | Ending::Failed { .. } => {
            format!(
                "its work is on watchfire/{number:04}; watchfire task ready {number} lets an agent try again"
            )
        }
        Ending::Limited { until: Some(_), .. } => format!(
            "its work is on watchfire/{number:04}; when the limit is over: watchfire run {number}. `on_limit: wait` goes on by itself"
        ),
        Ending::Limited { .. } => {
            let did = match started {
                true => format!("what it did is on watchfire/{number:04}"),
                false => "no agent was started".to_owned(),
            };
            format!("{did}; change `budget` in settings.yaml, then: watchfire run {number}")
        }
        Ending::SetupFailed { .. } => {
            "mend `setup` in .watchfire/project.yaml, or what it runs; no agent was started".to_owned()
        }
        Ending::Crashed { .. } | Ending::Unclaimed { .. } | Ending::TimedOut { .. } => {
            format!("its work is on watchfire/{number:04}; watchfire logs {number} shows its session")
        }
        Ending::Stopped { by: StopReason::Requested, .. } if is_done => {
            format!("its agent had finished; watchfire branches merge {number} merges its work")
        }
        Ending::Stopped { by: StopReason::Requested, .. } => {
            format!("its work is on watchfire/{number:04}; watchfire run {number} goes on with it")
        }
        _ => return None,
    })
}
