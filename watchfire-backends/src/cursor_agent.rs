//! Cursor's CLI, `cursor-agent`.
//!
//! Runs `cursor-agent` in print mode with a configuration folder of its own (`CURSOR_CONFIG_DIR`). It takes no system
//! prompt, so the composed prompt is part of the first prompt, in a file. It needs an account: `CURSOR_API_KEY`, or a
//! login whose file is linked.
//!
//! It gets no tools of its session: it reads servers from `~/.cursor/mcp.json`, which is the person's, and from `.cursor/mcp.json` in the
//! project, which would be a change to the work. `watchfire-agent` in its `PATH` does the same.
//!
//! Written from its documentation: the program is on no registry and was not run here. As a stream only, because its
//! screens are not known.
//!
//! Settings: `path`, `args`, `model`, `env`, `pass_env`.

use serde_json::Value;
use watchfire_core::Result;
use watchfire_core::backend::{Fact, Launch, Message, Part, Role, SessionContext, Status};

use crate::agent::{Agent, Can, Flags, Folder, Login, Table, Transports, implement_backend};
use crate::common::{issues, json};

implement_backend!(CursorAgent);

/// Cursor: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorAgent;

impl Agent for CursorAgent {
    const TABLE: Table = Table {
        name: "cursor-agent",
        aliases: &["cursor"],
        display_name: "Cursor",
        install: "see cursor.com/cli",
        program: "cursor-agent",
        places: &["~/.cursor/bin"],
        tested: "",
        secrets: &["CURSOR_API_KEY"],
        passed: &[],
        quiet: &[],
        can: Can { system_prompt: false, hooks: false, usage: false, transports: Transports::Stream },
        paste_limit: 0,
        ready: &[],
        busy: &[],
        flags: Flags {
            model: "--model",
            session: None,
            // Its chats lie in `~/.cursor`, which its sessions do not have.
            resume: None,
            prompt: "",
            stream_prompt: "",
        },
        folder: Some(Folder { variable: "CURSOR_CONFIG_DIR", below: "", usual: ".config/cursor" }),
        login: Some(Login { real: "auth.json", session: "auth.json", copied: false, issued: |_| None }),
        sign_in: Some(&["login"]),
        sessions: &[],
    };

    fn launch(launch: Launch, context: &SessionContext, _: bool) -> Result<Launch> {
        let launch = launch.with_env("CURSOR_CONFIG_DIR", &context.home);
        Ok(launch.with_args(["--print", "--output-format", "stream-json", "--force", "--trust"]))
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        match (json::text(line, "type"), json::text(line, "subtype")) {
            (Some("system"), Some("init")) => {
                let id = json::text(line, "session_id").map(|id| Fact::VendorSession(id.into()));
                id.into_iter().chain([Fact::Status(Status::Processing)]).collect()
            }
            (Some("assistant"), _) => issues::answered(Status::Processing),
            (Some("tool_call"), _) => vec![Fact::Status(Status::Processing)],
            (Some("result"), _) if json::flag(line, "is_error") => {
                let said = json::text(line, "result").unwrap_or_default();
                issues::failed_turn(issues::by_words(said), said)
            }
            (Some("result"), _) => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
            _ => Vec::new(),
        }
    }

    fn messages(line: &Value) -> Vec<Message> {
        let kind = (json::text(line, "type"), json::text(line, "subtype"));
        let (role, parts) = match kind {
            (Some("user"), _) => (Role::User, texts(line)),
            (Some("assistant"), _) => (Role::Assistant, texts(line)),
            (Some("tool_call"), Some("started")) => (Role::Assistant, call(line).into_iter().collect()),
            (Some("tool_call"), Some("completed")) => (Role::Tool, outcome(line).into_iter().collect()),
            (Some("system"), Some("init")) => (Role::System, Vec::new()),
            _ => return Vec::new(),
        };
        let mut message = Message::new(role, parts);
        message.model = json::text(line, "model").map(str::to_owned);
        vec![message]
    }
}

fn texts(line: &Value) -> Vec<Part> {
    let blocks = json::list(json::at(line, "message.content")).iter();
    blocks.filter_map(|block| Some(Part::text(json::text(block, "text")?.to_owned()))).collect()
}

/// Returns the name of the tool, which is a key, and the details of its call.
fn tool(line: &Value) -> Option<(&str, &Value)> {
    let (key, value) = line.get("tool_call")?.as_object()?.iter().next()?;
    Some((key.strip_suffix("ToolCall").unwrap_or(key), value))
}

fn call(line: &Value) -> Option<Part> {
    let (name, value) = tool(line)?;
    let input = json::summary(value.get("args").unwrap_or(&Value::Null));
    Some(Part::tool_call(name, input))
}

fn outcome(line: &Value) -> Option<Part> {
    let (_, value) = tool(line)?;
    // The key says how the call ended.
    let (word, result) = value.get("result")?.as_object()?.iter().next()?;
    let text = ["content", "stdout", "message", "error"].iter().find_map(|key| json::text(result, key));
    Some(Part::tool_result(text.unwrap_or_default().to_owned(), word != "success"))
}
