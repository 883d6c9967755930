//! The order of merges: one ticket at a time per target, first come, first served.

use std::collections::{BTreeMap, VecDeque};

use crate::model::TaskNumber;

/// How often a merge is made again because the target has moved under it.
const MOVES: u32 = 8;

/// The queue of finished work. A failure evicts that task alone; the queue goes on.
#[derive(Clone, Debug)]
pub struct Queue {
    lanes: BTreeMap<String, Lane>,
    batch: usize,
}

#[derive(Clone, Debug)]
struct Lane {
    waiting: VecDeque<TaskNumber>,
    current: Option<MergeTicket>,
    /// How many go on the next ticket at most: fewer after a batch that did not come through as one.
    size: usize,
}

/// The right to merge some tasks into their target now, one on top of the other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MergeTicket {
    /// The tasks, in their order; more than one only if batches are allowed.
    pub tasks: Vec<TaskNumber>,
    /// The target.
    pub target: String,
    /// How often the target has moved under them.
    pub moves: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), batch: 1 }
    }
}

impl Queue {
    /// How many tasks may be on one ticket, from the next on; at least one.
    pub fn set_batch(&mut self, most: u32) {
        self.batch = usize::try_from(most).unwrap_or(usize::MAX).max(1);
    }

    /// Puts a task at the end of its target's lane; nothing happens when it is there already.
    pub fn push(&mut self, task: TaskNumber, target: &str) {
        let lane = self.lanes.entry(target.to_owned()).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            current: None,
            size: usize::MAX,
        });
        let current = lane.current.as_ref().is_some_and(|ticket| ticket.tasks.contains(&task));
        if !current && !lane.waiting.contains(&task) {
            lane.waiting.push_back(task);
        }
    }

    /// The next merges that may begin: at most one ticket per target. They are under way from now on.
    pub fn take_ready(&mut self) -> Vec<MergeTicket> {
        let mut tickets = Vec::new();
        for (target, lane) in &mut self.lanes {
            if lane.current.is_none() && !lane.waiting.is_empty() {
                let count = lane.waiting.len().min(self.batch).min(lane.size);
                let tasks = lane.waiting.drain(..count).collect();
                let ticket = MergeTicket { tasks, target: target.clone(), moves: 0 };
                lane.current = Some(ticket.clone());
                tickets.push(ticket);
            }
        }
        tickets
    }

    /// A task of a ticket has come to its end, well or badly.
    pub fn ended(&mut self, ticket: &MergeTicket, task: TaskNumber) {
        if let Some(current) = self.lanes.get_mut(&ticket.target).and_then(|lane| lane.current.as_mut()) {
            current.tasks.retain(|other| *other != task);
        }
    }

    /// The target has moved under a ticket: the ticket to make the rest of it again with.
    ///
    /// # Errors
    /// The rest, when that happened too often: its tasks are out then.
    pub fn moved(&mut self, ticket: &MergeTicket) -> Result<MergeTicket, MergeTicket> {
        let current = self.lanes.get_mut(&ticket.target).and_then(|lane| lane.current.as_mut());
        let Some(current) = current else { return Err(MergeTicket { tasks: Vec::new(), ..ticket.clone() }) };
        current.moves = ticket.moves + 1;
        let again = current.clone();
        if again.moves <= MOVES { Ok(again) } else { Err(again) }
    }

    /// A ticket has come to its end. What has not ended of it is first in line, in a smaller batch.
    pub fn finished(&mut self, ticket: &MergeTicket) {
        if let Some(lane) = self.lanes.get_mut(&ticket.target) {
            let rest = lane.current.take().map(|current| current.tasks).unwrap_or_default();
            lane.size = match rest.is_empty() {
                true => lane.size.saturating_mul(2),
                false => (ticket.tasks.len() / 2).max(1),
            };
            rest.into_iter().rev().for_each(|task| lane.waiting.push_front(task));
        }
        self.lanes.retain(|_, lane| lane.current.is_some() || !lane.waiting.is_empty());
    }

    /// Whether nothing waits or is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}

/// Finds the first bad one of merges that are stacked one on the other, by verifying some of them together.
///
/// It supposes that a stack which fails goes on failing with more on top of it. Then what is found to be good and bad
/// is what verifying one by one, and leaving out what fails, would have found.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// So many from the bottom are good together.
    good: usize,
    /// So many are bad together; one more than there are, as long as none is known to be.
    bad: usize,
    all: usize,
}

impl Bisection {
    /// The search among this many.
    #[must_use]
    pub fn among(count: usize) -> Self {
        Self { good: 0, bad: count + 1, all: count }
    }

    /// How many from the bottom are to be verified together next; none when all is known.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        let untried = self.bad > self.all;
        let next = if untried { self.all } else { self.good + (self.bad - self.good) / 2 };
        (next > self.good).then_some(next)
    }

    /// Takes in how that went.
    pub fn verified(&mut self, count: usize, good: bool) {
        if good {
            self.good = self.good.max(count);
        } else {
            self.bad = self.bad.min(count);
        }
    }

    /// How many from the bottom are good.
    #[must_use]
    pub fn good(&self) -> usize {
        self.good
    }

    /// The position of the one that is to blame, from 0. What is above it was not judged.
    #[must_use]
    pub fn guilty(&self) -> Option<usize> {
        (self.bad <= self.all).then(|| self.bad - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn n(n: u32) -> TaskNumber {
        TaskNumber::new(n).unwrap()
    }

    #[test]
    fn one_at_a_time_per_target_in_order() {
        let mut queue = Queue::default();
        for (task, target) in [(2, "main"), (1, "main"), (2, "main"), (3, "dev")] {
            queue.push(n(task), target);
        }
        let first = queue.take_ready();
        assert_eq!(first.iter().map(|t| t.tasks.clone()).collect::<Vec<_>>(), [[n(3)], [n(2)]]);
        assert!(queue.take_ready().is_empty());
        queue.push(n(2), "main");
        queue.ended(&first[1], n(2));
        queue.finished(&first[1]);
        assert_eq!(queue.take_ready()[0].tasks, [n(1)], "the task under way was not queued again");
    }

    #[test]
    fn a_target_that_never_rests_is_given_up() {
        let mut queue = Queue::default();
        queue.set_batch(3);
        (1..4).for_each(|task| queue.push(n(task), "main"));
        let mut ticket = queue.take_ready().remove(0);
        queue.ended(&ticket, n(2));
        let mut moves = 0;
        let rest = loop {
            match queue.moved(&ticket) {
                Ok(again) => ticket = again,
                Err(rest) => break rest,
            }
            moves += 1;
        };
        assert_eq!((moves, rest.tasks.clone()), (MOVES, vec![n(1), n(3)]));
        rest.tasks.iter().for_each(|task| queue.ended(&rest, *task));
        queue.finished(&rest);
        assert!(queue.is_empty());
    }

    /// What is good among `tasks`, and how often that was verified. `fails` judges what is in the target together.
    fn drain(batch: u32, tasks: u32, fails: impl Fn(&[u32]) -> bool) -> (Vec<u32>, usize) {
        let mut queue = Queue::default();
        queue.set_batch(batch);
        (1..=tasks).for_each(|task| queue.push(n(task), "main"));
        let (mut target, mut verified) = (Vec::new(), 0);
        while let Some(ticket) = queue.take_ready().pop() {
            let mut search = Bisection::among(ticket.tasks.len());
            let stack = |count: usize| {
                let more = ticket.tasks.iter().take(count).map(|task| task.value());
                target.iter().copied().chain(more).collect::<Vec<u32>>()
            };
            while let Some(count) = search.next() {
                search.verified(count, !fails(&stack(count)));
                verified += 1;
            }
            let merged = stack(search.good());
            let done = search.guilty().map_or(search.good(), |guilty| guilty + 1);
            target = merged;
            ticket.tasks.iter().take(done).for_each(|task| queue.ended(&ticket, *task));
            queue.finished(&ticket);
        }
        assert!(queue.is_empty());
        (target, verified)
    }

    proptest! {
        #[test]
        fn batches_find_what_one_by_one_finds(
            batch in 1..20u32,
            tasks in 0..40u32,
            bad in prop::collection::btree_set(1..40u32, 0..12),
            quarrels in prop::collection::vec((1..40u32, 1..40u32), 0..6),
        ) {
            // Some are bad by themselves, some only together with another.
            let fails = |merged: &[u32]| {
                let merged: BTreeSet<_> = merged.iter().copied().collect();
                !merged.is_disjoint(&bad)
                    || quarrels.iter().any(|(a, b)| a != b && merged.contains(a) && merged.contains(b))
            };
            let (one_by_one, each) = drain(1, tasks, fails);
            let (together, verified) = drain(batch, tasks, fails);
            prop_assert_eq!(&together, &one_by_one);
            let evicted = tasks as usize - together.len();
            let halvings = usize::try_from(batch.ilog2()).unwrap() + 1;
            prop_assert_eq!(each, tasks as usize);
            let batches = (tasks as usize).div_ceil(batch as usize);
            prop_assert!(verified <= batches + evicted * (2 * halvings + 2), "{verified} of {tasks}");
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
