//! The sessions of an attempt: one, or a second one where the first could not be resumed or fell silent.

use std::sync::Arc;
use std::time::Duration;

use super::launch;
use super::started::Started;
use super::workspace::open_workspace;
use crate::backend::{Issue, IssueKind};
use crate::failpoint::reached;
use crate::model::{Mode, Phase, Question, Task, TaskNumber, Timestamp};
use crate::orchestrator::compose::SessionRequest;
use crate::orchestrator::effects::claims;
use crate::orchestrator::effects::mirror::write_patch;
use crate::orchestrator::shared::{Control, ProjectShared, blocking};
use crate::prompt::{PreviousAttempt, Setback};
use crate::schedule::{Fact, Life, NoticeCode, SessionEnd, StopReason};
use crate::session::{Cause, Ended};
use crate::store::TaskPatch;
use crate::workspace::Opened;
use crate::{Error, ErrorKind, Result};

/// Time after which it is known what an agent that was taken over waits for.
const SETTLED: Duration = Duration::from_secs(5);

pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "it was stopped before it began")
}

pub(super) fn go_on(control: &Control) -> Result<()> {
    control.stopped().map_or(Ok(()), |_| Err(stopped()))
}

/// Writes the start of a session of an earlier program into its task's file, unless that program already did.
pub(in crate::orchestrator::effects) async fn stamp(
    shared: &ProjectShared,
    life: &Life,
    number: TaskNumber,
    started: &Timestamp,
) {
    let Ok(task) = shared.store.get(number).await else { return };
    if task.value.agent_sessions >= life.attempt.0 {
        return;
    }
    let stamp = TaskPatch::new().with_agent_sessions(life.attempt.0).with_started_at(started.clone());
    write_patch(shared, life.id, number, stamp).await;
}

/// Follows a session that was taken over to its end, and a second one if the agent said nothing of its task.
pub(super) async fn watch_to_end(
    shared: &Arc<ProjectShared>,
    life: &Life,
    number: TaskNumber,
    started: Started,
    control: &Control,
) -> Result<(Started, Ended)> {
    let ended = watch(shared, life, None, &started, control).await;
    preserve(shared, &started, &ended).await;
    let task = match ended.is_silent() && control.stopped().is_none() {
        true => shared.store.get(number).await.ok(),
        false => None,
    };
    match task {
        Some(task) => Box::pin(nudged(shared, life, &task.value, started, ended, control)).await,
        None => Ok((started, ended)),
    }
}

/// Runs a session to its end, and a second one if the agent said nothing of its task.
pub(super) async fn run_session(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: &Task,
    request: SessionRequest,
    control: &Control,
) -> Result<(Started, Ended)> {
    let (started, ended) = resumed_or_fresh(shared, life, task, request, control).await?;
    if !ended.is_silent() || control.stopped().is_some() {
        return Ok((started, ended));
    }
    // Boxed: hardly any session needs it, and each would keep room for it.
    Box::pin(nudged(shared, life, task, started, ended, control)).await
}

/// Resumes a session that ended with its turn and without a claim: the agent is asked once, in the same conversation, to go
/// on or to say how its task ended. If it still does not, its last message is a question to the person.
pub(super) async fn nudged(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: &Task,
    started: Started,
    mut ended: Ended,
    control: &Control,
) -> Result<(Started, Ended)> {
    let opened = open_workspace(shared, task.task_number, life.attempt, &life.options).await;
    // Without a workspace or a conversation to go on with, the end of the session stays as it is.
    let phase = phase_of(shared, life).await?;
    let Ok(mut request) = opened.map(|opened| request(life, task, opened, phase)) else {
        return Ok((started, ended));
    };
    let Ok(Some(kept)) = launch::resumable(shared, &request).await else { return Ok((started, ended)) };
    let asks = |said: &str| vec![Question::new(format!("turn-{}", life.attempt), said)];
    if !ended.may_nudge {
        ended.questions = asks(&ended.last_message);
        return Ok((started, ended));
    }
    request.previous = Some(PreviousAttempt::new(life.attempt, Setback::Unclaimed));
    request.resume = Some(kept);
    // Waited for: the next session needs what this one left, a renewed login and its notes among it.
    started.finish(shared).await;
    let started = launch::start(shared, life, request).await?;
    // The first session has stamped the file since `task` was read.
    let task = Task { agent_sessions: task.agent_sessions + 1, ..task.clone() };
    let mut again = watch(shared, life, Some(&task), &started, control).await;
    preserve(shared, &started, &again).await;
    // An agent that was stopped or limited has not fallen silent by itself.
    let is_open = again.cause == Cause::Exited && again.claim.is_none() && again.issue.is_none();
    if is_open && again.questions.is_empty() {
        again.questions = asks(if again.worked { &again.last_message } else { &ended.last_message });
    }
    Ok((started, again))
}

/// Returns the phase of wildfire that a life belongs to.
pub(super) async fn phase_of(shared: &ProjectShared, life: &Life) -> Result<Option<Phase>> {
    let life = life.clone();
    shared.read(move |schedule| schedule.ledger().phase(&life)).await
}

/// Returns the request for a session on a task, without an account of the attempt before.
pub(super) fn request(life: &Life, task: &Task, opened: Opened, phase: Option<Phase>) -> SessionRequest {
    SessionRequest {
        session: None,
        mode: Mode::Task,
        phase,
        task: Some(task.clone()),
        others: None,
        attempt: life.attempt,
        previous: None,
        opened,
        options: life.options.clone(),
        setup: String::new(),
        resume: None,
    }
}

/// Runs a session to its end. Tries to resume the vendor's session of the attempt before, and starts a fresh one if
/// the agent does not begin to work.
pub(super) async fn resumed_or_fresh(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: &Task,
    request: SessionRequest,
    control: &Control,
) -> Result<(Started, Ended)> {
    if let Some(mut kept) = launch::resumable(shared, &request).await? {
        let request = SessionRequest { resume: Some(kept.clone()), ..request.clone() };
        let problem = match Box::pin(launch::start(shared, life, request)).await {
            Ok(started) => {
                let ended = watch(shared, life, Some(task), &started, control).await;
                // Any sign of work counts as resumed. A second agent on top of one that worked would do the
                // task twice.
                if ended.worked || ended.claim.is_some() || ended.cause != Cause::Exited {
                    preserve(shared, &started, &ended).await;
                    return Ok((started, ended));
                }
                // Only its own folders go: the saved session that it was to resume stays.
                clean_up(shared, started);
                format!("it ended with {}", ended.exit)
            }
            // These say nothing of the vendor's session.
            Err(error)
                if error.is_trouble()
                    || matches!(
                        error.kind(),
                        ErrorKind::Cancelled
                            | ErrorKind::ProgramMissing
                            | ErrorKind::UnknownBackend
                            | ErrorKind::VariablesGone
                    ) =>
            {
                return Err(error);
            }
            Err(error) => error.report(),
        };
        let (id, folder) = (kept.vendor_session().to_owned(), kept.folder().display().to_string());
        shared.notice(
            NoticeCode::Session,
            Some(task.task_number),
            format!(
                "the agent's session {id} could not be resumed ({problem}); a fresh one starts; kept in {folder}"
            ),
        );
        let noted = blocking("noting that a session cannot be resumed", move || kept.set_failed()).await;
        if let Err(error) = noted {
            shared.notice(NoticeCode::Session, Some(task.task_number), error.report());
        }
        go_on(control)?;
    }
    // Boxed, so that its memory is freed after the start. A future keeps room for its largest step, here for
    // hours.
    let started = Box::pin(launch::start(shared, life, request)).await?;
    let ended = watch(shared, life, Some(task), &started, control).await;
    preserve(shared, &started, &ended).await;
    Ok((started, ended))
}

/// Saves the vendor's session for a later attempt, if the agent has worked.
pub(super) async fn preserve(shared: &Arc<ProjectShared>, started: &Started, ended: &Ended) {
    if ended.worked && !is_left(ended) {
        started.preserve(shared, &ended.last_message).await;
    }
}

/// Follows a session from its first byte to its last.
pub(super) async fn watch(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: Option<&Task>,
    started: &Started,
    control: &Control,
) -> Ended {
    let session = started.session.clone();
    // Before the report: a stop that arrives from now on finds the session.
    control.set_session(session.clone());
    let (agent, guardian) = started.identities();
    shared.report(Fact::Running { life: life.id, agent, guardian });
    if let Some(task) = task {
        let stamp = TaskPatch::new()
            .with_agent_sessions(task.agent_sessions.saturating_add(1).max(life.attempt.0))
            .with_started_at(session.info().started_at.clone())
            .with_failure_reason(None)
            .with_merge_failure_reason(None);
        // The agent works by now, so a failed stamp is reported and ends nothing.
        if let Err(error) = claims::update(shared, life.id, task.task_number, stamp).await {
            let message = format!("stamping the start: {}", error.report());
            shared.notice(NoticeCode::Store, Some(task.task_number), message);
        }
        // Now, because the orchestrator has little to do while agents work.
        shared.make_ready();
    }
    let mut blocks = session.blocks();
    let mut stalled: Option<Issue> = None;
    // The agent may have asked before this subscription. What an agent that was taken over waits for shows only when its
    // output and its files are read again.
    let clock = &shared.inner.clock;
    let mut settles = started.is_taken.then(|| clock.boot_time() + SETTLED);
    if settles.is_none() {
        blocks.mark_changed();
    }
    let ended = loop {
        let settled = async {
            match settles {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = session.ended() => break ended,
            () = settled => {
                settles = None;
                blocks.mark_changed();
            }
            changed = blocks.changed() => {
                // Its sender went with the session.
                if changed.is_err() {
                    break session.ended().await;
                }
                let now = blocks.borrow_and_update().clone();
                if settles.is_some() && now.is_empty() {
                    continue;
                }
                let stall = now.issues.iter().find(|issue| issue.kind == IssueKind::Stalled);
                // Reported once, and not with every change of another issue or question.
                if stall.is_some() && stalled.as_ref() != stall {
                    let message = format!("the agent may be stalled: {}", stall.map_or("", |it| &it.message));
                    shared.notice(NoticeCode::Stalled, life.subject.task(), message);
                }
                stalled = stall.cloned();
                let issue = now.issues.into_iter().find(|issue| issue.kind.is_blocking());
                shared.report(Fact::Blocks { life: life.id, issue, questions: now.questions });
            }
        }
    };
    if is_left(&ended) {
        return ended;
    }
    started.note_end(&ended).await;
    let exit = match ended.cause {
        // Terminal programs do not end by themselves: the hangup that ends them is ours.
        Cause::Claimed if !ended.exit.success() => "ended after its claim".to_owned(),
        _ => ended.exit.to_string(),
    };
    let mut end = SessionEnd::new(exit);
    (end.usage, end.cost) = (ended.usage, ended.cost);
    shared.report(Fact::SessionOver { life: life.id, end });
    ended
}

/// Returns true for a session that goes on without this program.
pub(super) fn is_left(ended: &Ended) -> bool {
    ended.cause == Cause::Stopped(StopReason::Detached)
}

/// Cleans up after a session in the background.
pub(super) fn clean_up(shared: &Arc<ProjectShared>, started: Started) {
    let (shared, busy) = (Arc::clone(shared), shared.busy());
    tokio::spawn(async move {
        started.finish(&shared).await;
        reached(|| "cleaned up");
        drop(busy);
    });
}
