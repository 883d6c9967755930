//! The order of merges: one ticket at a time per target, first come, first served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::schedule::{LifeId, Ticket};

/// Upper bound for merges that are repeated because the target has moved.
const MOVES: u32 = 8;

/// The queue of finished work. A failure removes one life; the queue continues.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Queue {
    lanes: BTreeMap<String, Lane>,
    batch: usize,
}

#[derive(Clone, Debug)]
struct Lane {
    waiting: VecDeque<LifeId>,
    current: Option<Ticket>,
    /// Upper bound for the next batch. Halved after a batch fails verification, so that bisection finds the bad one.
    size: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), batch: 1 }
    }
}

impl Queue {
    /// Sets the number of lives that may share a ticket, from the next ticket on. Zero counts as one.
    pub(in crate::schedule) fn set_batch(&mut self, most: u32) {
        self.batch = usize::try_from(most).unwrap_or(usize::MAX).max(1);
    }

    /// Puts a life at the end of its target's lane, unless it is in that lane already.
    pub(in crate::schedule) fn push(&mut self, life: LifeId, target: &str) {
        let lane = self.lanes.entry(target.to_owned()).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            current: None,
            size: usize::MAX,
        });
        let current = lane.current.as_ref().is_some_and(|ticket| ticket.lives.contains(&life));
        if !current && !lane.waiting.contains(&life) {
            lane.waiting.push_back(life);
        }
    }

    /// Returns the merges that may begin, at most one ticket per target, and none into a target that `must_wait`. They count
    /// as under way from now on.
    pub(in crate::schedule) fn take_ready(&mut self, must_wait: &BTreeSet<String>) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for (target, lane) in &mut self.lanes {
            // One per target: two merges into it at once would each see the other's move.
            if lane.current.is_none() && !lane.waiting.is_empty() && !must_wait.contains(target) {
                let count = lane.waiting.len().min(self.batch).min(lane.size);
                let lives = lane.waiting.drain(..count).collect();
                let ticket = Ticket { lives, target: target.clone(), moves: 0 };
                lane.current = Some(ticket.clone());
                tickets.push(ticket);
            }
        }
        tickets
    }

    /// Removes a life that has a result from its ticket.
    pub(in crate::schedule) fn ended(&mut self, ticket: &Ticket, life: LifeId) {
        if let Some(current) = self.lanes.get_mut(&ticket.target).and_then(|lane| lane.current.as_mut()) {
            // What stays on the ticket is merged again after a move, and is first in line once the ticket
            // ends.
            current.lives.retain(|other| *other != life);
        }
    }

    /// Returns the ticket with which the rest of `ticket` is merged again after its target has moved.
    ///
    /// # Errors
    /// The rest, if the target has moved too often.
    pub(in crate::schedule) fn moved(&mut self, ticket: &Ticket) -> Result<Ticket, Ticket> {
        let current = self.lanes.get_mut(&ticket.target).and_then(|lane| lane.current.as_mut());
        let Some(current) = current else { return Err(Ticket { lives: Vec::new(), ..ticket.clone() }) };
        current.moves = ticket.moves + 1;
        let again = current.clone();
        if again.moves <= MOVES { Ok(again) } else { Err(again) }
    }

    /// Ends a ticket. Its lives without a result are first in line, in a smaller batch.
    pub(in crate::schedule) fn finished(&mut self, ticket: &Ticket) {
        if let Some(lane) = self.lanes.get_mut(&ticket.target) {
            let rest = lane.current.take().map(|current| current.lives).unwrap_or_default();
            // After a good batch the size recovers step by step.
            lane.size = match rest.is_empty() {
                true => lane.size.saturating_mul(2),
                false => (ticket.lives.len() / 2).max(1),
            };
            // Reversed, so that pushing to the front keeps their order.
            rest.into_iter().rev().for_each(|life| lane.waiting.push_front(life));
        }
        // A lane that is dropped forgets its batch size: the next work for the target is tried in full
        // batches.
        self.lanes.retain(|_, lane| lane.current.is_some() || !lane.waiting.is_empty());
    }

    /// Returns the targets for which work waits.
    pub(in crate::schedule) fn targets(&self) -> Vec<String> {
        self.lanes
            .iter()
            .filter(|(_, lane)| !lane.waiting.is_empty())
            .map(|(target, _)| target.clone())
            .collect()
    }

    /// Takes a waiting life out of its lane.
    pub(in crate::schedule) fn remove(&mut self, life: LifeId) {
        for lane in self.lanes.values_mut() {
            // Not from the current ticket: its effect is at work on the life and reports a result for it.
            lane.waiting.retain(|other| *other != life);
        }
    }

    /// Returns true if a ticket is under way.
    pub(in crate::schedule) fn is_working(&self) -> bool {
        self.lanes.values().any(|lane| lane.current.is_some())
    }

    /// Returns the lives on the tickets under way.
    pub(in crate::schedule) fn working(&self) -> Vec<LifeId> {
        self.lanes
            .values()
            .filter_map(|lane| lane.current.as_ref())
            .flat_map(|ticket| ticket.lives.clone())
            .collect()
    }

    /// Returns the lives of a ticket without a result.
    pub(in crate::schedule) fn working_on(&self, ticket: &Ticket) -> Vec<LifeId> {
        let current = self.lanes.get(&ticket.target).and_then(|lane| lane.current.as_ref());
        current.map(|current| current.lives.clone()).unwrap_or_default()
    }

    /// Returns true if `life` is on a ticket under way, and has no result there.
    pub(in crate::schedule) fn is_on_ticket(&self, life: LifeId) -> bool {
        self.lanes
            .values()
            .filter_map(|lane| lane.current.as_ref())
            .any(|ticket| ticket.lives.contains(&life))
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}

/// Search for the first bad merge of a stack, by verifying several together.
///
/// Assumes that a stack which fails also fails with more on top. The result is then the same as verifying one by one
/// and leaving out the merges that fail.
#[derive(Clone, Debug)]
pub(crate) struct Bisection {
    /// Number of merges from the bottom that are known to be good together.
    good: usize,
    /// Number of merges from the bottom that are known to fail together; one more than `all` while none is known.
    bad: usize,
    all: usize,
}

impl Bisection {
    /// Begins a search among `count` merges.
    #[must_use]
    pub(crate) fn among(count: usize) -> Self {
        Self { good: 0, bad: count + 1, all: count }
    }

    /// Returns the number of merges from the bottom to verify together next, or `None` once the result is known.
    #[must_use]
    pub(crate) fn next(&self) -> Option<usize> {
        // All together first: in most batches every merge is good.
        let untried = self.bad > self.all;
        let next = if untried { self.all } else { self.good + (self.bad - self.good) / 2 };
        (next > self.good).then_some(next)
    }

    /// Takes in the result of verifying the lowest `count` merges together.
    pub(crate) fn verified(&mut self, count: usize, good: bool) {
        if good {
            self.good = self.good.max(count);
        } else {
            self.bad = self.bad.min(count);
        }
    }

    /// Returns the number of merges from the bottom that are good.
    #[must_use]
    pub(crate) fn good(&self) -> usize {
        self.good
    }

    /// Returns the position of the bad merge, counted from 0 at the bottom. Merges above it were not judged.
    #[must_use]
    pub(crate) fn guilty(&self) -> Option<usize> {
        // `bad` lies above `all` until a verification has failed.
        (self.bad <= self.all).then(|| self.bad - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn n(n: u32) -> LifeId {
        LifeId(u64::from(n))
    }

    #[test]
    fn one_at_a_time_per_target_in_order() {
        let mut queue = Queue::default();
        for (task, target) in [(2, "main"), (1, "main"), (2, "main"), (3, "dev")] {
            queue.push(n(task), target);
        }
        let first = queue.take_ready(&BTreeSet::new());
        assert_eq!(first.iter().map(|t| t.lives.clone()).collect::<Vec<_>>(), [[n(3)], [n(2)]]);
        assert!(queue.take_ready(&BTreeSet::new()).is_empty());
        queue.push(n(2), "main");
        queue.ended(&first[1], n(2));
        queue.finished(&first[1]);
        assert_eq!(
            queue.take_ready(&BTreeSet::new())[0].lives,
            [n(1)],
            "the task under way was not queued again"
        );
    }

    #[test]
    fn a_target_that_never_rests_is_given_up() {
        let mut queue = Queue::default();
        queue.set_batch(3);
        (1..4).for_each(|task| queue.push(n(task), "main"));
        let mut ticket = queue.take_ready(&BTreeSet::new()).remove(0);
        queue.ended(&ticket, n(2));
        let mut moves = 0;
        let rest = loop {
            match queue.moved(&ticket) {
                Ok(again) => ticket = again,
                Err(rest) => break rest,
            }
            moves += 1;
        };
        assert_eq!((moves, rest.lives.clone()), (MOVES, vec![n(1), n(3)]));
        rest.lives.iter().for_each(|task| queue.ended(&rest, *task));
        queue.finished(&rest);
        assert!(queue.is_empty());
    }

    /// Returns the good ones of `lives` and the number of verifications. `fails` judges a target with these lives in it.
    fn drain(batch: u32, lives: u32, fails: impl Fn(&[u32]) -> bool) -> (Vec<u32>, usize) {
        let mut queue = Queue::default();
        queue.set_batch(batch);
        (1..=lives).for_each(|task| queue.push(n(task), "main"));
        let (mut target, mut verified) = (Vec::new(), 0);
        while let Some(ticket) = queue.take_ready(&BTreeSet::new()).pop() {
            let mut search = Bisection::among(ticket.lives.len());
            let stack = |count: usize| {
                let more = ticket.lives.iter().take(count).map(|task| u32::try_from(task.0).unwrap());
                target.iter().copied().chain(more).collect::<Vec<u32>>()
            };
            while let Some(count) = search.next() {
                search.verified(count, !fails(&stack(count)));
                verified += 1;
            }
            let merged = stack(search.good());
            let done = search.guilty().map_or(search.good(), |guilty| guilty + 1);
            target = merged;
            ticket.lives.iter().take(done).for_each(|task| queue.ended(&ticket, *task));
            queue.finished(&ticket);
        }
        assert!(queue.is_empty());
        (target, verified)
    }

    proptest! {
        #[test]
        fn batches_find_what_one_by_one_finds(
            batch in 1..20u32,
            lives in 0..40u32,
            bad in prop::collection::btree_set(1..40u32, 0..12),
            quarrels in prop::collection::vec((1..40u32, 1..40u32), 0..6),
        ) {
            // Some are bad alone, some only together with another.
            let fails = |merged: &[u32]| {
                let merged: BTreeSet<_> = merged.iter().copied().collect();
                !merged.is_disjoint(&bad)
                    || quarrels.iter().any(|(a, b)| a != b && merged.contains(a) && merged.contains(b))
            };
            let (one_by_one, each) = drain(1, lives, fails);
            let (together, verified) = drain(batch, lives, fails);
            prop_assert_eq!(&together, &one_by_one);
            let evicted = lives as usize - together.len();
            let halvings = usize::try_from(batch.ilog2()).unwrap() + 1;
            prop_assert_eq!(each, lives as usize);
            let batches = (lives as usize).div_ceil(batch as usize);
            prop_assert!(verified <= batches + evicted * (2 * halvings + 2), "{verified} of {lives}");
            if evicted == 0 {
                prop_assert_eq!(verified, batches);
            }
        }
    }

    #[test]
    fn a_batch_of_eight_with_one_bad_is_verified_less_often_than_each() {
        assert_eq!(drain(8, 8, |_| false).1, 1);
        for bad in 1..=8 {
            let (good, verified) = drain(8, 8, |merged| merged.contains(&bad));
            assert!(good.len() == 7 && verified < 8, "{bad}: {verified}");
        }
    }
}
