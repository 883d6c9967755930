//! `watchfire undo`: takes back what a task has merged.

use clap::Args;
use serde_json::json;
use watchfire_client::work_proto::UndoTaskRequest;
use watchfire_core::model::TaskNumber;

use super::{find, interruptible};
use crate::commands::run::next_step_of;
use crate::context::{Context, OpenProject};
use crate::failure::{Exit, Result};
use crate::text;
use crate::worker::wire;

#[derive(Args, Debug)]
#[command(after_help = "\
What came after the merge stays. The undo is the work of a new task, which is verified and merged like any other, and can be undone too.
Where later work has changed the same places, the new task is a draft with which an agent can take it back. Said again, undo goes on
with the same task.

Examples:
  watchfire undo 3
  watchfire undo 3 --into release

Exit codes: 0 taken back, 3 it needs a person.")]
pub(crate) struct UndoArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
    /// The branch that has the merge, if not the one into which it was merged
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
}

pub(in crate::commands) async fn run(context: &Context, args: UndoArgs) -> Result<Exit> {
    interruptible(undo(context, args)).await
}

async fn undo(context: &Context, args: UndoArgs) -> Result<Exit> {
    let Some(worker) = find(context).await? else { return Ok(Exit::Interrupted) };
    let (task_number, into) = (wire(args.number), args.into.unwrap_or_default());
    let undone = worker.undo(UndoTaskRequest { project_id: String::new(), task_number, into }).await;
    let cure = match &undone {
        Ok(undone) => cure(&worker.place, undone.task_number).await,
        Err(_) => None,
    };
    // The error is returned after the end, which must come in any case.
    worker.end().await;
    let undone = undone?;
    let number = undone.task_number;
    // As tasks are shown everywhere.
    let by = format!("{number:04}");
    let value = json!({
        "task": args.number.value(), "by": undone.task_number, "good": undone.good, "outcome": undone.outcome,
        "conflicts": undone.conflicts,
    });
    context.out.report(value, |out| {
        if undone.good {
            return format!(
                "{} the last merge of #{} is taken back by #{by}\n",
                out.style.green("✓"),
                args.number
            );
        }
        let mark = out.style.yellow("·");
        if undone.conflicts.is_empty() {
            let outcome = text::line(&undone.outcome);
            let next = cure.unwrap_or_else(|| {
                format!(
                    "watchfire branches merge {number} tries again; watchfire task ready {number}, then watchfire run {number} lets an \
                     agent go on with it"
                )
            });
            return format!("{mark} #{} is not yet taken back by #{by}: {outcome}\n    {next}\n", args.number);
        }
        let files: String = undone.conflicts.iter().map(|file| format!("  {}\n", text::line(file))).collect();
        format!(
            "{mark} #{} is not taken back: later work has changed the same places\n{files}\
             To let an agent take it back: watchfire run {}\n",
            args.number, number
        )
    });
    Ok(if undone.good { Exit::Good } else { Exit::NeedsPerson })
}

/// Returns what lets the work of an undo go on, where it waits for a person.
async fn cure(place: &OpenProject, number: i32) -> Option<String> {
    let number = TaskNumber::new(u32::try_from(number).ok()?)?;
    next_step_of(number, place.info(number).await.ok()?.state()?)
}
