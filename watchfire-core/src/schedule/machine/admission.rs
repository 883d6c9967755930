//! Admission: decides which tasks start.

use crate::backend::IssueKind;
use crate::model::{BackendName, TaskNumber, TaskStatus};
use crate::sandbox::SandboxChoice;
use crate::schedule::{
    Card, Ending, Life, LifeId, LifeState, Run, RunId, RunOptions, Schedule, Scope, Subject, Wait,
};

/// A place in the work order: by position, then by number.
type Place = (i64, Option<TaskNumber>);

/// Work that may start now.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Due {
    /// A life that waits.
    Life(LifeId),
    /// A task without a life.
    Task(TaskNumber),
}

impl Schedule {
    /// Starts the tasks that may start, in work order, while slots are free, and sets the wait of the other lives.
    pub(in crate::schedule) fn admit(&mut self) {
        // Also while no slot is free, because this sets what each life waits for.
        let mut starts = self.due_lives();
        let busy = self.busy();
        // A limit that was lowered ends no session: the next one starts once enough have ended.
        let own = (self.limits.parallel.max(1) as usize).saturating_sub(busy);
        let free = match self.limits.in_all {
            0 => own,
            in_all => own.min((in_all as usize).saturating_sub(busy + self.elsewhere)),
        };
        // Without a run or the automation no task is wanted, and ten thousand ready ones need not be looked
        // at.
        if own > 0 && (self.is_automatic() || self.open_runs().next().is_some()) {
            starts.extend(self.due_tasks(own));
            starts.sort_unstable();
        }
        let is_early = |due: &(Place, Due)| matches!(due.1, Due::Life(id) if self.is_too_early(id));
        let (early, starts): (Vec<_>, Vec<_>) = starts.into_iter().partition(is_early);
        for (_, due) in early {
            if let Due::Life(id) = due {
                self.put_off(id);
            }
        }
        self.is_short = starts.len().min(own) > free;
        for (at, due) in starts.into_iter().map(|(_, due)| due).enumerate() {
            match due {
                // A task before it in this order has begun just now.
                Due::Life(id) if self.is_too_early(id) => self.put_off(id),
                Due::Life(id) if at < free => {
                    self.starts += 1;
                    self.start(id);
                }
                // Keeps its place: a life that waits is in the list again at the next step.
                Due::Life(id) => self.set(id, LifeState::Waiting { on: self.turn() }),
                Due::Task(task) if at < free => {
                    let (run, options) = self.owner(task);
                    let id = self.begin(Subject::Task { task }, run, options);
                    self.starts += 1;
                    self.start(id);
                }
                // Nothing to record without a life: `expected_wait` computes what the task waits for.
                Due::Task(_) => {}
            }
        }
    }

    /// Returns the number of slots that are taken here.
    #[must_use]
    pub(crate) fn busy(&self) -> usize {
        self.ledger.lives.values().filter(|life| life.holds_slot()).count()
    }

    /// Returns the number of slots that were given since the project was opened.
    #[must_use]
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns the slots of all projects that are not for this one.
    #[must_use]
    pub(crate) fn elsewhere(&self) -> usize {
        self.elsewhere
    }

    /// Returns true if work would start but for the slots of other projects.
    #[must_use]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short && !self.closing
    }

    /// Returns the wait of work that needs only a slot.
    fn turn(&self) -> Wait {
        // Alone, a project waits for its own work.
        if self.is_short && self.elsewhere > 0 { Wait::OtherProjects } else { Wait::Turn }
    }

    /// Returns true for a generation of tasks while other tasks are under way: its agent would look at code
    /// without their results.
    fn is_too_early(&self, id: LifeId) -> bool {
        self.live(id).is_some_and(|life| life.subject == Subject::Generate) && self.has_unfinished()
    }

    /// Lets a generation wait for the tasks that are under way, and gives it up where those wait for a person: its run is
    /// over then.
    fn put_off(&mut self, id: LifeId) {
        let moves = self.ledger.lives.values().any(|life| life.subject.task().is_some() && self.moves(life));
        match moves {
            true => self.set(id, LifeState::Waiting { on: Wait::Turn }),
            false => self.end(id, Ending::Closed),
        }
    }

    /// Returns the waiting lives that need only a slot, by their place in the work order. Sets the wait of the
    /// others.
    fn due_lives(&mut self) -> Vec<(Place, Due)> {
        let mut due = Vec::new();
        for id in self.ids(|life| matches!(life.state, LifeState::Waiting { .. })) {
            // First, because a card that was withdrawn ends the life.
            self.heed_card(id);
            // Before its wait is computed: the run may name another agent, whose backend is not blocked.
            self.bind(id);
            let Some(life) = self.live(id) else { continue };
            let card = life.subject.task().and_then(|task| self.cards.get(&task));
            let place = match card {
                // Work that goes on, after an answer or a limit, comes before new work: its turn is half paid for. A retry
                // keeps its place. An alias means that it had a session.
                Some(card) if life.alias.is_some() && life.setback.is_none() => {
                    Some((i64::MIN, Some(card.number)))
                }
                Some(card) => Some((card.position, Some(card.number))),
                // Steps of wildfire begin when no task has work, and give way to one that comes.
                None => life.subject.is_step().then_some((i64::MAX, None)),
            };
            match (self.wait_of(life, card), place) {
                (Some(Wait::Turn), Some(place)) => due.push((place, Due::Life(id))),
                (Some(on), _) => self.set(id, LifeState::Waiting { on }),
                (None, _) => {}
            }
        }
        due.sort_unstable();
        due
    }

    /// Returns the first `count` tasks without a life that may start now, by their place in the work order.
    fn due_tasks(&self, count: usize) -> Vec<(Place, Due)> {
        let open: Vec<&Run> = self.open_runs().collect();
        let is_due = |task: TaskNumber| {
            self.ledger.life_of(task).is_none()
                && self.is_wanted(task, &open)
                && self.expected_wait_of(task) == Wait::Turn
        };
        let due = self.ready.iter().filter(|(_, task)| is_due(*task));
        due.take(count).map(|(position, task)| ((*position, Some(*task)), Due::Task(*task))).collect()
    }

    /// Returns the current wait of a waiting life, or `None` if the life does not wait.
    fn wait_of(&self, life: &Life, card: Option<&Card>) -> Option<Wait> {
        let LifeState::Waiting { on } = &life.state else { return None };
        Some(match on {
            // Only a request ends this wait.
            Wait::Resume => Wait::Resume,
            Wait::Retry { until } | Wait::Elsewhere { until }
                if until.unix_millis() > self.now.unix_millis() =>
            {
                on.clone()
            }
            _ if life.subject.is_step() => self.wait_without_card(
                life.options.agent.as_ref().or(life.backend.as_ref()),
                Some(&life.options),
            ),
            // While its file is missing, its dependencies are not known.
            _ => card.map_or(Wait::Turn, |card| {
                let run = life.run.and_then(|run| self.ledger.runs.get(&run));
                self.wait_for(card, Some(&life.options), run)
            }),
        })
    }

    /// Returns the wait of a ready task without a life, if a run or the automation wants it.
    #[must_use]
    pub(crate) fn expected_wait(&self, task: TaskNumber) -> Option<Wait> {
        let open: Vec<&Run> = self.open_runs().collect();
        let wait = self.is_wanted(task, &open).then(|| self.expected_wait_of(task))?;
        Some(if wait == Wait::Turn { self.turn() } else { wait })
    }

    /// Returns the wait of `task`, which has no life. [`Wait::Turn`] if it needs only a slot.
    pub(in crate::schedule) fn expected_wait_of(&self, task: TaskNumber) -> Wait {
        let Some(card) = self.cards.get(&task) else { return Wait::Run };
        let run = self.most_specific(task);
        self.wait_for(card, run.map(|run| &run.options), run)
    }

    /// Returns the wait of a task in `run`, with what was asked for.
    fn wait_for(&self, card: &Card, options: Option<&RunOptions>, run: Option<&Run>) -> Wait {
        let missing: Vec<_> = self.missing_dependencies(card).collect();
        if !missing.is_empty() {
            return Wait::DependsOn { tasks: missing };
        }
        let agent = options.and_then(|options| options.agent.as_ref());
        self.wait_without_card(agent.or(own_backend(card, run)), options)
    }

    /// Returns the backend of the next session of a life.
    pub(in crate::schedule) fn asked_for(&self, life: &Life) -> Option<BackendName> {
        let card = life.subject.task().and_then(|task| self.cards.get(&task));
        let run = life.run.and_then(|run| self.ledger.runs.get(&run));
        life.options.agent.as_ref().or(card.and_then(|card| own_backend(card, run))).cloned()
    }

    fn wait_without_card(&self, backend: Option<&BackendName>, options: Option<&RunOptions>) -> Wait {
        let block = backend.and_then(|name| self.ledger.blocked.get_key_value(name));
        // A caller's PATH may have what ours lacks.
        let block = block.filter(|(_, block)| {
            block.issue.kind != IssueKind::AgentMissing || !options.is_some_and(has_variables)
        });
        // Before the pause: a block may need a person, a pause never does.
        if let Some((backend, block)) = block {
            return Wait::Backend { backend: backend.clone(), until: block.until.clone() };
        }
        self.paused.as_ref().map_or(Wait::Turn, super::state::Trouble::wait)
    }

    pub(in crate::schedule) fn missing_dependencies<'a>(
        &'a self,
        card: &'a Card,
    ) -> impl Iterator<Item = TaskNumber> + 'a {
        card.depends_on.iter().copied().filter(|task| !self.is_integrated(*task))
    }

    /// Returns true if the work of `task` is in the target, or a person finished the task by hand.
    fn is_integrated(&self, task: TaskNumber) -> bool {
        if let Some(life) = self.ledger.life_of(task) {
            // Published; only a checkout is behind.
            return matches!(life.state, LifeState::Incomplete { .. });
        }
        let done = self.cards.get(&task).is_some_and(|card| card.status == TaskStatus::Done && card.success);
        // An agent's claim that is not merged does not release the tasks that depend on it.
        done && !self.ledger.tasks.get(&task).is_some_and(|record| record.claimed)
    }

    /// Returns true if one of the `open` runs or the automation would start this task, which has no life.
    pub(in crate::schedule) fn is_wanted(&self, task: TaskNumber, open: &[&Run]) -> bool {
        self.cards.get(&task).is_some_and(|card| card.status == TaskStatus::Ready)
            && !self.reserved.contains(&task)
            && (open.iter().any(|run| run.wants(task)) || self.is_automatic() && !self.parked.contains(&task))
    }

    /// Returns true if ready tasks start without a request.
    fn is_automatic(&self) -> bool {
        self.limits.auto_start && !self.ledger.halted
    }

    /// Returns the run to which a new life of `task` would belong: the latest request for this task alone, else the
    /// earliest for all.
    fn most_specific(&self, task: TaskNumber) -> Option<&Run> {
        let wanting = || self.open_runs().filter(|run| run.wants(task));
        wanting().filter(|run| !run.scope.is_general()).last().or_else(|| wanting().next())
    }

    fn owner(&self, task: TaskNumber) -> (Option<RunId>, RunOptions) {
        let run = self.most_specific(task);
        (run.map(|run| run.id), run.map(|run| self.options_of(run)).unwrap_or_default())
    }

    /// Returns the options that a run gives to its lives. A task that is requested alone without a sandbox gets the
    /// one that a request for all tasks named.
    fn options_of(&self, run: &Run) -> RunOptions {
        let mut options = run.options.clone();
        if !run.scope.is_general() && options.sandbox.is_none() {
            let general = self.open_runs().filter(|other| other.scope.is_general() && !other.stopped);
            // Never `none`: a request that names no sandbox must not inherit its absence.
            let mut named = general.filter_map(|other| other.options.sandbox.as_ref());
            options.sandbox = named.find(|sandbox| **sandbox != SandboxChoice::None).cloned();
        }
        options
    }

    /// Binds a waiting life to the most specific request that covers it, before its next session starts.
    fn bind(&mut self, id: LifeId) {
        let Some((life, task)) = self.live(id).and_then(|life| Some((life, life.subject.task()?))) else {
            return;
        };
        let covers = |run: &&Run| !run.stopped && run.scope.covers(task);
        let is_specific = |run: &&Run| !run.scope.is_general();
        let own = life.run.and_then(|run| self.ledger.runs.get(&run));
        // The latest request for this task alone goes first, as in `most_specific`.
        let specific = self.open_runs().filter(covers).filter(is_specific).last();
        let Some(run) = specific
            .or_else(|| own.filter(|run| run.ended.is_none()).filter(covers))
            .or_else(|| self.open_runs().find(covers))
        else {
            return;
        };
        if life.run == Some(run.id) {
            return;
        }
        // A request for all does not replace the options that were requested for this task alone.
        let keeps = !is_specific(&run) && own.as_ref().is_some_and(is_specific);
        let (run, options) = (run.id, (!keeps).then(|| self.options_of(run)));
        self.change(id, |life| {
            life.run = Some(run);
            life.options = options.unwrap_or_else(|| life.options.clone());
        });
    }
}

/// Returns true if sessions get a caller's variables, and not the orchestrator's.
pub(in crate::schedule) fn has_variables(options: &RunOptions) -> bool {
    options.environment.as_ref().is_some_and(|caller| caller.variables().is_some())
}

/// Returns the backend of a task for which none was asked.
fn own_backend<'a>(card: &'a Card, run: Option<&Run>) -> Option<&'a BackendName> {
    let is_wildfire = run.is_some_and(|run| run.scope == Scope::Wildfire);
    if is_wildfire { card.in_wildfire.as_ref() } else { card.backend.as_ref() }
}
