//! The time from the request for a run to its merge, beside the same work done by the vendor's program alone.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use watchfire_core::backend::Backend;
use watchfire_core::schedule::Ending;

use super::agents::Agent;
use super::checks::{case, task_script};
use super::harness::{self, Checked, must};
use super::orchestrated;
use super::stage::{Stage, told};

/// Number of pairs, of which the median counts.
const PAIRS: usize = 5;

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

struct Row {
    agent: String,
    transport: String,
    alone: Duration,
    ours: Duration,
    more: Duration,
}

/// Measures an agent that is reached in one way. The model answers at once.
pub(crate) fn measure(agent: &Agent, backend: &Arc<dyn Backend>, transport: &str) -> Checked {
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let alone = alone(agent, Arc::clone(backend))?;
        let mut ours = Duration::ZERO;
        told(|dir| run(agent, transport, dir, &mut ours))?;
        pairs.push((alone, ours));
    }
    let median = |of: fn(&(Duration, Duration)) -> Duration| {
        let mut all: Vec<_> = pairs.iter().map(of).collect();
        all.sort();
        all[all.len() / 2]
    };
    let row = Row {
        agent: agent.name.to_owned(),
        transport: transport.to_owned(),
        alone: median(|(alone, _)| *alone),
        ours: median(|(_, ours)| *ours),
        more: median(|(alone, ours)| ours.saturating_sub(*alone)),
    };
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    Ok(())
}

/// The program in its form for one prompt, unconfined, from its start to its exit. It works in a repository of its own.
fn alone(agent: &Agent, backend: Arc<dyn Backend>) -> Checked<Duration> {
    let case = case(agent, backend, "stream", &at_once(&task_script(agent, harness::WORK)))?;
    let began = Instant::now();
    let mut session = case.start()?;
    session.exited(Duration::from_secs(120))?;
    let taken = began.elapsed();
    must(case.task_done(), "the task is not done")?;
    case.check_work()?;
    Ok(taken)
}

async fn run(agent: &Agent, transport: &str, dir: PathBuf, taken: &mut Duration) -> Checked {
    let script = at_once(&task_script(agent, orchestrated::WORK));
    let stage = Stage::set(agent, transport, &script, dir).await?;
    let task = stage.task().await?;
    let began = Instant::now();
    let summary = stage.run(task).await?;
    *taken = began.elapsed();
    must(matches!(summary.endings.get(&task), Some(Ending::Merged { .. })), &format!("{summary:?}"))?;
    stage.strike(agent.rewrites).await
}

/// The script without its pauses.
fn at_once(script: &str) -> String {
    script.replace("\"delay_ms\":1500", "\"delay_ms\":0")
}

/// Returns the table, or nothing if nothing was measured.
pub(crate) fn print() -> String {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by(|a, b| (&a.agent, &a.transport).cmp(&(&b.agent, &b.transport)));
    let mut text = String::from("| agent | by | alone | request to merged | more |\n|---|---|---|---|---|\n");
    for Row { agent, transport, alone, ours, more } in rows.iter() {
        let [alone, ours, more] = [alone, ours, more].map(Duration::as_secs_f32);
        let _ = writeln!(text, "| {agent} | {transport} | {alone:.1} s | {ours:.1} s | {more:.1} s |");
    }
    text
}
