//! What of a person's own configuration goes along into a session, and what stays behind until its settings open it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use watchfire_backends as _;
use watchfire_core::backend::{Backends, Launch, LeftBehind, SessionContext};
use watchfire_core::model::Mode;

const SERVERS: &str =
    r#"{"open":{"command":"sh"},"github":{"command":"sh","env":{"GITHUB_TOKEN":"ghp_not_for_agents"}}}"#;
const HOOKS: &str = r#"{"Stop":[{"hooks":[{"type":"command","command":"theirs"}]}]}"#;

/// Prepares a session of an agent whose person has servers, hooks and plugins in every form.
fn launch(agent: &str, settings: Value) -> Launch {
    let user = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = user.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".claude.json", &format!("{{\"mcpServers\":{SERVERS}}}"));
    write(".claude/settings.json", &format!("{{\"hooks\":{HOOKS},\"enabledPlugins\":{{\"a@b\":true}}}}"));
    write(".gemini/settings.json", &format!("{{\"mcpServers\":{SERVERS},\"hooks\":{HOOKS}}}"));
    write(".gemini/extensions/a/gemini-extension.json", "{}");
    write(".copilot/mcp-config.json", &format!("{{\"mcpServers\":{SERVERS}}}"));
    write(".copilot/hooks/mine.json", "{}");
    write(
        ".codex/config.toml",
        "notify = [\"mine\"]\n[mcp_servers.open]\ncommand = \"sh\"\n\
         [mcp_servers.github]\ncommand = \"sh\"\nenv = { GITHUB_TOKEN = \"ghp_not_for_agents\" }\n",
    );
    write(".codex/hooks.json", "{}");
    write(".config/opencode/plugins/mine.js", "");
    let backend = Backends::linked().unwrap().get(agent).unwrap();
    let (id, name) = ("s1".parse().unwrap(), agent.parse().unwrap());
    let mut context = SessionContext::new(id, name, Mode::Task, "/bin/agent", "/home/of/session", "/w");
    context.user_home = Some(user.path().to_owned());
    context.environment.insert("PATH".into(), "/bin:/usr/bin".into());
    context.settings = serde_json::from_value(settings).unwrap();
    context.helper = vec!["/helper".into()];
    context.tools = vec!["/bin/watchfire".into()];
    backend.prepare(&context).unwrap()
}

fn text(launch: &Launch, path: &str) -> String {
    let file = launch.files.iter().find(|file| file.path == Path::new(path));
    file.map(|file| String::from_utf8(file.bytes.clone()).unwrap()).unwrap_or_default()
}

fn items(launch: &Launch) -> Vec<&str> {
    launch.left.iter().map(|left| left.item.as_str()).collect()
}

/// The agent, the file with its servers, what stays behind, and what of that no setting opens.
const AGENTS: &[(&str, &str, &[&str], &[&str])] = &[
    ("claude-code", "tools.json", &["hooks", "plugins", "mcp:github"], &["plugins"]),
    ("codex", "config.toml", &["notify", "hooks", "mcp:github"], &["notify", "hooks"]),
    ("gemini", ".gemini/settings.json", &["mcp:github", "hooks", "extensions"], &["extensions"]),
    ("copilot", "tools.json", &["hooks", "mcp:github"], &[]),
    ("opencode", "", &["plugins"], &["plugins"]),
];

#[test]
fn what_holds_a_secret_stays_behind_until_it_is_opened() {
    for (agent, file, left, never) in AGENTS {
        let closed = launch(agent, json!({}));
        assert_eq!(items(&closed), *left, "{agent}");
        let opened = launch(agent, json!({ "carry": ["mcp:github", "hooks"] }));
        assert_eq!(items(&opened), *never, "{agent}");
        let setting = LeftBehind::setting(agent, &closed.left).unwrap_or_default();
        assert_eq!(setting.contains("carry: ["), left != never, "{agent}: {setting}");
        if file.is_empty() {
            continue; // Its configuration is read where it is.
        }
        let (before, after) = (text(&closed, file), text(&opened, file));
        assert!(before.contains("open") && before.contains("/bin/watchfire"), "{agent}: {before}");
        let all: Vec<_> = closed.files.iter().map(|file| String::from_utf8_lossy(&file.bytes)).collect();
        assert!(!all.concat().contains("ghp_not_for_agents"), "{agent}");
        assert!(after.contains("ghp_not_for_agents"), "{agent}: {after}");
    }
}

#[test]
fn hooks_that_are_opened_run_beside_ours() {
    for (agent, file) in [("claude-code", "settings.json"), ("gemini", ".gemini/settings.json")] {
        let own = |settings| text(&launch(agent, settings), file).contains("theirs");
        assert!(!own(json!({})) && own(json!({ "carry": ["hooks"] })), "{agent}");
        let ours = text(&launch(agent, json!({ "carry": ["hooks"] })), file);
        assert!(ours.contains("/helper"), "{agent}: {ours}");
    }
    let copilot = launch("copilot", json!({ "carry": ["hooks"] }));
    assert!(copilot.files.iter().any(|file| file.path == Path::new("hooks/mine.json")));
}

#[test]
fn the_line_for_the_settings_is_yaml() {
    let left = [LeftBehind::new("mcp:it's: \"x\"", "why").with_remedy(), LeftBehind::new("plugins", "why")];
    let line = LeftBehind::setting("codex", &left).unwrap();
    assert_eq!(line, r#"agents: {codex: {carry: ["mcp:it's: \"x\""]}}"#);
}
