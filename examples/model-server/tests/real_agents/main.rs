//! Real agent CLIs against the model server: `WATCHFIRE_AGENTS=<folder with the programs> cargo test -p
//! watchfire-model-server --test real_agents`. An agent that is not installed is reported as ignored.

mod agents;
mod harness;
mod logins;
mod orchestrated;
mod over_acp;

use std::process::ExitCode;
use std::sync::Arc;

use agents::{AGENTS, Agent, CLAUDE_WITH_LOGIN, CODEX_WITH_LOGIN};
use harness::{Case, Checked, WORK, must, search_path};
use libtest_mimic::{Arguments, Failed, Trial};
use watchfire_backends as _;
use watchfire_core::backend::{Backend, Backends, Fact, IssueKind, Part, ProgramSearch, Status};

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
        add("is_merged_from_a_terminal", |agent, backend| orchestrated::run(agent, backend, "pty"));
        add("is_merged_from_a_stream", |agent, backend| orchestrated::run(agent, backend, "stream"));
        if agent.name == "claude-code" {
            add("works_with_a_login", |_, backend| orchestrated::run(&CLAUDE_WITH_LOGIN, backend, "pty"));
        }
        if agent.name == "codex" {
            add("keeps_a_renewed_login", |_, backend| {
                orchestrated::run(&CODEX_WITH_LOGIN, backend, "stream")
            });
        }
        add("types_into_an_empty_box_only", orchestrated::delivers);
        add("is_interrupted", interrupted);
        add("resumes", resumed);
        add("resumes_after_a_failed_verification", |agent, backend| {
            let transport = if backend.capabilities().chat { "pty" } else { "stream" };
            orchestrated::resumed(agent, transport, false)
        });
        add("resumes_as_a_stream", |agent, _| orchestrated::resumed(agent, "stream", false));
        add("starts_anew_where_it_cannot_resume", |agent, backend| {
            let transport = if backend.capabilities().chat { "pty" } else { "stream" };
            orchestrated::resumed(agent, transport, true)
        });
        add("tells_unauthorized", |agent, backend| {
            fault(agent, backend, "unauthorized", IssueKind::AuthRequired)
        });
        add("tells_rate_limit", |agent, backend| fault(agent, backend, "rate_limit", IssueKind::RateLimited));
        add("tells_no_credit", |agent, backend| fault(agent, backend, "no_credit", IssueKind::OutOfCredit));
        add("tells_overloaded", |agent, backend| fault(agent, backend, "overloaded", IssueKind::Overloaded));
    }
    trials.extend(over_acp::trials(&backends));
    for login in logins::LOGINS {
        for (name, way) in logins::Way::ALL {
            let case = format!("{}::keeps_a_login_renewed_{name}", login.agent);
            trials.push(Trial::test(case, move || Ok(logins::renews(login, way)?)));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn settings(agent: &Agent, transport: &str, url: &str) -> String {
    let mut settings = (agent.settings)(url);
    settings["transport"] = transport.into();
    settings.to_string()
}

/// A turn that runs `work`, slow enough for a screen to be read meanwhile, and one that says that all is done.
fn task_script(agent: &Agent, work: &str) -> String {
    if agent.writes {
        // It has no tools: it finds edits in what the model says.
        let edit = |file: &str, old: &str, new: &str| {
            format!("{file}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n")
        };
        let edits =
            [edit("hello.txt", "", "hello\n"), edit("0001.yaml", "status: ready\n", "status: done\n")];
        let text = format!("{}All is done.", edits.join("\n"));
        return serde_json::json!([{ "without_tools": true, "turns": [{ "text": text }] }]).to_string();
    }
    let first = serde_json::json!({ "text": "On it.", "run": work, "delay_ms": 1500 });
    serde_json::json!([{ "turns": [first, { "text": "All is done." }] }]).to_string()
}

fn on_a_terminal(agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let case = Case::new(agent, backend, &task_script(agent, WORK), |url| settings(agent, "pty", url))?;
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
    let case = Case::new(agent, backend, &task_script(agent, WORK), |url| settings(agent, "stream", url))?;
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
        session.messages.iter().any(|message| message.usage.is_some_and(|usage| usage.input_tokens >= 60));
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
