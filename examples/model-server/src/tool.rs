//! Makes tool calls that fit the schemas in the request.

use serde_json::{Map, Value, json};

use crate::script::filled;
use crate::{Ask, Turn};

/// A tool call in an answer.
pub(crate) struct Call {
    /// Name of the tool.
    pub(crate) name: String,
    /// Input of the tool.
    pub(crate) input: Value,
    /// Id that the result of the call will have.
    pub(crate) id: String,
}

/// Names of shell tools, best first.
const SHELLS: &[&str] = &[
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "terminal",
    "execute",
    "run_commands",
];

/// Returns the call that a turn asks for. Returns `None` if it asks for none, or if no such tool is offered.
pub(crate) fn call(turn: &Turn, ask: &Ask) -> Option<Call> {
    let (name, input) = if let Some(name) = &turn.tool {
        (offered(ask, name)?.to_owned(), inserted(&turn.input, ask))
    } else {
        let command = &filled(turn.run.as_deref()?, ask);
        let (name, schema) = SHELLS
            .iter()
            // By name first: several tools may have a parameter that is called `command`.
            .find_map(|shell| ask.tools.iter().find(|(name, _)| name.eq_ignore_ascii_case(shell)))
            .or_else(|| ask.tools.iter().find(|(_, schema)| command_key(schema).is_some()))?;
        (name.clone(), fill(schema, command)?)
    };
    // No two calls of a conversation have the same id: a program that resumes one drops what comes twice.
    let id = match ask.users.len() {
        0 | 1 => format!("call_wf{}", ask.results),
        prompts => format!("call_wf{prompts}_{}", ask.results),
    };
    Some(Call { name, input, id })
}

/// Returns the input with what stands in the place of the marks in its texts.
fn inserted(input: &Value, ask: &Ask) -> Value {
    match input {
        Value::String(text) => filled(text, ask).into(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), inserted(value, ask))).collect()
        }
        other => other.clone(),
    }
}

/// Returns the offered name of a tool. Agents put the name of its server before that of a tool, each in a way of its own, so
/// one that ends with the name after another word counts as well; before an agent's own tool of this name.
fn offered<'a>(ask: &'a Ask, name: &str) -> Option<&'a str> {
    let is_prefixed = |known: &str| {
        known.strip_suffix(name).is_some_and(|before| before.ends_with(|c: char| !c.is_alphanumeric()))
    };
    let known = || ask.tools.iter().map(|(known, _)| known.as_str());
    known().find(|known| is_prefixed(known)).or_else(|| known().find(|known| *known == name))
}

fn command_key(schema: &Value) -> Option<&'static str> {
    ["command", "commands", "cmd", "script"].into_iter().find(|key| schema["properties"].get(key).is_some())
}

/// Returns an input with the command in its place and a harmless value for every other required key.
fn fill(schema: &Value, command: &str) -> Option<Value> {
    let key = command_key(schema)?;
    let mut input = Map::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let value = match schema["properties"][name]["type"].as_str() {
            Some("boolean") => json!(false),
            // Large enough for a time limit in milliseconds.
            Some("number" | "integer") => json!(10_000),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("run a command"),
        };
        input.insert(name.to_owned(), value);
    }
    let list = schema["properties"][key]["type"] == "array";
    // A list called `commands` holds whole commands. Any other list is one command with its arguments.
    let value = match (list, key) {
        (false, _) => json!(command),
        (true, "commands") => json!([command]),
        (true, _) => json!(["bash", "-c", command]),
    };
    // Last: the command replaces the harmless value if its key is required.
    input.insert(key.to_owned(), value);
    Some(input.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_shell_and_fills_what_it_requires() {
        let ask = Ask {
            tools: vec![
                ("Write".into(), json!({"properties": {"path": {"type": "string"}}})),
                (
                    "Bash".into(),
                    json!({"properties": {"command": {"type": "string"}, "description": {"type": "string"}, "quiet": {"type": "boolean"}},
                           "required": ["command", "description", "quiet"]}),
                ),
            ],
            results: 3,
            ..Ask::default()
        };
        let turn = Turn { run: Some("ls".into()), ..Turn::default() };
        let found = call(&turn, &ask).unwrap();
        assert_eq!((found.name.as_str(), found.id.as_str()), ("Bash", "call_wf3"));
        assert_eq!(found.input, json!({"command": "ls", "description": "run a command", "quiet": false}));
        let other = json!({"properties": {"cmd": {"type": "array"}}, "required": ["cmd"]});
        assert_eq!(fill(&other, "ls"), Some(json!({"cmd": ["bash", "-c", "ls"]})));
        let several = json!({"properties": {"commands": {"type": "array"}}, "required": ["commands"]});
        assert_eq!(fill(&several, "ls"), Some(json!({"commands": ["ls"]})));
    }

    #[test]
    fn a_tool_is_found_behind_the_name_of_its_server() {
        let ask = |names: &[&str]| Ask {
            tools: names.iter().map(|&name| (name.to_owned(), json!({}))).collect(),
            ..Ask::default()
        };
        for known in
            ["mcp__watchfire__finish", "watchfire-finish", "mcp_watchfire_finish", "watchfire.finish"]
        {
            assert_eq!(offered(&ask(&["unfinish", known]), "finish"), Some(known));
        }
        assert_eq!(
            offered(&ask(&["finish", "wf-finish"]), "finish"),
            Some("wf-finish"),
            "not the agent's own"
        );
        assert_eq!(offered(&ask(&["unfinish", "finish"]), "finish"), Some("finish"));
        assert_eq!(offered(&ask(&["unfinish", "finish_it"]), "finish"), None);
        let turn = Turn { tool: Some("finish".into()), input: json!({ "success": true }), ..Turn::default() };
        let found = call(&turn, &ask(&["watchfire_finish"])).unwrap();
        assert_eq!((found.name.as_str(), found.input), ("watchfire_finish", json!({ "success": true })));
    }
}
