//! Waits for a daemon that has gone while a command needs it.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use watchfire_client::ApiError;
use watchfire_core::model::SessionId;
use watchfire_core::process::helper::Helper;
use watchfire_core::session::{Detached, SessionHost as _};

use crate::failure::Result;

/// Time that a daemon has to come back, and the pause between two tries.
pub(crate) const BACK: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(100);

/// The words for the person meanwhile.
pub(crate) const WAITING: &str = "the daemon has gone; waiting for it";

/// Calls `attempt` until it succeeds, because a daemon is back, or fails for another reason than that none runs.
///
/// # Errors
/// `error`, which ended the connection, if the daemon is not back in time or `given_up` is ready.
pub(crate) async fn back<T>(
    error: ApiError,
    given_up: impl Future<Output = ()>,
    mut attempt: impl AsyncFnMut() -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let deadline = Instant::now() + BACK;
    let mut given_up = std::pin::pin!(given_up);
    while Instant::now() < deadline {
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = &mut given_up => break,
        }
        // One that is ending still takes connections.
        match attempt().await {
            Err(next) if next.is_gone() => {}
            done => return done,
        }
    }
    Err(error)
}

/// Returns the sessions whose agents go on by themselves, with or without a daemon.
pub(crate) async fn left(home: &Path) -> Result<Vec<SessionId>> {
    let hosts = home.join("hosts");
    if !hosts.exists() {
        return Ok(Vec::new());
    }
    let hosted = Detached::new(Helper::current()?, hosts)?.list().await?;
    Ok(hosted.into_iter().map(|hosted| hosted.session).collect())
}

/// Returns true if the agent of a session goes on by itself.
pub(crate) async fn goes_on(home: &Path, session: &str) -> bool {
    left(home).await.is_ok_and(|left| left.iter().any(|it| it.as_str() == session))
}
