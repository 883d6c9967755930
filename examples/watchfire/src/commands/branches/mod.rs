//! `watchfire branches`: lists the branches of tasks and changes them.

mod change;
mod list;
mod undo;

use clap::{Args, Subcommand};
use watchfire_core::model::TaskNumber;

use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::interrupts::Interrupts;
use crate::worker::Worker;
pub(crate) use undo::UndoArgs;
pub(in crate::commands) use undo::run as undo;

#[derive(Args, Debug)]
#[command(after_help = "\
Nothing here loses work: a branch goes only when all of it can be reached without it, and with --discard what is not
merged goes under a rescue reference first. While tasks run in this project, wait or stop them first.

Examples:
  watchfire branches
  watchfire branches --json |
    jq -r '.branches[] | select(.status == \"unmerged\").branch'
  watchfire branches merge 3 4
  watchfire branches delete --merged
  watchfire branches delete 5 --discard
  watchfire branches restore refs/watchfire/rescue/0005/1 second-thoughts

Exit codes: 0 all is well, 3 some branches were kept or not merged.")]
pub(crate) struct BranchesArgs {
    #[command(subcommand)]
    command: Option<BranchesCommand>,
}

#[derive(Debug, Subcommand)]
enum BranchesCommand {
    /// List the branches; also without a command
    #[command(visible_alias = "ls", after_help = "Examples:\n  watchfire branches list --json")]
    List,
    /// Merge the work of finished tasks, verified like any other
    Merge(MergeArgs),
    /// Delete branches and folders of tasks
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Clean up what no work depends on: folders of killed runs, branches whose work is merged
    #[command(after_help = "Examples:\n  watchfire branches prune")]
    Prune,
    /// Make a branch of rescued work; the rescue reference stays
    Restore(RestoreArgs),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire branches merge 3 4\n  watchfire branches merge 3 --into develop"
)]
struct MergeArgs {
    /// The tasks' numbers
    #[arg(value_name = "N", required = true)]
    numbers: Vec<TaskNumber>,
    /// Merge into this branch, for example because the target was renamed
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Merge even with conflict marks of a merge that an agent left unfinished
    #[arg(long)]
    accept_marks: bool,
    /// Merge even with changes of files that git or other tools run by themselves
    #[arg(long)]
    accept: bool,
    /// Merge even with changes of paths that project.yaml protects
    #[arg(long)]
    accept_protected: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire branches delete --merged\n  watchfire branches delete 5 --discard"
)]
struct DeleteArgs {
    /// The tasks' numbers
    #[arg(value_name = "N", required_unless_present = "merged")]
    numbers: Vec<TaskNumber>,
    /// All branches whose work is merged into their target
    #[arg(long)]
    merged: bool,
    /// Also work that is not merged; it is kept under a rescue reference
    // A merged branch has nothing to discard.
    #[arg(long, conflicts_with = "merged")]
    discard: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  watchfire branches restore refs/watchfire/rescue/0005/1 again")]
struct RestoreArgs {
    /// The reference, as `watchfire branches` lists it
    #[arg(value_name = "REF")]
    rescue: String,
    /// The new branch
    #[arg(value_name = "BRANCH")]
    branch: String,
}

pub(crate) async fn run(context: &Context, args: BranchesArgs) -> Result<Exit> {
    match args.command {
        None | Some(BranchesCommand::List) => list::run(context).await,
        Some(BranchesCommand::Merge(args)) => interruptible(change::merge(context, args)).await,
        Some(BranchesCommand::Delete(args)) => interruptible(change::delete(context, args)).await,
        Some(BranchesCommand::Prune) => interruptible(change::prune(context)).await,
        Some(BranchesCommand::Restore(args)) => change::restore(context, args).await,
    }
}

/// Waits for a change, or for the first signal. What is half-done then is completed by who has the project open, or by the
/// next start.
async fn interruptible(change: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    let interrupts = Interrupts::listen()?;
    tokio::select! {
        // In this order: a signal that ended the wait for the project is told by the change.
        biased;
        done = change => done,
        () = interrupts.first() => Ok(Exit::Interrupted),
    }
}

/// Returns the program that has the project open. Until it ends, no other program changes the project's branches.
async fn find(context: &Context) -> Result<Option<Worker>> {
    let interrupts = Interrupts::listen()?;
    Worker::find(context.project().await?, false, &interrupts).await
}
