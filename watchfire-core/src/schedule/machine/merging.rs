//! The way from the merge queue to the published target.

use std::collections::BTreeSet;

use crate::schedule::{Command, Ending, LifeId, LifeState, MergeResult, Schedule, Step, Ticket};
use crate::workspace::{Candidate, Obstacle};

impl Schedule {
    pub(in crate::schedule) fn start_merges(&mut self) {
        self.queue.set_batch(self.limits.batch);
        let mut must_wait: BTreeSet<String> = self.queue.targets().into_iter().collect();
        must_wait.retain(|target| self.is_withdrawing(target, &[]));
        for ticket in self.queue.take_ready(&must_wait) {
            self.command(Command::Merge(ticket));
        }
    }

    /// Advances a life within its merge.
    pub(in crate::schedule) fn merging(&mut self, id: LifeId, state: LifeState) {
        // Reports of a merge that was cancelled can still arrive.
        if self.is_merging(id) {
            self.set(id, state);
        }
    }

    /// Returns true if a ticket is being carried out for a life that is not yet being published.
    fn is_merging(&self, id: LifeId) -> bool {
        let is_merging = |state: &LifeState| {
            matches!(state, LifeState::Queued | LifeState::Merging | LifeState::Verifying { .. })
        };
        self.queue.is_on_ticket(id) && self.live(id).is_some_and(|life| is_merging(&life.state))
    }

    /// Permits a publication if all its lives still want it: the tree was verified with the work of all of
    /// them. Other work that waits for the target may be in it too, and must still be wanted. Held work keeps its state, which already names the candidate.
    pub(in crate::schedule) fn publishing(&mut self, candidates: Vec<(LifeId, Candidate)>) {
        let is_wanted = |id: LifeId| {
            self.live(id).is_some_and(|life| life.stop.is_none() && life.claimed)
                && (self.is_merging(id) || self.trying.contains(&id))
        };
        let lives: Vec<LifeId> = candidates.iter().map(|(id, _)| *id).collect();
        let is_free = candidates.iter().all(|(_, candidate)| !self.is_withdrawing(&candidate.target, &lives));
        // All or none: they were verified as one tree.
        let permitted = !self.closing && is_free && candidates.iter().all(|(id, _)| is_wanted(*id));
        if !is_free {
            self.refused.extend(lives.into_iter().filter(|life| self.trying.contains(life)));
        }
        for (id, candidate) in candidates {
            if permitted && !self.trying.contains(&id) {
                self.set(id, LifeState::Publishing { candidate: Box::new(candidate) });
            }
        }
        self.out.push(Step::Permit(permitted));
    }

    pub(in crate::schedule) fn ticket_over(
        &mut self,
        ticket: &Ticket,
        results: Vec<(LifeId, MergeResult)>,
        moved: bool,
    ) {
        let mut merged = false;
        for (id, result) in results {
            if result != MergeResult::Moved {
                merged |= matches!(result, MergeResult::Ended(Ending::Merged { .. }));
                self.queue.ended(ticket, id);
                self.merge_over(id, result);
            }
        }
        // Lives without a result: the batch ended before their turn.
        let rest = self.queue.working_on(ticket);
        for id in rest.iter().copied() {
            match self.live(id).map(|life| life.stop) {
                Some(None) => self.set(id, LifeState::Queued),
                // Off the ticket first: whatever is left on it is queued again by `finished`.
                Some(Some(_)) => {
                    self.queue.ended(ticket, id);
                    self.set(id, LifeState::Queued);
                    self.end_if_stopped(id);
                }
                None => self.queue.ended(ticket, id),
            }
        }
        match moved && !self.closing {
            true => self.merge_again(ticket),
            false => self.queue.finished(ticket),
        }
        // After the next ticket was given out, so that a task that was taken back cancels it.
        rest.into_iter().for_each(|id| self.heed_late_card(id));
        if merged {
            // Held work below it in a stack may have been published with it.
            self.try_held(|_| true);
        }
    }

    /// Merges the rest of a ticket again after its target has moved, up to a limit.
    fn merge_again(&mut self, ticket: &Ticket) {
        let rest = match self.queue.moved(ticket) {
            Ok(again) if !again.lives.is_empty() => return self.command(Command::Merge(again)),
            Ok(_) => Vec::new(),
            Err(rest) => rest.lives,
        };
        for id in rest {
            self.queue.ended(ticket, id);
            let message =
                format!("{} moved {} times while the work was being merged", ticket.target, ticket.moves + 1);
            self.end(id, Ending::Error { code: "conflict".to_owned(), message });
        }
        self.queue.finished(ticket);
    }

    /// Takes in the result of another attempt to publish held work. Absent if it is still held.
    pub(in crate::schedule) fn held_tried(&mut self, id: LifeId, result: Option<MergeResult>) {
        self.trying.remove(&id);
        // A run may have waited for this alone.
        self.unsettled = true;
        match result {
            Some(result) => self.merge_over(id, result),
            // A stop that came meanwhile had to wait: the target might have moved.
            None => self.end_if_stopped(id),
        }
    }

    fn merge_over(&mut self, id: LifeId, result: MergeResult) {
        let Some(life) = self.live(id) else { return };
        let (stop, is_held) = (life.stop, matches!(life.state, LifeState::Held { candidate: Some(_), .. }));
        // The target decides first: work that is in it counts as merged, even if a stop was accepted.
        match (result, stop) {
            (MergeResult::Ended(ending), _) if ending.is_integrated() => self.end(id, ending),
            (MergeResult::Incomplete { candidate, by }, _) => {
                self.set(id, LifeState::Incomplete { candidate, by });
            }
            // As after a kill, and in the same states: the answer decides.
            (MergeResult::Unknown { .. }, _) if is_held => drop(self.doubtful.insert(id)),
            (MergeResult::Unknown { .. }, _) => {}
            // By now it may wait for its target.
            (MergeResult::Held { candidate, by }, Some(_)) => {
                self.set(id, LifeState::Held { candidate, by });
                self.end_if_stopped(id);
            }
            (_, Some(_)) => self.end_stopped(id),
            (MergeResult::Ended(Ending::Stopped { by }), None) => {
                self.change(id, |life| life.stop = Some(by));
                self.end_stopped(id);
            }
            (MergeResult::Ended(ending), None) => self.ended_or_again(id, ending),
            (MergeResult::Held { candidate, by }, None) => self.set(id, LifeState::Held { candidate, by }),
            // From held work: what was verified is not what its merge into the moved target would be.
            (MergeResult::Moved, None) => self.enqueue(id),
        }
        self.heed_late_card(id);
    }

    /// Ends a stopped life whose merge came to nothing.
    fn end_stopped(&mut self, id: LifeId) {
        // What is held stays so until it is withdrawn: only this state has the candidate.
        if self.live(id).is_some_and(|life| !matches!(life.state, LifeState::Held { .. })) {
            self.set(id, LifeState::Queued);
        }
        self.end_if_stopped(id);
    }

    /// Takes in whether a publication has taken effect that a killed orchestrator began, or that failed while the target
    /// could not be asked.
    pub(in crate::schedule) fn published(&mut self, id: LifeId, contained: bool) {
        let Some(life) = self.live(id).filter(|_| !self.queue.is_on_ticket(id)) else { return };
        let (candidate, is_held) = match &life.state {
            LifeState::Publishing { candidate } => (candidate.clone(), false),
            LifeState::Held { candidate: Some(candidate), .. } => (candidate.clone(), true),
            _ => return,
        };
        self.doubtful.remove(&id);
        if contained {
            self.end(id, Ending::published(&candidate));
        } else if is_held {
            // A stop had to wait for this answer. Without a stop, the obstacle may be gone by now.
            self.end_if_stopped(id);
            self.try_held(|life| life.id == id);
        } else {
            self.enqueue(id);
            self.heed_late_card(id);
        }
    }

    /// Takes in that some targets contain a publication, and others do not.
    pub(in crate::schedule) fn half_published(&mut self, id: LifeId, by: Obstacle) {
        let Some(life) = self.live(id).filter(|_| !self.queue.is_on_ticket(id)) else { return };
        if matches!(life.state, LifeState::Publishing { .. } | LifeState::Held { candidate: Some(_), .. }) {
            self.doubtful.remove(&id);
            // Without a candidate: only a person's request merges what is missing.
            self.merge_over(id, MergeResult::Held { candidate: None, by });
        }
    }

    /// Follows a card that changed while the work was being published, which could not be helped then.
    fn heed_late_card(&mut self, id: LifeId) {
        let may_merge = |state: &LifeState| matches!(state, LifeState::Queued | LifeState::Held { .. });
        if self.board_known && self.live(id).is_some_and(|life| may_merge(&life.state)) {
            self.heed_card(id);
        }
    }
}
