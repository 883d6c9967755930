//! opencode.
//!
//! Runs `opencode` with a configuration folder and data folders of its own: the composed prompt as instructions
//! beside the person's configuration, instructions, agents, commands and skills; everything allowed; updates off.
//! Their `auth.json` is linked. (opencode has no `OPENCODE_DATA_DIR`; `XDG_DATA_HOME` and its siblings take its
//! place.)
//!
//! opencode keeps its sessions in a database, so there is no transcript to follow. On a terminal the status comes
//! from the screen. Messages and usage come through `transport: stream`, and messages also through `acp`.
//!
//! Settings: `path`, `args`, `model` (as `provider/model`), `env`, `pass_env`, and `transport` (`pty`, `stream`
//! or `acp`).

use serde_json::{Value, json};
use watchfire_core::Result;
use watchfire_core::backend::{
    Delivery, Fact, Grant, InputBox, Issue, Launch, LeftBehind, Message, Part, PromptDelivery, Role,
    SessionContext, Status,
};
use watchfire_core::terminal::Snapshot;

use crate::agent::{
    Acp, Agent, Can, Flags, Folder, Login, TWO_ESCAPES, Table, Transports, implement_backend,
};
use crate::common::{caches, carry, input_box, issues, json, prompt, tools};

implement_backend!(OpenCode);

/// opencode: see [the module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenCode;

/// The key that the footer names whenever opencode waits for input. In a narrow footer beside a long path, the word
/// behind the key is on the next row.
const COMMANDS: &str = "ctrl+p";

impl Agent for OpenCode {
    const TABLE: Table = Table {
        name: "opencode",
        aliases: &[],
        display_name: "opencode",
        install: "npm install -g opencode-ai",
        program: "opencode",
        places: &["~/.opencode/bin"],
        tested: "1.18.33",
        // The providers that opencode recognizes by their usual variables.
        secrets: &[
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENCODE_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        passed: &[],
        quiet: &["OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_SHARE"],
        can: Can { system_prompt: true, hooks: false, usage: false, transports: Transports::Both },
        paste_limit: 32 * 1024,
        ready: &[COMMANDS],
        busy: &["esc interrupt"],
        flags: Flags {
            model: "-m",
            session: None,
            resume: Some("-s"),
            prompt: "--prompt",
            stream_prompt: "",
        },
        folder: Some(Folder { variable: "XDG_DATA_HOME", below: "", usual: ".local/share" }),
        login: Some(Login {
            real: "opencode/auth.json",
            session: "data/opencode/auth.json",
            copied: false,
            issued: |login| {
                let expires = |login: &Value| login.get("expires").and_then(Value::as_i64).unwrap_or(0);
                login.as_object()?.values().map(expires).max()
            },
        }),
        sign_in: Some(&["auth", "login"]),
        sessions: &["data/opencode/opencode.db", "data/opencode/opencode.db-wal"],
    };

    const ACP: Option<Acp> = Some(Acp { adapter: None, mode: None });

    fn delivery() -> Delivery {
        Delivery::default().with_interrupt(TWO_ESCAPES).with_quit(*b"\x03\x03")
    }

    fn launch(launch: Launch, context: &SessionContext, stream: bool) -> Result<Launch> {
        let launch = with_home(launch, context, None);
        let launch = if stream { launch.with_args(["run", "--format", "json"]) } else { launch };
        Ok(launch.with_arg("--auto"))
    }

    fn acp(launch: Launch, context: &SessionContext) -> Result<Launch> {
        Ok(with_home(launch, context, context.settings.model.as_deref()).with_arg("acp"))
    }

    fn prompt(launch: Launch, line: String, context: &SessionContext, stream: bool) -> Launch {
        match (stream, &context.resume) {
            (true, _) => launch.with_arg(line),
            // With a session to resume, opencode ignores the prompt on the command line.
            (false, Some(_)) => launch.with_prompt(PromptDelivery::Typed(line)),
            (false, None) => launch.with_args(["--prompt", &line]),
        }
    }

    fn input_box(screen: &Snapshot) -> InputBox {
        input_box(screen)
    }

    fn from_screen(text: &str) -> Vec<Fact> {
        from_screen(text)
    }

    fn from_stream(line: &Value) -> Vec<Fact> {
        from_stream(line)
    }

    fn messages(line: &Value) -> Vec<Message> {
        message(line).into_iter().collect()
    }
}

/// Fills the session's home with configuration, instructions and data, and with the model where no argument names it.
fn with_home(mut launch: Launch, context: &SessionContext, model: Option<&str>) -> Launch {
    let config = context.home.join("config");
    launch = caches::moved(launch, context)
        .with_env("OPENCODE_CONFIG_DIR", &config)
        .with_env("XDG_CONFIG_HOME", context.home.join("xdg"))
        .with_env("XDG_DATA_HOME", context.home.join("data"))
        .with_env("XDG_STATE_HOME", context.home.join("state"));
    let mut options = json!({ "autoupdate": false, "share": "disabled", "permission": { "*": "allow" } });
    if let Some(model) = model {
        options["model"] = model.into();
    }
    if let Some((command, args)) = tools::words(context) {
        let command: Vec<_> = std::iter::once(command).chain(args).collect();
        options["mcp"] = json!({ tools::NAME: { "type": "local", "command": command, "enabled": true } });
    }
    if !context.system_prompt.is_empty() {
        let path;
        (launch, path) = prompt::in_file(launch, context, prompt::SYSTEM_FILE, &context.system_prompt);
        options["instructions"] = json!([path]);
    }
    // opencode installs a plugin into every configuration folder that it finds. With npm offline it goes on
    // without the plugin.
    const OFFLINE: &str = "offline=true\n";
    launch = launch
        .with_file("config/opencode.json", options.to_string())
        .with_file("config/.npmrc", OFFLINE)
        .with_file("xdg/opencode/.npmrc", OFFLINE);
    if let Some(theirs) = CONFIG.of(context) {
        // The first that exists is named by the variable, because the folder itself is not the person's.
        let names = ["opencode/opencode.json", "opencode/opencode.jsonc", "opencode/config.json"];
        if let Some(config) = names.iter().map(|name| theirs.join(name)).find(|path| path.is_file()) {
            launch = launch.with_env("OPENCODE_CONFIG", &config).with_grant(Grant::Read(config));
        }
        launch = carry::carry(launch, &theirs.join("opencode"), "config", CARRIED);
        if ["opencode/plugin", "opencode/plugins"].iter().any(|name| theirs.join(name).is_dir()) {
            launch.left.push(LeftBehind::new("plugins", "they are programs that opencode runs in itself"));
        }
        // Git reads its configuration from the same variable, and the agent uses git.
        if theirs.join("git").is_dir() {
            launch =
                launch.with_link("xdg/git", theirs.join("git")).with_grant(Grant::Read(theirs.join("git")));
        }
    }
    launch
}

/// The person's own instructions, agents, commands and skills. opencode knows both forms of the folders' names.
const CARRIED: &[&str] = &["AGENTS.md", "agent", "agents", "command", "commands", "skill", "skills"];
const CONFIG: Folder = Folder { variable: "XDG_CONFIG_HOME", below: "", usual: ".config" };

/// Reads the input box: the lowest bar at the left of the screen, without its first row, and without its last two, an
/// empty one and one about the model.
fn input_box(screen: &Snapshot) -> InputBox {
    let row = |row: u16| screen.row_text(row).trim_start();
    let bottom = (0..screen.size.rows()).rev().find(|at| row(*at).starts_with('╹'));
    let Some(bottom) = bottom else { return InputBox::Absent };
    let bar = (0..bottom).rev().take_while(|at| row(*at).starts_with('┃'));
    let Some(top) = bar.last().filter(|top| top + 4 <= bottom) else { return InputBox::Absent };
    let column = screen.row_text(top).chars().take_while(|c| *c == ' ').count() + 3;
    let edge = edge(screen.row_text(bottom)).unwrap_or(usize::MAX);
    input_box::within(screen, top + 1..bottom - 2, column..edge, &["Ask anything…"])
}

/// Returns the column behind the end of the line below the input, if `row` is that line. On a wide terminal a sidebar
/// follows.
fn edge(row: &str) -> Option<usize> {
    let start = row.chars().take_while(|c| *c == ' ').count();
    let line = row.trim_start().strip_prefix('╹')?;
    Some(start + 1 + line.chars().take_while(|c| *c == '▀').count())
}

/// Returns the rows left of the sidebar. Rows with wide characters keep a piece of the sidebar.
fn main_column(text: &str) -> Vec<&str> {
    let edge = text.lines().rev().find_map(edge).unwrap_or(usize::MAX);
    let cut = |line: &'_ str| line.char_indices().nth(edge).map_or(line.len(), |(at, _)| at);
    text.lines()
        .map(|line| line.get(..cut(line)).unwrap_or(line).trim())
        .filter(|line| !line.is_empty())
        .collect()
}

fn from_screen(text: &str) -> Vec<Fact> {
    let lines = main_column(text);
    // opencode prints the session's id only when it ends.
    if let Some(id) =
        lines.iter().find_map(|line| line.strip_prefix("Continue")?.trim().strip_prefix("opencode -s "))
    {
        return vec![Fact::VendorSession(id.trim().to_owned())];
    }
    // Text below the input is opencode's own, never the agent's.
    let below = lines.iter().rposition(|line| line.starts_with('╹')).and_then(|edge| lines.get(edge + 1..));
    let footer = below.unwrap_or_default().join(" ");
    // Both rows are needed: the first alone could be in the agent's words.
    if lines.iter().any(|line| line.contains("△ Permission required"))
        && lines.iter().rev().take(3).any(|line| line.contains("enter confirm"))
    {
        return vec![Fact::Status(Status::ActionRequired)];
    }
    if footer.starts_with(['■', '⬝'])
        || footer.contains("esc interrupt")
        || footer.contains("esc again to interrupt")
    {
        let mut facts = vec![Fact::Status(Status::Processing)];
        // On a narrow terminal the spinner is drawn over the words.
        if let Some((said, _)) = footer.split_once("retrying in") {
            let said = said.replace(['■', '⬝', '['], " ");
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            facts.extend(issues::by_words(&said).map(|kind| Fact::Issue(Issue::new(kind, said))));
        }
        return facts;
    }
    if !footer.contains(COMMANDS) {
        return Vec::new();
    }
    let mut facts = vec![Fact::Status(Status::Idle)];
    let said = failure(&lines).unwrap_or_default();
    facts.extend(issues::by_words(&said).map(|kind| Fact::Issue(Issue::new(kind, said))));
    facts
}

/// Returns the error that ended the last turn: a box right above the line about the turn, which then has no duration.
/// The model's words have no box, and turns with tools have a duration.
fn failure(lines: &[&str]) -> Option<String> {
    let turn = lines.iter().rposition(|line| line.starts_with('▣'))?;
    if lines.get(turn)?.matches('·').count() != 1 {
        return None;
    }
    let above = lines.get(..turn)?;
    let start = above.iter().rposition(|line| !line.starts_with('┃')).map_or(0, |at| at + 1);
    let box_lines = above.get(start..)?.iter().map(|line| line.trim_start_matches('┃').trim());
    // Boxes follow each other with an empty line between; the last one counts.
    let all: Vec<&str> = box_lines.collect();
    let last = all.rsplit(|line| line.is_empty()).find(|lines| !lines.is_empty())?;
    Some(last.join(" "))
}

fn from_stream(line: &Value) -> Vec<Fact> {
    let id = json::text(line, "sessionID").map(|id| Fact::VendorSession(id.into()));
    let facts = match json::text(line, "type") {
        Some("step_start") => vec![Fact::Status(Status::Processing)],
        Some("step_finish") if json::text(line, "part.reason") == Some("tool-calls") => {
            issues::answered(Status::Processing)
        }
        Some("step_finish") => {
            let mut facts = issues::answered(Status::Idle);
            facts.push(Fact::TurnCompleted);
            facts
        }
        Some("text" | "tool_use") => issues::answered(Status::Processing),
        Some("error") => {
            let said = json::text(line, "error.data.message").unwrap_or_default();
            let kind = issues::by_words(said);
            let status = json::number(line, "error.data.statusCode");
            issues::failed_turn(kind.or_else(|| issues::by_status(status)), said)
        }
        _ => return Vec::new(),
    };
    id.into_iter().chain(facts).collect()
}

fn message(line: &Value) -> Option<Message> {
    let part = line.get("part");
    let text = |key: &str| part.and_then(|part| json::text(part, key)).unwrap_or_default().to_owned();
    let parts = match json::text(line, "type")? {
        "text" => vec![Part::text(text("text"))],
        "reasoning" => vec![Part::thinking(text("text"))],
        "tool_use" => {
            let state = part?.get("state")?;
            // opencode does not count a failed command as an error of the tool.
            let failed =
                json::text(state, "status") != Some("completed") || json::exit_failed(state, "metadata.exit");
            let output = json::text(state, "output").or_else(|| json::text(state, "error"));
            vec![
                Part::tool_call(text("tool"), json::summary(state.get("input").unwrap_or(&Value::Null))),
                Part::tool_result(output.unwrap_or_default().to_owned(), failed),
            ]
        }
        "step_finish" => Vec::new(),
        "error" => {
            vec![Part::error(json::text(line, "error.data.message").unwrap_or_default().to_owned())]
        }
        _ => return None,
    };
    let mut message = Message::new(Role::Assistant, parts);
    message.id = Some(text("messageID")).filter(|id| !id.is_empty());
    message.usage = json::usage(line, "part.tokens", ["input", "output", "cache.read", "cache.write"]);
    Some(message)
}
