//! The end of a life: its claim is released, and after a merge its branch is removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{claims, mirror};
use crate::Result;
use crate::failpoint::reached;
use crate::journal::State;
use crate::model::TaskNumber;
use crate::orchestrator::compose::{progress, resume};
use crate::orchestrator::shared::{Bearer, ProjectShared, archive, blocking};
use crate::schedule::{Ending, Life, LifeId, NoticeCode, Subject};
use crate::session::Mailbox;
use crate::workspace::{RemoveRequest, Removed, WorkspaceKey};

/// Releases everything that was held for a life that has ended. Writes its record on disk last, as the mark
/// that the release is complete.
pub(crate) async fn release(shared: &Arc<ProjectShared>, life: Life) {
    // The machine decided it, perhaps at the start, before anything was claimed.
    let by_machine = |ending: &&Ending| matches!(ending, Ending::GaveUp { .. } | Ending::Limited { .. });
    if let (Subject::Refine { draft }, Some(ending)) = (life.subject, life.ending().filter(by_machine)) {
        mirror::mirror_refinement(shared, draft, ending).await;
    }
    if let (Some(task), Some(ending)) = (life.subject.task(), life.ending()) {
        let is_its_own = by_machine(&ending);
        if is_its_own && claims::claim(shared, life.id, task).await.is_ok() {
            mirror::mirror(shared, life.id, task, ending).await;
        }
        // A merged branch is removed before the ending is recorded, except where the merge was found only
        // after a restart.
        if ending.is_integrated() {
            let removing = Arc::clone(shared);
            // In a task of its own: a foreign workspace may panic, and the claim must be given back all the same.
            let _ = tokio::spawn(async move { remove_merged(&removing, task).await }).await;
        }
        reached(|| "nothing kept");
        claims::give_back(shared, &life, task).await;
        reached(|| "given back");
    }
    if let Some(alias) = life.alias.clone() {
        // Its session may have ended while no program attended it. Without a room to write it down, the others wait until their
        // deadlines. Before another may have the alias.
        let _ = shared.inquiries.note(move |book| book.ended(|it| it.alias() == Some(&alias))).await;
    }
    let (of, ended) = (Arc::clone(shared), life.clone());
    let given_up = blocking("freeing what a life had", move || give_up(&of, &ended));
    if let Err(error) = given_up.await {
        shared.notice(NoticeCode::Cleanup, life.subject.task(), error.report());
    }
    archive::keep(shared, &life).await;
}

/// Gives up the mailbox and the alias of a life that has ended. Blocks.
fn give_up(shared: &ProjectShared, life: &Life) -> Result<()> {
    let left = Mailbox::close(&shared.mailbox_of(life.id))?;
    if left > 0 {
        let texts = if left == 1 { "a text".to_owned() } else { format!("{left} texts") };
        let message = format!("{texts} to its agent may not have reached it before its work ended");
        shared.notice(NoticeCode::Session, life.subject.task(), message);
    }
    let bearer = Bearer::new(&shared.id, life.id);
    shared.inner.aliases.free(life.alias.as_ref(), &bearer)
}

/// Gives up what lives had that have ended, in case an earlier program was killed before it did.
pub(crate) async fn sweep_lives(shared: &Arc<ProjectShared>, open: BTreeSet<LifeId>) {
    let of = Arc::clone(shared);
    let sweep = move || {
        of.inner.aliases.sweep(&of.id, |life| open.contains(&life));
        for folder in std::fs::read_dir(of.state_dir.join("mail")).into_iter().flatten().flatten() {
            let life = folder.file_name().to_str().and_then(|name| name.parse().ok()).map(LifeId);
            if life.is_some_and(|life| !open.contains(&life)) {
                Mailbox::close(&folder.path())?;
            }
        }
        Ok(())
    };
    if let Err(error) = blocking("freeing what lives had", sweep).await {
        shared.notice(NoticeCode::Cleanup, None, error.report());
    }
}

/// Returns the ended lives whose release an earlier start did not complete, and that no other life of the
/// task has followed.
pub(crate) fn not_released(shared: &ProjectShared, state: &State) -> Vec<Life> {
    let is_last = |life: &&Life| life.subject.task().is_none_or(|task| state.ledger.life_of(task).is_none());
    let is_released = |life: &&Life| archive::holds::<Life>(shared, life.id);
    state.ledger.ended.values().filter(is_last).filter(|life| !is_released(life)).cloned().collect()
}

/// Releases what an earlier start held for `lives`. Nothing works on their tasks yet.
pub(crate) async fn release_left(shared: &Arc<ProjectShared>, lives: Vec<Life>) {
    for life in lives {
        release(shared, life).await;
    }
}

/// Removes worktree and branch after a merge, if the project wants that. A failure costs only disk space.
pub(super) async fn remove_merged(shared: &Arc<ProjectShared>, task: TaskNumber) {
    let wanted = match shared.settings().await {
        Ok((project, settings)) => project.auto_delete_branch.unwrap_or(settings.defaults.auto_delete_branch),
        Err(error) => {
            return shared.notice(
                NoticeCode::Cleanup,
                Some(task),
                format!("branch kept: {}", error.report()),
            );
        }
    };
    if !wanted {
        return;
    }
    let lock = shared.task_lock(task);
    let _removing = lock.lock().await;
    // In the usual case it was removed before the ending was recorded.
    if !exists(shared, task).await {
        return;
    }
    reached(|| "removing");
    match shared.workspace.remove(&RemoveRequest::new(task)).await {
        Ok(Removed::Gone { .. }) => {
            let state = shared.state_dir.clone();
            // In the background; a failure leaves a few files.
            tokio::task::spawn_blocking(move || {
                resume::forget(&state, task);
                progress::forget(&state, task);
            });
        }
        Ok(Removed::Kept { reason }) => {
            shared.notice(NoticeCode::WorkKept, Some(task), format!("branch and folder kept: {reason}"));
        }
        Err(error) => {
            shared.notice(NoticeCode::Cleanup, Some(task), format!("branch kept: {}", error.report()));
        }
    }
}

/// Returns true if the task has a branch or a folder.
async fn exists(shared: &ProjectShared, task: TaskNumber) -> bool {
    let key = WorkspaceKey::new(task).to_string();
    shared.workspace.list().await.map_or(true, |branches| branches.iter().any(|branch| branch.key == key))
}

/// Returns the branch into which a task's work merges, according to its workspace.
pub(crate) async fn target(shared: &ProjectShared, task: TaskNumber) -> Result<String> {
    let key = WorkspaceKey::new(task).to_string();
    let branches = shared.workspace.list().await?;
    let known = branches.into_iter().find(|branch| branch.key == key).and_then(|branch| branch.target);
    match known {
        Some(target) => Ok(target),
        None => Ok(shared.store.project().await?.value.default_branch),
    }
}

/// Sets the target of every life whose record lacks it: lives that were killed before their session was prepared, or
/// that a journal of the first format recorded.
pub(crate) async fn name_targets(shared: &ProjectShared, mut state: State) -> Result<State> {
    for life in state.ledger.lives.values_mut().filter(|life| life.target.is_none()) {
        if let Some(task) = life.subject.task() {
            life.target = Some(target(shared, task).await?);
        }
    }
    Ok(state)
}
