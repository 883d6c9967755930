//! Runs the ready tasks of a project unsandboxed, restarts the orchestrator while the first agent works, and prints
//! every record of the log once, and the output of every session on stderr: `follow PATH`.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use watchfire_backends as _;
use watchfire_core::Result;
use watchfire_core::journal::Cursor;
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, RunRequest, Seen};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::{Change, LifeState};
use watchfire_core::session::{AttachRequest, ScreenUpdate, Session};
use watchfire_git::GitWorkspace;

async fn open(root: &Path) -> Result<(Orchestrator, ProjectHandle)> {
    let git = |root: &Path| Ok(Arc::new(GitWorkspace::open(root, Default::default())?) as _);
    let orchestrator = Orchestrator::builder().workspaces(git).resume(true).start().await?;
    let project = orchestrator.open(root).await?;
    Ok((orchestrator, project))
}

/// Prints all changes after `since` until `last` is true for one, and the output of the sessions that start in
/// between.
async fn print(project: &ProjectHandle, mut since: Cursor, last: fn(&Change) -> bool) -> Result<Cursor> {
    let mut changes = project.subscribe(Some(since.clone())).await?.changes;
    while let Some(seen) = changes.next().await {
        let Seen::Record(record) = seen else { continue };
        println!("{} {} {}", record.cursor, if record.replayed { "replayed" } else { "new" }, record.change);
        if let Change::Life(life) = &record.change
            && life.state == LifeState::Running
            && let Some(session) = life.session.as_ref().and_then(|it| project.session(&it.id))
        {
            tokio::spawn(print_output(session));
        }
        since = record.cursor;
        if last(&record.change) {
            break;
        }
    }
    Ok(since)
}

async fn print_output(session: Session) -> Result<()> {
    let mut output = session.attach(&AttachRequest::output().with_since(0))?;
    while let Some(update) = output.next().await {
        if let ScreenUpdate::Output { bytes, .. } = update {
            eprint!("{}", String::from_utf8_lossy(&bytes));
        }
    }
    Ok(())
}

async fn follow(root: &Path) -> Result<()> {
    let (orchestrator, project) = open(root).await?;
    let start = project.subscribe(None).await?.snapshot.cursor;
    project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
    let works = |change: &Change| matches!(change, Change::Life(life) if life.state == LifeState::Running);
    let cursor = print(&project, start, works).await?;
    orchestrator.shutdown().await;
    let (orchestrator, project) = open(root).await?;
    print(&project, cursor, |change| matches!(change, Change::Run(run) if run.ended.is_some())).await?;
    orchestrator.shutdown().await;
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    watchfire_core::process::helper::run_if_asked();
    let root = std::env::args_os().nth(1).ok_or("usage: follow PATH")?;
    Ok(tokio::runtime::Runtime::new()?.block_on(follow(root.as_ref()))?)
}
