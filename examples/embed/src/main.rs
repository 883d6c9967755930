//! The ready tasks of a project, run from a program of one's own: `embed PATH`.

#![forbid(unsafe_code)]

use std::sync::Arc;

use watchfire_backends as _;
use watchfire_core::orchestrator::{Orchestrator, RunRequest};
use watchfire_core::process::helper::{Helper, run_if_asked};
use watchfire_git::GitWorkspace;
use watchfire_term::Emulator;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run_if_asked();
    let root = std::env::args_os().nth(1).ok_or("usage: embed PATH")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let orchestrator = Orchestrator::builder()
            .sandboxes(watchfire_sandbox::sandboxes(Helper::current()?))
            .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, Default::default())?)))
            .terminals(Emulator::boxed)
            .start()
            .await?;
        let project = orchestrator.open(&root).await?;
        let summary = project.run(RunRequest::all()).await?.wait().await?;
        for (task, ending) in &summary.endings {
            println!("#{task} {ending}");
        }
        orchestrator.shutdown().await;
        Ok(())
    })
}
