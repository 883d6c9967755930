//! The account of the attempt before, for the agent's prompt.

use crate::model::{Attempt, TaskNumber};
use crate::orchestrator::shared::ProjectShared;
use crate::prompt::{PreviousAttempt, Setback};
use crate::schedule::{Ending, Life};
use crate::workspace::{Merge, MergeRequest, Opened};

/// Returns the files on which the work conflicts with the current target, for the prompt. Empty if the merge fails
/// otherwise; the ending has the reason then.
pub(super) async fn conflicts(
    shared: &ProjectShared,
    task: TaskNumber,
    target: &str,
) -> Vec<(String, Option<String>)> {
    let request = MergeRequest::new(task, target, "");
    match shared.workspace.prepare_merge(&request).await {
        Ok(Merge::Conflicts(conflicts)) => {
            conflicts.into_iter().map(|conflict| (conflict.path.to_string(), conflict.hunks)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the account of the attempt before if it asked and a person has answered.
pub(in crate::orchestrator::effects) fn answered(life: &Life) -> Option<PreviousAttempt> {
    let answers: Vec<_> = life.answers.iter().map(|a| (a.question.clone(), a.text.clone())).collect();
    let before = Attempt(life.attempt.0.saturating_sub(1));
    (!answers.is_empty()).then(|| PreviousAttempt::new(before, Setback::Asked { answers }))
}

/// Returns the account of the attempt before, for the agent's prompt.
pub(super) fn previous(
    life: &Life,
    conflicts: Vec<(String, Option<String>)>,
    opened: &Opened,
) -> Option<PreviousAttempt> {
    let before = Attempt(life.attempt.0.saturating_sub(1));
    // An answered question outranks the setback: it is why this attempt runs.
    let note = life.options.note.clone();
    if let Some(answered) = answered(life) {
        return Some(answered.with_work_kept(opened.reused).with_note(note));
    }
    let setback = match life.setback.clone()? {
        Ending::Conflict { reason } => Setback::Conflict {
            target: opened.target.clone().unwrap_or_default(),
            files: if conflicts.is_empty() { vec![(reason, None)] } else { conflicts },
        },
        Ending::VerifyFailed { command, how, output } => {
            Setback::VerifyFailed { command: format!("{command}: {how}"), output }
        }
        Ending::Failed { reason } => Setback::Failed { reason },
        Ending::TimedOut { .. } => Setback::TimedOut,
        Ending::Crashed { .. } | Ending::Unclaimed { .. } | Ending::GaveUp { .. } => Setback::Crashed,
        _ => Setback::Reopened,
    };
    Some(PreviousAttempt::new(before, setback).with_work_kept(opened.reused).with_note(note))
}
