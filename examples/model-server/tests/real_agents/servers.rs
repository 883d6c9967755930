//! The person's own MCP servers, started as most are: by `npx` and by `uvx`, in the sandbox, from the person's caches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use watchfire_core::backend::Backend;
use watchfire_core::schedule::Ending;

use super::agents::Agent;
use super::harness::{Checked, must, search_path};
use super::orchestrated::WORK;
use super::stage::{Stage, log, told};

struct Server {
    name: &'static str,
    command: &'static [&'static str],
    /// Makes the person's cache hold it, as after its first use.
    warm: &'static [&'static str],
    tool: &'static str,
    said: &'static str,
}

/// Offline: some agents pass their servers no variable with the certificates of a proxy.
const SERVERS: [Server; 2] = [
    Server {
        name: "everything",
        command: &["npx", "-y", "--offline", "@modelcontextprotocol/server-everything@2026.8.31"],
        warm: &["npx", "-y", "--package=@modelcontextprotocol/server-everything@2026.8.31", "--", "true"],
        tool: "echo",
        said: "linden 7713",
    },
    Server {
        name: "clock",
        command: &["uvx", "--offline", "mcp-server-time@2026.10.19"],
        warm: &["uvx", "--from", "mcp-server-time@2026.10.19", "--", "true"],
        tool: "get_current_time",
        said: "Etc/UTC",
    },
];

/// Returns the file in the person's home that configures the servers for an agent, and its content.
fn configured(agent: &str) -> Option<(&'static str, String)> {
    let all = |server: &dyn Fn(&Server) -> Value| -> Value {
        SERVERS.iter().map(|it| (it.name.to_owned(), server(it))).collect::<serde_json::Map<_, _>>().into()
    };
    let usual = |it: &Server| json!({ "type": "stdio", "command": it.command[0], "args": it.command[1..] });
    let plain = |it: &Server| json!({ "command": it.command[0], "args": it.command[1..] });
    Some(match agent {
        "claude-code" => (".claude.json", json!({ "mcpServers": all(&usual) }).to_string()),
        "gemini" => (".gemini/settings.json", json!({ "mcpServers": all(&plain) }).to_string()),
        "copilot" => {
            let server = |it: &Server| json!({ "type": "local", "command": it.command[0], "args": it.command[1..], "tools": ["*"] });
            (".copilot/mcp-config.json", json!({ "mcpServers": all(&server) }).to_string())
        }
        "opencode" => {
            let server = |it: &Server| json!({ "type": "local", "command": it.command, "enabled": true });
            (".config/opencode/opencode.json", json!({ "mcp": all(&server) }).to_string())
        }
        "codex" => {
            let server = |it: &Server| {
                let args = json!(it.command[1..]);
                format!("[mcp_servers.{}]\ncommand = \"{}\"\nargs = {args}\n", it.name, it.command[0])
            };
            (".codex/config.toml", SERVERS.iter().map(server).collect())
        }
        _ => return None,
    })
}

/// Why it cannot be asked of an agent.
pub(crate) fn lack(agent: &Agent) -> Option<&'static str> {
    configured(agent.name).is_none().then_some("nothing of its configuration goes along")
}

/// Why it cannot run here.
pub(crate) fn missing() -> Option<&'static str> {
    WARM.as_ref().err().map(String::as_str)
}

/// A person's home whose caches hold the servers, as after their first use. It is kept for later runs.
static WARM: LazyLock<Checked<PathBuf>> = LazyLock::new(|| {
    if std::env::var_os("WATCHFIRE_AGENTS").is_none() {
        return Err("no agents are named".to_owned());
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
    fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    for server in &SERVERS {
        let (program, args) = server.warm.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command.args(args).env("HOME", &home).env("PATH", search_path()).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{program}: {error}"))?;
        must(output.status.success(), &format!("{program}: {}", String::from_utf8_lossy(&output.stderr)))?;
    }
    Ok(home)
});

/// Their tools are offered to the model, and answer.
pub(crate) fn serve(agent: &Agent, _: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| served(agent, transport, dir))
}

async fn served(agent: &Agent, transport: &str, dir: PathBuf) -> Checked {
    let user = dir.join("user");
    copy(WARM.as_ref()?, &user)?;
    let (file, content) = configured(agent.name).ok_or("no configuration")?;
    let file = user.join(file);
    let written = fs::create_dir_all(file.parent().unwrap_or(&user)).and_then(|()| fs::write(&file, content));
    written.map_err(|error| error.to_string())?;
    // Some connect to their servers while the first requests are under way.
    let mut turns = vec![json!({ "text": "On it.", "run": "sleep 8", "delay_ms": 4000 })];
    if agent.name == "claude-code" && transport != "acp" {
        // It offers tools of servers once they are searched for.
        let query = "select:mcp__everything__echo,mcp__clock__get_current_time";
        turns.push(json!({ "tool": "ToolSearch", "input": { "query": query, "max_results": 5 } }));
    }
    turns.extend(SERVERS.iter().map(|server| {
        let field = if server.tool == "echo" { "message" } else { "timezone" };
        json!({ "tool": server.tool, "input": { field: server.said } })
    }));
    turns.extend([json!({ "run": WORK }), json!({ "text": "All is done." })]);
    let stage = Stage::set(agent, transport, &json!([{ "turns": turns }]).to_string(), dir).await?;
    let task = stage.task().await?;
    let ended = stage.run(task).await;
    let heard = || {
        let asks = stage.server.asks();
        let outputs = asks.iter().max_by_key(|ask| ask.outputs.len()).map(|ask| ask.outputs.clone());
        let offered = asks.iter().flat_map(|ask| &ask.tools).map(|(name, _)| name.clone());
        let offered: std::collections::BTreeSet<_> = offered.collect();
        format!("{outputs:#?}\noffered: {offered:?}\n{}", log(&stage.project))
    };
    let summary = ended.map_err(|error| format!("{error}\n{}", heard()))?;
    let merged = matches!(summary.endings.get(&task), Some(Ending::Merged { .. }));
    must(merged, &format!("{summary:?}\n{}", heard()))?;
    let outputs: Vec<_> = stage.server.asks().into_iter().flat_map(|ask| ask.outputs).collect();
    for server in &SERVERS {
        let answered = outputs.iter().any(|output| output.contains(server.said));
        must(answered, &format!("{} gave no answer\n{}", server.name, heard()))?;
    }
    stage.strike(agent.rewrites).await
}

fn copy(from: &Path, to: &Path) -> Checked {
    let copied =
        Command::new("cp").arg("-a").arg(from).arg(to).status().map_err(|error| error.to_string())?;
    must(copied.success(), "the home is not copied")
}
