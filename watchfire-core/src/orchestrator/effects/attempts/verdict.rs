//! The meaning of a session's end for its task.

use std::sync::Arc;
use std::time::Duration;

use super::started::Started;
use crate::model::{TaskNumber, TaskStatus};
use crate::orchestrator::effects::{claims, room};
use crate::orchestrator::shared::{Control, ProjectShared};
use crate::schedule::{Ending, Life, NoticeCode, Outcome, StopReason};
use crate::session::{Cause, Claim, Ended, Exit};
use crate::store::TaskPatch;
use crate::{ErrorKind, Result};

/// Interval at which a claim is written again while the task's file cannot be read.
const AGAIN: Duration = Duration::from_secs(2);

/// Outcome of an attempt, after the agent's claim was written to the store.
pub(in crate::orchestrator::effects) struct Verdict(pub(super) Outcome);

/// Determines the outcome of a session.
pub(in crate::orchestrator::effects) async fn of_session(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: TaskNumber,
    started: &Started,
    ended: &Ended,
    control: &Control,
) -> Result<Verdict> {
    let outcome = match (ended.cause, &ended.claim) {
        (Cause::Stopped(StopReason::DoneByHand), _) => done_by_hand(shared, task).await?,
        // A claim that the agent made by then counts, although its budget ended the session.
        (Cause::Stopped(StopReason::Budget), Some(claim)) => {
            claimed(shared, life, task, claim, control).await?
        }
        (Cause::Stopped(StopReason::Budget), None) => {
            let reason = started.used_up().unwrap_or_default();
            Outcome::Ended(Ending::Limited { reason, until: None })
        }
        // Its life continues at the next start, and with it what the agent said in its last moment.
        (Cause::Stopped(StopReason::Suspended), Some(claim)) => {
            claimed(shared, life, task, claim, control).await?
        }
        (_, claim) => match (of_stop(ended), claim) {
            (Some(outcome), _) => outcome,
            (None, Some(claim)) => claimed(shared, life, task, claim, control).await?,
            (None, None) => without_claim(shared, started, ended).await?,
        },
    };
    Ok(Verdict(outcome))
}

/// Returns the outcome of a session that was stopped. Ignores any claim of its agent.
pub(in crate::orchestrator::effects) fn of_stop(ended: &Ended) -> Option<Outcome> {
    let Cause::Stopped(by) = ended.cause else { return None };
    Some(match by {
        // Open questions and limits must survive until the next start.
        StopReason::Suspended if !ended.questions.is_empty() => Outcome::Asked(ended.questions.clone()),
        StopReason::Suspended => ended.issue.clone().map_or(Outcome::Interrupted, Outcome::Limited),
        StopReason::Broken => {
            let message = Ending::Stopped { by }.reason().unwrap_or_default().into_owned();
            Outcome::Ended(Ending::Error { code: "internal".to_owned(), message })
        }
        by => Outcome::Ended(Ending::Stopped { by }),
    })
}

async fn done_by_hand(shared: &ProjectShared, number: TaskNumber) -> Result<Outcome> {
    let task = shared.store.get(number).await?.value;
    // The person has changed the file again since the stop.
    if task.status != TaskStatus::Done {
        return Ok(Outcome::Ended(Ending::Stopped { by: StopReason::Withdrawn }));
    }
    if task.claims_success() {
        return Ok(Outcome::Claimed);
    }
    let reason = task.failure_reason.unwrap_or_else(|| "marked as failed by hand".to_owned());
    Ok(Outcome::Ended(Ending::Failed { reason }))
}

/// Writes the agent's claim into the task's file. Repeats that while the file is malformed or missing, and while the disk is
/// full: the turn is paid for, and an editor may be half-way through a save.
pub(in crate::orchestrator::effects) async fn claimed(
    shared: &ProjectShared,
    life: &Life,
    task: TaskNumber,
    claim: &Claim,
    control: &Control,
) -> Result<Outcome> {
    let patch = TaskPatch::new()
        .with_status(TaskStatus::Done)
        .with_success(Some(claim.success))
        .with_failure_reason(claim.failure_reason.clone());
    let mut noticed = false;
    loop {
        match claims::update(shared, life.id, task, patch.clone()).await {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Malformed || error.is_trouble() => {
                match control.stopped() {
                    None | Some(StopReason::Suspended) if *shared.closing.borrow() => {
                        return Ok(Outcome::Undetermined);
                    }
                    // A session that is put aside has time: its life goes on with the claim.
                    None | Some(StopReason::Suspended) => {}
                    Some(_) => return Err(error),
                }
                if !noticed {
                    let (code, verb) = match error.kind() {
                        ErrorKind::Malformed => (NoticeCode::Malformed, "read"),
                        _ => (NoticeCode::Trouble, "written"),
                    };
                    let report = error.report();
                    let message =
                        format!("the agent's claim waits until the task's file can be {verb}: {report}");
                    shared.notice(code, Some(task), message);
                    noticed = true;
                }
                let clock = &shared.inner.clock;
                clock.sleep_until(clock.boot_time() + AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(match claim.success {
        true => Outcome::Claimed,
        false => Outcome::Ended(failure(claim)),
    })
}

/// Returns the ending of an agent that says it has failed.
pub(in crate::orchestrator::effects) fn failure(claim: &Claim) -> Ending {
    let reason = claim.failure_reason.clone();
    Ending::Failed { reason: reason.unwrap_or_else(|| "the agent gave no reason".to_owned()) }
}

/// Returns the outcome of a session whose agent said nothing.
pub(in crate::orchestrator::effects) async fn without_claim(
    shared: &Arc<ProjectShared>,
    started: &Started,
    ended: &Ended,
) -> Result<Outcome> {
    // Before the issue: a question says what is needed more exactly than a state of the screen.
    if !ended.questions.is_empty() {
        return Ok(Outcome::Asked(ended.questions.clone()));
    }
    if let Some(issue) = &ended.issue {
        return Ok(Outcome::Limited(issue.clone()));
    }
    let words = ended.last_words.as_str();
    if ended.cause == Cause::Exited
        && !ended.worked
        && !ended.exit.success()
        && let Some(issue) = started.early_issue(words)
    {
        return Ok(Outcome::Limited(issue));
    }
    if ended.cause == Cause::TimedOut {
        let limit = shared.store.project().await?.value.time_limit.unwrap_or_default();
        let said = match words {
            "" => String::new(),
            words => format!("; its last words: {words}"),
        };
        return Ok(Outcome::Ended(Ending::TimedOut { reason: format!("took longer than {limit}{said}") }));
    }
    // Its guardian was killed, by the machine's end if by nobody else, or gave it up: no fault of its agent's.
    if started.is_taken && ended.exit == Exit::Unknown {
        return Ok(Outcome::Interrupted);
    }
    // What it died of, most likely.
    room::check(shared).await?;
    let mut parts = Vec::new();
    if !ended.exit.success() {
        parts.push(format!("ended with {} before it was done", ended.exit));
    }
    parts.extend(ended.unclear.as_ref().map(|why| format!("its task file: {why}")));
    if !ended.worked {
        let untested = started.untested(shared).await;
        let untested = untested.map(|version| format!(" (its version {version} was not tested)"));
        parts.push(format!("it never came to work: try it by hand{}", untested.unwrap_or_default()));
    }
    parts.push(match words {
        "" => "it said nothing".to_owned(),
        words => format!("its last words: {words}"),
    });
    let reason = parts.join("; ");
    Ok(Outcome::Ended(match ended.exit.success() {
        true => Ending::Unclaimed { reason },
        false => Ending::Crashed { reason },
    }))
}
