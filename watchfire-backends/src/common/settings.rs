//! Applies the person's settings and our environment to the launch of every agent.

use watchfire_core::backend::{Launch, SessionContext};
use watchfire_core::model::{AgentSettings, Key};
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

/// Returns an option that only some backends know, as text.
///
/// # Errors
/// `invalid_input` for a value that is no text.
pub(crate) fn option(context: &SessionContext, name: &str) -> Result<Option<String>> {
    context.settings.option(context.backend.as_str(), listed(name)?)
}

/// Returns an option that is a list of texts. Empty if it is missing.
///
/// # Errors
/// `invalid_input` for a value that is no list of texts.
pub(crate) fn names(context: &SessionContext, name: &str) -> Result<Vec<String>> {
    Ok(context.settings.option(context.backend.as_str(), listed(name)?)?.unwrap_or_default())
}

pub(crate) fn listed(name: &str) -> Result<&'static Key> {
    Key::listed_for_agents(name).ok_or_else(|| {
        Error::new(ErrorKind::Internal, "the option is not in the table of keys").with("field", name)
    })
}

const TRANSPORT: &str = "transport";
const ACP: &str = "acp";

/// Returns the transport for the agent.
///
/// # Errors
/// `invalid_input` for a transport that the agent does not have; `not_supported` for one that is not built in.
pub(crate) fn reach(settings: &AgentSettings, agent: &str, has: Transports, acp: bool) -> Result<Reach> {
    let (usual, expected) = match (has, acp) {
        (Transports::Both, true) => (Reach::Terminal, "pty, stream or acp"),
        (Transports::Both, false) => (Reach::Terminal, "pty or stream"),
        (Transports::Terminal, true) => (Reach::Terminal, "pty or acp"),
        (Transports::Terminal, false) => (Reach::Terminal, "pty"),
        (Transports::Stream, true) => (Reach::Stream, "stream or acp"),
        (Transports::Stream, false) => (Reach::Stream, "stream"),
    };
    match settings.option::<String>(agent, listed(TRANSPORT)?)?.as_deref() {
        None => Ok(usual),
        Some("stream") if has != Transports::Terminal => Ok(Reach::Stream),
        Some("pty") if has != Transports::Stream => Ok(Reach::Terminal),
        // An explicit choice is never replaced by another transport.
        Some(ACP) if acp => acp_is_built_in(agent).map(|()| Reach::Acp),
        Some(other) => {
            Err(Error::new(ErrorKind::InvalidInput, format!("unknown transport, expected {expected}"))
                .with("field", format_args!("agents.{agent}.{TRANSPORT}"))
                .with("value", other))
        }
    }
}

/// Checks that the Agent Client Protocol is built in.
///
/// # Errors
/// `not_supported` in a program without the feature `acp`.
pub(crate) fn acp_is_built_in(agent: &str) -> Result<()> {
    if cfg!(feature = "acp") {
        return Ok(());
    }
    let what = "built without the Agent Client Protocol, the feature `acp` of watchfire-backends";
    Err(Error::new(ErrorKind::NotSupported, what).with("field", format_args!("agents.{agent}.{TRANSPORT}")))
}

/// Returns true if the settings ask for the Agent Client Protocol.
pub(crate) fn asks_for_acp(settings: &AgentSettings) -> bool {
    // A value of another type does not ask for it. The error is `reach`'s to report.
    let transport = listed(TRANSPORT).and_then(|key| settings.option::<String>("*", key));
    transport.is_ok_and(|it| it.as_deref() == Some(ACP))
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn asked_for(folder: &Path, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                asked_for(&path, names);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                let calls = source.split("option(context, \"").skip(1);
                names.extend(calls.filter_map(|rest| Some(rest.split_once("\")")?.0.to_owned())));
            }
        }
    }

    #[test]
    fn every_option_that_is_read_is_in_the_table() {
        let mut names = vec![TRANSPORT.to_owned()];
        asked_for(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        assert!(names.iter().any(|name| name == "script"), "{names:?}");
        for name in names {
            listed(&name).unwrap();
        }
    }
}
