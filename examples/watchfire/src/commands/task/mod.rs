//! `watchfire task`: one file per subcommand.

mod add;
pub(crate) mod ask;
mod edit;
mod list;
mod reply;
mod show;
mod status;
mod trash;

use clap::{Args, Subcommand};
use serde_json::json;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::TaskInfo;

pub(crate) use reply::{AnswerArgs, ResumeArgs, answer, resume};

use crate::commands::run;
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::{status as standing, text};

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum TaskCommand {
    /// Add a task
    Add(add::AddArgs),
    /// List tasks in work order
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// List the tasks in the trash; the same as `task list --deleted`
    #[command(visible_alias = "ls-deleted", after_help = "Examples:\n  watchfire task list-deleted")]
    ListDeleted,
    /// Show a task
    #[command(
        after_help = "Examples:\n  watchfire task show 3\n  watchfire task show 3 --json | jq .task.state"
    )]
    Show(One),
    /// Change a task
    Edit(edit::EditArgs),
    /// Set a task ready and run it; the same as `watchfire run N`
    Start(run::StartArgs),
    /// Mark tasks done by hand, with success
    Done(status::DoneArgs),
    /// Set tasks ready; a done task gets a new attempt
    #[command(after_help = "Examples:\n  watchfire task ready 1 2 3")]
    Ready(Several),
    /// Set tasks back to draft
    #[command(
        after_help = "An agent that works on it is stopped; its work is kept.\n\nExamples:\n  watchfire task draft 3"
    )]
    Draft(Several),
    /// Put these tasks first in the work order, as they are named
    #[command(
        after_help = "Examples:\n  watchfire task reorder 5 2          first 5, then 2, then the others as before"
    )]
    Reorder(Several),
    /// Put tasks in the trash
    #[command(visible_alias = "rm")]
    #[command(
        after_help = "An agent that works on it is stopped; its work is kept.\n\nExamples:\n  watchfire task delete 3\n  watchfire task restore 3            bring it back"
    )]
    Delete(Several),
    /// Take tasks out of the trash
    #[command(after_help = "Examples:\n  watchfire task list --deleted\n  watchfire task restore 3")]
    Restore(Several),
    /// Remove tasks in the trash for good
    Purge(trash::PurgeArgs),
    /// `watchfire task 3` edits the task.
    #[command(external_subcommand)]
    Number(Vec<String>),
}

const EXAMPLES: &str = "\
Examples:
  watchfire task add --title 'Add a login' --prompt 'Follow docs/ui.md.' --ready
  watchfire task list --status ready
  watchfire task edit 3 --title 'Add a sign-in page'
  watchfire task ready 1 2 3
  watchfire task 3                    edit it in your editor
  watchfire task reorder 5 2          first 5, then 2, then the others as before
  watchfire task list --deleted";

/// Arguments of a command on one task.
#[derive(Args, Debug)]
pub(crate) struct One {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
}

/// Arguments of a command on several tasks.
#[derive(Args, Debug)]
pub(crate) struct Several {
    /// The tasks' numbers
    #[arg(value_name = "N", required = true)]
    numbers: Vec<TaskNumber>,
}

pub(crate) async fn run(context: &Context, command: TaskCommand) -> Result<Exit> {
    match command {
        TaskCommand::Add(args) => add::run(context, args).await,
        TaskCommand::List(args) => list::run(context, args).await,
        TaskCommand::ListDeleted => list::run(context, list::ListArgs::deleted()).await,
        TaskCommand::Reorder(args) => status::reorder(context, args).await,
        TaskCommand::Number(words) => edit::run(context, edit::EditArgs::named(&words)?).await,
        TaskCommand::Show(args) => show::run(context, args).await,
        TaskCommand::Edit(args) => edit::run(context, args).await,
        TaskCommand::Start(args) => run::start(context, args).await,
        TaskCommand::Done(args) => status::done(context, args).await,
        TaskCommand::Ready(args) => status::ready(context, args).await,
        TaskCommand::Draft(args) => status::draft(context, args).await,
        TaskCommand::Delete(args) => trash::delete(context, args).await,
        TaskCommand::Restore(args) => trash::restore(context, args).await,
        TaskCommand::Purge(args) => trash::purge(context, args).await,
    }
}

/// Reports one task, as JSON or as one line with what happened.
fn report(out: Out, info: &TaskInfo, what: &str) {
    out.report(json!({ "task": standing::json(info) }), |out| format!("{what} {}\n", one_line(out, info)));
}

/// Returns a task as one line, such as `[R] #0003 Add a login page`.
fn one_line(out: Out, info: &TaskInfo) -> String {
    let mark = standing::mark(info, out.style);
    format!("{mark} #{} {}", info.task.task_number, text::line(&info.task.title))
}
