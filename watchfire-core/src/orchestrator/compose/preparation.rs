//! The preparation of one session: its folders, its agent's launch, its policy, its environment and its working
//! directory. Used for sessions and for sandbox trials.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use super::files::{self, Documents};
use super::policy::{PolicyParts, Scope, environment, session_variables};
use super::progress;
use super::resume::Kept;
use crate::backend::{Backend, Launch, LocatedProgram, ProgramSearch, SessionContext};
use crate::endpoint::{AGENT_COMMAND, AGENT_ROLE, server_words};
use crate::model::{
    AgentSettings, Attempt, Mode, Phase, Project, SandboxSettings, SessionId, Settings, Task,
};
use crate::orchestrator::shared::ProjectShared;
use crate::process::CommandSpec;
use crate::prompt::{
    Assignment, Commands, OtherFolder, PreviousAttempt, PromptContext, SessionPaths, Setback, compose,
};
use crate::sandbox::{EnvironmentPolicy, SandboxChoice, SandboxPolicy};
use crate::schedule::resolve::{self, Resolved};
use crate::schedule::{CallerEnvironment, RunOptions};
use crate::session::SessionDirectory;
use crate::workspace::Opened;
use crate::{Error, ErrorKind, Result};

/// Purpose of a session.
#[derive(Clone)]
pub(crate) struct SessionRequest {
    /// The session's id, if it was given one when it entered the root.
    pub(crate) session: Option<SessionId>,
    pub(crate) mode: Mode,
    pub(crate) phase: Option<Phase>,
    pub(crate) task: Option<Task>,
    /// The tasks of a step, which compares them with those that its agent leaves. `None` for other sessions: they get the
    /// project's tasks.
    pub(crate) others: Option<Vec<Task>>,
    pub(crate) attempt: Attempt,
    pub(crate) previous: Option<PreviousAttempt>,
    pub(crate) opened: Opened,
    pub(crate) options: RunOptions,
    /// The commands that prepared its folder and their output, for its log.
    pub(crate) setup: String,
    /// The session to resume.
    pub(crate) resume: Option<Kept>,
}

impl SessionRequest {
    /// Requests a session in the project root, such as a chat.
    pub(crate) fn in_root(shared: &ProjectShared, mode: Mode, options: RunOptions) -> Self {
        let opened = Opened::at(&shared.root);
        Self {
            session: None,
            mode,
            phase: None,
            task: None,
            others: None,
            attempt: Attempt(1),
            previous: None,
            opened,
            options,
            setup: String::new(),
            resume: None,
        }
    }

    /// Returns true if its agent may be asked how its task ended: once in a life, and not after a person's answer.
    pub(crate) fn may_nudge(&self) -> bool {
        let setback = self.previous.as_ref().map(|previous| &previous.setback);
        !matches!(setback, Some(Setback::Asked { .. } | Setback::Unclaimed))
    }
}

/// Need for the agent's program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Agent {
    MustBeThere,
    /// Another program will run in its place.
    MayBeMissing,
}

/// Returns the program of a backend. The error says whose it is and how to install it.
pub(crate) fn located(backend: &dyn Backend, search: &ProgramSearch) -> Result<LocatedProgram> {
    backend.locate(search).map_err(|error| {
        let error = error.with("agent", backend.display_name());
        match backend.install_hint() {
            Some(hint) if error.kind() == ErrorKind::ProgramMissing && error.detail("hint").is_none() => {
                error.with("hint", hint)
            }
            _ => error,
        }
    })
}

/// Returns the person's settings of an agent, with the model that the project names for the phase. It is a model of the
/// phase's agent, and no other gets it.
///
/// # Errors
/// `invalid_input` for a wrong name.
pub(crate) fn agent_settings(
    shared: &ProjectShared,
    agent: &str,
    phase: Option<Phase>,
    project: &Project,
    settings: &Settings,
) -> Result<AgentSettings> {
    let mut of_agent = settings.agents.get(agent).cloned().unwrap_or_default();
    let model = phase.map(|phase| project.wildfire.model(phase)).transpose()?.flatten();
    if let Some(model) = model {
        let default = shared.inner.default_backend.clone();
        let of_phase = resolve::backend(None, None, &project.in_phase(phase), settings, default)?.value;
        if of_phase.as_str() == agent {
            of_agent.model = Some(model.to_owned());
        }
    }
    Ok(of_agent)
}

/// Inputs of a session's preparation.
pub(crate) struct Preparation {
    pub(crate) shared: Arc<ProjectShared>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) session: SessionId,
    pub(crate) project: Project,
    pub(crate) settings: Settings,
    pub(crate) documents: Documents,
    pub(crate) request: SessionRequest,
}

/// Everything that is known before the sandbox is prepared.
pub(crate) struct Composed {
    pub(crate) folders: Folders,
    pub(crate) context: SessionContext,
    pub(crate) launch: Launch,
    pub(crate) policy: SandboxPolicy,
    pub(crate) command: CommandSpec,
    pub(crate) choice: Resolved<SandboxChoice>,
    pub(crate) task: Option<Task>,
    /// Files of the vendor's session that is resumed, with their lengths.
    pub(crate) restored: BTreeMap<PathBuf, u64>,
}

impl Preparation {
    /// Does the blocking work: finds the program and writes the session's files.
    pub(crate) fn compose(self, needed: Agent) -> Result<Composed> {
        let Self { shared, backend, session, project, settings, documents, request } = self;
        let inner = &shared.inner;
        let SessionRequest { mode, phase, task, attempt, previous, opened, options, resume, .. } = request;
        let agent = agent_settings(&shared, backend.name(), phase, &project, &settings)?;
        let variables = inner.variables(&options);
        // Before any folder is made, so that a missing program leaves nothing behind.
        let program = match located(&*backend, &inner.search(&agent, &variables)) {
            Ok(located) => located.program,
            Err(error) if needed == Agent::MayBeMissing && error.kind() == ErrorKind::ProgramMissing => {
                PathBuf::from(backend.name())
            }
            Err(error) => return Err(error),
        };

        let folders = Folders::new(SessionDirectory::create(&shared.state_dir.join("sessions"), &session)?);
        let directory = folders.directory();
        files::provide(directory, task.as_ref(), &documents)?;
        let mut shown = opened.others.iter().map(|part| &part.cwd).chain([&opened.cwd]);
        shown.try_for_each(|folder| files::make_mount_point(&shared.root, directory, folder))?;
        if let Some(task) = &task {
            progress::give(&shared.state_dir, task.task_number, directory)?;
        }
        let mut speaks = inner.helper_inside();
        // By its place in the command, so that no variable of the agent changes whose words these are.
        speaks.extend([OsString::from(AGENT_ROLE), directory.files().into_os_string()]);
        directory.write_command(AGENT_COMMAND, &speaks)?;
        if mode == Mode::GenerateDefinition {
            let path = directory.files().join("definition.md");
            std::fs::write(&path, &project.definition)
                .map_err(|e| Error::io("writing a session's copy", e).with_path(path))?;
        }

        let assignment = Assignment::new(mode, phase, task.as_ref())?;
        let paths = SessionPaths::new(&opened.cwd, &shared.root, directory.files());
        // The project's own words before the embedder's.
        let mut wording = inner.wording.clone();
        wording.extend(documents.wording);
        let others = opened.others.iter().map(|part| OtherFolder {
            repository: part.repository.clone(),
            folder: part.cwd.clone(),
            branch: part.branch.clone(),
        });
        let prompt = PromptContext::new(session.clone(), assignment, &project, paths)
            .with_attempt(attempt, previous)
            .with_branches(opened.branch.clone(), opened.target.clone())
            .with_others(others.collect())
            .with_instructions(documents.instructions)
            .with_memory(documents.memory)
            .with_wording(wording)
            .with_commands(Commands {
                program: directory.bin().join(AGENT_COMMAND),
                may: project.agents_may.clone(),
            });
        let composed = compose(&prompt);

        let name = backend.name().parse()?;
        let mut context =
            SessionContext::new(session, name, mode, program, directory.home(), opened.cwd.clone());
        context.phase = phase;
        context.session_dir = directory.files();
        context.project_root.clone_from(&shared.root);
        context.title = match &task {
            Some(task) if phase == Some(Phase::Refine) => {
                format!("{}: refine #{} {}", project.name, task.task_number, task.title)
            }
            Some(task) => format!("{}: #{} {}", project.name, task.task_number, task.title),
            None => format!("{}: {mode}", project.name),
        };
        context.first_prompt = composed.first;
        let mut restored = BTreeMap::new();
        if let Some(kept) = &resume {
            kept.restore(&directory.home())?;
            // Before the agent adds to them: only what it writes from now on is news.
            restored = Kept::restored(&directory.home());
            context.resume = Some(kept.vendor_session().to_owned());
            // Its first instructions name files of the earlier session, and do not mention how that ended.
            context.first_prompt = context.first_prompt.map(|first| {
                format!(
                    "Go on. {first}\n\nThis takes the place of all instructions before:\n\n{}",
                    composed.system
                )
            });
        }
        context.system_prompt = composed.system;
        context.size = options.size;
        context.settings = agent.clone();
        context.environment.clone_from(&variables);
        context.user_home.clone_from(&inner.user_home);
        context.helper = inner.helper_inside();
        context.tools =
            speaks.into_iter().chain(server_words(&project.agents_may, mode == Mode::Chat)).collect();
        context.task.clone_from(&task);
        let launch = backend.prepare(&context)?;
        let lost = options.environment.as_ref().map_or(&[][..], CallerEnvironment::lost).to_vec();
        let before = (!lost.is_empty()).then(|| prepare_with(&*backend, &context, &lost)).transpose()?;
        directory.write_home(&launch.files, &launch.links)?;

        // A project may only tighten: its file comes with the repository, from people who are not this
        // machine's owner.
        let sandbox = settings.sandbox.tightened_by(&project.sandbox_rules);
        let policy = PolicyParts {
            sandboxes: &inner.sandboxes,
            enforcement: options.enforcement,
            // Apart in a folder of its own, a chat is confined as a task is.
            scope: match Scope::of(mode, phase) {
                Scope::Root if opened.cwd != shared.root => Scope::Workspace,
                scope => scope,
            },
            environment: &inner.places(&options),
            watchfire_home: &inner.home,
            project_root: &shared.root,
            settings: &sandbox,
            project: &project,
            state_dir: &shared.state_dir,
            shared_dir: shared.workspace.shared_dir().as_deref(),
            directory: Some(directory),
            cwd: Some(&opened.cwd),
            others: &opened.others,
            workspace_rules: &opened.policy_rules,
            workspace_binds: &opened.binds,
            grants: &launch.grants,
            helper: inner.helper.path(),
        }
        .compose()?;
        let choice = resolve::sandbox(options.sandbox, &project, &settings, &inner.sandboxes)?;
        let parts = CommandParts {
            backend: &*backend,
            variables: &variables,
            settings: &sandbox,
            agent: &agent,
            policy: &policy,
            launch: &launch,
            opened: &opened,
            directory,
            task: task.as_ref(),
        };
        let command = parts.command();
        if let Some(before) = before {
            parts.check_lost(&lost, &before, &command)?;
        }
        Ok(Composed { folders, context, launch, policy, command, choice, task, restored })
    }
}

struct CommandParts<'a> {
    backend: &'a dyn Backend,
    variables: &'a BTreeMap<OsString, OsString>,
    settings: &'a SandboxSettings,
    agent: &'a AgentSettings,
    policy: &'a SandboxPolicy,
    launch: &'a Launch,
    opened: &'a Opened,
    directory: &'a SessionDirectory,
    task: Option<&'a Task>,
}

impl CommandParts<'_> {
    /// Builds the agent's command, with its working directory and all variables. Weakest first: ours, the person's
    /// for all agents, the session's, the workspace's, the backend's, the person's for this agent.
    fn command(&self) -> CommandSpec {
        let Self { settings, agent, launch, directory, .. } = self;
        let pass = settings.pass_env.iter().chain(&agent.pass_env);
        let ours = environment(self.variables, &self.policy.environment, launch, pass);
        // Read before our variables go over them, and set again last: the backend's own must win.
        let own: Vec<_> =
            launch.command.env().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut command = launch
            .command
            .clone()
            .with_cwd(&self.opened.cwd)
            .with_envs(ours)
            .with_envs(&settings.env)
            .with_envs(session_variables(directory))
            .with_envs(self.opened.env.iter().cloned())
            .with_envs(identity_variables(self.backend, self.opened))
            .with_envs(own)
            .with_envs(&agent.env);
        if let Some(task) = self.task {
            command = command.with_env("WATCHFIRE_TASK_FILE", files::task_copy(directory, task.task_number));
        }
        // Last: also where the person sets a PATH for the agent, it finds the command.
        let path = command.env().find(|(name, _)| *name == "PATH").map(|(_, path)| path.to_owned());
        command = command.with_env("PATH", with_folder(directory.bin(), path.as_deref()));
        // Not among the variables above: secrets are kept out of logs and debug output.
        for secret in &launch.secrets {
            command = command.with_secret(&secret.name, &secret.value);
        }
        command
    }

    /// Succeeds unless a restart has lost a secret that the agent got `before`, and nothing else gives it one of that name.
    fn check_lost(&self, lost: &[String], before: &Launch, command: &CommandSpec) -> Result<()> {
        let pass = self.settings.pass_env.iter().chain(&self.agent.pass_env);
        check_lost(lost, &self.policy.environment, before, pass, |name| {
            command.env().any(|(there, _)| there == name)
                || self.launch.secrets.iter().any(|secret| *secret.name == *name)
        })
    }
}

/// Succeeds unless a variable that a restart has lost was given to a program `before`, and none of its name is there now.
pub(crate) fn check_lost<'a>(
    lost: &[String],
    policy: &EnvironmentPolicy,
    before: &Launch,
    pass: impl Iterator<Item = &'a String>,
    is_there: impl Fn(&OsStr) -> bool,
) -> Result<()> {
    let theirs = lost.iter().map(|name| (OsString::from(name), OsString::new())).collect();
    let mut missing = environment(&theirs, policy, before, pass);
    let given = before.secrets.iter().filter(|secret| theirs.contains_key(&secret.name));
    missing.extend(given.map(|secret| (secret.name.clone(), OsString::new())));
    missing.retain(|name, _| !is_there(name));
    let names: Vec<_> = missing.keys().map(|name| name.to_string_lossy()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "what it was started with is gone with a restart: {}; resume it from where that is set",
        names.join(", ")
    );
    Err(Error::new(ErrorKind::VariablesGone, message))
}

/// Returns the launch that there would be if the `lost` variables were set.
fn prepare_with(backend: &dyn Backend, context: &SessionContext, lost: &[String]) -> Result<Launch> {
    let mut context = context.clone();
    for name in lost {
        context.environment.entry(name.into()).or_insert_with(|| "lost".into());
    }
    backend.prepare(&context)
}

/// Returns a `PATH` that begins with `folder`.
fn with_folder(folder: PathBuf, path: Option<&OsStr>) -> OsString {
    let mut all = folder.into_os_string();
    all.push(":");
    all.push(path.filter(|path| !path.is_empty()).unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin")));
    all
}

/// Returns variables by which an agent's commits carry its name, not the person's. They are repeated as git settings,
/// after those of the workspace, for programs that check the settings before a commit and would write one if it is
/// missing.
fn identity_variables(backend: &dyn Backend, opened: &Opened) -> Vec<(String, String)> {
    let (name, email) =
        (backend.display_name().to_owned(), format!("{}@agents.watchfire.invalid", backend.name()));
    // git reads `GIT_CONFIG_COUNT` settings by number, so ours continue after those of the workspace.
    let count = opened.env.iter().find(|(name, _)| name == "GIT_CONFIG_COUNT");
    let count: usize = count.and_then(|(_, count)| count.to_str()?.parse().ok()).unwrap_or(0);
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), (count + 2).to_string())];
    for (n, (part, value)) in [("name", &name), ("email", &email)].into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{}", count + n), format!("user.{part}")));
        variables.push((format!("GIT_CONFIG_VALUE_{}", count + n), value.clone()));
        for role in ["AUTHOR", "COMMITTER"] {
            variables.push((format!("GIT_{role}_{}", part.to_uppercase()), value.clone()));
        }
    }
    variables
}

/// Folders of a session. Removed on drop, unless the session has started.
pub(crate) struct Folders {
    directory: SessionDirectory,
    kept: bool,
}

impl Folders {
    fn new(directory: SessionDirectory) -> Self {
        Self { directory, kept: false }
    }

    pub(crate) fn directory(&self) -> &SessionDirectory {
        &self.directory
    }

    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        if !self.kept {
            // The next start removes what is left.
            let _ = self.directory.remove();
        }
    }
}
