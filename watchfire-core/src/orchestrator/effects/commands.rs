//! Commands of the project, confined like an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::backend::Launch;
use crate::model::{Project, SessionId, Settings};
use crate::orchestrator::compose::{PolicyParts, Scope, check_lost, environment, files};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::process::{CommandSpec, RunLimits};
use crate::sandbox::{Bind, Confined, EnvironmentPolicy, Rule};
use crate::schedule::{CallerEnvironment, RunOptions, resolve};
use crate::session::{self, SessionDirectory};
use crate::workspace::OpenedPart;

/// The shell that runs them.
pub(super) const SHELL: &str = "/bin/sh";
/// Default time limit of one command.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Number of bytes of its output that are kept.
const OUTPUT: usize = 16 * 1024;

/// A command that failed.
pub(super) struct Failure {
    pub(super) command: String,
    pub(super) how: String,
    /// The end of its output.
    pub(super) output: String,
}

/// The folder in which commands run.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) rules: Vec<Rule>,
    pub(super) binds: Vec<Bind>,
    /// True for the folder of a task, in which its agent works too.
    pub(super) is_workspace: bool,
    /// The task's folders in other repositories.
    pub(super) others: Vec<OpenedPart>,
}

/// Succeeds unless a restart has lost a secret that commands of the project would get.
///
/// # Errors
/// `variables_gone`.
pub(super) fn check_secrets(shared: &ProjectShared, settings: &Settings, options: &RunOptions) -> Result<()> {
    let lost = options.environment.as_ref().map_or(&[][..], CallerEnvironment::lost);
    let (ours, sandbox) = (shared.inner.variables(options), &settings.sandbox);
    let (policy, launch) = (EnvironmentPolicy::default(), Launch::new(""));
    check_lost(lost, &policy, &launch, sandbox.pass_env.iter(), |name| {
        ours.contains_key(name) || sandbox.env.keys().any(|set| **set == *name)
    })
}

/// A runner of commands in one place. Its own folders go with it, once the last command has ended.
pub(super) struct Commands {
    setting: Arc<Setting>,
    limit: Duration,
}

struct Setting {
    shared: Arc<ProjectShared>,
    project: Project,
    settings: Settings,
    options: RunOptions,
    place: Place,
    directory: SessionDirectory,
}

impl Commands {
    pub(super) async fn new(
        shared: &Arc<ProjectShared>,
        project: &Project,
        settings: &Settings,
        options: &RunOptions,
        place: Place,
    ) -> Result<Self> {
        let limit = match project.time_limit.as_deref().filter(|text| !text.trim().is_empty()) {
            Some(text) => resolve::duration(text)?,
            None => LIMIT,
        };
        let sessions = shared.state_dir.join("sessions");
        let (root, cwd) = (shared.root.clone(), Some(place.path.clone()).filter(|_| place.is_workspace));
        let others: Vec<_> = place.others.iter().map(|part| part.cwd.clone()).collect();
        let make = move || {
            let directory = SessionDirectory::create(&sessions, &SessionId::random())?;
            let folders = cwd.iter().chain(&others);
            folders.into_iter().try_for_each(|folder| files::make_mount_point(&root, &directory, folder))?;
            Ok(directory)
        };
        let directory = blocking("making a folder", make).await?;
        let (project, settings, options) = (project.clone(), settings.clone(), options.clone());
        let setting = Setting { shared: Arc::clone(shared), project, settings, options, place, directory };
        Ok(Self { setting: Arc::new(setting), limit })
    }

    /// Runs one command line to its end, with everything that it started. Returns its output.
    pub(super) async fn run(&self, line: &str) -> Result<std::result::Result<String, Failure>> {
        let (setting, command) = (Arc::clone(&self.setting), line.to_owned());
        let confined = blocking("confining a command", move || setting.confine(&command)).await?;
        let limits = RunLimits::default().with_timeout(self.limit).with_output(OUTPUT);
        let ran = session::run(&self.setting.shared.inner.helper, confined, limits).await?;
        let output = format!("{}{}", ran.stdout.text(), ran.stderr.text()).trim_end().to_owned();
        if ran.success() {
            return Ok(Ok(output));
        }
        let how = match ran.timed_out {
            true => format!("took longer than {} s", self.limit.as_secs()),
            false => format!("exit code {}", ran.code()),
        };
        Ok(Err(Failure { command: line.to_owned(), how, output }))
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let directory = self.directory.clone();
        // The next start removes what is left.
        let remove = move || drop(directory.remove());
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

impl Setting {
    /// Confines one command. Blocks.
    fn confine(&self, line: &str) -> Result<Confined> {
        let Self { shared, project, settings, options, place, directory } = self;
        let inner = &shared.inner;
        let tightened = settings.sandbox.tightened_by(&project.sandbox_rules);
        let mut policy = PolicyParts {
            sandboxes: &inner.sandboxes,
            enforcement: options.enforcement,
            scope: Scope::Workspace,
            environment: &inner.places(options),
            watchfire_home: &inner.home,
            project_root: &shared.root,
            settings: &tightened,
            project,
            state_dir: &shared.state_dir,
            shared_dir: shared.workspace.shared_dir().as_deref(),
            directory: Some(directory),
            cwd: Some(place.path.as_path()).filter(|_| place.is_workspace),
            others: &place.others,
            workspace_rules: &place.rules,
            workspace_binds: &place.binds,
            grants: &[],
            helper: inner.helper.path(),
        }
        .compose()?;
        // An edited dependency in a cache would make its own test pass.
        policy.kept = None;
        let choice = resolve::sandbox(options.sandbox.clone(), project, settings, &inner.sandboxes)?.value;
        // No agent runs here, so no backend adds or removes variables.
        let variables = environment(
            &inner.variables(options),
            &policy.environment,
            &Launch::new(""),
            &settings.sandbox.pass_env,
        );
        let command = CommandSpec::new(SHELL)
            .with_args(["-c", line])
            .with_cwd(Path::new(&place.path))
            .with_envs(variables)
            .with_envs(&tightened.env)
            .with_env("TMPDIR", directory.tmp())
            .with_env("CI", "1");
        inner.sandboxes.prepare(&choice, &policy, command)
    }
}
