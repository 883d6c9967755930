//! What a person does with the branches of tasks while nothing runs on them.

use std::time::Duration;

use tokio::sync::oneshot;

use super::dispatcher::{Message, PendingMerge};
use super::handle::ProjectHandle;
use super::project::ProjectShared;
use super::request::RunOptions;
use super::{prune, start};
use crate::model::TaskNumber;
use crate::schedule::Ending;
use crate::store::{Holder, TaskQuery};
use crate::workspace::{Pruned, RemoveRequest, Removed};
use crate::{Error, ErrorKind, Result};

impl ProjectHandle {
    /// Merges the finished work of a task, also where `auto_merge` is off: in its turn, verified like any other. How it
    /// ended.
    ///
    /// # Errors
    /// `busy` while an agent or a merge is under way for the task; `invalid_input` for a task that is not done, or that
    /// was marked as failed; those of the store.
    pub async fn merge(&self, task: TaskNumber) -> Result<Ending> {
        let shared = &self.0;
        if !shared.store.get(task).await?.value.claims_success() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "only the work of a task that is done can be merged",
            )
            .with("task", task)
            .with("hint", "if it is good, mark the task as done first"));
        }
        let target = start::target(shared, task).await?;
        let infos = self.tasks(&TaskQuery::new()).await?;
        let attempt = infos.iter().find(|info| info.task.task_number == task).map(|info| info.attempt);
        let merge = PendingMerge {
            task,
            attempt: attempt.unwrap_or_default(),
            target,
            publishing: None,
            options: RunOptions { merge: Some(true), ..RunOptions::default() },
        };
        let (reply, accepted) = oneshot::channel();
        shared.inner.outbox.send(Message::Merge { project: shared.id.clone(), merge, reply });
        let ended = accepted.await.map_err(|_| closed())??;
        ended.await.map_err(|_| closed())
    }

    /// Removes folder and branch of a task if all of the work is reachable without them; with `discard` other work goes
    /// under a rescue reference first.
    ///
    /// # Errors
    /// `busy` while an agent or a merge is under way for the task; those of the workspace.
    pub async fn remove_branch(&self, task: TaskNumber, discard: bool) -> Result<Removed> {
        remove(&self.0, task, discard).await
    }

    /// Cleans up what no work depends on: folders of killed runs, administration without a folder, and where
    /// `auto_delete_branch` holds, branches of tasks that are over and whose work is in the target. It is also done by
    /// itself, as often as `prune_every` in the settings says.
    ///
    /// # Errors
    /// Those of the workspace and the store. That a branch could not go is no error.
    pub async fn prune(&self) -> Result<Pruned> {
        prune::prune(&self.0).await
    }
}

/// Removes folder and branch of a task, if nothing is under way for it.
pub(super) async fn remove(shared: &ProjectShared, task: TaskNumber, discard: bool) -> Result<Removed> {
    let (reply, answer) = oneshot::channel();
    shared.inner.outbox.send(Message::IsUnderWay { project: shared.id.clone(), task, reply });
    if answer.await.map_err(|_| closed())? {
        return Err(
            Error::new(ErrorKind::Busy, "an agent or a merge is under way for the task").with("task", task)
        );
    }
    // Another holder than that of attempts: while it holds the task none begins. A task that is no more needs none.
    let attempts = &shared.inner.holder;
    let holder = Holder::new(&*attempts.machine, format!("{}, a branch", attempts.home), &*attempts.start);
    let claim = match shared.store.claim(task, &holder, Duration::from_secs(60)).await {
        Ok(claim) => Some(claim),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let removed = shared.workspace.remove(&RemoveRequest::new(task).with_discard(discard)).await;
    if let Some(claim) = claim
        && let Err(error) = shared.store.release(&claim).await
    {
        shared.attention(Some(task), format!("giving the task back: {}", error.report()));
    }
    removed
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the orchestrator has shut down")
}
