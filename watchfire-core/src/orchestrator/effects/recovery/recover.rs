//! Recovery after a kill: determines the outcome of lives that were under way, and reports it as facts. The schedule
//! continues as if its own effects had answered.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use super::adopt::adopted;
use crate::backend::SessionContext;
use crate::endpoint::{Signal, SignalRead, Spool, SpoolLimits, read_signal};
use crate::failpoint::reached;
use crate::model::{Mode, ProcessIdentity, Question, TaskNumber, Timestamp};
use crate::orchestrator::compose::{files, progress, resume};
use crate::orchestrator::effects::attempts::{Visit, claimed, go_on_with, stamp};
use crate::orchestrator::effects::capture::{try_capture, without_capture};
use crate::orchestrator::effects::claims;
use crate::orchestrator::effects::outcome::{outcome_of, uncaptured, unless_unfinished};
use crate::orchestrator::effects::publication::{answer, ask_again, found_in_targets};
use crate::orchestrator::shared::{Control, ProjectShared, blocking, caught};
use crate::process::{Liveness, end_marked};
use crate::schedule::{
    ChatPlace, Fact, Ledger, Life, LifeId, LifeState, NoticeCode, Outcome, SessionEnd, SessionRef, StopReason,
};
use crate::session::{Claim, Completion, SessionDirectory};
use crate::workspace::{InTargets, Recovery};
use crate::{Error, ErrorKind, Result};

/// Time limit for the processes of a killed orchestrator. Their lifeline is closed, so they end soon.
const LEFTOVERS: Duration = Duration::from_secs(20);

/// Time that a start waits until a task's file can be written.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reports what the workspace found half-done and repaired.
pub(crate) fn report_recovery(shared: &ProjectShared, recovery: &Recovery) {
    for line in recovery.completed.iter().chain(&recovery.undone) {
        shared.notice(NoticeCode::Recovered, None, line.clone());
    }
    for line in &recovery.attention {
        shared.notice(NoticeCode::Workspace, None, line.clone());
    }
    for obstacle in &recovery.incomplete {
        shared.notice(NoticeCode::Workspace, None, format!("published, but not checked out: {obstacle}"));
    }
    for obstacle in &recovery.half {
        shared.notice(NoticeCode::Workspace, None, obstacle.to_string());
    }
}

/// Lives of an earlier start, in the order in which they are recovered. Those that are left when this is dropped keep their
/// state for the next start, and the project closes without them.
pub(crate) struct Unrecovered {
    shared: Arc<ProjectShared>,
    lives: VecDeque<(Life, Control)>,
}

impl Unrecovered {
    pub(crate) fn new(shared: &Arc<ProjectShared>, lives: Vec<(Life, Control)>) -> Self {
        Self { shared: Arc::clone(shared), lives: lives.into() }
    }
}

impl Drop for Unrecovered {
    fn drop(&mut self) {
        for (life, _) in self.lives.drain(..) {
            self.shared.report(attempted(life.id, Outcome::Undetermined));
        }
    }
}

fn attempted(life: LifeId, outcome: Outcome) -> Fact {
    Fact::Attempted { life, outcome, tip: None, progress: false }
}

/// Determines the outcome of each life and reports it.
///
/// # Errors
/// `busy` if an agent of an earlier orchestrator does not end: two agents must never share a worktree.
pub(crate) async fn recover(shared: &Arc<ProjectShared>, mut left: Unrecovered) -> Result<()> {
    while let Some((life, control)) = left.lives.front().cloned() {
        let (id, task) = (life.id, life.subject.task());
        match &life.state {
            LifeState::Publishing { candidate } | LifeState::Held { candidate: Some(candidate), .. } => {
                // Only git knows. An error is not an answer, so the life keeps its state and the target is
                // asked again.
                match found_in_targets(shared, task, candidate).await {
                    Ok(found) => shared.report(answer(id, found)),
                    // A person has to change something first, and another try of what was held says what.
                    Err(error)
                        if error.kind() == ErrorKind::NotSupported
                            && matches!(life.state, LifeState::Held { .. }) =>
                    {
                        shared.report(answer(id, InTargets::None));
                    }
                    Err(_) => {
                        tokio::spawn(ask_again(Arc::clone(shared), id, (**candidate).clone()));
                    }
                }
            }
            // Nothing is in doubt: this work was not published, or is known to be.
            LifeState::Held { .. } | LifeState::Incomplete { .. } => {}
            _ => {
                if let Some(started) = adopted(shared, &life).await {
                    // At once: what the schedule decides from here on is for this session.
                    control.set_session(started.session.clone());
                    tokio::spawn(go_on_with(Arc::clone(shared), life, control, started));
                    left.lives.pop_front();
                    continue;
                }
                let ending = end_session(Arc::clone(shared), life.clone());
                let ended = match caught("recovering its session", ending).await {
                    Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
                    ended => ended,
                };
                // Its task's file may be malformed for as long as its person likes. Then the claim is written
                // later, and the project opens.
                let clock = &shared.inner.clock;
                let patience = clock.sleep_until(clock.boot_time() + PATIENCE);
                let taking_over = tokio::spawn(take_over(Arc::clone(shared), life, control, ended));
                tokio::select! {
                    _ = taking_over => {}
                    () = patience => {}
                }
            }
        }
        left.lives.pop_front();
    }
    Ok(())
}

/// The result of a lost session.
enum Left {
    Outcome(Outcome),
    /// The claim of its agent, which is not written to the store yet.
    Claim(Claim),
}

/// Writes down what a session left, captures its work, reports it, and removes the session's folder.
async fn take_over(shared: Arc<ProjectShared>, life: Life, control: Control, left: Result<Left>) {
    let id = life.id;
    let session = life.session.as_ref().map(|session| directory_of(&shared, session));
    let task = life.subject.task();
    // A foreign store or workspace that panics ends only this life.
    let work = caught("recovering its work", recovered(Arc::clone(&shared), life, control, left));
    let fact = work.await.unwrap_or_else(|error| {
        shared.notice(NoticeCode::Recovered, task, error.report());
        attempted(id, outcome_of(&error))
    });
    // A claim that is not written yet is only there.
    let is_needed = matches!(fact, Fact::Attempted { outcome: Outcome::Undetermined, .. });
    shared.report(fact);
    if let Some(directory) = session.filter(|_| !is_needed) {
        remove_folder(&shared, directory).await;
    }
}

/// Determines the outcome of a life's attempt, and captures its work.
async fn recovered(
    shared: Arc<ProjectShared>,
    life: Life,
    control: Control,
    left: Result<Left>,
) -> Result<Fact> {
    let task = life.subject.task();
    // Another machine may have taken the task over meanwhile; that concerns only this life.
    let ours = match task.filter(|_| life.session.is_some()) {
        Some(task) => claims::claim(&shared, life.id, task).await.map(|_| ()),
        None => Ok(()),
    };
    if let (Some(session), Ok(())) = (&life.session, &ours) {
        let directory = directory_of(&shared, session);
        let imported = files::import_memory(&*shared.store, &directory, shared.fence(life.id)).await;
        if let Err(error) = imported {
            shared.notice(NoticeCode::Cleanup, task, format!("importing memory.md: {}", error.report()));
        }
        if let Some(number) = task {
            // Killed between the start of the agent and its stamp. A claim proves that there was an agent.
            if session.agent.is_some() || matches!(left, Ok(Left::Claim(_))) {
                stamp(&shared, &life, number, &session.started).await;
            }
            let state = shared.state_dir.clone();
            let keep = move || progress::keep(&state, number, &directory);
            if let Err(error) = blocking("keeping progress.md", keep).await {
                shared.notice(NoticeCode::Cleanup, task, format!("keeping progress.md: {}", error.report()));
            }
        }
    }
    let outcome = match (left, task) {
        (Ok(Left::Claim(claim)), Some(task)) => match ours {
            Ok(()) => claimed(&shared, &life, task, &claim, &control).await,
            Err(error) => Err(error),
        },
        (Ok(Left::Outcome(outcome)), _) => Ok(outcome),
        // Claims are read for tasks only.
        (Ok(Left::Claim(_)), None) => Ok(Outcome::Interrupted),
        (Err(error), _) => Err(error),
    };
    // Trouble with one life must not keep the others from continuing.
    let outcome = outcome.unwrap_or_else(|error| {
        let message = format!("recovering its session: {}", error.report());
        shared.notice(NoticeCode::Recovered, task, message);
        outcome_of(&error)
    });
    let (captured, outcome) = match try_capture(&shared, task, "a restart").await {
        Ok(captured) => {
            let outcome = unless_unfinished(outcome, &captured);
            (captured, outcome)
        }
        Err(error) => {
            // A task that a person finished has no workspace. An agent that claims success has one, and what it
            // did must not be taken for nothing.
            let outcome = match outcome {
                Outcome::Claimed if life.session.is_some() && error.is_trouble() => outcome_of(&error),
                Outcome::Claimed if life.session.is_some() => uncaptured(&error),
                outcome => outcome,
            };
            (without_capture(&shared, task, &error), outcome)
        }
    };
    reached(|| "recovering: captured");
    let (tip, commits) = (captured.tip, captured.commits);
    let progress = tip.is_some() && tip != life.tip && commits > 0;
    Ok(Fact::Attempted { life: life.id, outcome, tip, progress })
}

fn directory_of(shared: &ProjectShared, session: &SessionRef) -> SessionDirectory {
    SessionDirectory::existing(shared.state_dir.join("sessions").join(session.id.as_str()))
}

/// Waits for the process tree of a life's session, and reads its agent's claim.
async fn end_session(shared: Arc<ProjectShared>, life: Life) -> Result<Left> {
    let shared = &shared;
    let interrupted = || Ok(Left::Outcome(Outcome::Interrupted));
    // No session was recorded, so none was permitted to start.
    let Some(session) = &life.session else { return interrupted() };
    // A session that its host kept alive and that was not taken over is ended as well: nothing watches its agent.
    shared.inner.host.end(&session.id).await?;
    reached(|| "recovering session");
    for process in [&session.guardian, &session.agent].into_iter().flatten() {
        wait_until_gone(shared, process).await?;
    }
    let marked = session.id.clone();
    // Descendants that left the session can outlive a guardian that was killed.
    blocking("ending what a lost session left", move || Ok(end_marked(&marked))).await?;
    let directory = directory_of(shared, session);
    let task = life.subject.task();
    if let Err(error) = clean_up(shared, &life, session, &directory).await {
        shared.notice(NoticeCode::Cleanup, task, format!("the agent's own clean-up: {}", error.report()));
    }
    // Only now that nothing of it runs: with this the life is capturing, which means that its processes are gone.
    shared.report(Fact::SessionOver { life: life.id, end: SessionEnd::new("lost with its orchestrator") });
    let Some(task) = task else {
        // What a chat did last is carried over or captured, also after a kill.
        Visit::new(shared, session.id.clone(), life.options.place).leave().await;
        return interrupted();
    };
    shared.notice(NoticeCode::Recovered, Some(task), "its session was lost with its orchestrator");
    if matches!(life.stop, Some(StopReason::Requested | StopReason::Withdrawn)) {
        // A stop was recorded first: what its agent said of its work afterwards does not count. What the task's file says by
        // now does: that this work is done, and not merged.
        return done_in_file(shared, task).await.map(Left::Outcome);
    }
    let (claim, mut questions) = read_claim(task, session, directory).await?;
    let (project, _) = shared.settings().await?;
    if project.agents_may.ask_person == Some(false) {
        questions.clear();
    }
    if let LifeState::Asking { questions: recorded } = &life.state {
        questions
            .extend(recorded.iter().filter(|asked| !questions.contains(asked)).cloned().collect::<Vec<_>>());
    }
    match claim {
        Some(_) if life.stop == Some(StopReason::DoneByHand) => {
            done_in_file(shared, task).await.map(Left::Outcome)
        }
        Some(claim) => Ok(Left::Claim(claim)),
        None if !questions.is_empty() => Ok(Left::Outcome(Outcome::Asked(questions))),
        None => done_in_file(shared, task).await.map(Left::Outcome),
    }
}

/// Returns the outcome of a session without a claim. A person may have marked the task's file.
async fn done_in_file(shared: &ProjectShared, task: TaskNumber) -> Result<Outcome> {
    match shared.store.get(task).await {
        Ok(task) if task.value.claims_success() => Ok(Outcome::Claimed),
        Ok(_) => Ok(Outcome::Interrupted),
        // A file that is away or half-edited says nothing.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Malformed) => {
            Ok(Outcome::Interrupted)
        }
        Err(error) => Err(error),
    }
}

/// Lets the backend carry renewed credentials back, and saves the files for a resume, before the home is removed.
async fn clean_up(
    shared: &ProjectShared,
    life: &Life,
    session: &SessionRef,
    directory: &SessionDirectory,
) -> Result<()> {
    let home = directory.home();
    // The session was cleaned up before the kill.
    if !home.is_dir() {
        return Ok(());
    }
    let (_, settings) = shared.settings().await?;
    let backend = shared.inner.backend(&session.backend, &settings)?;
    let mode = if life.subject.task().is_some() { Mode::Task } else { Mode::Chat };
    let cwd = session.cwd.clone();
    let mut context = SessionContext::new(session.id.clone(), session.backend.clone(), mode, "", home, cwd);
    context.session_dir = directory.files();
    context.project_root.clone_from(&shared.root);
    context.settings = settings.agents.get(backend.name()).cloned().unwrap_or_default();
    context.environment.clone_from(&shared.inner.environment);
    context.user_home.clone_from(&shared.inner.user_home);
    let (state, now, note) = (shared.state_dir.clone(), shared.inner.clock.now(), directory.vendor_session());
    let (task, is_step, chosen) =
        (life.subject.task(), life.subject.is_step(), session.vendor_session.clone());
    blocking("cleaning up after an agent", move || {
        let cleaned = backend.clean_up(&context);
        // The note names the session that the vendor really opened, which may not be the one that we chose.
        let noted = std::fs::read_to_string(note).ok().or(chosen);
        // A step begins anew.
        if let Some(id) = noted.filter(|_| !is_step) {
            resume::save(&state, task, &*backend, &context, &id, "", now)?;
        }
        cleaned
    })
    .await
}

async fn wait_until_gone(shared: &ProjectShared, process: &ProcessIdentity) -> Result<()> {
    let clock = &shared.inner.clock;
    let deadline = clock.boot_time() + LEFTOVERS;
    let may_run = || match process.liveness() {
        Liveness::Alive => true,
        Liveness::Dead => false,
        // Its number is in use and it cannot be looked at. Without a start time, the number may be another program's.
        Liveness::Unknown => process.start_time != 0,
    };
    while may_run() {
        if clock.boot_time() > deadline {
            return Err(Error::new(ErrorKind::Busy, "an agent of an earlier orchestrator is still running")
                .with("pid", process.pid)
                .with("hint", "end it, then try again"));
        }
        clock.sleep_until(clock.boot_time() + Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Reads the claim of a lost session's agent about its task, and its questions, answered or not.
async fn read_claim(
    task: TaskNumber,
    session: &SessionRef,
    directory: SessionDirectory,
) -> Result<(Option<Claim>, Vec<Question>)> {
    let session = session.id.clone();
    blocking("reading what an agent said", move || {
        // Everything in the session's folder was written while it ran, so no signal is too old.
        let signal = read_signal(&directory.files(), &session, &Timestamp::from_unix_millis(0));
        // Whatever the agent made of its spool, its claim counts.
        let sent = Spool::open(&directory.files(), SpoolLimits::default()).and_then(|it| it.questions());
        let mut questions = sent.unwrap_or_default();
        if let SignalRead::Signal(Signal::Questions(asked)) = &signal {
            questions
                .extend(asked.iter().filter(|asked| !questions.contains(asked)).cloned().collect::<Vec<_>>());
        }
        let file = Completion::TaskFile(files::task_copy(&directory, task)).read()?;
        Ok((Claim::together(file, &signal), questions))
    })
    .await
}

/// Lists the folders that an earlier start left, except where a life names the session: these are removed once their
/// claims are written. Asked before anything begins: a merge that goes on makes a folder of its own.
pub(crate) async fn sessions_left(shared: &ProjectShared, lives: &Ledger) -> Result<Vec<SessionDirectory>> {
    let sessions = shared.state_dir.join("sessions");
    let named = lives.lives.values().filter_map(|life| life.session.as_ref());
    let named: BTreeSet<OsString> = named.map(|session| session.id.as_str().into()).collect();
    let list = move || {
        let entries = std::fs::read_dir(&sessions).into_iter().flatten().flatten();
        let left = entries.filter(|entry| !named.contains(&entry.file_name()));
        Ok(left.map(|entry| SessionDirectory::existing(entry.path())).collect::<Vec<_>>())
    };
    blocking("listing old sessions", list).await
}

/// Imports `memory.md` of lost sessions, and removes their folders.
pub(crate) async fn sweep(shared: &Arc<ProjectShared>, left: impl IntoIterator<Item = SessionDirectory>) {
    for directory in left {
        reached(|| "sweeping");
        // A trial in the root has no life that would leave it.
        if let Some(session) = directory.session() {
            Visit::new(shared, session, ChatPlace::Root).leave().await;
        }
        if let Err(error) = files::import_memory(&*shared.store, &directory, None).await {
            shared.notice(NoticeCode::Cleanup, None, format!("importing memory.md: {}", error.report()));
        }
        remove_folder(shared, directory).await;
    }
}

async fn remove_folder(shared: &ProjectShared, directory: SessionDirectory) {
    if let Err(error) = blocking("removing a session's folder", move || directory.remove()).await {
        let message = format!("removing an old session's folder: {}", error.report());
        shared.notice(NoticeCode::Cleanup, None, message);
    }
}
