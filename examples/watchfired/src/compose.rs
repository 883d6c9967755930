//! Puts our crates together, as an embedder would.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Handle;
use watchfire_core::Result;
use watchfire_core::clock::SystemClock;
use watchfire_core::orchestrator::{Orchestrator, OrchestratorBuilder};
use watchfire_core::process::helper::Helper;
use watchfire_core::store::{Home, YamlOptions};
use watchfire_git::GitOptions;
use watchfire_sandbox::sandboxes_remembering;
use watchfire_term::Emulator;

use crate::repositories::Repositories;

// Linking the crate registers its agents.
use watchfire_backends as _;

/// Returns a builder for an orchestrator over git, the sandboxes of this machine, and the terminal emulator, in the home at `home`.
///
/// # Errors
/// Errors of the home.
pub async fn orchestrator(home: &Path) -> Result<OrchestratorBuilder> {
    let options = YamlOptions::new("").with_watch(false);
    let opened = Home::open_with(home, Arc::new(SystemClock), &options).await?;
    // Unreadable settings allow no filters. Starting the orchestrator reports what is wrong with them.
    let settings = opened.settings().await.unwrap_or_default();
    let options = GitOptions::default().with_filters(settings.git.filters);
    let opened = Arc::new(opened);
    Ok(Orchestrator::builder()
        .home(home)
        // Results of tries are kept in the home, so that not every start tries all sandboxes again.
        .sandboxes(sandboxes_remembering(Helper::current()?, &home.join("trials")))
        .workspaces(move |root| {
            // The orchestrator opens a workspace on a thread that may block.
            let open = async {
                let others = opened.repositories(root).await?;
                Repositories::open_with(&opened, root, &others, options.clone()).await
            };
            Ok(Handle::current().block_on(open)?.into_workspace())
        })
        .terminals(Emulator::boxed))
}
