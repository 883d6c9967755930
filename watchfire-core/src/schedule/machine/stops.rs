//! Stops by people, the board and lost claims; and closing, which suspends.

use crate::ErrorKind;
use crate::schedule::{
    Accepted, Change, Command, Ending, Life, LifeId, LifeState, Refusal, Run, RunId, Schedule, StopReason,
    Subject, Wait,
};

impl Schedule {
    /// Stops a run. Its lives are stopped unless another run covers them, or their work is done and only waits until it can be
    /// published: nothing of them is under way for the run.
    pub(in crate::schedule) fn stop_run(&mut self, id: RunId) -> Result<Accepted, Refusal> {
        let Some(run) = self.ledger.runs.get(&id) else {
            return Err(Refusal::new(ErrorKind::NotFound, "there is no such run"));
        };
        if run.ended.is_none() && !run.stopped {
            // First, because `is_left_by` looks for other runs that are not stopped.
            self.change_run(id, |run| run.stopped = true);
            let is_held =
                |life: &Life| matches!(life.state, LifeState::Held { .. } | LifeState::Incomplete { .. });
            for life in self.ids(|life| self.is_left_by(life, id) && !is_held(life)) {
                self.stop_life(life, StopReason::Requested);
            }
        }
        Ok(Accepted { run: Some(id), life: None })
    }

    /// Stops all runs and all work that is not finished, and halts the automation.
    pub(in crate::schedule) fn stop_all(&mut self) {
        // Otherwise it would start the next task in the slot that becomes free. Where it is off, there is nothing to
        // halt, and a person who turns it on later wants it to work.
        self.halt(self.ledger.halted || self.limits.auto_start);
        let runs: Vec<_> = self.open_runs().map(|run| run.id).collect();
        for run in runs {
            // They are open, so it is not refused.
            let _ = self.stop_run(run);
        }
        let goes_on = |life: &Life| {
            life.has_attempt()
                || matches!(life.state, LifeState::Asking { .. } | LifeState::Limited { .. })
                || matches!(&life.state, LifeState::Waiting { on } if *on != Wait::Resume)
        };
        for life in self.ids(goes_on) {
            self.stop_life(life, StopReason::Requested);
        }
    }

    /// Halts the automation, or lets it go on.
    pub(in crate::schedule) fn halt(&mut self, halted: bool) {
        if self.ledger.halted != halted {
            self.record(Change::Halted { halted });
        }
    }

    /// Returns true if a life belongs to the stopped run `id` and no other run covers it.
    fn is_left_by(&self, life: &Life, id: RunId) -> bool {
        if life.subject.phase().is_some() {
            return life.run == Some(id);
        }
        let (Some(task), Some(run)) = (life.subject.task(), self.ledger.runs.get(&id)) else { return false };
        let covers = |run: &Run| !run.stopped && run.scope.covers(task);
        // A life keeps the id of a run that ended before. A run that covers it has taken it over.
        let is_owned = match life.run {
            Some(owner) => owner == id || self.ledger.runs.get(&owner).is_none_or(|run| run.ended.is_some()),
            None => false,
        };
        run.scope.covers(task) && is_owned && !self.open_runs().any(covers)
    }

    /// Accepts a stop. From now on it is part of the life, and only the end of the life removes it.
    pub(in crate::schedule) fn stop_life(&mut self, id: LifeId, reason: StopReason) {
        let Some(life) = self.live(id) else { return };
        // The first stop stays, except that any other reason outranks `DoneByHand`, which lets the work
        // merge.
        if life.stop.is_some_and(|stop| stop != StopReason::DoneByHand || stop == reason) {
            return;
        }
        let has_attempt = life.has_attempt();
        self.change(id, |life| {
            life.stop = Some(reason);
            // In `Capturing` the process tree is gone, so there is nothing left to end.
            if has_attempt && life.state != LifeState::Capturing {
                life.state = LifeState::Ending;
            }
        });
        if has_attempt {
            // Also while its work is captured: the attempt may be about to start a second session.
            self.command(Command::End(id, reason));
        } else if self.queue.is_on_ticket(id) {
            // The ticket ends it. A publication that was permitted is completed.
            if !self.live(id).is_some_and(|life| matches!(life.state, LifeState::Publishing { .. })) {
                self.command(Command::CancelMerge(id));
            }
        } else {
            self.end_if_stopped(id);
        }
    }

    /// Ends a life that has an accepted stop and no effect at work. Finished work is withdrawn first: other work may have
    /// been merged onto it, and would publish it.
    pub(in crate::schedule) fn end_if_stopped(&mut self, id: LifeId) {
        let Some(life) = self.live(id) else { return };
        let is_busy = life.has_attempt()
            || self.is_tried(id)
            || self.queue.is_on_ticket(id)
            // The target has moved, or may have moved.
            || matches!(life.state, LifeState::Publishing { .. } | LifeState::Incomplete { .. });
        let is_finished = life.is_finished();
        let Some(by) = life.stop.filter(|by| *by != StopReason::DoneByHand && !is_busy) else { return };
        if is_finished {
            self.queue.remove(id);
            self.withdrawing.insert(id);
            self.command(Command::Withdraw(id));
        } else {
            self.end(id, Ending::Stopped { by });
        }
    }

    /// Ends a stopped life whose work is withdrawn, unless it was published with other work before.
    pub(in crate::schedule) fn withdrawn(&mut self, id: LifeId, ending: Option<Ending>) {
        // A run may have waited for this alone.
        self.unsettled |= self.withdrawing.remove(&id);
        let Some(by) = self.live(id).and_then(|life| life.stop) else { return };
        // Without an ending it may still wait, and is withdrawn again with the next attempt to publish what is held.
        let Some(ending) = ending else { return };
        let is_integrated = ending.is_integrated();
        self.end(id, if is_integrated { ending } else { Ending::Stopped { by } });
        // What was merged onto it is to be merged again.
        self.try_held(|_| true);
    }

    /// Tries held work again whose publication was refused because other work might have gone with it.
    pub(in crate::schedule) fn try_refused(&mut self) {
        let is_free = |id: LifeId| {
            let is_withdrawing = |life| self.is_withdrawing(awaited_target(life), &[id]);
            !self.trying.contains(&id) && !self.live(id).is_some_and(is_withdrawing)
        };
        let free: Vec<LifeId> = self.refused.iter().copied().filter(|id| is_free(*id)).collect();
        self.refused.retain(|id| !free.contains(id));
        self.try_held(|life| free.contains(&life.id));
    }

    /// Returns true while work other than that of `lives` waits for `target` that is not to be published, or perhaps not:
    /// what is merged onto it would publish it.
    pub(in crate::schedule) fn is_withdrawing(&self, target: &str, lives: &[LifeId]) -> bool {
        let is_in_doubt = |life: &Life| {
            let is_missing = life.subject.task().is_some_and(|task| self.missing.contains_key(&task));
            // Before the first board, a person may have withdrawn it while nobody looked.
            matches!(life.state, LifeState::Held { candidate: Some(_), .. })
                && (is_missing || !self.board_known)
        };
        self.ledger.lives.values().any(|life| {
            let is_for_target = life.is_finished() && awaited_target(life) == target;
            is_for_target && !lives.contains(&life.id) && (life.is_to_be_withdrawn() || is_in_doubt(life))
        })
    }

    /// Suspends everything: sessions are ended and their work captured, merges are cancelled, and the next start
    /// continues from there.
    pub(in crate::schedule) fn close(&mut self) {
        self.closing = true;
        for id in self.ids(Life::has_attempt) {
            let Some(life) = self.live(id) else { continue };
            match (&life.state, life.subject) {
                // It is being ended for another reason, which must stay its reason: the latest one counts in
                // its control.
                (LifeState::Ending, _) => {}
                // A conversation cannot continue without its person.
                (_, Subject::Chat) => self.command(Command::End(id, StopReason::Requested)),
                _ => self.command(Command::End(id, StopReason::Suspended)),
            }
        }
        // Only tickets under way: work that waits in a lane is queued again by the next start.
        for id in self.queue.working() {
            if !self.live(id).is_some_and(|life| matches!(life.state, LifeState::Publishing { .. })) {
                self.command(Command::CancelMerge(id));
            }
        }
    }
}

/// Returns the branch that a life's work is for. The merge knows it best: a life that was begun just to merge names no branch itself.
fn awaited_target(life: &Life) -> &str {
    match &life.state {
        LifeState::Held { candidate: Some(candidate), .. } => &candidate.target,
        _ => life.target.as_deref().unwrap_or_default(),
    }
}
