//! Puts our crates together, as an embedder would.

use watchfire_core::Result;
use watchfire_core::backend::Backends;
use watchfire_core::model::Settings;
use watchfire_core::process::helper::Helper;
use watchfire_core::sandbox::{SandboxChoice, SandboxSet};
// The same as the daemon's, but that no task starts by itself: a command line runs what the person asks for.
pub(crate) use watchfired::compose::orchestrator;

use crate::args::SessionArgs;

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

/// Returns the name of the sandbox that the flags ask for, or nothing.
pub(crate) fn sandbox_name(args: &SessionArgs) -> String {
    match (&args.sandbox, args.no_sandbox) {
        (_, true) => "none".to_owned(),
        (Some(name), false) => name.clone(),
        (None, false) => String::new(),
    }
}
