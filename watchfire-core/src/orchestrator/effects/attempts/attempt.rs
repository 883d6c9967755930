//! One attempt of a life: claim, open, start, watch, capture.
//!
//! Every step checks the life's [`Control`] before it begins, so that a stop between two sessions is not lost.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::account::{conflicts, previous};
use super::session::{
    clean_up, go_on, is_left, phase_of, preserve, request, run_session, stamp, stopped, watch, watch_to_end,
};
use super::started::Started;
use super::verdict::{self, Verdict};
use super::visit::{Visit, enter_chat};
use super::workspace::{open_workspace, ready_task};
use super::{launch, setup, steps};
use crate::failpoint::reached;
use crate::model::{Attempt, TaskNumber};
use crate::orchestrator::compose::{SessionRequest, open_in_a_chat};
use crate::orchestrator::effects::capture::capture;
use crate::orchestrator::effects::commands::Failure;
use crate::orchestrator::effects::mirror::{mirror, mirror_refinement};
use crate::orchestrator::effects::outcome::{outcome_of, tell_kept, trouble, uncaptured, unless_unfinished};
use crate::orchestrator::effects::{claims, room};
use crate::orchestrator::shared::{Control, ProjectShared, blocking};
use crate::schedule::{Ending, Fact, Life, NoticeCode, Outcome, SessionEnd, StopReason, Subject};
use crate::session::Ended;
use crate::workspace::{CaptureRequest, Captured};
use crate::{Error, ErrorKind, Result};

/// Time that a stopped attempt may take beside the end of its session.
const OVERDUE: Duration = Duration::from_secs(15);

/// Makes an attempt and reports its outcome, even after a panic.
pub(crate) async fn attempt(shared: Arc<ProjectShared>, life: Life, control: Control) {
    let (of, to, by) = (Arc::clone(&shared), life.clone(), control.clone());
    let work = Box::pin(async move {
        match to.subject.task() {
            Some(task) => work_on(&of, &to, task, &by).await,
            None if to.subject.is_step() => step(&of, &to, &by).await,
            None => converse(&of, &to, &by).await,
        }
    });
    conclude(shared, life, control, work).await;
}

/// Goes on with an attempt whose session was taken over from an earlier program.
pub(in crate::orchestrator::effects) async fn go_on_with(
    shared: Arc<ProjectShared>,
    life: Life,
    control: Control,
    started: Started,
) {
    let (of, to, by) = (Arc::clone(&shared), life.clone(), control.clone());
    let work = Box::pin(async move {
        let Some(task) = to.subject.task() else {
            return watch_chat(&of, &to, started, &by).await;
        };
        stamp(&of, &to, task, &started.session.info().started_at).await;
        let (started, ended) = watch_to_end(&of, &to, task, started, &by).await?;
        Box::pin(take_over(&of, &to, task, started, &ended, &by)).await
    });
    conclude(shared, life, control, work).await;
}

/// Does the work of an attempt and reports its outcome, even after a panic.
async fn conclude(
    shared: Arc<ProjectShared>,
    life: Life,
    control: Control,
    // Boxed: by value, it would take its size again in each future that passes it on, for as long as the session lives.
    work: Pin<Box<dyn Future<Output = Result<Work>> + Send>>,
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
    if let Outcome::Ended(ending) | Outcome::Uncaptured(ending) = &outcome {
        // In a task of its own, too: the store may be the one that panicked.
        let (mirrored, ending, subject) = (Arc::clone(&shared), ending.clone(), life.subject);
        let mirroring = tokio::spawn(async move {
            match subject {
                Subject::Task { task } => mirror(&mirrored, id, task, &ending).await,
                Subject::Refine { draft } => mirror_refinement(&mirrored, draft, &ending).await,
                _ => {}
            }
        });
        let _ = mirroring.await;
    }
    // Before the first capture of a task there is no tip to compare with.
    let progress = match (&before, &captured.tip) {
        (Some(before), Some(now)) => before != now,
        _ => captured.commits > 0,
    };
    // Before the report: the schedule must not step on a board that still shows the task as before.
    shared.store_changed(life.subject.about());
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

/// Runs a chat from its start to its end.
async fn converse(shared: &Arc<ProjectShared>, life: &Life, control: &Control) -> Result<Work> {
    let place = life.options.place;
    if place.is_root() {
        tell_unprotected(shared).await?;
    }
    let attempt = Attempt(u32::try_from(life.id.0).unwrap_or(u32::MAX));
    let mut request = enter_chat(shared, attempt, life.options.clone()).await?;
    let visit = request.session.clone().map(|session| Visit::new(shared, session, place));
    let starting = Box::pin(async {
        request.resume = launch::chat_to_resume(shared, &request).await?;
        launch::start(shared, life, request).await
    });
    match starting.await {
        Ok(started) => watch_chat(shared, life, started, control).await,
        Err(error) => {
            if let Some(visit) = visit {
                visit.leave().await;
            }
            Err(error)
        }
    }
}

/// Tells which protected paths a chat in the root can change all the same.
async fn tell_unprotected(shared: &Arc<ProjectShared>) -> Result<()> {
    let (project, _) = shared.settings().await?;
    let root = shared.root.clone();
    let open = blocking("looking at protected paths", move || Ok(open_in_a_chat(&root, &project))).await?;
    if !open.is_empty() {
        let message = format!("a chat can make or change what is protected here: {}", open.join(", "));
        shared.notice(NoticeCode::Workspace, None, message);
    }
    Ok(())
}

async fn watch_chat(
    shared: &Arc<ProjectShared>,
    life: &Life,
    started: Started,
    control: &Control,
) -> Result<Work> {
    let visit = Visit::new(shared, started.session.info().id.clone(), life.options.place);
    let ended = visit.during(watch(shared, life, None, &started, control)).await;
    if is_left(&ended) {
        return Ok(Work::from(Outcome::Undetermined));
    }
    visit.leave().await;
    preserve(shared, &started, &ended).await;
    clean_up(shared, started);
    // A chat claims nothing; the schedule closes it whatever the outcome.
    Ok(Work::from(Outcome::Claimed))
}

/// Runs a step of wildfire from its start to its end, and takes over what its agent wrote.
async fn step(shared: &Arc<ProjectShared>, life: &Life, control: &Control) -> Result<Work> {
    go_on(control)?;
    room::check_all(shared).await?;
    let (request, given) = match steps::prepare(shared, life).await? {
        Ok(prepared) => prepared,
        Err(ending) => return Ok(Work::from(Outcome::Ended(ending))),
    };
    launch::admit(shared, life, &request.options, (request.phase, request.task.as_ref())).await?;
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
    room::check_all(shared).await?;
    let phase = phase_of(shared, life).await?;
    // Before the claim: another orchestrator may have the agent.
    if let Ok(task) = shared.store.get(number).await {
        Box::pin(launch::require_agent(shared, &life.options, (phase, Some(&task.value)))).await?;
    }
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
    Box::pin(launch::admit(shared, life, &life.options, (phase, Some(&task)))).await?;
    let lock = shared.task_lock(number);
    let opened = {
        // A removal of the branch must not run between opening and starting.
        let _opening = lock.lock().await;
        Box::pin(open_workspace(shared, number, life.attempt, &life.options)).await?
    };
    reached(|| "workspace opened");
    // A setup may take half an hour. Dropping it ends the command and everything that it started.
    let prepared = tokio::select! {
        prepared = Box::pin(setup::run(shared, life, &task, &opened)) => prepared?,
        _ = control.wait_stopped() => return Err(stopped()),
    };
    let setup = match prepared {
        Ok(log) => log,
        Err(Failure { command, how, output }) => {
            let ending = Ending::SetupFailed { command, how, output };
            return Ok(Work::from(Outcome::Ended(ending)));
        }
    };
    go_on(control)?;
    let target = opened.target.clone().unwrap_or_default();
    // Computed anew, because the target may have moved since the merge that failed.
    let conflicts = match &life.setback {
        Some(Ending::Conflict { .. }) => conflicts(shared, number, &target).await,
        _ => Vec::new(),
    };
    let previous = previous(life, conflicts, &opened);
    let request = SessionRequest { previous, setup, ..request(life, &task, opened, phase) };
    let (started, ended) = run_session(shared, life, &task, request, control).await?;
    Box::pin(take_over(shared, life, number, started, &ended, control)).await
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
    let capturing = shared.workspace.capture(&capture);
    let captured = shared.patiently(Some(task), "capturing its work", capturing).await;
    reached(|| "captured");
    // Also after a failed capture: the work is in the workspace, not in the session's folders. A claim that is not
    // written yet is only there.
    if !matches!(&verdict, Ok(Verdict(Outcome::Undetermined))) {
        clean_up(shared, started);
    }
    let Verdict(outcome) = verdict?;
    let captured = match captured {
        Err(error) if outcome == Outcome::Claimed && !error.is_trouble() => {
            return Ok(Work::from(uncaptured(&error)));
        }
        captured => captured?,
    };
    tell_kept(shared, Some(task), &captured);
    Ok(Work { outcome: unless_unfinished(outcome, &captured), captured })
}
