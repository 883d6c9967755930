//! Pauses, limits and intervals, and their ends.

use super::block::due;
use super::changes::round_up;
use crate::model::Timestamp;
use crate::schedule::{Change, Command, Life, LifeId, LifeState, Schedule, StopReason, Wait};

/// Interval between two attempts to publish held work. Nothing reports that an edit in the way has gone.
const HELD_MILLIS: i64 = 30_000;
/// Shortest time for which decided requests are remembered.
const COMMANDS_MILLIS: i64 = 24 * 60 * 60 * 1_000;
/// Interval at which old requests are looked for.
const FORGET_MILLIS: i64 = 60 * 60 * 1_000;
/// Time for which the file of a task with a session may be missing. Editors and `git stash` remove files and bring
/// them back.
const MISSING_MILLIS: i64 = 5_000;

/// Time for which the session of an agent that asks is kept without an answer.
const ASK_KEEP_MILLIS: i64 = 10 * 60 * 1_000;

/// A step back of the clock up to this long is ignored: it lengthens a pause by no more than that.
const JITTER_MILLIS: i64 = 1_000;

impl Schedule {
    /// Takes in the time. Where a person or the network has set the clock back, our own pauses go back with it: they are
    /// lengths of time, and a day must not become one of them. Ends of limits stay, which are the provider's.
    pub(in crate::schedule) fn set_now(&mut self, now: &Timestamp) {
        let before = std::mem::replace(&mut self.now, now.clone());
        let back = before.unix_millis().saturating_sub(now.unix_millis());
        if back <= JITTER_MILLIS {
            return;
        }
        let earlier = |at: &Timestamp| Timestamp::from_unix_millis(at.unix_millis().saturating_sub(back));
        if let Some(trouble) = &mut self.paused {
            trouble.until = earlier(&trouble.until);
            self.unsettled = true;
        }
        self.missing.values_mut().for_each(|since| *since = since.saturating_sub(back));
        self.next_held = self.next_held.map(|at| at.saturating_sub(back));
        self.next_forget = self.next_forget.saturating_sub(back);
        for id in self.ids(|life| {
            matches!(life.state, LifeState::Waiting { on: Wait::Retry { .. } | Wait::Elsewhere { .. } })
        }) {
            self.change(id, |life| {
                if let LifeState::Waiting { on: Wait::Retry { until } | Wait::Elsewhere { until } } =
                    &mut life.state
                {
                    *until = round_up(&earlier(until));
                }
            });
        }
    }

    /// Returns the time at which [`Fact::Tick`](crate::schedule::Fact::Tick) is due.
    #[must_use]
    pub(crate) fn next_tick(&self) -> Option<Timestamp> {
        let waits = self.ledger.lives.values().filter_map(|life| match &life.state {
            LifeState::Waiting { on: Wait::Retry { until } | Wait::Elsewhere { until } } => {
                Some(until.unix_millis())
            }
            LifeState::Limited { until, .. } => due(until.as_ref(), &life.since, &self.now),
            _ => self.put_aside_at(life),
        });
        let blocks = self
            .ledger
            .blocked
            .values()
            .filter_map(|block| due(block.until.as_ref(), &block.since, &self.now));
        let paused = self.paused.as_ref().map(|trouble| trouble.until.unix_millis());
        let missing = self.missing.values().map(|since| since + MISSING_MILLIS);
        waits
            .chain(blocks)
            .chain(paused)
            .chain(missing)
            .chain(self.next_held)
            // While closing, only effects bring the end nearer.
            .filter(|_| !self.closing)
            .min()
            .map(Timestamp::from_unix_millis)
    }

    pub(in crate::schedule) fn pass_time(&mut self) {
        let now = self.now.unix_millis();
        if !self.closing {
            if self.paused.as_ref().is_some_and(|trouble| trouble.until.unix_millis() <= now) {
                self.paused = None;
                self.unsettled = true;
            }
            self.pass_limits(now);
            self.pass_asking(now);
            self.pass_missing(now);
            self.pass_held(now);
        }
        if self.next_forget <= now {
            self.next_forget = now.saturating_add(FORGET_MILLIS);
            let before = self.after(-COMMANDS_MILLIS);
            // Without this check, the journal would get an entry every hour that changes nothing.
            if !self.ledger.forgotten(&before).is_empty() {
                self.record(Change::CommandsForgotten { before });
            }
        }
    }

    fn pass_limits(&mut self, now: i64) {
        let is_over = |at: Option<i64>| at.is_some_and(|at| at <= now);
        let cleared: Vec<_> = self
            .ledger
            .blocked
            .iter()
            .filter(|(_, block)| is_over(due(block.until.as_ref(), &block.since, &self.now)))
            .map(|(backend, _)| backend.clone())
            .collect();
        cleared.iter().for_each(|backend| self.unblock(backend));
        // `unblock` has left out the lives with a session, and those whose issue blocks no backend.
        for id in self.ids(|life| match &life.state {
            LifeState::Limited { until, .. } => is_over(due(until.as_ref(), &life.since, &self.now)),
            _ => false,
        }) {
            self.go_on(id);
        }
        // Only marks that something is due; `admit` then decides with the slots that are free.
        self.unsettled |= self.ledger.lives.values().any(|life| match &life.state {
            LifeState::Waiting { on: Wait::Retry { until } | Wait::Elsewhere { until } } => {
                until.unix_millis() <= now
            }
            _ => false,
        });
    }

    /// Returns the time at which the session of a life that asks is ended: it holds memory and a terminal, and its agent's
    /// conversation can be resumed with the answer.
    fn put_aside_at(&self, life: &Life) -> Option<i64> {
        let asks = matches!(life.state, LifeState::Asking { .. }) && life.session.is_some();
        // A chat has its person, and the conversation of a step is not resumed.
        let is_kept = asks && life.subject.task().is_some() && !self.put_aside.contains(&life.id);
        is_kept.then(|| life.since.unix_millis().saturating_add(ASK_KEEP_MILLIS))
    }

    fn pass_asking(&mut self, now: i64) {
        for id in self.ids(|life| self.put_aside_at(life).is_some_and(|at| at <= now)) {
            // Once per session: its end takes a while, and every fact comes by here.
            self.put_aside.insert(id);
            self.command(Command::End(id, StopReason::Suspended));
        }
    }

    /// Stops the lives of tasks whose files have been missing for too long: they count as deleted.
    fn pass_missing(&mut self, now: i64) {
        let is_over = |since: i64| since.saturating_add(MISSING_MILLIS) <= now;
        if !self.missing.values().any(|since| is_over(*since)) {
            return;
        }
        let over = self.missing.iter().filter(|(_, since)| is_over(**since));
        let gone: Vec<_> =
            over.filter_map(|(task, _)| self.ledger.life_of(*task).map(|life| life.id)).collect();
        self.missing.retain(|_, since| !is_over(*since));
        gone.into_iter().for_each(|life| self.stop_life(life, StopReason::Withdrawn));
    }

    fn pass_held(&mut self, now: i64) {
        match self.next_held {
            None if self.ledger.lives.values().any(|life| {
                life.state.is_held() || life.state.is_in_trouble() || life.is_to_be_withdrawn()
            }) =>
            {
                // Armed only while work is held: an idle project has no timer.
                self.next_held = Some(now.saturating_add(HELD_MILLIS));
            }
            Some(at) if at <= now => {
                self.next_held = None;
                // That they could not be withdrawn may be over, too.
                self.ids(Life::is_to_be_withdrawn).into_iter().for_each(|life| self.end_if_stopped(life));
                self.try_held(|_| true);
                // Never merged, so there is no candidate to publish.
                let in_trouble = self.ids(|life| life.state.is_in_trouble() && !life.is_to_be_withdrawn());
                in_trouble.into_iter().for_each(|life| self.enqueue(life));
            }
            _ => {}
        }
    }

    /// Tries held work again at a person's request. Work that was never merged goes through the queue.
    pub(in crate::schedule) fn retry_held(&mut self, id: LifeId) {
        // What is stopped is being withdrawn.
        match self.live(id).filter(|life| !life.is_to_be_withdrawn()).map(|life| life.state.is_held()) {
            Some(true) => self.try_held(|life| life.id == id),
            Some(false) => self.enqueue(id),
            None => {}
        }
    }

    /// Tries to publish held work again, in the order in which it was held.
    pub(in crate::schedule) fn try_held(&mut self, wanted: impl Fn(&Life) -> bool) {
        let may_try = |life: &Life| life.state.is_held() && !life.is_to_be_withdrawn();
        let mut lives = self.ids(|life| may_try(life) && wanted(life));
        // One attempt at a time for each life.
        lives.retain(|life| !self.is_tried(*life) && !self.closing);
        lives.sort_by_key(|id| self.live(*id).map(|life| life.since.unix_millis()));
        if !lives.is_empty() {
            self.trying.extend(lives.iter().copied());
            self.command(Command::TryHeld(lives));
        }
    }
}
