//! The task and the folder that an attempt works with.

use std::sync::Arc;

use crate::model::{Attempt, Project, Settings, Task, TaskNumber, TaskStatus};
use crate::orchestrator::compose::{Wanted, isolate, own_policy};
use crate::orchestrator::effects::claims;
use crate::orchestrator::shared::{ProjectShared, blocking};
use crate::schedule::{ChatPlace, Life, NoticeCode, RunOptions};
use crate::store::TaskPatch;
use crate::workspace::{Isolation, OpenRequest, Opened, WorkspaceKey};
use crate::{ErrorKind, Result};

/// Opens a folder for the work under `key` as its sandbox allows, and reports remarks for the person.
pub(crate) async fn open_workspace(
    shared: &Arc<ProjectShared>,
    key: impl Into<WorkspaceKey>,
    attempt: Attempt,
    options: &RunOptions,
) -> Result<Opened> {
    let (project, settings) = shared.settings().await?;
    let key = key.into();
    let task = key.task();
    let is_fresh = task.is_none() && options.place == ChatPlace::FreshWorktree;
    let open = OpenRequest::new(key, attempt).with_target(&project.default_branch).with_fresh(is_fresh);
    let (asking, asked) = (Arc::clone(shared), options.clone());
    // Before the workspace is made, so that a malformed entry leaves nothing behind.
    let wanted = Wanted::of(&project)?;
    let (of, by) = (project.clone(), settings.clone());
    let ask = move || isolate(open, &asking, &of, &by, &asked);
    let open = blocking("asking the sandbox", ask).await?;
    let mut opened = shared.workspace.open(&open).await?;
    // In the checkout itself the files are there already.
    if !wanted.is_empty() && opened.cwd != shared.root {
        give(shared, project, settings, wanted, open.isolation, &mut opened).await?;
    }
    for line in &opened.attention {
        shared.notice(NoticeCode::Workspace, task, line.clone());
    }
    for rescued in &opened.rescued {
        let message = format!("earlier work is kept in {}", rescued.name);
        shared.notice(NoticeCode::WorkKept, task, message);
    }
    Ok(opened)
}

/// Gives an opened workspace the ignored folders and files of the checkout that the project asks for.
pub(super) async fn give(
    shared: &Arc<ProjectShared>,
    project: Project,
    settings: Settings,
    mut wanted: Wanted,
    isolation: Isolation,
    opened: &mut Opened,
) -> Result<()> {
    if isolation != Isolation::Bound {
        let shown = std::mem::take(&mut wanted.share);
        opened.attention.extend(shown.iter().map(|path| {
            format!("tasks do not get {}: this sandbox cannot show folders copy-on-write", path.display())
        }));
    }
    let ignored = shared.workspace.ignored(wanted.all()).await?;
    opened.attention.extend(wanted.keep_ignored(&ignored));
    let (of, to) = (Arc::clone(shared), opened.cwd.clone());
    let provide = move || Ok(wanted.provide(&of.root, &to, &own_policy(&of, &project, &settings)?));
    let provided = blocking("giving a task files of the checkout", provide).await?;
    opened.attention.extend(provided.remarks);
    opened.policy_rules.extend(provided.rules);
    opened.binds.extend(provided.binds);
    Ok(())
}

/// Returns the task, unless a person withdrew it a moment ago.
pub(super) async fn ready_task(
    shared: &ProjectShared,
    life: &Life,
    number: TaskNumber,
) -> Result<Option<Task>> {
    let task = match shared.store.get(number).await {
        Ok(task) => task.value,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if task.is_deleted() || task.status == TaskStatus::Draft {
        return Ok(None);
    }
    if task.status == TaskStatus::Ready {
        return Ok(Some(task));
    }
    // Done, but its merge failed and another attempt was requested.
    let patch = TaskPatch::new().with_status(TaskStatus::Ready);
    let task = claims::update(shared, life.id, number, patch).await?;
    shared.store_changed(Some(number));
    Ok(Some(task))
}
