//! Real agent CLIs against the model server: `WATCHFIRE_AGENTS=<folder with the programs> cargo test -p
//! watchfire-model-server --test real_agents`. An agent that is not installed is reported as ignored.

mod harness;

use std::process::ExitCode;
use std::sync::Arc;

use harness::{Case, Checked, WORK, must, search_path};
use libtest_mimic::{Arguments, Failed, Trial};
use watchfire_backends as _;
use watchfire_core::backend::{Backend, Backends, Fact, IssueKind, Part, ProgramSearch, Status};

/// How an agent is pointed to the model server: its settings, given the server's URL.
struct Agent {
    name: &'static str,
    settings: fn(&str) -> serde_json::Value,
    /// What stands in the person's own home: file and content, given the server's URL.
    login: Option<Login>,
    /// What it cannot do, and why.
    skipped: &'static [(&'static str, &'static str)],
}

type Login = fn(&str) -> (&'static str, String);

const AGENTS: &[Agent] = &[CLAUDE_CODE, CODEX, GEMINI, COPILOT, OPENCODE, CLINE, CONTINUE];

const SILENT: &str = "it retries in silence";
const STREAM_ONLY: &str = "it has no terminal transport";

const CLINE: Agent = Agent {
    name: "cline",
    settings: |_| serde_json::json!({ "provider": "openai-compatible", "model": "fake-model" }),
    login: Some(|url| {
        let settings = serde_json::json!({
            "provider": "openai-compatible", "apiKey": "fake", "model": "fake-model", "baseUrl": format!("{url}/v1"),
        });
        let providers = serde_json::json!({ "openai-compatible": {
            "settings": settings, "updatedAt": "2026-11-22T00:00:00.000Z", "tokenSource": "manual",
        } });
        let all = serde_json::json!({
            "version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": providers,
        });
        (".cline/data/settings/providers.json", all.to_string())
    }),
    skipped: &[
        ("does_a_task_on_a_terminal", STREAM_ONLY),
        ("types_many_lines_idle_and_busy", STREAM_ONLY),
        ("is_interrupted", STREAM_ONLY),
        ("resumes", STREAM_ONLY),
    ],
};

const CONTINUE: Agent = Agent {
    name: "continue",
    settings: |_| serde_json::json!({}),
    login: Some(|url| {
        let config = format!(
            "name: fake\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: fake\n    provider: openai\n    model: fake-model\n    \
             apiKey: fake\n    apiBase: {url}/v1\n    roles: [chat]\n    capabilities: [tool_use]\n"
        );
        (".continue/config.yaml", config)
    }),
    skipped: &[
        ("resumes", "it goes on under a new id"),
        ("tells_rate_limit", SILENT),
        ("tells_no_credit", SILENT),
        ("tells_overloaded", SILENT),
        ("tells_unauthorized", "its screen does not tell it from what the model says"),
    ],
};

const GEMINI: Agent = Agent {
    name: "gemini",
    settings: |url| {
        serde_json::json!({
            "model": "gemini-2.5-pro",
            "env": { "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "fake-key" },
        })
    },
    login: None,
    skipped: &[("tells_rate_limit", SILENT), ("tells_no_credit", SILENT), ("tells_overloaded", SILENT)],
};

const COPILOT: Agent = Agent {
    name: "copilot",
    settings: |url| {
        serde_json::json!({
            "model": "fake-model",
            "env": {
                "COPILOT_OFFLINE": "true",
                "COPILOT_PROVIDER_BASE_URL": format!("{url}/v1"),
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_API_KEY": "fake-key",
            },
        })
    },
    login: None,
    skipped: &[],
};

const OPENCODE: Agent = Agent {
    name: "opencode",
    settings: |url| {
        let config = serde_json::json!({ "provider": { "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{url}/v1"), "apiKey": "fake-key" },
            "models": { "fake-model": { "name": "Fake", "tool_call": true } },
        } } });
        serde_json::json!({
            "model": "fake/fake-model",
            "env": { "OPENCODE_CONFIG_CONTENT": config.to_string(), "OPENCODE_DISABLE_MODELS_FETCH": "1" },
        })
    },
    login: None,
    skipped: &[],
};

const CODEX: Agent = Agent {
    name: "codex",
    settings: |url| {
        let provider = |key: &str, value: serde_json::Value| format!("model_providers.fake.{key}={value}");
        serde_json::json!({
            "model": "gpt-5.2-codex",
            "env": { "FAKE_KEY": "fake" },
            "args": [
                "-c", "model_provider=\"fake\"",
                "-c", provider("name", "Fake".into()),
                "-c", provider("base_url", format!("{url}/v1").into()),
                "-c", provider("env_key", "FAKE_KEY".into()),
                "-c", provider("wire_api", "responses".into()),
                "-c", provider("request_max_retries", 1.into()),
                "-c", provider("stream_max_retries", 1.into()),
            ],
        })
    },
    login: None,
    skipped: &[],
};

const CLAUDE_CODE: Agent = Agent {
    name: "claude-code",
    settings: |url| {
        serde_json::json!({ "env": {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-fake-0123456789abcdefghijklmnopqrstuvwxyz",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        } })
    },
    login: None,
    skipped: &[],
};

fn main() -> ExitCode {
    // Hooks run this program.
    watchfire_core::process::helper::run_if_asked();
    let args = Arguments::from_args();
    let backends = match Backends::linked() {
        Ok(backends) => backends,
        Err(error) => {
            eprintln!("{}", error.report());
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for agent in AGENTS {
        let Ok(backend) = backends.get(agent.name) else { continue };
        let asked = std::env::var_os("WATCHFIRE_AGENTS").is_some();
        let missing = match backend.locate(&ProgramSearch::new(Some(search_path()), None)) {
            _ if !asked => Some("WATCHFIRE_AGENTS is not set".to_owned()),
            Err(error) => Some(error.report()),
            Ok(_) => None,
        };
        if let Some(reason) = &missing {
            eprintln!("SKIPPED {}: {reason}", agent.name);
        }
        let mut add = |case: &str, run: fn(&Agent, Arc<dyn Backend>) -> Checked| {
            let backend = Arc::clone(&backend);
            let trial = Trial::test(format!("{}::{case}", agent.name), move || {
                run(agent, backend).inspect_err(|error| eprintln!("{error}")).map_err(Failed::from)
            });
            let skipped = agent.skipped.iter().find(|(name, _)| *name == case);
            if let Some((_, reason)) = skipped {
                eprintln!("SKIPPED {}::{case}: {reason}", agent.name);
            }
            trials.push(trial.with_ignored_flag(missing.is_some() || skipped.is_some()));
        };
        add("does_a_task_on_a_terminal", on_a_terminal);
        add("does_a_task_as_a_stream", as_a_stream);
        add("types_many_lines_idle_and_busy", typed);
        add("is_interrupted", interrupted);
        add("resumes", resumed);
        add("tells_unauthorized", |agent, backend| {
            fault(agent, backend, "unauthorized", IssueKind::AuthRequired)
        });
        add("tells_rate_limit", |agent, backend| fault(agent, backend, "rate_limit", IssueKind::RateLimited));
        add("tells_no_credit", |agent, backend| fault(agent, backend, "no_credit", IssueKind::OutOfCredit));
        add("tells_overloaded", |agent, backend| fault(agent, backend, "overloaded", IssueKind::Overloaded));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn settings(agent: &Agent, transport: &str, url: &str) -> String {
    let mut settings = (agent.settings)(url);
    settings["transport"] = transport.into();
    settings.to_string()
}

fn task_script() -> String {
    // Slow enough for its screen to be read meanwhile.
    let first = serde_json::json!({ "text": "On it.", "run": WORK, "delay_ms": 1500 });
    serde_json::json!([{ "turns": [first, { "text": "All is done." }] }]).to_string()
}

fn on_a_terminal(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let case = Case::new(agent, backend, &task_script(), |url| settings(agent, "pty", url))?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the task is done", 90, |_| case.task_done())?;
    session.until("the end of the turn", 30, |session| {
        session.turn_ended() && session.status() == Some(Status::Idle)
    })?;
    let hooks = case.backend.capabilities().hooks;
    session.until("the hook at the end of the turn", 20, |session| {
        !hooks || session.hooked.contains(&Fact::TurnCompleted)
    })?;
    let ends = session.hooked.iter().filter(|fact| **fact == Fact::TurnCompleted).count();
    must(ends <= 1, &format!("one turn, but its hooks say: {:?}", session.hooked))?;
    session.quit()?;
    judge(agent, &case, &session, case.backend.capabilities().usage)
}

fn as_a_stream(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let case = Case::new(agent, backend, &task_script(), |url| settings(agent, "stream", url))?;
    let mut session = case.start()?;
    session.until("the end of the turn", 90, |session| session.turn_ended())?;
    session.quit()?;
    // Copilot counts tokens in its transcript alone, opencode in its stream alone.
    judge(agent, &case, &session, agent.name != "copilot")
}

/// `told`: whether token counts come with what it reports.
fn judge(agent: &Agent, case: &Case, session: &harness::Session<'_>, told: bool) -> Checked {
    case.check_work()?;
    case.check_system_prompt()?;
    if ["opencode", "continue"].contains(&agent.name) && session.messages.len() < 2 {
        return Ok(()); // It has no transcript to follow, or no stream that says all.
    }
    must(case.said_by_user(harness::PROMPT), "the first prompt did not arrive")?;
    let has =
        |wanted: fn(&Part) -> bool| session.messages.iter().flat_map(|message| &message.parts).any(wanted);
    let messages = format!("{:#?}", session.messages);
    // A stream may bring a text in pieces.
    let text: String = session.messages.iter().map(watchfire_core::backend::Message::text).collect();
    must(text.contains("All is done."), &format!("no text: {messages}"))?;
    let called = has(|part| matches!(part, Part::ToolCall { input, .. } if input.contains("hello.txt")));
    must(called, &format!("no tool call: {messages}"))?;
    let usage =
        session.messages.iter().any(|message| message.usage.is_some_and(|usage| usage.input_tokens >= 100));
    must(usage || !told, &format!("no usage: {messages}"))?;
    must(session.issues().is_empty(), &format!("issues: {:?}", session.issues()))
}

/// A text that has what breaks typing: many lines, quotes, tabs, wide characters, and bytes up to the paste limit.
fn long_text(limit: usize) -> String {
    let mut text = String::from("first \"line\"\n");
    let mut line = 1;
    while text.len() + 120 < limit {
        text.push_str(&format!(
            "{line:04} it's `code` $HOME \\n grüße 火 🔥 ---- - * # {{}} [] <tag> | & ;\n"
        ));
        line += 1;
    }
    text + "last line 7781"
}

fn typed(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let script = r#"[{"when": "hurry", "turns": [{"text": "Thinking.", "delay_ms": 4000}]}, {"turns": [{"text": "Noted."}]}]"#;
    let limit = backend.capabilities().paste_limit.unwrap_or(1000);
    let mut case = Case::new(agent, backend, script, |url| settings(agent, "pty", url))?;
    case.context.first_prompt = None;
    let mut session = case.start()?;
    session.ready()?;
    let text = long_text(limit);
    session.say(&text);
    session.until("the whole text", 30, |_| case.said_by_user(&text))?;
    session.ready()?;
    session.say("hurry up");
    session.until("the next turn", 30, |_| case.said_by_user("hurry up"))?;
    let busy = "while busy\nsecond line 9963";
    session.say(busy);
    session.until("what was said while busy", 40, |_| case.said_by_user(busy))?;
    session.until("its end", 20, |session| session.status() == Some(Status::Idle))?;
    session.quit()
}

fn interrupted(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let script = r#"[{"when": "again", "turns": [{"text": "Here."}]}, {"turns": [{"text": "Slow.", "delay_ms": 60000}]}]"#;
    let case = Case::new(agent, backend, script, |url| settings(agent, "pty", url))?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the request", 60, |_| case.said_by_user(harness::PROMPT))?;
    session.until("a status of working", 20, |session| session.status() == Some(Status::Processing))?;
    let keys = case.backend.delivery().interrupt;
    session.send(&keys);
    session.until("a status of idle", 20, |session| session.status() == Some(Status::Idle))?;
    session.ready()?;
    session.say("again");
    session.until("the next request", 30, |_| case.said_by_user("again"))?;
    session.until("its end", 20, |session| session.status() == Some(Status::Idle))?;
    session.ready()?;
    session.quit()
}

fn resumed(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    if !backend.capabilities().resume {
        return Ok(());
    }
    let script = r#"[{"turns": [{"text": "I will remember 4711."}]}]"#;
    let mut case = Case::new(agent, backend, script, |url| settings(agent, "pty", url))?;
    let id = {
        let mut session = case.start()?;
        session.first_prompt()?;
        session.until("the end of the turn", 60, |session| {
            session.turn_ended() && session.status() == Some(Status::Idle)
        })?;
        session.quit()?;
        session.vendor_session().ok_or("no session id was chosen or seen")?
    };
    case.context.resume = Some(id);
    case.context.first_prompt = Some("What do you remember?".into());
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the next request", 60, |_| {
        case.server.asks().iter().any(|ask| {
            ask.users.iter().any(|said| said.contains(harness::PROMPT))
                && ask.user.contains("What do you remember?")
        })
    })?;
    session.quit()
}

fn fault(agent: &Agent, backend: Arc<dyn Backend>, name: &str, kind: IssueKind) -> Checked {
    let script = format!(
        r#"[{{"when": "try again", "turns": [{{"text": "Better."}}]}}, {{"turns": [{{"fault": "{name}"}}]}}]"#
    );
    let transport = if backend.capabilities().chat { "pty" } else { "stream" };
    let case = Case::new(agent, backend, &script, |url| settings(agent, transport, url))?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until(name, 120, |session| session.issues().iter().any(|issue| issue.kind == kind))?;
    let wrong: Vec<_> = session.issues().into_iter().filter(|issue| issue.kind != kind).cloned().collect();
    must(wrong.is_empty(), &format!("also: {wrong:?}"))
}
