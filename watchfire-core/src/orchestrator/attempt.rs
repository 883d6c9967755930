//! One attempt at a task: open, start, wait, import, capture.

use std::sync::Arc;

use super::compose::SessionRequest;
use super::dispatcher::Message;
use super::launch::{self, Started};
use super::policy::isolate;
use super::project::ProjectShared;
use super::request::RunOptions;
use super::{Event, Step, blocking};
use crate::journal::{Entry, IntentId, TaskState};
use crate::model::{Attempt, Mode, Task, TaskNumber, TaskStatus};
use crate::prompt::{PreviousAttempt, Setback};
use crate::schedule::{Ending, StopReason};
use crate::session::{Cause, Claim, Ended, Session};
use crate::store::TaskPatch;
use crate::workspace::{
    CaptureRequest, Captured, Commit, Merge, MergeRequest, OpenRequest, Opened, WorkspaceKey,
};
use crate::{Error, ErrorKind, Result};

/// An attempt to make.
pub(super) struct Request {
    pub(super) task: TaskNumber,
    pub(super) attempt: Attempt,
    /// The attempt before, and how it ended.
    pub(super) previous: (Attempt, Option<Ending>),
    pub(super) options: RunOptions,
}

/// The handle by which the dispatcher ends an attempt.
pub(super) struct Control(Session);

impl Control {
    pub(super) fn stop(&self, reason: StopReason) {
        self.0.stop_because(reason);
    }
}

/// What came of an attempt.
pub(super) struct Report {
    pub(super) attempt: Attempt,
    /// None: there is work to merge.
    pub(super) ending: Option<Ending>,
    /// Where the work stands, and how many commits it has.
    pub(super) tip: Option<Commit>,
    pub(super) commits: usize,
    pub(super) finished: Option<Finished>,
}

/// Work that may be merged.
#[derive(Clone)]
pub(super) struct Finished {
    pub(super) attempt: Attempt,
    pub(super) target: String,
    pub(super) options: RunOptions,
    /// The commit that a killed orchestrator was about to publish: if nothing is left to merge, it did.
    pub(super) publishing: Option<(IntentId, Commit)>,
}

/// Makes an attempt and tells the dispatcher what came of it, whatever happens.
pub(super) async fn run(shared: Arc<ProjectShared>, request: Request) {
    let (task, attempt, options) = (request.task, request.attempt, request.options.clone());
    let mut report = Report { attempt, ending: None, tip: None, commits: 0, finished: None };
    // A task of its own: a foreign backend or workspace may panic.
    let work = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move { work(&shared, request).await }
    });
    match work.await {
        Ok(Ok(Work { verdict, captured, target })) => {
            (report.tip, report.commits) = (captured.tip, captured.commits);
            match verdict {
                Some(ending) => report.ending = Some(ending),
                None => report.finished = Some(Finished { attempt, target, options, publishing: None }),
            }
        }
        Ok(Err(error)) => report.ending = Some(Ending::Error { reason: error.report() }),
        Err(error) => {
            report.ending = Some(Ending::Error { reason: format!("the attempt broke off: {error}") })
        }
    }
    if let Some(ending) = &report.ending {
        shared.record_ending(task, attempt, ending);
        mirror(&shared, task, ending).await;
    }
    shared.store_changed();
    shared.inner.outbox.send(Message::AttemptEnded { project: shared.id.clone(), task, report });
}

struct Work {
    /// None: the agent claims success.
    verdict: Option<Ending>,
    captured: Captured,
    target: String,
}

async fn work(shared: &Arc<ProjectShared>, request: Request) -> Result<Work> {
    let (number, attempt) = (request.task, request.attempt);
    shared.progress(number, attempt, Step::Starting, "");
    let task = ready_task(shared, number).await?;
    let claim = shared.store.claim(number, &shared.inner.holder, super::LEASE).await?;
    let fence = Entry::Claimed { task: number, fence: claim.fence };
    shared.journal.post(vec![fence, Entry::TaskState { task: number, attempt, state: TaskState::Running }]);
    let worked = claimed_work(shared, task, request).await;
    if let Err(error) = shared.store.release(&claim).await {
        shared.attention(Some(number), format!("giving the task back: {}", error.report()));
    }
    worked
}

async fn claimed_work(shared: &Arc<ProjectShared>, task: Task, request: Request) -> Result<Work> {
    let Request { task: number, attempt, previous, options } = request;
    let opened = open(shared, number, attempt, &options).await?;
    let target = opened.target.clone().unwrap_or_default();
    let conflicts = match &previous {
        (_, Some(Ending::Conflict { .. })) => conflicts(shared, number, &target).await,
        _ => Vec::new(),
    };
    let request = SessionRequest {
        mode: Mode::Task,
        phase: None,
        task: Some(task.clone()),
        attempt,
        previous: previous_attempt(previous, conflicts, &opened),
        opened,
        options,
        resume: None,
    };
    let (started, ended) = run_session(shared, &task, request).await?;
    let (verdict, captured) = take_over(shared, number, attempt, started, &ended).await?;
    Ok(Work { verdict, captured, target })
}

/// Runs a session to its end: one that goes on where the attempt before ended, if there is one that can. Where that does
/// not come to work, a fresh one.
async fn run_session(
    shared: &Arc<ProjectShared>,
    task: &Task,
    request: SessionRequest,
) -> Result<(Started, Ended)> {
    if let Some(mut kept) = launch::resumable(shared, &request).await? {
        let request = SessionRequest { resume: Some(kept.clone()), ..request.clone() };
        let problem = match launch::start(shared, request).await {
            Ok(started) => {
                let ended = watch(shared, task, &started).await;
                if ended.worked || ended.claim.is_some() || ended.cause != Cause::Exited {
                    keep(shared, &started, &ended).await;
                    return Ok((started, ended));
                }
                clean_up(shared, started);
                format!("it ended with {}", ended.exit)
            }
            Err(error) => error.report(),
        };
        let (id, folder) = (kept.vendor_session().to_owned(), kept.folder().display().to_string());
        shared.attention(
            Some(task.task_number),
            format!("the agent's session {id} could not be resumed ({problem}); a fresh one starts; kept in {folder}"),
        );
        let noted = blocking("noting that a session cannot be resumed", move || kept.set_failed()).await;
        if let Err(error) = noted {
            shared.attention(Some(task.task_number), error.report());
        }
    }
    let started = launch::start(shared, request).await?;
    let ended = watch(shared, task, &started).await;
    keep(shared, &started, &ended).await;
    Ok((started, ended))
}

/// Keeps a session to go on with, if there is anything to go on with.
async fn keep(shared: &Arc<ProjectShared>, started: &Started, ended: &Ended) {
    if ended.worked {
        started.keep(shared).await;
    }
}

/// Opens the task's workspace as its sandbox allows, and tells what a person should know.
pub(super) async fn open(
    shared: &Arc<ProjectShared>,
    task: TaskNumber,
    attempt: Attempt,
    options: &RunOptions,
) -> Result<Opened> {
    let (project, settings) = shared.settings().await?;
    let open = OpenRequest::new(task, attempt).with_target(&project.default_branch);
    let (asking, asked) = (Arc::clone(shared), options.clone());
    let ask = move || isolate(open, &asking, &project, &settings, &asked);
    let open = blocking("asking the sandbox", ask).await?;
    let opened = shared.workspace.open(&open).await?;
    opened.attention.iter().for_each(|line| shared.attention(Some(task), line.clone()));
    for rescued in &opened.rescued {
        shared.attention(Some(task), format!("earlier work is kept in {}", rescued.name));
    }
    Ok(opened)
}

/// The task, if an agent may work on it now.
async fn ready_task(shared: &ProjectShared, number: TaskNumber) -> Result<Task> {
    let task = shared.store.get(number).await?.value;
    if task.is_deleted() || task.status == TaskStatus::Draft {
        return Err(Error::new(ErrorKind::Conflict, "the task is no longer ready").with("task", number));
    }
    if task.status == TaskStatus::Ready {
        return Ok(task);
    }
    // Done: the dispatcher wants another try.
    let patch = TaskPatch::new().with_status(TaskStatus::Ready);
    let task = shared.store.update(number, patch, None, None).await?.value;
    shared.store_changed();
    Ok(task)
}

/// From the first byte to the last.
async fn watch(shared: &Arc<ProjectShared>, task: &Task, started: &Started) -> Ended {
    let (number, attempt) = (task.task_number, started.attempt);
    let session = started.session.clone();
    let control = Control(session.clone());
    shared.inner.outbox.send(Message::AttemptStarted { project: shared.id.clone(), task: number, control });
    shared.progress(number, attempt, Step::Running, session.info().alias.to_string());
    let stamp = TaskPatch::new()
        .with_agent_sessions(task.agent_sessions.saturating_add(1).max(attempt.0))
        .with_started_at(session.info().started_at.clone())
        .with_failure_reason(None)
        .with_merge_failure_reason(None);
    if let Err(error) = shared.store.update(number, stamp, None, None).await {
        shared.attention(Some(number), format!("stamping the start: {}", error.report()));
    }
    shared.make_ready();

    let ended = session.ended().await;
    let info = session.info();
    shared.tell(&Event::SessionEnded {
        project: shared.id.clone(),
        session: info.id.clone(),
        task: Some(number),
        exit: ended.exit.to_string(),
        usage: ended.usage,
        cost: ended.cost,
    });
    shared.journal.post(vec![Entry::SessionEnded {
        session: info.id.clone(),
        exit: ended.exit.code(),
        outcome: ended.cause.word().into(),
    }]);
    ended
}

/// After the end of a session: an ending, or none when the agent claims success; and what the work is.
async fn take_over(
    shared: &Arc<ProjectShared>,
    number: TaskNumber,
    attempt: Attempt,
    started: Started,
    ended: &Ended,
) -> Result<(Option<Ending>, Captured)> {
    shared.progress(number, attempt, Step::Capturing, "");
    shared.journal.post(vec![Entry::TaskState { task: number, attempt, state: TaskState::Capturing }]);
    let verdict = settle(shared, number, &started, ended).await;
    // Whatever the verdict, the work is kept.
    let message = format!("Uncommitted work of task #{number}\n\nCaptured when the session ended.");
    let info = started.session.info();
    let capture = CaptureRequest::new(number, message)
        .with_trailer("Watchfire-Task", number.to_string())
        .with_trailer("Watchfire-Session", info.id.to_string())
        .with_trailer("Watchfire-Agent", info.backend.to_string());
    let captured = shared.workspace.capture(&capture).await;
    clean_up(shared, started);
    Ok((verdict?, captured?))
}

/// Cleans up after a session, while everything else goes on.
fn clean_up(shared: &Arc<ProjectShared>, started: Started) {
    let (shared, under_way) = (Arc::clone(shared), shared.finishing());
    tokio::spawn(async move {
        started.finish(&shared).await;
        drop(under_way);
    });
}

/// What the end of a session means for its task, after the store knows what the agent said.
async fn settle(
    shared: &ProjectShared,
    number: TaskNumber,
    started: &Started,
    ended: &Ended,
) -> Result<Option<Ending>> {
    if ended.cause == Cause::Stopped(StopReason::DoneByHand) {
        let task = shared.store.get(number).await?.value;
        if task.status != TaskStatus::Done {
            return Ok(Some(Ending::Cancelled));
        }
        let reason = || task.failure_reason.clone().unwrap_or_else(|| "marked as failed by hand".to_owned());
        return Ok((!task.claims_success()).then(|| Ending::Failed { reason: reason() }));
    }
    if let Cause::Stopped(_) = ended.cause {
        return Ok(Some(Ending::Cancelled));
    }
    match (&ended.claim, ended.cause) {
        (Some(claim), _) => {
            let patch = TaskPatch::new()
                .with_status(TaskStatus::Done)
                .with_success(Some(claim.success))
                .with_failure_reason(claim.failure_reason.clone());
            shared.store.update(number, patch, None, None).await?;
            let Claim { success, failure_reason } = claim;
            let reason = || failure_reason.clone().unwrap_or_else(|| "the agent gave no reason".to_owned());
            Ok((!success).then(|| Ending::Failed { reason: reason() }))
        }
        (None, Cause::TimedOut) => {
            let limit = shared.store.project().await?.value.time_limit.unwrap_or_default();
            let said = Some(&ended.last_words).filter(|words| !words.is_empty());
            let said = said.map(|words| format!("; its last words: {words}")).unwrap_or_default();
            Ok(Some(Ending::TimedOut { reason: format!("took longer than {limit}{said}") }))
        }
        (None, _) => {
            let unclear =
                ended.unclear.as_ref().map(|why| format!("; its task file: {why}")).unwrap_or_default();
            let said = match ended.last_words.as_str() {
                "" => "; it said nothing".to_owned(),
                words => format!("; its last words: {words}"),
            };
            let idle = match ended.worked {
                true => String::new(),
                false => {
                    let untested = started
                        .untested(shared)
                        .await
                        .map(|version| format!(" (its version {version} was not tested)"));
                    format!("; it never came to work: try it by hand{}", untested.unwrap_or_default())
                }
            };
            Ok(Some(Ending::Crashed {
                reason: format!("ended with {} before it was done{unclear}{idle}{said}", ended.exit),
            }))
        }
    }
}

/// Says in the task's file what it has no word for.
pub(super) async fn mirror(shared: &ProjectShared, task: TaskNumber, ending: &Ending) {
    let patch = match ending {
        Ending::Crashed { .. } | Ending::TimedOut { .. } | Ending::Error { .. } => {
            TaskPatch::new().with_failure_reason(ending.to_string())
        }
        Ending::VerifyFailed { .. } | Ending::Conflict { .. } | Ending::Held { .. } => {
            TaskPatch::new().with_merge_failure_reason(ending.to_string())
        }
        Ending::Merged { .. } | Ending::Nothing => TaskPatch::new().with_merge_failure_reason(None),
        Ending::Unmerged | Ending::Failed { .. } | Ending::Cancelled => return,
    };
    match shared.store.update(task, patch, None, None).await {
        // It may have been deleted meanwhile.
        Err(error) if error.kind() != ErrorKind::NotFound => {
            shared.attention(Some(task), format!("writing down how it ended: {}", error.report()));
        }
        _ => {}
    }
}

/// Where the work conflicts with the target as it is now, with what stands on both sides. It is for the prompt: a merge
/// that cannot be made says no more than how the attempt ended.
async fn conflicts(shared: &ProjectShared, task: TaskNumber, target: &str) -> Vec<(String, Option<String>)> {
    let request = MergeRequest::new(task, target, "");
    match shared.workspace.prepare_merge(&request).await {
        Ok(Merge::Conflicts(conflicts)) => {
            conflicts.into_iter().map(|conflict| (conflict.path.to_string(), conflict.hunks)).collect()
        }
        _ => Vec::new(),
    }
}

/// What the agent should know of the attempt before.
fn previous_attempt(
    (attempt, ending): (Attempt, Option<Ending>),
    conflicts: Vec<(String, Option<String>)>,
    opened: &Opened,
) -> Option<PreviousAttempt> {
    let setback = match ending? {
        Ending::Conflict { reason } => Setback::Conflict {
            target: opened.target.clone().unwrap_or_default(),
            files: if conflicts.is_empty() { vec![(reason, None)] } else { conflicts },
        },
        Ending::VerifyFailed { reason } => {
            let (command, output) = reason.split_once('\n').unwrap_or((&reason, ""));
            Setback::VerifyFailed { command: command.to_owned(), output: output.to_owned() }
        }
        Ending::Failed { reason } => Setback::Failed { reason },
        Ending::TimedOut { .. } => Setback::TimedOut,
        Ending::Crashed { .. } => Setback::Crashed,
        _ => Setback::Reopened,
    };
    Some(PreviousAttempt::new(attempt, setback).with_work_kept(opened.reused))
}

/// The key of a task's work.
pub(super) fn key(task: TaskNumber) -> WorkspaceKey {
    WorkspaceKey::new(task)
}
