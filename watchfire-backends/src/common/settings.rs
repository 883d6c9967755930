//! Applies the person's settings and our environment to the launch of every agent.

use watchfire_core::backend::{Launch, SessionContext};
use watchfire_core::model::AgentSettings;
use watchfire_core::{Error, ErrorKind, Result};

use crate::agent::{Reach, Transports};

/// Adds the variables of the settings to the launch, and the names of those that the settings pass on.
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

/// Returns a variable that the agent will have, from its settings, otherwise from our environment. An empty one
/// counts as missing.
pub(crate) fn variable<'a>(context: &'a SessionContext, name: &str) -> Option<&'a str> {
    let set = context.settings.env.get(name).map(String::as_str);
    set.or_else(|| context.env(name)).filter(|value| !value.is_empty())
}

/// Adds the named variables of our environment to the launch, as secrets. Missing ones are left out.
pub(crate) fn pass_secrets(mut launch: Launch, context: &SessionContext, names: &[&str]) -> Launch {
    for name in names {
        if let Some(value) = variable(context, name) {
            launch = launch.with_secret(*name, value);
        }
    }
    launch
}

/// Returns an option that only one backend knows, as text.
pub(crate) fn option<'a>(context: &'a SessionContext, name: &str) -> Option<&'a str> {
    context.settings.extra.get(name)?.as_str()
}

const TRANSPORT: &str = "transport";
const ACP: &str = "acp";

/// Returns the transport for the agent.
///
/// # Errors
/// `invalid_input` for a transport that the agent does not have; `not_supported` for one that is not built in.
pub(crate) fn reach(context: &SessionContext, has: Transports, acp: bool) -> Result<Reach> {
    let (usual, expected) = match (has, acp) {
        (Transports::Both, true) => (Reach::Terminal, "pty, stream or acp"),
        (Transports::Both, false) => (Reach::Terminal, "pty or stream"),
        (Transports::Terminal, true) => (Reach::Terminal, "pty or acp"),
        (Transports::Terminal, false) => (Reach::Terminal, "pty"),
        (Transports::Stream, true) => (Reach::Stream, "stream or acp"),
        (Transports::Stream, false) => (Reach::Stream, "stream"),
    };
    match option(context, TRANSPORT) {
        None => Ok(usual),
        Some("stream") if has != Transports::Terminal => Ok(Reach::Stream),
        Some("pty") if has != Transports::Stream => Ok(Reach::Terminal),
        // An explicit choice is never replaced by another transport.
        Some(ACP) if acp => acp_is_built_in(context).map(|()| Reach::Acp),
        Some(other) => {
            Err(Error::new(ErrorKind::InvalidInput, format!("unknown transport, expected {expected}"))
                .with("field", format_args!("agents.{}.{TRANSPORT}", context.backend))
                .with("value", other))
        }
    }
}

/// Checks that the Agent Client Protocol is built in.
///
/// # Errors
/// `not_supported` in a program without the feature `acp`.
pub(crate) fn acp_is_built_in(context: &SessionContext) -> Result<()> {
    if cfg!(feature = "acp") {
        return Ok(());
    }
    let what = "built without the Agent Client Protocol, the feature `acp` of watchfire-backends";
    Err(Error::new(ErrorKind::NotSupported, what)
        .with("field", format_args!("agents.{}.{TRANSPORT}", context.backend)))
}

/// Returns true if the settings ask for the Agent Client Protocol.
pub(crate) fn asks_for_acp(settings: &AgentSettings) -> bool {
    settings.extra.get(TRANSPORT).and_then(|value| value.as_str()) == Some(ACP)
}

/// Returns the folders that an agent has to trust. A folder behind a link is listed under both of its names: an agent
/// may look up either.
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
