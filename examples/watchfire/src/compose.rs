//! Puts our crates together, as an embedder would.

use watchfire_core::Result;
use watchfire_core::backend::Backends;
use watchfire_core::model::{BackendName, KeyFile, Settings, UnknownKey, unknown_keys};
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

/// Returns the keys of the settings that nothing reads.
pub(crate) fn unknown_settings(settings: &Settings) -> Vec<UnknownKey> {
    let mut keys = unknown_keys(KeyFile::Settings, settings);
    // A program whose options are wrong is no reason to say nothing of the others.
    let known = backends(settings).or_else(|_| Backends::linked());
    keys.extend(known.map(|backends| backends.unread_settings(settings)).unwrap_or_default());
    keys
}

/// Refuses an agent that this program does not know.
pub(crate) fn check_agent(agent: &BackendName, settings: &Settings) -> Result<()> {
    let known = backends(settings)?.get(agent.as_str()).map(drop);
    known.map_err(|error| error.with("hint", "watchfire doctor lists the agents of this machine"))
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
