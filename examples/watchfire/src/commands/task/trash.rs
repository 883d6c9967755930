//! `watchfire task delete`, `restore` and `purge`: move tasks to the trash and back, or remove them.

use clap::Args;
use serde_json::json;
use watchfire_core::model::TaskNumber;
use watchfire_core::store::{TaskPatch, TaskStore as _, TaskStoreExt as _};

use super::{Several, status};
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::text;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire task purge 3\n  watchfire task purge --all          empty the trash"
)]
pub(crate) struct PurgeArgs {
    /// The tasks' numbers
    #[arg(value_name = "N", required_unless_present = "all")]
    numbers: Vec<TaskNumber>,
    /// Empty the trash
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
}

pub(super) async fn delete(context: &Context, args: Several) -> Result<Exit> {
    status::change(context, &args.numbers, &TaskPatch::new().with_deleted(true), "in the trash:").await
}

pub(super) async fn restore(context: &Context, args: Several) -> Result<Exit> {
    status::change(context, &args.numbers, &TaskPatch::new().with_deleted(false), "restored:").await
}

pub(super) async fn purge(context: &Context, args: PurgeArgs) -> Result<Exit> {
    let project = context.project().await?;
    let purged = if args.all {
        project.store.empty_trash().await?
    } else {
        for number in &args.numbers {
            // In the given order: after an error the later ones are still in the trash.
            project.store.purge(*number).await?;
        }
        args.numbers
    };
    context.out.report(json!({ "purged": purged }), |_| {
        format!("removed {} for good\n", text::count(purged.len(), "task"))
    });
    Ok(Exit::Good)
}
