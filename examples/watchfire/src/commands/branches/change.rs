//! Commands that change branches. A branch that cannot be changed is reported, and the others are still changed.

use serde_json::{Value, json};
use watchfire_core::Error;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{MergeOptions, Orchestrator, ProjectHandle};
use watchfire_core::schedule::{Accept, Ending, LifeState};
use watchfire_core::workspace::{BranchStatus, Removed};
use watchfire_git::{GitOptions, GitWorkspace};

use super::{DeleteArgs, MergeArgs, RestoreArgs};
use crate::context::Context;
use crate::failure::{Exit, Result};
use crate::{compose, text};

/// Result for one branch.
struct Outcome {
    task: TaskNumber,
    good: bool,
    what: String,
}

pub(super) async fn merge(context: &Context, args: MergeArgs) -> Result<Exit> {
    let (orchestrator, project) = open(context).await?;
    let accept = Accept::default()
        .with_marks(args.accept_marks)
        .with_protected(args.accept_protected)
        .with_commands(args.accept);
    let mut outcomes = Vec::new();
    // One after the other: each merge starts from the target that the one before it left.
    for task in args.numbers {
        let options = MergeOptions::default().with_into(args.into.clone()).with_accept(accept);
        outcomes.push(match project.merge_with(task, options).await {
            Ok(state) => {
                // Everything else, such as a conflict or work that is held, needs a person.
                let good = matches!(state, LifeState::Ended { how: Ending::Merged { .. } | Ending::Nothing });
                Outcome { task, good, what: state.to_string() }
            }
            Err(error) => Outcome::failed(task, &error),
        });
    }
    orchestrator.shutdown().await;
    Ok(report(context, &outcomes))
}

pub(super) async fn delete(context: &Context, args: DeleteArgs) -> Result<Exit> {
    let (orchestrator, project) = open(context).await?;
    let mut numbers = args.numbers;
    if args.merged {
        // Listed while the project is locked, so that no run changes a branch in between.
        let branches = project.workspace().list().await?.into_iter();
        let merged = branches.filter(|branch| branch.status == BranchStatus::Merged);
        // Only branches of tasks have a number as their key.
        numbers.extend(merged.filter_map(|branch| branch.key.parse::<TaskNumber>().ok()));
    }
    let mut outcomes = Vec::new();
    for task in numbers {
        outcomes.push(match project.remove_branch(task, args.discard).await {
            Ok(Removed::Gone { rescued: Some(rescued) }) => {
                Outcome { task, good: true, what: format!("deleted, kept as {}", rescued.name) }
            }
            Ok(Removed::Kept { reason }) => Outcome { task, good: false, what: format!("kept: {reason}") },
            Ok(_) => Outcome { task, good: true, what: "deleted".to_owned() },
            Err(error) => Outcome::failed(task, &error),
        });
    }
    orchestrator.shutdown().await;
    Ok(report(context, &outcomes))
}

pub(super) async fn prune(context: &Context) -> Result<Exit> {
    let (orchestrator, project) = open(context).await?;
    // The error is returned after the shutdown, which must happen in any case.
    let pruned = project.prune().await;
    orchestrator.shutdown().await;
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
    let workspace = GitWorkspace::open(&project.root, GitOptions::default())?;
    let restored = workspace.restore(&args.rescue, &args.branch).await?;
    context.out.report(json!({ "branch": args.branch, "restored": restored }), |_| {
        format!("{} is at {}\n", args.branch, restored.commit.short())
    });
    Ok(Exit::Good)
}

/// Opens the project and takes its lock, so that nothing runs in it while we change branches.
async fn open(context: &Context) -> Result<(Orchestrator, ProjectHandle)> {
    let project = context.project().await?;
    let (home, root) = (project.home.path().to_path_buf(), project.root.clone());
    // The orchestrator opens the store itself.
    drop(project);
    let orchestrator = compose::orchestrator(&home).await?.start().await?;
    let handle = orchestrator.open(&root).await?;
    Ok((orchestrator, handle))
}

impl Outcome {
    fn failed(task: TaskNumber, error: &Error) -> Self {
        Self { task, good: false, what: error.report() }
    }
}

fn report(context: &Context, outcomes: &[Outcome]) -> Exit {
    let all: Vec<Value> = outcomes
        .iter()
        .map(|outcome| json!({ "task": outcome.task.value(), "good": outcome.good, "outcome": outcome.what }))
        .collect();
    context.out.report(json!({ "branches": all }), |out| {
        let mark = |good| if good { out.style.green("✓") } else { out.style.yellow("·") };
        let line = |outcome: &Outcome| {
            format!("{} #{} {}\n", mark(outcome.good), outcome.task, text::line(&outcome.what))
        };
        let nothing = if outcomes.is_empty() { "no such branches\n" } else { "" };
        outcomes.iter().map(line).chain([nothing.to_owned()]).collect()
    });
    if outcomes.iter().all(|outcome| outcome.good) { Exit::Good } else { Exit::NeedsPerson }
}
