//! The time from the request for a run to its merge, beside the same work done by the vendor's program alone.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_core::Stream as _;
use watchfire_core::backend::{Backend, Status};
use watchfire_core::observe::{Body, FollowItem, FollowOptions};
use watchfire_core::orchestrator::ProjectHandle;
use watchfire_core::schedule::Ending;

use super::agents::Agent;
use super::checks::{case, task_script};
use super::harness::{self, Checked, must};
use super::orchestrated;
use super::stage::{Stage, told};

/// Number of pairs, of which the median counts.
const PAIRS: usize = 5;

/// The steps of a session, in order.
const STEPS: [&str; 5] = ["session started", "agent works", "claimed", "its turn is over", "it is gone"];

/// Time from the request for the run to each step that was seen.
type Steps = [Option<Duration>; STEPS.len()];

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

struct Row {
    agent: String,
    transport: String,
    alone: Duration,
    ours: Duration,
    more: Duration,
    steps: Steps,
}

/// Measures an agent that is reached in one way. The model answers at once.
pub(crate) fn measure(agent: &Agent, backend: &Arc<dyn Backend>, transport: &str) -> Checked {
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let alone = alone(agent, Arc::clone(backend))?;
        let (mut ours, mut steps) = Default::default();
        told(|dir| run(agent, transport, dir, (&mut ours, &mut steps)))?;
        pairs.push((alone, ours, steps));
    }
    type Pair = (Duration, Duration, Steps);
    let middle = |of: &dyn Fn(&Pair) -> Option<Duration>| {
        let mut all: Vec<_> = pairs.iter().filter_map(of).collect();
        all.sort();
        all.get(all.len() / 2).copied()
    };
    let median = |of: fn(&Pair) -> Duration| middle(&|pair| Some(of(pair))).unwrap_or_default();
    let row = Row {
        agent: agent.name.to_owned(),
        transport: transport.to_owned(),
        alone: median(|(alone, ..)| *alone),
        ours: median(|(_, ours, _)| *ours),
        more: median(|(alone, ours, _)| ours.saturating_sub(*alone)),
        steps: std::array::from_fn(|step| middle(&|(.., steps)| steps[step])),
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

async fn run(
    agent: &Agent,
    transport: &str,
    dir: PathBuf,
    (taken, steps): (&mut Duration, &mut Steps),
) -> Checked {
    let script = at_once(&task_script(agent, orchestrated::WORK));
    let stage = Stage::set(agent, transport, &script, dir).await?;
    let task = stage.task().await?;
    let began = Instant::now();
    let seen = tokio::spawn(look(stage.project.clone(), began));
    let summary = stage.run(task).await?;
    *taken = began.elapsed();
    *steps = seen.await.map_err(|error| error.to_string())?;
    must(matches!(summary.endings.get(&task), Some(Ending::Merged { .. })), &format!("{summary:?}"))?;
    stage.strike(agent.rewrites).await
}

/// Watches the session that begins next until its end.
async fn look(project: ProjectHandle, began: Instant) -> Steps {
    let session = loop {
        match project.sessions().pop() {
            Some(session) => break session,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let mut steps = Steps::default();
    steps[0] = Some(began.elapsed());
    let Ok(mut follow) = session.log().follow(FollowOptions::default()) else { return steps };
    while let Some(followed) = poll_fn(|cx| Pin::new(&mut follow).poll_next(cx)).await {
        let FollowItem::Record(record) = followed else { continue };
        let step = match &record.body {
            Body::Status(Status::Processing) => 1,
            Body::Lifecycle { name, .. } if name == "claimed" => 2,
            Body::Event { name, .. } if name == "turn_completed" && steps[2].is_some() => 3,
            Body::Status(Status::Off) => 4,
            _ => continue,
        };
        steps[step].get_or_insert_with(|| began.elapsed());
    }
    steps
}

/// The script without its pauses.
fn at_once(script: &str) -> String {
    script.replace("\"delay_ms\":1500", "\"delay_ms\":0")
}

/// Returns the tables, or nothing if nothing was measured.
pub(crate) fn print() -> String {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by(|a, b| (&a.agent, &a.transport).cmp(&(&b.agent, &b.transport)));
    let mut text = String::from("| agent | by | alone | request to merged | more |\n|---|---|---|---|---|\n");
    for Row { agent, transport, alone, ours, more, .. } in rows.iter() {
        let [alone, ours, more] = [alone, ours, more].map(Duration::as_secs_f32);
        let _ = writeln!(text, "| {agent} | {transport} | {alone:.1} s | {ours:.1} s | {more:.1} s |");
    }
    let _ = write!(
        text,
        "\n| agent | by | {} | merged |\n|---|---|{}---|\n",
        STEPS.join(" | "),
        "---|".repeat(STEPS.len())
    );
    for Row { agent, transport, ours, steps, .. } in rows.iter() {
        let _ = write!(text, "| {agent} | {transport} |");
        for step in steps.iter().copied().chain([Some(*ours)]) {
            let _ = match step {
                Some(step) => write!(text, " {:.1} s |", step.as_secs_f32()),
                None => write!(text, " |"),
            };
        }
        text.push('\n');
    }
    text
}
