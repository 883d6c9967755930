//! `agents.yaml` in the home: everything that is under way, for programs that only read files.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use watchfire_api::daemon_proto::AgentStatus;
use watchfire_core::files::Replace;
use watchfire_core::{Error, ErrorKind, Result};

use crate::Daemon;
use crate::service::status;

const NAME: &str = "agents.yaml";
/// Changes within this time are written at once.
const TOGETHER: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Agents<'a> {
    version: u32,
    agents: &'a [Agent],
}

#[derive(Eq, PartialEq, Serialize)]
struct Agent {
    project_id: String,
    project_name: String,
    project_path: String,
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_number: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_message: Option<String>,
}

impl Agent {
    fn new(status: AgentStatus, root: &Path) -> Self {
        let has_task = status.task_number > 0;
        let issue = status.issue.filter(|issue| !issue.issue_type.is_empty());
        Self {
            project_id: status.project_id,
            project_name: status.project_name,
            project_path: root.display().to_string(),
            mode: status.mode,
            task_number: has_task.then_some(status.task_number),
            task_title: has_task.then_some(status.task_title),
            issue_type: issue.as_ref().map(|issue| issue.issue_type.clone()),
            issue_message: issue.map(|issue| issue.message),
        }
    }
}

/// Keeps the file up to date until the daemon ends, and removes it then.
pub(crate) async fn keep(daemon: Daemon) {
    let mut written: Option<Vec<Agent>> = None;
    loop {
        match now(&daemon).await {
            Ok(agents) if written.as_ref() == Some(&agents) => {}
            Ok(agents) => match write(daemon.home().path(), &agents) {
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
    // A file that cannot be removed says what was.
    let _ = std::fs::remove_file(daemon.home().path().join(NAME));
}

async fn now(daemon: &Daemon) -> Result<Vec<Agent>> {
    let mut agents = Vec::new();
    for project in daemon.projects() {
        let all = status::all(&project).await?;
        agents.extend(all.into_iter().map(|status| Agent::new(status, project.root())));
    }
    Ok(agents)
}

fn write(home: &Path, agents: &[Agent]) -> Result<()> {
    let text = serde_yaml::to_string(&Agents { version: 1, agents })
        .map_err(|error| Error::new(ErrorKind::Internal, "writing what runs").with_source(error))?;
    Replace::new().with_mode(0o600).without_sync().write(&home.join(NAME), text.as_bytes())
}
