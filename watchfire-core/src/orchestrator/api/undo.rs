//! Taking back what was merged.

use super::{MergeOptions, ProjectHandle, TaskInfo};
use crate::model::{RepoPath, Task, TaskNumber, TaskStatus};
use crate::orchestrator::effects;
use crate::schedule::{LifeState, MergeRecord};
use crate::store::{NewTask, TaskPatch, TaskStoreExt as _};
use crate::workspace::{Commit, RevertRequest, Reverted, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// What became of taking back a merge.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Undone {
    /// The work that takes it back went to its merge.
    #[non_exhaustive]
    Merged {
        /// The task of that work.
        by: TaskNumber,
        /// Where it stands: merged, or held by what holds any work.
        state: LifeState,
    },
    /// Later work has changed the same places. An agent can take it back: a draft is there for that.
    #[non_exhaustive]
    Conflicts {
        /// The draft.
        by: TaskNumber,
        /// The files with such places.
        files: Vec<RepoPath>,
    },
}

impl ProjectHandle {
    /// Takes back what the last merge of a task has changed, and keeps what came after it. That is the work of a new task, which
    /// is verified, held and merged like any other; the history stays as it was. To bring the work back, undo that task.
    ///
    /// # Errors
    /// `invalid_input` for a task that was never merged, or of which nothing is left in the target; the errors of
    /// [`Workspace::revert`](crate::workspace::Workspace::revert), of [`merge`](Self::merge) and of the store.
    pub async fn undo(&self, task: TaskNumber, options: MergeOptions) -> Result<Undone> {
        let found = self.shared().store.get(task).await?.value;
        let infos = self.infos(vec![found.clone()]).await?;
        let Some(MergeRecord { commit, target }) = infos.first().and_then(TaskInfo::last_merge) else {
            let error = Error::new(ErrorKind::InvalidInput, "only what was merged can be undone");
            return Err(error.with("task", task));
        };
        let target = match options.into.clone().or(target) {
            Some(target) => target,
            None => effects::target(self.shared(), task).await?,
        };
        let commit = Commit::new(commit);
        let store = &self.shared().store;
        let draft = store.create(undoing(&found, &commit, &target), None).await?.value;
        let by = draft.task_number;
        let in_the_way = match self.revert(&found, &draft, commit, &target).await {
            Ok(in_the_way) => in_the_way,
            Err(error) => {
                // Nothing was done under its number.
                store.delete(by).await?;
                store.purge(by).await?;
                return Err(error);
            }
        };
        if let Some(files) = in_the_way {
            let names: String = files.iter().map(|file| format!("- {file}\n")).collect();
            let prompt = format!("{}\nLater work has changed the same places of:\n{names}", draft.prompt);
            store.update(by, TaskPatch::new().with_prompt(prompt), None, None).await?;
            self.shared().store_changed(None);
            return Ok(Undone::Conflicts { by, files });
        }
        // From here on there is work, and whatever keeps it from its merge, its task stays.
        let done = TaskPatch::new().with_status(TaskStatus::Done).with_success(true);
        store.update(by, done, None, None).await?;
        let state = self.merge_with(by, options.with_into(Some(target))).await?;
        Ok(Undone::Merged { by, state })
    }

    /// Puts the work on the branch of the task `by`, or returns the files in which later work is in its way.
    async fn revert(
        &self,
        task: &Task,
        by: &Task,
        commit: Commit,
        target: &str,
    ) -> Result<Option<Vec<RepoPath>>> {
        let of = task.task_number;
        let message =
            format!("{}\n\nTakes back {}, the merge of watchfire/{of}.\n", by.title, commit.short());
        let (key, merged) = (WorkspaceKey::new(by.task_number), WorkspaceKey::new(of));
        let request = RevertRequest::new(key, merged, commit, target, message);
        match self.shared().workspace.revert(&request).await? {
            Reverted::Done(_) => Ok(None),
            Reverted::Conflicts(files) => Ok(Some(files)),
            Reverted::Nothing => {
                let error =
                    Error::new(ErrorKind::InvalidInput, "the branch has nothing of its last merge any more");
                Err(error.with("task", of).with("branch", target))
            }
        }
    }
}

/// Returns the draft of a task that takes back another one, also by an agent.
fn undoing(task: &Task, commit: &Commit, target: &str) -> NewTask {
    let (number, title) = (task.task_number, task.title.lines().next().unwrap_or_default());
    let prompt = format!(
        "Take back what #{number} ({title}) has changed. It was merged into {target} by the commit {}: its difference to what \
         it was merged onto. Keep what came after it.\n",
        commit.as_str()
    );
    NewTask::new(format!("Undo #{number}: {title}")).with_prompt(prompt).with_acceptance_criteria(format!(
        "Nothing of the last merge of #{number} is left, but for what later work needs."
    ))
}
