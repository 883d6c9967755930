//! `watchfire task done`, `ready` and `draft`: change the status of tasks.

use clap::Args;
use serde_json::json;
use watchfire_core::model::{TaskNumber, TaskStatus};
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::store::{TaskPatch, TaskStore as _, TaskStoreExt as _};

use super::{Several, one_line};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::status as standing;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire task done 3\n  watchfire task done 3 --failed 'no longer wanted'"
)]
pub(crate) struct DoneArgs {
    #[command(flatten)]
    tasks: Several,
    /// Mark it as failed, with this reason
    #[arg(long, value_name = "REASON")]
    failed: Option<String>,
}

pub(super) async fn done(context: &Context, args: DoneArgs) -> Result<Exit> {
    if args.failed.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
        return Err(Failure::usage("the reason is empty", "say why it failed"));
    }
    let patch = TaskPatch::new()
        .with_status(TaskStatus::Done)
        .with_success(args.failed.is_none())
        .with_failure_reason(args.failed);
    change(context, &args.tasks.numbers, &patch, "done:").await
}

/// Puts tasks first in the work order.
pub(super) async fn reorder(context: &Context, args: Several) -> Result<Exit> {
    let project = context.project().await?;
    project.store.reorder(&args.numbers, None).await?;
    context.out.report(json!({ "reordered": args.numbers }), |_| "reordered\n".to_owned());
    Ok(Exit::Good)
}

pub(super) async fn ready(context: &Context, args: Several) -> Result<Exit> {
    change(context, &args.numbers, &TaskPatch::new().with_status(TaskStatus::Ready), "ready:").await
}

pub(super) async fn draft(context: &Context, args: Several) -> Result<Exit> {
    change(context, &args.numbers, &TaskPatch::new().with_status(TaskStatus::Draft), "draft:").await
}

/// Applies one patch to several tasks. A task that cannot be changed does not keep the others from it.
pub(super) async fn change(
    context: &Context,
    numbers: &[TaskNumber],
    patch: &TaskPatch,
    what: &str,
) -> Result<Exit> {
    let project = context.project().await?;
    let mut at_work = Vec::new();
    for number in numbers {
        at_work.extend(project.info(*number).await.ok().filter(standing::is_at_work).map(|_| *number));
    }
    let (mut changed, mut failed) = (Vec::new(), None);
    for (_, result) in project.store.update_all(numbers, patch).await {
        match result {
            Ok(task) => changed.push(task.value),
            // The first error decides the exit code. One error is reported.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // After an error, too: the tasks that were changed are still reported to a person.
    let changed = project.infos(changed)?;
    // With `--json` an error is the only report: two objects would not parse as one.
    if failed.is_none() || !context.out.json {
        let tasks: Vec<_> = changed.iter().map(standing::json).collect();
        context.out.report(json!({ "tasks": tasks }), |out| {
            // Only a ready task keeps its agent.
            let ends = |info: &TaskInfo| {
                at_work.contains(&info.task.task_number)
                    && (info.task.status != TaskStatus::Ready || info.task.deleted_at.is_some())
            };
            let note = |info| if ends(info) { "  (its agent will be stopped; its work is kept)" } else { "" };
            changed.iter().map(|info| format!("{what} {}{}\n", one_line(out, info), note(info))).collect()
        });
    }
    failed.map_or(Ok(Exit::Good), |error| Err(error.into()))
}
