//! The changes from which all other parts are built. Each is applied to the ledger and becomes a step.

use crate::model::{Attempt, Timestamp};
use crate::schedule::{
    Accept, Change, Command, Ending, Life, LifeId, LifeState, Run, RunEnd, RunId, RunOptions, Schedule, Step,
    StopReason, Subject,
};

impl Schedule {
    /// Returns the life `id` unless it has ended.
    pub(in crate::schedule) fn live(&self, id: LifeId) -> Option<&Life> {
        self.ledger.lives.get(&id)
    }

    pub(in crate::schedule) fn ids(&self, wanted: impl Fn(&Life) -> bool) -> Vec<LifeId> {
        self.ledger.lives.values().filter(|life| wanted(life)).map(|life| life.id).collect()
    }

    pub(in crate::schedule) fn open_runs(&self) -> impl Iterator<Item = &Run> {
        self.ledger.runs.values().filter(|run| run.ended.is_none())
    }

    /// Returns the present as it is recorded. Timestamps are written with whole seconds, and a ledger that is read
    /// back must equal the one that was written.
    pub(in crate::schedule) fn stamp(&self) -> Timestamp {
        let millis = self.now.unix_millis();
        Timestamp::from_unix_millis(millis - millis.rem_euclid(1_000))
    }

    /// Returns the moment `millis` from now as it is recorded, rounded up.
    pub(in crate::schedule) fn after(&self, millis: i64) -> Timestamp {
        round_up(&Timestamp::from_unix_millis(self.now.unix_millis().saturating_add(millis)))
    }

    pub(in crate::schedule) fn command(&mut self, command: Command) {
        self.out.push(Step::Do(command));
    }

    pub(in crate::schedule) fn record(&mut self, change: Change) {
        // These four let no task start and no run end.
        self.unsettled |= !matches!(
            change,
            Change::Notice(_)
                | Change::SessionOver { .. }
                | Change::Command { .. }
                | Change::CommandsForgotten { .. }
        );
        self.ledger.apply(&change);
        self.out.push(Step::Record(change));
    }

    /// Changes a life that has not ended. Records nothing if the value stays equal.
    pub(in crate::schedule) fn change(&mut self, id: LifeId, change: impl FnOnce(&mut Life)) {
        let Some(before) = self.live(id) else { return };
        let mut life = before.clone();
        change(&mut life);
        if life == *before {
            return;
        }
        // Other changes keep the time: merges are queued again, and sessions put aside, by it.
        if life.state != before.state {
            life.since = self.stamp();
        }
        self.record(Change::Life(Box::new(life)));
    }

    pub(in crate::schedule) fn set(&mut self, id: LifeId, state: LifeState) {
        if self.live(id).is_some_and(|life| life.state != state) {
            self.change(id, |life| life.state = state);
        }
    }

    pub(in crate::schedule) fn change_run(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        if let Some(mut run) = self.ledger.runs.get(&id).cloned() {
            change(&mut run);
            self.record(Change::Run(Box::new(run)));
        }
    }

    pub(in crate::schedule) fn end_run(&mut self, id: RunId, end: RunEnd) {
        self.change_run(id, |run| run.ended = Some(end));
    }

    /// Begins a life that waits for its turn.
    pub(in crate::schedule) fn begin(
        &mut self,
        subject: Subject,
        run: Option<RunId>,
        options: RunOptions,
    ) -> LifeId {
        let id = LifeId(self.ledger.last_life.0 + 1);
        // Attempts are counted over all lives of a task: their numbers name rescue refs.
        let before = subject.task().and_then(|task| self.ledger.tasks.get(&task)).cloned();
        let card = subject.task().and_then(|task| self.cards.get(&task));
        let mut life = Life::new(id, subject, self.stamp());
        (life.run, life.options) = (run, options);
        life.retries_left = card.map_or(0, |card| card.retries);
        if let Some(before) = before {
            life.before = Some(before.life);
            (life.attempt, life.setback) = (before.attempt, before.ending);
            (life.target, life.tip) = (before.target, before.tip);
        }
        self.record(Change::Life(Box::new(life)));
        id
    }

    /// Starts an attempt of a life.
    pub(in crate::schedule) fn start(&mut self, id: LifeId) {
        self.change(id, |life| {
            life.attempt = Attempt(life.attempt.0.saturating_add(1));
            // Counted at the start: an attempt that takes the orchestrator down never reports its end.
            life.fruitless = life.fruitless.saturating_add(1);
            life.state = LifeState::Starting;
            // What was accepted was other work.
            life.options.accept = Accept::default();
        });
        self.command(Command::Start(id));
    }

    /// Puts a life at the end of its target's queue, or ends it if a stop has been accepted.
    pub(in crate::schedule) fn enqueue(&mut self, id: LifeId) {
        let Some(life) = self.live(id) else { return };
        let target = life.target.clone().unwrap_or_default();
        self.set(id, LifeState::Queued);
        self.queue.push(id, &target);
        // A stop that came during a publication takes effect here, once the target is known not to have
        // moved.
        self.end_if_stopped(id);
    }

    /// Ends a life.
    pub(in crate::schedule) fn end(&mut self, id: LifeId, ending: Ending) {
        let Some(life) = self.live(id) else { return };
        let subject = life.subject;
        self.queue.remove(id);
        self.orphans.remove(&id);
        self.doubtful.remove(&id);
        self.refused.remove(&id);
        if let Some(task) = subject.task() {
            match ending.parks() {
                true => self.parked.insert(task),
                false => self.parked.remove(&task),
            };
            // Otherwise no summary would mention it: a merge that a killed orchestrator left, for example.
            if !self.open_runs().any(|run| run.scope.covers(task)) {
                self.unreported.insert(task, ending.brief());
            }
        }
        let stops_runs = ending.is_merge_failure() && self.limits.stop_on_merge_failure;
        // A claim that is not merged stays in the record of the task and keeps its dependants waiting. Of one that was
        // withdrawn nothing is in the file: a later `done` is the person's own.
        let is_withdrawn = matches!(ending, Ending::Stopped { by: StopReason::Withdrawn });
        let is_unclaimed = |task| self.card(task).is_some_and(|card| !card.claims_success());
        let is_settled = ending.is_integrated() || is_withdrawn && subject.task().is_some_and(is_unclaimed);
        self.change(id, |life| {
            life.claimed &= !is_settled;
            life.state = LifeState::Ended { how: ending };
        });
        // From the ledger, after the change: the effect needs the ending.
        if let Some(life) = self.ledger.ended.get(&id).cloned() {
            self.command(Command::Release(Box::new(life)));
        }
        // Runs are only marked as stopped: lives under way finish, and nothing new starts.
        if stops_runs {
            let going: Vec<_> = self.open_runs().filter(|run| !run.stopped).map(|run| run.id).collect();
            going.into_iter().for_each(|run| self.change_run(run, |run| run.stopped = true));
        }
    }
}

/// Returns the first whole second that is not before `at`.
pub(in crate::schedule) fn round_up(at: &Timestamp) -> Timestamp {
    let millis = at.unix_millis().saturating_add(999);
    Timestamp::from_unix_millis(millis - millis.rem_euclid(1_000))
}
