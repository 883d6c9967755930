//! Continue's CLI, `cn`.
//!
//! Runs `cn` with a folder of its own (`CONTINUE_GLOBAL_DIR`). The composed prompt is a rule, which `cn` puts into
//! its system message. The person's `config.yaml`, which names the models, is used where it is; their login is
//! linked.
//!
//! The stream is one object at the end, so nothing is known of a turn while it runs. All messages and tokens are in
//! the session file, which is read when the session has ended.
//!
//! Settings: `path`, `args`, `config` (another `config.yaml`), `env`, `pass_env`, and `transport` (`pty` or `stream`).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use watchfire_core::Result;
use watchfire_core::backend::{
    Delivery, Fact, Framing, Grant, InputBox, Launch, Message, Part, PromptDelivery, Role, SessionContext,
    Status, Transcript,
};
use watchfire_core::terminal::Snapshot;

use crate::agent::{self, Agent, Can, Flags, Folder, Login, Table, Transports, implement_backend};
use crate::common::input_box::Frame;
use crate::common::{issues, json, prompt, session_id, settings, tools};

implement_backend!(Continue);

const BUSY: &str = "esc to interrupt";
const READY: &str = "Ask anything, @ for context";
/// File in the session's home with the server of tools.
const SERVERS: &str = "tools.yaml";
const USAGE: [&str; 4] = ["prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens", ""];

/// Continue: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Continue;

impl Agent for Continue {
    const OPTIONS: &'static [&'static str] = &["transport", "config"];

    const TABLE: Table = Table {
        name: "continue",
        aliases: &["cn"],
        display_name: "Continue",
        install: "npm install -g @continuedev/cli",
        program: "cn",
        places: &[],
        tested: "1.5.47",
        secrets: &["CONTINUE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
        passed: &[],
        quiet: &[],
        can: Can { system_prompt: true, hooks: false, usage: true, transports: Transports::Both },
        // Above some thousand characters `cn` replaces a paste by a mark of its own.
        paste_limit: 2000,
        ready: &[READY],
        busy: &[BUSY],
        flags: Flags {
            model: "--model",
            session: None,
            resume: Some("--fork"),
            prompt: "",
            stream_prompt: "-p",
        },
        folder: Some(Folder { variable: "CONTINUE_GLOBAL_DIR", below: "", usual: ".continue" }),
        login: Some(Login {
            real: "auth.json",
            session: "auth.json",
            copied: false,
            issued: |login| json::at(login, "expiresAt")?.as_i64(),
        }),
        sign_in: Some(&["login"]),
        sessions: &["sessions"],
    };

    fn delivery() -> Delivery {
        // Typed literally: `cn` takes the marks of a paste as part of the text.
        Delivery::default()
            .with_framing(Framing::Literal)
            .with_settle(Duration::from_millis(500), Duration::from_millis(1000))
            .with_interrupt(*b"\x1b")
            .with_quit(*b"\x04")
    }

    fn launch(mut launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch> {
        launch = launch
            .with_env("CONTINUE_GLOBAL_DIR", &context.home)
            .with_env("CONTINUE_TELEMETRY_ENABLED", "0")
            .with_arg("--auto");
        let theirs = agent::user_folder::<Self>(context).map(|folder| folder.join("config.yaml"));
        let config =
            settings::option(context, "config")?.map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(config) = config.or(theirs).filter(|config| config.is_file()) {
            launch = launch.with_arg("--config").with_arg(&config).with_grant(Grant::Read(config));
        }
        if !context.system_prompt.is_empty() {
            let path;
            (launch, path) = prompt::in_file(launch, context, prompt::SYSTEM_FILE, &context.system_prompt);
            launch = launch.with_arg("--rule").with_arg(path);
        }
        if let Some((command, args)) = tools::words(context) {
            // A block of configuration that `cn` puts beside the person's. It is YAML, of which JSON is a part.
            let server = serde_json::json!({ "name": tools::NAME, "command": command, "args": args });
            let block = serde_json::json!({
                "name": tools::NAME, "version": "1.0.0", "schema": "v1", "mcpServers": [server],
            });
            launch = launch.with_file(SERVERS, block.to_string());
            launch = launch.with_arg("--mcp").with_arg(context.home.join(SERVERS));
        }
        Ok(if stream { launch.with_args(["--format", "json"]) } else { launch })
    }

    fn prompt(launch: Launch, line: String, context: &SessionContext, stream: bool) -> Launch {
        match (stream, &context.resume) {
            (true, _) => launch.with_args(["-p", &line]),
            // With a prompt on the command line, the program on a terminal begins a new conversation.
            (false, Some(_)) => launch.with_prompt(PromptDelivery::Typed(line)),
            (false, None) => launch.with_arg(line),
        }
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        // While `cn` works it takes input too, but of several texts some may get lost.
        match screen.text().contains(BUSY) {
            true => InputBox::Absent,
            false => Frame { top: '╭', bottom: '╰', mark: '●', bar: Some('│'), hints: &[READY] }.read(screen),
        }
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let bottom = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default();
        // The input box is shown while `cn` works, too. A line above it then says that it works.
        let framed = bottom.iter().any(|line| line.starts_with('│') && line.contains(READY));
        match (framed, bottom.iter().any(|line| line.contains(BUSY))) {
            (_, true) => vec![Fact::Status(Status::Processing)],
            (true, false) => vec![Fact::Status(Status::Idle)],
            (false, false) => Vec::new(),
        }
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        match json::text(line, "status") {
            Some("success") => {
                let mut facts = issues::answered(Status::Idle);
                facts.push(Fact::TurnCompleted);
                facts
            }
            Some("error") => {
                let said = json::text(line, "message").unwrap_or_default();
                // The message of an HTTP error begins with the status.
                let status = said.split(' ').next().and_then(|word| word.parse().ok());
                issues::failed_turn(issues::by_words(said).or_else(|| issues::by_status(status?)), said)
            }
            _ => Vec::new(),
        }
    }

    fn from_transcript(whole: &Value) -> Vec<Fact> {
        json::session(whole, "sessionId")
    }

    fn messages(line: &Value) -> Vec<Message> {
        let part = match json::text(line, "status") {
            Some("success") => Part::text(json::text(line, "response").unwrap_or_default().to_owned()),
            Some("error") => Part::error(json::text(line, "message").unwrap_or_default().to_owned()),
            _ => return Vec::new(),
        };
        vec![Message::new(Role::Assistant, vec![part])]
    }

    /// Reads the messages of the session file, which holds the whole conversation, or of one line of the stream.
    fn normalize(text: &str) -> Vec<Message> {
        let Some(value) = json::object(text) else { return Vec::new() };
        match value.get("history") {
            Some(history) => json::list(Some(history)).iter().flat_map(entry).collect(),
            None => Self::messages(&value),
        }
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        // The folder also holds the list of sessions, `sessions.json`, whose name is no UUID.
        let entries = std::fs::read_dir(context.home.join("sessions")).ok()?;
        let mut sessions = entries.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            // A resume (`--fork`) writes a new file and leaves the old one beside it.
            let before = context.resume.as_deref() == Some(name);
            path.extension().is_some_and(|end| end == "json") && session_id::is_uuid(name) && !before
        });
        let only = sessions.next()?;
        // With several files it is not known which one is ours.
        sessions.next().is_none().then(|| Transcript::whole(only))
    }
}

/// Returns the messages of an entry of the history: texts, tool calls, and the results of the tools.
fn entry(entry: &Value) -> Vec<Message> {
    let Some(said) = entry.get("message") else { return Vec::new() };
    let role = match json::text(said, "role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Vec::new(),
    };
    let text = json::text(said, "content").filter(|text| !text.is_empty());
    let mut parts: Vec<Part> = text.map(Part::text).into_iter().collect();
    parts.extend(json::list(said.get("toolCalls")).iter().filter_map(|call| {
        let input = json::text(call, "function.arguments").unwrap_or_default();
        // The arguments are JSON inside a text.
        let input = json::object(input).as_ref().map_or_else(|| json::one_line(input), json::summary);
        Some(Part::tool_call(json::text(call, "function.name")?.to_owned(), input))
    }));
    let mut message = Message::new(role, parts);
    message.usage = json::usage_with_cache(said, "usage", USAGE);
    message.model = json::text(said, "usage.model").map(str::to_owned);
    let results = json::list(entry.get("toolCallStates")).iter().map(|state| {
        let texts = json::list(state.get("output")).iter().filter_map(|output| json::text(output, "content"));
        Part::tool_result(
            texts.map(printed).collect::<Vec<_>>().join("\n"),
            json::text(state, "status") != Some("done"),
        )
    });
    let results: Vec<Part> = results.collect();
    let results = (!results.is_empty()).then(|| Message::new(Role::Tool, results));
    [message].into_iter().chain(results).collect()
}

/// Returns the output of a failed command, without the words put before it.
fn printed(text: &str) -> &str {
    let told =
        text.strip_prefix("Error executing tool ").and_then(|rest| rest.split_once(": Error (exit code "));
    told.and_then(|(_, rest)| rest.split_once("): ")).map_or(text, |(_, printed)| printed)
}
