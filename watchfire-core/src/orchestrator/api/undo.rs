//! Taking back what was merged.

use super::{MergeOptions, ProjectHandle};
use crate::model::{RepoPath, Task, TaskNumber, TaskStatus};
use crate::orchestrator::effects;
use crate::schedule::{Ending, LifeState};
use crate::store::{NewTask, TaskPatch, TaskStoreExt as _};
use crate::workspace::{Commit, RevertRequest, Reverted, WorkspaceKey};
use crate::{Error, ErrorKind, Result};

/// What became of taking back a merge.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Undone {
    /// The work that takes it back went to its merge.
    Merged {
        /// The task of that work.
        by: TaskNumber,
        /// Where it stands: merged, or held by what holds any work.
        state: LifeState,
    },
    /// Later work has changed the same places. An agent can take it back: a draft is there for that.
    Conflicts {
        /// The draft.
        by: TaskNumber,
        /// The files with such places.
        files: Vec<RepoPath>,
    },
}

impl ProjectHandle {
    /// Takes back what the merge of a task has changed, and keeps what came after it. That is the work of a new task, which
    /// is verified, held and merged like any other; the history stays as it was. To bring the work back, undo that task.
    ///
    /// # Errors
    /// `invalid_input` for a task that is not merged, or of which the target has nothing any more; as
    /// [`Workspace::revert`](crate::workspace::Workspace::revert); those of the store.
    pub async fn undo(&self, task: TaskNumber, options: MergeOptions) -> Result<Undone> {
        let found = self.shared().store.get(task).await?.value;
        let infos = self.infos(vec![found.clone()]).await?;
        let merged = infos.first().and_then(|info| match info.ending() {
            Some(Ending::Merged { commit: Some(commit), target }) if info.life.is_none() => {
                Some((commit.clone(), target.clone()))
            }
            _ => None,
        });
        let Some((commit, target)) = merged else {
            let error = Error::new(ErrorKind::InvalidInput, "only what was merged can be undone");
            return Err(error.with("task", task));
        };
        let target = match options.into.clone().or(target) {
            Some(target) => target,
            None => effects::target(self.shared(), task).await?,
        };
        let commit = Commit::new(commit);
        let by = self.shared().store.create(undoing(&found, &commit, &target), None).await?.value;
        match self.take_back(&found, &by, commit, target, options).await {
            Ok(undone) => Ok(undone),
            Err(error) => {
                // Nothing was done under its number.
                self.shared().store.delete(by.task_number).await?;
                self.shared().store.purge(by.task_number).await?;
                Err(error)
            }
        }
    }

    async fn take_back(
        &self,
        task: &Task,
        by: &Task,
        commit: Commit,
        target: String,
        options: MergeOptions,
    ) -> Result<Undone> {
        let (number, of) = (by.task_number, task.task_number);
        let short = commit.short();
        let message = format!("{}\n\nTakes back {short}, the merge of watchfire/{of}.\n", by.title);
        let (key, merged) = (WorkspaceKey::new(number), WorkspaceKey::new(of));
        let request = RevertRequest::new(key, merged, commit.clone(), &target, message);
        match self.shared().workspace.revert(&request).await? {
            Reverted::Done(_) => {}
            Reverted::Nothing => {
                let error = Error::new(ErrorKind::InvalidInput, "the branch has nothing of it any more");
                return Err(error.with("task", of).with("branch", target));
            }
            Reverted::Conflicts(files) => {
                let names: Vec<_> = files.iter().map(|file| format!("- {file}\n")).collect();
                let prompt =
                    format!("{}\nLater work has changed the same places of:\n{}", by.prompt, names.concat());
                self.shared().store.update(number, TaskPatch::new().with_prompt(prompt), None, None).await?;
                self.shared().store_changed(None);
                return Ok(Undone::Conflicts { by: number, files });
            }
        }
        let done = TaskPatch::new().with_status(TaskStatus::Done).with_success(true);
        self.shared().store.update(number, done, None, None).await?;
        let options = options.with_into(Some(target));
        // Whatever keeps it from its merge, the work is there, and its task says so.
        let state = self.merge_with(number, options).await?;
        Ok(Undone::Merged { by: number, state })
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
    NewTask::new(format!("Undo #{number}: {title}"))
        .with_prompt(prompt)
        .with_acceptance_criteria(format!("Nothing of #{number} is left, but for what later work needs."))
}
