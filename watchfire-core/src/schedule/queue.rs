//! The order of merges: one at a time per target, first come, first served.

use std::collections::{BTreeMap, VecDeque};

use crate::model::TaskNumber;

/// How often a merge is made again because the target has moved under it.
const MOVES: u32 = 8;

/// The queue of finished work. A failure evicts that task alone; the queue goes on.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    lanes: BTreeMap<String, Lane>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    waiting: VecDeque<TaskNumber>,
    current: Option<MergeTicket>,
}

/// The right to merge one task into its target now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MergeTicket {
    /// The task.
    pub task: TaskNumber,
    /// The target.
    pub target: String,
    /// How often the target has moved under it.
    pub moves: u32,
}

impl Queue {
    /// Puts a task at the end of its target's lane; nothing happens when it is there already.
    pub fn push(&mut self, task: TaskNumber, target: &str) {
        let lane = self.lanes.entry(target.to_owned()).or_default();
        let current = lane.current.as_ref().is_some_and(|ticket| ticket.task == task);
        if !current && !lane.waiting.contains(&task) {
            lane.waiting.push_back(task);
        }
    }

    /// The next merges that may begin: at most one per target. They are under way from now on.
    pub fn take_ready(&mut self) -> Vec<MergeTicket> {
        let mut tickets = Vec::new();
        for (target, lane) in &mut self.lanes {
            if lane.current.is_none()
                && let Some(task) = lane.waiting.pop_front()
            {
                let ticket = MergeTicket { task, target: target.clone(), moves: 0 };
                lane.current = Some(ticket.clone());
                tickets.push(ticket);
            }
        }
        tickets
    }

    /// The target has moved under a merge: the ticket to make it again with, or none when that happened too often
    /// (the task is out then).
    pub fn moved(&mut self, ticket: &MergeTicket) -> Option<MergeTicket> {
        let again = MergeTicket { moves: ticket.moves + 1, ..ticket.clone() };
        let lane = self.lanes.get_mut(&ticket.target)?;
        lane.current = (again.moves <= MOVES).then(|| again.clone());
        lane.current.clone()
    }

    /// A merge has come to its end, well or badly.
    pub fn finished(&mut self, ticket: &MergeTicket) {
        if let Some(lane) = self.lanes.get_mut(&ticket.target) {
            lane.current = None;
        }
        self.lanes.retain(|_, lane| lane.current.is_some() || !lane.waiting.is_empty());
    }

    /// Whether nothing waits or is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(first.iter().map(|t| t.task).collect::<Vec<_>>(), [n(3), n(2)]);
        assert!(queue.take_ready().is_empty());
        queue.push(n(2), "main");
        queue.finished(&first[1]);
        assert_eq!(queue.take_ready()[0].task, n(1), "the task under way was not queued again");
    }

    #[test]
    fn a_target_that_never_rests_is_given_up() {
        let mut queue = Queue::default();
        queue.push(n(1), "main");
        let mut ticket = queue.take_ready().remove(0);
        let mut moves = 0;
        while let Some(again) = queue.moved(&ticket) {
            ticket = again;
            moves += 1;
        }
        assert_eq!(moves, MOVES);
        queue.finished(&ticket);
        assert!(queue.is_empty());
    }
}
