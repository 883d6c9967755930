//! The state machine of one project.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Card, Ending, Event, Guard, Limits, RunId, RunSummary, Scope, StopReason, Waiting};
use crate::model::{BackendName, TaskNumber, TaskStatus};

/// Decides what runs in one project.
///
/// Invariants, whatever the events: a task has at most one session or one merge under way; never more sessions than
/// [`Limits::parallel`]; a task starts only when it is ready and all it depends on is integrated; a task merges only
/// after its agent claimed success; every run ends exactly once.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    limits: Limits,
    cards: BTreeMap<TaskNumber, Card>,
    under_way: BTreeMap<TaskNumber, Step>,
    runs: BTreeMap<RunId, Run>,
    blocked: BTreeSet<BackendName>,
    /// Ready tasks that do not start by themselves any more, until a person or progress changes them.
    parked: BTreeSet<TaskNumber>,
    /// Tries left after the first one, for tasks that have been tried.
    tries_left: BTreeMap<TaskNumber, u32>,
    guard: Guard,
    /// Done tasks that were to be set back to ready: a board that shows them done is older than that.
    reopening: BTreeSet<TaskNumber>,
    /// What ended while no run was there to tell: the next one does.
    untold: BTreeMap<TaskNumber, Ending>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Running,
    Stopping,
    Merging,
}

#[derive(Clone, Debug)]
struct Run {
    scope: Scope,
    endings: BTreeMap<TaskNumber, Ending>,
    stopped: bool,
}

impl Chain {
    /// Takes in an event and says what to do.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Board(cards) => self.board(cards, &mut actions),
            Event::Limits(limits) => self.limits = limits,
            Event::Run { run, scope } => self.run(run, scope),
            Event::StopRun(run) => self.stop(Some(run), &mut actions),
            Event::StopAll => self.stop(None, &mut actions),
            Event::AttemptEnded { task, ending, progress } => {
                self.attempt_ended(task, ending, progress, &mut actions);
            }
            Event::MergeEnded { task, ending } => self.ended(task, ending, &mut actions),
            Event::Blocked { backend, blocked } => {
                if blocked {
                    self.blocked.insert(backend);
                } else {
                    self.blocked.remove(&backend);
                }
            }
        }
        self.start_what_may(&mut actions);
        self.end_runs(&mut actions);
        actions
    }

    /// The tasks that have a session or a merge under way.
    pub fn under_way(&self) -> impl Iterator<Item = TaskNumber> {
        self.under_way.keys().copied()
    }

    fn board(&mut self, cards: Vec<Card>, actions: &mut Vec<Action>) {
        let mut cards: BTreeMap<_, _> = cards.into_iter().map(|card| (card.number, card)).collect();
        self.reopening.retain(|number| cards.get(number).is_some_and(|card| card.status == TaskStatus::Done));
        for number in &self.reopening {
            if let Some(card) = cards.get_mut(number) {
                card.status = TaskStatus::Ready;
            }
        }
        for (number, step) in &mut self.under_way {
            let reason = match cards.get(number).map(|card| card.status) {
                None | Some(TaskStatus::Draft) => StopReason::Withdrawn,
                Some(TaskStatus::Done) => StopReason::DoneByHand,
                Some(TaskStatus::Ready) => continue,
            };
            if *step == Step::Running {
                *step = Step::Stopping;
                actions.push(Action::StopAttempt(*number, reason));
            }
        }
        // A task that becomes ready again by a person's hand starts over.
        for card in cards.values().filter(|card| card.status == TaskStatus::Ready) {
            let before = self.cards.get(&card.number).map(|card| card.status);
            if before.is_some_and(|status| status != TaskStatus::Ready)
                && !self.under_way.contains_key(&card.number)
            {
                self.parked.remove(&card.number);
            }
        }
        self.parked.retain(|number| cards.get(number).is_some_and(|card| card.status == TaskStatus::Ready));
        self.cards = cards;
    }

    fn run(&mut self, run: RunId, scope: Scope) {
        // Asking for it is a person's step: what was parked may start again.
        match scope {
            Scope::All => {
                for number in std::mem::take(&mut self.parked) {
                    self.person_stepped_in(number);
                }
            }
            Scope::Task(number) => self.person_stepped_in(number),
        }
        let mut run_now = Run { scope, endings: BTreeMap::new(), stopped: false };
        let told: Vec<_> = self.untold.keys().copied().filter(|number| run_now.covers(*number)).collect();
        for number in told {
            let ready = self.cards.get(&number).is_some_and(|card| card.status == TaskStatus::Ready);
            // What is ready gets an ending of its own from this run.
            if let Some(ending) = self.untold.remove(&number).filter(|_| !ready) {
                run_now.endings.insert(number, ending);
            }
        }
        self.runs.insert(run, run_now);
    }

    fn person_stepped_in(&mut self, number: TaskNumber) {
        self.parked.remove(&number);
        self.tries_left.remove(&number);
        self.guard.clear(number);
    }

    fn stop(&mut self, which: Option<RunId>, actions: &mut Vec<Action>) {
        for (_, run) in self.runs.iter_mut().filter(|(id, _)| which.is_none_or(|which| which == **id)) {
            run.stopped = true;
        }
        // What was stopped does not start again by automation.
        for card in self.cards.values().filter(|card| card.status == TaskStatus::Ready) {
            let stopped =
                which.is_none() || self.runs.values().any(|run| run.stopped && run.covers(card.number));
            if stopped && !self.runs.values().any(|run| run.wants(card.number)) {
                self.parked.insert(card.number);
            }
        }
        for (number, step) in &mut self.under_way {
            let wanted = self.runs.values().any(|run| !run.stopped && run.covers(*number));
            if *step == Step::Running
                && !wanted
                && (which.is_none() || self.runs.values().any(|r| r.covers(*number)))
            {
                *step = Step::Stopping;
                self.guard.clear(*number);
                actions.push(Action::StopAttempt(*number, StopReason::Requested));
            }
        }
    }

    fn attempt_ended(
        &mut self,
        task: TaskNumber,
        ending: Option<Ending>,
        progress: bool,
        actions: &mut Vec<Action>,
    ) {
        if progress {
            self.guard.clear(task);
        }
        match ending {
            Some(ending) => self.ended(task, ending, actions),
            None => {
                self.under_way.insert(task, Step::Merging);
                actions.push(Action::Merge(task));
            }
        }
    }

    fn ended(&mut self, task: TaskNumber, ending: Ending, actions: &mut Vec<Action>) {
        let merging = self.under_way.remove(&task) == Some(Step::Merging);
        let stopping = self.runs.values().any(|run| run.covers(task) && run.stopped);
        if ending.is_integrated() {
            self.guard.clear(task);
            self.tries_left.remove(&task);
            if let Some(card) = self.cards.get_mut(&task) {
                card.integrated = true;
            }
        } else if ending.is_retryable() && !stopping {
            let retries = self.cards.get(&task).map_or(0, |card| card.retries);
            let left = self.tries_left.entry(task).or_insert(retries);
            if *left > 0 {
                *left -= 1;
                if ending.is_merge_failure() {
                    actions.push(Action::Reopen(task));
                    self.reopening.insert(task);
                    if let Some(card) = self.cards.get_mut(&task) {
                        card.status = TaskStatus::Ready;
                    }
                }
                return;
            }
        }
        // A merge is cancelled because its task was taken back: then that task may start again.
        let taken_back = merging && ending == Ending::Cancelled;
        if !ending.is_good() && !taken_back {
            self.parked.insert(task);
        }
        if ending.is_merge_failure() && self.limits.stop_on_merge_failure {
            for run in self.runs.values_mut() {
                run.stopped = true;
            }
        }
        let mut told = false;
        for run in self.runs.values_mut().filter(|run| run.covers(task)) {
            run.endings.insert(task, ending.clone());
            told = true;
        }
        if !told {
            self.untold.insert(task, ending);
        }
    }

    /// Starts ready tasks in work order while there are free slots.
    fn start_what_may(&mut self, actions: &mut Vec<Action>) {
        let busy = self.under_way.values().filter(|step| **step != Step::Merging).count();
        let free = (self.limits.parallel.max(1) as usize).saturating_sub(busy);
        let mut order: Vec<_> = self.cards.values().map(|card| (card.position, card.number)).collect();
        order.sort_unstable();
        let mut started = 0;
        for (_, number) in order {
            if started == free {
                break;
            }
            if !self.is_wanted(number) || self.waiting(number).is_some() {
                continue;
            }
            let count = self.guard.count(number);
            if count >= self.limits.restarts.max(1) {
                self.parked.insert(number);
                actions.push(Action::RestartLimit { task: number, count });
                continue;
            }
            self.guard.started(number);
            self.under_way.insert(number, Step::Running);
            actions.push(Action::StartAttempt(number));
            started += 1;
        }
    }

    /// Whether a run, or the automation, wants this ready task started.
    fn is_wanted(&self, number: TaskNumber) -> bool {
        let ready = self.cards.get(&number).is_some_and(|card| card.status == TaskStatus::Ready);
        let asked = self.runs.values().any(|run| run.wants(number));
        ready
            && !self.under_way.contains_key(&number)
            && !self.parked.contains(&number)
            && (asked || self.limits.auto_start)
    }

    /// What a ready task waits for, apart from a free slot.
    fn waiting(&self, number: TaskNumber) -> Option<Waiting> {
        let card = self.cards.get(&number)?;
        let integrated = |number: &TaskNumber| self.cards.get(number).is_some_and(|card| card.integrated);
        let missing: Vec<_> = card.depends_on.iter().filter(|number| !integrated(number)).copied().collect();
        if !missing.is_empty() {
            return Some(Waiting::DependsOn(missing));
        }
        let blocked = card.backend.as_ref().filter(|backend| self.blocked.contains(*backend));
        blocked.map(|backend| Waiting::Backend(backend.clone()))
    }

    fn end_runs(&mut self, actions: &mut Vec<Action>) {
        let over: Vec<_> = self.runs.iter().filter(|(_, run)| self.is_over(run)).map(|(id, _)| *id).collect();
        for id in over {
            let Some(run) = self.runs.remove(&id) else { continue };
            let mut waiting = BTreeMap::new();
            for card in self.cards.values().filter(|card| card.status == TaskStatus::Ready) {
                let number = card.number;
                if !run.covers(number)
                    || run.endings.contains_key(&number)
                    || self.under_way.contains_key(&number)
                {
                    continue;
                }
                let count = self.guard.count(number);
                let why = match self.waiting(number) {
                    Some(why) => why,
                    None if count >= self.limits.restarts.max(1) => Waiting::Restarts(count),
                    None => Waiting::Stopped,
                };
                waiting.insert(number, why);
            }
            actions.push(Action::RunEnded(
                id,
                RunSummary { endings: run.endings, waiting, stopped: run.stopped },
            ));
        }
    }

    /// Whether nothing is under way for a run, and nothing can start for it any more.
    fn is_over(&self, run: &Run) -> bool {
        let busy = self.under_way.keys().any(|number| run.covers(*number));
        let startable = || {
            self.cards.keys().any(|number| {
                run.wants(*number) && self.is_wanted(*number) && self.waiting(*number).is_none()
            })
        };
        !busy && (run.stopped || !startable())
    }
}

impl Run {
    fn covers(&self, number: TaskNumber) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Task(task) => task == number,
        }
    }

    fn wants(&self, number: TaskNumber) -> bool {
        !self.stopped && self.covers(number) && !self.endings.contains_key(&number)
    }
}
