//! Wildfire: the next step of a run whose tasks are done.

use crate::model::TaskStatus;
use crate::schedule::{Life, Run, RunId, Schedule, Scope, Subject};

impl Schedule {
    /// Returns the next step of a run for which nothing moves. One step at a time: it reads what the one before has
    /// written.
    pub(in crate::schedule) fn next_step(&self, run: &Run) -> Option<Subject> {
        let is_step = |life: &Life| life.subject.phase().is_some();
        if run.scope != Scope::Wildfire || run.stopped || self.ledger.lives.values().any(is_step) {
            return None;
        }
        let course = &run.course;
        // With `review`, a person looks at new tasks first.
        if self.limits.review && course.rounds > 0 {
            return None;
        }
        // A draft that an agent has left a draft waits for a person: trying again would never end.
        let is_draft = |task| self.ledger.life_of(task).is_none() && !course.left.contains_key(&task);
        let drafts =
            self.cards.values().filter(|card| card.status == TaskStatus::Draft && is_draft(card.number));
        if let Some(card) = drafts.min_by_key(|card| (card.position, card.number)) {
            return Some(Subject::Refine { draft: card.number });
        }
        // What is not merged yet is not in the code that the agent would look at, and may be written a second time.
        let is_unfinished =
            self.has_unfinished() || self.ready.iter().any(|(_, task)| !run.endings.contains_key(task));
        // `last` is set once a generation came to nothing.
        let is_last = course.last.is_some() || self.limits.rounds > 0 && course.rounds >= self.limits.rounds;
        (!is_unfinished && !is_last).then_some(Subject::Generate)
    }

    /// Returns true if the work of a task is under way, or waits for a person.
    pub(in crate::schedule) fn has_unfinished(&self) -> bool {
        self.ledger.lives.values().any(|life| life.subject.task().is_some())
    }

    pub(in crate::schedule) fn begin_step(&mut self, run: RunId, step: Subject) {
        let Some(options) = self.ledger.runs.get(&run).map(|run| run.options.clone()) else { return };
        let id = self.begin(step, Some(run), options);
        // A step has no file that could say how often it is tried.
        let retries = self.limits.restarts.max(1) - 1;
        self.change(id, |life| life.retries_left = retries);
    }

    /// Returns true for a step whose run is over, or that an earlier start began: its result is not needed
    /// any more.
    pub(in crate::schedule) fn is_step_without_run(&self, life: &Life) -> bool {
        let is_open =
            |run: RunId| self.ledger.runs.get(&run).is_some_and(|run| run.ended.is_none() && !run.stopped);
        match life.subject.is_proposal() {
            true => self.orphans.contains(&life.id),
            false => life.subject.is_step() && !life.run.is_some_and(is_open),
        }
    }
}
