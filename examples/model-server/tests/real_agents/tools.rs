//! A model that calls the tools of its session.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use watchfire_core::backend::Backend;
use watchfire_core::schedule::Ending;

use super::agents::Agent;
use super::harness::{Checked, git, must};
use super::stage::{Stage, Watched, log, told, watch};

/// What a shell does of the task. It says what the task file says, which must end as it began.
const WORK: &str = "echo hello > hello.txt && git add -A && git commit -qm 'Say hello'; grep '^status:' \"$WATCHFIRE_TASK_FILE\"";
const NOTE: &str = "half way there 4471";

/// It reports progress, looks who else is there, works, and ends its task, all of that by calls: nothing edits its task file.
pub(crate) fn used(agent: &Agent, _: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| uses(agent, transport, dir))
}

async fn uses(agent: &Agent, transport: &str, dir: PathBuf) -> Checked {
    let turns = json!([
        // Some connect to their servers while the first request is under way.
        { "text": "On it.", "run": "git status --short", "delay_ms": 1000 },
        { "tool": "report_progress", "input": { "text": NOTE } },
        { "tool": "list_agents", "input": {} },
        { "run": WORK },
        { "tool": "finish", "input": { "success": true, "summary": "It says hello." } },
        { "text": "All is done." },
    ]);
    let stage = Stage::set(agent, transport, &json!([{ "turns": turns }]).to_string(), dir).await?;
    let task = stage.task().await?;
    let seen = Arc::new(Mutex::new(Watched::default()));
    let watching = tokio::spawn(watch(stage.project.clone(), Arc::clone(&seen)));
    let run = stage.run(task).await;
    let heard = || {
        let asks = stage.server.asks();
        let longest = asks.iter().max_by_key(|ask| ask.outputs.len());
        let offered: Vec<_> = asks.iter().flat_map(|ask| &ask.tools).map(|(name, _)| name.as_str()).collect();
        let offered: std::collections::BTreeSet<_> = offered.into_iter().collect();
        format!("{:#?}\noffered: {offered:?}", longest.map(|ask| ask.outputs.clone()).unwrap_or_default())
    };
    let summary = run.map_err(|error| format!("{error}\n{}", heard()))?;
    let _ = tokio::time::timeout(Duration::from_secs(20), watching).await;
    let seen = std::mem::take(&mut *seen.lock().map_err(|error| error.to_string())?);
    must(
        matches!(summary.endings.get(&task), Some(Ending::Merged { .. })),
        &format!("it is not merged: {summary:?}\n{}\n{}", heard(), log(&stage.project)),
    )?;
    must(git(&stage.root, &["show", "main:hello.txt"])? == "hello\n", "the work is not in main")?;
    must(seen.notes == [NOTE], &format!("its notes: {:?}\n{}", seen.notes, heard()))?;
    let outputs: Vec<_> = stage.server.asks().into_iter().flat_map(|ask| ask.outputs).collect();
    let said = |words: &str| outputs.iter().any(|output| output.contains(words));
    must(said("No other agent runs in this project."), &heard())?;
    must(said("status: \"ready\"") || said("status: ready") || said("status: \\\"ready"), &heard())?;
    stage.strike(agent.rewrites).await
}
