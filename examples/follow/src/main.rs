//! Runs the ready tasks of a project unsandboxed, restarts the orchestrator while the first agent works, and prints
//! every record of the log once, and the output of every session on stderr: `follow PATH`.

#![forbid(unsafe_code)]

use std::sync::Arc;

use watchfire_backends as _;
use watchfire_core::journal::Cursor;
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, RunRequest, Seen};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::{Change, LifeState};
use watchfire_core::session::{AttachRequest, ScreenUpdate};
use watchfire_git::GitWorkspace;

async fn open(root: &std::ffi::OsStr) -> watchfire_core::Result<(Orchestrator, ProjectHandle)> {
    let workspaces =
        |root: &std::path::Path| Ok(Arc::new(GitWorkspace::open(root, Default::default())?) as _);
    let orchestrator = Orchestrator::builder().workspaces(workspaces).resume(true).start().await?;
    let project = orchestrator.open(root).await?;
    Ok((orchestrator, project))
}

/// Prints the changes after `since` until one is as wanted, and follows the screens of sessions that start meanwhile.
async fn print(
    project: &ProjectHandle,
    mut since: Cursor,
    wanted: fn(&Change) -> bool,
) -> watchfire_core::Result<Cursor> {
    let mut changes = project.subscribe(Some(since.clone())).await?.changes;
    while let Some(seen) = changes.next().await {
        let Seen::Record(record) = seen else { continue };
        let state = match &record.change {
            Change::Life(life) => life.state.to_string(),
            _ => String::new(),
        };
        let when = if record.replayed { "replayed" } else { "new" };
        println!("{} {when} {state}", record.cursor);
        if let Change::Life(life) = &record.change
            && let (LifeState::Running, Some(session)) = (&life.state, &life.session)
            && let Some(mut output) = project
                .session(&session.id)
                .and_then(|it| it.attach(&AttachRequest::output().with_since(0)).ok())
        {
            tokio::spawn(async move {
                while let Some(update) = output.next().await {
                    if let ScreenUpdate::Output { bytes, .. } = update {
                        eprint!("{}", String::from_utf8_lossy(&bytes));
                    }
                }
            });
        }
        since = record.cursor;
        if wanted(&record.change) {
            break;
        }
    }
    Ok(since)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    watchfire_core::process::helper::run_if_asked();
    let root = std::env::args_os().nth(1).ok_or("usage: follow PATH")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let (orchestrator, project) = open(&root).await?;
        let start = project.subscribe(None).await?.snapshot.cursor;
        project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
        let works =
            |change: &Change| matches!(change, Change::Life(life) if life.state == LifeState::Running);
        let cursor = print(&project, start, works).await?;
        orchestrator.shutdown().await;
        drop(project);
        let (orchestrator, project) = open(&root).await?;
        print(&project, cursor, |change| matches!(change, Change::Run(run) if run.ended.is_some())).await?;
        orchestrator.shutdown().await;
        Ok(())
    })
}
