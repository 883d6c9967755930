//! Chats that are gone on with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use watchfire_core::backend::Backend;
use watchfire_core::observe::WatchRequest;
use watchfire_core::orchestrator::ChatRequest;
use watchfire_core::session::Session;

use super::agents::Agent;
use super::harness::{Checked, must};
use super::stage::{Stage, failed, told};

/// A chat that has ended goes on, with what was said in it.
pub(crate) fn go_on(agent: &Agent, _: Arc<dyn Backend>, transport: &str) -> Checked {
    told(|dir| gone_on(agent, transport, dir))
}

async fn gone_on(agent: &Agent, transport: &str, dir: PathBuf) -> Checked {
    let rules =
        r#"[{"turns": [{"text": "Noted."}]}, {"without_tools": true, "turns": [{"text": "Noted."}]}]"#;
    let stage = Stage::set(agent, transport, rules, dir).await?;
    let said = |wanted: &[&str]| {
        let asks = stage.server.asks();
        asks.iter().any(|ask| wanted.iter().all(|text| ask.users.iter().any(|said| said.contains(text))))
    };
    let say = async |session: &Session, text: &str, wanted: &[&str]| -> Checked {
        // Some write down what was said once the turn is over.
        let over = WatchRequest::default().with_until("status:idle").with_timeout(Duration::from_secs(120));
        let (_, over) = session.send_and_watch(text, over).await;
        over.map_err(|error| format!("{text}: {}\n{}", error.report(), session.snapshot().text()))?;
        let users: Vec<_> = stage.server.asks().into_iter().map(|ask| ask.users).collect();
        must(said(wanted), &format!("{wanted:?} did not arrive\n{users:#?}\n{}", session.snapshot().text()))
    };
    let first = stage.project.chat(ChatRequest::new()).await.map_err(failed)?;
    say(&first, "the colour is quartz 4471", &["quartz 4471"]).await?;
    first.stop();
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    let kept = loop {
        if let Some(kept) = stage.project.ended_chats().await.map_err(failed)?.into_iter().next() {
            break kept;
        }
        must(tokio::time::Instant::now() < end, "the chat is not kept")?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    must(kept.agent.as_str() == agent.name, &format!("{kept:?}"))?;
    tokio::time::sleep(agent.rest(transport)).await;
    let again = stage.project.chat(ChatRequest::new().with_resume(kept.session)).await.map_err(failed)?;
    say(&again, "which colour was it 5582", &["quartz 4471", "which colour was it 5582"]).await?;
    again.stop();
    again.ended().await;
    stage.strike(agent.rewrites).await
}
