//! The meaning of errors and captured work for an attempt.

use crate::backend::{Issue, IssueKind};
use crate::model::TaskNumber;
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{Ending, NoticeCode, Outcome};
use crate::workspace::{Captured, LeftOutReason, Obstacle, ObstacleKind};
use crate::{Error, ErrorKind};

/// Returns the outcome of an attempt that met `error`. Trouble of this machine is no fault of the task.
pub(super) fn outcome_of(error: &Error) -> Outcome {
    match error.kind() {
        ErrorKind::BudgetUsedUp => Outcome::Ended(Ending::Limited { reason: error.report(), until: None }),
        ErrorKind::VariablesGone => Outcome::Limited(Issue::new(IssueKind::VariablesGone, error.message())),
        // A person installs it or names another, and no task is to blame. Other programs may be those of a task.
        ErrorKind::ProgramMissing if error.detail("agent").is_some() => missing(error),
        ErrorKind::UnknownBackend => missing(error),
        _ if error.is_trouble() => trouble(error),
        _ => Outcome::Ended(Ending::Error { code: error.code().to_owned(), message: error.report() }),
    }
}

/// Returns the outcome of an attempt without its agent, with what to do about it: `program not found: Claude Code; npm install …`.
fn missing(error: &Error) -> Outcome {
    let agent = error.detail("agent").or(error.detail("name")).unwrap_or_default();
    let hint = error.detail("hint").map(|hint| format!("; {hint}")).unwrap_or_default();
    let message = format!("{}: {agent}{hint}", error.message());
    Outcome::Limited(Issue::new(IssueKind::AgentMissing, message))
}

pub(super) fn trouble(error: &Error) -> Outcome {
    Outcome::Trouble { code: error.code().to_owned(), message: error.report() }
}

/// Returns the outcome of an attempt whose agent claims success, and whose work could not be captured.
pub(super) fn uncaptured(error: &Error) -> Outcome {
    Outcome::Uncaptured(Ending::Error { code: error.code().to_owned(), message: error.report() })
}

/// Returns the outcome of an attempt whose work was captured: an agent that claims success in the midst of a merge has not
/// finished.
pub(super) fn unless_unfinished(outcome: Outcome, captured: &Captured) -> Outcome {
    if outcome != Outcome::Claimed || captured.unmerged.is_empty() {
        return outcome;
    }
    let by = Obstacle::new(ObstacleKind::UnfinishedMerge, "the agent left a merge unfinished")
        .with_files(captured.unmerged.clone());
    Outcome::Ended(Ending::Conflict { reason: format!("{by}; {}", by.kind.cure()) })
}

/// Reports what the agent named and the work does not contain.
pub(super) fn tell_kept(shared: &ProjectShared, task: Option<TaskNumber>, captured: &Captured) {
    for kept in &captured.kept {
        let message = format!("no part of the work, and kept: {} ({})", kept.name, kept.commit.short());
        shared.notice(NoticeCode::WorkKept, task, message);
    }
    if !captured.left_out.is_empty() {
        let mut names: Vec<_> = captured
            .left_out
            .iter()
            .take(10)
            .map(|left| format!("{} ({})", left.path, left.reason.why()))
            .collect();
        if captured.left_out.len() > names.len() {
            names.push(format!("and {} more", captured.left_out.len() - names.len()));
        }
        let mut message = format!("no part of the work: {}", names.join(", "));
        if captured.left_out.iter().any(|left| left.reason != LeftOutReason::Special) {
            message +=
                "; with its branch the folder is set aside (`.watchfire/worktrees/aside`), and not deleted";
        }
        shared.notice(NoticeCode::Workspace, task, message);
    }
}
