//! The one request to an agent that claims success: commit what is not committed.

use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{Source, Status};
use crate::clock::Clock;
use crate::model::RepoPath;
use crate::observe::Body;
use crate::session::Session;
use crate::{Error, ErrorKind, Result};

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
    let mut activity = session.0.activity.subscribe();
    within(&*session.0.clock, TURN, activity.wait_for(|activity| activity.status == Status::Idle)).await?;
    let paths = uncommitted.paths().await?;
    if paths.is_empty() {
        return Ok(());
    }
    let payload = serde_json::json!({ "files": paths.len() });
    session.log().push(Source::Process, Body::lifecycle("asked_to_commit", payload));
    let before = activity.borrow().turns;
    session.send(question(&paths)).await?;
    within(&*session.0.clock, ANSWER, activity.wait_for(|activity| activity.turns > before)).await
}

async fn within<T>(clock: &dyn Clock, limit: Duration, wait: impl Future<Output = T>) -> Result<()> {
    tokio::select! {
        _ = wait => Ok(()),
        () = clock.sleep_until(clock.boot_time() + limit) => {
            Err(Error::new(ErrorKind::Timeout, "the agent did not come to the end of its turn in time"))
        }
    }
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
