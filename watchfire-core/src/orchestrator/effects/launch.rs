//! The way from a request for a session to a running, confined process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::purse::{self, Purse};
use crate::backend::{Backend, Launch, PromptDelivery, SessionContext, Source, Transport};
use crate::failpoint::reached;
use crate::model::{Alias, ProcessIdentity, Project, RepoPath, SessionId, Settings, Task};
use crate::observe::{Body, Log, LogOptions, LogSubject};
use crate::orchestrator::compose::resume::{self, Kept};
use crate::orchestrator::compose::{
    Agent, Composed, Documents, Folders, LiveRecord, Preparation, SandboxRecord, SessionRequest, files,
};
use crate::orchestrator::shared::{ProjectShared, RECORDING, blocking};
use crate::prompt::Assignment;
use crate::sandbox::{Confined, PolicyReport, Refusal, SandboxGuard};
use crate::schedule::{Fact, Life, NoticeCode, RunOptions, SessionRef, resolve};
use crate::session::{
    Completion, Ended, HostChannel, HostRequest, Hosted, LogFile, Meter, Reach, RefusalReporter, Session,
    SessionDirectory, SessionInfo, SessionParts, SessionProcess, SignalWatch, Sinks, Uncommitted,
};
use crate::store::Fence;
use crate::workspace::{Workspace, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// A running session, and everything that its end needs.
pub(super) struct Started {
    pub(super) session: Session,
    directory: SessionDirectory,
    log_name: PathBuf,
    backend: Arc<dyn Backend>,
    context: Arc<SessionContext>,
    guard: Arc<dyn SandboxGuard>,
    purse: Arc<Purse>,
    record: Arc<LiveRecord>,
    /// The write of the first form of the record.
    recording: JoinHandle<()>,
    agent: ProcessIdentity,
    guardian: Option<ProcessIdentity>,
    /// The claim under which it works.
    fence: Option<Fence>,
    _signals: SignalWatch,
}

/// Everything that is ready before the first process starts.
struct Prepared {
    folders: Folders,
    context: SessionContext,
    launch: Launch,
    confined: Confined,
    report: PolicyReport,
    record: LiveRecord,
    log_name: PathBuf,
    log_file: Option<LogFile>,
    /// Files of the vendor's session that is resumed, with their lengths.
    restored: BTreeMap<PathBuf, u64>,
}

/// Returns the backend of a session.
fn chosen(
    shared: &ProjectShared,
    options: &RunOptions,
    task: Option<&Task>,
    project: &Project,
    settings: &Settings,
) -> Result<Arc<dyn Backend>> {
    let default = shared.inner.default_backend.clone();
    let resolved = resolve::backend(options.agent.clone(), task, project, settings, default)?;
    shared.inner.backend(&resolved.value, settings)
}

/// Returns the vendor's session of an earlier attempt, if it can be resumed: with the same agent, on work that still
/// exists.
pub(super) async fn resumable(shared: &Arc<ProjectShared>, request: &SessionRequest) -> Result<Option<Kept>> {
    let Some(task) = request.task.as_ref().filter(|_| request.opened.reused) else { return Ok(None) };
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, &request.options, Some(task), &project, &settings)?;
    let (state, task, cwd) = (shared.state_dir.clone(), task.task_number, request.opened.cwd.clone());
    let find = move || Ok(resume::latest(&state, task, &*backend, &cwd));
    blocking("looking for a session to resume", find).await
}

/// Refuses a session for which no budget is left.
///
/// # Errors
/// `budget_used_up`; `unknown_backend`.
pub(super) async fn admit(
    shared: &Arc<ProjectShared>,
    life: &Life,
    options: &RunOptions,
    task: Option<&Task>,
) -> Result<()> {
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, options, task, &project, &settings)?;
    let task = task.map(|task| task.task_number);
    let (shared, life) = (Arc::clone(shared), life.clone());
    blocking("looking at budgets", move || purse::admit(&shared, &life, task, &*backend)).await
}

/// Starts a session of a life. After an error nothing runs, and the session's folders are gone.
///
/// # Errors
/// `cancelled` if the schedule no longer permits the start; otherwise the reason why it cannot start.
pub(super) async fn start(
    shared: &Arc<ProjectShared>,
    life: &Life,
    request: SessionRequest,
) -> Result<Started> {
    let (project, settings) = shared.settings().await?;
    let inner = &shared.inner;
    let backend = chosen(shared, &request.options, request.task.as_ref(), &project, &settings)?;
    let time_limit = time_limit(&project)?;
    let session = SessionId::random();
    let (mode, options) = (request.mode, request.options.clone());
    let task = request.task.clone();
    // A refinement has a task too, but works in the root and leaves nothing to commit.
    let works_in = task.as_ref().filter(|_| request.phase.is_none());
    let key = works_in.map(|task| WorkspaceKey::new(task.task_number));
    let done_file = Assignment::new(mode, request.phase, task.as_ref())?.done_file();
    let target = request.opened.target.clone();
    let may_nudge = request.may_nudge();

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
    let (spender, number) = (life.clone(), task.as_ref().map(|task| task.task_number));
    let prepare = move || {
        let shared = Arc::clone(&preparation.shared);
        let prepared = prepare(preparation)?;
        let agent = prepared.context.backend.clone();
        let purse = Arc::new(Purse::new(&shared, &spender, number, agent, &prepared.log_name));
        Ok((prepared, purse))
    };
    let (prepared, purse) = blocking("preparing a session", prepare).await?;
    let Prepared { folders, context, launch, confined, report, record, log_name, log_file, restored } =
        prepared;
    let directory = folders.directory().clone();
    let context = Arc::new(context);

    let alias = TakenAlias::new(shared);
    let mut session_ref = SessionRef::new(
        session.clone(),
        alias.0.clone(),
        context.backend.clone(),
        report.title(),
        &context.cwd,
        inner.clock.now(),
    );
    session_ref.open = report.open().map(|control| format!("{}: {}", control.name, control.why)).collect();
    session_ref.vendor_session.clone_from(&launch.vendor_session);
    let prepared =
        Fact::Prepared { life: life.id, session: session_ref, fence: shared.fence(life.id), target };
    // Durable before the process exists: after a crash, only this record says whose session it was and who
    // must clean up.
    if !shared.permit(prepared).await {
        return Err(Error::new(ErrorKind::Cancelled, "it was stopped before its agent started"));
    }

    let completion = match (&task, done_file) {
        (_, Some(name)) => Completion::SignalFile(directory.files().join(name)),
        (Some(task), None) => Completion::TaskFile(files::task_copy(&directory, task.task_number)),
        (None, None) => Completion::Never,
    };
    // Watching begins before the agent does, so that its first message is not left to polling.
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
    let recording = log_name.with_extension(RECORDING);
    let Hosted { process, guard, agent, guardian, .. } =
        // After this the process runs: every `?` below would leave its end to the dropped handle.
        inner.host.launch(HostRequest::new(session.clone(), confined, channel, recording)).await?;
    reached(|| "launched");
    if launch.transport == (Transport::Lines { keep_input: false }) {
        // In the background: a long prompt fills the pipe until the agent reads it.
        tokio::spawn(feed(Arc::clone(&process), std::mem::take(&mut typed)));
    }
    let info = SessionInfo {
        id: session.clone(),
        alias: alias.0.clone(),
        project: shared.id.clone(),
        mode,
        task: task.as_ref().map(|task| task.task_number),
        backend: context.backend.clone(),
        started_at: inner.clock.now(),
    };
    let subject = LogSubject::new(info.alias.as_str(), info.backend.as_str());
    // Tells this run of the program apart: a cursor of another one is rejected.
    let epoch = u64::try_from(inner.clock.now().unix_millis()).unwrap_or_default();
    let log = Log::new(session.as_str(), epoch, subject, &LogOptions::default(), Arc::clone(&inner.clock));
    let uncommitted = key.filter(|_| backend.capabilities().chat).map(|key| -> Arc<dyn Uncommitted> {
        Arc::new(Work { workspace: Arc::clone(&shared.workspace), key })
    });
    let (noticing, number) = (Arc::clone(shared), info.task);
    let report =
        move |refusal: &Refusal| noticing.notice(NoticeCode::SandboxDenied, number, refusal.to_string());
    let record = Arc::new(record);
    let (judge, reader) = (Arc::clone(&record), Arc::clone(&backend));
    let find = Arc::new(move |said: &str| judge.refusals(reader.failed_accesses(said)));
    let session = Session::start(SessionParts {
        info,
        process,
        backend: Arc::clone(&backend),
        context: Arc::clone(&context),
        reach,
        vendor_session: launch.vendor_session,
        terminal: (inner.terminals)(options.size),
        log,
        sinks: Sinks { file: log_file },
        readiness: launch.readiness,
        prompt: typed,
        completion,
        uncommitted,
        meter: backend.capabilities().usage.then(|| Arc::clone(&purse) as Arc<dyn Meter>),
        may_nudge,
        restored,
        files: directory.files(),
        note: directory.vendor_session(),
        changed: signals.changed(),
        refusals: RefusalReporter { find, report: Box::new(report) },
        time_limit,
        clock: Arc::clone(&inner.clock),
    });
    if let Some(id) = &context.resume {
        session.log().push(Source::Process, Body::lifecycle("resumed", serde_json::json!({ "id": id })));
    }
    // From here on nothing fails, so the guards give up the alias and the folders.
    shared.add_session(session.clone());
    alias.keep();
    folders.keep();
    // Not awaited: the agent runs by now, and until it is written the record is in memory.
    let recording = tokio::task::spawn_blocking({
        let (shared, record) = (Arc::clone(shared), Arc::clone(&record));
        move || record.write(&shared)
    });
    Ok(Started {
        session,
        directory,
        log_name,
        backend,
        context,
        guard,
        purse,
        record,
        recording,
        agent,
        guardian,
        fence: shared.fence(life.id),
        _signals: signals,
    })
}

/// Source of a task's uncommitted work, for its session's last call.
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

/// Writes the prompt of an agent on pipes, if it is to be typed, and closes the agent's input.
async fn feed(session: Arc<dyn SessionProcess>, prompt: PromptDelivery) {
    if let PromptDelivery::Typed(text) = prompt
        && let Err(error) = session.write(format!("{}\n", text.trim_end()).as_bytes()).await
    {
        tracing::warn!("the agent did not take its prompt: {}", error.report());
    }
    session.close_input().await;
}

/// An alias that is free again on drop, unless a session took it over.
struct TakenAlias(Alias, Option<Arc<ProjectShared>>);

impl TakenAlias {
    fn new(shared: &Arc<ProjectShared>) -> Self {
        Self(shared.inner.take_alias(), Some(Arc::clone(shared)))
    }

    fn keep(mut self) {
        self.1 = None;
    }
}

impl Drop for TakenAlias {
    fn drop(&mut self) {
        if let Some(shared) = &self.1 {
            shared.inner.free_alias(&self.0);
        }
    }
}

impl Started {
    /// Returns the folder with the session's copies of the project's files, until it is cleaned up.
    pub(super) fn files(&self) -> PathBuf {
        self.directory.files()
    }

    /// Returns the identities of the agent's process and of its guardian.
    pub(super) fn identities(&self) -> (ProcessIdentity, Option<ProcessIdentity>) {
        (self.agent.clone(), self.guardian.clone())
    }

    /// Returns the budget that ended the session, in words.
    pub(super) fn used_up(&self) -> Option<String> {
        self.purse.used_up()
    }

    /// Returns the version of the agent's program, if it is untested.
    pub(super) async fn untested(&self, shared: &ProjectShared) -> Option<String> {
        let (backend, search) = (Arc::clone(&self.backend), shared.inner.search(&self.context.settings));
        let located =
            blocking("looking at the agent's program", move || backend.locate(&search)).await.ok()?;
        located.version.filter(|_| located.tested == Some(false))
    }

    /// Saves the vendor's session, which has ended, for a later attempt to resume.
    pub(super) async fn preserve(&self, shared: &Arc<ProjectShared>) {
        let Some((task, id)) = self.session.info().task.zip(self.session.vendor_session()) else { return };
        let (backend, context) = (Arc::clone(&self.backend), Arc::clone(&self.context));
        let (state, now) = (shared.state_dir.clone(), shared.inner.clock.now());
        let save = move || resume::save(&state, task, &*backend, &context, &id, now);
        if let Err(error) = blocking("keeping the agent's session", save).await {
            let message = format!("it cannot be resumed: {}", error.report());
            shared.notice(NoticeCode::Session, Some(task), message);
        }
    }

    /// Cleans up after the session has ended: imports `memory.md`, saves the transcript beside the logs, lets the
    /// backend clean up, and removes the session's folders.
    pub(super) async fn finish(mut self, shared: &Arc<ProjectShared>) {
        shared.inner.free_alias(&self.session.info().alias);
        // The record of the start must not overwrite that of the end.
        let _ = (&mut self.recording).await;
        // The session that the vendor really opened, which may not be the one that we chose.
        Arc::make_mut(&mut self.context).vendor_session = self.session.vendor_session();
        let Ended { refused, exit, .. } = self.session.ended().await;
        let imported = files::import_memory(&*shared.store, &self.directory, self.fence).await;
        reached(|| "memory imported");
        let shared = Arc::clone(shared);
        let finishing = tokio::task::spawn_blocking(move || {
            let task = self.session.info().task;
            let check = |what: &str, result: Result<()>| {
                if let Err(error) = result {
                    shared.notice(NoticeCode::Cleanup, task, format!("{what}: {}", error.report()));
                }
            };
            check("importing memory.md", imported.map(|_| ()));
            if let Some(transcript) = self.backend.transcript(&self.context) {
                let kept = files::keep_transcript(&transcript.path, &self.log_name.with_extension("jsonl"));
                check("keeping the transcript", kept);
            }
            let ended = (self.guard.report(), self.guard.denials(), refused);
            self.record.end(&shared, ended);
            check("keeping what was spent", self.purse.close(self.session.counted(), exit.to_string()));
            // Before the home is removed: the backend may carry renewed credentials back from it.
            check("the agent's own clean-up", self.backend.clean_up(&self.context));
            check("removing the session's folders", self.directory.remove());
        });
        // A foreign backend that panics has no further effect.
        let _ = finishing.await;
    }
}

/// Does the blocking work: composes the session, prepares the sandbox, opens the log.
fn prepare(preparation: Preparation) -> Result<Prepared> {
    let shared = Arc::clone(&preparation.shared);
    let inner = &shared.inner;
    let Composed { folders, context, launch, policy, command, choice, task, attempt, restored } =
        preparation.compose(Agent::MustBeThere)?;
    let confined = inner.sandboxes.prepare(&choice.value, &policy, command)?;
    let report = confined.guard.report();
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
    // A session without a log is better than none.
    let log_file = LogFile::create(&log_name, &header)
        .inspect_err(|error| {
            shared.notice(NoticeCode::Session, None, format!("no session log: {}", error.report()));
        })
        .ok();
    let number = task.as_ref().map(|task| task.task_number);
    let record = SandboxRecord::new(&context, number, policy, report.clone());
    let record = LiveRecord::new(record, &log_name);
    Ok(Prepared { folders, context, launch, confined, report, record, log_name, log_file, restored })
}

fn time_limit(project: &Project) -> Result<Option<Duration>> {
    let limit = project.time_limit.as_deref().filter(|text| !text.trim().is_empty()).map(resolve::duration);
    limit.transpose().map_err(|error| error.with("file", "project.yaml").with("field", "time_limit"))
}
