//! Our crates, put together: what an embedder would write.

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

/// An orchestrator over git, the sandboxes of this machine, and the terminal emulator.
///
/// It starts nothing by itself: a command line runs what it is asked to.
pub(crate) async fn orchestrator(home: &Path) -> Result<OrchestratorBuilder> {
    // Settings that cannot be read allow nothing; whoever starts says what is wrong with them.
    let settings = open_home(home.to_path_buf()).await?.settings().await.unwrap_or_default();
    let options = GitOptions::default().with_filters(settings.git.filters);
    Ok(Orchestrator::builder()
        .home(home)
        .sandboxes(sandboxes_remembering(Helper::current()?, &home.join("trials")))
        .workspaces(move |root| Ok(Arc::new(GitWorkspace::open(root, options.clone())?)))
        .terminals(|size| Box::new(Emulator::new(size)))
        .automation(false))
}

/// The sandboxes of this machine, tried anew.
pub(crate) fn sandboxes() -> Result<SandboxSet> {
    Ok(watchfire_sandbox::sandboxes(Helper::current()?))
}

/// The agents: those linked, and the programs that the settings name.
pub(crate) fn backends(settings: &Settings) -> Result<Backends> {
    Backends::linked()?.with_configured(settings)
}

/// The sandbox that the flags ask for.
pub(crate) fn sandbox_choice(args: &SessionArgs) -> Result<Option<SandboxChoice>> {
    match (&args.sandbox, args.no_sandbox) {
        (_, true) => Ok(Some(SandboxChoice::None)),
        (Some(name), false) => sandboxes()?.parse(name),
        (None, false) => Ok(None),
    }
}
