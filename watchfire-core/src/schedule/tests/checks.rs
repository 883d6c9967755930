//! Invariants that need to know more than the machine does: who claimed success, what was verified, what is in the
//! target, which answer reached which session.

use std::collections::{BTreeMap, BTreeSet};

use super::world::World;
use crate::model::{SessionId, TaskNumber, TaskStatus};
use crate::schedule::*;
use crate::workspace::Candidate;

/// The longest pause that the machine decides about itself, with rounding to whole seconds. Resets of limits are the
/// provider's.
const LONGEST_PAUSE: i64 = 62_000;

/// What the world knows and the machine is not asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Tasks for which success was claimed since their last session was prepared.
    pub(super) claims: BTreeSet<TaskNumber>,
    /// Merges that passed verification.
    pub(super) verified: BTreeSet<(LifeId, String)>,
    /// The commit with which the work of a life is in its target.
    pub(super) published: BTreeMap<LifeId, String>,
    /// Answers that were handed to a session.
    delivered: BTreeSet<(LifeId, String, Option<SessionId>)>,
    /// True once a start left its lives to a person.
    pub(super) orphaned: bool,
}

/// Returns the stop that must end a life. That a person marked its task done is overtaken by what the file says later.
pub(super) fn stop_of(life: &Life) -> Option<StopReason> {
    life.stop.filter(|by| *by != StopReason::DoneByHand)
}

/// Returns true for a state in which an effect of ours is at work.
fn is_at_work(state: &LifeState) -> bool {
    use LifeState::*;
    matches!(
        state,
        Starting | Running | Ending | Capturing | Queued | Merging | Verifying { .. } | Publishing { .. }
    )
}

impl World {
    /// Checks the change of a life from the state in which it was replayed last.
    pub(super) fn check_change(&self, life: &Life) {
        let before = self.replayed.lives.get(&life.id);
        let published = self.truth.published.get(&life.id);
        // A stop stays until the life has ended, and then it is what ended it, unless its work was in the target first.
        if let Some(by) = before.and_then(stop_of) {
            assert_eq!(life.stop, Some(by), "a stop was lost: {life:?}");
            let is_its_end = match life.ending() {
                Some(Ending::Stopped { by: reason }) => *reason == by,
                Some(Ending::Closed) => false,
                Some(ending) => ending.is_integrated(),
                None => true,
            };
            assert!(is_its_end, "stopped by {by:?}, ended otherwise: {life:?}");
        }
        // What is in the target is recorded as merged, and nothing else is.
        match (&life.state, published) {
            (LifeState::Ended { how: Ending::Merged { commit, .. } }, published) => {
                assert_eq!(commit.as_ref(), published, "{life:?}");
            }
            (LifeState::Publishing { .. } | LifeState::Held { .. } | LifeState::Incomplete { .. }, _)
            | (_, None) => {}
            (_, Some(commit)) => panic!("{commit} is in the target: {life:?}"),
        }
        // A claim has someone who made it.
        if life.claimed && !before.is_some_and(|before| before.claimed) {
            let task = life.subject.task().unwrap();
            let by_hand =
                self.known.get(&task).is_some_and(|card| card.status == TaskStatus::Done && card.success);
            assert!(self.truth.claims.contains(&task) || by_hand, "nobody claimed success: {life:?}");
        }
        let attempts = before.map_or(life.attempt.0, |before| before.attempt.0);
        // A number under which nothing was begun is given back.
        let not_begun = match &life.state {
            LifeState::Waiting { on } => matches!(on, Wait::Elsewhere { .. }),
            state => state.lacks_agent(),
        };
        let given_back = not_begun && life.attempt.0 + 1 == attempts;
        assert!(given_back || (attempts..=attempts + 1).contains(&life.attempt.0), "{life:?}");
    }

    /// A run ends when nothing moves for it, and says what became of every task that it covers.
    pub(super) fn check_run_end(&self, run: &Run, end: &RunEnd) {
        if end.interrupted {
            return;
        }
        for card in self.known.values().filter(|card| run.scope.covers(card.number)) {
            let task = card.number;
            let told = end.waiting.contains_key(&task) || end.open.contains_key(&task);
            match self.replayed.life_of(task) {
                Some(life) => {
                    let is_anothers = run.stopped && life.run != Some(run.id) && stop_of(life).is_none();
                    assert!(is_anothers || !is_at_work(&life.state), "{run:?} ended before {life:?}");
                    assert!(told, "{run:?} says nothing of {life:?}");
                }
                None if card.status == TaskStatus::Ready => {
                    assert!(told || run.endings.contains_key(&task), "{run:?} says nothing of {task}");
                }
                None => {}
            }
        }
    }

    /// Nothing is published without a claim of success, an unchanged file and a verification, or after a stop.
    pub(super) fn check_permit(&mut self, candidates: &[(LifeId, Candidate)], is_verified: bool) {
        for (id, candidate) in candidates {
            let life = &self.replayed.lives[id];
            // Whatever waits for a target may go with the next work, so none of it may be taken back.
            let is_taken_back = |other: &Life| other.is_finished() && stop_of(other).is_some();
            let taken_back = self.replayed.lives.values().find(|other| is_taken_back(other));
            assert!(taken_back.is_none(), "goes along: {taken_back:?}");
            assert!(life.claimed && life.stop.is_none() && !self.closing, "{life:?}");
            let task = life.subject.task().unwrap();
            let claims = |card: &Card| card.status == TaskStatus::Done && card.success;
            let boards = [&self.known, &self.files].map(|cards| cards.get(&task).is_none_or(claims));
            assert_ne!(boards, [false; 2], "withdrawn: {life:?}");
            let verified = (*id, candidate.commit.to_string());
            match is_verified {
                true => drop(self.truth.verified.insert(verified)),
                false => assert!(self.truth.verified.contains(&verified), "never verified: {life:?}"),
            }
            assert!(!self.truth.published.contains_key(id), "to be published twice: {life:?}");
        }
    }

    /// Moves the target: the work of a life gets there once.
    pub(super) fn publish(&mut self, life: LifeId, candidate: &Candidate) -> MergeResult {
        let commit = candidate.commit.to_string();
        assert!(self.truth.verified.contains(&(life, commit.clone())), "never verified: {life} {commit}");
        let before = self.truth.published.insert(life, commit.clone());
        assert_eq!(before, None, "published twice: {life} {commit}");
        MergeResult::Ended(Ending::merged(Some(commit), Some("main".into())))
    }

    /// An answer is durable before it is delivered, and reaches a session once.
    pub(super) fn check_delivery(&mut self, id: LifeId, question: &str) {
        let life = &self.replayed.lives[&id];
        let answer = life.answer(question).unwrap_or_else(|| panic!("{question} was not answered: {life:?}"));
        let session = life.session.as_ref().map(|session| session.id.clone());
        assert!(session.is_some() && answer.session == session, "not asked by this session: {answer:?}");
        assert!(
            self.truth.delivered.insert((id, format!("{question}: {}", answer.question), session)),
            "delivered twice: {answer:?}"
        );
    }

    /// Pauses that the machine makes by itself are short, also after the clock was set back.
    pub(super) fn check_pauses(&self) {
        let has_reset = self.replayed.blocked.values().any(|block| block.until.is_some())
            || self.replayed.lives.values().any(
                |life| matches!(&life.state, LifeState::Limited { issue, .. } if issue.reset_at.is_some()),
            );
        let asks = self.replayed.lives.values().any(|life| matches!(life.state, LifeState::Asking { .. }));
        if let Some(due) = self.schedule.next_tick().filter(|_| !has_reset && !asks) {
            let pause = due.unix_millis() - self.now;
            assert!(pause <= LONGEST_PAUSE, "a pause of {pause} ms: {:#?}", self.replayed.lives);
        }
    }

    /// Returns the reason for which a life that is at rest waits in vain without a person; absent if there is none.
    pub(super) fn reason_to_wait(&self, life: &Life) -> Option<&'static str> {
        let is_merged = |task: TaskNumber| match self.replayed.life_of(task).map(|life| &life.state) {
            Some(state) => matches!(state, LifeState::Incomplete { .. }),
            None => {
                self.known.get(&task).is_some_and(|card| card.status == TaskStatus::Done && card.success)
                    && !self.is_unmerged(task)
            }
        };
        match &life.state {
            LifeState::Waiting { on: Wait::DependsOn { tasks } } => {
                (!tasks.is_empty() && !tasks.iter().any(|task| is_merged(*task))).then_some("dependencies")
            }
            LifeState::Waiting { on: Wait::Backend { backend, until: None } } => {
                self.replayed.blocked.contains_key(backend).then_some("a blocked backend")
            }
            LifeState::Waiting { on: Wait::Resume } => {
                let is_fruitless = life.fruitless >= self.limits.restarts.max(1);
                (self.truth.orphaned || is_fruitless).then_some("a person's word")
            }
            LifeState::Asking { questions } => (!questions.is_empty()).then_some("an answer"),
            LifeState::Limited { until, .. } => until.is_none().then_some("a person"),
            LifeState::Held { .. } | LifeState::Incomplete { .. } => Some("an obstacle"),
            _ => None,
        }
    }
}
