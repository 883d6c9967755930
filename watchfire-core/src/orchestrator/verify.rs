//! The project's verify commands, on the merged tree, confined like an agent.

use std::sync::Arc;
use std::time::Duration;

use super::policy::{PolicyParts, Scope, environment};
use super::project::ProjectShared;
use super::request::RunOptions;
use super::{Step, blocking};
use crate::Result;
use crate::backend::Launch;
use crate::model::{Attempt, Project, SessionId, Settings};
use crate::process::helper::Helper;
use crate::process::{CommandSpec, RunLimits};
use crate::sandbox::Confined;
use crate::schedule::resolve;
use crate::session::{self, SessionDirectory};
use crate::workspace::{Candidate, Scratch};

/// How long one command may take where the project sets no limit.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// How much of its output is kept.
const OUTPUT: usize = 16 * 1024;

/// Runs the commands in order. Says which one failed and how its output ended, or none when all succeeded.
pub(super) async fn run(
    shared: &Arc<ProjectShared>,
    project: &Project,
    settings: &Settings,
    options: &RunOptions,
    attempt: Attempt,
    candidate: &Candidate,
) -> Result<Option<String>> {
    if project.verify.is_empty() {
        return Ok(None);
    }
    let limit = match project.time_limit.as_deref().filter(|text| !text.trim().is_empty()) {
        Some(text) => resolve::duration(text)?,
        None => LIMIT,
    };
    let scratch = Arc::new(shared.workspace.checkout(candidate).await?);
    let sessions = shared.state_dir.join("sessions");
    let directory =
        blocking("making a folder", move || SessionDirectory::create(&sessions, &SessionId::random()))
            .await?;
    let mut failure = Ok(None);
    for line in &project.verify {
        shared.progress(candidate.key.task, attempt, Step::Verifying, line.clone());
        let confine = Confine {
            shared: Arc::clone(shared),
            project: project.clone(),
            settings: settings.clone(),
            options: options.clone(),
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

/// Runs one command to its end, with all that it started; says how it failed.
async fn run_one(helper: &Helper, confined: Confined, line: &str, limit: Duration) -> Result<Option<String>> {
    let limits = RunLimits::default().with_timeout(limit).with_output(OUTPUT);
    let ran = session::run(helper, confined, limits).await?;
    if ran.success() {
        return Ok(None);
    }
    let how = match ran.timed_out {
        true => format!("took longer than {} s", limit.as_secs()),
        false => format!("exit code {}", ran.code()),
    };
    let output = format!("{}{}", ran.stdout.text(), ran.stderr.text());
    Ok(Some(format!("{line}: {how}\n{}", output.trim_end())))
}

/// What it takes to confine one command. Blocks.
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
            directory: Some(&directory),
            cwd: None,
            workspace_rules: &scratch.policy_rules,
            workspace_binds: &[],
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
