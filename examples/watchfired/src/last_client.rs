//! Stops the agents of a project once its last client has left, where the person's settings ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use watchfire_core::model::ProjectId;
use watchfire_core::schedule::resolve;
use watchfire_core::{Error, Result};

use crate::Daemon;

/// Watches the clients until the daemon ends. Nothing is stopped before a project had a first client: agents that outlived the
/// daemon before are at work then.
pub(crate) async fn watch(daemon: Daemon, mut clients: watch::Receiver<usize>) {
    let mut streams = daemon.watchers().changes();
    // A project that a client's call opens is that client's, from then on.
    let mut turns = daemon.turns();
    let mut left = Left::default();
    loop {
        let is_connected = *clients.borrow_and_update() > 0;
        streams.mark_unchanged();
        turns.mark_unchanged();
        let projects: Vec<_> = daemon.projects().iter().map(|project| project.id().clone()).collect();
        let is_followed = |id: &ProjectId| daemon.watchers().follow(id.as_str());
        left.look(&projects, is_followed, is_connected, Instant::now());
        loop {
            let goes_on = tokio::select! {
                changed = clients.changed() => changed.is_ok(),
                changed = streams.changed() => changed.is_ok(),
                changed = turns.changed() => changed.is_ok(),
                grace = due(&daemon, &left) => {
                    for id in left.take_due(Instant::now(), grace) {
                        stop(&daemon, &id).await;
                    }
                    continue;
                }
            };
            if !goes_on {
                return;
            }
            break;
        }
    }
}

/// Waits until the time of a project without a client is over, and returns that time. Waits for ever where it has no limit.
async fn due(daemon: &Daemon, left: &Left) -> Duration {
    if let Some(since) = left.since.values().min() {
        match grace(daemon).await {
            Ok(Some(grace)) => {
                tokio::time::sleep_until(*since + grace).await;
                return grace;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("agents go on without a client: {}", error.report()),
        }
    }
    std::future::pending().await
}

/// Projects without a client.
#[derive(Debug, Default)]
struct Left {
    /// Projects that once had a client.
    known: BTreeSet<ProjectId>,
    /// Projects that a stream has followed.
    followed: BTreeSet<ProjectId>,
    /// Projects without a client now, each with the time it lost the last one. Removed when its agents are stopped.
    since: BTreeMap<ProjectId, Instant>,
}

impl Left {
    fn look(
        &mut self,
        projects: &[ProjectId],
        is_followed: impl Fn(&ProjectId) -> bool,
        is_connected: bool,
        now: Instant,
    ) {
        // Of projects that are closed nothing is remembered: whoever opens one again is its client.
        self.known.retain(|id| projects.contains(id));
        self.followed.retain(|id| projects.contains(id));
        self.since.retain(|id, _| projects.contains(id));
        for id in projects {
            let is_followed = is_followed(id);
            if is_followed {
                self.followed.insert(id.clone());
            }
            // Until somebody follows it, a connection may be of a client of this project.
            if is_followed || is_connected && !self.followed.contains(id) {
                self.known.insert(id.clone());
                self.since.remove(id);
            } else if self.known.contains(id) {
                self.since.entry(id.clone()).or_insert(now);
            }
        }
    }

    fn take_due(&mut self, now: Instant, grace: Duration) -> Vec<ProjectId> {
        let mut due = Vec::new();
        self.since.retain(|id, since| {
            let is_due = *since + grace <= now;
            due.extend(is_due.then(|| id.clone()));
            !is_due
        });
        due
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

async fn stop(daemon: &Daemon, id: &ProjectId) {
    // One without agents stays as it is: after this, nothing starts by itself.
    let Some(project) = daemon.projects().into_iter().find(|it| it.id() == id && !it.sessions().is_empty())
    else {
        return;
    };
    tracing::info!(project = %id, "its last client has left: its agents are stopped");
    if let Err(error) = project.stop_all().await {
        tracing::warn!(project = %id, "not stopped: {}", error.report());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_is_left_by_its_own_clients() {
        let ids: Vec<ProjectId> = ["a", "b"].iter().map(|id| id.parse().unwrap()).collect();
        let mut left = Left::default();
        let begin = Instant::now();
        let second = |n| begin + Duration::from_secs(n);
        let mut look = |followed: &str, is_connected, at| {
            left.look(&ids, |id| followed.contains(id.as_str()), is_connected, second(at));
            left.take_due(second(at), Duration::from_secs(5))
                .iter()
                .map(ToString::to_string)
                .collect::<String>()
        };
        // Nobody was there yet.
        assert_eq!(look("", false, 0), "");
        assert_eq!(look("", false, 9), "");
        // Somebody is, for either.
        assert_eq!(look("", true, 10), "");
        assert_eq!(look("a", true, 20), "");
        // What is still connected is a client of the other, as far as anyone can know.
        assert_eq!(look("", true, 30), "");
        assert_eq!(look("", true, 34), "");
        assert_eq!(look("", true, 35), "a");
        assert_eq!(look("b", true, 40), "");
        // Once, and again for what was started meanwhile.
        assert_eq!(look("", false, 41), "");
        assert_eq!(look("", false, 46), "ab");
        // Who comes back in time holds it.
        assert_eq!(look("", false, 50), "");
        assert_eq!(look("a", true, 54), "");
        assert_eq!(look("a", true, 60), "b");
        left.look(&[], |_| true, true, second(61));
        assert!(left.known.is_empty() && left.followed.is_empty() && left.since.is_empty(), "{left:?}");
    }
}
