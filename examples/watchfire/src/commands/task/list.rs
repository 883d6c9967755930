//! `watchfire task list`: lists tasks in work order.

use clap::Args;
use serde_json::json;
use watchfire_core::model::TaskStatus;
use watchfire_core::orchestrator::TaskInfo;
use watchfire_core::store::{Malformed, TaskQuery, TaskStore as _};

use super::one_line;
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::{compose, status, terminal, text};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watchfire task list
  watchfire task list --status ready --label ui
  watchfire task list --json | jq '.tasks[] | select(.state == \"conflict\")'")]
pub(crate) struct ListArgs {
    /// Only tasks with this status: draft, ready or done
    #[arg(long, value_name = "STATUS")]
    status: Option<TaskStatus>,
    /// Only tasks with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// List the tasks in the trash instead
    #[arg(long)]
    deleted: bool,
}

impl ListArgs {
    /// Lists the trash.
    pub(super) fn deleted() -> Self {
        Self { status: None, label: None, deleted: true }
    }
}

pub(super) async fn run(context: &Context, args: ListArgs) -> Result<Exit> {
    let project = context.project().await?;
    let none = none(&args);
    let mut query = TaskQuery::new();
    query.status = args.status;
    query.label = args.label.clone();
    query.deleted = args.deleted;
    let list = project.store.list(&query).await?;
    let tasks = project.infos(list.tasks.into_iter().map(|task| task.value))?;
    // A task that took back another may not be in a part of the list.
    let is_part = args.status.is_some() || args.label.is_some() || args.deleted;
    let others = if is_part { project.all_infos().await? } else { Vec::new() };
    let all = if is_part { &others } else { &tasks };
    let value = json!({
        "tasks": tasks.iter().map(status::json).collect::<Vec<_>>(),
        "malformed": list.malformed,
    });
    let settings = project.home.settings().await.unwrap_or_default();
    // Where the settings define an agent wrongly, no name can be looked up. `doctor` reports that.
    let agents = compose::backends(&settings).ok();
    let lacks = |info: &TaskInfo| {
        let agent = info.task.agent.as_ref().filter(|_| info.task.status != TaskStatus::Done)?;
        let missing = agents.as_ref()?.get(agent.as_str()).is_err();
        missing.then(|| format!("there is no agent {}", text::line(agent.as_str())))
    };
    context.out.report(value, |out| text(out, &tasks, (all, &lacks), &list.malformed, &none));
    Ok(Exit::Good)
}

/// Returns what to say if there is no such task.
fn none(args: &ListArgs) -> String {
    let status = args.status.map(|status| format!("the status {}", status.as_str()));
    let label = args.label.as_ref().map(|label| format!("the label {}", text::line(label)));
    let asked: Vec<_> = status.into_iter().chain(label).collect();
    match (asked.is_empty(), args.deleted) {
        (true, true) => "the trash is empty".to_owned(),
        (true, false) => "no tasks; watchfire task add makes one".to_owned(),
        (false, true) => format!("no task in the trash has {}", asked.join(" and ")),
        (false, false) => format!("no task has {}", asked.join(" and ")),
    }
}

/// All tasks, and what to say of one whose agent does not exist.
type Beside<'a> = (&'a [TaskInfo], &'a dyn Fn(&TaskInfo) -> Option<String>);

fn text(out: Out, tasks: &[TaskInfo], beside: Beside<'_>, malformed: &[Malformed], none: &str) -> String {
    let mut lines = Vec::new();
    // In a pipe nothing is cut.
    let columns = if out.terminal { usize::from(terminal::size().cols()) } else { usize::MAX };
    let sections = [(TaskStatus::Draft, "Draft"), (TaskStatus::Ready, "Ready"), (TaskStatus::Done, "Done")];
    for (status, heading) in sections {
        let tasks: Vec<_> = tasks.iter().filter(|info| info.task.status == status).collect();
        if !tasks.is_empty() {
            lines.push(out.style.bold(&format!("{heading} ({})", tasks.len())));
            lines.extend(tasks.into_iter().map(|info| item(out, info, beside, columns)));
        }
    }
    if tasks.is_empty() && malformed.is_empty() {
        lines.push(none.to_owned());
    }
    if !malformed.is_empty() {
        lines.push(out.style.bold(&format!("Malformed ({})", malformed.len())));
        // A malformed file is listed, so that its task does not seem to be lost.
        for file in malformed {
            let kept = if file.last_good_kept { "; its last good state holds" } else { "" };
            lines.push(format!("  {} {}{kept}", out.style.red("[!]"), text::line(&file.to_string())));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn item(out: Out, info: &TaskInfo, (all, lacks): Beside<'_>, columns: usize) -> String {
    let line = format!("  {}", one_line(out, info));
    let mut extras = vec![status::remark(info, all)];
    // A life has a remark of its own, which says what it waits for.
    if !info.task.depends_on.is_empty() && info.life.is_none() {
        let numbers: Vec<_> = info.task.depends_on.iter().map(|number| format!("#{number}")).collect();
        extras.push(format!("after {}", numbers.join(", ")));
    }
    extras.extend(lacks(info));
    extras.extend(info.task.labels.iter().map(|label| format!("+{}", text::line(label))));
    extras.retain(|extra| !extra.is_empty());
    if extras.is_empty() {
        return line;
    }
    // The mark, the number and the blanks take 12 columns. `task show` shows the remarks that are cut here.
    let left = columns.saturating_sub(text::width(&text::line(&info.task.title)) + 15);
    format!("{line}  {}", out.style.dim(&text::clip(&extras.join("  "), left.max(20))))
}
