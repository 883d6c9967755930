//! Runs the ready tasks of a project unsandboxed, restarts the orchestrator while the first agent works, and prints
//! every record of the log once, and the output of every session on stderr: `follow PATH`.

#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc};

use watchfire_backends as _;
use watchfire_core::orchestrator::{Orchestrator, RunRequest, Seen};
use watchfire_core::schedule::Change;
use watchfire_core::{Result, sandbox::SandboxChoice, session::AttachRequest};
use watchfire_term::Emulator;

async fn follow(root: &Path) -> Result<()> {
    let git = |root: &Path| Ok(Arc::new(watchfire_git::GitWorkspace::open(root, Default::default())?) as _);
    let (mut since, mut is_over) = (None, false);
    while !is_over {
        let builder = Orchestrator::builder().workspaces(git).terminals(Emulator::boxed);
        let orchestrator = builder.resume(true).start().await?;
        let project = orchestrator.open(root).await?;
        let (mut log, is_first) = (project.subscribe(since.clone()).await?, since.is_none());
        if is_first {
            project.run(RunRequest::all().with_sandbox(SandboxChoice::None)).await?;
        }
        let mut restarts = false;
        while !is_over
            && !restarts
            && let Some(seen) = log.changes.next().await
        {
            let Seen::Record(record) = seen else { continue };
            println!("{record}");
            is_over = matches!(&record.change, Change::Run(run) if run.ended.is_some());
            if let Some(session) = record.change.running().and_then(|it| project.session(&it.id)) {
                let output = session.attach(&AttachRequest::output().with_since(0))?;
                tokio::spawn(async { output.copy_to(&mut tokio::io::stderr()).await });
                restarts = is_first;
            }
            since = Some(record.cursor);
        }
        orchestrator.shutdown().await;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    watchfire_core::process::helper::run_if_asked();
    let root = std::env::args_os().nth(1).ok_or("usage: follow PATH")?;
    Ok(tokio::runtime::Runtime::new()?.block_on(follow(root.as_ref()))?)
}
