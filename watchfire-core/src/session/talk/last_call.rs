//! What an agent that says it has succeeded is asked once: to commit what it has not.

use std::time::Duration;

use async_trait::async_trait;

use crate::Result;
use crate::backend::{Source, Status};
use crate::model::RepoPath;
use crate::observe::{Body, WatchRequest};
use crate::session::Session;

/// How long an agent that is still at work gets to come to the end of its turn, before it is asked.
const TURN: Duration = Duration::from_secs(30);
/// How long it gets to commit.
const ANSWER: Duration = Duration::from_secs(120);
/// How long all of it may take, also where the agent never takes input.
pub(in crate::session) const LIMIT: Duration = TURN.saturating_add(ANSWER);
/// How many files are named.
const NAMED: usize = 20;

/// Who knows what of an agent's work is not committed.
#[async_trait]
pub(crate) trait Uncommitted: Send + Sync {
    /// The paths of what would be captured now.
    async fn paths(&self) -> Result<Vec<RepoPath>>;
}

/// Asks the agent, and waits until its turn has ended. Says nothing to an agent that has nothing left to commit, or of
/// which it is not known that it waits for input. What it does not commit is captured.
pub(in crate::session) async fn run(session: &Session, uncommitted: &dyn Uncommitted) -> Result<()> {
    if matches!(session.status(), Status::Unknown | Status::Starting) || uncommitted.paths().await?.is_empty()
    {
        return Ok(());
    }
    let idle = WatchRequest::default().with_until("status:idle").with_accept_current(true).with_timeout(TURN);
    session.log().watch(&idle).await?;
    let paths = uncommitted.paths().await?;
    if paths.is_empty() {
        return Ok(());
    }
    let payload = serde_json::json!({ "files": paths.len() });
    let asked = session.log().push(Source::Process, Body::lifecycle("asked_to_commit", payload));
    session.send(question(&paths)).await?;
    let answer =
        WatchRequest::default().with_since(asked).with_until("event:turn_completed").with_timeout(ANSWER);
    session.log().watch(&answer).await.map(drop)
}

fn question(paths: &[RepoPath]) -> String {
    let named: Vec<_> = paths.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "You marked the task as done, but this is not committed: {}{more}. Commit what belongs to the task, remove \
         what does not, and stop.",
        named.join(", ")
    )
}
