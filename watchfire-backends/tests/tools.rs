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
}

#[test]
fn without_tools_nothing_names_them() {
    for backend in Backends::linked().unwrap().iter() {
        let home = tempfile::tempdir().unwrap();
        let launch = launch(&**backend, &[], home.path());
        assert!(launch.files.iter().all(|file| !file.path.ends_with("tools.json")), "{}", backend.name());
        assert!(!args(&launch).iter().any(|arg| arg.contains("mcp")), "{}", backend.name());
    }
}
