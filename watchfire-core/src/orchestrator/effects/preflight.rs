//! Looks at everything that a run or a session needs before anything is claimed: a mistyped agent is one error, and not one for
//! each task.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::attempts::{chosen, find_agent, stall_after, time_limit};
use super::installed::check_commands;
use crate::model::{BackendName, KeyFile, Phase, Project, Settings, Task, TaskNumber, TaskStatus};
use crate::orchestrator::compose::{Wanted, own_policy};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{RunOptions, Scope, resolve};
use crate::store::{TaskQuery, line_of_key};
use crate::{Error, ErrorKind, Result};

/// Checks the sandbox, the policy, the time limit, the target, the files to share, the project's commands, and the agents of the ready tasks that a run
/// covers.
///
/// # Errors
/// `unknown_backend`, `program_missing`; `not_found` for a target that is no branch; errors of the sandbox, the settings and
/// the store.
pub(crate) async fn preflight(
    shared: &Arc<ProjectShared>,
    options: &RunOptions,
    scope: &Scope,
) -> Result<()> {
    with_line(shared, check_run(shared, options, scope).await).await
}

async fn check_run(shared: &Arc<ProjectShared>, options: &RunOptions, scope: &Scope) -> Result<()> {
    let (project, settings) = shared.settings().await?;
    time_limit(&project)?;
    stall_after(&project)?;
    let tasks = shared.store.list(&TaskQuery::new()).await?.tasks.into_iter().map(|task| task.value);
    let is_asked_for = |task: &Task| match scope.is_general() {
        true => task.status == TaskStatus::Ready,
        false => scope.covers(task.task_number),
    };
    let tasks: Vec<_> = tasks.filter(is_asked_for).collect();
    let phase = (*scope == Scope::Wildfire).then_some(Phase::Execute);
    if phase.is_some() {
        check_phases(shared, options, &project, &settings).await?;
    }
    if tasks.is_empty() {
        // An agent that is named is checked all the same: a mistyped one is no "nothing to do".
        let Some(_) = options.agent else { return Ok(()) };
        return check_agents(shared, options, None, (project, settings), vec![None]).await;
    }
    Wanted::of(&project)?;
    check_target(shared, &project).await?;
    check_own_commands(shared, options, &project, &settings).await?;
    let tasks = tasks.into_iter().map(Some).collect();
    check_agents(shared, options, phase, (project, settings), tasks).await
}

/// Checks the agents and models of the phases of wildfire.
async fn check_phases(
    shared: &Arc<ProjectShared>,
    options: &RunOptions,
    project: &Project,
    settings: &Settings,
) -> Result<()> {
    for phase in [Phase::Execute, Phase::Refine, Phase::Generate] {
        project.wildfire.model(phase)?;
        // Whether ready tasks have theirs is looked at for each.
        if options.agent.is_some() || phase == Phase::Execute && project.wildfire.agent(phase).is_none() {
            continue;
        }
        let configured = (project.clone(), settings.clone());
        let checked = check_agents(shared, options, Some(phase), configured, vec![None]).await;
        checked.map_err(|error| error.with("phase", phase))?;
    }
    Ok(())
}

/// Checks the sandbox, the policy and the agent of a session without a task.
///
/// # Errors
/// `unknown_backend`, `program_missing`; errors of the sandbox, the settings and the store.
pub(crate) async fn preflight_session(shared: &Arc<ProjectShared>, options: &RunOptions) -> Result<()> {
    let configured = shared.settings().await?;
    with_line(shared, check_agents(shared, options, None, configured, vec![None]).await).await
}

/// Adds to an error that names a key of settings.yaml or project.yaml the line of the key.
async fn with_line(shared: &ProjectShared, checked: Result<()>) -> Result<()> {
    let Err(error) = checked else { return Ok(()) };
    let Some(field) = error.detail("field").map(str::to_owned) else { return Err(error) };
    let settings = KeyFile::Settings.to_string();
    let (folder, name) = match error.detail("file") {
        Some(name) if name == KeyFile::Project.to_string() => {
            (shared.root.join(".watchfire"), KeyFile::Project.to_string())
        }
        Some(name) if name == settings => (shared.inner.home.clone(), settings),
        // Backends know their options, and no file.
        None if field.starts_with("agents.") => (shared.inner.home.clone(), settings),
        _ => return Err(error),
    };
    let error = if error.detail("file").is_none() { error.with("file", &name) } else { error };
    let found = blocking("looking for a key", move || Ok(line_of_key(&folder, &name, &field))).await;
    Err(match found.ok().flatten() {
        Some(line) => error.with("line", line),
        None => error,
    })
}

/// Looks for the programs of `setup` and `verify`, which run with the variables of an agent.
async fn check_own_commands(
    shared: &Arc<ProjectShared>,
    options: &RunOptions,
    project: &Project,
    settings: &Settings,
) -> Result<()> {
    let set = settings.sandbox.tightened_by(&project.sandbox_rules).env.get("PATH").cloned();
    let path =
        set.map(OsString::from).or_else(|| shared.inner.variables(options).get(OsStr::new("PATH")).cloned());
    let project = project.clone();
    blocking("looking for the project's commands", move || check_commands(&project, path.as_deref())).await
}

async fn check_target(shared: &ProjectShared, project: &Project) -> Result<()> {
    let target = shared.workspace.check_target(&project.default_branch).await;
    target.map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput if !project.default_branch.is_empty() => {
            error.with("file", "project.yaml").with("field", "default_branch")
        }
        _ => error,
    })
}

/// Succeeds if the agents of these, or of a session without a task, are there. The error names the tasks of the first one that is
/// not.
async fn check_agents(
    shared: &Arc<ProjectShared>,
    options: &RunOptions,
    phase: Option<Phase>,
    (project, settings): (Project, Settings),
    tasks: Vec<Option<Task>>,
) -> Result<()> {
    let (shared, options) = (Arc::clone(shared), options.clone());
    blocking("looking at what a run needs", move || {
        let sandboxes = &shared.inner.sandboxes;
        let choice = resolve::sandbox(options.sandbox.clone(), &project, &settings, sandboxes)?.value;
        sandboxes.choose(&choice)?;
        own_policy(&shared, &project, &settings)?;
        // Many tasks have few agents, and each is looked for once.
        let mut looked: BTreeMap<Option<BackendName>, (Option<Error>, Vec<TaskNumber>)> = BTreeMap::new();
        let look = |task: Option<&Task>| {
            let backend = chosen(&shared, &options, (phase, task), &project, &settings)?;
            find_agent(&shared, &options, &*backend, &settings)
        };
        for task in &tasks {
            let agent = task.as_ref().and_then(|task| task.agent.clone());
            let (_, of) = looked.entry(agent).or_insert_with(|| (look(task.as_ref()).err(), Vec::new()));
            of.extend(task.as_ref().map(|task| task.task_number));
        }
        let mut missing = looked.into_values().filter_map(|(error, of)| Some((error?, of)));
        let Some((error, mut of)) = missing.next() else { return Ok(()) };
        let told = error.report();
        of.extend(missing.filter(|(other, _)| other.report() == told).flat_map(|(_, of)| of));
        of.sort_unstable();
        // Where no task could start, or none was asked for, it is none of theirs.
        Err(if !of.is_empty() && of.len() < tasks.len() { error.with("tasks", numbers(&of)) } else { error })
    })
    .await
}

/// Returns the first few numbers, and how many there are beside them.
fn numbers(tasks: &[TaskNumber]) -> String {
    const NAMED: usize = 5;
    let named: Vec<_> = tasks.iter().take(NAMED).map(|number| format!("#{number}")).collect();
    match tasks.len().checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", named.join(", ")),
        None => named.join(", "),
    }
}
