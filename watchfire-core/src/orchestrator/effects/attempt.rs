//! One attempt of a life: claim, open, start, watch, capture.
//!
//! Every step checks the life's [`Control`] before it begins, so that a stop between two sessions is not lost.

use std::sync::Arc;
use std::time::Duration;

use super::claims;
use super::commands::Failure;
use super::launch;
use super::mirror::{mirror, write_patch};
use super::recover::capture;
use super::room;
use super::setup;
use super::started::Started;
use super::steps;
use super::verdict::{self, Verdict};
use crate::backend::{Issue, IssueKind};
use crate::failpoint::reached;
use crate::model::{Attempt, Mode, Project, Question, Settings, Task, TaskNumber, TaskStatus};
use crate::orchestrator::compose::{SessionRequest, Wanted, isolate, own_policy};
use crate::orchestrator::shared::{Control, ProjectShared, blocking};
use crate::prompt::{PreviousAttempt, Setback};
use crate::schedule::{Ending, Fact, Life, NoticeCode, Outcome, RunOptions, SessionEnd, StopReason};
use crate::session::{Cause, Ended};
use crate::store::TaskPatch;
use crate::workspace::{
    CaptureRequest, Captured, Merge, MergeRequest, Obstacle, ObstacleKind, OpenRequest, Opened,
};
use crate::{Error, ErrorKind, Result};

/// Time that a stopped attempt may take beside the end of its session.
const OVERDUE: Duration = Duration::from_secs(15);

/// Time after which it is known what an agent that was taken over waits for.
const SETTLED: Duration = Duration::from_secs(5);

/// Makes an attempt and reports its outcome, even after a panic.
pub(crate) async fn attempt(shared: Arc<ProjectShared>, life: Life, control: Control) {
    let (of, to, by) = (Arc::clone(&shared), life.clone(), control.clone());
    let work = async move {
        match to.subject.task() {
            Some(task) => work_on(&of, &to, task, &by).await,
            None if to.subject.is_step() => step(&of, &to, &by).await,
            None => converse(&of, &to, &by).await,
        }
    };
    conclude(shared, life, control, work).await;
}

/// Goes on with an attempt whose session was taken over from an earlier program.
pub(super) async fn go_on_with(shared: Arc<ProjectShared>, life: Life, control: Control, started: Started) {
    let (of, to, by) = (Arc::clone(&shared), life.clone(), control.clone());
    let work = async move {
        let Some(task) = to.subject.task() else {
            return watch_chat(&of, &to, started, &by).await;
        };
        stamp(&of, &to, task, &started).await;
        let (started, ended) = watch_to_end(&of, &to, task, started, &by).await?;
        Box::pin(take_over(&of, &to, task, started, &ended, &by)).await
    };
    conclude(shared, life, control, work).await;
}

/// Writes the start of a session that was taken over into its task's file, if its own program did not come to that.
async fn stamp(shared: &ProjectShared, life: &Life, number: TaskNumber, started: &Started) {
    let Ok(task) = shared.store.get(number).await else { return };
    if task.value.agent_sessions >= life.attempt.0 {
        return;
    }
    let stamp = TaskPatch::new()
        .with_agent_sessions(life.attempt.0)
        .with_started_at(started.session.info().started_at.clone());
    write_patch(shared, life.id, number, stamp).await;
}

/// Follows a session that was taken over to its end, and a second one if the agent said nothing of its task.
async fn watch_to_end(
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

/// Does the work of an attempt and reports its outcome, even after a panic.
async fn conclude(
    shared: Arc<ProjectShared>,
    life: Life,
    control: Control,
    work: impl Future<Output = Result<Work>> + Send + 'static,
) {
    let id = life.id;
    let before = life.tip.clone();
    let watched = control.clone();
    // In a task of its own, because a foreign backend, workspace or store may panic.
    let work = tokio::spawn({
        let (shared, life) = (Arc::clone(&shared), life.clone());
        async move {
            // Also once it is left behind: closing waits for it.
            let _busy = shared.busy();
            match work.await {
                Ok(work) => work,
                Err(error) => {
                    // A session may have worked before the error.
                    let ran = control.session().and(life.subject.task());
                    let captured = capture(&shared, ran, "an error").await;
                    Work { outcome: failed(&control, &error), captured }
                }
            }
        }
    });
    let ended = tokio::select! {
        // An attempt that has just ended counts as ended, even if it is overdue by now.
        biased;
        ended = work => ended,
        // It goes on by itself. It cannot start a session any more, since the schedule permits none to a life that
        // has ended, and the next attempt waits for the workspace.
        by = overdue(&shared, &watched) => {
            let message = "stopped; what it was doing goes on in the background: its workspace or its store takes long";
            shared.notice(NoticeCode::Workspace, life.subject.task(), message);
            Ok(Work::from(match by {
                StopReason::Suspended | StopReason::Detached => Outcome::Undetermined,
                by => Outcome::Ended(Ending::Stopped { by }),
            }))
        }
    };
    let Work { outcome, captured } = match ended {
        Ok(work) => work,
        Err(error) => {
            let message = format!("the attempt panicked: {error}");
            let outcome = Outcome::Ended(Ending::Error { code: "internal".to_owned(), message });
            let captured = end_unwatched(&shared, &life, &watched).await;
            Work { outcome, captured }
        }
    };
    if let (Outcome::Ended(ending) | Outcome::Uncaptured(ending), Some(task)) =
        (&outcome, life.subject.task())
    {
        // In a task of its own, too: the store may be the one that panicked.
        let (mirrored, ending) = (Arc::clone(&shared), ending.clone());
        let _ = tokio::spawn(async move { mirror(&mirrored, id, task, &ending).await }).await;
    }
    // Before the first capture of a task there is no tip to compare with.
    let progress = match (&before, &captured.tip) {
        (Some(before), Some(now)) => before != now,
        _ => captured.commits > 0,
    };
    // Before the report: the schedule must not step on a board that still shows the task as before.
    shared.store_changed(life.subject.task());
    shared.report(Fact::Attempted { life: id, outcome, tip: captured.tip, progress });
}

/// Waits until an attempt takes too long to stop, and returns the reason of the stop. The end of a session has a limit of
/// its own; a disk that does not answer, or a foreign store, has none.
async fn overdue(shared: &ProjectShared, control: &Control) -> StopReason {
    let clock = &shared.inner.clock;
    loop {
        control.wait_stopped().await;
        if let Some(session) = control.session() {
            session.ended().await;
        }
        clock.sleep_until(clock.boot_time() + OVERDUE).await;
        let is_over = control.session().is_none_or(|session| session.has_ended());
        match control.stopped() {
            // These continue with what the attempt came to. Closing has a limit too: the next start finds out what became of
            // the life.
            None | Some(StopReason::DoneByHand) => {}
            Some(StopReason::Suspended | StopReason::Detached) if !*shared.closing.borrow() => {}
            Some(by) if is_over => return by,
            Some(_) => {}
        }
    }
}

/// Ends the session of an attempt that panicked, and captures its work: a second agent must not find the first one at
/// work.
async fn end_unwatched(shared: &Arc<ProjectShared>, life: &Life, control: &Control) -> Captured {
    if let Some(session) = control.session() {
        session.stop_because(StopReason::Requested);
        let mut end = SessionEnd::new(session.ended().await.exit.to_string());
        (end.usage, end.cost) = session.spent();
        shared.report(Fact::SessionOver { life: life.id, end });
    }
    let (capturing, task) = (Arc::clone(shared), life.subject.task());
    // The workspace may be the one that panicked.
    tokio::spawn(async move { capture(&capturing, task, "a panic").await }).await.unwrap_or_default()
}

/// Result of an attempt.
struct Work {
    outcome: Outcome,
    captured: Captured,
}

impl From<Outcome> for Work {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, captured: Captured::default() }
    }
}

/// Returns the outcome of an attempt that ended with `error`.
fn failed(control: &Control, error: &Error) -> Outcome {
    if control.stopped().is_some() && error.kind() == ErrorKind::Cancelled {
        return Outcome::Interrupted;
    }
    outcome_of(error)
}

/// Returns the outcome of an attempt that met `error`. Trouble of this machine is no fault of the task.
pub(super) fn outcome_of(error: &Error) -> Outcome {
    match error.kind() {
        ErrorKind::BudgetUsedUp => Outcome::Ended(Ending::Limited { reason: error.report(), until: None }),
        _ if is_trouble(error) => trouble(error),
        _ => Outcome::Ended(Ending::Error { code: error.code().to_owned(), message: error.report() }),
    }
}

fn trouble(error: &Error) -> Outcome {
    Outcome::Trouble { code: error.code().to_owned(), message: error.report() }
}

/// Returns the outcome of an attempt whose agent claims success, and whose work could not be captured.
pub(super) fn uncaptured(error: &Error) -> Outcome {
    Outcome::Uncaptured(Ending::Error { code: error.code().to_owned(), message: error.report() })
}

/// Returns true for trouble of this machine that would affect every task alike: no space, no descriptors, no memory.
pub(super) fn is_trouble(error: &Error) -> bool {
    use rustix::io::Errno;
    let exhausted = |errno: i32| {
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOSPC, Errno::DQUOT]
            .iter()
            .any(|known| known.raw_os_error() == errno)
    };
    // Whole chain: a backend or store may wrap the error of the system several times.
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let errno = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        if errno.is_some_and(exhausted)
            || cause.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfSpace)
        {
            return true;
        }
        source = cause.source();
    }
    error.kind() == ErrorKind::OutOfSpace
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "it was stopped before it began")
}

fn go_on(control: &Control) -> Result<()> {
    control.stopped().map_or(Ok(()), |_| Err(stopped()))
}

/// Runs a chat from its start to its end.
async fn converse(shared: &Arc<ProjectShared>, life: &Life, control: &Control) -> Result<Work> {
    let request = SessionRequest::in_root(shared, Mode::Chat, life.options.clone());
    let started = Box::pin(launch::start(shared, life, request)).await?;
    watch_chat(shared, life, started, control).await
}

async fn watch_chat(
    shared: &Arc<ProjectShared>,
    life: &Life,
    started: Started,
    control: &Control,
) -> Result<Work> {
    let ended = watch(shared, life, None, &started, control).await;
    if is_left(&ended) {
        return Ok(Work::from(Outcome::Undetermined));
    }
    clean_up(shared, started);
    // A chat claims nothing; the schedule closes it whatever the outcome.
    Ok(Work::from(Outcome::Claimed))
}

/// Runs a step of wildfire from its start to its end, and takes over what its agent wrote.
async fn step(shared: &Arc<ProjectShared>, life: &Life, control: &Control) -> Result<Work> {
    go_on(control)?;
    room::check(shared).await?;
    let (request, given) = match steps::prepare(shared, life).await? {
        Ok(prepared) => prepared,
        Err(ending) => return Ok(Work::from(Outcome::Ended(ending))),
    };
    launch::admit(shared, life, &request.options, request.task.as_ref()).await?;
    let started = Box::pin(launch::start(shared, life, request)).await?;
    let ended = watch(shared, life, None, &started, control).await;
    let outcome = match verdict::of_stop(&ended) {
        Some(outcome) => Ok(outcome),
        None => match &ended.claim {
            Some(claim) if claim.success => steps::import(shared, life, &started.files(), given).await,
            Some(claim) => Ok(Outcome::Ended(verdict::failure(claim))),
            None => verdict::without_claim(shared, &started, &ended).await,
        },
    };
    reached(|| "step imported");
    // Also after an error: the next attempt begins anew.
    clean_up(shared, started);
    Ok(Work::from(outcome?))
}

async fn work_on(
    shared: &Arc<ProjectShared>,
    life: &Life,
    number: TaskNumber,
    control: &Control,
) -> Result<Work> {
    go_on(control)?;
    room::check(shared).await?;
    // First of all effects: from here on no other orchestrator starts the task.
    let task = match claims::claim(shared, life.id, number).await {
        Ok(_) => ready_task(shared, life, number).await,
        Err(error) if error.kind() == ErrorKind::Busy => return Ok(Work::from(Outcome::Elsewhere)),
        Err(error) => Err(error),
    };
    let task = match task {
        Ok(Some(task)) => task,
        Ok(None) => return Ok(Work::from(Outcome::Ended(Ending::Stopped { by: StopReason::Withdrawn }))),
        // A store that cannot be reached would fail every task alike.
        Err(error) if error.kind() == ErrorKind::Io => return Ok(Work::from(trouble(&error))),
        Err(error) => return Err(error),
    };
    go_on(control)?;
    // Before anything is made for it.
    Box::pin(launch::admit(shared, life, &life.options, Some(&task))).await?;
    let lock = shared.task_lock(number);
    let opened = {
        // A removal of the branch must not run between opening and starting.
        let _opening = lock.lock().await;
        Box::pin(open_workspace(shared, number, life.attempt, &life.options)).await?
    };
    reached(|| "workspace opened");
    // A setup may take half an hour. Dropping it ends the command and everything that it started.
    let failure = tokio::select! {
        failure = Box::pin(setup::run(shared, number, &opened, &life.options)) => failure?,
        _ = control.wait_stopped() => return Err(stopped()),
    };
    if let Some(Failure { command, how, output }) = failure {
        let ending = Ending::SetupFailed { command, how, output };
        return Ok(Work::from(Outcome::Ended(ending)));
    }
    go_on(control)?;
    let target = opened.target.clone().unwrap_or_default();
    // Computed anew, because the target may have moved since the merge that failed.
    let conflicts = match &life.setback {
        Some(Ending::Conflict { .. }) => conflicts(shared, number, &target).await,
        _ => Vec::new(),
    };
    let previous = previous(life, conflicts, &opened);
    let request = SessionRequest { previous, ..request(life, &task, opened) };
    let (started, ended) = run_session(shared, life, &task, request, control).await?;
    Box::pin(take_over(shared, life, number, started, &ended, control)).await
}

/// Runs a session to its end, and a second one if the agent said nothing of its task.
async fn run_session(
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
async fn nudged(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: &Task,
    started: Started,
    mut ended: Ended,
    control: &Control,
) -> Result<(Started, Ended)> {
    let opened = open_workspace(shared, task.task_number, life.attempt, &life.options).await;
    // Without a workspace or a conversation to go on with, the end of the session stays as it is.
    let Ok(mut request) = opened.map(|opened| request(life, task, opened)) else {
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

/// Returns the request for a session on a task, without an account of the attempt before.
fn request(life: &Life, task: &Task, opened: Opened) -> SessionRequest {
    SessionRequest {
        mode: Mode::Task,
        phase: None,
        task: Some(task.clone()),
        others: Vec::new(),
        attempt: life.attempt,
        previous: None,
        opened,
        options: life.options.clone(),
        resume: None,
    }
}

/// Runs a session to its end. Tries to resume the vendor's session of the attempt before, and starts a fresh one if
/// the agent does not begin to work.
async fn resumed_or_fresh(
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
            Err(error) if error.kind() == ErrorKind::Cancelled || is_trouble(&error) => return Err(error),
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
async fn preserve(shared: &Arc<ProjectShared>, started: &Started, ended: &Ended) {
    if ended.worked && !is_left(ended) {
        started.preserve(shared).await;
    }
}

/// Opens the workspace of a task as its sandbox allows, and reports remarks for the person.
pub(crate) async fn open_workspace(
    shared: &Arc<ProjectShared>,
    task: TaskNumber,
    attempt: Attempt,
    options: &RunOptions,
) -> Result<Opened> {
    let (project, settings) = shared.settings().await?;
    let open = OpenRequest::new(task, attempt).with_target(&project.default_branch);
    let (asking, asked) = (Arc::clone(shared), options.clone());
    // Before the workspace is made, so that a malformed entry leaves nothing behind.
    let wanted = Wanted::of(&project)?;
    let (of, by) = (project.clone(), settings.clone());
    let ask = move || isolate(open, &asking, &of, &by, &asked);
    let open = blocking("asking the sandbox", ask).await?;
    let mut opened = shared.workspace.open(&open).await?;
    // In the checkout itself the files are there already.
    if !wanted.is_empty() && opened.cwd != shared.root {
        give(shared, project, settings, wanted, open.isolated, &mut opened).await?;
    }
    for line in &opened.attention {
        shared.notice(NoticeCode::Workspace, Some(task), line.clone());
    }
    for rescued in &opened.rescued {
        let message = format!("earlier work is kept in {}", rescued.name);
        shared.notice(NoticeCode::WorkKept, Some(task), message);
    }
    Ok(opened)
}

/// Gives an opened workspace the ignored folders and files of the checkout that the project asks for.
async fn give(
    shared: &Arc<ProjectShared>,
    project: Project,
    settings: Settings,
    mut wanted: Wanted,
    isolated: bool,
    opened: &mut Opened,
) -> Result<()> {
    if !isolated {
        let shown = std::mem::take(&mut wanted.share);
        opened.attention.extend(shown.iter().map(|path| {
            format!("tasks do not get {}: this sandbox cannot show folders copy-on-write", path.display())
        }));
    }
    let ignored = shared.workspace.ignored(wanted.all()).await?;
    opened.attention.extend(wanted.keep_ignored(&ignored));
    let (of, to) = (Arc::clone(shared), opened.cwd.clone());
    let provide = move || Ok(wanted.provide(&of.root, &to, &own_policy(&of, &project, &settings)?));
    let provided = blocking("giving a task files of the checkout", provide).await?;
    opened.attention.extend(provided.remarks);
    opened.policy_rules.extend(provided.rules);
    opened.binds.extend(provided.binds);
    Ok(())
}

/// Returns the task, unless a person withdrew it a moment ago.
async fn ready_task(shared: &ProjectShared, life: &Life, number: TaskNumber) -> Result<Option<Task>> {
    let task = match shared.store.get(number).await {
        Ok(task) => task.value,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if task.is_deleted() || task.status == TaskStatus::Draft {
        return Ok(None);
    }
    if task.status == TaskStatus::Ready {
        return Ok(Some(task));
    }
    // Done, but its merge failed and another attempt was requested.
    let patch = TaskPatch::new().with_status(TaskStatus::Ready);
    let task = claims::update(shared, life.id, number, patch).await?;
    shared.store_changed(Some(number));
    Ok(Some(task))
}

/// Follows a session from its first byte to its last.
async fn watch(
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
fn is_left(ended: &Ended) -> bool {
    ended.cause == Cause::Stopped(StopReason::Detached)
}

/// Determines the outcome of a session, and captures its work.
async fn take_over(
    shared: &Arc<ProjectShared>,
    life: &Life,
    task: TaskNumber,
    started: Started,
    ended: &Ended,
    control: &Control,
) -> Result<Work> {
    // Its folders stay as they are, for the program that takes it over.
    if is_left(ended) {
        return Ok(Work::from(Outcome::Undetermined));
    }
    let verdict = verdict::of_session(shared, life, task, &started, ended, control).await;
    reached(|| "judged");
    // The work is kept, whatever the verdict.
    let message = format!("Uncommitted work of task #{}\n\nCaptured when the session ended.", task);
    let info = started.session.info();
    let capture = CaptureRequest::new(task, message)
        .with_trailer("Watchfire-Task", task.to_string())
        .with_trailer("Watchfire-Session", info.id.to_string())
        .with_trailer("Watchfire-Agent", info.backend.to_string());
    let captured = shared.workspace.capture(&capture).await;
    reached(|| "captured");
    // Also after a failed capture: the work is in the workspace, not in the session's folders. A claim that is not
    // written yet is only there.
    if !matches!(&verdict, Ok(Verdict(Outcome::Undetermined))) {
        clean_up(shared, started);
    }
    let Verdict(outcome) = verdict?;
    let captured = match captured {
        Err(error) if outcome == Outcome::Claimed && !is_trouble(&error) => {
            return Ok(Work::from(uncaptured(&error)));
        }
        captured => captured?,
    };
    tell_kept(shared, task, &captured);
    Ok(Work { outcome: unless_unfinished(outcome, &captured), captured })
}

/// Reports what the agent named and the work does not contain.
pub(super) fn tell_kept(shared: &ProjectShared, task: TaskNumber, captured: &Captured) {
    for kept in &captured.kept {
        let message = format!("no part of the work, and kept: {} ({})", kept.name, kept.commit.short());
        shared.notice(NoticeCode::WorkKept, Some(task), message);
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
        let message = format!("no part of the work: {}", names.join(", "));
        shared.notice(NoticeCode::Workspace, Some(task), message);
    }
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

/// Cleans up after a session in the background.
fn clean_up(shared: &Arc<ProjectShared>, started: Started) {
    let (shared, busy) = (Arc::clone(shared), shared.busy());
    tokio::spawn(async move {
        started.finish(&shared).await;
        reached(|| "cleaned up");
        drop(busy);
    });
}

/// Returns the files on which the work conflicts with the current target, for the prompt. Empty if the merge fails
/// otherwise; the ending has the reason then.
async fn conflicts(shared: &ProjectShared, task: TaskNumber, target: &str) -> Vec<(String, Option<String>)> {
    let request = MergeRequest::new(task, target, "");
    match shared.workspace.prepare_merge(&request).await {
        Ok(Merge::Conflicts(conflicts)) => {
            conflicts.into_iter().map(|conflict| (conflict.path.to_string(), conflict.hunks)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the account of the attempt before if it asked and a person has answered.
pub(super) fn answered(life: &Life) -> Option<PreviousAttempt> {
    let answers: Vec<_> = life.answers.iter().map(|a| (a.question.clone(), a.text.clone())).collect();
    let before = Attempt(life.attempt.0.saturating_sub(1));
    (!answers.is_empty()).then(|| PreviousAttempt::new(before, Setback::Asked { answers }))
}

/// Returns the account of the attempt before, for the agent's prompt.
fn previous(
    life: &Life,
    conflicts: Vec<(String, Option<String>)>,
    opened: &Opened,
) -> Option<PreviousAttempt> {
    let before = Attempt(life.attempt.0.saturating_sub(1));
    // An answered question outranks the setback: it is why this attempt runs.
    if let Some(answered) = answered(life) {
        return Some(answered.with_work_kept(opened.reused));
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
    Some(PreviousAttempt::new(before, setback).with_work_kept(opened.reused))
}
