//! Removing the branch of a task while nothing runs on it.

use std::sync::Arc;

use super::claims;
use crate::model::TaskNumber;
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{LifeState, NoticeCode};
use crate::workspace::{RemoveRequest, Removed};
use crate::{Error, ErrorKind, Result};

/// Removes folder and branch of a task, if nothing is under way for it.
pub(crate) async fn remove_branch(
    shared: &Arc<ProjectShared>,
    task: TaskNumber,
    discard: bool,
) -> Result<Removed> {
    // No attempt opens the workspace while this is held.
    let lock = shared.task_lock(task);
    let _removing = lock.lock().await;
    // Asked under the lock: an attempt that begins after the answer has to wait before it opens the
    // workspace.
    let state =
        shared.read(move |schedule| schedule.ledger().life_of(task).map(|life| life.state.clone())).await?;
    match state {
        None => {}
        Some(LifeState::Held { by, .. }) => {
            let message = "the finished work of the task waits to be merged";
            let hint = format!(
                "watchfire branches merge {task} tries again; watchfire branches delete {task} --discard gives it up"
            );
            return Err(Error::new(ErrorKind::Busy, message)
                .with("held by", by.to_string())
                .with("hint", hint));
        }
        Some(_) => {
            let message = "an agent or a merge is under way for the task";
            return Err(Error::new(ErrorKind::Busy, message).with("task", task));
        }
    }
    // Shows other machines that the task is taken. A task that is gone needs no claim. If we are killed here,
    // a lease of a minute is left, which our next start takes over at once.
    let claim = match claims::claim_briefly(shared, task).await {
        Ok(claim) => Some(claim),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let removed = shared.workspace.remove(&RemoveRequest::new(task).with_discard(discard)).await;
    // A life that has begun meanwhile has the same claim, and waits for the lock.
    if let Some(claim) = claim
        && !claims::is_held(shared, task)
        && let Err(error) = shared.store.release(&claim).await
    {
        shared.notice(NoticeCode::Store, Some(task), format!("giving the task back: {}", error.report()));
    }
    removed
}
