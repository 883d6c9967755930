//! What is checked of every agent, by each way in which it can be reached.

use std::sync::Arc;

use watchfire_core::backend::{Backend, Fact, IssueKind, Part, Status};

use super::accounts::{CLAUDE_WITH_LOGIN, RENEWING};
use super::agents::Agent;
use super::harness::{Case, Checked, PROMPT, Session, WORK, must};
use super::{chats, killed, modes, orchestrated, servers, tools};

/// One column of the table.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Agent, Arc<dyn Backend>, &str) -> Checked,
}

const fn check(name: &'static str, run: fn(&Agent, Arc<dyn Backend>, &str) -> Checked) -> Check {
    Check { name, run }
}

pub(crate) const CHECKS: &[Check] = &[
    check("does_a_task", does_a_task),
    check("is_merged", orchestrated::run),
    check("uses_its_tools", tools::used),
    check("serves_its_persons_servers", servers::serve),
    check("answers_when_waited_for", tools::answers),
    check("is_told_many_lines", |agent, backend, transport| match transport {
        "acp" => told(agent, backend, transport),
        _ => orchestrated::delivers(agent, backend),
    }),
    check("is_interrupted", interrupted),
    check("works_in_every_mode", modes::all),
    check("resumes", resumed),
    check("goes_on_with_a_chat", chats::go_on),
    check("goes_on_after_a_failed_verification", |agent, _, transport| {
        orchestrated::resumed(agent, transport, false)
    }),
    check("goes_on_after_a_kill", |agent, backend, transport| killed::goes_on(agent, &*backend, transport)),
    check("outlives_its_orchestrator", |agent, _, transport| killed::outlives(agent, transport)),
    check("starts_anew", |agent, _, transport| orchestrated::resumed(agent, transport, true)),
    check("renews_its_login", |agent, backend, transport| {
        let renewing = RENEWING.iter().find(|renewing| renewing.name == agent.name);
        orchestrated::run(renewing.ok_or("it has no login here")?, backend, transport)
    }),
    check("tells_a_refusal", orchestrated::refused),
    check("tells_unauthorized", |agent, backend, transport| {
        fault(agent, backend, transport, "unauthorized", IssueKind::AuthRequired)
    }),
    check("tells_rate_limit", |agent, backend, transport| {
        fault(agent, backend, transport, "rate_limit", IssueKind::RateLimited)
    }),
    check("tells_usage_limit", |agent, backend, transport| {
        // With a key it has no plan.
        let agent = if agent.name == "claude-code" { &CLAUDE_WITH_LOGIN } else { agent };
        fault(agent, backend, transport, "usage_limit", IssueKind::UsageLimit)
    }),
    check("tells_no_credit", |agent, backend, transport| {
        fault(agent, backend, transport, "no_credit", IssueKind::OutOfCredit)
    }),
    check("tells_overloaded", |agent, backend, transport| {
        fault(agent, backend, transport, "overloaded", IssueKind::Overloaded)
    }),
    check("tells_unknown_model", |agent, backend, transport| {
        fault(agent, backend, transport, "unknown_model", IssueKind::ModelUnknown)
    }),
    check("tells_context_full", |agent, backend, transport| {
        fault(agent, backend, transport, "context_full", IssueKind::ContextFull)
    }),
];

impl Check {
    /// Why it cannot be asked of the agent, or of any that is reached in this way.
    pub(crate) fn lack(&self, agent: &Agent, transport: &str) -> Option<&'static str> {
        let logs_in = || RENEWING.iter().any(|renewing| renewing.name == agent.name);
        match (self.name, transport) {
            ("renews_its_login", _) if !logs_in() => Some("no login that is renewed is known of it"),
            ("is_told_many_lines" | "answers_when_waited_for" | "goes_on_with_a_chat", "stream") => {
                Some("a stream takes one prompt")
            }
            ("serves_its_persons_servers", _) if let Some(reason) = servers::lack(agent) => Some(reason),
            ("is_interrupted", "stream") => Some("an interrupt ends a stream"),
            _ => agent.lack(transport, self.name),
        }
    }

    /// Why it cannot run as this was built.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        match self.name {
            "renews_its_login" if cfg!(not(feature = "tls")) => Some("built without the feature tls"),
            "serves_its_persons_servers" => servers::missing(),
            _ => None,
        }
    }
}

pub(crate) fn case(agent: &Agent, backend: Arc<dyn Backend>, transport: &str, script: &str) -> Checked<Case> {
    Case::new(agent, backend, script, |url| {
        let mut settings = (agent.settings)(url);
        settings["transport"] = transport.into();
        settings.to_string()
    })
}

/// A turn that runs `work`, slow enough for a screen to be read meanwhile, and one that says that all is done.
pub(crate) fn task_script(agent: &Agent, work: &str) -> String {
    if agent.writes {
        // It has no tools: it finds edits in what the model says.
        let edit = |file: &str, old: &str, new: &str| {
            format!("{file}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n")
        };
        let edits = [
            edit("hello.txt", "", "hello\n"),
            edit("{path:0001.yaml}", "status: \"ready\"\n", "status: \"done\"\n"),
        ];
        let text = format!("{}All is done.", edits.join("\n"));
        return serde_json::json!([{ "without_tools": true, "turns": [{ "text": text }] }]).to_string();
    }
    let first = serde_json::json!({ "text": "On it.", "run": work, "delay_ms": 1500 });
    serde_json::json!([{ "turns": [first, { "text": "All is done." }] }]).to_string()
}

/// It edits, commits and says that it is done; its instructions arrive as system text; its words, tokens and the end of
/// its turn are read.
fn does_a_task(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    let case = case(agent, backend, transport, &task_script(agent, WORK))?;
    let can = case.backend.capabilities();
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the end of the turn", 90, |session| {
        session.turn_ended() && (transport == "stream" || session.status() == Some(Status::Idle))
    })?;
    session.until("the task is done", 90, |_| case.task_done())?;
    let hooks = transport == "pty" && can.hooks;
    session.until("the hook at the end of the turn", 20, |session| {
        !hooks || session.hooked.contains(&Fact::TurnCompleted)
    })?;
    let ends = session.hooked.iter().filter(|fact| **fact == Fact::TurnCompleted).count();
    must(ends <= 1, &format!("one turn, but its hooks say: {:?}", session.hooked))?;
    must(transport != "acp" || session.vendor_session().is_some(), "no session id")?;
    session.quit()?;
    case.check_work()?;
    case.check_system_prompt()?;
    let counted = (transport != "pty" || can.usage) && !agent.uncounted.contains(&transport);
    judge(agent, &case, &session, counted)
}

/// What it said is read, and how much that was, if that is `counted`.
fn judge(agent: &Agent, case: &Case, session: &Session<'_>, counted: bool) -> Checked {
    if ["opencode", "continue"].contains(&agent.name) && session.messages.len() < 2 {
        return Ok(()); // It has no transcript to follow, or no stream that says all.
    }
    must(case.said_by_user(PROMPT), "the first prompt did not arrive")?;
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
    must(usage || !counted, &format!("no usage: {messages}"))?;
    must(session.issues().is_empty(), &format!("issues: {:?}", session.issues()))
}

/// A text that has what breaks typing: many lines, quotes, tabs, wide characters, and bytes up to the paste limit.
pub(crate) fn long_text(limit: usize) -> String {
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

/// Many lines, in a conversation: idle and busy. Nothing is typed, so nothing limits their length.
fn told(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    let script = r#"[{"when": "hurry up", "turns": [{"text": "Thinking.", "delay_ms": 4000}]}, {"turns": [{"text": "Noted."}]}]"#;
    let mut case = case(agent, backend, transport, script)?;
    case.context.first_prompt = None;
    let mut session = case.start()?;
    let text = long_text(64 * 1024);
    session.say(&text);
    session.until("the whole text", 90, |_| case.said_by_user(&text))?;
    session.say("hurry up");
    session.until("the next turn", 60, |_| case.said_by_user("hurry up"))?;
    let busy = "while busy\nsecond line 9963";
    session.say(busy);
    session.until("what was said while busy", 60, |_| case.said_by_user(busy))?;
    session.until("its end", 30, |session| session.status() == Some(Status::Idle))?;
    session.quit()
}

fn interrupted(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    let script = r#"[{"when": "again", "turns": [{"text": "Here."}]}, {"turns": [{"text": "Slow.", "delay_ms": 60000}]}]"#;
    let case = case(agent, backend, transport, script)?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the request", 90, |_| case.said_by_user(PROMPT))?;
    session.until("a status of working", 20, |session| session.status() == Some(Status::Processing))?;
    session.interrupt();
    session.until("a status of idle", 20, |session| session.status() == Some(Status::Idle))?;
    session.ready()?;
    session.say("again");
    session.until("the next request", 60, |_| case.said_by_user("again"))?;
    session.until("its end", 30, |session| session.status() == Some(Status::Idle))?;
    session.ready()?;
    session.quit()
}

/// It goes on with a session of before, under the same id.
fn resumed(agent: &Agent, backend: Arc<dyn Backend>, transport: &str) -> Checked {
    let script = r#"[{"turns": [{"text": "I will remember 4711."}]}]"#;
    let mut case = case(agent, backend, transport, script)?;
    let id = {
        let mut session = case.start()?;
        session.first_prompt()?;
        session.until("the end of the turn", 90, |session| {
            session.turn_ended() && (transport != "pty" || session.status() == Some(Status::Idle))
        })?;
        session.quit()?;
        session.vendor_session().ok_or("no session id was chosen or seen")?
    };
    std::thread::sleep(agent.rest(transport));
    case.context.resume = Some(id.clone());
    case.context.first_prompt = Some("What do you remember?".into());
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the next request", 90, |_| {
        case.server.asks().iter().any(|ask| {
            ask.users.iter().any(|said| said.contains(PROMPT)) && ask.user.contains("What do you remember?")
        })
    })?;
    session.until("the end of the next turn", 60, |session| session.turn_ended())?;
    must(session.vendor_session() == Some(id), "it goes on under another id")?;
    session.quit()
}

fn fault(agent: &Agent, backend: Arc<dyn Backend>, transport: &str, name: &str, kind: IssueKind) -> Checked {
    let script = format!(r#"[{{"turns": [{{"fault": "{name}"}}]}}]"#);
    let case = case(agent, backend, transport, &script)?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until(name, 240, |session| session.issues().iter().any(|issue| issue.kind == kind))?;
    let wrong: Vec<_> = session.issues().into_iter().filter(|issue| issue.kind != kind).cloned().collect();
    must(wrong.is_empty(), &format!("also: {wrong:?}"))
}
