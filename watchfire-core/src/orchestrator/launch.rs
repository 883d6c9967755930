//! From a request for a session to a running, confined process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::policy::{PolicyParts, environment, session_variables};
use super::project::ProjectShared;
use super::request::RunOptions;
use super::{Event, files};
use crate::backend::{Backend, Launch, SessionContext, Transport};
use crate::journal::{self, Entry};
use crate::model::{Alias, Attempt, Mode, Project, SessionId, Settings, Task};
use crate::observe::{Log, LogOptions, Subject};
use crate::prompt::{Assignment, PreviousAttempt, PromptContext, SessionPaths, compose};
use crate::sandbox::{Confined, PolicyReport};
use crate::schedule::resolve;
use crate::session::{
    Completion, LinesSession, LogFile, PtySession, Session, SessionDirectory, SessionInfo, SessionParts,
    SessionProcess, SignalWatch, Sinks,
};
use crate::workspace::{Opened, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// What a session is wanted for.
pub(super) struct SessionRequest {
    pub(super) mode: Mode,
    pub(super) task: Option<Task>,
    pub(super) attempt: Attempt,
    pub(super) previous: Option<PreviousAttempt>,
    pub(super) opened: Opened,
    pub(super) options: RunOptions,
}

/// A session that runs, and what is needed when it has ended.
pub(super) struct Started {
    pub(super) session: Session,
    directory: SessionDirectory,
    log_name: PathBuf,
    backend: Arc<dyn Backend>,
    context: SessionContext,
    _signals: SignalWatch,
}

/// Everything that is ready before the first process starts.
struct Prepared {
    directory: SessionDirectory,
    context: SessionContext,
    launch: Launch,
    confined: Confined,
    report: PolicyReport,
    log_name: PathBuf,
    log_file: Option<LogFile>,
}

/// Starts a session. When this fails, nothing runs and the session's folders are gone.
pub(super) async fn start(shared: &Arc<ProjectShared>, request: SessionRequest) -> Result<Started> {
    let (project, settings) = shared.settings().await?;
    let inner = &shared.inner;
    let resolved = resolve::backend(
        request.options.agent.clone(),
        request.task.as_ref(),
        &project,
        &settings,
        inner.default_backend.clone(),
    )?;
    let backend = inner.backend(&resolved.value, &settings)?;
    let time_limit = time_limit(&project)?;
    let session = SessionId::random();
    let (mode, options) = (request.mode, request.options.clone());
    let (task, key) =
        (request.task.clone(), request.task.as_ref().map(|task| WorkspaceKey::new(task.task_number)));
    let attempt = request.attempt;

    let preparation = Preparation {
        shared: Arc::clone(shared),
        backend: Arc::clone(&backend),
        session: session.clone(),
        project,
        settings,
        request,
    };
    let prepared = tokio::task::spawn_blocking(move || preparation.run())
        .await
        .map_err(|error| Error::new(ErrorKind::Internal, "preparing a session").with_source(error))??;
    let Prepared { directory, context, launch, confined, report, log_name, log_file } = prepared;
    let clean_up = CleanUp(Some(directory.clone()));

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
        key,
        attempt,
        mode,
        phase: None,
        backend: context.backend.clone(),
        recipe,
    };
    shared.journal.append(vec![starting]).await?;

    let completion = match (&task, mode) {
        (Some(task), _) => Completion::TaskFile(files::task_copy(&directory, task.task_number)),
        (None, _) => Completion::Never,
    };
    let signals = SignalWatch::new(completion.folder());
    let process: Arc<dyn SessionProcess> = match launch.transport {
        Transport::Pty { .. } => Arc::new(PtySession::start(&inner.helper, confined, options.size).await?),
        Transport::Lines { keep_input } => {
            let session = LinesSession::start(&inner.helper, confined).await?;
            if !keep_input {
                session.close_input().await;
            }
            Arc::new(session)
        }
        Transport::Acp => {
            return Err(Error::new(ErrorKind::NotSupported, "the ACP transport is not built in"));
        }
    };
    let identity = process.identity();
    let identity = journal::Identity {
        pid: identity.pid,
        start_time: identity.start_time,
        boot_id: identity.boot_id.clone(),
    };
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
    let subject = Subject::new(info.alias.as_str(), info.backend.as_str());
    let epoch = super::events::epoch(&*inner.clock);
    let log = Log::new(session.as_str(), epoch, subject, &LogOptions::default(), Arc::clone(&inner.clock));
    let session = Session::start(SessionParts {
        info,
        process,
        backend: Arc::clone(&backend),
        terminal: (inner.terminals)(options.size),
        log,
        sinks: Sinks { file: log_file },
        readiness: launch.readiness,
        prompt: launch.prompt,
        completion,
        files: directory.files(),
        changed: signals.changed(),
        time_limit,
        clock: Arc::clone(&inner.clock),
    });
    shared.add_session(session.clone());
    clean_up.keep();
    Ok(Started { session, directory, log_name, backend, context, _signals: signals })
}

impl Started {
    /// After the session has ended: takes over what it left in `memory.md`, keeps its transcript beside the logs, lets
    /// the backend clean up, and removes the session's folders.
    pub(super) async fn finish(self, shared: &Arc<ProjectShared>) {
        shared.remove_session(&self.session.info().id);
        let shared = Arc::clone(shared);
        let finishing = tokio::task::spawn_blocking(move || {
            let task = self.session.info().task;
            let check = |what: &str, result: Result<()>| {
                if let Err(error) = result {
                    shared.attention(task, format!("{what}: {}", error.report()));
                }
            };
            let memory = shared.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let imported = files::import_memory(&shared.root, &self.directory);
            drop(memory);
            check("importing memory.md", imported.map(|_| ()));
            if let Some(transcript) = self.backend.transcript(&self.context) {
                let kept = files::keep_transcript(&transcript.path, &self.log_name.with_extension("jsonl"));
                check("keeping the transcript", kept);
            }
            check("the agent's own clean-up", self.backend.clean_up(&self.context));
            check("removing the session's folders", self.directory.remove());
        });
        // A panic in a foreign backend ends here.
        let _ = finishing.await;
    }
}

/// Removes a session's folders unless the session has come to run.
struct CleanUp(Option<SessionDirectory>);

impl CleanUp {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        if let Some(directory) = self.0.take() {
            // Start-up sweeps what is left.
            let _ = directory.remove();
        }
    }
}

struct Preparation {
    shared: Arc<ProjectShared>,
    backend: Arc<dyn Backend>,
    session: SessionId,
    project: Project,
    settings: Settings,
    request: SessionRequest,
}

impl Preparation {
    /// All that blocks: finding the program, writing the session's files, asking the sandbox.
    fn run(self) -> Result<Prepared> {
        let Self { shared, backend, session, project, settings, request } = self;
        let inner = &shared.inner;
        let SessionRequest { mode, task, attempt, previous, opened, options } = request;
        let agent = settings.agents.get(backend.name()).cloned().unwrap_or_default();
        let located =
            backend.locate(&inner.search(&agent)).map_err(|error| match backend.install_hint() {
                Some(hint) if error.detail("hint").is_none() => error.with("hint", hint),
                _ => error,
            })?;

        let directory = SessionDirectory::create(&shared.state_dir.join("sessions"), &session)?;
        let clean_up = CleanUp(Some(directory.clone()));
        let copied = files::provide(&shared.root, &directory, task.as_ref())?;

        let assignment = Assignment::new(mode, None, task.as_ref())?;
        let paths = SessionPaths::new(&opened.cwd, &shared.root, directory.files());
        let prompt = PromptContext::new(session.clone(), assignment, &project, paths)
            .with_attempt(attempt, previous)
            .with_branches(opened.branch.clone(), opened.target.clone())
            .with_instructions(copied.instructions)
            .with_memory(copied.memory);
        let composed = compose(&prompt);

        let name = backend.name().parse()?;
        let mut context =
            SessionContext::new(session, name, mode, located.program, directory.home(), opened.cwd.clone());
        context.session_dir = directory.files();
        context.project_root.clone_from(&shared.root);
        context.title = match &task {
            Some(task) => format!("{}: #{} {}", project.name, task.task_number, task.title),
            None => format!("{}: {mode}", project.name),
        };
        context.system_prompt = composed.system;
        context.first_prompt = composed.first;
        context.size = options.size;
        context.settings = agent.clone();
        context.environment.clone_from(&inner.environment);
        context.user_home.clone_from(&inner.user_home);
        context.helper = inner.helper_inside();
        context.task.clone_from(&task);
        let launch = backend.prepare(&context)?;
        directory.write_home(&launch.files, &launch.links)?;

        let policy = PolicyParts {
            sandboxes: &inner.sandboxes,
            enforcement: options.enforcement,
            mode,
            user_home: inner.user_home.as_deref(),
            watchfire_home: &inner.home,
            project_root: &shared.root,
            settings: &settings,
            directory: Some(&directory),
            workspace_rules: &opened.policy_rules,
            workspace_binds: &opened.binds,
            grants: &launch.grants,
            helper: inner.helper.path(),
        }
        .compose()?;
        let pass = settings.sandbox.pass_env.iter().chain(&agent.pass_env);
        // Weakest first: ours, the session's, the backend's, the person's for this agent.
        let own: Vec<_> =
            launch.command.env().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut command = launch
            .command
            .clone()
            .with_cwd(&opened.cwd)
            .with_envs(environment(&inner.environment, &policy.environment, &launch, pass))
            .with_envs(session_variables(&directory))
            .with_envs(opened.env.iter().cloned())
            .with_envs(identity_variables(&*backend))
            .with_envs(own)
            .with_envs(&agent.env);
        if let Some(task) = &task {
            command = command.with_env("WATCHFIRE_TASK_FILE", files::task_copy(&directory, task.task_number));
        }
        for secret in &launch.secrets {
            command = command.with_secret(&secret.name, &secret.value);
        }
        let choice = resolve::sandbox(options.sandbox, &project, &settings)?.value;
        let sandbox = inner.sandboxes.choose(&choice)?;
        let confined = sandbox.prepare(&policy, command)?;
        let report = confined.guard.report();
        let log_name = files::log_name(&shared.logs_dir, task.as_ref(), mode, attempt, &inner.clock.now());
        let header = [
            ("project_id", shared.id.to_string()),
            ("task_number", task.as_ref().map_or(0, |task| task.task_number.value()).to_string()),
            ("session_number", attempt.to_string()),
            ("session_id", context.session.to_string()),
            ("agent", context.backend.to_string()),
            ("mode", mode.to_string()),
            ("sandbox", report.title()),
            ("started_at", inner.clock.now().to_string()),
        ];
        let log_file = LogFile::create(&log_name, &header)
            .inspect_err(|error| shared.attention(None, format!("no session log: {}", error.report())))
            .ok();
        clean_up.keep();
        Ok(Prepared { directory, context, launch, confined, report, log_name, log_file })
    }
}

/// Commits that an agent makes carry the agent's name, not the person's.
fn identity_variables(backend: &dyn Backend) -> Vec<(&'static str, String)> {
    let (name, email) =
        (backend.display_name().to_owned(), format!("{}@agents.watchfire.invalid", backend.name()));
    vec![
        ("GIT_AUTHOR_NAME", name.clone()),
        ("GIT_AUTHOR_EMAIL", email.clone()),
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
    ]
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
