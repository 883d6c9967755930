//! `watchfire task show`: shows a task with its state, its cost and its refusals.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use watchfire_core::model::{Task, TaskNumber, Timestamp};
use watchfire_core::orchestrator::{SandboxRecord, SessionLog, Spent, TaskInfo};
use watchfire_core::sandbox::Refusal;
use watchfire_core::workspace::{BranchPart, Workspace as _, WorkspaceKey};
use watchfire_git::JointWorkspace;
use watchfire_git::diff::{Diff, DiffRequest};
use watchfired::Repositories;

use super::{One, one_line};
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::{status, text};

pub(super) async fn run(context: &Context, args: One) -> Result<Exit> {
    let project = context.project().await?;
    let info = project.info(args.number).await?;
    let all = project.all_infos().await?;
    let logs = project.home.logs_dir(&project.id);
    let spent = Spent::of_task(&logs, args.number)?;
    let mut sessions = SessionLog::list(&logs)?;
    sessions.retain(|log| log.task == Some(args.number));
    let refused =
        SandboxRecord::latest(&logs, Some(args.number))?.map(|record| record.refused).unwrap_or_default();
    let mut value = status::json(&info);
    value["spent"] = json!(spent);
    value["refused"] = json!(refused);
    let repositories = Repositories::open(&project.home, &project.root).await.ok();
    let tool_files = match &repositories {
        Some(repositories) => tool_files(repositories, args.number).await,
        None => Vec::new(),
    };
    let parts = match &repositories {
        Some(Repositories::Several(several)) => parts(several, args.number).await,
        _ => Vec::new(),
    };
    value["tool_files"] = json!(tool_files);
    if !parts.is_empty() {
        value["repositories"] = json!(parts);
    }
    value["merge_commit"] = json!(info.last_merge().map(|merge| merge.commit));
    context.out.report(json!({ "task": value }), |out| {
        text(out, &info, &all, spent, &sessions, &refused, (&tool_files, &parts))
    });
    Ok(Exit::Good)
}

/// Returns the files that the task's branch changes and that tools run by themselves. Empty if there is no branch.
async fn tool_files(repositories: &Repositories, number: TaskNumber) -> Vec<String> {
    // Only committed changes and no lines: the names are enough.
    let request = DiffRequest::new(number).with_uncommitted(false).with_limits(usize::MAX, 0);
    let diffs = repositories.diffs(&request).await.unwrap_or_default();
    let of_one = |(at, diff): (PathBuf, Diff)| {
        let files = diff.files.into_iter().filter(|file| file.runs_by_itself);
        files.map(move |file| match at.as_os_str().is_empty() {
            true => file.path.to_string(),
            false => format!("{}/{}", at.display(), file.path),
        })
    };
    diffs.into_iter().flat_map(of_one).collect()
}

/// Returns the branches of the task in other repositories than the project's own.
async fn parts(several: &JointWorkspace, number: TaskNumber) -> Vec<BranchPart> {
    let key = WorkspaceKey::new(number).to_string();
    let branches = several.list().await.unwrap_or_default();
    branches.into_iter().find(|branch| branch.key == key).map(|branch| branch.others).unwrap_or_default()
}

/// Returns the time that the sessions of a task took, without the time between them.
fn took(task: &Task, sessions: &[SessionLog]) -> Option<String> {
    let ended = sessions.iter().filter_map(|log| between(log.started_at.as_ref()?, log.ended_at()?));
    // Without logs only the first start and the end are known.
    let in_all = || between(task.started_at.as_ref()?, task.completed_at.as_ref()?);
    ended.reduce(|sum, next| sum.saturating_add(next)).or_else(in_all).map(whole)
}

/// Returns a time that was measured in whole seconds.
fn whole(time: Duration) -> String {
    match time.as_secs() {
        0 => "less than a second".to_owned(),
        seconds @ 1..=9 => format!("{seconds}s"),
        _ => text::elapsed(time),
    }
}

fn between(from: &Timestamp, to: &Timestamp) -> Option<Duration> {
    u64::try_from(to.unix_millis() - from.unix_millis()).ok().map(Duration::from_millis)
}

fn text(
    out: Out,
    info: &TaskInfo,
    all: &[TaskInfo],
    spent: Spent,
    sessions: &[SessionLog],
    refused: &[Refusal],
    (tool_files, parts): (&[String], &[BranchPart]),
) -> String {
    let task = &info.task;
    let mut lines = vec![out.style.bold(&one_line(out, info))];
    let mut field = |name: &str, value: String| {
        // Only what is set, so that the fields that matter stand out.
        if !value.is_empty() {
            lines.push(format!("  {}  {}", out.style.dim(&text::pad(name, 10)), text::line(&value)));
        }
    };
    field("state", status::word(info, all));
    field("agent", task.agent.as_ref().map(ToString::to_string).unwrap_or_default());
    let numbers = task.depends_on.iter().map(|number| format!("#{number}")).collect::<Vec<_>>();
    field("depends on", numbers.join(", "));
    field("labels", task.labels.join(", "));
    field("retries", task.retries.map(|retries| retries.to_string()).unwrap_or_default());
    field("attempts", if info.attempt().0 == 0 { String::new() } else { info.attempt().0.to_string() });
    field("spent", spent.to_string());
    let times = [
        ("created", &task.created_at),
        ("started", &task.started_at),
        ("completed", &task.completed_at),
        ("deleted", &task.deleted_at),
    ];
    for (name, time) in times {
        field(name, time.as_ref().map(Timestamp::local).unwrap_or_default());
    }
    field("took", took(task, sessions).unwrap_or_default());
    let merge = info.last_merge().map(|merge| {
        let place = merge.repository.map(|at| format!(" in {}", at.display())).unwrap_or_default();
        merge.commit.chars().take(10).collect::<String>() + &place
    });
    let by = info.taken_back_by(all).map(|by| format!(" (taken back by #{})", by.task.task_number));
    for BranchPart { repository, branch, .. } in parts {
        let place = format!("{}, {} ahead, in {}", branch.branch, branch.ahead, repository.display());
        field("branch", place);
    }
    field("merged as", merge.unwrap_or_default() + &by.unwrap_or_default());
    let its_log = sessions.first().map(|_| format!("watchfire logs {}", task.task_number.value()));
    field("its log", its_log.unwrap_or_default());
    let reason = info.detail().or_else(|| task.failure_reason.clone()).unwrap_or_default();
    let refused = refused.iter().map(|it| text::line(&it.to_string())).collect::<Vec<_>>().join("\n");
    let tool_files = tool_files.join("\n");
    for (heading, body) in [
        ("reason", reason.as_str()),
        ("refused by the sandbox", &refused),
        ("run by tools on their own", &tool_files),
        ("prompt", &task.prompt),
        ("acceptance criteria", &task.acceptance_criteria),
    ] {
        if !body.trim().is_empty() {
            lines.push(String::new());
            lines.push(out.style.dim(heading));
            lines.extend(text::lines(body).lines().map(|line| format!("  {line}").trim_end().to_owned()));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}
