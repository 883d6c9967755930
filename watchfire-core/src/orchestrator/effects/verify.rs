//! The project's verify commands, on the merged tree, confined like an agent.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::backend::Launch;
use crate::failpoint::reached;
use crate::model::{Project, SessionId, Settings};
use crate::orchestrator::compose::{PolicyParts, Scope, Wanted, environment, own_policy};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::process::helper::Helper;
use crate::process::{CommandSpec, RunLimits};
use crate::sandbox::Confined;
use crate::schedule::{Fact, Life, RunOptions, resolve};
use crate::session::{self, SessionDirectory};
use crate::workspace::{Candidate, Scratch};

/// Default time limit of one command.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Number of bytes of its output that are kept.
const OUTPUT: usize = 16 * 1024;

/// A verify command that failed.
pub(super) struct Failure {
    pub(super) command: String,
    pub(super) how: String,
    /// The end of its output.
    pub(super) output: String,
}

/// Runs the commands in order. Returns the one that failed, or `None` if all succeeded.
pub(super) async fn run(
    shared: &Arc<ProjectShared>,
    project: &Project,
    settings: &Settings,
    life: &Life,
    candidate: &Candidate,
) -> Result<Option<Failure>> {
    if project.verify.is_empty() {
        return Ok(None);
    }
    let limit = match project.time_limit.as_deref().filter(|text| !text.trim().is_empty()) {
        Some(text) => resolve::duration(text)?,
        None => LIMIT,
    };
    // Shared with the blocking threads: the folder is removed only when the last of them is done.
    let scratch = Arc::new(shared.workspace.checkout(candidate).await?);
    let sessions = shared.state_dir.join("sessions");
    let directory =
        blocking("making a folder", move || SessionDirectory::create(&sessions, &SessionId::random()))
            .await?;
    let mut failure = Ok(None);
    reached(|| "scratch made");
    for line in &project.verify {
        shared.report(Fact::Verifying { life: life.id, command: line.clone() });
        let confine = Confine {
            shared: Arc::clone(shared),
            project: project.clone(),
            settings: settings.clone(),
            options: life.options.clone(),
            scratch: Arc::clone(&scratch),
            directory: directory.clone(),
            line: line.clone(),
        };
        failure = match blocking("confining a verify command", move || confine.run()).await {
            Ok(confined) => run_one(&shared.inner.helper, confined, line, limit).await,
            Err(error) => Err(error),
        };
        if !matches!(failure, Ok(None)) {
            break;
        }
    }
    blocking("removing a folder", move || {
        drop(scratch);
        directory.remove()
    })
    .await?;
    failure
}

/// Runs one command to its end, with everything that it started.
async fn run_one(
    helper: &Helper,
    confined: Confined,
    line: &str,
    limit: Duration,
) -> Result<Option<Failure>> {
    let limits = RunLimits::default().with_timeout(limit).with_output(OUTPUT);
    let ran = session::run(helper, confined, limits).await?;
    if ran.success() {
        return Ok(None);
    }
    let how = match ran.timed_out {
        true => format!("took longer than {} s", limit.as_secs()),
        false => format!("exit code {}", ran.code()),
    };
    let output = format!("{}{}", ran.stdout.text(), ran.stderr.text()).trim_end().to_owned();
    Ok(Some(Failure { command: line.to_owned(), how, output }))
}

/// Confines one command. Blocks.
struct Confine {
    shared: Arc<ProjectShared>,
    project: Project,
    settings: Settings,
    options: RunOptions,
    scratch: Arc<Scratch>,
    directory: SessionDirectory,
    line: String,
}

impl Confine {
    fn run(self) -> Result<Confined> {
        let Self { shared, project, settings, options, scratch, directory, line } = self;
        let inner = &shared.inner;
        let provided = Wanted::of(&project)?.provide(
            &shared.root,
            scratch.path(),
            &own_policy(&shared, &project, &settings)?,
        );
        let rules: Vec<_> = scratch.policy_rules.iter().cloned().chain(provided.rules).collect();
        let tightened = settings.sandbox.tightened_by(&project.sandbox_rules);
        let policy = PolicyParts {
            sandboxes: &inner.sandboxes,
            enforcement: options.enforcement,
            scope: Scope::Workspace,
            environment: &inner.environment,
            watchfire_home: &inner.home,
            project_root: &shared.root,
            settings: &tightened,
            project: &project,
            state_dir: &shared.state_dir,
            shared_dir: shared.workspace.shared_dir().as_deref(),
            directory: Some(&directory),
            cwd: None,
            workspace_rules: &rules,
            // No agent's repository is shown: the scratch folder is a plain tree.
            workspace_binds: &provided.binds,
            grants: &[],
            helper: inner.helper.path(),
        }
        .compose()?;
        let choice = resolve::sandbox(options.sandbox, &project, &settings, &inner.sandboxes)?.value;
        let variables = environment(
            &inner.environment,
            &policy.environment,
            &Launch::new(""),
            &settings.sandbox.pass_env,
        );
        let command = CommandSpec::new("/bin/sh")
            .with_args(["-c", &line])
            .with_cwd(scratch.path())
            .with_envs(variables)
            .with_envs(&tightened.env)
            .with_env("TMPDIR", directory.tmp())
            .with_env("CI", "1");
        inner.sandboxes.prepare(&choice, &policy, command)
    }
}
