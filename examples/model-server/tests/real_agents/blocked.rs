//! Each way in which an agent can be blocked, through the orchestrator: what a person is told of it, after how long, and
//! what happens then.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchfire_core::backend::IssueKind;
use watchfire_core::orchestrator::{RunRequest, Seen};
use watchfire_core::schedule::{Change, Life, LifeState, NoticeCode};

use super::accounts::CLAUDE_WITH_LOGIN;
use super::agents::Agent;
use super::harness::{Checked, must};
use super::stage::{Stage, failed, log, told};

/// Silence after which an agent counts as stalled, where that is what is to be told: the shortest that a project may have.
/// Elsewhere it leaves room for retries that an agent makes in silence.
const STALL_AFTER: [&str; 2] = ["10s", "120s"];
/// From then on the live line of a silent agent has to say what goes on.
const LIVE: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(330);

/// A way to be blocked.
pub(crate) struct Way {
    /// Name of the check.
    pub(crate) check: &'static str,
    title: &'static str,
    answers: fn() -> Value,
    /// Kinds of which one is told. Empty for a question to the person.
    kinds: &'static [IssueKind],
    without_key: bool,
}

const fn way(
    check: &'static str,
    title: &'static str,
    answers: fn() -> Value,
    kinds: &'static [IssueKind],
) -> Way {
    Way { check, title, answers, kinds, without_key: false }
}

pub(crate) const WAYS: &[Way] = &[
    Way {
        without_key: true,
        ..way(
            "run_tells_no_login",
            "no login",
            || json!({ "fault": "unauthorized" }),
            &[IssueKind::AuthRequired],
        )
    },
    way(
        "run_tells_unauthorized",
        "login refused",
        || json!({ "fault": "unauthorized" }),
        &[IssueKind::AuthRequired],
    ),
    way("run_tells_no_credit", "no credit", || json!({ "fault": "no_credit" }), &[IssueKind::OutOfCredit]),
    way(
        "run_tells_rate_limit",
        "too many requests",
        || json!({ "fault": "rate_limit" }),
        &[IssueKind::RateLimited],
    ),
    way(
        "run_tells_usage_limit",
        "limit of the plan",
        || json!({ "fault": "usage_limit" }),
        &[IssueKind::UsageLimit],
    ),
    way("run_tells_overloaded", "overloaded", || json!({ "fault": "overloaded" }), &[IssueKind::Overloaded]),
    way(
        "run_tells_server_error",
        "server error",
        || json!({ "fault": "server_error" }),
        &[IssueKind::Overloaded],
    ),
    way(
        "run_tells_unknown_model",
        "model unknown",
        || json!({ "fault": "unknown_model" }),
        &[IssueKind::ModelUnknown],
    ),
    way(
        "run_tells_context_full",
        "context full",
        || json!({ "fault": "context_full" }),
        &[IssueKind::ContextFull],
    ),
    way("run_tells_outdated", "version too old", || json!({ "fault": "outdated" }), &[IssueKind::Outdated]),
    way("run_tells_cut", "connection cut", || json!({ "text": "x", "cut": true }), &[IssueKind::Unreachable]),
    way(
        "run_tells_silence",
        "server silent",
        || json!({ "text": "x", "delay_ms": 600_000 }),
        &[IssueKind::Stalled],
    ),
    way(
        "run_tells_question",
        "question in prose",
        || json!({ "text": "Which database should I use, PostgreSQL or SQLite?" }),
        &[],
    ),
];

/// One row of the table.
struct Row {
    way: &'static Way,
    /// False if it is not what should be told.
    fits: bool,
    agent: String,
    transport: String,
    after: u64,
    said: String,
    then: &'static str,
    live: Option<String>,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// The ways that are tried with an agent: all with those that have all transports.
pub(crate) fn of(agent: &Agent) -> impl Iterator<Item = &'static Way> {
    let has_all = agent.transports.len() == 3;
    WAYS.iter().filter(move |_| has_all)
}

pub(crate) fn run(agent: &Agent, transport: &str, way: &'static Way) -> Checked {
    // With a key it has no plan.
    let agent = match (agent.name, way.check) {
        ("claude-code", "run_tells_usage_limit") => &CLAUDE_WITH_LOGIN,
        _ => agent,
    };
    told(|dir| story(agent, transport, way, dir))
}

async fn story(agent: &Agent, transport: &str, way: &'static Way, dir: PathBuf) -> Checked {
    let script = json!([{ "turns": [(way.answers)()] }]).to_string();
    let stage = Stage::set(agent, transport, &script, dir).await?;
    if way.without_key {
        take_keys(&stage)?;
    }
    let settings = stage.root.join(".watchfire/project.yaml");
    let text = fs::read_to_string(&settings).map_err(|error| error.to_string())?;
    let [soon, late] = STALL_AFTER;
    let stall_after = if way.kinds.contains(&IssueKind::Stalled) { soon } else { late };
    fs::write(&settings, format!("{text}stall_after: {stall_after}\n")).map_err(|error| error.to_string())?;
    let task = stage.task().await?;
    let mut changes = stage.project.subscribe(None).await.map_err(failed)?.changes;
    let _run = stage.project.run(RunRequest::task(task)).await.map_err(failed)?;
    let (mut began, mut live) = (Instant::now(), None);
    let end = began + DEADLINE;
    let row = loop {
        let row = |fits, said, then, live| Row {
            way,
            fits,
            agent: agent.name.to_owned(),
            transport: transport.to_owned(),
            after: began.elapsed().as_secs(),
            said,
            then,
            live,
        };
        let next = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
        if live.is_none() && began.elapsed() > LIVE {
            live = stage.project.sessions().pop().map(|session| session.doing());
        }
        if Instant::now() > end {
            break row(false, "nothing".to_owned(), "", live);
        }
        let Ok(Some(Seen::Record(record))) = next else { continue };
        let (said, kind, then) = match record.change {
            Change::Life(life) if life.subject.task() == Some(task) => match tells(&life) {
                Some(tells) => tells,
                None => {
                    if matches!(life.state, LifeState::Starting) {
                        began = Instant::now();
                    }
                    continue;
                }
            },
            Change::Notice(notice) if notice.code == NoticeCode::Stalled => {
                (notice.message, Some(IssueKind::Stalled), "its session goes on")
            }
            _ => continue,
        };
        break row(kind.map_or(way.kinds.is_empty(), |kind| way.kinds.contains(&kind)), said, then, live);
    };
    let is_late = row.after > LIVE.as_secs() + 2;
    let is_quiet = row.live.as_ref().is_none_or(|line| line.trim().is_empty());
    let what = format!("after {} s: {} (then: {}; its line: {:?})", row.after, row.said, row.then, row.live);
    let fits = row.fits;
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    must(fits, &format!("{what}\n{}", log(&stage.project)))?;
    must(!(is_late && is_quiet), &format!("its line says nothing: {what}"))?;
    stage.strike(agent.rewrites).await
}

/// What `run` says about this state, its kind if that is an issue, and what happens next. `None` for a state that is no news.
fn tells(life: &Life) -> Option<(String, Option<IssueKind>, &'static str)> {
    let detail = life.state.detail().unwrap_or_default();
    Some(match &life.state {
        LifeState::Limited { issue, until, .. } => {
            let then = match (life.session.is_some(), until.is_some()) {
                (true, true) => "its session waits, and goes on at that time",
                (true, false) => "its session stays, for you or until it goes on by itself",
                (false, true) => "it is tried again at that time",
                (false, false) => "it waits for `watchfire resume`",
            };
            (format!("limited: {detail}"), Some(issue.kind), then)
        }
        LifeState::Asking { .. } => (format!("asks: {detail}"), None, "it waits for `watchfire answer`"),
        // An end is no way to be told of an obstacle, so it fits none.
        LifeState::Ended { how, .. } => {
            (format!("{}: {detail}", how.word()), Some(IssueKind::SandboxDenied), "the task has failed")
        }
        _ => return None,
    })
}

/// Takes the keys out of the settings. Their agents have no login then.
fn take_keys(stage: &Stage) -> Checked {
    let path = stage.dir.join("home/settings.yaml");
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (before, agents) = text.split_once("agents: ").ok_or("no agents in the settings")?;
    let mut agents: Value = serde_json::from_str(agents).map_err(|error| error.to_string())?;
    for agent in agents.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        if let Some(env) = agent["env"].as_object_mut() {
            env.retain(|name, _| !name.ends_with("KEY"));
        }
    }
    fs::write(&path, format!("{before}agents: {agents}\n")).map_err(|error| error.to_string())
}

/// The table of all that was told. Nothing if nothing ran.
pub(crate) fn print() -> String {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if rows.is_empty() {
        return String::new();
    }
    let place = |transport: &str| ["pty", "stream", "acp"].iter().position(|it| *it == transport);
    let order = |name: &str| super::agents::AGENTS.iter().position(|agent| agent.name == name);
    let number = |way: &Way| WAYS.iter().position(|it| it.check == way.check);
    rows.sort_by_key(|row| (number(row.way), order(&row.agent), place(&row.transport)));
    let mut text = String::from(
        "| case | agent | by | after | `run` says | then | its line after 30 s |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows.iter() {
        let title = row.way.title;
        let mark = if row.fits { "" } else { "NOT AS IT SHOULD BE: " };
        let live = row.live.as_deref().map(cell).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {title} | {} | {} | {} s | {mark}{} | {} | {live} |",
            row.agent,
            row.transport,
            row.after,
            cell(&row.said),
            row.then
        );
    }
    text
}

fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let cut: String = line.chars().take(160).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}
