//! Opening a project: the lock, the journal, and everything that a killed orchestrator left.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::builder::Inner;
use super::builder::OpenStore;
use super::dispatcher::{Message, PendingMerge};
use super::project::ProjectShared;
use super::request::RunOptions;
use super::{Event, blocking, files, prune, resume};
use crate::backend::SessionContext;
use crate::clock::Clock;
use crate::endpoint::read_signal;
use crate::files::make_private;
use crate::journal::recovery::{self, RecoveryStep};
use crate::journal::{self, Entry, Journal, JournalHandle, StepResult, TaskState};
use crate::model::{Attempt, ProjectId, SessionId, TaskNumber, TaskStatus, Timestamp};
use crate::process::{Liveness, ProcessIdentity};
use crate::schedule::Ending;
use crate::session::{Claim, Completion, SessionDirectory};
use crate::store::{Changes, TaskPatch, TaskQuery};
use crate::workspace::{CaptureRequest, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// How long the processes of a killed orchestrator get to end; their lifeline is gone, so this is short.
const LEFTOVERS: Duration = Duration::from_secs(20);
/// How often held work is tried again.
const HELD: Duration = Duration::from_secs(30);

/// Opens the project at `root` and tells the dispatcher.
pub(super) async fn open(inner: &Arc<Inner>, root: &Path) -> Result<Arc<ProjectShared>> {
    let (shared, state, reserved) = enter(inner, root).await?;
    let (state, pending) = recover(&shared, state).await?;
    let (reply, opened) = oneshot::channel();
    inner.outbox.send(Message::Open { project: Arc::clone(&shared), state: Box::new(state), pending, reply });
    opened.await.map_err(|_| Error::new(ErrorKind::Cancelled, "the orchestrator has shut down"))?;
    let reload = Arc::clone(&shared.reload);
    tokio::spawn(feed_board(Arc::downgrade(&shared), reload, shared.store.subscribe()));
    tokio::spawn(retry_held(Arc::downgrade(&shared), Arc::clone(&inner.clock)));
    load_board(&shared).await?;
    tokio::spawn(prune::keep_clean(Arc::downgrade(&shared), Arc::clone(&inner.clock)));
    reserved.keep();
    Ok(shared)
}

/// Takes the project's lock and reads what is known of it; changes nothing.
pub(super) async fn enter(
    inner: &Arc<Inner>,
    root: &Path,
) -> Result<(Arc<ProjectShared>, journal::State, Reserved)> {
    let (make, path) = (Arc::clone(inner), root.to_path_buf());
    let (workspace, root) = blocking("opening a project", move || {
        let root =
            path.canonicalize().map_err(|e| Error::io("opening the project folder", e).with_path(path))?;
        Ok(((make.workspaces)(&root)?, root))
    })
    .await?;
    let store = (inner.stores)(OpenStore {
        root: root.clone(),
        home: Arc::clone(&inner.store_home),
        shared_dir: workspace.shared_dir(),
    })
    .await?;
    let id = store.project().await?.value.project_id;
    let reserved = Reserved::new(inner, &id)?;
    let (state_dir, logs_dir) = (inner.store_home.state_dir(&id), inner.store_home.logs_dir(&id));
    let journal_dir = state_dir.join("journal");
    let made = [state_dir.clone(), logs_dir.clone()];
    let (journal, state, warnings) = blocking("opening the journal", move || {
        made.iter().try_for_each(|folder| make_private(folder))?;
        let (journal, state, warnings) = Journal::open(&journal_dir)?;
        Ok((JournalHandle::new(journal)?, state, warnings))
    })
    .await?;
    let shared = ProjectShared::new(
        Arc::clone(inner),
        id,
        root,
        state_dir,
        logs_dir,
        store,
        workspace,
        journal,
        &state,
    );
    for warning in warnings {
        shared.attention(None, warning.to_string());
    }
    Ok((Arc::new(shared), state, reserved))
}

/// Marks a project as open here until it is dropped.
pub(super) struct Reserved(Option<(Arc<Inner>, ProjectId)>);

impl Reserved {
    fn new(inner: &Arc<Inner>, id: &ProjectId) -> Result<Self> {
        inner.reserve(id)?;
        Ok(Self(Some((Arc::clone(inner), id.clone()))))
    }

    /// Leaves it to the dispatcher.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some((inner, id)) = self.0.take() {
            inner.unreserve(&id);
        }
    }
}

/// Settles what was left, before anything else happens. Gives the state as it is then, and the merges to resume.
async fn recover(
    shared: &Arc<ProjectShared>,
    mut state: journal::State,
) -> Result<(journal::State, Vec<PendingMerge>)> {
    let tell = |message: String| shared.tell(&Event::Recovered { project: shared.id.clone(), message });
    let recovery = shared.workspace.recover().await?;
    recovery.completed.iter().chain(&recovery.undone).for_each(|line| tell(line.clone()));
    recovery.attention.iter().for_each(|line| shared.attention(None, line.clone()));
    recovery.incomplete.iter().for_each(|obstacle| shared.attention(None, obstacle.to_string()));

    let mut pending = Vec::new();
    for step in recovery::plan(&state) {
        let task = task_of(&step, &state);
        // One task in trouble must not keep all others from being worked on.
        let entries = match settle_step(shared, &state, step, &mut pending).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
            Err(error) => {
                shared.attention(task, format!("settling what was left: {}", error.report()));
                let attempt = task.and_then(|task| state.tasks.get(&task)).map(|record| record.attempt);
                let ended = |(task, attempt)| {
                    let ending = Ending::Error { reason: error.report() };
                    Entry::TaskState { task, attempt, state: TaskState::Ended { ending } }
                };
                task.zip(attempt).map(ended).into_iter().collect()
            }
        };
        for entry in &entries {
            journal::fold(&mut state, entry);
        }
        if !entries.is_empty() {
            shared.journal.append(entries).await?;
        }
    }
    if let Err(error) = resume_held(shared, &state, &mut pending).await {
        shared.attention(None, format!("taking up held work: {}", error.report()));
    }
    sweep(shared).await?;
    Ok((state, pending))
}

fn task_of(step: &RecoveryStep, state: &journal::State) -> Option<TaskNumber> {
    match step {
        RecoveryStep::SettlePublish { task, .. } | RecoveryStep::Gate { task, .. } => Some(*task),
        RecoveryStep::Resume { key, .. } => Some(key.task),
        RecoveryStep::EndSession { session, .. } => {
            state.sessions.get(session).and_then(|live| live.key.as_ref()).map(|key| key.task)
        }
        RecoveryStep::Repeat { step, .. } => Some(step.task()),
        RecoveryStep::Abandon { .. } => None,
    }
}

/// Sees to one step; gives what is to be written down.
async fn settle_step(
    shared: &Arc<ProjectShared>,
    state: &journal::State,
    step: RecoveryStep,
    pending: &mut Vec<PendingMerge>,
) -> Result<Vec<Entry>> {
    let tell = |message: String| shared.tell(&Event::Recovered { project: shared.id.clone(), message });
    match step {
        RecoveryStep::SettlePublish { id, task, attempt, target, commit, .. } => {
            // Whether it was published shows when it is merged again: then nothing is left to merge.
            tell(format!("task #{task}: looking whether {} reached {target}", commit.short()));
            let (publishing, options) = (Some((id, commit)), options(state, task));
            pending.push(PendingMerge { task, attempt, target, publishing, options });
            Ok(Vec::new())
        }
        RecoveryStep::EndSession { session, identity } => {
            if let Some(identity) = identity {
                wait_until_gone(shared, &identity).await?;
            }
            let task = state.sessions.get(&session).and_then(|live| live.key.as_ref()).map(|key| key.task);
            let directory =
                SessionDirectory::existing(shared.state_dir.join("sessions").join(session.as_str()));
            if let Some(live) = state.sessions.get(&session)
                && let Err(error) = clean_up(shared, &session, live, &directory).await
            {
                shared.attention(task, format!("the agent's own clean-up: {}", error.report()));
            }
            if let Some(task) = task {
                tell(format!("task #{task}: its session was cut off"));
                if let Err(error) = import_claim(shared, task, &session, &directory).await {
                    shared.attention(Some(task), format!("what its agent said: {}", error.report()));
                }
            }
            Ok(vec![Entry::SessionEnded { session, exit: None, outcome: "cut off".to_owned() }])
        }
        RecoveryStep::Repeat { id, .. } | RecoveryStep::Abandon { id } => {
            Ok(vec![Entry::Outcome { id, result: StepResult::Abandoned }])
        }
        RecoveryStep::Resume { key: WorkspaceKey { task, .. }, attempt, .. }
        | RecoveryStep::Gate { task, attempt } => {
            capture(shared, task).await?;
            settle(shared, state, task, attempt, pending).await
        }
    }
}

/// Lets the backend of a session that was cut off carry renewed credentials back, and keeps what it can be resumed with,
/// before its home is swept.
async fn clean_up(
    shared: &ProjectShared,
    session: &SessionId,
    live: &journal::LiveSession,
    directory: &SessionDirectory,
) -> Result<()> {
    let home = directory.home();
    if !home.is_dir() {
        return Ok(());
    }
    let (_, settings) = shared.settings().await?;
    let backend = shared.inner.backend(&live.backend, &settings)?;
    let cwd = live.recipe.get("cwd").and_then(|cwd| cwd.as_str());
    let cwd = cwd.map_or_else(|| shared.root.clone(), Into::into);
    let mut context = SessionContext::new(session.clone(), live.backend.clone(), live.mode, "", home, cwd);
    context.session_dir = directory.files();
    context.project_root.clone_from(&shared.root);
    context.settings = settings.agents.get(backend.name()).cloned().unwrap_or_default();
    context.environment.clone_from(&shared.inner.environment);
    context.user_home.clone_from(&shared.inner.user_home);
    let (state, now, note) = (shared.state_dir.clone(), shared.inner.clock.now(), directory.vendor_session());
    let task = live.key.as_ref().map(|key| key.task);
    let chosen = live.recipe.get("vendor_session").and_then(|id| id.as_str()).map(str::to_owned);
    blocking("cleaning up after an agent", move || {
        let cleaned = backend.clean_up(&context);
        let noted = std::fs::read_to_string(note).ok().or(chosen);
        if let (Some(task), Some(id)) = (task, noted) {
            resume::keep(&state, task, &*backend, &context, &id, now)?;
        }
        cleaned
    })
    .await
}

/// What the run of a task's last session was asked with.
fn options(state: &journal::State, task: TaskNumber) -> RunOptions {
    state.tasks.get(&task).map(|record| RunOptions::from_recipe(&record.recipe)).unwrap_or_default()
}

/// A killed orchestrator's guardians end their agents by themselves; this waits for it.
async fn wait_until_gone(shared: &ProjectShared, process: &ProcessIdentity) -> Result<()> {
    let clock = &shared.inner.clock;
    let deadline = clock.boot_time() + LEFTOVERS;
    while process.liveness() == Liveness::Alive {
        if clock.boot_time() > deadline {
            return Err(Error::new(ErrorKind::Busy, "an agent of an earlier orchestrator is still running")
                .with("pid", process.pid)
                .with("hint", "end it, then try again"));
        }
        clock.sleep_until(clock.boot_time() + Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Takes over what the agent of a cut-off session had said about its task.
async fn import_claim(
    shared: &ProjectShared,
    task: TaskNumber,
    session: &SessionId,
    directory: &SessionDirectory,
) -> Result<()> {
    let (file, folder, session) = (files::task_copy(directory, task), directory.files(), session.clone());
    let claim = blocking("reading what an agent said", move || {
        // Whatever lies in the session's folder was written while it ran.
        let signal = read_signal(&folder, &session, &Timestamp::from_unix_millis(0));
        Ok(Claim::together(Completion::TaskFile(file).read()?, &signal))
    })
    .await?;
    let Some(claim) = claim else { return Ok(()) };
    let patch = TaskPatch::new()
        .with_status(TaskStatus::Done)
        .with_success(Some(claim.success))
        .with_failure_reason(claim.failure_reason);
    match shared.store.update(task, patch, None, None).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn capture(shared: &ProjectShared, task: TaskNumber) -> Result<()> {
    let message = format!("Uncommitted work of task #{task}\n\nCaptured after a restart.");
    let request = CaptureRequest::new(task, message).with_trailer("Watchfire-Task", task.to_string());
    match shared.workspace.capture(&request).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What becomes of a task whose attempt was cut off: its work goes on through the gate if it is done, else a later
/// session goes on where this one was.
async fn settle(
    shared: &ProjectShared,
    state: &journal::State,
    number: TaskNumber,
    attempt: Attempt,
    pending: &mut Vec<PendingMerge>,
) -> Result<Vec<Entry>> {
    let task = match shared.store.get(number).await {
        Ok(task) => Some(task.value),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let ended = |ending| vec![Entry::TaskState { task: number, attempt, state: TaskState::Ended { ending } }];
    Ok(match task {
        Some(task) if task.claims_success() => {
            let target = target(shared, number).await?;
            let options = options(state, number);
            pending.push(PendingMerge { task: number, attempt, target, publishing: None, options });
            Vec::new()
        }
        Some(task) if task.status == TaskStatus::Done => {
            ended(Ending::Failed { reason: task.failure_reason.unwrap_or_default() })
        }
        Some(_) => ended(Ending::Crashed { reason: "the orchestrator ended first".to_owned() }),
        None => ended(Ending::Cancelled),
    })
}

/// Held work is tried again at every start.
async fn resume_held(
    shared: &ProjectShared,
    state: &journal::State,
    pending: &mut Vec<PendingMerge>,
) -> Result<()> {
    for (task, record) in &state.tasks {
        let held = matches!(&record.state, Some(TaskState::Ended { ending: Ending::Held { .. } }));
        if held && pending.iter().all(|merge| merge.task != *task) {
            let target = target(shared, *task).await?;
            pending.push(PendingMerge {
                task: *task,
                attempt: record.attempt,
                target,
                publishing: None,
                options: RunOptions::from_recipe(&record.recipe),
            });
        }
    }
    Ok(())
}

/// The branch that a task's work goes to, as its workspace knows.
pub(super) async fn target(shared: &ProjectShared, task: TaskNumber) -> Result<String> {
    let key = super::attempt::key(task).to_string();
    let branches = shared.workspace.list().await?;
    let known = branches.into_iter().find(|branch| branch.key == key).and_then(|branch| branch.target);
    match known {
        Some(target) => Ok(target),
        None => Ok(shared.store.project().await?.value.default_branch),
    }
}

/// Takes over what sessions that are no more left in `memory.md`, and removes their folders.
async fn sweep(shared: &Arc<ProjectShared>) -> Result<()> {
    let sessions = shared.state_dir.join("sessions");
    let list = move || {
        let entries = std::fs::read_dir(&sessions).into_iter().flatten().flatten();
        Ok(entries.map(|entry| SessionDirectory::existing(entry.path())).collect::<Vec<_>>())
    };
    for directory in blocking("listing old sessions", list).await? {
        if let Err(error) = files::import_memory(&*shared.store, &directory).await {
            shared.attention(None, format!("importing memory.md: {}", error.report()));
        }
        if let Err(error) = blocking("removing a session's folder", move || directory.remove()).await {
            shared.attention(None, format!("removing an old session's folder: {}", error.report()));
        }
    }
    Ok(())
}

/// Keeps the dispatcher's board up to date until the project is closed.
async fn feed_board(shared: Weak<ProjectShared>, reload: Arc<Notify>, mut changes: Changes) {
    loop {
        tokio::select! {
            change = std::future::poll_fn(|cx| changes.as_mut().poll_next(cx)) => {
                if change.is_none() {
                    return;
                }
            }
            () = reload.notified() => {}
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = load_board(&shared).await {
            shared.attention(None, format!("reading the tasks: {}", error.report()));
        }
    }
}

/// Reads the tasks and tells the dispatcher; says whether it believed them.
pub(super) async fn load_board(shared: &ProjectShared) -> Result<bool> {
    let read = shared.begin_board();
    if let Err(error) = shared.inner.reload_settings().await {
        shared.attention(None, format!("settings.yaml: {}; the last good settings hold", error.report()));
    }
    let (project, settings) = shared.settings().await?;
    let list = shared.store.list(&TaskQuery::new()).await?;
    shared.tell_malformed(&list.malformed);
    let limits = shared.limits(&project, &settings);
    let (reply, believed) = oneshot::channel();
    let message = Message::Board { project: shared.id.clone(), read, tasks: list.tasks, limits, reply };
    shared.inner.outbox.send(message);
    // No answer: the project is closed.
    Ok(believed.await.unwrap_or(true))
}

/// Tries held work again now and then: nobody tells when an edit that stood in the way is gone.
async fn retry_held(shared: Weak<ProjectShared>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep_until(clock.boot_time() + HELD).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.inner.outbox.send(Message::RetryHeld { project: shared.id.clone() });
    }
}
