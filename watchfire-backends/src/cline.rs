//! Cline's CLI.
//!
//! Runs `cline` with a configuration and a data folder of its own in the session's home. The composed prompt is a
//! rule, which Cline puts into its system message. The person's providers with their keys are linked from `~/.cline`.
//! Its servers of tools are those of the session alone.
//!
//! As a stream only: on a terminal Cline opens with an advertisement that waits for a key press, and Enter starts a
//! browser. There is therefore no chat, and only ending the process interrupts a turn. A session cannot be resumed:
//! that (`--id`) needs a terminal, and a stream takes no prompt for it. Cline's hub is not used, and would be ended
//! with the session.
//!
//! Settings: `path`, `args`, `model`, `provider` (one of those that `cline auth` set up), `env`, `pass_env`.

use serde_json::Value;
use watchfire_core::Result;
use watchfire_core::backend::{
    Fact, IssueKind, Launch, Message, Part, Role, SessionContext, Status, Transcript,
};

use crate::agent::{Agent, Can, Flags, Folder, Login, Table, Transports, implement_backend};
use crate::common::{glob, issues, json, settings, tools};

implement_backend!(Cline);

/// File in the session's home with the servers of tools.
const SERVERS: &str = "data/settings/cline_mcp_settings.json";
const USAGE: [&str; 4] = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"];

/// Cline: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Cline;

impl Agent for Cline {
    const OPTIONS: &'static [&'static str] = &["transport", "provider"];

    const TABLE: Table = Table {
        name: "cline",
        aliases: &[],
        display_name: "Cline",
        install: "npm install -g cline",
        program: "cline",
        places: &[],
        tested: "3.0.65",
        secrets: &[
            "ANTHROPIC_API_KEY",
            "CLINE_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        passed: &[],
        quiet: &[],
        can: Can { system_prompt: true, hooks: false, usage: true, transports: Transports::Stream },
        paste_limit: 0,
        ready: &[],
        busy: &[],
        flags: Flags { model: "-m", session: None, resume: None, prompt: "", stream_prompt: "" },
        folder: Some(Folder { variable: "CLINE_DIR", below: "", usual: ".cline" }),
        login: Some(Login {
            real: "data/settings/providers.json",
            session: "data/settings/providers.json",
            copied: false,
            issued: |login| {
                let providers = login.get("providers")?.as_object()?.values();
                providers
                    .filter_map(|entry| json::moment(entry, "updatedAt"))
                    .map(|at| at.unix_millis())
                    .max()
            },
        }),
        sign_in: Some(&["auth"]),
        sessions: &[],
    };

    fn launch(mut launch: Launch, context: &SessionContext, _: bool) -> Result<Launch> {
        if !context.system_prompt.is_empty() {
            // Cline reads rules from its configuration folder.
            launch = launch.with_file("config/rules/watchfire.md", context.system_prompt.as_str());
        }
        if let Some(file) = tools::file(context, &[], serde_json::Map::new()) {
            launch = launch.with_file(SERVERS, file);
        }
        launch = launch
            .with_arg("--config")
            .with_arg(context.home.join("config"))
            .with_arg("--data-dir")
            .with_arg(context.home.join("data"))
            .with_args(["--auto-approve", "true", "--json"]);
        Ok(match settings::option(context, "provider")?.as_deref() {
            Some(provider) => launch.with_args(["-P", provider]),
            None => launch,
        })
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        match (json::text(line, "type"), json::text(line, "event.type")) {
            (Some("agent_event"), Some("iteration_start")) => vec![Fact::Status(Status::Processing)],
            (Some("agent_event"), Some("usage")) => issues::answered(Status::Processing),
            (Some("agent_event"), Some("error")) => {
                let said = json::text(line, "event.error.message").unwrap_or_default();
                let kind = match json::text(line, "event.errorClass") {
                    Some("auth") => Some(IssueKind::AuthRequired),
                    _ => issues::by_words(said),
                };
                issues::failed_turn(kind, said)
            }
            (Some("run_result"), _) if json::text(line, "finishReason") == Some("completed") => {
                vec![Fact::TurnCompleted, Fact::Status(Status::Idle)]
            }
            // The reason has come as an `error` event before.
            (Some("run_result"), _) => vec![Fact::TurnCompleted, Fact::Status(Status::Error)],
            _ => Vec::new(),
        }
    }

    fn from_transcript(whole: &Value) -> Vec<Fact> {
        json::session(whole, "sessionId")
    }

    fn messages(line: &Value) -> Vec<Message> {
        match json::text(line, "type") {
            // The time is in the line around the event.
            Some("agent_event") => line.get("event").and_then(|it| event(it, line)).into_iter().collect(),
            Some("run_result") => {
                // The totals in this line repeat the counts of the messages, but only this line names the
                // model.
                let mut message = Message::new(Role::Assistant, Vec::new());
                message.model = json::text(line, "model.id").map(str::to_owned);
                message.usage = json::usage_with_cache(line, "aggregateUsage", USAGE);
                vec![message]
            }
            _ => Vec::new(),
        }
    }

    /// Reads the messages of the session file, which holds the whole conversation, or of one line of the stream.
    fn normalize(text: &str) -> Vec<Message> {
        let Some(value) = json::object(text) else { return Vec::new() };
        match value.get("messages") {
            Some(messages) => json::list(Some(messages)).iter().filter_map(message).collect(),
            None => Self::messages(&value),
        }
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        glob::only(&context.home.join("data/sessions/*/*.messages.json")).map(Transcript::whole)
    }
}

fn event(event: &Value, line: &Value) -> Option<Message> {
    let text = |key: &str| json::text(event, key).unwrap_or_default().to_owned();
    let (role, part) = match (json::text(event, "type")?, json::text(event, "contentType")) {
        ("content_start", Some("tool")) => {
            let input = json::summary(event.get("input").unwrap_or(&Value::Null));
            (Role::Assistant, Part::tool_call(text("toolName"), input))
        }
        ("content_end", Some("tool")) => {
            let output = event.get("output").unwrap_or(&Value::Null);
            // A missing flag is no failure: some tools return text only.
            let is_bad = |output: &Value| json::at(output, "success") == Some(&Value::Bool(false));
            let failed =
                is_bad(output) || json::list(Some(output)).iter().any(is_bad) || event.get("error").is_some();
            (Role::Tool, Part::tool_result(result(output), failed))
        }
        // Only the end: the whole text is in it.
        ("content_end", Some("text")) => (Role::Assistant, Part::text(text("text"))),
        ("content_end", Some("reasoning" | "thinking")) => (Role::Assistant, Part::thinking(text("text"))),
        ("error", _) => {
            let said = json::text(event, "error.message").unwrap_or_default().to_owned();
            (Role::Assistant, Part::error(said))
        }
        _ => return None,
    };
    let mut message = Message::new(role, vec![part]);
    message.at = json::moment(line, "ts");
    Some(message)
}

/// Reads one message of the session file.
fn message(entry: &Value) -> Option<Message> {
    let user = json::text(entry, "role") == Some("user");
    let part = |block: &Value| {
        Some(match json::text(block, "type")? {
            "text" => Part::text(spoken(json::text(block, "text")?)),
            "thinking" => Part::thinking(json::text(block, "thinking")?.to_owned()),
            "tool_use" => Part::tool_call(
                json::text(block, "name")?.to_owned(),
                json::summary(block.get("input").unwrap_or(&Value::Null)),
            ),
            "tool_result" => Part::tool_result(result(block.get("content")?), json::flag(block, "is_error")),
            _ => return None,
        })
    };
    let parts: Vec<Part> = json::list(entry.get("content")).iter().filter_map(part).collect();
    // Results of tools have the role of the person.
    let only_results = !parts.is_empty() && parts.iter().all(|part| matches!(part, Part::ToolResult { .. }));
    let role = match (user, only_results) {
        (_, true) => Role::Tool,
        (true, false) => Role::User,
        (false, false) => Role::Assistant,
    };
    let mut message = Message::new(role, parts);
    message.id = json::text(entry, "id").map(str::to_owned);
    message.model = json::text(entry, "modelInfo.id").map(str::to_owned);
    message.usage = json::usage_with_cache(entry, "metrics", USAGE);
    Some(message)
}

/// Returns a person's text without the tag around it.
fn spoken(text: &str) -> String {
    let inner =
        text.strip_prefix("<user_input").and_then(|rest| rest.split_once('>')).map(|(_, inner)| inner);
    inner.and_then(|inner| inner.strip_suffix("</user_input>")).unwrap_or(text).to_owned()
}

/// Returns the result of a tool: text, an object with a result, or a list of those.
fn result(output: &Value) -> String {
    match output {
        // Some results are JSON inside a text.
        Value::String(text) => match json::object(text) {
            Some(object) => result(&object),
            None => text.clone(),
        },
        Value::Array(all) => all.iter().map(result).collect::<Vec<_>>().join("\n"),
        other => ["result", "error", "text"]
            .iter()
            .find_map(|key| json::text(other, key))
            .unwrap_or_default()
            .to_owned(),
    }
}
