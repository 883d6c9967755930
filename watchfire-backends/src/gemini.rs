//! Gemini CLI, by Google.
//!
//! Runs `gemini` in a session home of its own (`GEMINI_CLI_HOME`), with the person's settings without their hooks,
//! folder trust and updates off, and the composed prompt behind their own `GEMINI.md`, which Gemini puts into its
//! system instruction. It gives up on a request after five attempts and reports that, unless the person's settings
//! say otherwise. (`GEMINI_SYSTEM_MD` would replace the whole system instruction, with its guidance about tools.) The
//! person's OAuth credentials are linked.
//!
//! Settings: `path`, `args`, `model`, `env`, `pass_env`, and `transport` (`pty`, `stream` or `acp`).

use std::borrow::Cow;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire_core::Result;
use watchfire_core::backend::{
    Delivery, Fact, InputBox, Issue, IssueKind, Launch, LeftBehind, Message, Part, PromptDelivery, Readiness,
    Role, SessionContext, Status, Transcript,
};
use watchfire_core::terminal::Snapshot;

use crate::agent::{self, Acp, Agent, Can, Flags, Folder, Login, Table, Transports, implement_backend};
use crate::common::input_box::Frame;
use crate::common::own::Opened;
use crate::common::{carry, glob, hooks, issues, json, settings, tools};

implement_backend!(Gemini);

const HOOKS: &[&str] = &["AfterAgent", "SessionStart"];
const SECRETS: &[&str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY"];
const MEMORY: &str = "GEMINI.md";
/// Number of attempts before Gemini reports that it gets no answer. They take about a minute.
const ATTEMPTS: u64 = 5;
const USAGE: [&str; 4] = ["input", "output", "cached", ""];

/// Gemini's message when it gets no answer, for any reason.
const HIGH_DEMAND: &str = "We are currently experiencing high demand";

/// Gemini CLI: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Gemini;

impl Agent for Gemini {
    const OPTIONS: &'static [&'static str] = &["transport", "carry"];

    const TABLE: Table = Table {
        name: "gemini",
        aliases: &[],
        display_name: "Gemini CLI",
        install: "npm install -g @google/gemini-cli",
        program: "gemini",
        places: &[],
        tested: "0.61.0",
        secrets: SECRETS,
        passed: &[
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        quiet: &[],
        can: Can { system_prompt: true, hooks: true, usage: true, transports: Transports::Both },
        // Longer texts arrive whole too, but are drawn so slowly that the next submit key can be lost.
        paste_limit: 8 * 1024,
        ready: &["Type your message or @path"],
        busy: &["esc to cancel"],
        flags: Flags {
            model: "-m",
            session: Some("--session-id"),
            resume: Some("--resume"),
            prompt: "-i",
            stream_prompt: "-p",
        },
        folder: Some(Folder { variable: "GEMINI_CLI_HOME", below: ".gemini", usual: ".gemini" }),
        login: Some(Login {
            real: "oauth_creds.json",
            session: ".gemini/oauth_creds.json",
            copied: false,
            issued: |login| json::at(login, "expiry_date")?.as_i64(),
        }),
        // Without a login it asks how to authenticate.
        sign_in: Some(&[]),
        sessions: &[".gemini/tmp", ".gemini/projects.json"],
    };

    const ACP: Option<Acp> = Some(Acp { adapter: None, mode: Some("yolo") });

    fn prompt(launch: Launch, line: String, context: &SessionContext, stream: bool) -> Launch {
        match (stream, &context.resume) {
            (true, _) => launch.with_args([Self::TABLE.flags.stream_prompt, &line]),
            // Gemini sends a prompt from the command line before it restores the conversation, so the model
            // would know nothing of it.
            (false, Some(_)) => launch.with_prompt(PromptDelivery::Typed(line)),
            (false, None) => launch.with_args([Self::TABLE.flags.prompt, &line]),
        }
    }

    fn delivery() -> Delivery {
        // An Enter that Gemini takes as part of the text only breaks the line. The long pause is for busy
        // machines.
        Delivery::default()
            .with_settle(Duration::from_millis(750), Duration::from_millis(1500))
            .with_interrupt(*b"\x1b")
            .with_quit(*b"\x03\x03")
    }

    fn launch(launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch> {
        // A stream reports its turns itself.
        let events = if stream { &[] } else { HOOKS };
        let launch = with_home(launch.with_env("GEMINI_CLI_HOME", &context.home), context, events)?;
        let launch = with_folders(launch, context).with_args(["--yolo", "--skip-trust"]);
        let launch = match &context.resume {
            Some(_) if !stream => launch.with_readiness(restored()),
            _ => launch,
        };
        Ok(if stream { launch.with_args(["--output-format", "stream-json"]) } else { launch })
    }

    fn acp(launch: Launch, context: &SessionContext) -> Result<Launch> {
        let launch = with_home(launch.with_env("GEMINI_CLI_HOME", &context.home), context, &[])?;
        let launch = with_folders(launch, context).with_args(["--yolo", "--skip-trust", "--acp"]);
        Ok(context.settings.model.iter().fold(launch, |launch, model| launch.with_args(["-m", model])))
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        Frame { top: '▄', bottom: '▀', mark: '*', bar: None, hints: &["Type your message or @path"] }
            .read(screen)
    }

    fn from_title(title: &str) -> Vec<Fact> {
        let status = match title.chars().next() {
            Some('◇') => Status::Idle,
            Some('✦' | '⏲') => Status::Processing,
            Some('✋') => Status::ActionRequired,
            _ => return Vec::new(),
        };
        vec![Fact::Status(status)]
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        from_screen(text)
    }

    fn from_transcript(line: &Value) -> Vec<Fact> {
        from_chat(line)
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        from_stream(line)
    }

    /// Reads a hook. There is none for interrupted turns, so the status comes from the title.
    fn from_hook(event: &str, payload: &Value, _: Option<&str>) -> Vec<Fact> {
        match event {
            "AfterAgent" => vec![Fact::TurnCompleted],
            "SessionStart" => session(payload, "session_id").into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn messages(line: &Value) -> Vec<Message> {
        match json::text(line, "type") {
            Some("user" | "gemini") => record(line),
            Some("message" | "tool_use" | "tool_result" | "result") => event(line).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn transcript(context: &SessionContext) -> Option<Transcript> {
        let id = agent::vendor_session::<Self>(context)?;
        // The file's name has only the first part of the id.
        let start = id.split('-').next().unwrap_or(&id);
        let pattern = context.home.join(format!(".gemini/tmp/*/chats/session-*-{start}.jsonl"));
        glob::only(&pattern).map(Transcript::json_lines)
    }
}

/// Returns the sign that the conversation is there again. Gemini shows its box before: what is typed there goes to the model
/// without the conversation.
fn restored() -> Readiness {
    // Marks of what the model said, of what it was told, and the end of a tool's box.
    let any_of = ["✦ ", "\n > ", "╰─"].map(str::to_owned).into();
    Readiness::screen(any_of, ["esc to cancel", "Resuming session"].map(str::to_owned).into(), agent::READY)
}

/// Names the folders beside the working directory that the agent's own tools may open: the session's files, and the
/// session's home, where long prompts are.
fn with_folders(launch: Launch, context: &SessionContext) -> Launch {
    let folders = [&context.session_dir, &context.home].into_iter();
    // Gemini splits the value at commas.
    let folders = folders.filter(|folder| folder.is_absolute() && !folder.to_string_lossy().contains(','));
    folders.fold(launch, |launch, folder| launch.with_arg("--include-directories").with_arg(folder))
}

/// Fills the session's home with settings, hooks, memory, and the person's agents, commands and skills.
fn with_home(mut launch: Launch, context: &SessionContext, events: &[&str]) -> Result<Launch> {
    let theirs = agent::user_folder::<Gemini>(context);
    let read = |name: &str| theirs.as_ref().and_then(|folder| fs::read_to_string(folder.join(name)).ok());
    let mut options: Value =
        read("settings.json").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if !options.is_object() {
        options = json!({});
    }
    let ours: [([&str; 2], Value); 5] = [
        (["security", "folderTrust"], json!({ "enabled": false })),
        (["general", "enableAutoUpdate"], false.into()),
        (["general", "enableAutoUpdateNotification"], false.into()),
        (["privacy", "usageStatisticsEnabled"], false.into()),
        (["context", "fileName"], json!([MEMORY, "AGENTS.md"])),
    ];
    // By default Gemini retries for minutes, reports none of that, and then goes on with the same.
    let usual: [([&str; 2], Value); 2] =
        [(["general", "maxAttempts"], ATTEMPTS.into()), (["ui", "errorVerbosity"], "full".into())];
    let usual = usual.into_iter().filter(|(path, _)| json::at(&options, &path.join(".")).is_none());
    // Ours last: unlike `usual`, they hold whatever the person's settings say.
    for ([group, name], value) in usual.collect::<Vec<_>>().into_iter().chain(ours) {
        if !options[group].is_object() {
            options[group] = json!({});
        }
        options[group][name] = value;
    }
    // Without a choice Gemini would ask how to authenticate.
    if json::at(&options, "security.auth.selectedType").is_none() {
        let key = SECRETS.iter().any(|name| settings::variable(context, name).is_some());
        let kind = if key { "gemini-api-key" } else { "oauth-personal" };
        options["security"]["auth"] = json!({ "selectedType": kind });
    }
    let opened = Opened::read(context)?;
    if let Some(servers) = options.get_mut("mcpServers").and_then(Value::as_object_mut) {
        opened.servers(&mut launch, context, servers);
    }
    let mut all_hooks = hooks::table(context, events);
    opened.hooks(&mut launch, &mut all_hooks, options.get("hooks"));
    let extensions = theirs.as_ref().map(|folder| folder.join("extensions"));
    if extensions.and_then(|folder| fs::read_dir(folder).ok()).is_some_and(|mut all| all.next().is_some()) {
        launch.left.push(LeftBehind::new("extensions", "they are installed into your own folder"));
    }
    if let Some(mut server) = tools::entry(context) {
        if !options["mcpServers"].is_object() {
            options["mcpServers"] = json!({});
        }
        // Without trust, Gemini would ask before each call.
        server["trust"] = true.into();
        options["mcpServers"][tools::NAME] = server;
    }
    if let Some(options) = options.as_object_mut() {
        options.insert("hooks".into(), all_hooks);
    }
    let memory = [read(MEMORY).unwrap_or_default(), as_it_is(&context.system_prompt).into_owned()];
    let launch = match &theirs {
        Some(theirs) => carry::carry(launch, theirs, ".gemini", &["agents", "commands", "skills"]),
        None => launch,
    };
    Ok(launch
        .with_file(".gemini/settings.json", options.to_string())
        .with_file(format!(".gemini/{MEMORY}"), memory.join("\n\n").trim_start()))
}

/// Returns a text that Gemini puts into its system instruction unchanged. In memory files, Gemini reads a word that
/// begins with `@` as a file to import, and replaces it by an error if it cannot read that file. Inside code it does
/// not.
fn as_it_is(text: &str) -> Cow<'_, str> {
    let is_import = |word: &str| {
        let path = word.strip_prefix('@').and_then(|path| path.chars().next());
        path.is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '.' | '/'))
    };
    if !text.split_ascii_whitespace().any(is_import) {
        return text.into();
    }
    // The fence is longer than any run of backticks in the text, which would end the code.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("These are your instructions, word for word:\n\n{fence}text\n{text}\n{fence}\n").into()
}

fn from_screen(text: &str) -> Vec<Fact> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let asks = |question: &str, answer: &str| {
        // A dialog is at the bottom of the screen, in a frame, with one answer chosen.
        let framed = |line: &str| {
            line.trim_start().strip_prefix('│').map(|line| line.trim_matches([' ', '│']).to_owned())
        };
        let bottom = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
        let inside: Vec<String> = bottom.iter().filter_map(|line| framed(line)).collect();
        inside.iter().any(|line| line.starts_with(question))
            && inside.iter().any(|line| line.starts_with(answer))
    };
    let blocked =
        |kind, said: &str| vec![Fact::Status(Status::ActionRequired), Fact::Issue(Issue::new(kind, said))];
    if asks("Do you trust the files in this folder?", "● 1. Trust folder") {
        return blocked(IssueKind::TrustDialog, "asks whether the folder is trusted");
    }
    if asks("Usage limit reached", "● 1. Keep trying") {
        return blocked(IssueKind::UsageLimit, "Usage limit reached");
    }
    if asks(HIGH_DEMAND, "● 1. Keep trying") {
        return blocked(IssueKind::Overloaded, HIGH_DEMAND);
    }
    for question in ["It seems like you don't have access to", "Model \""] {
        if asks(question, "● 1. Keep trying") {
            return blocked(IssueKind::ModelUnknown, "the model is unknown, or not for this account");
        }
    }
    if asks("How would you like to authenticate", "● 1.") {
        return blocked(IssueKind::AuthRequired, "asks how to authenticate");
    }
    // Without a login and a browser it asks before it draws anything else.
    if lines.last().is_some_and(|line| line.starts_with("Enter the authorization code:")) {
        return blocked(IssueKind::AuthRequired, "asks for an authorization code");
    }
    // The model's words begin with another mark than an error, and the output of tools is in a frame or
    // indented.
    let start =
        lines.iter().rposition(|line| line.starts_with(['✦', '✕', '╭', '│']) || line.starts_with(" > "));
    let Some(block) = start.and_then(|start| lines.get(start..)) else { return Vec::new() };
    let Some(first) = block.first().and_then(|line| line.strip_prefix("✕ [API Error:")) else {
        return Vec::new();
    };
    let rest = block.iter().skip(1).take_while(|line| line.starts_with("  "));
    let said = [first.trim()].into_iter().chain(rest.map(|line| line.trim())).collect::<Vec<_>>().join(" ");
    let kind = issues::by_words(&said);
    // No status: the title reports it.
    kind.map(|kind| Fact::Issue(Issue::new(kind, words(&format!("[API Error: {said}")))))
        .into_iter()
        .collect()
}

/// Reads a line of the chat. The chat does not record the end of a turn, so it gives no status either.
fn from_chat(line: &Value) -> Vec<Fact> {
    match json::text(line, "type") {
        Some("gemini") => issues::cleared(),
        Some("user") => Vec::new(),
        _ => session(line, "sessionId").into_iter().collect(),
    }
}

fn session(value: &Value, key: &str) -> Option<Fact> {
    json::text(value, key).map(|id| Fact::VendorSession(id.into()))
}

fn from_stream(line: &Value) -> Vec<Fact> {
    match json::text(line, "type") {
        Some("init") => session(line, "session_id").into_iter().collect(),
        Some("message") if json::text(line, "role") == Some("assistant") => {
            issues::answered(Status::Processing)
        }
        Some("message" | "tool_use" | "tool_result") => vec![Fact::Status(Status::Processing)],
        Some("result") if json::text(line, "status") == Some("success") => {
            vec![Fact::TurnCompleted, Fact::Status(Status::Idle)]
        }
        Some("result") => {
            let said = json::text(line, "error.message").unwrap_or_default();
            issues::failed_turn(issues::by_words(said), &words(said))
        }
        _ => Vec::new(),
    }
}

/// Returns the messages of a record of the chat. Gemini writes a record again once its tools have run, then with
/// their calls, and only these are taken from the second one.
fn record(line: &Value) -> Vec<Message> {
    let whole = |role, parts| {
        let mut message = Message::new(role, parts);
        message.id = json::text(line, "id").map(str::to_owned);
        message.at = json::moment(line, "timestamp");
        message
    };
    let calls = json::list(line.get("toolCalls"));
    if !calls.is_empty() {
        let name = |call: &Value| json::text(call, "name").unwrap_or_default().to_owned();
        let ask = |call: &Value| Part::tool_call(name(call), json::summary(&call["args"]));
        let answer = |call: &Value| {
            let said = json::list(call.get("result")).iter().filter_map(|result| {
                json::text(result, "functionResponse.response.output")
                    .or_else(|| json::text(result, "functionResponse.response.error"))
            });
            let text = said.collect::<Vec<_>>().join("\n");
            // A tool that ran a failing command counts as a success. The exit code is in words, below the
            // output.
            let exit = text.lines().rev().find_map(|line| line.strip_prefix("Exit Code: "));
            let failed =
                json::text(call, "status") != Some("success") || exit.is_some_and(|code| code != "0");
            Part::tool_result(text, failed)
        };
        return vec![
            whole(Role::Assistant, calls.iter().map(ask).collect()),
            whole(Role::Tool, calls.iter().map(answer).collect()),
        ];
    }
    let user = json::text(line, "type") == Some("user");
    let content = line.get("content");
    let text = match content.and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => json::list(content)
            .iter()
            .filter_map(|part| json::text(part, "text"))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    let thoughts =
        json::list(line.get("thoughts")).iter().filter_map(|thought| json::text(thought, "description"));
    let mut parts: Vec<Part> = thoughts.map(Part::thinking).collect();
    if !text.is_empty() {
        parts.push(Part::text(text));
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let mut message = whole(if user { Role::User } else { Role::Assistant }, parts);
    message.usage = json::usage_with_cache(line, "tokens", USAGE).map(|mut usage| {
        // Providers charge thoughts as output.
        usage.output_tokens = usage.output_tokens.saturating_add(json::number(line, "tokens.thoughts"));
        usage
    });
    message.model = json::text(line, "model").map(str::to_owned);
    vec![message]
}

/// Returns the words of an error: `[API Error: {"error":{"message":"…"}}]` and `[API Error: …]` wrap them.
fn words(said: &str) -> String {
    let Some(inner) = said.trim().strip_prefix("[API Error: ") else { return said.to_owned() };
    let record = json::object(inner.trim_end_matches(']'));
    match record.as_ref().and_then(|record| json::text(record, "error.message")) {
        Some(message) => message.to_owned(),
        // Its whole text when a connection breaks off.
        None if inner.starts_with("terminated") => "the connection was terminated".to_owned(),
        None => inner.replacen(']', "", 1),
    }
}

fn event(line: &Value) -> Option<Message> {
    let text = |key: &str| json::text(line, key).unwrap_or_default().to_owned();
    let (role, part) = match json::text(line, "type")? {
        "message" if text("role") == "user" => (Role::User, Some(Part::text(text("content")))),
        "message" => (Role::Assistant, Some(Part::text(text("content")))),
        "tool_use" => {
            let input = json::summary(line.get("parameters").unwrap_or(&Value::Null));
            (Role::Assistant, Some(Part::tool_call(text("tool_name"), input)))
        }
        "tool_result" => (Role::Tool, Some(Part::tool_result(text("output"), text("status") != "success"))),
        "result" => (Role::Assistant, json::text(line, "error.message").map(|said| Part::error(words(said)))),
        _ => return None,
    };
    let mut message = Message::new(role, part.into_iter().collect());
    message.is_piece = line.get("delta").and_then(Value::as_bool) == Some(true);
    message.at = json::moment(line, "timestamp");
    if text("type") == "result" {
        message.usage =
            json::usage_with_cache(line, "stats", ["input_tokens", "output_tokens", "cached", ""]);
        if message.usage.is_none() && message.parts.is_empty() {
            return None;
        }
        // With several models it is not known which tokens belong to which, so none is named.
        let models = json::at(line, "stats.models").and_then(Value::as_object);
        let only = models.filter(|models| models.len() == 1).and_then(|models| models.keys().next());
        message.model = Some(only.cloned().unwrap_or_default());
    }
    Some(message)
}
