//! Sandbox trials: the policy and command that a session's agent would get, without the session.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::{Orchestrator, ProjectHandle};
use crate::backend::SessionContext;
use crate::model::{Attempt, BackendName, Mode, Phase, SessionId, Task, TaskNumber};
use crate::orchestrator::compose::{
    Agent, Composed, Documents, Folders, Preparation, SandboxRecord, Scope, SessionRequest, files,
};
use crate::orchestrator::effects::{self, Reserved, Visit};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::process::CommandSpec;
use crate::sandbox::{PolicyReport, SandboxChoice, SandboxPolicy};
use crate::schedule::resolve::{self, Resolved};
use crate::schedule::{Life, RunOptions, Subject};
use crate::session::{Attached, run_attached};
use crate::workspace::{RemoveRequest, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// A request for the sandbox that a session's agent would get.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConfineRequest {
    /// Mode of the session.
    pub mode: Mode,
    /// Step of wildfire mode. Default: execute.
    pub phase: Option<Phase>,
    /// Task of the session. Required by modes that work on one.
    pub task: Option<TaskNumber>,
    /// Overrides. `merge` and `size` have no effect.
    pub options: RunOptions,
}

impl ConfineRequest {
    /// Requests the sandbox of a chat.
    #[must_use]
    pub fn chat() -> Self {
        Self { mode: Mode::Chat, phase: None, task: None, options: RunOptions::default() }
    }

    /// Requests the sandbox of a session for `task`.
    #[must_use]
    pub fn task(task: TaskNumber) -> Self {
        Self { mode: Mode::Task, task: Some(task), ..Self::chat() }
    }

    /// Sets the mode and step.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode, phase: Option<Phase>) -> Self {
        (self.mode, self.phase) = (mode, phase);
        self
    }

    super::request::overrides!();
}

impl Orchestrator {
    /// Composes policy, variables and working directory as for a session that started now in the project at `root`,
    /// without starting it. The project must not be open, here or elsewhere, and stays locked until the result is
    /// dropped. For a task, its workspace is opened, and created if missing; a created one is removed with the result,
    /// unless a command [ran](Confinement::run) in it. Nothing else of the project changes.
    ///
    /// # Errors
    /// `locked` and `already_exists` for a project that is open; `not_found` for a task that does not exist or lies
    /// in the trash; `invalid_input` where the mode needs a task and none is named; the errors of a session's start,
    /// except a missing program.
    pub async fn confine(&self, root: impl AsRef<Path>, request: ConfineRequest) -> Result<Confinement> {
        let effects::Entered { shared, reserved, .. } = effects::enter(self.parts(), root.as_ref()).await?;
        // As for a project that is opened: a killed orchestrator may have left work half-published.
        shared.workspace.recover().await?;
        Confinement::compose(shared, Some(reserved), request).await
    }
}

impl ProjectHandle {
    /// Returns the record of the sandbox that a session would get that started now. Where the task or the chat is under way and has
    /// had a session, that is the record of its last one. Starts nothing, and leaves the project as it is.
    ///
    /// # Errors
    /// As [`Orchestrator::confine`]; `sandbox_unavailable`; `busy` for a chat in a folder of its own while a chat is under way.
    pub async fn sandbox_preview(&self, request: ConfineRequest) -> Result<SandboxRecord> {
        let shared = self.shared();
        // Held to the end: no session of the task opens the workspace meanwhile.
        let opening = request.task.map(|task| shared.task_lock(task));
        let _opening = match &opening {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let is_chat = Scope::of(request.mode, request.phase) == Scope::Root;
        let task = request.task;
        let is_meant = move |life: &Life| match task {
            Some(task) => life.subject.task() == Some(task),
            None => is_chat && life.subject == Subject::Chat,
        };
        if self.read(move |schedule| schedule.ledger().lives.values().any(is_meant)).await? {
            let logs = self.logs_dir().to_owned();
            let latest = move || SandboxRecord::latest(&logs, task);
            if let Some(record) = blocking("reading a sandbox's record", latest).await? {
                return Ok(record);
            }
            if is_chat && !request.options.place.is_root() {
                return Err(Error::new(ErrorKind::Busy, "a chat is just starting"));
            }
        }
        let confinement = Confinement::compose(Arc::clone(shared), None, request).await?;
        let report = confinement.explain().await;
        let record = report
            .map(|report| SandboxRecord::new(&confinement.context, task, confinement.policy.clone(), report));
        confinement.leave().await;
        record
    }
}

impl Confinement {
    /// Composes what an agent would get, in a project that is entered, and `reserved` unless it is open.
    async fn compose(
        shared: Arc<ProjectShared>,
        reserved: Option<Reserved>,
        request: ConfineRequest,
    ) -> Result<Self> {
        let (project, settings) = shared.settings().await?;
        let made = Made::unless_listed(&shared, &request).await?;
        let request = session_request(&shared, request).await?;
        let place = request.options.place;
        let entered = request
            .session
            .clone()
            .map(|session| Leaving(Some(Visit::new(&shared, session, place).keeping_remarks())));
        let inner = &shared.inner;
        let flag = request.options.agent.clone();
        let default = inner.default_backend.clone();
        let name = resolve::backend(flag, request.task.as_ref(), &project, &settings, default)?;
        let documents = Documents::read(&*shared.store, None, request.task.as_ref()).await?;
        let preparation = Preparation {
            shared: Arc::clone(&shared),
            backend: inner.backend(&name.value, &settings)?,
            session: request.session.clone().unwrap_or_else(SessionId::random),
            project,
            settings,
            documents,
            request,
        };
        let composing = move || preparation.compose(Agent::MayBeMissing);
        let Composed { folders, context, policy, command, choice, .. } =
            blocking("composing a sandbox's policy", composing).await?;
        Ok(Self { context, policy, choice, agent: name, command, folders, entered, made, shared, reserved })
    }

    /// Removes what was made for it.
    async fn leave(self) {
        let Self { folders, entered, made, .. } = self;
        // They lie in the workspace. What goes wrong is told by what removes them.
        let _ = blocking("removing the session's folders", move || {
            drop(folders);
            Ok(())
        })
        .await;
        if let Some(visit) = entered.and_then(|mut entered| entered.0.take()) {
            visit.leave().await;
        }
        if let Some((shared, key)) = made.and_then(|mut made| made.0.take()) {
            remove(&shared, key).await;
        }
    }
}

async fn session_request(shared: &Arc<ProjectShared>, request: ConfineRequest) -> Result<SessionRequest> {
    let ConfineRequest { mode, phase, task, options } = request;
    let task = match task {
        Some(number) => Some(task_of(shared, number).await?),
        None => None,
    };
    match (Scope::of(mode, phase), task) {
        (Scope::Workspace, Some(task)) => {
            let attempt = Attempt(task.agent_sessions.max(1));
            let opened = effects::open_workspace(shared, task.task_number, attempt, &options).await?;
            let task = Some(task);
            Ok(SessionRequest {
                session: None,
                mode,
                phase,
                task,
                attempt,
                previous: None,
                opened,
                options,
                setup: String::new(),
                resume: None,
                others: None,
            })
        }
        (Scope::Root, _) => effects::enter_chat(shared, Attempt(1), options).await,
        (_, task) => Ok(SessionRequest { phase, task, ..SessionRequest::in_root(shared, mode, options) }),
    }
}

async fn task_of(shared: &ProjectShared, number: TaskNumber) -> Result<Task> {
    let task = shared.store.get(number).await?.value;
    match task.is_deleted() {
        false => Ok(task),
        true => Err(Error::new(ErrorKind::NotFound, "the task is in the trash").with("task", number)),
    }
}

/// The sandbox that a session's agent would get. Its folders exist as long as this value.
pub struct Confinement {
    context: SessionContext,
    policy: SandboxPolicy,
    choice: Resolved<SandboxChoice>,
    agent: Resolved<BackendName>,
    command: CommandSpec,
    folders: Folders,
    entered: Option<Leaving>,
    // After the folders and the visit, which lie in the workspace; before the reservation, which guards it.
    made: Option<Made>,
    shared: Arc<ProjectShared>,
    reserved: Option<Reserved>,
}

impl Confinement {
    /// Returns the rules for the agent.
    #[must_use]
    pub fn policy(&self) -> &SandboxPolicy {
        &self.policy
    }

    /// Returns the sandbox that was requested, and the place of the request.
    #[must_use]
    pub fn choice(&self) -> &Resolved<SandboxChoice> {
        &self.choice
    }

    /// Returns the backend, and the place where it was chosen.
    #[must_use]
    pub fn agent(&self) -> &Resolved<BackendName> {
        &self.agent
    }

    /// Returns the agent's own command, with all variables and its working directory. Its program may be missing.
    #[must_use]
    pub fn command(&self) -> &CommandSpec {
        &self.command
    }

    /// Returns the rules that would be enforced.
    ///
    /// # Errors
    /// `sandbox_unavailable`; those of [`Sandbox::explain`](crate::sandbox::Sandbox::explain).
    pub async fn explain(&self) -> Result<PolicyReport> {
        let (shared, choice, policy) =
            (Arc::clone(&self.shared), self.choice.value.clone(), self.policy.clone());
        blocking("asking a sandbox", move || shared.inner.sandboxes.choose(&choice)?.explain(&policy)).await
    }

    /// Runs `program` in the agent's place, on our own stdin, stdout and stderr, to its end. Uses the agent's
    /// variables and folder, not those of `program`. Then imports `memory.md` and commits, as after a session. Claims
    /// about the task are not imported.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); `program_missing`; what the system refused. How the command ends is not an error.
    pub async fn run(self, program: &CommandSpec) -> Result<Attached> {
        // After an error these are dropped from the last to the first.
        let Self { reserved, shared, made, entered, folders, policy, choice, command, .. } = self;
        let command = command.with_command(program.program(), program.args());
        let inner = &shared.inner;
        let sandboxes = inner.sandboxes.clone();
        let preparing = move || sandboxes.prepare(&choice.value, &policy, command);
        let confined = blocking("preparing a sandbox", preparing).await?;
        if let Some(made) = made {
            made.keep();
        }
        let running = run_attached(&inner.helper, confined);
        let mut attached = match &entered {
            Some(Leaving(Some(visit))) => visit.during(running).await?,
            _ => running.await?,
        };
        // Without a fence: no claim was taken, and the repository is locked.
        files::import_memory(&*shared.store, folders.directory(), None).await?;
        // Removing the folders blocks.
        blocking("removing the session's folders", move || {
            drop(folders);
            Ok(())
        })
        .await?;
        if let Some(mut entered) = entered
            && let Some(visit) = entered.0.take()
        {
            attached.remarks = visit.leave().await;
        }
        // As after a session that was cut off: imports commits from private copies.
        shared.workspace.recover().await?;
        // Before the reservation ends: a new opener must find the journal's lock free.
        shared.journal.close().await;
        drop(reserved);
        Ok(attached)
    }
}

/// Leaves the root when it is dropped: a trial that was only looked at leaves nothing there.
struct Leaving(Option<Visit>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(visit) = self.0.take() {
            finish("leaving the root", visit.leave());
        }
    }
}

/// Removes the workspace of a trial when it is dropped, if there was none before the trial.
struct Made(Option<(Arc<ProjectShared>, WorkspaceKey)>);

impl Made {
    /// Returns the guard, to be taken before the workspace is opened. `None` if the trial opens no workspace or one that
    /// exists.
    async fn unless_listed(shared: &Arc<ProjectShared>, request: &ConfineRequest) -> Result<Option<Self>> {
        let key = match (Scope::of(request.mode, request.phase), request.task) {
            (Scope::Workspace, Some(task)) => WorkspaceKey::new(task),
            (Scope::Root, _) if !request.options.place.is_root() => WorkspaceKey::Chat,
            _ => return Ok(None),
        };
        let name = key.to_string();
        let is_listed = shared.workspace.list().await?.iter().any(|listed| listed.key == name);
        Ok((!is_listed).then(|| Self(Some((Arc::clone(shared), key)))))
    }

    /// Lets the workspace stay.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some((shared, key)) = self.0.take() {
            finish("removing a trial's workspace", async move { remove(&shared, key).await });
        }
    }
}

/// Removes the workspace of a trial. Without `discard`: work that has appeared in it stays.
async fn remove(shared: &ProjectShared, key: WorkspaceKey) {
    if let Err(error) = shared.workspace.remove(&RemoveRequest::new(key)).await
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(error = error.report(), "a trial's workspace stays");
    }
}

/// Waits for `work` in a destructor. Not a task: the program may end right after it.
fn finish<T: Send + 'static>(what: &str, work: impl Future<Output = T> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current()
        && std::thread::spawn(move || runtime.block_on(work)).join().is_err()
    {
        tracing::warn!("{what} panicked");
    }
}

impl fmt::Debug for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confinement")
            .field("choice", &self.choice)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
