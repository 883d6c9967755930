//! Taking back what was merged.

use super::{MergeOptions, ProjectHandle, TaskInfo};
use crate::model::{RepoPath, Task, TaskNumber, TaskStatus};
use crate::orchestrator::effects;
use crate::schedule::{LifeState, MergeRecord, Wait};
use crate::store::{NewTask, TaskPatch, TaskQuery, TaskStoreExt as _};
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
    /// is verified, held and merged like any other; the history stays as it was. To bring the work back, undo that task. Asked again,
    /// it goes on with that task, and makes no other.
    ///
    /// # Errors
    /// `invalid_input` for a task that was never merged, or of which nothing is left in the target; the errors of
    /// [`Workspace::revert`](crate::workspace::Workspace::revert), of [`merge`](Self::merge) and of the store.
    pub async fn undo(&self, task: TaskNumber, options: MergeOptions) -> Result<Undone> {
        let store = &self.shared().store;
        let found = store.get(task).await?.value;
        let mut all = vec![found.clone()];
        all.extend(store.list(&TaskQuery::new()).await?.tasks.into_iter().map(|task| task.value));
        let mut all = self.infos(all).await?;
        let info = all.remove(0);
        let Some(merge) = info.last_merge() else {
            let error = Error::new(ErrorKind::InvalidInput, "only what was merged can be undone");
            return Err(error.with("task", task));
        };
        let target = match options.into.clone().or(merge.target.clone()) {
            Some(target) => target,
            None => effects::target(self.shared(), task).await?,
        };
        let commit = Commit::new(merge.commit.as_str());
        let new = undoing(&found, &merge, &target);
        let is_open = |by: &&TaskInfo| by.word() != MERGED || by.taken_back_by(&all).is_none();
        let is_for = |by: &&TaskInfo| by.takes_back(&info) && by.task.prompt.contains(&into(&target, &merge));
        let begun = all.iter().filter(is_for).filter(is_open).max_by_key(|by| by.word() == MERGED).cloned();
        let done = options.with_into(Some(target.clone()));
        if let Some(by) = begun.as_ref().filter(|by| by.life.is_some() || by.word() == MERGED) {
            return self.go_on(by, done).await;
        }
        let draft = match &begun {
            Some(by) => by.task.clone(),
            None => {
                // What is refused now uses up no number.
                let of = WorkspaceKey::new(task);
                let can = self.shared().workspace.can_revert(&of, &commit, &target).await;
                if !can.map_err(|error| renamed(error, task))? {
                    return Err(nothing_left(task, &target));
                }
                store.create(new.clone(), None).await?.value
            }
        };
        let by = draft.task_number;
        let in_the_way = match self.revert(&found, &draft, commit, &target).await {
            Ok(in_the_way) => in_the_way,
            Err(error) => {
                if let Some(by) = begun {
                    // Its branch is there.
                    let is_there = error.kind() == ErrorKind::AlreadyExists;
                    return if is_there { self.go_on(&by, done).await } else { Err(error) };
                }
                // Nothing was done under its number.
                store.delete(by).await?;
                store.purge(by).await?;
                return Err(error);
            }
        };
        if let Some(files) = in_the_way {
            let names: String = files.iter().map(|file| format!("- {file}\n")).collect();
            let prompt = format!("{}\nLater work has changed the same places of:\n{names}", new.prompt);
            let patch = TaskPatch::new().with_prompt(prompt).with_status(TaskStatus::Draft);
            store.update(by, patch, None, None).await?;
            self.shared().store_changed(None);
            return Ok(Undone::Conflicts { by, files });
        }
        // From here on there is work, and whatever keeps it from its merge, its task stays.
        let patch = TaskPatch::new().with_status(TaskStatus::Done).with_success(true);
        store.update(by, patch, None, None).await?;
        let state = self.merge_with(by, done).await?;
        Ok(Undone::Merged { by, state })
    }

    /// Goes on with an undo that has begun: waits for its merge, or merges it if that is what is left to do.
    async fn go_on(&self, info: &TaskInfo, options: MergeOptions) -> Result<Undone> {
        let by = info.task.task_number;
        let state = match (&info.life, info.ending()) {
            (_, Some(how)) if info.word() == MERGED => LifeState::Ended { how: how.clone() },
            (Some(life), _) if info.task.claims_success() && !life.waits_for_person() => {
                self.settled(life.id).await?.state
            }
            _ if info.task.claims_success() => self.merge_with(by, options).await?,
            (Some(life), _) => life.state.clone(),
            (None, Some(how)) => LifeState::Ended { how: how.clone() },
            (None, None) => LifeState::waiting(info.wait.clone().unwrap_or(Wait::Run)),
        };
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
            Reverted::Nothing => Err(nothing_left(of, target)),
        }
    }
}

impl TaskInfo {
    /// Returns the task of `all` whose merge has taken back the last one of this task, unless it was taken back itself.
    #[must_use]
    pub fn taken_back_by<'a>(&self, all: &'a [Self]) -> Option<&'a Self> {
        let has = |by: &&Self| by.takes_back(self) && by.word() == MERGED && by.taken_back_by(all).is_none();
        all.iter().find(has)
    }

    /// Returns true if the task is the undo of the last merge of `of`, by the words in which [`undoing`] writes it.
    fn takes_back(&self, of: &Self) -> bool {
        let (number, prompt) = (of.task.task_number, &self.task.prompt);
        self.task.task_number > number
            && prompt.starts_with(&format!("Take back what #{number} ("))
            && of.last_merge().is_some_and(|merge| prompt.contains(&merge.commit))
    }
}

const MERGED: &str = "merged";

fn nothing_left(task: TaskNumber, target: &str) -> Error {
    let error = Error::new(ErrorKind::InvalidInput, "the branch has nothing of its last merge any more");
    error.with("task", task).with("branch", target)
}

fn into(target: &str, merge: &MergeRecord) -> String {
    let place = merge.repository.as_ref().map(|at| format!(" in {}", at.display())).unwrap_or_default();
    format!("It was merged into {target} by the commit {}{place}", merge.commit)
}

/// Says what to do about a target that is not there.
fn renamed(error: Error, task: TaskNumber) -> Error {
    if error.kind() != ErrorKind::NotFound || error.detail("target").is_none() {
        return error;
    }
    let number = task.value();
    error
        .with("hint", format!("if it was renamed, watchfire undo {number} --into BRANCH takes it back there"))
}

/// Returns the draft of a task that takes back another one, also by an agent.
fn undoing(task: &Task, merge: &MergeRecord, target: &str) -> NewTask {
    let (number, title) = (task.task_number, task.title.lines().next().unwrap_or_default());
    let prompt = format!(
        "Take back what #{number} ({title}) has changed. {}: its difference to what it was merged onto. Keep what came after it.\n",
        into(target, merge)
    );
    NewTask::new(format!("Undo #{number}: {title}")).with_prompt(prompt).with_acceptance_criteria(format!(
        "Nothing of the last merge of #{number} is left, but for what later work needs."
    ))
}
