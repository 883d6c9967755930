//! What the person's settings and our environment add to every agent.

use watchfire_core::backend::{Launch, SessionContext};
use watchfire_core::{Error, ErrorKind, Result};

use crate::agent::Transports;

/// The launch with the variables of the settings, and with those that the settings pass on.
///
/// Values from the settings may be keys and are treated as secrets.
pub(crate) fn apply(mut launch: Launch, context: &SessionContext) -> Launch {
    for (name, value) in &context.settings.env {
        launch = launch.with_secret(name, value);
    }
    for name in &context.settings.pass_env {
        launch = launch.with_passed_env(name);
    }
    launch
}

/// A variable that the agent will have: from its settings, else from our environment. Empty counts as missing.
pub(crate) fn variable<'a>(context: &'a SessionContext, name: &str) -> Option<&'a str> {
    let set = context.settings.env.get(name).map(String::as_str);
    set.or_else(|| context.env(name)).filter(|value| !value.is_empty())
}

/// The launch with those of the named variables of our environment that exist, as secrets.
pub(crate) fn pass_secrets(mut launch: Launch, context: &SessionContext, names: &[&str]) -> Launch {
    for name in names {
        if let Some(value) = variable(context, name) {
            launch = launch.with_secret(*name, value);
        }
    }
    launch
}

/// An option of a single backend, as text.
pub(crate) fn option<'a>(context: &'a SessionContext, name: &str) -> Option<&'a str> {
    context.settings.extra.get(name)?.as_str()
}

/// Whether the agent is reached by its structured stream instead of a terminal.
///
/// # Errors
/// `invalid_input` for a transport that the agent does not have.
pub(crate) fn is_stream(context: &SessionContext, has: Transports) -> Result<bool> {
    let (stream_only, expected) = match has {
        Transports::Both => (false, "pty or stream"),
        Transports::Stream => (true, "stream"),
    };
    match option(context, "transport") {
        None => Ok(stream_only),
        Some("stream") => Ok(true),
        Some("pty") if !stream_only => Ok(false),
        Some(other) => {
            Err(Error::new(ErrorKind::InvalidInput, format!("unknown transport, expected {expected}"))
                .with("field", format_args!("agents.{}.transport", context.backend))
                .with("value", other))
        }
    }
}

/// The folders that an agent is told to trust, by each of their names.
pub(crate) fn folders(context: &SessionContext) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for folder in [&context.project_root, &context.cwd] {
        for path in [Some(folder.clone()), std::fs::canonicalize(folder).ok()].into_iter().flatten() {
            let name = path.display().to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}
