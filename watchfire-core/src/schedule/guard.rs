//! Restart protection: the same task again and again without progress stops the chain.

use crate::model::TaskNumber;

/// Counts starts of the same task in a row.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Guard {
    last: Option<(TaskNumber, u32)>,
}

impl Guard {
    /// Counts a start and returns how many there have been in a row.
    pub fn started(&mut self, task: TaskNumber) -> u32 {
        let count = match self.last {
            Some((last, count)) if last == task => count.saturating_add(1),
            _ => 1,
        };
        self.last = Some((task, count));
        count
    }

    /// How often `task` was started in a row.
    #[must_use]
    pub fn count(&self, task: TaskNumber) -> u32 {
        self.last.filter(|(last, _)| *last == task).map_or(0, |(_, count)| count)
    }

    /// Forgets the count: there was progress on `task`, or a person stepped in.
    pub fn clear(&mut self, task: TaskNumber) {
        if self.count(task) > 0 {
            self.last = None;
        }
    }
}
