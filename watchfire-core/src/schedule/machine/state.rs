//! The state machine of one project: its state, and the entry for facts.

use std::collections::{BTreeMap, BTreeSet};

use super::queue::Queue;
use crate::model::{TaskNumber, Timestamp};
use crate::schedule::{
    Card, Ending, Fact, Ledger, Life, LifeId, LifeState, Limits, RunEnd, RunId, Step, StopReason, Subject,
    Wait,
};

/// The state machine of one project. See the [module](super).
///
/// Invariants, whatever the facts: a subject has at most one life that has not ended, with at most one session; a
/// session starts only while fewer than [`Limits::parallel`] are working here, and fewer than [`Limits::in_all`] in all
/// projects; a task starts only when it is ready and its dependencies are merged; work is published only after a claim of success and never after a stop; every life and
/// every run ends once.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(in crate::schedule) ledger: Ledger,
    pub(in crate::schedule) limits: Limits,
    /// Slots of all projects that are not for this one.
    pub(in crate::schedule) elsewhere: usize,
    /// True if work would start but for these.
    pub(in crate::schedule) is_short: bool,
    /// Number of slots that were given since the project was opened.
    pub(in crate::schedule) starts: u64,
    pub(in crate::schedule) cards: BTreeMap<TaskNumber, Card>,
    /// The ready tasks in work order.
    pub(in crate::schedule) ready: BTreeSet<(i64, TaskNumber)>,
    /// True once the tasks were reported. Before that, nothing starts and no run ends.
    pub(in crate::schedule) board_known: bool,
    /// Tasks with a session whose file is missing, with the time in milliseconds since when.
    pub(in crate::schedule) missing: BTreeMap<TaskNumber, i64>,
    pub(in crate::schedule) queue: Queue,
    pub(in crate::schedule) now: Timestamp,
    /// Held lives whose publication is being tried.
    pub(in crate::schedule) trying: BTreeSet<LifeId>,
    /// Stopped lives whose work is being taken out of what waits for its target.
    pub(in crate::schedule) withdrawing: BTreeSet<LifeId>,
    /// Held lives whose publication was refused, because it might have published other work that is not wanted.
    pub(in crate::schedule) refused: BTreeSet<LifeId>,
    /// Lives whose attempt ended without a known outcome while the project was closing.
    pub(in crate::schedule) undetermined: BTreeSet<LifeId>,
    /// Lives that ask, whose sessions are being ended because no answer has come for long.
    pub(in crate::schedule) put_aside: BTreeSet<LifeId>,
    /// Tasks that were generated and that no board has shown yet.
    pub(in crate::schedule) unseen: BTreeSet<TaskNumber>,
    /// Runs of all tasks that seem to be over, with true once the tasks were read again.
    pub(in crate::schedule) looking: BTreeMap<RunId, bool>,
    /// Held lives whose work may be in the target already: an earlier start may have been killed while it tried, or the
    /// target could not be asked.
    pub(in crate::schedule) doubtful: BTreeSet<LifeId>,
    /// Time of the next attempt to publish held work.
    pub(in crate::schedule) next_held: Option<i64>,
    /// Time at which old requests are looked for.
    pub(in crate::schedule) next_forget: i64,
    /// A pause of all starts.
    pub(in crate::schedule) paused: Option<Trouble>,
    /// Tasks that the automation leaves alone until a person or progress changes them.
    pub(in crate::schedule) parked: BTreeSet<TaskNumber>,
    /// Tasks for which a request follows, and that nothing else starts until then.
    pub(in crate::schedule) reserved: BTreeSet<TaskNumber>,
    /// Endings that no run covered. The next run includes them in its summary.
    pub(in crate::schedule) unreported: BTreeMap<TaskNumber, Ending>,
    /// Lives of an earlier orchestrator that wait for a person. They start no session by themselves.
    pub(in crate::schedule) orphans: BTreeSet<LifeId>,
    pub(in crate::schedule) closing: bool,
    /// True if lives that were cut off continue by themselves.
    resumes: bool,
    /// True if something changed that may let a task start or a run end.
    pub(in crate::schedule) unsettled: bool,
    pub(in crate::schedule) out: Vec<Step>,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            limits: Limits::default(),
            elsewhere: 0,
            is_short: false,
            starts: 0,
            cards: BTreeMap::new(),
            ready: BTreeSet::new(),
            board_known: false,
            missing: BTreeMap::new(),
            queue: Queue::default(),
            now: Timestamp::from_unix_millis(0),
            trying: BTreeSet::new(),
            withdrawing: BTreeSet::new(),
            refused: BTreeSet::new(),
            undetermined: BTreeSet::new(),
            put_aside: BTreeSet::new(),
            unseen: BTreeSet::new(),
            looking: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            next_held: None,
            next_forget: 0,
            paused: None,
            parked: BTreeSet::new(),
            reserved: BTreeSet::new(),
            unreported: BTreeMap::new(),
            orphans: BTreeSet::new(),
            closing: false,
            resumes: false,
            unsettled: true,
            out: Vec::new(),
        }
    }
}

/// Trouble of this machine.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Trouble {
    pub(in crate::schedule) code: String,
    pub(in crate::schedule) message: String,
    pub(in crate::schedule) until: Timestamp,
}

impl Schedule {
    /// Restores the machine from a ledger. With `resume`, lives and runs continue as they were. Without it, the runs
    /// of the ledger end as interrupted, and their lives wait until a person resumes them.
    ///
    /// Lives that had a session, or a publication under way, keep their state: the caller determines their outcome
    /// and reports it as facts.
    #[must_use]
    pub(crate) fn restore(ledger: Ledger, now: &Timestamp, resume: bool) -> (Self, Vec<Step>) {
        let mut schedule = Self { ledger, now: now.clone(), resumes: resume, ..Self::default() };
        // Parked tasks are not recorded themselves: their last ending says so.
        let records = schedule.ledger.tasks.iter();
        schedule.parked = records
            .filter(|(_, record)| record.ending.as_ref().is_some_and(Ending::parks))
            .map(|(task, _)| *task)
            .collect();
        if !resume {
            schedule.orphans = schedule.ids(|_| true).into_iter().collect();
            schedule.interrupt_runs();
        }
        schedule.queue_again();
        for id in schedule.ids(|life| matches!(life.state, LifeState::Waiting { .. })) {
            match schedule.live(id).map(|life| life.subject) {
                // Killed before its session began, so the conversation is lost and its person gone.
                Some(Subject::Chat) => schedule.end(id, Ending::Closed),
                // It waited for a person before, and still does.
                _ if schedule.awaits_resume(id) => {}
                _ => schedule.rest(id),
            }
        }
        schedule.doubtful = schedule
            .ids(|life| matches!(life.state, LifeState::Held { candidate: Some(_), .. }))
            .into_iter()
            .collect();
        // The obstacle may be gone by now. Held work is tried only after the target was asked whether it
        // contains the work.
        schedule.try_held(|life| matches!(life.state, LifeState::Incomplete { .. }));
        // A kill between the acceptance of a stop and its effect must not lose the stop.
        for id in schedule.ids(|life| life.stop.is_some()) {
            schedule.end_if_stopped(id);
        }
        let steps = std::mem::take(&mut schedule.out);
        (schedule, steps)
    }

    fn awaits_resume(&self, id: LifeId) -> bool {
        self.live(id).is_some_and(|life| life.state == LifeState::Waiting { on: Wait::Resume })
    }

    /// Puts lives on their way to the target back into their queues, in the order of their arrival.
    fn queue_again(&mut self) {
        // A candidate of the earlier start may be outdated, so they are merged and verified anew.
        let was_queued = |life: &&Life| {
            matches!(life.state, LifeState::Queued | LifeState::Merging | LifeState::Verifying { .. })
        };
        let mut queued: Vec<_> = self
            .ledger
            .lives
            .values()
            .filter(was_queued)
            .map(|life| (life.since.unix_millis(), life.id))
            .collect();
        queued.sort_unstable();
        queued.into_iter().for_each(|(_, id)| self.enqueue(id));
    }

    fn interrupt_runs(&mut self) {
        let open: Vec<RunId> = self.open_runs().map(|run| run.id).collect();
        for id in open {
            self.end_run(id, RunEnd { interrupted: true, ..RunEnd::default() });
        }
    }

    /// Returns the durable part.
    #[must_use]
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns true once the project is closing and no effect is at work.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        self.closing
            && self.trying.is_empty()
            && self.withdrawing.is_empty()
            && !self.queue.is_working()
            && !self.ledger.lives.values().any(|it| it.has_attempt() && !self.undetermined.contains(&it.id))
    }

    /// Takes in a fact at the time `now` and returns the steps that follow, in order.
    pub(crate) fn step(&mut self, now: &Timestamp, fact: Fact) -> Vec<Step> {
        self.set_now(now);
        match fact {
            Fact::Tick => {}
            Fact::Limits(limits) => {
                self.unsettled |= self.limits != limits;
                self.limits = limits;
            }
            Fact::Elsewhere(slots) => {
                self.unsettled |= self.limits.in_all > 0 && self.elsewhere != slots;
                self.elsewhere = slots;
            }
            Fact::Board(cards) => self.board(cards),
            Fact::Looked => self.looked(),
            Fact::Reserved(task) => _ = self.reserved.insert(task),
            Fact::Released(task) => self.unsettled |= self.reserved.remove(&task),
            Fact::Request { command, request } => self.request(command, request),
            Fact::Prepared { life, session, fence, target } => self.prepared(life, session, fence, target),
            Fact::Running { life, agent, guardian } => self.running(life, agent, guardian),
            Fact::Blocks { life, issue, questions } => self.blocks(life, issue, questions),
            Fact::SessionOver { life, end } => self.session_over(life, end),
            Fact::Attempted { life, outcome, tip, progress } => self.attempted(life, outcome, tip, progress),
            Fact::Merging(life) => self.merging(life, LifeState::Merging),
            Fact::Verifying { life, command } => self.merging(life, LifeState::Verifying { command }),
            Fact::Publishing(candidates) => self.publishing(candidates),
            Fact::TicketOver { ticket, results, moved } => self.ticket_over(&ticket, results, moved),
            Fact::HeldTried { life, result } => self.held_tried(life, result),
            Fact::Withdrawn { life, ending } => self.withdrawn(life, ending),
            Fact::Published { life, contained } => self.published(life, contained),
            Fact::HalfPublished { life, by } => self.half_published(life, by),
            Fact::ClaimLost(life) => self.stop_life(life, StopReason::ClaimLost),
            Fact::BackendBlocked { backend, issue } => match issue {
                Some(issue) => self.block(backend, issue, None),
                // Another project may go on by itself where this one waits for its person.
                None if self
                    .ledger
                    .blocked
                    .get(&backend)
                    .is_some_and(|it| self.leaves_to_person(&it.issue)) => {}
                None => self.unblock(&backend),
            },
            Fact::Noticed(notice) => self.record(crate::schedule::Change::Notice(notice)),
        }
        // At every fact, not only at ticks: whatever is due takes effect before tasks are admitted.
        self.pass_time();
        // While closing, facts are still recorded, but nothing new begins.
        if !self.closing {
            self.try_refused();
            self.settle();
            self.start_merges();
        }
        std::mem::take(&mut self.out)
    }

    /// Starts what may start and ends the runs that are over, until neither has any effect.
    fn settle(&mut self) {
        // A wildfire run that would be over begins a step instead, which then has to be admitted.
        while self.board_known && std::mem::take(&mut self.unsettled) {
            self.admit();
            self.end_runs();
        }
    }

    /// Returns the wait of a life that could start another session now. While the project is closing, the next start
    /// decides.
    pub(in crate::schedule) fn resting(&self, id: LifeId) -> Wait {
        match self.closing || self.resumes || !self.orphans.contains(&id) {
            true => Wait::Turn,
            false => Wait::Resume,
        }
    }

    /// Makes a life wait for its next session.
    pub(in crate::schedule) fn rest(&mut self, id: LifeId) {
        if let Some(life) = self.live(id).filter(|life| self.is_step_without_run(life)) {
            let stopped = life.stop.map(|by| Ending::Stopped { by });
            return self.end(id, stopped.unwrap_or(Ending::Closed));
        }
        let on = self.resting(id);
        self.set(id, LifeState::Waiting { on });
    }
}
