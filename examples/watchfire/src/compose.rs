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
use watchfire_term::Emulator;

use crate::args::SessionArgs;

/// An orchestrator over git, the sandboxes of this machine, and the terminal emulator.
///
/// It starts nothing by itself: a command line runs what it is asked to.
pub(crate) fn orchestrator(home: &Path) -> Result<OrchestratorBuilder> {
    Ok(Orchestrator::builder()
        .home(home)
        .sandboxes(sandboxes()?)
        .workspaces(|root| Ok(Arc::new(GitWorkspace::open(root, GitOptions::default())?)))
        .terminals(|size| Box::new(Emulator::new(size)))
        .automation(false))
}

/// The sandboxes of this machine.
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
        (Some(name), false) => SandboxChoice::parse(name),
        (None, false) => Ok(None),
    }
}
