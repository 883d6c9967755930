//! `watchfire diff`: shows what a task changes.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::{Error, ErrorKind};
use watchfire_git::diff::{Diff, DiffRequest, Part};
use watchfired::Repositories;

use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
The task's work, also what is not committed, is compared with the place where its branch left the target. Of a merged task,
it shows what was merged, also where later attempts have changed nothing.

Examples:
  watchfire diff 3
  watchfire diff 3 --stat
  watchfire diff 3 --json | jq -r '.diff.files[].path'")]
pub(crate) struct DiffArgs {
    /// The task's number
    #[arg(value_name = "N")]
    number: TaskNumber,
    /// Only the files, and how many lines change in each
    #[arg(long)]
    stat: bool,
    /// Leave out changes that are not committed
    #[arg(long)]
    committed: bool,
    /// Number of lines to show around each change
    #[arg(long, short = 'U', value_name = "LINES", default_value_t = 3)]
    context: u32,
    /// Largest number of files to show
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    files: usize,
    /// Largest number of lines to show of each file
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    lines: usize,
}

pub(crate) async fn run(context: &Context, args: DiffArgs) -> Result<Exit> {
    let project = context.project().await?;
    let repositories = Repositories::open(&project.home, &project.root).await?;
    // A task without a file may have work all the same.
    let info = project.info(args.number).await.ok();
    let request = DiffRequest::new(args.number)
        .with_merged(info.as_ref().and_then(TaskInfo::merged).map(str::to_owned))
        .with_last_merge(info.as_ref().and_then(TaskInfo::last_merge).map(|merge| merge.commit))
        .with_uncommitted(!args.committed)
        .with_context(args.context)
        // With `--stat` no line is shown, so none is asked for.
        .with_limits(args.files, if args.stat { 0 } else { args.lines });
    let mut diffs = repositories.diffs(&request).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound if info.is_none() => {
            Error::new(ErrorKind::NotFound, "no such task").with("task", args.number)
        }
        // Work that is gone was there.
        ErrorKind::NotFound if error.detail("branch").is_none() => {
            Error::new(ErrorKind::NotFound, "no agent has worked on this task yet")
                .with("task", args.number)
                .with("hint", format_args!("watchfire run {} starts one", args.number.value()))
        }
        _ => error,
    })?;
    // A repository in which nothing is changed is not worth a heading.
    diffs.retain(|(at, diff)| at.as_os_str().is_empty() || diff.total_files > 0);
    let (own, others): (Vec<_>, Vec<_>) = diffs.iter().partition(|(at, _)| at.as_os_str().is_empty());
    let mut report = json!({ "task": args.number.value(), "diff": own.first().map(|(_, diff)| diff) });
    if !others.is_empty() {
        let told = others.iter().map(|(at, diff)| json!({ "repository": at, "diff": diff }));
        report["others"] = told.collect();
    }
    context.out.report(report, |out| {
        let headed = |(at, diff): &(PathBuf, Diff)| {
            let heading = match at.as_os_str().is_empty() {
                true => String::new(),
                false => format!("{}\n", out.style.bold(&text::line(&format!("in {}:", at.display())))),
            };
            heading + &text(out, diff, args.stat)
        };
        diffs.iter().map(headed).collect()
    });
    Ok(Exit::Good)
}

fn text(out: Out, diff: &Diff, stat: bool) -> String {
    let shown = diff.lines().into_iter().filter(|(part, _)| !stat || matches!(part, Part::File | Part::Note));
    let line = |(part, content): (Part, String)| {
        // The escape sequences of a file must not reach the terminal.
        let content = text::line(&content);
        let painted = match part {
            Part::File => out.style.bold(&content),
            Part::Hunk => out.style.cyan(&content),
            Part::Added => out.style.green(&content),
            Part::Deleted => out.style.red(&content),
            Part::Note => out.style.dim(&content),
            _ => content,
        };
        format!("{painted}\n")
    };
    shown.map(line).collect()
}
