//! The agents that speak the Agent Client Protocol, reached by it.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use watchfire_core::backend::{Backend, Backends, IssueKind, ProgramSearch, Status};

use super::agents::{AGENTS, Agent};
use super::harness::{Case, Checked, PROMPT, WORK, must, search_path};
use super::{judge, long_text, orchestrated, settings, task_script};

/// What an agent's protocol does not tell.
struct Speaker {
    name: &'static str,
    /// Its answers count tokens; those of others are in their transcripts.
    counts: bool,
    skipped: &'static [(&'static str, &'static str)],
}

const SILENT: &str = "it retries in silence";

const SPEAKERS: &[Speaker] = &[
    Speaker { name: "claude-code", counts: true, skipped: &[] },
    Speaker {
        name: "codex",
        counts: false,
        skipped: &[("tells_no_credit", "its Codex tells it as a rate limit")],
    },
    Speaker {
        name: "gemini",
        counts: false,
        skipped: &[("tells_rate_limit", SILENT), ("tells_no_credit", SILENT), ("tells_overloaded", SILENT)],
    },
    // Its errors are words; its transcript tells them.
    Speaker { name: "copilot", counts: true, skipped: &[] },
    Speaker {
        name: "opencode",
        counts: true,
        skipped: &[("tells_no_credit", SILENT), ("tells_overloaded", SILENT)],
    },
];

type Run = fn(&Speaker, &Agent, Arc<dyn Backend>) -> Checked;

const CASES: &[(&str, Run)] = &[
    ("does_a_task", does_a_task),
    ("is_merged", |_, agent, backend| orchestrated::run(agent, backend, "acp")),
    ("is_told_many_lines_idle_and_busy", told),
    ("is_interrupted", interrupted),
    ("resumes", resumed),
    ("tells_unauthorized", |_, agent, backend| {
        fault(agent, backend, "unauthorized", IssueKind::AuthRequired)
    }),
    ("tells_rate_limit", |_, agent, backend| fault(agent, backend, "rate_limit", IssueKind::RateLimited)),
    ("tells_no_credit", |_, agent, backend| fault(agent, backend, "no_credit", IssueKind::OutOfCredit)),
    ("tells_overloaded", |_, agent, backend| fault(agent, backend, "overloaded", IssueKind::Overloaded)),
];

/// Each case of each agent; ignored, with the reason, where it cannot be run.
pub(crate) fn trials(backends: &Backends) -> Vec<Trial> {
    let mut trials = Vec::new();
    for speaker in SPEAKERS {
        let Some(agent) = AGENTS.iter().find(|agent| agent.name == speaker.name) else { continue };
        let Ok(backend) = backends.get(speaker.name) else { continue };
        let missing = missing(&*backend);
        if let Some(reason) = &missing {
            eprintln!("SKIPPED {} over acp: {reason}", speaker.name);
        }
        for (case, run) in CASES {
            let skipped = speaker.skipped.iter().find(|(name, _)| name == case);
            if let Some((_, reason)) = skipped {
                eprintln!("SKIPPED {}::over_acp::{case}: {reason}", speaker.name);
            }
            let backend = Arc::clone(&backend);
            let trial = Trial::test(format!("{}::over_acp::{case}", speaker.name), move || {
                run(speaker, agent, backend).inspect_err(|error| eprintln!("{error}")).map_err(Failed::from)
            });
            trials.push(trial.with_ignored_flag(missing.is_some() || skipped.is_some()));
        }
    }
    trials
}

fn missing(backend: &dyn Backend) -> Option<String> {
    if cfg!(not(feature = "acp")) {
        return Some("built without the feature acp".to_owned());
    }
    if std::env::var_os("WATCHFIRE_AGENTS").is_none() {
        return Some("WATCHFIRE_AGENTS is not set".to_owned());
    }
    let settings = serde_json::from_value(serde_json::json!({ "transport": "acp" })).unwrap_or_default();
    let search = ProgramSearch::new(Some(search_path()), None).with_settings(settings);
    backend.locate(&search).err().map(|error| error.report())
}

fn case(agent: &Agent, backend: Arc<dyn Backend>, script: &str) -> Checked<Case> {
    Case::new(agent, backend, script, |url| settings(agent, "acp", url))
}

fn does_a_task(speaker: &Speaker, agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let case = case(agent, backend, &task_script(agent, WORK))?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the end of the turn", 90, |session| {
        session.turn_ended() && session.status() == Some(Status::Idle)
    })?;
    must(session.vendor_session().is_some(), "no session id")?;
    session.quit()?;
    must(case.task_done(), "the task is not done")?;
    judge(agent, &case, &session, speaker.counts)
}

fn told(_: &Speaker, agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let script = r#"[{"when": "hurry up", "turns": [{"text": "Thinking.", "delay_ms": 4000}]}, {"turns": [{"text": "Noted."}]}]"#;
    let mut case = case(agent, backend, script)?;
    case.context.first_prompt = None;
    let mut session = case.start()?;
    // Nothing is typed, so nothing limits its length.
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

fn interrupted(_: &Speaker, agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let script = r#"[{"when": "again", "turns": [{"text": "Here."}]}, {"turns": [{"text": "Slow.", "delay_ms": 60000}]}]"#;
    let case = case(agent, backend, script)?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the request", 90, |_| case.said_by_user(PROMPT))?;
    must(session.status() == Some(Status::Processing), "it is not known to work")?;
    session.interrupt();
    session.until("a status of idle", 20, |session| session.status() == Some(Status::Idle))?;
    session.say("again");
    session.until("the next request", 60, |_| case.said_by_user("again"))?;
    session.until("its end", 30, |session| session.status() == Some(Status::Idle))?;
    session.quit()
}

fn resumed(_: &Speaker, agent: &Agent, backend: Arc<dyn Backend>) -> Checked {
    let mut case = case(agent, backend, r#"[{"turns": [{"text": "I will remember 4711."}]}]"#)?;
    let id = {
        let mut session = case.start()?;
        session.first_prompt()?;
        session.until("the end of the turn", 90, |session| session.turn_ended())?;
        session.quit()?;
        session.vendor_session().ok_or("no session id")?
    };
    case.context.resume = Some(id.clone());
    case.context.first_prompt = Some("What do you remember?".into());
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until("the next request", 90, |_| {
        case.server.asks().iter().any(|ask| {
            ask.users.iter().any(|said| said.contains(PROMPT)) && ask.user.contains("What do you remember?")
        })
    })?;
    must(session.vendor_session() == Some(id), "it goes on under another id")?;
    session.quit()
}

fn fault(agent: &Agent, backend: Arc<dyn Backend>, name: &str, kind: IssueKind) -> Checked {
    let script = format!(r#"[{{"turns": [{{"fault": "{name}"}}]}}]"#);
    let case = case(agent, backend, &script)?;
    let mut session = case.start()?;
    session.first_prompt()?;
    session.until(name, 120, |session| session.issues().iter().any(|issue| issue.kind == kind))?;
    let wrong: Vec<_> = session.issues().into_iter().filter(|issue| issue.kind != kind).cloned().collect();
    must(wrong.is_empty(), &format!("also: {wrong:?}"))
}
