//! Stops the agents once nobody is connected any more, where the person's settings ask for it.

use std::time::Duration;

use tokio::sync::watch;
use watchfire_core::schedule::resolve;
use watchfire_core::{Error, Result};

use crate::Daemon;

/// Watches the number of clients until the daemon ends. Nothing is stopped before a first client came: agents that outlived the
/// daemon before are at work then.
pub(crate) async fn watch(daemon: Daemon, mut clients: watch::Receiver<usize>) {
    while clients.wait_for(|count| *count > 0).await.is_ok()
        && clients.wait_for(|count| *count == 0).await.is_ok()
    {
        let grace = match grace(&daemon).await {
            Ok(Some(grace)) => grace,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!("agents go on without a client: {}", error.report());
                continue;
            }
        };
        let somebody = tokio::time::timeout(grace, clients.wait_for(|count| *count > 0)).await.map(drop);
        if somebody.is_err() {
            stop(&daemon).await;
        }
    }
}

/// Returns the time that agents go on without a client, if it is limited.
async fn grace(daemon: &Daemon) -> Result<Option<Duration>> {
    let settings = daemon.home().settings().await?;
    let text = settings.defaults.stop_without_clients.trim();
    if text.is_empty() || text == "never" {
        return Ok(None);
    }
    let named = |error: Error| error.with("field", "defaults.stop_without_clients");
    resolve::duration(text).map(Some).map_err(named)
}

async fn stop(daemon: &Daemon) {
    for project in daemon.projects() {
        // One without agents stays as it is: after this, nothing starts by itself.
        if project.sessions().is_empty() {
            continue;
        }
        tracing::info!(project = %project.id(), "no client is connected: its agents are stopped");
        if let Err(error) = project.stop_all().await {
            tracing::warn!(project = %project.id(), "not stopped: {}", error.report());
        }
    }
}
