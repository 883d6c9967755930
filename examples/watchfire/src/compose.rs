//! Puts our crates together, as an embedder would.

use std::path::Path;
use std::sync::Arc;

use watchfire_core::Result;
use watchfire_core::backend::Backends;
use watchfire_core::model::Settings;
use watchfire_core::orchestrator::{Orchestrator, OrchestratorBuilder};
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{SandboxChoice, SandboxSet};
use watchfire_git::{GitOptions, GitWorkspace};
use watchfire_sandbox::sandboxes_remembering;
use watchfire_term::Emulator;

use crate::args::SessionArgs;
use crate::context::open_home;

/// Returns a builder for an orchestrator over git, the sandboxes of this machine, and the terminal emulator.
///
/// The orchestrator starts no tasks by itself: a command line runs what the person asks for.
pub(crate) async fn orchestrator(home: &Path) -> Result<OrchestratorBuilder> {
    // Unreadable settings allow no filters. Starting the orchestrator reports what is wrong with them.
    let settings = open_home(home.to_path_buf()).await?.settings().await.unwrap_or_default();
    let options = GitOptions::default().with_filters(settings.git.filters);
    Ok(Orchestrator::builder()
        .home(home)
        // Results of tries are kept in the home, so that not every command tries all sandboxes again.
        .sandboxes(sandboxes_remembering(Helper::current()?, &home.join("trials")))
        .workspaces(move |root| Ok(Arc::new(GitWorkspace::open(root, options.clone())?)))
        .terminals(|size| Box::new(Emulator::new(size)))
        .automation(false))
}

/// Returns the sandboxes of this machine, tried anew.
pub(crate) fn sandboxes() -> Result<SandboxSet> {
    Ok(watchfire_sandbox::sandboxes(Helper::current()?))
}

/// Returns the agents: the linked ones, and the programs that the settings name.
pub(crate) fn backends(settings: &Settings) -> Result<Backends> {
    Backends::linked()?.with_configured(settings)
}

/// Returns the sandbox that the flags ask for, if they name one.
pub(crate) fn sandbox_choice(args: &SessionArgs) -> Result<Option<SandboxChoice>> {
    match (&args.sandbox, args.no_sandbox) {
        (_, true) => Ok(Some(SandboxChoice::None)),
        (Some(name), false) => sandboxes()?.parse(name),
        (None, false) => Ok(None),
    }
}
