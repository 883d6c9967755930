//! Claude Code, by Anthropic.
//!
//! Runs `claude` in a session home of its own (`CLAUDE_CONFIG_DIR`), with every first-run dialog answered there, the
//! composed prompt by `--append-system-prompt-file`, and permission prompts off, because Watchfire's sandbox confines
//! it. The person's credentials file is linked. Their `CLAUDE.md`, agents, commands, rules and skills and their model
//! are copied. Nothing else of `~/.claude` is visible.
//!
//! Settings: `path`, `args`, `model`, `env`, `pass_env`, and `transport` (`pty`, `stream` or `acp`). With `acp` the
//! program is `claude-agent-acp`, which brings a Claude Code of its own.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use watchfire_core::Result;
use watchfire_core::backend::{
    Delivery, Fact, Framing, InputBox, Issue, IssueKind, Launch, LeftBehind, Message, Part, Role,
    SessionContext, Status, Transcript,
};
use watchfire_core::model::Timestamp;
use watchfire_core::terminal::Snapshot;

use crate::agent::{
    self, Acp, Adapter, Agent, Can, Flags, Folder, Login, Table, Transports, implement_backend,
};
use crate::common::input_box::Frame;
use crate::common::own::Opened;
use crate::common::{carry, hooks, issues, json, prompt, settings, tools};

implement_backend!(ClaudeCode);

/// The hooks that we set. There is none per tool call: a process for each call would slow the agent down.
const HOOKS: &[&str] = &["Notification", "SessionStart", "Stop", "StopFailure", "UserPromptSubmit"];
const BUSY: &str = "esc to interrupt";
/// Texts in the empty input box after a failed request. The agent's own output cannot appear there.
const RESEND: &[&str] = &["Once fixed, resend your message", "Resend your message to try again"];

/// File with the session's tools, below the session's home.
const TOOLS: &str = "tools.json";
const INTERRUPTED: &str = "[Request interrupted by user";

/// Claude Code: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeCode;

impl Agent for ClaudeCode {
    const OPTIONS: &'static [&'static str] = &["transport", "carry"];

    const TABLE: Table = Table {
        name: "claude-code",
        aliases: &["claude"],
        display_name: "Claude Code",
        install: "npm install -g @anthropic-ai/claude-code",
        program: "claude",
        places: &["~/.claude/local"],
        tested: "2.1.330",
        secrets: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_CUSTOM_HEADERS",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
        passed: &[
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL",
            "CLAUDE_CODE_MAX_RETRIES",
        ],
        quiet: &[
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_TELEMETRY",
        ],
        can: Can { system_prompt: true, hooks: true, usage: true, transports: Transports::Both },
        paste_limit: 32 * 1024,
        ready: &["⏵⏵ bypass permissions on"],
        busy: &[BUSY],
        flags: Flags {
            model: "--model",
            session: Some("--session-id"),
            resume: Some("--resume"),
            prompt: "",
            stream_prompt: "",
        },
        folder: Some(Folder { variable: "CLAUDE_CONFIG_DIR", below: "", usual: ".claude" }),
        login: Some(Login {
            real: ".credentials.json",
            session: ".credentials.json",
            copied: false,
            issued: |login| {
                json::text(login, "claudeAiOauth.accessToken")?;
                json::at(login, "claudeAiOauth.expiresAt")?.as_i64()
            },
        }),
        sign_in: Some(&["auth", "login"]),
        sessions: &["projects"],
    };

    const ACP: Option<Acp> = Some(Acp {
        adapter: Some(Adapter {
            program: "claude-agent-acp",
            install: "npm install -g @agentclientprotocol/claude-agent-acp",
            tested: "0.49.0",
        }),
        mode: Some("bypassPermissions"),
    });

    fn delivery() -> Delivery {
        Delivery::default()
            .with_framing(Framing::PasteFrom(2048))
            .with_interrupt(*b"\x1b")
            .with_quit(*b"\x03\x03")
    }

    fn launch(launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch> {
        // A stream reports its turns itself.
        let mut launch = with_home(launch, context, if stream { &[] } else { HOOKS })?;
        let servers = servers(&mut launch, context)?;
        if let Some(file) = tools::file(context, &own_fields(), servers) {
            // It takes every word up to the next flag, so a flag has to follow.
            launch = launch.with_file(TOOLS, file);
            launch = launch.with_args([OsString::from("--mcp-config"), context.home.join(TOOLS).into()]);
        }
        launch = launch.with_arg("--dangerously-skip-permissions");
        if stream {
            // `stream-json` is accepted only together with `--verbose`.
            launch = launch.with_args(["-p", "--output-format", "stream-json", "--verbose"]);
        }
        if !context.title.is_empty() {
            launch = launch.with_args(["--name", &json::one_line(&context.title)]);
        }
        if !context.system_prompt.is_empty() {
            let path;
            (launch, path) = prompt::in_file(launch, context, prompt::SYSTEM_FILE, &context.system_prompt);
            launch = launch.with_args([OsString::from("--append-system-prompt-file"), path.into()]);
        }
        Ok(launch)
    }

    fn acp(launch: Launch, context: &SessionContext) -> Result<Launch> {
        // No hooks: the protocol reports turns.
        let mut launch = with_home(launch, context, &[])?;
        // They go along in the request for a session. Here it is noted which stay.
        servers(&mut launch, context)?;
        // The adapter has no flag for the model.
        Ok(context
            .settings
            .model
            .iter()
            .fold(launch, |launch, model| launch.with_env("ANTHROPIC_MODEL", model)))
    }

    fn acp_meta(context: &SessionContext) -> serde_json::Map<String, Value> {
        let mut meta = serde_json::Map::new();
        if !context.system_prompt.is_empty() {
            meta.insert("systemPrompt".to_owned(), json!({ "append": context.system_prompt }));
        }
        // The adapter reads no file of tools. The protocol has its own place for servers, from which the adapter takes no more
        // than their commands.
        // A wrong setting has been reported by then.
        let mut servers = servers(&mut Launch::new(&context.program), context).unwrap_or_default();
        if let Some(mut entry) = tools::entry(context) {
            own_fields().into_iter().for_each(|(name, value)| entry[name] = value);
            servers.insert(tools::NAME.to_owned(), entry);
        }
        if !servers.is_empty() {
            meta.insert("claudeCode".to_owned(), json!({ "options": { "mcpServers": servers } }));
        }
        meta
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        Frame { top: '─', bottom: '─', mark: '❯', bar: None, hints: &[] }.read(screen)
    }

    fn from_title(title: &str) -> Vec<Fact> {
        match title.chars().next() {
            Some('✳') => vec![Fact::Status(Status::Idle)],
            Some('◐' | '◑' | '◒' | '◓') => vec![Fact::Status(Status::Processing)],
            _ => Vec::new(),
        }
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        from_screen(text)
    }

    fn from_transcript(line: &Value) -> Vec<Fact> {
        from_line(line)
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        from_line(line)
    }

    fn from_hook(event: &str, payload: &Value, _: Option<&str>) -> Vec<Fact> {
        from_hook(event, payload)
    }

    fn messages(line: &Value) -> Vec<Message> {
        message(line).into_iter().collect()
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        let id = agent::vendor_session::<Self>(context)?;
        // Claude Code derives the folder's name from the working directory. Only the id is certain, so every
        // folder is searched.
        let projects = fs::read_dir(context.home.join("projects")).ok()?;
        let mut files = projects.flatten().map(|entry| entry.path().join(format!("{id}.jsonl")));
        files.find(|path| path.is_file()).map(Transcript::json_lines)
    }
}

/// Returns the fields of a server of tools that Claude Code alone has.
fn own_fields() -> [(&'static str, Value); 2] {
    // Otherwise the tools of servers are left out of the first request, and the model has to search for them by name.
    [("type", "stdio".into()), ("alwaysLoad", true.into())]
}

/// Fills the session's `CLAUDE_CONFIG_DIR`: dialogs answered, hooks set, memory and model copied.
fn with_home(mut launch: Launch, context: &SessionContext, events: &[&str]) -> Result<Launch> {
    let trust = |name| (name, json!({ "hasTrustDialogAccepted": true }));
    let trusted: serde_json::Map<_, _> = settings::folders(context).into_iter().map(trust).collect();
    let mut state = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "bypassPermissionsModeAccepted": true,
        "projects": trusted,
    });
    if let Some(key) = settings::variable(context, "ANTHROPIC_API_KEY") {
        // Claude Code asks about a key from the environment and remembers the answer by its last 20
        // characters.
        let tail: Vec<char> = key.chars().rev().take(20).collect();
        let tail: String = tail.into_iter().rev().collect();
        state["customApiKeyResponses"] = json!({ "approved": [tail] });
    }
    // `disableDeepLinkRegistration` keeps Claude Code from registering itself with the desktop, in the user's
    // own folders.
    let mut options = json!({
        "skipDangerousModePermissionPrompt": true,
        "disableDeepLinkRegistration": "disable",
    });
    let mut hooks = hooks::table(context, events);

    if let Some(theirs) = agent::user_folder::<ClaudeCode>(context) {
        const NAMES: &[&str] = &["CLAUDE.md", "agents", "commands", "output-styles", "rules", "skills"];
        launch = carry::carry(launch, &theirs, "", NAMES);
        let settings = read(&theirs.join("settings.json")).unwrap_or_default();
        if let Some(model) = settings.get("model") {
            options["model"] = model.clone();
        }
        Opened::read(context)?.hooks(&mut launch, &mut hooks, settings.get("hooks"));
        if settings.get("enabledPlugins").and_then(Value::as_object).is_some_and(|all| !all.is_empty()) {
            launch.left.push(LeftBehind::new("plugins", "they are installed into your own folder"));
        }
        if let Some(account) = global(context).and_then(|all| all.get("oauthAccount").cloned()) {
            state["oauthAccount"] = account;
        }
    }
    if rustix::process::geteuid().is_root() {
        // Claude Code refuses root with permissions off, unless it is told that it is in a sandbox.
        launch = launch.with_env("IS_SANDBOX", "1");
    }
    // `CLAUDECODE` is set if Watchfire itself was started by an agent. The new one must not take itself for
    // nested.
    launch = launch.with_env("CLAUDE_CONFIG_DIR", &context.home).without_env("CLAUDECODE");
    options["hooks"] = hooks;
    Ok(launch.with_file(".claude.json", state.to_string()).with_file("settings.json", options.to_string()))
}

/// Returns the person's own state of the program, which holds their account and servers.
fn global(context: &SessionContext) -> Option<Value> {
    // With the variable set the file is inside the folder, otherwise it is beside it in the person's home.
    let theirs = agent::user_folder::<ClaudeCode>(context)?;
    read(&theirs.join(".claude.json")).or_else(|| read(&context.user_home.as_ref()?.join(".claude.json")))
}

/// Returns the person's own servers of tools that go along: theirs for all projects, and for this one.
fn servers(launch: &mut Launch, context: &SessionContext) -> Result<Map<String, Value>> {
    let global = global(context).unwrap_or_default();
    let project = global.get("projects").and_then(|all| all.get(context.project_root.to_str()?));
    let of = |all: Option<&Value>| all.and_then(|all| all.get("mcpServers")?.as_object().cloned());
    let mut servers = of(Some(&global)).unwrap_or_default();
    servers.extend(of(project).unwrap_or_default());
    Opened::read(context)?.servers(launch, context, &mut servers);
    Ok(servers)
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn from_screen(text: &str) -> Vec<Fact> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Dialogs are at the bottom of the screen. Above them, the agent's own words may look like one.
    let bottom = lines.get(lines.len().saturating_sub(12)..).unwrap_or_default();
    let has = |part: &str| bottom.iter().any(|line| line.contains(part));
    let chosen = bottom
        .iter()
        .any(|line| line.starts_with("❯ 1.") || line.starts_with("❯ No, exit") || line.starts_with("❯ Yes"));
    if chosen
        && (lines.iter().any(|line| line.starts_with("Quick safety check:"))
            || has("Yes, I trust this folder"))
    {
        let issue = Issue::new(IssueKind::TrustDialog, "asks whether the folder is trusted");
        return vec![Fact::Status(Status::ActionRequired), Fact::Issue(issue)];
    }
    if chosen && (has("Esc to cancel") || has("Enter to confirm") || has("Yes, I accept")) {
        return vec![Fact::Status(Status::ActionRequired)];
    }
    // Without the bar another screen is shown, such as a menu, and its status is not known.
    let Some(bar) = lines.iter().rev().take(4).find(|line| line.contains("⏵⏵")) else {
        return Vec::new();
    };
    if bar.contains(BUSY) {
        return vec![Fact::Status(Status::Processing)];
    }
    let box_line = lines.iter().rposition(|line| line.starts_with('❯'));
    // Only the hint in the box is proof of a failed request; the text above could be the agent's.
    let failed = box_line
        .is_some_and(|at| RESEND.iter().any(|hint| lines.get(at).is_some_and(|line| line.contains(hint))));
    let mut facts = vec![Fact::Status(Status::Idle)];
    if failed {
        let above = lines.get(..box_line.unwrap_or(0)).unwrap_or_default();
        let start =
            above.iter().rposition(|line| line.starts_with('⎿') || line.starts_with('●')).unwrap_or(0);
        let said = above.get(start..).unwrap_or_default().iter().take_while(|line| !line.starts_with('─'));
        let said: Vec<&str> = said.map(|line| line.trim_start_matches(['⎿', '●', ' ', '\u{a0}'])).collect();
        let said = said.join(" ");
        facts.extend(screen_issue(&said).map(|kind| Fact::Issue(Issue::new(kind, said.clone()))));
    }
    facts
}

/// Returns the issue of a message from a place where only Claude Code itself writes.
fn screen_issue(said: &str) -> Option<IssueKind> {
    const TABLE: &[(&str, IssueKind)] = &[
        ("Not logged in", IssueKind::AuthRequired),
        ("Invalid API key", IssueKind::AuthRequired),
        ("OAuth token", IssueKind::AuthRequired),
        ("Credit balance", IssueKind::OutOfCredit),
        ("You've hit your", IssueKind::UsageLimit),
        ("Usage limit reached", IssueKind::UsageLimit),
        ("Request rejected (429)", IssueKind::RateLimited),
        ("API Error: 5", IssueKind::Overloaded),
        ("There's an issue with the selected model", IssueKind::ModelUnknown),
        ("Prompt is too long", IssueKind::ContextFull),
        ("Connection", IssueKind::Unreachable),
    ];
    TABLE
        .iter()
        .find(|(words, _)| {
            said.starts_with(words)
                || said.contains(&format!("· {words}"))
                || said.starts_with("API Error: ") && said.contains(words)
        })
        .map(|(_, kind)| *kind)
}

/// Reads a line of the transcript or of the stream, which have the same shapes.
fn from_line(line: &Value) -> Vec<Fact> {
    // Lines of a subagent: its turns are not the turns of the session.
    if json::flag(line, "isSidechain") || json::text(line, "parent_tool_use_id").is_some() {
        return Vec::new();
    }
    match (json::text(line, "type"), json::text(line, "subtype")) {
        (Some("system"), Some("init")) => {
            let id = json::text(line, "session_id").map(|id| Fact::VendorSession(id.into()));
            id.into_iter().chain([Fact::Status(Status::Processing)]).collect()
        }
        (Some("system"), Some("api_retry")) if json::number(line, "attempt") >= 3 => {
            let kind = match json::number(line, "error_status") {
                0 => Some(IssueKind::Unreachable),
                _ => json::text(line, "error").and_then(error_kind),
            };
            kind.map(|kind| Fact::Issue(Issue::new(kind, retry(line)))).into_iter().collect()
        }
        (Some("system"), Some("turn_duration")) => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        (Some("assistant"), _) => match api_error(line) {
            Some(issue) => {
                vec![Fact::Issue(issue), Fact::TurnCompleted, Fact::Status(Status::Error)]
            }
            // Written by the program, not by the model: no answer that would clear an issue.
            None if is_synthetic(line) => Vec::new(),
            None => issues::answered(Status::Processing),
        },
        (Some("user"), _) if json::flag(line, "isMeta") || is_local_command(line) => Vec::new(),
        (Some("user"), _) if is_interrupt(line) => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        (Some("user"), _) => vec![Fact::Status(Status::Processing)],
        (Some("result"), _) => {
            let failed = json::flag(line, "is_error");
            let status = if failed { Status::Error } else { Status::Idle };
            let mut facts = vec![Fact::TurnCompleted, Fact::Status(status)];
            let said = json::text(line, "result").unwrap_or("the request failed");
            let kind = issues::by_status(json::number(line, "api_error_status")).filter(|_| failed);
            // A used-up plan also has the status 429.
            let kind = kind.map(|kind| if is_limit(said) { IssueKind::UsageLimit } else { kind });
            facts.extend(kind.map(|kind| Fact::Issue(Issue::new(kind, said))));
            facts
        }
        _ => Vec::new(),
    }
}

/// Returns a request that is tried again, in words.
fn retry(line: &Value) -> String {
    let why = match json::number(line, "error_status") {
        0 => "no answer".to_owned(),
        status => format!("HTTP {status}"),
    };
    let number = |key| json::number(line, key);
    format!("{why}, retry {} of {}", number("attempt"), number("max_retries"))
}

fn is_synthetic(line: &Value) -> bool {
    json::text(line, "message.model") == Some("<synthetic>")
}

/// Returns the issue of an assistant line that stands for a failed request.
fn api_error(line: &Value) -> Option<Issue> {
    if !is_synthetic(line) {
        return None;
    }
    let said = message(line).map(|message| message.parts).unwrap_or_default();
    let said = said.into_iter().find_map(|part| match part {
        Part::Error { text, .. } | Part::Text { text, .. } => Some(text),
        _ => None,
    })?;
    let limit = json::text(line, "apiError") == Some("usage_limit_reached");
    let words = issues::by_words(&said);
    let kind = match words {
        _ if limit || is_limit(&said) => IssueKind::UsageLimit,
        // Its class is that of an error of the server.
        Some(IssueKind::Unreachable) => IssueKind::Unreachable,
        _ => json::text(line, "error")
            .and_then(error_kind)
            .or_else(|| issues::by_status(json::number(line, "apiErrorStatus")))
            .or(words)?,
    };
    let reset = json::at(line, "apiErrorParams.rate_limit_info.resetsAt").and_then(Value::as_i64);
    let issue = Issue::new(kind, said);
    Some(match reset {
        Some(seconds) => issue.with_reset_at(Timestamp::from_unix_millis(seconds.saturating_mul(1000))),
        None => issue,
    })
}

/// Returns true if an error is about the limit of the plan. The stream has one class for this and for too many
/// requests at once.
fn is_limit(said: &str) -> bool {
    said.starts_with("You've hit your") && said.contains(" limit")
}

fn error_kind(name: &str) -> Option<IssueKind> {
    Some(match name {
        "authentication_failed" | "oauth_org_not_allowed" | "permission_error" => IssueKind::AuthRequired,
        "billing_error" => IssueKind::OutOfCredit,
        "model_not_found" => IssueKind::ModelUnknown,
        "overloaded" | "overloaded_error" | "server_error" => IssueKind::Overloaded,
        "rate_limit" => IssueKind::RateLimited,
        _ => return None,
    })
}

/// Returns true for the line that Claude Code writes in the person's name when they interrupt a turn.
fn is_interrupt(line: &Value) -> bool {
    let blocks = json::list(json::at(line, "message.content"));
    blocks.iter().filter_map(|block| json::text(block, "text")).any(|text| text.starts_with(INTERRUPTED))
}

/// Returns true for a command that the person typed to the program, and for its output. Neither is a turn.
fn is_local_command(line: &Value) -> bool {
    let text = json::text(line, "message.content").unwrap_or_default();
    ["<local-command-", "<command-name>", "<command-message>", "<command-args>"]
        .iter()
        .any(|tag| text.starts_with(tag))
}

fn from_hook(event: &str, payload: &Value) -> Vec<Fact> {
    match event {
        "SessionStart" => {
            json::text(payload, "session_id").map(|id| Fact::VendorSession(id.into())).into_iter().collect()
        }
        "UserPromptSubmit" => vec![Fact::Status(Status::Processing)],
        "Notification" if json::text(payload, "notification_type") == Some("permission_prompt") => {
            vec![Fact::Status(Status::ActionRequired)]
        }
        "Stop" => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        "StopFailure" => {
            let said = json::text(payload, "last_assistant_message").unwrap_or("the request failed");
            let kind = match issues::by_words(said) {
                // It comes as "too many requests" or as a server error.
                Some(kind @ (IssueKind::UsageLimit | IssueKind::Unreachable)) => Some(kind),
                words => json::text(payload, "error").and_then(error_kind).or(words),
            };
            let issue = kind.map(|kind| Fact::Issue(Issue::new(kind, said)));
            issue.into_iter().chain([Fact::TurnCompleted, Fact::Status(Status::Error)]).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the message in a line. Lines with the same id are parts of one message, and each has the usage of the
/// whole.
fn message(line: &Value) -> Option<Message> {
    if json::text(line, "subtype") == Some("api_retry") {
        return Some(Message::new(Role::Assistant, vec![Part::error(retry(line))]));
    }
    let role = match json::text(line, "type")? {
        "assistant" => Role::Assistant,
        "user" => Role::User,
        _ => return None,
    };
    let skipped = json::flag(line, "isSidechain")
        || json::flag(line, "isMeta")
        || json::text(line, "parent_tool_use_id").is_some()
        || is_local_command(line);
    if skipped {
        return None;
    }
    let failed = is_synthetic(line);
    let text = |text: &str| match failed {
        true => Part::error(text),
        false => Part::text(text),
    };
    let content = json::at(line, "message.content")?;
    let parts: Vec<Part> = match content.as_str() {
        Some(whole) => vec![text(whole)],
        None => json::list(Some(content))
            .iter()
            .filter_map(|block| match json::text(block, "type")? {
                "text" => json::text(block, "text").map(text),
                "thinking" => Some(Part::thinking(json::text(block, "thinking")?.to_owned())),
                "tool_use" => Some(Part::tool_call(
                    json::text(block, "name")?.to_owned(),
                    json::summary(block.get("input").unwrap_or(&Value::Null)),
                )),
                "tool_result" => {
                    Some(Part::tool_result(result_text(block.get("content")?), json::flag(block, "is_error")))
                }
                _ => None,
            })
            .collect(),
    };
    if parts.is_empty() {
        return None;
    }
    // Results of tools come in the person's name.
    let only_results = parts.iter().all(|part| matches!(part, Part::ToolResult { .. }));
    let mut message = Message::new(if only_results { Role::Tool } else { role }, parts);
    message.id = json::text(line, "message.id").map(str::to_owned);
    message.at = json::moment(line, "timestamp");
    if role == Role::Assistant && !failed {
        message.model = json::text(line, "message.model").map(str::to_owned);
        let names =
            ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
        message.usage = json::usage(line, "message.usage", names);
    }
    Some(message)
}

fn result_text(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let texts = json::list(Some(content)).iter().filter_map(|block| json::text(block, "text"));
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}
