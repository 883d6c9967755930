//! Keeps `agents.yaml` in the home up to date.

use std::path::Path;
use std::time::Duration;

use watchfire_api::{AgentsFile, RunningAgent};
use watchfire_core::Result;

use crate::Daemon;
use crate::service::status;

/// Changes within this time are written at once.
const TOGETHER: Duration = Duration::from_millis(100);

/// Keeps the file up to date until the daemon ends.
pub(crate) async fn keep(daemon: Daemon) {
    let home = daemon.home().path().to_owned();
    let mut written: Option<AgentsFile> = None;
    loop {
        match now(&daemon).await {
            Ok(agents) if written.as_ref() == Some(&agents) => {}
            Ok(agents) => match agents.write(&home) {
                Ok(()) => written = Some(agents),
                Err(error) => tracing::warn!("{}", error.report()),
            },
            Err(error) => tracing::warn!("{}", error.report()),
        }
        tokio::select! {
            () = daemon.lives_changed() => tokio::time::sleep(TOGETHER).await,
            () = daemon.ended() => break,
        }
    }
}

/// Removes the file, unless agents go on: then it says which.
pub(crate) fn close(home: &Path, agents_go_on: bool) {
    if !names_agents(home) || !agents_go_on {
        // One that cannot be removed says what was.
        let _ = AgentsFile::remove(home);
    }
}

/// Returns true if the file says that agents went on when the daemon before ended, or was killed.
pub(crate) fn names_agents(home: &Path) -> bool {
    AgentsFile::read(home).ok().flatten().is_some_and(|file| !file.agents.is_empty())
}

async fn now(daemon: &Daemon) -> Result<AgentsFile> {
    let mut agents = Vec::new();
    for project in daemon.projects() {
        let all = status::all(&project).await?;
        agents.extend(all.into_iter().map(|status| RunningAgent::new(status, project.root())));
    }
    Ok(AgentsFile::new(agents))
}
