//! `watchfire demo`: shows everything at work, on a scratch project, with a scripted agent.

mod project;
mod report;
mod tasks;

use clap::Args;
use watchfire_core::orchestrator::{ProjectHandle, Seen};
use watchfire_core::sandbox::{SandboxChoice, SandboxSet};
use watchfire_core::schedule::Change;

use crate::commands::run::{self, Ended, Target, Wanted};
use crate::context::{Context, OpenProject, open_home};
use crate::failure::{Exit, Failure, Result};
use crate::interrupts::Interrupts;
use crate::worker::Worker;
use crate::{compose, git};
use project::Scratch;
use report::Sandboxed;

#[derive(Args, Debug)]
#[command(after_help = "\
It needs git, and neither a network nor an account. Two of its tasks edit the same line, one breaks the build, one
fails, and one tries to leave the sandbox: the demo shows what becomes of each. Where this machine cannot enforce the
whole sandbox it runs all the same, and says so at the end; watchfire run does not.

Examples:
  watchfire demo
  watchfire demo --keep               keep the repository, to look at it with git
  watchfire demo --no-sandbox         see what the sandbox is for")]
pub(crate) struct DemoArgs {
    /// Keep the scratch folder, and say where it is
    #[arg(long)]
    keep: bool,
    /// Run without a sandbox, to see what it would have refused
    #[arg(long)]
    no_sandbox: bool,
}

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<Exit> {
    // Checked first, so that a machine without git gets that error and no scratch folder.
    git::require()?;
    let interrupts = Interrupts::listen()?;
    // After the signals are taken over: Ctrl+C then ends the demo in order, which removes the folder.
    let scratch = Scratch::make().await?;
    if !context.out.json {
        context.out.raw(&report::opening(context.out, &scratch));
    }
    let began = std::time::Instant::now();
    let result = work(context, &scratch, args.no_sandbox, &interrupts).await;
    let (ended, sandboxed) = match result {
        Ok(Some(done)) => done,
        Ok(None) => return Ok(Exit::Interrupted),
        Err(failure) => {
            // The folder is kept, so that the person can look at what went wrong.
            let folder = scratch.keep();
            return Err(match failure {
                Failure::Error(error) => error.with("kept", folder.display()).into(),
                Failure::Remote { mut error, more } => {
                    error.details.insert("kept".to_owned(), folder.display().to_string());
                    Failure::Remote { error, more }
                }
                failure => failure,
            });
        }
    };
    report::closing(context.out, &scratch, &ended, &sandboxed, began.elapsed())?;
    // After the report, which still reads the folder. If it is not kept, it is removed at the end of this
    // function.
    let (kept, out) = (args.keep.then(|| scratch.keep()), context.out);
    if let (Some(folder), false) = (kept, out.json) {
        out.line(format!("kept: {}", folder.join("greeter").display()));
    }
    Ok(if interrupts.happened() { Exit::Interrupted } else { Exit::Good })
}

async fn work(
    context: &Context,
    scratch: &Scratch,
    no_sandbox: bool,
    interrupts: &Interrupts,
) -> Result<Option<(Ended, Sandboxed)>> {
    let orchestrator =
        compose::orchestrator(&scratch.home).await?.environment(scratch.environment()).start().await?;
    let sandboxes = orchestrator.sandboxes().clone();
    let place = OpenProject::open(open_home(scratch.home.clone()).await?, scratch.root.clone()).await?;
    // Best effort: the demo reports what is not enforced, and its agents follow a script of ours.
    let mut wanted = Wanted { best_effort: true, ..Wanted::new(Target::All) };
    wanted.session.agent = Some("scripted".to_owned());
    wanted.session.no_sandbox = no_sandbox || !any_sandbox(&sandboxes).await;
    let Some(mut worker) = Worker::within(orchestrator, place, interrupts).await? else { return Ok(None) };
    let ended = async {
        let ended = run::follow(context.out, &mut worker, &wanted, interrupts).await?;
        let sandboxed = match worker.own() {
            Some(project) => sandboxed(project, &sandboxes).await?,
            None => Sandboxed::default(),
        };
        Ok((ended, sandboxed))
    }
    .await;
    worker.end().await;
    ended.map(Some)
}

/// Returns true if some sandbox works here. If none does, the demo goes on without one and says so; no other command
/// does that.
async fn any_sandbox(sandboxes: &SandboxSet) -> bool {
    let sandboxes = sandboxes.clone();
    let choice = tokio::task::spawn_blocking(move || sandboxes.choose(&SandboxChoice::Auto).is_ok()).await;
    choice.unwrap_or(false)
}

/// Returns the sandbox in which the sessions of the run were confined.
async fn sandboxed(project: &ProjectHandle, sandboxes: &SandboxSet) -> Result<Sandboxed> {
    let mut sandboxed = Sandboxed::default();
    let snapshot = project.subscribe(None).await?.snapshot;
    let mut changes = project.subscribe(Some(snapshot.opened)).await?.changes;
    while let Some(seen) = changes.next().await {
        let Seen::Record(record) = seen else { continue };
        match record.change {
            Change::SessionOver { session, .. } => {
                (sandboxed.name, sandboxed.open) = (session.sandbox, session.open);
            }
            // The last record of interest: the run has ended before this function is called.
            Change::Run(run) if run.ended.is_some() => break,
            _ => {}
        }
    }
    let (all, name) = (sandboxes.clone(), sandboxed.name.clone());
    let probing = move || all.iter().map(|sandbox| sandbox.probe()).find(|probe| probe.title() == name);
    let probe = tokio::task::spawn_blocking(probing).await;
    sandboxed.probe = probe.ok().flatten();
    Ok(sandboxed)
}
