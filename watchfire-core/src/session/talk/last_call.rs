//! The one request to an agent that claims success: commit what is not committed.

use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{Source, Status};
use crate::clock::Clock;
use crate::model::RepoPath;
use crate::observe::Body;
use crate::session::Session;
use crate::{Error, ErrorKind, Result};

/// Time limit for the running turn to end before the agent is asked.
const TURN: Duration = Duration::from_secs(30);
/// Time limit for the commit.
const ANSWER: Duration = Duration::from_secs(120);
/// Time limit for the whole exchange, also where the agent never accepts input.
pub(in crate::session) const LIMIT: Duration = TURN.saturating_add(ANSWER);
/// Upper bound for the files named in the request.
const NAMED: usize = 20;

/// Source of the changes that an agent has not committed.
#[async_trait]
pub(crate) trait Uncommitted: Send + Sync {
    /// Returns the paths that a capture would commit now.
    async fn paths(&self) -> Result<Vec<RepoPath>>;
}

/// Asks the agent, and waits until its turn has ended. Does not ask if nothing is left to commit, or if it is not
/// known that the agent waits for input. Changes that it does not commit are captured.
pub(in crate::session) async fn run(session: &Session, uncommitted: &dyn Uncommitted) -> Result<()> {
    if matches!(session.status(), Status::Unknown | Status::Starting) || uncommitted.paths().await?.is_empty()
    {
        return Ok(());
    }
    let mut activity = session.0.activity.subscribe();
    within(&*session.0.clock, TURN, activity.wait_for(|activity| activity.rests())).await?;
    // Again: the rest of the turn may have committed everything, or written more.
    let paths = uncommitted.paths().await?;
    if paths.is_empty() {
        return Ok(());
    }
    let payload = serde_json::json!({ "files": paths.len() });
    session.log().push(Source::Process, Body::lifecycle("asked_to_commit", payload));
    // Read before the text is sent: a fast agent may have ended its turn when `send` returns.
    let before = activity.borrow().turns;
    session.say(question(&paths)).await?;
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
