//! GitHub Copilot CLI.
//!
//! Runs `copilot` in a session home of its own (`COPILOT_HOME`), with the person's configuration, the folder trusted,
//! and the composed prompt as `copilot-instructions.md`, which Copilot puts into its system message. (Copilot does
//! not read `AGENTS.md` there, although its documentation says so.)
//!
//! Of the GitHub tokens in the environment, the agent gets only `COPILOT_GITHUB_TOKEN`: `GH_TOKEN` and `GITHUB_TOKEN`
//! may push.
//!
//! Settings: `path`, `args`, `model`, `env`, `pass_env`, and `transport` (`pty`, `stream` or `acp`).

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use watchfire_core::Result;
use watchfire_core::backend::{
    Delivery, Fact, Grant, InputBox, Issue, IssueKind, Launch, Message, Part, Role, SessionContext, Status,
    Transcript,
};
use watchfire_core::terminal::Snapshot;

use crate::agent::{self, Acp, Agent, Can, Flags, Folder, TWO_ESCAPES, Table, Transports, implement_backend};
use crate::common::input_box::Frame;
use crate::common::own::{self, Opened};
use crate::common::{caches, carry, hooks, issues, json, settings, tools};

implement_backend!(Copilot);

const HOOKS: &[&str] = &["agentStop", "sessionStart"];
const INSTRUCTIONS: &str = "copilot-instructions.md";
/// File with the session's tools, below the session's home.
const TOOLS: &str = "tools.json";
const USAGE: [&str; 4] = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"];

/// GitHub Copilot CLI: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Copilot;

impl Agent for Copilot {
    const OPTIONS: &'static [&'static str] = &["transport", "carry"];

    const TABLE: Table = Table {
        name: "copilot",
        aliases: &[],
        display_name: "GitHub Copilot CLI",
        install: "npm install -g @github/copilot",
        program: "copilot",
        places: &[],
        tested: "1.0.102",
        secrets: &["COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN"],
        passed: &[
            "COPILOT_MODEL",
            "COPILOT_OFFLINE",
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_PROVIDER_TYPE",
            "COPILOT_PROVIDER_WIRE_API",
        ],
        quiet: &[],
        can: Can { system_prompt: true, hooks: true, usage: true, transports: Transports::Both },
        // Copilot turns longer pastes into files of its own, with a pointer in the text.
        paste_limit: 8 * 1024,
        ready: &["/ commands · ? help", "/ commands"],
        busy: &["esc interrupt", "Esc to cancel"],
        flags: Flags {
            model: "--model",
            session: Some("--session-id"),
            resume: Some("--resume="),
            prompt: "-i",
            stream_prompt: "-p",
        },
        folder: Some(Folder { variable: "COPILOT_HOME", below: "", usual: ".copilot" }),
        login: None,
        sign_in: Some(&["login"]),
        sessions: &["session-state"],
    };

    const ACP: Option<Acp> = Some(Acp { adapter: None, mode: None });

    fn delivery() -> Delivery {
        Delivery::default().with_interrupt(TWO_ESCAPES).with_quit(*b"\x04")
    }

    fn launch(launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch> {
        let launch = with_home(launch.with_env("COPILOT_HOME", &context.home), context)?
            .with_args(["--yolo", "--no-auto-update"]);
        Ok(match stream {
            true => launch.with_args(["--output-format", "json"]),
            false => with_hooks(launch, context),
        })
    }

    fn acp(launch: Launch, context: &SessionContext) -> Result<Launch> {
        let launch = with_home(launch.with_env("COPILOT_HOME", &context.home), context)?.with_args([
            "--yolo",
            "--no-auto-update",
            "--acp",
        ]);
        Ok(context.settings.model.iter().fold(launch, |launch, model| launch.with_args(["--model", model])))
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        Frame { top: '╻', bottom: '╹', mark: '┃', bar: None, hints: &[] }.read(screen)
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        from_screen(text)
    }

    fn from_transcript(line: &Value) -> Vec<Fact> {
        from_event(line)
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        from_event(line)
    }

    /// Reads a hook. Copilot has no hook for turns that fail, so its status comes from its events.
    fn from_hook(event: &str, payload: &Value, _: Option<&str>) -> Vec<Fact> {
        match event {
            "agentStop" => vec![Fact::TurnCompleted],
            "sessionStart" => session(payload, "sessionId").into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn messages(line: &Value) -> Vec<Message> {
        message(line).into_iter().collect()
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        let folder = context.home.join("session-state").join(agent::vendor_session::<Self>(context)?);
        let path = folder.join("events.jsonl");
        path.is_file().then(|| Transcript::json_lines(path))
    }
}

/// Fills the session's home with configuration and instructions, and grants access to the program's cache, which is
/// large.
fn with_home(mut launch: Launch, context: &SessionContext) -> Result<Launch> {
    let opened = Opened::read(context)?;
    let theirs: Option<PathBuf> = agent::user_folder::<Copilot>(context);
    let read = |name: &str| theirs.as_ref().and_then(|folder| fs::read_to_string(folder.join(name)).ok());
    // Copilot writes comment lines above the JSON, which the parser rejects.
    let config = read("config.json").map(|text| {
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    });
    let mut config: Value = config.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if !config.is_object() {
        config = json!({});
    }
    // The person's own entries stay.
    let mut trusted: Vec<Value> = json::list(config.get("trustedFolders")).to_vec();
    trusted.extend(settings::folders(context).into_iter().map(Value::from));
    config["trustedFolders"] = trusted.into();
    launch = launch.with_file("config.json", config.to_string());
    let both = [read(INSTRUCTIONS).unwrap_or_default(), context.system_prompt.clone()].join("\n\n");
    launch = launch.with_file(INSTRUCTIONS, both.trim_start());
    if let Some(theirs) = &theirs {
        launch = carry::carry(launch, theirs, "", &["agents", "skills"]);
        let has_hooks = fs::read_dir(theirs.join("hooks")).is_ok_and(|mut all| all.next().is_some());
        if has_hooks && opened.takes(&mut launch, "hooks", Some(own::OWN_SESSIONS)) {
            launch = carry::carry(launch, theirs, "", &["hooks"]);
        }
    }
    let servers = read("mcp-config.json").and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let mut servers = servers.and_then(|all| all.get("mcpServers")?.as_object().cloned()).unwrap_or_default();
    opened.servers(&mut launch, context, &mut servers);
    // Copilot offers no tools of a server but those that are listed.
    if let Some(file) = tools::file(context, &[("type", "local".into()), ("tools", json!(["*"]))], servers) {
        let mut path = OsString::from("@");
        path.push(context.home.join(TOOLS));
        launch = launch.with_file(TOOLS, file).with_args([OsString::from("--additional-mcp-config"), path]);
    }
    let cache = context.user_home.as_ref().map(|home| home.join(".cache/copilot"));
    Ok(match cache.filter(|cache| cache.is_dir()) {
        Some(cache) => launch.with_grant(Grant::Read(cache)),
        // Without this Copilot would create its cache in the person's home.
        None => caches::moved(launch, context),
    })
}

/// Adds the hooks, in Copilot's own format.
fn with_hooks(launch: Launch, context: &SessionContext) -> Launch {
    let entry = |event: &&str| {
        let hook = json!([{ "type": "command", "bash": hooks::command(context, event)? }]);
        Some(((*event).to_owned(), hook))
    };
    let all: serde_json::Map<_, _> = HOOKS.iter().filter_map(entry).collect();
    match all.is_empty() {
        true => launch,
        false => launch.with_file("hooks/watchfire.json", json!({ "version": 1, "hooks": all }).to_string()),
    }
}

fn from_screen(text: &str) -> Vec<Fact> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let bottom = lines.get(lines.len().saturating_sub(14)..).unwrap_or_default();
    // Dialogs are drawn in frames, whose sides are part of the row.
    let framed = |line: &str| line.trim_matches(['│', '┃', ' ']).to_owned();
    // Only a dialog has a chosen answer. The words alone could be the agent's.
    let chosen = bottom.iter().any(|line| framed(line).starts_with("❯ 1. Yes"));
    if chosen && lines.iter().any(|line| framed(line).starts_with("Confirm folder trust")) {
        let issue = Issue::new(IssueKind::TrustDialog, "asks whether the folder is trusted");
        return vec![Fact::Status(Status::ActionRequired), Fact::Issue(issue)];
    }
    if chosen {
        return vec![Fact::Status(Status::ActionRequired)];
    }
    let last = lines.get(lines.len().saturating_sub(2)..).unwrap_or_default();
    // Until the model's first words the working row does not say that Esc interrupts.
    let works = |line: &&str| {
        let said = line.strip_prefix(['◉', '◎', '○', '●']);
        said.is_some_and(|said| said.contains("esc interrupt") || said.starts_with(" Working esc"))
    };
    if bottom.iter().any(works) {
        return vec![Fact::Status(Status::Processing)];
    }
    match last.iter().any(|line| line.contains("/ commands")) {
        true => vec![Fact::Status(Status::Idle)],
        false => Vec::new(),
    }
}

fn session(value: &Value, key: &str) -> Option<Fact> {
    json::text(value, key).map(|id| Fact::VendorSession(id.into()))
}

fn from_event(line: &Value) -> Vec<Fact> {
    match json::text(line, "type").unwrap_or_default() {
        "session.start" | "session.resume" => session(line, "data.sessionId").into_iter().collect(),
        // The words of a subagent end no turn of the session.
        "assistant.message" if json::text(line, "data.parentToolCallId").is_some() => Vec::new(),
        "assistant.message" if json::list(json::at(line, "data.toolRequests")).is_empty() => {
            // No tool is asked for, so this message ends the turn.
            let mut facts = issues::answered(Status::Idle);
            facts.push(Fact::TurnCompleted);
            facts
        }
        "assistant.message" => issues::answered(Status::Processing),
        "user.message" | "assistant.turn_start" | "tool.execution_start" => {
            vec![Fact::Status(Status::Processing)]
        }
        "abort" => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        "session.error" => {
            let said = json::text(line, "data.message").unwrap_or_default();
            let kind = match json::text(line, "data.errorType").unwrap_or_default() {
                "authentication" | "authorization" => Some(IssueKind::AuthRequired),
                "quota" => Some(IssueKind::UsageLimit),
                _ => issues::by_words(said),
            };
            issues::failed_turn(
                kind.or_else(|| issues::by_status(json::number(line, "data.statusCode"))),
                said,
            )
        }
        "result" => vec![Fact::TurnCompleted],
        _ => Vec::new(),
    }
}

fn message(line: &Value) -> Option<Message> {
    let data = line.get("data")?;
    let text = |key: &str| json::text(data, key).unwrap_or_default().to_owned();
    let (role, parts) = match json::text(line, "type")? {
        "user.message" => (Role::User, vec![Part::text(text("content"))]),
        "assistant.message" => {
            let mut parts = Vec::new();
            if !text("reasoningText").is_empty() {
                parts.push(Part::thinking(text("reasoningText")));
            }
            if !text("content").is_empty() {
                parts.push(Part::text(text("content")));
            }
            parts.extend(json::list(data.get("toolRequests")).iter().filter_map(|call| {
                let input = json::summary(call.get("arguments").unwrap_or(&Value::Null));
                Some(Part::tool_call(json::text(call, "name")?.to_owned(), input))
            }));
            (Role::Assistant, parts)
        }
        "tool.execution_complete" => {
            let text = json::text(data, "result.content").or_else(|| json::text(data, "error.message"));
            // A tool that ran a failing command still counts as a success. The exit code tells.
            let failed = !json::flag(data, "success") || json::exit_failed(data, "shellExecution.exitCode");
            (Role::Tool, vec![Part::tool_result(text.unwrap_or_default().to_owned(), failed)])
        }
        "session.error" => (Role::Assistant, vec![Part::error(text("message"))]),
        "session.info" if text("infoType") == "model_retry" => {
            (Role::Assistant, vec![Part::error(text("message"))])
        }
        "session.usage_record" => (Role::Assistant, Vec::new()),
        _ => return None,
    };
    let mut message = Message::new(role, parts);
    message.id = json::text(data, "messageId").map(str::to_owned);
    message.at = json::moment(line, "timestamp");
    message.usage = json::usage_with_cache(data, "usage", USAGE);
    message.model = json::text(data, "usage.model").map(str::to_owned);
    if message.parts.is_empty() && message.usage.is_none() { None } else { Some(message) }
}
