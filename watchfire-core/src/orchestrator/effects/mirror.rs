//! What a person finds of a life in its task's file.

use super::claims;
use crate::ErrorKind;
use crate::failpoint::reached;
use crate::model::{TaskNumber, TaskStatus};
use crate::orchestrator::shared::ProjectShared;
use crate::schedule::{Ending, LifeId, NoticeCode};
use crate::store::TaskPatch;
use crate::workspace::Obstacle;

/// Writes the ending of an attempt or a merge into the task's file, in the words that the format has.
pub(super) async fn mirror(shared: &ProjectShared, life: LifeId, task: TaskNumber, ending: &Ending) {
    let patch = match ending {
        Ending::Crashed { .. }
        | Ending::Unclaimed { .. }
        | Ending::TimedOut { .. }
        | Ending::Error { .. }
        | Ending::SetupFailed { .. }
        | Ending::Limited { .. }
        | Ending::GaveUp { .. } => TaskPatch::new().with_failure_reason(ending.to_string()),
        Ending::VerifyFailed { .. } | Ending::Conflict { .. } => {
            TaskPatch::new().with_merge_failure_reason(ending.to_string())
        }
        Ending::Merged { .. } | Ending::Nothing => TaskPatch::new().with_merge_failure_reason(None),
        // The agent's claim or the person has written down a failure already; the others have no field there.
        Ending::Unmerged
        | Ending::Failed { .. }
        | Ending::Stopped { .. }
        | Ending::Refined
        | Ending::Generated { .. }
        | Ending::Proposed
        | Ending::Closed => return,
    };
    write_patch(shared, life, task, patch).await;
}

/// Writes the reason why a refinement failed into the file of its draft, where it stays until the draft becomes ready.
pub(super) async fn mirror_refinement(shared: &ProjectShared, draft: TaskNumber, ending: &Ending) {
    if ending.is_good() || matches!(ending, Ending::Stopped { .. }) {
        return;
    }
    let reason = format!("not refined: {ending}");
    let written = async {
        let task = shared.store.get(draft).await?;
        // A person was faster.
        if task.value.status != TaskStatus::Draft || task.value.is_deleted() {
            return Ok(());
        }
        let patch = TaskPatch::new().with_failure_reason(reason);
        shared.store.update(draft, patch, Some(&task.revision), None).await.map(drop)
    };
    match written.await {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
            let message = format!("writing down why it is not refined: {}", error.report());
            shared.notice(NoticeCode::Store, Some(draft), message);
        }
        _ => {}
    }
}

/// Writes the obstacle that keeps its work from the target into the task's file.
pub(super) async fn mirror_obstacle(
    shared: &ProjectShared,
    life: LifeId,
    task: TaskNumber,
    word: &str,
    by: &Obstacle,
) {
    let patch = TaskPatch::new().with_merge_failure_reason(Some(format!("{word}: {by}")));
    write_patch(shared, life, task, patch).await;
}

/// Writes a change into the task's file. A failure is a notice.
pub(super) async fn write_patch(shared: &ProjectShared, life: LifeId, task: TaskNumber, patch: TaskPatch) {
    reached(|| "writing down");
    match claims::update(shared, life, task, patch).await {
        // Deleted or taken over in the meantime, so it is no longer ours to write.
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ClaimLost) => {
            let message = format!("writing down how it goes: {}", error.report());
            shared.notice(NoticeCode::Store, Some(task), message);
        }
        _ => {}
    }
}
