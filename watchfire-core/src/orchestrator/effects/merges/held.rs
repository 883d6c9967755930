//! Another attempt to publish held work, without a new verification: target and tree are the same. And its end, if a person no
//! longer wants it.

use std::sync::Arc;

use super::merge::{is_withdrawn, mirror, published, unknown};
use crate::Result;
use crate::journal::State;
use crate::model::TaskNumber;
use crate::orchestrator::effects::publication::ask_again;
use crate::orchestrator::shared::{ProjectShared, caught};
use crate::schedule::{Ending, Fact, Life, LifeState, MergeResult, NoticeCode, StopReason};
use crate::workspace::{Obstacle, ObstacleKind, WorkspaceKey};

/// Tries to publish the work of each life, in order, and reports the results.
pub(crate) async fn try_held(shared: Arc<ProjectShared>, lives: Vec<Life>) {
    for life in lives {
        let (id, task) = (life.id, life.subject.task());
        let candidate = match &life.state {
            LifeState::Held { candidate, .. } => candidate.clone(),
            _ => None,
        };
        let tried = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { try_one(&shared, &life).await }
        });
        // If a foreign workspace panics, the target may have moved.
        let asked = |_| candidate.map(|candidate| MergeResult::Unknown { candidate });
        let result = tried.await.unwrap_or_else(asked);
        if let (Some(task), Some(result)) = (task, &result) {
            // Before the report, after which the life may end and give up its claim.
            mirror(&shared, id, task, result).await;
            shared.store_changed(Some(task));
        }
        let unknown = result.as_ref().and_then(|result| unknown(id, result));
        shared.report(Fact::HeldTried { life: id, result });
        if let Some((id, candidate)) = unknown {
            tokio::spawn(ask_again(Arc::clone(&shared), id, candidate));
        }
    }
}

/// Withdraws the work of a stopped life from the queue of its target, and reports the result.
pub(crate) async fn withdraw(shared: Arc<ProjectShared>, life: Life) {
    let id = life.id;
    let ending = match life.subject.task() {
        Some(task) => withdraw_task(&shared, &life, task).await,
        // Only the work on tasks waits.
        None => life.stop.map(|by| Ending::Stopped { by }),
    };
    shared.report(Fact::Withdrawn { life: id, ending });
}

async fn withdraw_task(shared: &Arc<ProjectShared>, life: &Life, task: TaskNumber) -> Option<Ending> {
    match take_out(shared, task).await {
        Ok(None) => life.stop.map(|by| Ending::Stopped { by }),
        // Other work was faster, and took it along.
        Ok(Some(ending)) => {
            mirror(shared, life.id, task, &MergeResult::Ended(ending.clone())).await;
            shared.store_changed(Some(task));
            Some(ending)
        }
        Err(error) => {
            let message = format!("its work still waits to be published: {}", error.report());
            shared.notice(NoticeCode::Workspace, Some(task), message);
            None
        }
    }
}

/// Takes the work of a task out of what waits for its target. Returns its ending if the target has it already.
pub(super) async fn take_out(shared: &ProjectShared, task: TaskNumber) -> Result<Option<Ending>> {
    let (workspace, key) = (Arc::clone(&shared.workspace), WorkspaceKey::new(task));
    // A foreign workspace may panic.
    let taken = caught("withdrawing held work", async move { workspace.withdraw(&key).await }).await?;
    Ok(taken.map(|candidate| Ending::published(&candidate)))
}

/// Takes out everything else than the work of lives that are on their way to their targets. An earlier program may have left it
/// there, and whatever is merged next would publish it.
pub(crate) async fn withdraw_others(shared: &ProjectShared, state: &State) -> Result<()> {
    let wanted = state.ledger.lives.values().filter(|life| life.is_on_its_way());
    let keys: Vec<_> = wanted.filter_map(|life| life.subject.task()).map(WorkspaceKey::new).collect();
    shared.workspace.withdraw_others(&keys).await
}

async fn try_one(shared: &Arc<ProjectShared>, life: &Life) -> Option<MergeResult> {
    let (candidate, before) = match &life.state {
        LifeState::Held { candidate: Some(candidate), by } | LifeState::Incomplete { candidate, by } => {
            (candidate, by)
        }
        _ => return None,
    };
    // Work that is published already cannot be stopped, so only held work needs a permit.
    let is_held = matches!(life.state, LifeState::Held { .. });
    if let Some(task) = life.subject.task().filter(|_| is_held) {
        // A person may have taken it back while nobody looked at the file.
        let mut closing = shared.closing.subscribe();
        let asked = tokio::select! {
            biased;
            // A missing file is waited for. Closing does not wait for that once for each life.
            _ = closing.wait_for(|closing| *closing) => return None,
            asked = is_withdrawn(shared, task) => asked,
        };
        match asked {
            Ok(false) => {}
            Ok(true) => return Some(MergeResult::Ended(Ending::Stopped { by: StopReason::Withdrawn })),
            Err(error) => {
                tracing::warn!(life = %life.id, "looking at the task of held work: {}", error.report());
                return None;
            }
        }
    }
    if is_held && !shared.permit(Fact::Publishing(vec![(life.id, (**candidate).clone())])).await {
        return None;
    }
    match published(shared, life, candidate, false).await {
        // The same obstacle again is no news, and would be a record every 30 s.
        Ok(MergeResult::Held { by, .. } | MergeResult::Incomplete { by, .. }) if by == *before => None,
        Ok(result) => Some(result),
        Err(error) => {
            tracing::warn!(life = %life.id, "publishing held work: {}", error.report());
            // Told in place of the obstacle of before, which may be gone.
            let by = Obstacle::new(ObstacleKind::WriteFailed, error.report());
            (is_held && by != *before).then(|| MergeResult::Held { candidate: Some(candidate.clone()), by })
        }
    }
}
