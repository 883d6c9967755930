//! Looks at everything that a run needs before anything is claimed: a mistyped agent is one error, and not one for each task.

use std::sync::Arc;

use super::launch::{chosen, time_limit};
use crate::model::TaskStatus;
use crate::orchestrator::compose::{located, own_policy};
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{RunOptions, Scope, resolve};
use crate::store::TaskQuery;
use crate::{Error, Result};

/// Checks the sandbox, the policy, the time limit, and the agents of the ready tasks that a run covers. A missing agent is an
/// error here only if it is missing for all of them: otherwise its tasks fail alone, and the others run.
///
/// # Errors
/// `unknown_backend`, `program_missing`; errors of the sandbox, the settings and the store.
pub(crate) async fn preflight(shared: &Arc<ProjectShared>, options: &RunOptions, scope: Scope) -> Result<()> {
    let (project, settings) = shared.settings().await?;
    time_limit(&project)?;
    let tasks = shared.store.list(&TaskQuery::new()).await?.tasks.into_iter().map(|task| task.value);
    let tasks: Vec<_> = match scope {
        Scope::Task(number) => tasks.filter(|task| task.task_number == number).collect(),
        _ => tasks.filter(|task| task.status == TaskStatus::Ready).collect(),
    };
    if tasks.is_empty() {
        return Ok(());
    }
    let (shared, options) = (Arc::clone(shared), options.clone());
    blocking("looking at what a run needs", move || {
        let sandboxes = &shared.inner.sandboxes;
        let choice = resolve::sandbox(options.sandbox.clone(), &project, &settings, sandboxes)?.value;
        sandboxes.choose(&choice)?;
        own_policy(&shared, &project, &settings)?;
        let mut missing: Option<Error> = None;
        for task in &tasks {
            let found = chosen(&shared, &options, Some(task), &project, &settings).and_then(|backend| {
                let agent = settings.agents.get(backend.name()).cloned().unwrap_or_default();
                located(&*backend, &shared.inner.search(&agent))
            });
            match found {
                Ok(_) => return Ok(()),
                Err(error) => missing = missing.or(Some(error)),
            }
        }
        missing.map_or(Ok(()), Err)
    })
    .await
}
