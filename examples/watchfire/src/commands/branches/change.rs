//! Commands that change branches. A branch that cannot be changed is reported, and the others are still changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchfire_client::work_proto::MergeTaskRequest;
use watchfire_core::model::TaskNumber;
use watchfire_core::workspace::{BranchInfo, BranchStatus};
use watchfire_git::GitOptions;
use watchfired::Repositories;

use super::{DeleteArgs, MergeArgs, RestoreArgs, find};
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::status::MERGED;
use crate::text;
use crate::worker::wire;

/// Result for one branch.
struct Outcome {
    task: TaskNumber,
    good: bool,
    what: String,
    /// What the person can do about it; may be empty.
    cure: String,
}

pub(super) async fn merge(context: &Context, args: MergeArgs) -> Result<Exit> {
    let Some(worker) = find(context).await? else { return Ok(Exit::Interrupted) };
    let mut outcomes = Vec::new();
    let infos = worker.place.all_infos().await.unwrap_or_default();
    let taken_back = |task: TaskNumber| {
        let info = infos.iter().find(|info| info.task.task_number == task && info.word() == MERGED)?;
        info.taken_back_by(&infos).filter(|_| args.into.is_none()).map(|by| by.task.task_number)
    };
    // One after the other: each merge starts from the target that the one before it left.
    for task in args.numbers.iter().copied() {
        if let Some(by) = taken_back(task) {
            let what =
                format!("its merge was taken back by #{by}; watchfire undo {} brings it back", by.value());
            outcomes.push(Outcome { task, good: false, what, cure: String::new() });
            continue;
        }
        let request = MergeTaskRequest {
            task_number: wire(task),
            into: args.into.clone().unwrap_or_default(),
            accept_marks: args.accept_marks,
            accept_protected: args.accept_protected,
            accept_commands: args.accept,
            ..Default::default()
        };
        let merged = worker.merge(request).await.map(|it| (it.good, it.outcome, it.cure));
        outcomes.push(Outcome::of(task, merged));
    }
    worker.end().await;
    Ok(report(context, &outcomes))
}

pub(super) async fn delete(context: &Context, args: DeleteArgs) -> Result<Exit> {
    let Some(worker) = find(context).await? else { return Ok(Exit::Interrupted) };
    // One that an agent goes on with meanwhile is kept.
    let repositories = Repositories::open(&worker.place.home, &worker.place.root).await?;
    let all = repositories.workspace().list().await?;
    // Only branches of tasks have a number as their key.
    let numbered = |branch: &BranchInfo| Some((branch.key.parse::<TaskNumber>().ok()?, branch.status));
    let there: BTreeMap<_, _> = all.iter().filter_map(numbered).collect();
    let mut numbers = args.numbers;
    if args.merged {
        // One without commits has nothing that could be lost.
        let merged =
            there.iter().filter(|(_, status)| matches!(status, BranchStatus::Merged | BranchStatus::Empty));
        numbers.extend(merged.map(|(number, _)| *number));
    }
    let mut outcomes = Vec::new();
    for task in numbers {
        let done = match there.contains_key(&task) {
            true => worker.remove_branch(task, args.discard).await,
            false => Ok((false, "no such branch".to_owned())),
        };
        let done = done.map(|(good, what)| (good, what, String::new()));
        outcomes.push(Outcome::of(task, done));
    }
    worker.end().await;
    Ok(report(context, &outcomes))
}

pub(super) async fn prune(context: &Context) -> Result<Exit> {
    let Some(worker) = find(context).await? else { return Ok(Exit::Interrupted) };
    // The error is returned after the end, which must come in any case.
    let pruned = worker.prune().await;
    worker.end().await;
    let pruned = pruned?;
    context.out.report(json!({ "removed": pruned.removed, "kept": pruned.kept }), |_| {
        let line = |what: &str, lines: &[String]| -> String {
            lines.iter().map(|line| format!("{what} {}\n", text::line(line))).collect()
        };
        let nothing = if pruned.removed.is_empty() { "nothing to clean up\n" } else { "" };
        format!("{}{}{nothing}", line("removed", &pruned.removed), line("kept", &pruned.kept))
    });
    Ok(Exit::Good)
}

pub(super) async fn restore(context: &Context, args: RestoreArgs) -> Result<Exit> {
    let project = context.project().await?;
    // Without an orchestrator: a new branch disturbs no run.
    let workspace = Repositories::own(&project.home, &project.root, GitOptions::default()).await?;
    let restored = workspace.restore(&args.rescue, &args.branch).await?;
    context.out.report(json!({ "branch": args.branch, "restored": restored }), |_| {
        format!("{} is at {}\n", args.branch, restored.commit.short())
    });
    Ok(Exit::Good)
}

impl Outcome {
    fn of(task: TaskNumber, done: Result<(bool, String, String)>) -> Self {
        let (good, what, cure) = done.unwrap_or_else(|failure| (false, failure.line(), String::new()));
        Self { task, good, what, cure }
    }
}

fn report(context: &Context, outcomes: &[Outcome]) -> Exit {
    let all: Vec<Value> = outcomes
        .iter()
        .map(|it| json!({ "task": it.task.value(), "good": it.good, "outcome": it.what, "cure": it.cure }))
        .collect();
    context.out.report(json!({ "branches": all }), |out| {
        let mark = |good| if good { out.style.green("✓") } else { out.style.yellow("·") };
        let line = |outcome: &Outcome| {
            let cure = match outcome.cure.as_str() {
                "" => String::new(),
                cure => format!("    {}\n", text::line(cure)),
            };
            format!("{} #{} {}\n{cure}", mark(outcome.good), outcome.task, text::line(&outcome.what))
        };
        let nothing = if outcomes.is_empty() { "no such branches\n" } else { "" };
        outcomes.iter().map(line).chain([nothing.to_owned()]).collect()
    });
    if outcomes.iter().all(|outcome| outcome.good) { Exit::Good } else { Exit::NeedsPerson }
}
