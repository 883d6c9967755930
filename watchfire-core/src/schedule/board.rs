//! The tasks and the limits, as the files have them.

use std::collections::BTreeMap;

use super::{Change, Ending, Life, LifeId, LifeState, Schedule, StopReason};
use crate::model::{BackendName, OnLimit, Task, TaskNumber, TaskStatus};

/// The part of a task that decides when it runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) struct Card {
    /// Its number.
    pub(crate) number: TaskNumber,
    /// Its place in the work order.
    pub(crate) position: i64,
    /// Its status in the file.
    pub(crate) status: TaskStatus,
    /// True if the file claims success.
    pub(crate) success: bool,
    /// Why it failed, in the words of the file.
    pub(crate) failure_reason: Option<String>,
    /// Tasks whose work must be in the target first.
    pub(crate) depends_on: Vec<TaskNumber>,
    /// Number of further attempts after one that failed.
    pub(crate) retries: u32,
    /// The backend of its next session. Absent if it cannot be resolved.
    pub(crate) backend: Option<BackendName>,
    /// The same in wildfire, where the project names one for its work on tasks.
    pub(crate) in_wildfire: Option<BackendName>,
}

impl Card {
    /// Returns the card of a task that is not in the trash.
    #[must_use]
    pub(crate) fn new(task: &Task, backend: Option<BackendName>, in_wildfire: Option<BackendName>) -> Self {
        Self {
            number: task.task_number,
            position: task.position,
            status: task.status,
            success: task.claims_success(),
            failure_reason: task.failure_reason.clone(),
            depends_on: task.depends_on.clone(),
            retries: task.retries.unwrap_or(0),
            backend,
            in_wildfire,
        }
    }
}

impl Card {
    /// Returns true if the file claims that the task is done successfully.
    pub(super) fn claims_success(&self) -> bool {
        self.status == TaskStatus::Done && self.success
    }
}

/// Limits of one project.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub(crate) struct Limits {
    /// Number of tasks that may have a working session at once; zero counts as one.
    pub(crate) parallel: u32,
    /// Number of tasks of all projects that may have a working session at once. 0: no limit.
    pub(crate) in_all: u32,
    /// Starts tasks that become ready, without a request.
    pub(crate) auto_start: bool,
    /// Number of finished tasks that may be merged and verified together; zero counts as one.
    pub(crate) batch: u32,
    /// Stops all runs when a merge fails.
    pub(crate) stop_on_merge_failure: bool,
    /// Number of times that a wildfire run generates tasks. 0: no limit.
    pub(crate) rounds: u32,
    /// Ends a wildfire run after it has generated tasks, so that a person looks at them first.
    pub(crate) review: bool,
    /// Reaction to a used-up limit of the provider's plan.
    pub(crate) on_limit: OnLimit,
    /// Number of starts in a row without progress after which a life gives up; zero counts as one.
    pub(crate) restarts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel: 1,
            in_all: 0,
            auto_start: false,
            batch: 1,
            stop_on_merge_failure: false,
            rounds: 0,
            review: false,
            on_limit: OnLimit::default(),
            restarts: 3,
        }
    }
}

impl Schedule {
    /// Returns a task as the last board had it.
    pub(crate) fn card(&self, task: TaskNumber) -> Option<&Card> {
        self.cards.get(&task)
    }

    /// Takes in all tasks of the store.
    pub(super) fn board(&mut self, cards: Vec<Card>) {
        let cards: BTreeMap<_, _> = cards.into_iter().map(|card| (card.number, card)).collect();
        // Read after the tasks were written: what is not on it was deleted meanwhile.
        self.unsettled |= !std::mem::take(&mut self.unseen).is_empty();
        // Boards repeat themselves whenever any file of the project changes.
        if self.board_known && cards == self.cards {
            // A merge may have been requested while the file said that the task is done, between two boards that do not.
            let may_merge = |life: &Life| matches!(life.state, LifeState::Queued | LifeState::Held { .. });
            return self.ids(may_merge).into_iter().for_each(|id| self.heed_card(id));
        }
        // Also for a first board without tasks: runs may end only once the tasks are known.
        (self.board_known, self.unsettled) = (true, true);
        let before = std::mem::replace(&mut self.cards, cards);
        let is_ready = |card: &&Card| card.status == TaskStatus::Ready;
        self.ready = self.cards.values().filter(is_ready).map(|card| (card.position, card.number)).collect();
        // The files that are back: their lives must not be stopped once the grace period is over.
        self.missing.retain(|task, _| !self.cards.contains_key(task));
        for id in self.ids(|life| life.subject.task().is_some()) {
            self.heed_card(id);
        }
        // Only the change to ready counts. A task that was ready all along keeps what its last life left.
        let set_back: Vec<_> = self
            .ready
            .iter()
            .map(|(_, task)| *task)
            .filter(|task| before.get(task).is_some_and(|card| card.status != TaskStatus::Ready))
            // A life that goes on has followed its card above.
            .filter(|task| self.ledger.life_of(*task).is_none())
            .collect();
        set_back.into_iter().for_each(|task| self.start_over(task));
        // The claim of the file is gone, so a later `done` is the person's own and releases dependants.
        let is_taken_back = |task: &TaskNumber| {
            self.ledger.life_of(*task).is_none()
                && self.cards.get(task).is_some_and(|card| !card.claims_success())
        };
        let claimed = self.ledger.tasks.iter().filter(|(_, record)| record.claimed).map(|(task, _)| *task);
        let taken_back: Vec<_> = claimed.filter(is_taken_back).collect();
        taken_back.into_iter().for_each(|task| self.record(Change::Reopened { task }));
    }

    /// Lets a task start again after a person has set it back to ready.
    fn start_over(&mut self, task: TaskNumber) {
        self.parked.remove(&task);
        // An open run wants no task that has an ending, so the ending goes.
        let has_ending = |run: &&super::Run| run.endings.contains_key(&task) && !run.stopped;
        let runs: Vec<_> = self.open_runs().filter(has_ending).map(|run| run.id).collect();
        for run in runs {
            self.change_run(run, |run| {
                run.endings.remove(&task);
            });
        }
    }

    /// Follows a change of the card of a life's task: a person may have withdrawn the task, or marked it done.
    pub(super) fn heed_card(&mut self, id: LifeId) {
        let Some((life, task)) = self.live(id).and_then(|life| Some((life, life.subject.task()?))) else {
            return;
        };
        let Some(card) = self.cards.get(&task) else {
            // Missing is not deleted: editors replace files by renaming.
            let since = self.now.unix_millis();
            self.missing.entry(task).or_insert(since);
            return;
        };
        let (done, success) = (card.status == TaskStatus::Done, card.claims_success());
        match &life.state {
            // The target may have moved already, so these are completed whatever the file says.
            LifeState::Publishing { .. } | LifeState::Incomplete { .. } | LifeState::Ended { .. } => {}
            _ if card.status == TaskStatus::Draft => self.stop_life(id, StopReason::Withdrawn),
            // A life that waits for a retry may still see its own claim in the file. Only a different mark is
            // a person's.
            LifeState::Running
            | LifeState::Asking { .. }
            | LifeState::Limited { .. }
            | LifeState::Waiting { .. }
                if done && !(life.claimed && success) =>
            {
                // A session is ended first, and its work captured; without one the work is in its branch
                // already.
                match life.session.is_some() {
                    true => self.stop_life(id, StopReason::DoneByHand),
                    false => self.finished_by_hand(id, success),
                }
            }
            // Until its session is prepared, the file shows the claim of the attempt before.
            LifeState::Starting if done && !(life.claimed && success) => {
                self.stop_life(id, StopReason::DoneByHand)
            }
            // Set back or marked as failed: the claim on which the merge rests is gone.
            LifeState::Queued | LifeState::Merging | LifeState::Verifying { .. } | LifeState::Held { .. }
                if !success =>
            {
                self.stop_life(id, StopReason::Withdrawn);
            }
            _ => {}
        }
    }

    /// Merges or ends a life without a session, because a person marked its task as done.
    fn finished_by_hand(&mut self, id: LifeId, success: bool) {
        let has_work = self.live(id).is_some_and(|life| life.attempt.0 > 0);
        match success {
            true if has_work => {
                self.change(id, |life| life.claimed = true);
                self.enqueue(id);
            }
            // Never attempted, so there is no branch to merge.
            true => self.end(id, Ending::Nothing),
            // Its agent's words, where a program was killed between the file and the journal.
            false => {
                let task = self.live(id).and_then(|life| life.subject.task());
                let card = task.and_then(|task| self.cards.get(&task));
                let reason = card.and_then(|card| card.failure_reason.clone());
                let reason = reason.unwrap_or_else(|| "marked as failed by hand".to_owned());
                self.end(id, Ending::Failed { reason });
            }
        }
    }

    /// Notes that an effect has written `status: done` into the file of `task`.
    pub(super) fn done(&mut self, task: TaskNumber, success: bool) {
        self.write_card(task, TaskStatus::Done, success);
    }

    /// Notes that an effect has set `task` back to ready.
    pub(super) fn reopen(&mut self, task: TaskNumber) {
        self.write_card(task, TaskStatus::Ready, false);
    }

    fn write_card(&mut self, task: TaskNumber, status: TaskStatus, success: bool) {
        // A task whose file is gone by now; the next board decides.
        let Some(card) = self.cards.get_mut(&task) else { return };
        (card.status, card.success) = (status, success);
        match status {
            TaskStatus::Ready => self.ready.insert((card.position, task)),
            _ => self.ready.remove(&(card.position, task)),
        };
    }
}
