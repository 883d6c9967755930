//! From a request for a session to a running, confined process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::compose::{Agent, Composed, Folders, Preparation, SessionRequest};
use super::files::Documents;
use super::project::ProjectShared;
use super::record::SandboxRecord;
use super::resume::Kept;
use super::spent::Spent;
use super::{Event, blocking, files, resume};
use crate::backend::{Backend, Launch, PromptDelivery, SessionContext, Source, Transport};
use crate::journal::Entry;
use crate::model::{Alias, Attempt, Project, RepoPath, SessionId, Settings};
use crate::observe::{Body, Log, LogOptions, LogSubject};
use crate::sandbox::{Confined, PolicyReport, Refusal, Refusals, SandboxGuard};
use crate::schedule::resolve;
use crate::session::{
    Completion, HostChannel, HostRequest, Hosted, LogFile, Reach, Session, SessionDirectory, SessionInfo,
    SessionParts, SessionProcess, SignalWatch, Sinks, Uncommitted, Witness,
};
use crate::workspace::{Workspace, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// A session that runs, and what is needed when it has ended.
pub(super) struct Started {
    pub(super) session: Session,
    pub(super) attempt: Attempt,
    directory: SessionDirectory,
    log_name: PathBuf,
    backend: Arc<dyn Backend>,
    context: SessionContext,
    guard: Arc<dyn SandboxGuard>,
    /// The record as it is from the start on, being written.
    recording: JoinHandle<()>,
    _signals: SignalWatch,
}

/// Everything that is ready before the first process starts.
struct Prepared {
    folders: Folders,
    context: SessionContext,
    launch: Launch,
    confined: Confined,
    report: PolicyReport,
    refusals: Refusals,
    record: SandboxRecord,
    log_name: PathBuf,
    log_file: Option<LogFile>,
}

/// The backend of a session.
fn chosen(
    shared: &ProjectShared,
    request: &SessionRequest,
    project: &Project,
    settings: &Settings,
) -> Result<Arc<dyn Backend>> {
    let asked = request.options.agent.clone();
    let default = shared.inner.default_backend.clone();
    let resolved = resolve::backend(asked, request.task.as_ref(), project, settings, default)?;
    shared.inner.backend(&resolved.value, settings)
}

/// The session of an earlier attempt that `request` can go on with: of the same agent, on work that is still there.
pub(super) async fn resumable(shared: &Arc<ProjectShared>, request: &SessionRequest) -> Result<Option<Kept>> {
    let Some(task) = request.task.as_ref().filter(|_| request.opened.reused) else { return Ok(None) };
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, request, &project, &settings)?;
    let (state, task, cwd) = (shared.state_dir.clone(), task.task_number, request.opened.cwd.clone());
    let find = move || Ok(resume::latest(&state, task, &*backend, &cwd));
    blocking("looking for a session to resume", find).await
}

/// Starts a session. When this fails, nothing runs and the session's folders are gone.
pub(super) async fn start(shared: &Arc<ProjectShared>, request: SessionRequest) -> Result<Started> {
    let (project, settings) = shared.settings().await?;
    let inner = &shared.inner;
    let backend = chosen(shared, &request, &project, &settings)?;
    let time_limit = time_limit(&project)?;
    let session = SessionId::random();
    let (mode, options) = (request.mode, request.options.clone());
    let task = request.task.clone();
    let key = task.as_ref().map(|task| WorkspaceKey::new(task.task_number));
    let attempt = request.attempt;

    let documents = Documents::read(&*shared.store).await?;
    let preparation = Preparation {
        shared: Arc::clone(shared),
        backend: Arc::clone(&backend),
        session: session.clone(),
        project,
        settings,
        documents,
        request,
    };
    let prepared = blocking("preparing a session", move || prepare(preparation)).await?;
    let Prepared { folders, context, launch, confined, report, refusals, record, log_name, log_file } =
        prepared;
    let directory = folders.directory().clone();

    let recipe = serde_json::json!({
        "program": confined.command.program(),
        "cwd": context.cwd,
        "sandbox": report.sandbox,
        "size": [options.size.cols(), options.size.rows()],
        "vendor_session": launch.vendor_session,
        "options": options.to_recipe(),
    });
    let starting = Entry::SessionStarting {
        session: session.clone(),
        key: key.clone(),
        attempt,
        mode,
        phase: None,
        backend: context.backend.clone(),
        recipe,
    };
    // AsyncChild for: whose session it was, who is to clean up after it, and what it was to do, only this tells.
    shared.journal.append(vec![starting]).await?;

    let completion = match (&task, mode) {
        (Some(task), _) => Completion::TaskFile(files::task_copy(&directory, task.task_number)),
        (None, _) => Completion::Never,
    };
    let signals =
        SignalWatch::new(completion.folder().map(Path::to_path_buf).into_iter().chain([directory.files()]));
    let mut typed = launch.prompt;
    let (channel, reach) = match launch.transport {
        Transport::Pty { .. } => (HostChannel::Terminal(options.size), Reach::Terminal),
        Transport::Lines { .. } => (HostChannel::Pipes, Reach::Stream),
        Transport::Dialogue { within } => {
            let dialogue = backend.dialogue(&context).ok_or_else(|| {
                Error::new(ErrorKind::NotSupported, "the backend does not speak the agent's protocol")
                    .with("backend", &context.backend)
            })?;
            (HostChannel::Pipes, Reach::Dialogue { dialogue, within })
        }
    };
    let Hosted { process, guard, agent: identity, .. } =
        inner.host.launch(HostRequest::new(session.clone(), confined, channel)).await?;
    if launch.transport == (Transport::Lines { keep_input: false }) {
        tokio::spawn(feed(Arc::clone(&process), std::mem::take(&mut typed)));
    }
    // Lazy: without it the guardian still ends with us, and recovery looks for the session's folder.
    shared.journal.post(vec![Entry::SessionStarted { session: session.clone(), identity }]);

    let info = SessionInfo {
        id: session.clone(),
        alias: free_alias(shared),
        project: shared.id.clone(),
        mode,
        task: task.as_ref().map(|task| task.task_number),
        backend: context.backend.clone(),
        started_at: inner.clock.now(),
    };
    shared.tell(&Event::SessionStarted {
        project: shared.id.clone(),
        session: session.clone(),
        alias: info.alias.clone(),
        mode,
        task: info.task,
        backend: info.backend.clone(),
        sandbox: report.title(),
        open: report.open().map(|control| format!("{}: {}", control.name, control.why)).collect(),
    });
    let subject = LogSubject::new(info.alias.as_str(), info.backend.as_str());
    let epoch = super::events::epoch(&*inner.clock);
    let log = Log::new(session.as_str(), epoch, subject, &LogOptions::default(), Arc::clone(&inner.clock));
    let uncommitted = key.filter(|_| backend.capabilities().chat).map(|key| -> Arc<dyn Uncommitted> {
        Arc::new(Work { workspace: Arc::clone(&shared.workspace), key })
    });
    let (telling, number) = (Arc::clone(shared), info.task);
    let tell = move |refusal: &Refusal| telling.attention(number, refusal.to_string());
    let session = Session::start(SessionParts {
        info,
        process,
        backend: Arc::clone(&backend),
        context: context.clone(),
        reach,
        vendor_session: launch.vendor_session,
        terminal: (inner.terminals)(options.size),
        log,
        sinks: Sinks { file: log_file },
        readiness: launch.readiness,
        prompt: typed,
        completion,
        uncommitted,
        files: directory.files(),
        note: directory.vendor_session(),
        changed: signals.changed(),
        witness: Witness { refusals: Arc::new(refusals), tell: Box::new(tell) },
        time_limit,
        clock: Arc::clone(&inner.clock),
    });
    if let Some(id) = &context.resume {
        session.log().push(Source::Process, Body::lifecycle("resumed", serde_json::json!({ "id": id })));
    }
    shared.add_session(session.clone());
    folders.keep();
    let recording = tokio::task::spawn_blocking({
        let (shared, log_name) = (Arc::clone(shared), log_name.clone());
        move || record.keep(&shared, &log_name)
    });
    Ok(Started {
        session,
        attempt,
        directory,
        log_name,
        backend,
        context,
        guard,
        recording,
        _signals: signals,
    })
}

/// A task's work, as its session may ask about it.
struct Work {
    workspace: Arc<dyn Workspace>,
    key: WorkspaceKey,
}

#[async_trait]
impl Uncommitted for Work {
    async fn paths(&self) -> Result<Vec<RepoPath>> {
        self.workspace.uncommitted(&self.key).await
    }
}

/// Gives an agent on pipes its prompt, if it is to be typed, and no more.
async fn feed(session: Arc<dyn SessionProcess>, prompt: PromptDelivery) {
    if let PromptDelivery::Typed(text) = prompt
        && let Err(error) = session.write(format!("{}\n", text.trim_end()).as_bytes()).await
    {
        tracing::warn!("the agent did not take its prompt: {}", error.report());
    }
    session.close_input().await;
}

impl Started {
    /// The version of the agent's program, where it is another one than was tested.
    pub(super) async fn untested(&self, shared: &ProjectShared) -> Option<String> {
        let (backend, search) = (Arc::clone(&self.backend), shared.inner.search(&self.context.settings));
        let located =
            blocking("looking at the agent's program", move || backend.locate(&search)).await.ok()?;
        located.version.filter(|_| located.tested == Some(false))
    }

    /// After the session has ended: keeps what a later attempt needs to go on with it.
    pub(super) async fn keep(&self, shared: &Arc<ProjectShared>) {
        let Some((task, id)) = self.session.info().task.zip(self.session.vendor_session()) else { return };
        let (backend, context) = (Arc::clone(&self.backend), self.context.clone());
        let (state, now) = (shared.state_dir.clone(), shared.inner.clock.now());
        let keep = move || resume::keep(&state, task, &*backend, &context, &id, now);
        if let Err(error) = blocking("keeping the agent's session", keep).await {
            shared.attention(Some(task), format!("it cannot be resumed: {}", error.report()));
        }
    }

    /// After the session has ended: takes over what it left in `memory.md`, keeps its transcript beside the logs, lets
    /// the backend clean up, and removes the session's folders.
    pub(super) async fn finish(mut self, shared: &Arc<ProjectShared>) {
        shared.remove_session(&self.session.info().id);
        // What it was at the start is not to replace what it is at the end.
        let _ = (&mut self.recording).await;
        self.context.vendor_session = self.session.vendor_session();
        let refused = self.session.ended().await.refused;
        let imported = files::import_memory(&*shared.store, &self.directory).await;
        let shared = Arc::clone(shared);
        let finishing = tokio::task::spawn_blocking(move || {
            let task = self.session.info().task;
            let check = |what: &str, result: Result<()>| {
                if let Err(error) = result {
                    shared.attention(task, format!("{what}: {}", error.report()));
                }
            };
            check("importing memory.md", imported.map(|_| ()));
            if let Some(transcript) = self.backend.transcript(&self.context) {
                let kept = files::keep_transcript(&transcript.path, &self.log_name.with_extension("jsonl"));
                check("keeping the transcript", kept);
            }
            let ended = (self.guard.report(), self.guard.denials(), refused);
            SandboxRecord::end(&shared, task, &self.log_name, ended);
            let (usage, cost) = self.session.spent();
            check("keeping what was spent", Spent::new(usage, cost).keep(task, &self.log_name));
            check("the agent's own clean-up", self.backend.clean_up(&self.context));
            check("removing the session's folders", self.directory.remove());
        });
        // A panic in a foreign backend ends here.
        let _ = finishing.await;
    }
}

/// All that blocks: composing it, asking the sandbox, opening the log.
fn prepare(preparation: Preparation) -> Result<Prepared> {
    let shared = Arc::clone(&preparation.shared);
    let inner = &shared.inner;
    let Composed { folders, context, launch, policy, command, choice, task, attempt } =
        preparation.compose(Agent::MustBeThere)?;
    let confined = inner.sandboxes.prepare(&choice.value, &policy, command)?;
    let report = confined.guard.report();
    let refusals = Refusals::new(&policy, report.clone(), context.cwd.clone())?;
    let log_name =
        files::log_name(&shared.logs_dir, task.as_ref(), context.mode, attempt, &inner.clock.now());
    let header = [
        ("project_id", shared.id.to_string()),
        ("task_number", task.as_ref().map_or(0, |task| task.task_number.value()).to_string()),
        ("session_number", attempt.to_string()),
        ("session_id", context.session.to_string()),
        ("agent", context.backend.to_string()),
        ("mode", context.mode.to_string()),
        ("sandbox", report.title()),
        ("started_at", inner.clock.now().to_string()),
    ];
    let log_file = LogFile::create(&log_name, &header)
        .inspect_err(|error| shared.attention(None, format!("no session log: {}", error.report())))
        .ok();
    let record =
        SandboxRecord::new(&context, task.as_ref().map(|task| task.task_number), policy, report.clone());
    Ok(Prepared { folders, context, launch, confined, report, refusals, record, log_name, log_file })
}

fn time_limit(project: &Project) -> Result<Option<Duration>> {
    let limit = project.time_limit.as_deref().filter(|text| !text.trim().is_empty()).map(resolve::duration);
    limit.transpose().map_err(|error| error.with("file", "project.yaml").with("field", "time_limit"))
}

/// A name that no running session of the project has.
fn free_alias(shared: &ProjectShared) -> Alias {
    let taken = shared.sessions();
    (0..64)
        .map(|_| Alias::random())
        .find(|alias| taken.iter().all(|session| session.info().alias != *alias))
        .unwrap_or_else(Alias::random)
}
