//! The session's tools: a server of the Model Context Protocol, which the agent starts by its own configuration.

use serde_json::{Map, Value, json};
use watchfire_core::backend::SessionContext;

/// Name of the server. Agents put it before the names of its tools.
pub(crate) const NAME: &str = "watchfire";

/// Returns the server's program and its arguments. Returns `None` if the session has none, or in words that no configuration
/// can hold.
pub(crate) fn words(context: &SessionContext) -> Option<(String, Vec<String>)> {
    let words: Option<Vec<String>> =
        context.tools.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let mut words = words?.into_iter();
    Some((words.next()?, words.collect()))
}

/// Returns the server in the form that Claude Code introduced: its program and its arguments.
pub(crate) fn entry(context: &SessionContext) -> Option<Value> {
    let (command, args) = words(context)?;
    Some(json!({ "command": command, "args": args }))
}

/// Returns the content of a file with the server, with these fields of the agent's own, beside the person's servers.
pub(crate) fn file(
    context: &SessionContext,
    own: &[(&str, Value)],
    mut servers: Map<String, Value>,
) -> Option<String> {
    if let Some(mut entry) = entry(context) {
        own.iter().for_each(|(name, value)| entry[*name] = value.clone());
        servers.insert(NAME.to_owned(), entry);
    }
    (!servers.is_empty()).then(|| json!({ "mcpServers": servers }).to_string())
}
