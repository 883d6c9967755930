//! Where agents find the tools of their session: each in its own configuration.

use std::path::Path;

use serde_json::{Value, json};
use watchfire_backends as _;
use watchfire_core::backend::{Backend, Backends, Launch, SessionContext};
use watchfire_core::model::Mode;

const SERVER: [&str; 5] =
    ["/bin/watchfire", "__watchfire-helper", "agent", "/state/o'dd session/files", "mcp"];

fn launch(backend: &dyn Backend, tools: &[&str], home: &Path) -> Launch {
    let (id, name) = ("s1".parse().unwrap(), backend.name().parse().unwrap());
    let mut context = SessionContext::new(id, name, Mode::Task, "/bin/agent", home, "/w");
    context.tools = tools.iter().map(Into::into).collect();
    context.first_prompt = Some("go".into());
    context.helper = vec!["/helper".into()];
    backend.prepare(&context).unwrap()
}

fn text(launch: &Launch, path: &str) -> String {
    let file =
        launch.files.iter().find(|file| file.path == Path::new(path)).unwrap_or_else(|| panic!("{path}"));
    String::from_utf8(file.bytes.clone()).unwrap()
}

fn json(launch: &Launch, path: &str) -> Value {
    serde_json::from_str(&text(launch, path)).unwrap()
}

fn args(launch: &Launch) -> Vec<String> {
    launch.command.args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

#[test]
fn each_agent_finds_the_tools_where_it_looks() {
    let backends = Backends::linked().unwrap();
    let home = tempfile::tempdir().unwrap();
    let of = |name: &str| launch(&*backends.get(name).unwrap(), &SERVER, home.path());
    let (command, words) = (SERVER[0], &SERVER[1..]);
    let file = home.path().join("tools.json").display().to_string();

    let claude = of("claude-code");
    let server = &json(&claude, "tools.json")["mcpServers"]["watchfire"];
    assert_eq!((&server["command"], &server["args"]), (&json!(command), &json!(words)));
    assert_eq!(server["alwaysLoad"], json!(true), "no model has to search for them");
    let flag =
        |given: &[String]| given[0] == "--mcp-config" && given[1] == file && given[2].starts_with("--");
    assert!(
        args(&claude).windows(3).any(flag),
        "a flag follows, or its prompt would be a file: {:?}",
        args(&claude)
    );

    let codex = text(&of("codex"), "config.toml");
    let parsed: toml_edit::DocumentMut = codex.parse().unwrap();
    let server = &parsed["mcp_servers"]["watchfire"];
    assert_eq!(server["command"].as_str(), Some(command));
    let given: Vec<_> =
        server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(given, words);

    let gemini = json(&of("gemini"), ".gemini/settings.json");
    let server = &gemini["mcpServers"]["watchfire"];
    assert_eq!(server, &json!({ "command": command, "args": words, "trust": true }));

    let copilot = of("copilot");
    let server = &json(&copilot, "tools.json")["mcpServers"]["watchfire"];
    assert_eq!((&server["command"], &server["tools"]), (&json!(command), &json!(["*"])));
    let flag = |given: &[String]| given == ["--additional-mcp-config".to_owned(), format!("@{file}")];
    assert!(args(&copilot).windows(2).any(flag), "{:?}", args(&copilot));

    let opencode = json(&of("opencode"), "config/opencode.json");
    assert_eq!(opencode["mcp"]["watchfire"], json!({ "type": "local", "command": SERVER, "enabled": true }));

    let cline = json(&of("cline"), "data/settings/cline_mcp_settings.json");
    assert_eq!(cline, json!({ "mcpServers": { "watchfire": { "command": command, "args": words } } }));

    let continued = of("continue");
    let block = json(&continued, "tools.yaml");
    let server = json!({ "name": "watchfire", "command": command, "args": words });
    assert_eq!((&block["schema"], &block["mcpServers"]), (&json!("v1"), &json!([server])));
    let file = home.path().join("tools.yaml").display().to_string();
    let flag = |given: &[String]| given == ["--mcp".to_owned(), file.clone()];
    assert!(args(&continued).windows(2).any(flag), "{:?}", args(&continued));
}

/// The adapter reads no file, and of the protocol's own list of servers it takes no more than their commands.
#[cfg(feature = "acp")]
#[test]
fn claude_finds_the_tools_in_its_own_fields_of_the_protocol() {
    use watchfire_core::backend::Move;

    let backend = Backends::linked().unwrap().get("claude-code").unwrap();
    let (id, name) = ("s1".parse().unwrap(), "claude-code".parse().unwrap());
    let mut context = SessionContext::new(id, name, Mode::Task, "/bin/agent", "/home", "/w");
    context.settings = serde_json::from_value(json!({ "transport": "acp" })).unwrap();
    context.tools = SERVER.iter().map(Into::into).collect();
    let mut dialogue = backend.dialogue(&context).unwrap();
    dialogue.open();
    let moves = dialogue.hear(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    let asked = moves.iter().find_map(|next| match next {
        Move::Write(line) => serde_json::from_str::<Value>(line).ok(),
        _ => None,
    });
    let server = json!({ "type": "stdio", "alwaysLoad": true, "command": SERVER[0], "args": SERVER[1..] });
    let meta = &asked.unwrap()["params"]["_meta"];
    assert_eq!(meta["claudeCode"]["options"]["mcpServers"], json!({ "watchfire": server }));
}

#[test]
fn without_tools_nothing_names_them() {
    for backend in Backends::linked().unwrap().iter() {
        let home = tempfile::tempdir().unwrap();
        let launch = launch(&**backend, &[], home.path());
        let names_them = |path: &Path| {
            ["tools.json", "tools.yaml", "cline_mcp_settings.json"].iter().any(|name| path.ends_with(name))
        };
        assert!(!launch.files.iter().any(|file| names_them(&file.path)), "{}", backend.name());
        assert!(!args(&launch).iter().any(|arg| arg.contains("mcp")), "{}", backend.name());
    }
}
