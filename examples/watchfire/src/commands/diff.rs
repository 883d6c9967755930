//! `watchfire diff`: shows what a task changes.

use clap::Args;
use serde_json::json;
use watchfire_core::model::TaskNumber;
use watchfire_git::diff::{Diff, DiffRequest, FileChange, FileDiff, LineKind};
use watchfire_git::{GitOptions, GitWorkspace};

use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Compared is what the task has, also uncommitted, with where its branch left its target.

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
    /// Show so many lines around each change
    #[arg(long, short = 'U', value_name = "LINES", default_value_t = 3)]
    context: u32,
    /// Show so many files at most
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    files: usize,
    /// Show so many lines of each file at most
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    lines: usize,
}

pub(crate) async fn run(context: &Context, args: DiffArgs) -> Result<Exit> {
    let project = context.project().await?;
    let workspace = GitWorkspace::open(&project.root, GitOptions::default())?;
    let request = DiffRequest::new(args.number)
        .with_uncommitted(!args.committed)
        .with_context(args.context)
        // With `--stat` no line is shown, so none is asked for.
        .with_limits(args.files, if args.stat { 0 } else { args.lines });
    let diff = workspace.diff(&request).await?;
    context
        .out
        .report(json!({ "task": args.number.value(), "diff": diff }), |out| text(out, &diff, args.stat));
    Ok(Exit::Good)
}

fn text(out: Out, diff: &Diff, stat: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    for file in &diff.files {
        lines.push(out.style.bold(&head(file)));
        if !stat {
            body(out, file, &mut lines);
        }
    }
    let more = diff.total_files - diff.files.len();
    if more > 0 {
        lines.push(out.style.dim(&format!("… and {more} more files")));
    }
    if diff.total_files == 0 {
        lines.push("nothing is changed".to_owned());
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the heading of a file, such as `modified a.txt (+1 -2)`.
fn head(file: &FileDiff) -> String {
    let word = match file.change {
        FileChange::Added => "added",
        FileChange::Deleted => "deleted",
        FileChange::Renamed => "renamed",
        FileChange::TypeChanged => "changed its type:",
        _ => "modified",
    };
    let from = file.old_path.as_ref().map(|old| format!("{old} to ")).unwrap_or_default();
    let mode = match (&file.old_mode, &file.new_mode) {
        (Some(old), Some(new)) if old != new => format!(", mode {old} to {new}"),
        _ => String::new(),
    };
    let size = match file.binary {
        true => "binary".to_owned(),
        false => format!("+{} -{}", file.additions, file.deletions),
    };
    let mark = if file.runs_by_itself { ", run by tools on their own" } else { "" };
    // Paths come from the agent and may hold control characters.
    text::line(&format!("{word} {from}{} ({size}{mode}){mark}", file.path))
}

fn body(out: Out, file: &FileDiff, lines: &mut Vec<String>) {
    for hunk in &file.hunks {
        let range =
            format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines);
        lines.push(out.style.cyan(&range));
        for line in &hunk.lines {
            // The escape sequences of a file must not reach the terminal.
            let content = text::line(&line.text);
            lines.push(match line.kind {
                LineKind::Added => out.style.green(&format!("+{content}")),
                LineKind::Deleted => out.style.red(&format!("-{content}")),
                _ => format!(" {content}"),
            });
        }
    }
    if file.truncated {
        lines.push(out.style.dim("… the rest of this file is left out"));
    }
}
