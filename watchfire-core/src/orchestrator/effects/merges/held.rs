//! Another attempt to publish held work, without a new verification: target and tree are the same.

use std::sync::Arc;

use super::merge::{is_withdrawn, mirror, published, unknown};
use crate::orchestrator::effects::publication::ask_again;
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{Ending, Fact, Life, LifeState, MergeResult, StopReason};

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
            None
        }
    }
}
