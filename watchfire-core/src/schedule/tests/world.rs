//! The world around a machine under test: files, effects that answer, a target that moves, and kills.
//!
//! Every step is checked against the invariants, which are stated where they are asserted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::checks::{Truth, stop_of};
use crate::ErrorKind;
use crate::model::{Question, SessionId, TaskNumber, TaskStatus, Timestamp};
use crate::schedule::*;
use crate::workspace::{Candidate, Commit, Obstacle, ObstacleKind, WorkspaceKey};

pub(super) fn n(number: u32) -> TaskNumber {
    TaskNumber::new(number).unwrap()
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_unix_millis(millis)
}

pub(super) fn card(number: u32, depends_on: &[u32]) -> Card {
    Card {
        number: n(number),
        position: i64::from(number),
        status: TaskStatus::Ready,
        success: false,
        failure_reason: None,
        depends_on: depends_on.iter().map(|task| n(*task)).collect(),
        retries: 0,
        backend: Some("a".parse().unwrap()),
        in_wildfire: Some("a".parse().unwrap()),
    }
}

pub(super) fn obstacle() -> Obstacle {
    Obstacle::new(ObstacleKind::IndexLocked, "index.lock")
}

pub(super) fn session(number: u32, backend: &str) -> SessionRef {
    let id: SessionId = format!("00000000-0000-4000-8000-{number:012}").parse().unwrap();
    SessionRef::new(id, "calm-otter".parse().unwrap(), backend.parse().unwrap(), "none", "/w", at(0))
}

pub(super) fn candidate(task: TaskNumber, commit: u32) -> Candidate {
    let oid = |number: u32| Commit::new(format!("{number:040x}"));
    Candidate::new(WorkspaceKey::new(task), "main", None, oid(commit), "tree", oid(0))
}

/// An effect at work. It answers each of its commands eventually.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Attempt {
        life: LifeId,
        stage: Stage,
        stop: Option<StopReason>,
        session: u32,
        questions: Vec<Question>,
    },
    Merge {
        ticket: Ticket,
        stage: u8,
        stop: bool,
        /// The lives that are being published; the rest of the ticket comes to no result.
        stack: Vec<LifeId>,
    },
    Held(VecDeque<LifeId>),
    /// The first may be published, the others are to be tried after it.
    HeldPermitted(LifeId, VecDeque<LifeId>),
    /// A stopped life is to be withdrawn.
    Withdraw(LifeId),
    /// What a start finds out about a life of the orchestrator before it.
    Recover {
        life: LifeId,
        contained: bool,
    },
}

impl Effect {
    /// Returns true if it is at work for `life`.
    pub(super) fn is_for(&self, life: LifeId) -> bool {
        match self {
            Self::Attempt { life: id, .. } | Self::Recover { life: id, .. } => *id == life,
            Self::Merge { ticket, .. } => ticket.lives.contains(&life),
            Self::Held(lives) => lives.contains(&life),
            Self::Withdraw(id) => *id == life,
            Self::HeldPermitted(id, rest) => *id == life || rest.contains(&life),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    Claiming,
    Permitted,
    Running,
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) schedule: Schedule,
    pub(super) now: i64,
    /// The replay of all records, through JSON.
    pub(super) replayed: Ledger,
    pub(super) limits: Limits,
    /// The slots of other projects.
    pub(super) elsewhere: usize,
    /// The task files as they are.
    pub(super) files: BTreeMap<TaskNumber, Card>,
    /// The task files as the machine was told.
    pub(super) known: BTreeMap<TaskNumber, Card>,
    pub(super) told: bool,
    pub(super) effects: Vec<Effect>,
    pub(super) requests: BTreeMap<String, (Request, Result<Accepted, Refusal>)>,
    pub(super) closing: bool,
    /// Tasks whose claimed work is not in the target.
    unmerged: BTreeSet<TaskNumber>,
    ended: BTreeSet<LifeId>,
    ended_runs: BTreeSet<RunId>,
    pub(super) truth: Truth,
    pub(super) next: u32,
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) permit: Option<bool>,
    pub(super) reply: Option<Result<Accepted, Refusal>>,
    pub(super) steps: Vec<Step>,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        let mut world = Self {
            schedule: Schedule::default(),
            now: 1_000_000,
            replayed: Ledger::default(),
            limits,
            elsewhere: 0,
            files: BTreeMap::new(),
            known: BTreeMap::new(),
            told: false,
            effects: Vec::new(),
            requests: BTreeMap::new(),
            closing: false,
            unmerged: BTreeSet::new(),
            ended: BTreeSet::new(),
            ended_runs: BTreeSet::new(),
            truth: Truth::default(),
            next: 0,
        };
        world.feed(Fact::Limits(limits));
        world
    }

    pub(super) fn is_unmerged(&self, task: TaskNumber) -> bool {
        self.unmerged.contains(&task)
    }

    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Reports the files as they are.
    pub(super) fn board(&mut self) {
        self.known = self.files.clone();
        self.told = true;
        for (task, card) in &self.known {
            if !(card.status == TaskStatus::Done && card.success) && self.replayed.life_of(*task).is_none() {
                self.unmerged.remove(task);
            }
        }
        self.feed(Fact::Board(self.files.values().cloned().collect()));
    }

    pub(super) fn feed(&mut self, fact: Fact) -> Answer {
        let steps = self.schedule.step(&at(self.now), fact);
        self.take_in(steps)
    }

    /// Checks what a step did, and carries it out.
    pub(super) fn take_in(&mut self, steps: Vec<Step>) -> Answer {
        let mut answer = Answer { steps: steps.clone(), ..Answer::default() };
        let mut started = false;
        for step in steps {
            match step {
                Step::Record(change) => self.replay(&change),
                Step::Do(Command::Start(life)) => {
                    self.check_start(life);
                    started |= self.replayed.lives[&life].subject != Subject::Chat;
                    self.effects.push(Effect::Attempt {
                        life,
                        stage: Stage::Claiming,
                        stop: None,
                        session: 0,
                        questions: Vec::new(),
                    });
                }
                Step::Do(command) => self.command(command),
                Step::Permit(permit) => answer.permit = Some(permit),
                Step::Reply(reply) => answer.reply = Some(reply),
            }
        }
        // What was kept for a life is let go of with its end.
        let ended = answer.steps.iter().filter_map(|step| match step {
            Step::Record(Change::Life(life)) if life.has_ended() => Some(life.id),
            _ => None,
        });
        for life in ended {
            let is_its_own = |step: &Step| matches!(step, Step::Do(Command::Release(of)) if of.id == life);
            assert!(answer.steps.iter().any(is_its_own), "never released: {life}");
        }
        // Replaying the records gives the machine's ledger at every moment, also through JSON. Comparing large ones takes
        // long, so those are compared now and then.
        if self.replayed.tasks.len() < 100 || self.next.is_multiple_of(50) {
            assert_eq!(&self.replayed, self.schedule.ledger());
        }
        self.check(started);
        self.check_pauses();
        if answer.steps.contains(&Step::Do(Command::Look)) && !self.closing {
            answer.steps.extend(self.feed(Fact::Looked).steps);
        }
        answer
    }

    pub(super) fn replay(&mut self, change: &Change) {
        let text = serde_json::to_string(change).unwrap();
        let read: Change = serde_json::from_str(&text).unwrap();
        assert_eq!(&read, change);
        match change {
            Change::Life(life) => {
                self.check_change(life);
                // A life ends exactly once.
                assert!(!self.ended.contains(&life.id), "changed after its end: {life:?}");
                if let Some(ending) = life.ending() {
                    self.ended.insert(life.id);
                    // Every ending can be explained.
                    let explained = ending.is_good()
                        || ending.reason().is_some_and(|reason| !reason.is_empty())
                        || *ending == Ending::Stopped { by: StopReason::Requested };
                    assert!(explained, "{ending:?}");
                    if let Ending::GaveUp { starts, .. } = ending {
                        assert!(*starts >= self.limits.restarts);
                    }
                }
                if let Some(task) = life.subject.task() {
                    match life.claimed {
                        true => self.unmerged.insert(task),
                        false => self.unmerged.remove(&task),
                    };
                }
            }
            // Every run ends exactly once.
            Change::Run(run) => {
                if let Some(end) = &run.ended {
                    assert!(self.ended_runs.insert(run.id), "{run:?}");
                    self.check_run_end(run, end);
                }
            }
            Change::Reopened { task } => drop(self.unmerged.remove(task)),
            _ => {}
        }
        self.replayed.apply(&read);
    }

    /// A task starts only when it is ready, its dependencies are merged and its backend is not blocked.
    fn check_start(&self, id: LifeId) {
        let life = &self.replayed.lives[&id];
        assert!(!self.closing, "started while closing");
        assert!(life.stop.is_none(), "started after a stop");
        let is_asked_for = life.subject == Subject::Chat || life.subject.is_proposal();
        assert!(is_asked_for || !self.replayed.halted, "started by itself after a stop of all: {life:?}");
        let attempts =
            self.effects.iter().filter(|e| matches!(e, Effect::Attempt { life, .. } if *life == id));
        assert_eq!(attempts.count(), 0, "a second attempt of {life:?}");
        if life.subject == Subject::Generate {
            let is_merging = |life: &Life| life.subject.task().is_some();
            let run = &self.replayed.runs[&life.run.unwrap()];
            assert!(run.scope == Scope::Wildfire && !run.stopped && run.course.last.is_none(), "{run:?}");
            assert!(!self.replayed.lives.values().any(is_merging), "generated on unfinished work");
        }
        let Some(task) = life.subject.task() else { return };
        let card = &self.known[&task];
        let reopened = card.status == TaskStatus::Done && life.claimed;
        assert!(card.status == TaskStatus::Ready || reopened, "not ready: {card:?} {life:?}");
        for dependency in &card.depends_on {
            let live = self.replayed.life_of(*dependency).map(|life| &life.state);
            let merged = match live {
                Some(state) => matches!(state, LifeState::Incomplete { .. }),
                None => {
                    let done = self.known.get(dependency);
                    done.is_some_and(|card| card.status == TaskStatus::Done && card.success)
                        && !self.unmerged.contains(dependency)
                }
            };
            assert!(merged, "started {task} before {dependency} was merged");
        }
        let backend = life.options.agent.as_ref().or(card.backend.as_ref()).unwrap();
        assert!(!self.replayed.blocked.contains_key(backend), "{backend} is blocked");
    }

    fn check(&self, started: bool) {
        let lives = || self.replayed.lives.values();
        // A subject has at most one life that has not ended.
        let subjects: BTreeSet<_> = lives().map(|life| life.subject).collect();
        assert_eq!(subjects.len(), lives().count());
        // Steps of wildfire go one by one.
        assert!(lives().filter(|life| life.subject.phase().is_some()).count() <= 1);
        // A session starts only while there are free slots; who asks or is limited holds none.
        let slots = lives()
            .filter(|life| life.subject != Subject::Chat)
            .filter(|life| {
                matches!(
                    life.state,
                    LifeState::Starting | LifeState::Running | LifeState::Ending | LifeState::Capturing
                )
            })
            .count();
        assert!(!started || slots <= self.limits.parallel.max(1) as usize, "{slots} slots");
        let in_all = self.limits.in_all as usize;
        assert!(!started || in_all == 0 || slots + self.elsewhere <= in_all, "{slots} slots");
        // A stopped life waits only for an effect at work, and for the checkout of what is published.
        for life in lives().filter(|life| stop_of(life).is_some() && !life.has_attempt()) {
            let is_at_work = self.effects.iter().any(|effect| effect.is_for(life.id));
            let is_published = matches!(life.state, LifeState::Incomplete { .. });
            // It could not be withdrawn, which is tried again in a moment, or by the next start.
            let is_later =
                life.is_finished() && (self.schedule.closing || self.schedule.next_tick().is_some());
            assert!(is_at_work || is_published || is_later, "a stop waits for nothing: {life:?}");
        }
        // At most one ticket is under way per target.
        let targets = self.effects.iter().filter_map(|effect| match effect {
            Effect::Merge { ticket, .. } => Some(&ticket.target),
            _ => None,
        });
        let all: Vec<_> = targets.collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::End(id, reason) => {
                for effect in &mut self.effects {
                    if let Effect::Attempt { life, stop, .. } = effect
                        && *life == id
                    {
                        *stop = Some(reason);
                    }
                }
            }
            Command::Merge(ticket) => {
                assert!(!self.closing && !ticket.lives.is_empty());
                self.effects.push(Effect::Merge { ticket, stage: 0, stop: false, stack: Vec::new() });
            }
            Command::CancelMerge(id) => {
                for effect in &mut self.effects {
                    if let Effect::Merge { ticket, stop, .. } = effect
                        && ticket.lives.contains(&id)
                    {
                        *stop = true;
                    }
                }
            }
            Command::TryHeld(lives) => {
                for state in lives.iter().map(|life| &self.replayed.lives[life].state) {
                    // Without a verified merge there is nothing to publish again.
                    let is_verified = matches!(
                        state,
                        LifeState::Held { candidate: Some(_), .. } | LifeState::Incomplete { .. }
                    );
                    assert!(is_verified && !self.closing, "{state:?}");
                }
                self.effects.push(Effect::Held(lives.into()));
            }
            Command::Withdraw(id) => {
                let life = &self.replayed.lives[&id];
                assert!(stop_of(life).is_some(), "withdrawn without a stop: {life:?}");
                assert!(
                    !self.effects.iter().any(|effect| effect.is_for(id)),
                    "two effects at work: {life:?}"
                );
                self.effects.push(Effect::Withdraw(id));
            }
            Command::Deliver(id, asked) => {
                self.check_delivery(id, &asked);
                for effect in &mut self.effects {
                    if let Effect::Attempt { life, questions, .. } = effect
                        && *life == id
                    {
                        questions.retain(|question| question.id != asked);
                    }
                }
            }
            Command::Release(life) => assert!(self.ended.contains(&life.id)),
            _ => {}
        }
    }

    /// Asks for something under an id of its own.
    pub(super) fn ask(&mut self, request: Request) -> Result<Accepted, Refusal> {
        let id = format!("c{}", self.number());
        let command = Some(CommandId::new(id.clone()).unwrap());
        if let Request::Merge { task, .. } = &request {
            self.truth.claims.insert(*task);
        }
        let reply = self.feed(Fact::Request { command, request: request.clone() }).reply.unwrap();
        let refused = reply.as_ref().err().is_some_and(|refusal| refusal.code == ErrorKind::Cancelled.code());
        if !refused {
            self.requests.insert(id, (request, reply.clone()));
        }
        reply
    }

    /// The same id again has the same outcome and no second effect; with other content it is a conflict.
    pub(super) fn repeat(&mut self, id: &str) {
        let (request, outcome) = self.requests[id].clone();
        self.feed(Fact::Tick);
        let command = || Some(CommandId::new(id).unwrap());
        let again = self.feed(Fact::Request { command: command(), request: request.clone() });
        assert_eq!(again.steps, [Step::Reply(outcome)]);
        let run = RunId(u64::from(self.number()) + 1_000);
        let other = self.feed(Fact::Request { command: command(), request: Request::StopRun { run } });
        let [Step::Reply(Err(refusal))] = &other.steps[..] else { panic!("{other:?}") };
        assert_eq!(refusal.code, ErrorKind::Conflict.code());
    }

    /// Lets everything come to rest, the good way, in a bounded number of steps.
    pub(super) fn drain(&mut self) {
        for _ in 0..5_000 {
            if !self.told || self.known != self.files {
                self.board();
            } else if !self.effects.is_empty() {
                self.advance(0, 0);
            } else if let Some(due) = self.schedule.next_tick() {
                self.now = self.now.max(due.unix_millis());
                self.feed(Fact::Tick);
            } else {
                return self.check_rest();
            }
        }
        panic!("it never comes to rest: {:#?}", self.replayed.lives);
    }

    fn check_rest(&self) {
        if self.closing {
            return;
        }
        // Every run has ended, and every life that has not waits for a person, or for something that only a person can
        // bring about.
        for run in self.replayed.runs.values() {
            assert!(run.ended.is_some(), "starved: {run:?} {:?}", self.replayed.lives);
        }
        for life in self.replayed.lives.values() {
            assert!(life.stop.is_none(), "a stop was lost: {life:?}");
            assert!(self.reason_to_wait(life).is_some(), "starved: {life:?}");
        }
        let wanted = self.files.keys().filter(|task| self.replayed.life_of(**task).is_none());
        for task in wanted {
            // Nothing startable is left waiting.
            let wait = self.schedule.expected_wait(*task);
            assert!(!matches!(wait, Some(Wait::Turn | Wait::OtherProjects)), "starved: {task}");
        }
    }
}
