//! What of the person's own configuration of an agent needs their word to go along: servers of tools that hold a secret or
//! whose program is not open, and hooks.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};
use watchfire_core::Result;
use watchfire_core::backend::{Launch, LeftBehind, SessionContext};

use super::carry::holds_key;
use super::settings;

/// Words in the names of values that are secrets.
const SECRET: [&str; 6] = ["AUTH", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "TOKEN"];

/// Why a person's hooks stay behind.
pub(crate) const OWN_SESSIONS: &str = "they are meant for your own sessions";

/// The names in `carry` in the settings of the agent.
pub(crate) struct Opened(BTreeSet<String>);

impl Opened {
    /// # Errors
    /// `invalid_input` for a value that is no list of names.
    pub(crate) fn read(context: &SessionContext) -> Result<Self> {
        settings::names(context, "carry").map(|names| Self(names.into_iter().collect()))
    }

    /// Returns true if `item` goes along. Otherwise notes that it stays behind.
    pub(crate) fn takes(&self, launch: &mut Launch, item: &str, why: Option<&str>) -> bool {
        match why {
            Some(why) if !self.0.contains(item) => {
                launch.left.push(LeftBehind::new(item, why).with_remedy());
                false
            }
            _ => true,
        }
    }

    /// Keeps the servers that go along, in the form that Claude Code introduced.
    pub(crate) fn servers(
        &self,
        launch: &mut Launch,
        context: &SessionContext,
        servers: &mut Map<String, Value>,
    ) {
        servers.retain(|name, server| {
            let command = server.get("command").and_then(Value::as_str);
            let mut values = Vec::new();
            gather("", server, &mut values);
            self.takes_server(launch, context, name, command, values)
        });
    }

    /// Returns true if a server goes along, given its program and its values with their names.
    pub(crate) fn takes_server<'a>(
        &self,
        launch: &mut Launch,
        context: &SessionContext,
        name: &str,
        command: Option<&str>,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let is_secret = values.into_iter().any(|(name, value)| is_secret(name, value));
        let why = match command {
            _ if is_secret => Some("it holds what looks like a secret"),
            Some(command) if !is_in_path(command, context) => Some("its program is not in PATH"),
            _ => None,
        };
        self.takes(launch, &format!("mcp:{name}"), why)
    }

    /// Adds the person's own hooks to ours, which are in the same form, if they go along.
    pub(crate) fn hooks(&self, launch: &mut Launch, ours: &mut Value, theirs: Option<&Value>) {
        let Some(theirs) = theirs.and_then(Value::as_object).filter(|all| !all.is_empty()) else { return };
        if !self.takes(launch, "hooks", Some(OWN_SESSIONS)) {
            return;
        }
        let Some(ours) = ours.as_object_mut() else { return };
        for (event, entries) in theirs {
            let all = ours.entry(event).or_insert_with(|| Value::Array(Vec::new()));
            if let (Some(all), Some(entries)) = (all.as_array_mut(), entries.as_array()) {
                all.extend(entries.iter().cloned());
            }
        }
    }
}

/// Collects the texts in a value, each with the name of the field that holds it.
fn gather<'a>(name: &'a str, value: &'a Value, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::String(text) => found.push((name, text)),
        Value::Array(all) => all.iter().for_each(|value| gather(name, value, found)),
        Value::Object(all) => all.iter().for_each(|(name, value)| gather(name, value, found)),
        _ => {}
    }
}

fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // A variable stands for a value that is somewhere else, such as `bearer_token_env_var`.
    let is_named = SECRET.iter().any(|word| name.contains(word)) && !name.contains("ENV_VAR");
    let is_reference = value.is_empty() || value.starts_with('$');
    !is_reference && (is_named || holds_key(value.as_bytes()) || watchfire_core::sandbox::has_login(value))
}

fn is_in_path(command: &str, context: &SessionContext) -> bool {
    let path = context.env("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    match Path::new(command).is_absolute() {
        true => folders.any(|folder| Path::new(command).parent() == Some(&folder)),
        false => !command.contains('/') && folders.any(|folder| folder.join(command).is_file()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchfire_core::model::{AgentSettings, Mode};

    use super::*;

    fn context(settings: Value) -> SessionContext {
        let (id, name) = ("s1".parse().unwrap(), "claude-code".parse().unwrap());
        let mut context = SessionContext::new(id, name, Mode::Task, "/bin/agent", "/h", "/w");
        context.environment.insert("PATH".into(), "relative:/bin".into());
        context.settings = serde_json::from_value::<AgentSettings>(settings).unwrap();
        context
    }

    #[test]
    fn what_needs_nothing_closed_goes_along() {
        let servers = json!({
            "open": { "command": "sh", "args": ["-c", "cat"], "env": { "LEVEL": "debug", "API_KEY": "$API_KEY" } },
            "remote": { "url": "https://example.org/mcp" },
            "elsewhere": { "command": "/opt/mine/server" },
            "missing": { "command": "no-such-program-here" },
            "script": { "command": "./server.sh" },
            "secret": { "command": "sh", "env": { "GITHUB_TOKEN": "abc" } },
            "header": { "url": "https://example.org/mcp", "headers": { "Authorization": "Bearer abc" } },
            "address": { "url": "https://me:secret@example.org/mcp" },
            "argument": { "command": "sh", "args": ["--with", "ghp_0123456789abcdefghij0123456789"] },
        });
        let sorted = |settings: Value| {
            let (context, mut launch) = (context(settings), Launch::new("/bin/agent"));
            let mut servers = servers.as_object().unwrap().clone();
            Opened::read(&context).unwrap().servers(&mut launch, &context, &mut servers);
            let left: Vec<_> = launch.left.iter().map(|left| left.item.clone()).collect();
            (servers.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), left)
        };
        let (along, left) = sorted(json!({}));
        assert_eq!(along, ["open", "remote"]);
        assert_eq!(left.len(), 7, "{left:?}");
        let (along, left) = sorted(json!({ "carry": ["mcp:secret", "mcp:elsewhere"] }));
        assert_eq!((along.len(), left.len()), (4, 5), "{left:?}");
    }

    #[test]
    fn hooks_are_added_to_ours_where_they_are_opened() {
        let theirs = json!({ "Stop": [{ "hooks": ["theirs"] }], "PreToolUse": [{ "hooks": ["other"] }] });
        let added = |settings: Value| {
            let (context, mut launch) = (context(settings), Launch::new("/bin/agent"));
            let mut ours = json!({ "Stop": [{ "hooks": ["ours"] }] });
            Opened::read(&context).unwrap().hooks(&mut launch, &mut ours, Some(&theirs));
            (ours["Stop"].as_array().unwrap().len(), ours.as_object().unwrap().len(), launch.left.len())
        };
        assert_eq!(added(json!({})), (1, 1, 1));
        assert_eq!(added(json!({ "carry": ["hooks"] })), (2, 2, 0));
    }
}
