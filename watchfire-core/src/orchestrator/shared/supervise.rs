//! Panics of foreign stores, workspaces, backends and clocks: loops go on after one, and other work ends with an error.

use std::future::Future;
use std::sync::Weak;
use std::time::Duration;

use tokio::task::JoinSet;

use super::ProjectShared;
use crate::schedule::NoticeCode;
use crate::{Error, ErrorKind, Result};

/// Pause after the first panic. Doubles with each further one.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause. With a third of a lease, it is shorter than the lease of a claim.
const LONGEST: Duration = Duration::from_secs(10);

/// Runs `work` in a task of its own, so that a panic in it is an error.
///
/// # Errors
/// Errors of the work; `internal` if it panics.
pub(crate) async fn caught<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let panicked = |error| Err(Error::new(ErrorKind::Internal, format!("{what} panicked: {error}")));
    tokio::spawn(work).await.unwrap_or_else(panicked)
}

/// Runs a loop of a project in the background until the project is dropped. After a panic, which a foreign store, workspace or
/// clock may cause, reports it and begins the loop again.
pub(crate) fn supervise<F>(
    shared: Weak<ProjectShared>,
    what: &'static str,
    run: impl Fn(Weak<ProjectShared>) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(mut closing) = shared.upgrade().map(|open| open.closing.subscribe()) else { return };
    // Its sender goes with the project. Loops sleep for hours, and would keep the project's memory until they wake.
    let dropped = async move { while closing.changed().await.is_ok() {} };
    let looping = async move {
        let (mut pause, mut running) = (PAUSE, JoinSet::new());
        running.spawn(run(Weak::clone(&shared)));
        // A loop that returns has ended with its project.
        while let Some(Err(error)) = running.join_next().await {
            // Otherwise the task was cancelled, because the runtime shuts down.
            let Some(open) = shared.upgrade().filter(|_| error.is_panic()) else { return };
            open.notice(NoticeCode::Store, None, format!("{what} panicked, and begins again: {error}"));
            drop(open);
            // The project's clock may be the part that panicked.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
            running.spawn(run(Weak::clone(&shared)));
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = looping => {}
            () = dropped => {}
        }
    });
}
