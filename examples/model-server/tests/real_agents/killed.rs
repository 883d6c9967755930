//! An orchestrator that is killed in the middle of an agent's turn: the next one goes on with the agent's session, or with the
//! agent itself where it outlives its orchestrator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use watchfire_core::backend::Backend;
use watchfire_core::schedule::Ending;
use watchfire_core::store::TaskQuery;
use watchfire_model_server::{ModelServer, Script};

use super::agents::{AGENTS, Agent};
use super::harness::{Checked, PROMPT, must};
use super::orchestrated::WORK;
use super::stage::{self, Lasting, Stage, Vendor, failed, log, told};

/// Names the agent and the folders of the orchestrator that is to be killed.
const VICTIM: &str = "WATCHFIRE_TEST_VICTIM";
const SAID: &str = "I will remember 4711.";
const UNTIL_ASKED: Duration = Duration::from_secs(90);

/// Some agents write down a moment later what was said.
const UNTIL_NOTED: Duration = Duration::from_secs(15);

pub(crate) fn goes_on(agent: &Agent, backend: &dyn Backend, transport: &str) -> Checked {
    let resumable = backend.resumable();
    told(|dir| story(agent, &resumable, transport, dir))
}

/// Ends the process if it is one that is to be killed.
pub(crate) fn run_if_asked() {
    let Ok(words) = std::env::var(VICTIM) else { return };
    if let Err(error) = words.split_once(' ').ok_or("no folder".to_owned()).and_then(be_the_victim) {
        eprintln!("{error}");
    }
    std::process::exit(1);
}

fn be_the_victim((name, dir): (&str, &str)) -> Checked {
    let (lasting, dir) = match dir.strip_prefix("lasting ") {
        Some(dir) => (Lasting::Yes, dir),
        None => (Lasting::No, dir),
    };
    let agent = AGENTS.iter().find(|agent| agent.name == name).ok_or("no such agent")?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let (_orchestrator, project) = stage::open(agent, Path::new(dir), lasting).await?;
        let task = stage::task(&project).await?;
        let summary = stage::run(&project, task).await?;
        Err(format!("it came to an end: {summary:?}\n{}", log(&project)))
    })
}

async fn story(agent: &Agent, resumable: &[PathBuf], transport: &str, dir: PathBuf) -> Checked {
    let again =
        serde_json::json!([{ "text": "On it.", "run": WORK, "delay_ms": 500 }, { "text": "All is done." }]);
    let begins = serde_json::json!([
        { "text": SAID, "run": "touch begun" },
        { "text": "Slow.", "delay_ms": 120_000 },
    ]);
    let script = serde_json::json!([
        { "when": "Read the file", "turns": again }, { "when": "Go on. ", "turns": again }, { "turns": begins },
    ]);
    let script: Script = serde_json::from_value(script).map_err(|error| error.to_string())?;
    let server = ModelServer::start(script, 0).await.map_err(|error| error.to_string())?;
    let vendor = Vendor::of(agent, &server, &dir).await?;
    stage::prepare(&[(agent, transport)], &dir, &server.url(), vendor.environment())?;
    let before = stage::contents(&dir.join("user"));

    let mut victim = victim(agent, &dir, Lasting::No)?;
    let in_the_middle = || server.asks().iter().any(|ask| ask.results > 0);
    let end = tokio::time::Instant::now() + UNTIL_ASKED;
    while !in_the_middle() {
        let gone = victim.try_wait().map_err(|error| error.to_string())?;
        must(gone.is_none(), "the first orchestrator ended by itself")?;
        must(tokio::time::Instant::now() < end, "the agent did not come to its second request")?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // One that never does is killed all the same.
    let end = tokio::time::Instant::now() + UNTIL_NOTED;
    while !is_noted(&dir, resumable) && tokio::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // SIGKILL.
    victim.kill().and_then(|()| victim.wait()).map_err(|error| error.to_string())?;

    tokio::time::sleep(agent.rest(transport)).await;
    let stage = Stage::open(agent, server, vendor, dir, before, Lasting::No).await?;
    let task = stage.project.store().list(&TaskQuery::new()).await.map_err(failed)?;
    let task = task.tasks.first().ok_or("the task is lost")?.value.task_number;
    let summary = stage.run(task).await?;
    let users = || stage.server.asks().into_iter().map(|ask| ask.users).collect::<Vec<_>>();
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("{summary:?}\n{:#?}\n{}", users(), log(&stage.project)),
    )?;
    let went_on = stage.server.asks().iter().any(|ask| {
        let said = |words: &str| ask.users.iter().any(|said| said.contains(words));
        said(PROMPT) && (said("Read the file") || said("Go on. ")) && ask.users.len() > 1
    });
    must(went_on, &format!("it did not go on with the conversation: {:#?}", users()))?;
    stage.strike(agent.rewrites).await
}

/// The moment at which the orchestrator of an agent that outlives it is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Moment {
    /// Its program has just been started: what it asks of its terminal is answered by the next orchestrator.
    Start,
    /// It waits for its model.
    Turn,
}

/// An agent whose orchestrator is killed, and that works on until the next one comes.
pub(crate) fn outlives(agent: &Agent, transport: &str) -> Checked {
    for moment in [Moment::Start, Moment::Turn] {
        told(|dir| outlived(agent, transport, dir, moment)).map_err(|why| format!("{moment:?}: {why}"))?;
    }
    Ok(())
}

async fn outlived(agent: &Agent, transport: &str, dir: PathBuf, moment: Moment) -> Checked {
    let script = serde_json::json!([{ "turns": [
        { "text": SAID, "run": "touch begun; rm begun" },
        { "text": "Slow.", "run": WORK, "delay_ms": 5000 },
        { "text": "All is done." },
    ] }]);
    let script: Script = serde_json::from_value(script).map_err(|error| error.to_string())?;
    let server = ModelServer::start(script, 0).await.map_err(|error| error.to_string())?;
    let vendor = Vendor::of(agent, &server, &dir).await?;
    stage::prepare(&[(agent, transport)], &dir, &server.url(), vendor.environment())?;
    let before = stage::contents(&dir.join("user"));
    let mut victim = victim(agent, &dir, Lasting::Yes)?;
    let is_there = || match moment {
        Moment::Turn => server.asks().iter().any(|ask| ask.results > 0),
        Moment::Start => hosts(&dir).iter().any(|host| host.join("socket").exists()),
    };
    let end = tokio::time::Instant::now() + UNTIL_ASKED;
    while !is_there() {
        let gone = victim.try_wait().map_err(|error| error.to_string())?;
        must(gone.is_none(), "the first orchestrator ended by itself")?;
        must(tokio::time::Instant::now() < end, "the moment did not come")?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    victim.kill().and_then(|()| victim.wait()).map_err(|error| error.to_string())?;
    if moment == Moment::Start {
        // What it asks of its terminal, it asks meanwhile.
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    let stage = Stage::open(agent, server, vendor, dir, before, Lasting::Yes).await?;
    let task = stage.project.store().list(&TaskQuery::new()).await.map_err(failed)?;
    let task = task.tasks.first().ok_or("the task is lost")?.value.task_number;
    let users = || stage.server.asks().into_iter().map(|ask| (ask.users, ask.results)).collect::<Vec<_>>();
    let summary = stage.run(task).await.map_err(|why| format!("{why}\n{:#?}", users()))?;
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("{summary:?}\n{:#?}\n{}", users(), log(&stage.project)),
    )?;
    let sessions = stage.project.store().get(task).await.map_err(failed)?.value.agent_sessions;
    eprintln!("{} {transport}: killed at {moment:?}, {sessions} sessions", agent.name);
    let is_taken_over = moment == Moment::Turn && transport != "acp";
    must(!is_taken_over || sessions == 1, &format!("{sessions} sessions, in place of the one"))?;
    stage.strike(agent.rewrites).await
}

/// The folders of the sessions that outlive their orchestrator.
fn hosts(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("home/hosts")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Whether what the agent said first is in the part of its session's home that it is resumed from.
fn is_noted(dir: &Path, resumable: &[PathBuf]) -> bool {
    let below = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let sessions =
        below(&dir.join("home/state")).into_iter().flat_map(|state| below(&state.join("sessions")));
    let mut pending: Vec<PathBuf> = sessions
        .flat_map(|session| resumable.iter().map(move |part| session.join("home").join(part)))
        .collect();
    while let Some(path) = pending.pop() {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => pending.extend(below(&path)),
            Ok(found) if found.is_file() => {
                let text = fs::read(&path).unwrap_or_default();
                if text.windows(SAID.len()).any(|some| some == SAID.as_bytes()) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn victim(agent: &Agent, dir: &Path, lasting: Lasting) -> Checked<Child> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    let lasting = if lasting == Lasting::Yes { "lasting " } else { "" };
    command.env(VICTIM, format!("{} {lasting}{}", agent.name, dir.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(|error| error.to_string())
}
