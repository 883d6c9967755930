//! The way from a request for a session to a running, confined process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::purse::{self, Purse};
use super::started::{Assembly, Started};
use crate::backend::{Backend, Launch, PromptDelivery, SessionContext, Source, Transport};
use crate::failpoint::reached;
use crate::files::replace;
use crate::model::{Alias, KeyFile, Phase, Project, SessionId, Settings, Task};
use crate::observe::Body;
use crate::orchestrator::compose::resume::{self, Kept};
use crate::orchestrator::compose::{
    Agent, Composed, Documents, Folders, LiveRecord, Preparation, Reached, SandboxRecord, SessionNote,
    SessionRequest, files, located, notes,
};
use crate::orchestrator::shared::{Bearer, ProjectShared, RECORDING, blocking, open_records};
use crate::prompt::Assignment;
use crate::sandbox::{Confined, PolicyReport};
use crate::schedule::{Fact, Life, NoticeCode, RunOptions, SessionRef, resolve};
use crate::session::{
    Completion, Deadline, HostChannel, HostRequest, LogFile, Mailbox, Reach, SHORTEST_STALL, STALL_AFTER,
    SessionDirectory, SessionInfo, SessionProcess, SignalWatch,
};
use crate::workspace::WorkspaceKey;
use crate::{Error, ErrorKind, Result};

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
pub(in crate::orchestrator::effects) fn chosen(
    shared: &ProjectShared,
    options: &RunOptions,
    (phase, task): (Option<Phase>, Option<&Task>),
    project: &Project,
    settings: &Settings,
) -> Result<Arc<dyn Backend>> {
    let default = shared.inner.default_backend.clone();
    let of_phase = project.in_phase(phase);
    let resolved = resolve::backend(options.agent.clone(), task, &of_phase, settings, default)?;
    shared.inner.backend(&resolved.value, settings).map_err(|error| match resolved.from {
        _ if error.kind() != ErrorKind::UnknownBackend => error,
        resolve::From::Project => {
            error.with("file", KeyFile::Project).with("field", project.agent_key(phase))
        }
        resolve::From::Settings => {
            error.with("file", KeyFile::Settings).with("field", "defaults.default_agent")
        }
        _ => error,
    })
}

/// Returns the vendor's session of an earlier attempt, if it can be resumed: with the same agent, on work that still
/// exists.
pub(in crate::orchestrator::effects) async fn resumable(
    shared: &Arc<ProjectShared>,
    request: &SessionRequest,
) -> Result<Option<Kept>> {
    let Some(task) = request.task.as_ref().filter(|_| request.opened.reused) else { return Ok(None) };
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, &request.options, (request.phase, Some(task)), &project, &settings)?;
    let (state, task, cwd) = (shared.state_dir.clone(), task.task_number, request.opened.cwd.clone());
    let find = move || Ok(resume::latest(&state, task, &*backend, &cwd));
    blocking("looking for a session to resume", find).await
}

/// Returns the chat that a chat's options name.
///
/// # Errors
/// `not_found` if it is not kept; `invalid_input` if it is another agent's, or worked in another folder.
pub(in crate::orchestrator::effects) async fn chat_to_resume(
    shared: &Arc<ProjectShared>,
    request: &SessionRequest,
) -> Result<Option<Kept>> {
    let Some(session) = &request.options.resume else { return Ok(None) };
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, &request.options, (None, None), &project, &settings)?;
    let kept = resume::chat(shared, session).await?;
    let wrong = |message| Error::new(ErrorKind::InvalidInput, message).with("session", session);
    if kept.backend().as_str() != backend.name() {
        return Err(wrong("the chat is another agent's").with("agent", kept.backend()));
    }
    if kept.cwd() != request.opened.cwd {
        return Err(wrong("the chat worked in another folder").with_path(kept.cwd()));
    }
    Ok(Some(kept))
}

/// Looks for the program of a session's agent.
///
/// # Errors
/// `program_missing`; errors of the backend.
pub(in crate::orchestrator::effects) fn find_agent(
    shared: &ProjectShared,
    options: &RunOptions,
    backend: &dyn Backend,
    settings: &Settings,
) -> Result<()> {
    let agent = settings.agents.get(backend.name()).cloned().unwrap_or_default();
    located(backend, &shared.inner.search(&agent, &shared.inner.variables(options))).map(drop)
}

/// Refuses a session whose agent is missing.
///
/// # Errors
/// `unknown_backend`, `program_missing`.
pub(in crate::orchestrator::effects) async fn require_agent(
    shared: &Arc<ProjectShared>,
    options: &RunOptions,
    of: (Option<Phase>, Option<&Task>),
) -> Result<()> {
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, options, of, &project, &settings)?;
    let (shared, options) = (Arc::clone(shared), options.clone());
    let look = move || find_agent(&shared, &options, &*backend, &settings);
    blocking("looking for an agent", look).await
}

/// Refuses a session for which no budget is left.
///
/// # Errors
/// `budget_used_up`; `unknown_backend`.
pub(in crate::orchestrator::effects) async fn admit(
    shared: &Arc<ProjectShared>,
    life: &Life,
    options: &RunOptions,
    (phase, task): (Option<Phase>, Option<&Task>),
) -> Result<()> {
    let (project, settings) = shared.settings().await?;
    let backend = chosen(shared, options, (phase, task), &project, &settings)?;
    let task = task.map(|task| task.task_number);
    let (shared, life) = (Arc::clone(shared), life.clone());
    blocking("looking at budgets", move || purse::admit(&shared, &life, task, &*backend)).await
}

/// Starts a session of a life. After an error nothing runs, and the session's folders are gone.
///
/// # Errors
/// `cancelled` if the schedule no longer permits the start; otherwise the reason why it cannot start.
pub(in crate::orchestrator::effects) async fn start(
    shared: &Arc<ProjectShared>,
    life: &Life,
    mut request: SessionRequest,
) -> Result<Started> {
    let (project, settings) = shared.settings().await?;
    let inner = &shared.inner;
    let of = (request.phase, request.task.as_ref());
    let backend = chosen(shared, &request.options, of, &project, &settings)?;
    let (time_limit, stall_after) = (time_limit(&project)?, stall_after(&project)?);
    let may = project.agents_may.clone();
    let session = request.session.clone().unwrap_or_else(SessionId::random);
    let (mode, options) = (request.mode, request.options.clone());
    let task = request.task.clone();
    // A refinement has a task too, but works in the root and leaves nothing to commit.
    let works_in = task.as_ref().filter(|_| request.phase != Some(Phase::Refine));
    let key = works_in.map(|task| WorkspaceKey::new(task.task_number));
    let done_file = Assignment::new(mode, request.phase, task.as_ref())?.done_file();
    let target = request.opened.target.clone();
    let may_nudge = request.may_nudge();

    let given = request.others.take();
    let documents = Documents::read(&*shared.store, given, task.as_ref()).await?;
    for what in &documents.ignored {
        let task = task.as_ref().map(|task| task.task_number);
        shared.notice(NoticeCode::Store, task, what.clone());
    }
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
        // Free again when the life ends.
        let bearer = Bearer::new(&shared.id, spender.id);
        let alias = shared.inner.aliases.take(spender.alias.as_ref(), &bearer)?;
        let prepared = prepare(preparation, &alias)?;
        let agent = prepared.context.backend.clone();
        let purse = Arc::new(Purse::new(&shared, &spender, number, agent, &prepared.log_name));
        Ok((prepared, purse, alias))
    };
    let (prepared, purse, alias) = blocking("preparing a session", prepare).await?;
    let Prepared { folders, mut context, launch, confined, report, record, log_name, log_file, restored } =
        prepared;
    if options.environment.as_ref().is_some_and(|environment| environment.variables().is_none()) {
        let message =
            "the variables of the program that asked for it are gone with a restart; it gets ours".to_owned();
        shared.notice(NoticeCode::Session, task.as_ref().map(|task| task.task_number), message);
    }
    let directory = folders.directory().clone();
    shared.notice_left(context.backend.as_str(), &launch.left);

    let mut session_ref = SessionRef::new(
        session.clone(),
        alias.clone(),
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
    let signals = watch_signals(&completion, &directory);
    let mut typed = launch.prompt;
    let (channel, reach, reached_by) = match launch.transport {
        Transport::Pty { .. } => (HostChannel::Terminal(options.size), Reach::Terminal, Reached::Terminal),
        Transport::Lines { .. } => (HostChannel::Pipes, Reach::Stream, Reached::Stream),
        Transport::Dialogue { within } => {
            let dialogue = backend.dialogue(&context).ok_or_else(|| {
                Error::new(ErrorKind::NotSupported, "the backend does not speak the agent's protocol")
                    .with("backend", &context.backend)
            })?;
            (HostChannel::Pipes, Reach::Dialogue { dialogue, within }, Reached::Dialogue)
        }
    };
    // The agent has them by now. They are long, and a session may stay for days.
    (context.system_prompt, context.first_prompt) = (String::new(), None);
    let context = Arc::new(context);
    let info = SessionInfo {
        id: session.clone(),
        alias,
        project: shared.id.clone(),
        mode,
        phase: context.phase,
        task: task.as_ref().map(|task| task.task_number),
        backend: context.backend.clone(),
        started_at: inner.clock.now(),
    };
    let closes_input = launch.transport == (Transport::Lines { keep_input: false });
    let deadline = time_limit.map(|limit| Deadline::new(inner.clock.boot_time() + limit));
    let mut held = Vec::new();
    if inner.host.outlives() {
        let note = SessionNote {
            schema: 1,
            mode,
            phase: context.phase,
            started_at: info.started_at.clone(),
            program: context.program.clone(),
            title: context.title.clone(),
            reach: reached_by,
            readiness: launch.readiness.clone(),
            types_prompt: closes_input || matches!(typed, PromptDelivery::Typed(_)),
            completion: completion.clone(),
            may_nudge,
            resume: context.resume.clone(),
            restored: restored.clone(),
            log_name: log_name.clone(),
            deadline,
        };
        let to = directory.clone();
        blocking("noting a session", move || note.write(&to)).await?;
        held.extend(shared.hosts_lock()?);
    }
    let mail = shared.mailbox_of(life.id);
    let mailbox = blocking("opening a mailbox", move || Ok(Mailbox::open(mail))).await?;
    let log = open_records(shared, &info, &log_name).await;
    let recording = log_name.with_extension(RECORDING);
    let request = HostRequest::new(session.clone(), confined, channel, recording);
    let request = request.with_held(held).with_limit(time_limit);
    // After this the process runs: every `?` below would leave its end to the dropped handle.
    let hosted = inner.host.launch(request).await?;
    reached(|| "launched");
    if closes_input {
        let noted = inner.host.outlives().then(|| notes(&directory).prompted);
        // In the background: a long prompt fills the pipe until the agent reads it.
        tokio::spawn(feed(Arc::clone(&hosted.process), std::mem::take(&mut typed), noted));
    }
    let resumed = context.resume.clone();
    let started = Assembly {
        hosted,
        info,
        directory,
        backend,
        context,
        reach,
        vendor_session: launch.vendor_session,
        size: options.size,
        log_name,
        log_file,
        log,
        readiness: launch.readiness,
        prompt: typed,
        completion,
        may,
        signals,
        workspace: key,
        may_nudge,
        restored,
        record,
        purse,
        deadline,
        stall_after,
        mailbox,
        taken: None,
        fence: shared.fence(life.id),
    }
    .start(shared);
    if let Some(id) = resumed {
        let payload = serde_json::json!({ "id": id });
        started.session.log().push(Source::Process, Body::lifecycle("resumed", payload));
    }
    // From here on nothing fails, so the guard gives up the folders.
    folders.keep();
    Ok(started)
}

/// Watches the folders in which an agent leaves its claims and messages.
pub(in crate::orchestrator::effects) fn watch_signals(
    completion: &Completion,
    directory: &SessionDirectory,
) -> SignalWatch {
    SignalWatch::new(completion.folder().map(Path::to_path_buf).into_iter().chain([directory.files()]))
}

/// Writes the prompt of an agent on pipes, if it is to be typed, and closes the agent's input.
/// Makes the file `noted` then.
async fn feed(session: Arc<dyn SessionProcess>, prompt: PromptDelivery, noted: Option<PathBuf>) {
    if let PromptDelivery::Typed(text) = prompt
        && let Err(error) = session.write(format!("{}\n", text.trim_end()).as_bytes()).await
    {
        tracing::warn!("the agent did not take its prompt: {}", error.report());
    }
    session.close_input().await;
    if let Some(path) = noted {
        // Without the note, a later program ends the session and starts another: nothing is lost.
        let _ = tokio::task::spawn_blocking(move || replace(&path, b"")).await;
    }
}

/// Does the blocking work: composes the session, prepares the sandbox, opens the log.
fn prepare(preparation: Preparation, alias: &Alias) -> Result<Prepared> {
    let shared = Arc::clone(&preparation.shared);
    let inner = &shared.inner;
    let setup = preparation.request.setup.clone();
    let Composed { folders, context, launch, policy, command, choice, task, restored } =
        preparation.compose(Agent::MustBeThere)?;
    let confined = inner.sandboxes.prepare(&choice.value, &policy, command)?;
    let report = confined.guard.report();
    let (number, log_name) =
        files::next_log(&shared.logs_dir, task.as_ref(), context.mode, &inner.clock.now())?;
    let header = [
        ("project_id", shared.id.to_string()),
        ("task_number", task.as_ref().map_or(0, |task| task.task_number.value()).to_string()),
        ("session_number", number.to_string()),
        ("session_id", context.session.to_string()),
        ("alias", alias.to_string()),
        ("agent", context.backend.to_string()),
        ("mode", context.mode.to_string()),
        ("phase", context.phase.map(|phase| phase.to_string()).unwrap_or_default()),
        ("sandbox", report.title()),
        ("started_at", inner.clock.now().to_string()),
    ];
    // A session without a log is better than none.
    let log_file = LogFile::create(&log_name, &header, &setup)
        .inspect_err(|error| {
            shared.notice(NoticeCode::Session, None, format!("no session log: {}", error.report()));
        })
        .ok();
    let task = task.as_ref().map(|task| task.task_number);
    let record = SandboxRecord::new(&context, task, policy, report.clone());
    let record = LiveRecord::new(record, &log_name);
    Ok(Prepared { folders, context, launch, confined, report, record, log_name, log_file, restored })
}

pub(in crate::orchestrator::effects) fn time_limit(project: &Project) -> Result<Option<Duration>> {
    duration(project.time_limit.as_deref(), "time_limit")
}

/// Returns the length of a silence after which a session counts as stalled.
pub(in crate::orchestrator::effects) fn stall_after(project: &Project) -> Result<Duration> {
    match duration(project.stall_after.as_deref(), "stall_after")? {
        Some(short) if short < SHORTEST_STALL => {
            let error =
                Error::new(ErrorKind::InvalidInput, "no agent is stalled so soon: expected 10s or more");
            Err(error.with("file", "project.yaml").with("field", "stall_after"))
        }
        length => Ok(length.unwrap_or(STALL_AFTER)),
    }
}

fn duration(text: Option<&str>, field: &str) -> Result<Option<Duration>> {
    let length = text.filter(|text| !text.trim().is_empty()).map(resolve::duration);
    length.transpose().map_err(|error| error.with("file", "project.yaml").with("field", field))
}
