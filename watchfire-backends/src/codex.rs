//! Codex, by OpenAI.
//!
//! Runs `codex` in a session home of its own (`CODEX_HOME`), with the person's configuration, the folder trusted,
//! update checks off and the composed prompt as developer instructions. Their `AGENTS.md`, prompts and skills are
//! copied, and so is their `auth.json`, which is carried back if Codex renewed it. Codex runs without its daemon,
//! which would outlive the session.
//!
//! Settings: `path`, `args`, `model`, `env`, `pass_env`, and `transport` (`pty`, `stream` or `acp`). With `acp` the
//! program is `codex-acp`, which brings a Codex of its own. Keep the data directory out of the system's temporary
//! folder: Codex refuses to put helpers there.

use std::fs;

use serde_json::Value;
use toml_edit::{DocumentMut, Item, value};
use watchfire_core::backend::{
    Delivery, Fact, InputBox, Issue, IssueKind, Launch, LeftBehind, Message, Part, Role, SessionContext,
    Status, Transcript,
};
use watchfire_core::terminal::Snapshot;
use watchfire_core::{Error, ErrorKind, Result};

use crate::agent::{
    self, Acp, Adapter, Agent, Can, Flags, Folder, Login, Table, Transports, implement_backend,
};
use crate::common::own::{self, Opened};
use crate::common::{carry, glob, hooks, input_box, issues, json, locate, settings, tools};

implement_backend!(Codex);

const USAGE: [&str; 4] = ["input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens"];
/// Key of the configuration for the program that Codex runs at the end of a turn, and the name of our event.
const NOTIFY: &str = "notify";
const BUSY: &str = "esc to interrupt";

/// Codex: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Codex;

impl Agent for Codex {
    const OPTIONS: &'static [&'static str] = &["transport", "carry"];

    const TABLE: Table = Table {
        name: "codex",
        aliases: &[],
        display_name: "Codex",
        install: "npm install -g @openai/codex",
        program: "codex",
        places: &[],
        tested: "0.169.0",
        secrets: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        passed: &["OPENAI_BASE_URL"],
        quiet: &[],
        can: Can { system_prompt: true, hooks: true, usage: true, transports: Transports::Both },
        paste_limit: 32 * 1024,
        ready: &["Ask Codex to do anything"],
        busy: &[BUSY],
        flags: Flags { model: "-m", session: None, resume: Some("resume"), prompt: "", stream_prompt: "" },
        folder: Some(Folder { variable: "CODEX_HOME", below: "", usual: ".codex" }),
        login: Some(Login {
            real: "auth.json",
            session: "auth.json",
            copied: true,
            issued: |login| json::moment(login, "last_refresh").map(|at| at.unix_millis()),
        }),
        sign_in: Some(&["login"]),
        sessions: &["sessions"],
    };

    const ACP: Option<Acp> = Some(Acp {
        adapter: Some(Adapter {
            program: "codex-acp",
            install: "npm install -g @zed-industries/codex-acp",
            tested: "0.16.0",
        }),
        mode: Some("full-access"),
    });

    fn delivery() -> Delivery {
        Delivery::default().with_interrupt(*b"\x1b").with_quit(*b"\x04")
    }

    fn launch(mut launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch> {
        let config = config(&mut launch, context, stream)?;
        let launch = launch
            .with_env("CODEX_HOME", &context.home)
            .with_file("config.toml", config.to_string())
            .with_args(match stream {
                true => &["exec", "--json", "--skip-git-repo-check"][..],
                false if has_daemon(context) => &["--no-daemon"],
                false => &[],
            });
        Ok(carried(launch, context).with_arg("--dangerously-bypass-approvals-and-sandbox"))
    }

    fn acp(mut launch: Launch, context: &SessionContext) -> Result<Launch> {
        let mut config = config(&mut launch, context, true)?;
        // The adapter has no `--dangerously-bypass-approvals-and-sandbox`. These two settings have the same
        // effect.
        config["approval_policy"] = value("never");
        config["sandbox_mode"] = value("danger-full-access");
        if let Some(model) = &context.settings.model {
            config["model"] = value(model);
        }
        let launch = launch.with_env("CODEX_HOME", &context.home);
        Ok(carried(launch, context).with_file("config.toml", config.to_string()))
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        let Some(rows) = input_box::last(screen, '›') else { return InputBox::Absent };
        // Below the box are an empty line and one about keys. Below a dialog is a line that says how to
        // answer.
        let footer: String =
            (rows.end..screen.size.rows()).map(|row| screen.row_text(row).to_lowercase()).collect();
        match ["press enter", "enter to ", "esc to cancel"].iter().any(|how| footer.contains(how)) {
            true => InputBox::Absent,
            false => input_box::text(screen, rows, 2, &[]),
        }
    }

    fn from_title(title: &str) -> Vec<Fact> {
        match title.chars().next() {
            // Braille patterns: the frames of the spinner.
            Some('\u{2800}'..='\u{28ff}') => vec![Fact::Status(Status::Processing)],
            _ if title.contains("Action Required") => vec![Fact::Status(Status::ActionRequired)],
            _ => Vec::new(),
        }
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        from_screen(text)
    }

    fn from_transcript(line: &Value) -> Vec<Fact> {
        from_rollout(line)
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        from_stream(line)
    }

    /// Reads a notification. Codex sends one for every thread, also for the one that makes up a title, and it says
    /// only that a turn has ended. How the turn ended, and when the next one begins, is in the rollout.
    fn from_hook(event: &str, notice: &Value, session: Option<&str>) -> Vec<Fact> {
        let ours = session.is_some() && json::text(notice, "thread-id") == session;
        let ended = event == NOTIFY && json::text(notice, "type") == Some("agent-turn-complete");
        (ours && ended).then_some(Fact::TurnCompleted).into_iter().collect()
    }

    fn messages(line: &Value) -> Vec<Message> {
        let message = match json::text(line, "type") {
            Some("response_item") => line.get("payload").and_then(|payload| item(payload, line)),
            // Not a message: it only names the model for the counts after it.
            Some("turn_context") => json::text(line, "payload.model").map(|model| {
                let mut message = Message::new(Role::System, Vec::new());
                message.model = Some(model.to_owned());
                message
            }),
            Some("token_usage_record") => {
                usage(line, "payload.usage", json::text(line, "payload.response_id"))
            }
            // Older versions have no usage records and no numbered lines. They repeat the growing sum, so the
            // fixed id lets each count replace the one before.
            Some("event_msg") if line.get("ordinal").is_none() => {
                usage(line, "payload.info.total_token_usage", Some("total"))
            }
            Some("item.completed") => line.get("item").and_then(stream_item),
            Some("turn.completed") => usage(line, "usage", None),
            Some("turn.failed") => json::text(line, "error.message").map(error),
            Some("error") => json::text(line, "message").filter(|said| said.starts_with(RETRY)).map(error),
            _ => None,
        };
        message.into_iter().collect()
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        // The file of a resumed session keeps its id. For a new session there is only one file, because the
        // home is new.
        let id = context.resume.as_deref().unwrap_or("");
        let pattern = context.home.join(format!("sessions/*/*/*/rollout-*{id}.jsonl"));
        glob::only(&pattern).map(Transcript::json_lines)
    }
}

/// Returns true if this version of Codex starts a daemon that outlives the session. Older versions do not know the
/// flag that forbids it.
fn has_daemon(context: &SessionContext) -> bool {
    const FIRST: [u32; 2] = [0, 156];
    let version = locate::version(&context.program);
    let numbers: Option<Vec<u32>> =
        version.and_then(|version| version.split('.').take(2).map(|part| part.parse().ok()).collect());
    // An unknown version counts as a recent one: the daemon of a recent one must not outlive the session.
    numbers.is_none_or(|numbers| numbers.as_slice() >= FIRST.as_slice())
}

/// Adds copies of the person's own instructions, prompts and skills.
fn carried(launch: Launch, context: &SessionContext) -> Launch {
    const NAMES: &[&str] = &["AGENTS.md", "AGENTS.override.md", "prompts", "skills"];
    match agent::user_folder::<Codex>(context) {
        Some(theirs) => carry::carry(launch, &theirs, "", NAMES),
        None => launch,
    }
}

/// Returns the person's configuration with the session's own settings in it, without what stays behind.
fn config(launch: &mut Launch, context: &SessionContext, stream: bool) -> Result<DocumentMut> {
    let path = agent::user_folder::<Codex>(context).map(|folder| folder.join("config.toml"));
    let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let mut config: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let message = error.message().to_owned();
        let error =
            Error::new(ErrorKind::Malformed, "reading the configuration of codex").with("problem", message);
        path.iter().fold(error, Error::with_path)
    })?;
    config["check_for_update_on_startup"] = value(false);
    if config.remove(NOTIFY).is_some() {
        launch.left.push(LeftBehind::new(NOTIFY, own::OWN_SESSIONS));
    }
    if agent::user_folder::<Codex>(context).is_some_and(|folder| folder.join("hooks.json").exists()) {
        launch.left.push(LeftBehind::new("hooks", own::OWN_SESSIONS));
    }
    let opened = Opened::read(context)?;
    if let Some(servers) = config.get_mut("mcp_servers").and_then(Item::as_table_like_mut) {
        let stays = |(name, server): (&str, &Item)| {
            let mut values = Vec::new();
            gather("", server, &mut values);
            let command = server.get("command").and_then(Item::as_str);
            (!opened.takes_server(launch, context, name, command, values)).then(|| name.to_owned())
        };
        for name in servers.iter().filter_map(stays).collect::<Vec<_>>() {
            servers.remove(&name);
        }
    }
    // A stream reports the ends of turns itself.
    if let Some(words) = hooks::words(context, NOTIFY).filter(|_| !stream) {
        config[NOTIFY] = value(words.into_iter().collect::<toml_edit::Array>());
    }
    if !context.system_prompt.is_empty() {
        let theirs = config.get("developer_instructions").and_then(Item::as_str).unwrap_or_default();
        let both = [theirs, &context.system_prompt].map(str::trim_end).join("\n\n");
        config["developer_instructions"] = value(both.trim_start());
    }
    if let Some((command, args)) = tools::words(context) {
        let servers = config.entry("mcp_servers").or_insert(toml_edit::table());
        // A person's configuration may have another type here.
        if let Some(servers) = servers.as_table_like_mut() {
            let mut server = toml_edit::Table::new();
            server.insert("command", value(command));
            server.insert("args", value(args.into_iter().collect::<toml_edit::Array>()));
            servers.insert(tools::NAME, Item::Table(server));
        }
    }
    let projects = config.entry("projects").or_insert(toml_edit::table());
    for folder in settings::folders(context) {
        // A person's configuration may have another type here. Codex then asks for trust itself.
        let Some(projects) = projects.as_table_like_mut() else { continue };
        let project = projects.entry(&folder).or_insert(toml_edit::table());
        if let Some(project) = project.as_table_like_mut() {
            project.insert("trust_level", value("trusted"));
        }
    }
    Ok(config)
}

/// Collects the texts in an item, each with the name of the field that holds it.
fn gather<'a>(name: &'a str, item: &'a Item, found: &mut Vec<(&'a str, &'a str)>) {
    if let Some(text) = item.as_str() {
        found.push((name, text));
    }
    let words = item.as_array().into_iter().flatten();
    found.extend(words.filter_map(|word| Some((name, word.as_str()?))));
    if let Some(table) = item.as_value().and_then(toml_edit::Value::as_inline_table) {
        found.extend(table.iter().filter_map(|(name, value)| Some((name, value.as_str()?))));
    }
    for (name, item) in item.as_table().into_iter().flat_map(toml_edit::Table::iter) {
        gather(name, item, found);
    }
}

fn from_screen(text: &str) -> Vec<Fact> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let has = |part: &str| lines.iter().any(|line| line.starts_with(part));
    if has("› 1. Trust and continue") {
        let issue = Issue::new(IssueKind::TrustDialog, "asks whether the folder is trusted");
        return vec![Fact::Status(Status::ActionRequired), Fact::Issue(issue)];
    }
    if has("  Welcome to Codex") && lines.iter().any(|line| line.contains("Sign in with ChatGPT")) {
        let issue = Issue::new(IssueKind::AuthRequired, "asks to sign in");
        return vec![Fact::Status(Status::ActionRequired), Fact::Issue(issue)];
    }
    // Without an input line the screen shows something else, and the status is not known.
    let Some(input) = lines.iter().rposition(|line| line.starts_with('›')) else { return Vec::new() };
    let above = lines.get(..input).unwrap_or_default();
    let mut last = above.iter().rev().take(4).filter_map(|line| line.strip_prefix(['•', '◦']));
    if let Some(said) = last.find(|said| said.contains(BUSY)) {
        return [Fact::Status(Status::Processing)]
            .into_iter()
            .chain(retry_issue(said.trim_start()))
            .collect();
    }
    // Codex writes an error right above the input, at the left edge. The agent's words and its output are
    // indented or begin with a dot.
    let mut facts = vec![Fact::Status(Status::Idle)];
    let start = above.iter().rposition(|line| line.starts_with(['•', '■', '›', '─']));
    if let Some(block) = start.and_then(|start| above.get(start..)) {
        let said = block.join(" ");
        if let Some(said) = said.strip_prefix('■') {
            let said = said.trim();
            facts.extend(issues::by_words(said).map(|kind| Fact::Issue(Issue::new(kind, said))));
        }
    }
    facts
}

/// Beginning of the message about a request that is tried again, and of the row about it on the screen.
const RETRY: &str = "Reconnecting...";
/// Attempt from which a retry is worth a person's attention.
const MANY: u32 = 3;

/// Returns the issue of a request that was tried again and again, or that waits for the network.
fn retry_issue(said: &str) -> Option<Fact> {
    let rest = said.strip_prefix(RETRY)?.trim_start();
    let attempt = rest.split_once('/').and_then(|(attempt, _)| attempt.parse::<u32>().ok());
    if attempt.is_none_or(|attempt| attempt < MANY) && !rest.starts_with("waiting for network") {
        return None;
    }
    let kind = issues::by_words(rest).unwrap_or(IssueKind::Unreachable);
    // On the screen the time since the start of the turn follows.
    let said =
        said.split_once(BUSY).and_then(|(said, _)| said.rsplit_once('(')).map_or(said, |(said, _)| said);
    Some(Fact::Issue(Issue::new(kind, said.trim_end())))
}

fn error(said: &str) -> Message {
    Message::new(Role::Assistant, vec![Part::error(said)])
}

fn from_rollout(line: &Value) -> Vec<Fact> {
    match (json::text(line, "type"), json::text(line, "payload.type")) {
        (Some("session_meta"), _) => {
            json::text(line, "payload.id").map(|id| Fact::VendorSession(id.into())).into_iter().collect()
        }
        (Some("event_msg"), Some("task_started")) => vec![Fact::Status(Status::Processing)],
        (Some("event_msg"), Some("task_complete")) => match json::at(line, "payload.error") {
            Some(error) if error.is_object() => {
                let said = json::text(error, "message").unwrap_or_default();
                issues::failed_turn(error_kind(error), said)
            }
            _ => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        },
        (Some("event_msg"), Some("turn_aborted")) => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        (Some("response_item"), Some("message")) if json::text(line, "payload.role") == Some("assistant") => {
            issues::answered(Status::Processing)
        }
        (Some("response_item"), Some("function_call" | "custom_tool_call")) => {
            issues::answered(Status::Processing)
        }
        _ => Vec::new(),
    }
}

fn error_kind(error: &Value) -> Option<IssueKind> {
    let said = json::text(error, "message").unwrap_or_default();
    // The words come first: Codex's own class of error is the same for a plan's limit and an empty account.
    issues::by_words(said).or_else(|| {
        let classes = json::at(error, "codex_error_info")?.as_object()?;
        // The class is a key whose name varies. The provider's status is inside.
        classes.values().find_map(|class| issues::by_status(json::number(class, "http_status_code")))
    })
}

fn from_stream(line: &Value) -> Vec<Fact> {
    match json::text(line, "type") {
        Some("thread.started") => {
            json::text(line, "thread_id").map(|id| Fact::VendorSession(id.into())).into_iter().collect()
        }
        Some("turn.started") => vec![Fact::Status(Status::Processing)],
        // An error item is no answer of the model, and must not clear its issues.
        Some("item.completed") if json::text(line, "item.type") != Some("error") => {
            issues::answered(Status::Processing)
        }
        Some("turn.completed") => vec![Fact::TurnCompleted, Fact::Status(Status::Idle)],
        Some("error") => json::text(line, "message").and_then(retry_issue).into_iter().collect(),
        Some("turn.failed") => {
            let said = json::text(line, "error.message").unwrap_or_default();
            issues::failed_turn(issues::by_words(said), said)
        }
        _ => Vec::new(),
    }
}

/// Returns a message or a tool call of the rollout, except for texts that Codex itself sends to the model.
fn item(payload: &Value, line: &Value) -> Option<Message> {
    let (role, parts) = match json::text(payload, "type")? {
        "message" => {
            let role = match json::text(payload, "role")? {
                "assistant" => Role::Assistant,
                "user" => Role::User,
                _ => return None,
            };
            let texts = json::list(payload.get("content")).iter().filter_map(|part| json::text(part, "text"));
            let text = texts.collect::<Vec<_>>().join("\n");
            // These come with the role `user`, but the person did not write them.
            let added = ["# AGENTS.md instructions", "<environment_context>", "<user_instructions>"];
            if role == Role::User && added.iter().any(|start| text.starts_with(start)) {
                return None;
            }
            (role, vec![Part::text(text)])
        }
        "function_call" | "custom_tool_call" => {
            let input = ["arguments", "input"].iter().find_map(|key| json::text(payload, key)).unwrap_or("");
            // The arguments of a function are JSON inside a text; those of a custom tool are any text.
            let parsed = json::object(input);
            let input = parsed.as_ref().map_or_else(|| json::one_line(input), json::summary);
            (Role::Assistant, vec![Part::tool_call(json::text(payload, "name")?, input)])
        }
        "function_call_output" | "custom_tool_call_output" => {
            let text = json::text(payload, "output")?.to_owned();
            // Only these words in the output say that a command failed.
            let failed =
                text.contains("Process exited with code ") && !text.contains("Process exited with code 0");
            (Role::Tool, vec![Part::tool_result(text, failed)])
        }
        "reasoning" => {
            let texts = json::list(payload.get("summary")).iter().filter_map(|part| json::text(part, "text"));
            let text = texts.collect::<Vec<_>>().join("\n");
            (Role::Assistant, vec![Part::thinking(text)])
        }
        _ => return None,
    };
    let mut message = Message::new(role, parts);
    message.at = json::moment(line, "timestamp");
    Some(message)
}

fn stream_item(item: &Value) -> Option<Message> {
    let text = |key: &str| json::text(item, key).unwrap_or_default().to_owned();
    let parts = match json::text(item, "type")? {
        "agent_message" => vec![Part::text(text("text"))],
        "reasoning" => vec![Part::thinking(text("text"))],
        "command_execution" => {
            let failed = json::at(item, "exit_code").is_some_and(|code| *code != 0);
            vec![
                Part::tool_call("command", json::one_line(&text("command"))),
                Part::tool_result(text("aggregated_output"), failed),
            ]
        }
        "file_change" | "mcp_tool_call" | "web_search" => {
            vec![Part::tool_call(text("type"), json::summary(item))]
        }
        _ => return None,
    };
    let mut message = Message::new(Role::Assistant, parts);
    message.id = json::text(item, "id").map(str::to_owned);
    Some(message)
}

/// Returns a message that holds only token counts.
fn usage(line: &Value, path: &str, id: Option<&str>) -> Option<Message> {
    let mut message = Message::new(Role::Assistant, Vec::new());
    message.usage = Some(json::usage_with_cache(line, path, USAGE)?);
    message.id = id.map(str::to_owned);
    message.at = json::moment(line, "timestamp");
    Some(message)
}
