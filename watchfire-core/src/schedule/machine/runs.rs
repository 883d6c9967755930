//! The end of runs.

use std::collections::BTreeSet;

use crate::model::{TaskNumber, TaskStatus};
use crate::schedule::{Command, Life, LifeId, LifeState, Run, RunEnd, RunId, Schedule, Scope, Subject, Wait};

impl Schedule {
    /// Ends the runs for which nothing moves and nothing can start any more. A wildfire run goes on with its next step.
    /// The tasks are read once more before a run of all tasks ends: what was added last may be on no board yet.
    pub(in crate::schedule) fn end_runs(&mut self) {
        let over: Vec<(RunId, Option<Subject>, RunEnd)> = self
            .open_runs()
            .filter(|run| self.is_over(run))
            .map(|run| (run.id, self.next_step(run), self.end_of(run)))
            .collect();
        self.looking.retain(|looking, _| over.iter().any(|(id, ..)| id == looking));
        for (id, step, end) in over {
            if self.must_look(id) {
                continue;
            }
            match step {
                Some(step) => self.begin_step(id, step),
                None => self.end_run(id, end),
            }
        }
    }

    /// Returns true if the tasks must be read again before the run ends, which is asked for.
    fn must_look(&mut self, id: RunId) -> bool {
        let run = &self.ledger.runs[&id];
        if run.stopped || !run.scope.is_general() || self.looking.get(&id) == Some(&true) {
            self.looking.remove(&id);
            return false;
        }
        if self.looking.insert(id, false).is_none() {
            self.command(Command::Look);
        }
        true
    }

    /// Takes in that the tasks are known as they were when the runs seemed to be over.
    pub(in crate::schedule) fn looked(&mut self) {
        self.looking.values_mut().for_each(|looked| *looked = true);
        self.unsettled |= !self.looking.is_empty();
    }

    /// Returns the remainder of a run: tasks that were not started, and tasks that wait for a person.
    fn end_of(&self, run: &Run) -> RunEnd {
        let is_its_step = |life: &&Life| life.run == Some(run.id) && life.subject.phase().is_some();
        let step = self.ledger.lives.values().find(is_its_step).map(|life| life.state.clone());
        let mut end = RunEnd { step, ..RunEnd::default() };
        for card in self.cards.values().filter(|card| run.scope.covers(card.number)) {
            let task = card.number;
            match self.ledger.life_of(task).map(|life| &life.state) {
                Some(LifeState::Waiting { on }) => drop(end.waiting.insert(task, on.clone())),
                Some(state) => drop(end.open.insert(task, state.clone())),
                None if card.status == TaskStatus::Ready && !run.endings.contains_key(&task) => {
                    let on = match self.expected_wait_of(task) {
                        // It would have been its turn, but the run is over.
                        Wait::Turn => Wait::Run,
                        on => on,
                    };
                    end.waiting.insert(task, on);
                }
                None => {}
            }
        }
        end
    }

    /// Returns true if nothing moves for a run without a person, and nothing can start for it.
    fn is_over(&self, run: &Run) -> bool {
        // Tasks were generated that no board shows yet; without them the run would look finished.
        if run.scope == Scope::Wildfire && !self.unseen.is_empty() {
            return false;
        }
        let is_its_own = |life: &Life| {
            // A step belongs to one run, whereas a task may be covered by several.
            if life.subject.phase().is_some() {
                return life.run == Some(run.id);
            }
            // Held work goes on without the run, once the obstacle is gone. What is being found out of it is told.
            let is_left = life.stop.is_none()
                && matches!(life.state, LifeState::Held { .. })
                && !self.will_be_tried(life.id);
            // A stopped run waits only for the lives that it stopped.
            life.subject.task().is_some_and(|task| run.scope.covers(task))
                && (!run.stopped || life.stop.is_some() || life.run == Some(run.id) && !is_left)
        };
        if self.ledger.lives.values().any(|life| is_its_own(life) && self.moves(life)) {
            return false;
        }
        let open: Vec<&Run> = self.open_runs().collect();
        let coming = || {
            self.ready.iter().any(|(_, task)| {
                run.wants(*task) && self.ledger.life_of(*task).is_none() && self.will_start(*task, &open)
            })
        };
        // Last: it looks at every ready task.
        run.stopped || !coming()
    }

    /// Returns true if held work is being tried again or withdrawn, or the target is being asked whether it has the work.
    pub(in crate::schedule) fn is_tried(&self, id: LifeId) -> bool {
        self.trying.contains(&id) || self.doubtful.contains(&id) || self.withdrawing.contains(&id)
    }

    /// Returns true if what becomes of held work is being found out, or will be in a moment.
    pub(crate) fn will_be_tried(&self, id: LifeId) -> bool {
        self.is_tried(id) || self.refused.contains(&id)
    }

    /// Returns true if a life continues without a person.
    pub(in crate::schedule) fn moves(&self, life: &Life) -> bool {
        match &life.state {
            LifeState::Waiting { on: Wait::Backend { until: None, .. } } => false,
            LifeState::Waiting { on: Wait::DependsOn { tasks } } => {
                let open: Vec<&Run> = self.open_runs().collect();
                self.will_be_released(tasks.clone(), &open)
            }
            // What held it may be gone, which is being found out.
            _ if self.will_be_tried(life.id) => true,
            _ => !life.waits_for_person(),
        }
    }

    /// Returns true if a wanted task without a life will start without a person.
    fn will_start(&self, task: TaskNumber, open: &[&Run]) -> bool {
        match self.expected_wait_of(task) {
            Wait::Turn | Wait::Trouble { .. } | Wait::Backend { until: Some(_), .. } => true,
            Wait::DependsOn { tasks } => self.will_be_released(tasks, open),
            _ => false,
        }
    }

    /// Returns true if anything moves among `tasks` and the tasks on which they depend.
    fn will_be_released(&self, mut tasks: Vec<TaskNumber>, open: &[&Run]) -> bool {
        let mut seen = BTreeSet::new();
        while let Some(task) = tasks.pop() {
            // Dependencies may form a circle, in which nothing moves.
            if !seen.insert(task) {
                continue;
            }
            let life = self.ledger.life_of(task);
            let (wait, is_wanted) = match life.map(|life| &life.state) {
                Some(LifeState::Waiting { on }) => (on.clone(), true),
                Some(_) if life.is_some_and(Life::waits_for_person) => continue,
                // Something is at work on it, and may release the others when its work is merged.
                Some(_) => return true,
                None => (self.expected_wait_of(task), self.is_wanted(task, open)),
            };
            match wait {
                // No run starts it, so what it waits for does not matter.
                _ if !is_wanted => {}
                Wait::DependsOn { tasks: below } => tasks.extend(below),
                Wait::Turn
                | Wait::OtherProjects
                | Wait::Trouble { .. }
                | Wait::Retry { .. }
                | Wait::Elsewhere { .. }
                | Wait::Backend { until: Some(_), .. } => {
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}
