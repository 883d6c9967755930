//! A model that calls the tools of its session, and one that is asked by a program that waits for its answer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use watchfire_core::backend::Backend;
use watchfire_core::observe::{DeliveryState, Include, WatchRequest};
use watchfire_core::orchestrator::ChatRequest;
use watchfire_core::schedule::Ending;

use super::agents::Agent;
use super::harness::{Checked, git, must};
use super::stage::{Stage, Watched, failed, log, told, watch};

/// The commands of the task. Their output has the status in the task file, which must be the same at the end.
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

/// A program sends it a text and waits for the end of the turn: it gets the words of this turn, not of the one before.
pub(crate) fn answers(agent: &Agent, _: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| answer(agent, transport, dir))
}

async fn answer(agent: &Agent, transport: &str, dir: PathBuf) -> Checked {
    let words = [("alder", "The first word is alder-7781."), ("birch", "The second word is birch-7782.")];
    let rules: Vec<_> = words
        .iter()
        .flat_map(|(asked, told)| {
            let turns = json!([{ "text": told, "delay_ms": 1500 }]);
            [false, true].map(|without| json!({ "when": asked, "without_tools": without, "turns": turns }))
        })
        .collect();
    let stage = Stage::set(agent, transport, &json!(rules).to_string(), dir).await?;
    let session = stage.project.chat(ChatRequest::new()).await.map_err(failed)?;
    let within = Duration::from_secs(90);
    let idle =
        WatchRequest::default().with_until("status:idle").with_accept_current(true).with_timeout(within);
    session.log().watch(&idle).await.map_err(failed)?;
    for (asked, said) in words {
        let request = WatchRequest::default()
            .with_until("status:idle")
            .with_include([Include::Transcript, Include::Events])
            .with_timeout(within);
        let (detail, answer) = session.send_and_watch(format!("say the word {asked}"), request).await;
        let screen = || session.snapshot().text();
        must(detail.delivery_state == DeliveryState::Submitted, &format!("{detail:?}\n{}", screen()))?;
        let answer = answer.map_err(|error| format!("{asked}: {}\n{}", error.report(), screen()))?;
        let latest = answer.transcript.as_ref().map(|transcript| transcript.latest_text.clone());
        must(
            latest.as_deref().is_some_and(|text| text.trim() == said),
            &format!("{asked}: {latest:?}\n{:?}\n{:#?}\n{}", answer.events, answer.transcript, screen()),
        )?;
    }
    session.stop();
    session.ended().await;
    stage.strike(agent.rewrites).await
}
