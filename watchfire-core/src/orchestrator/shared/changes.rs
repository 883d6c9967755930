//! The changes that effects made to the store, so that a board that was read before one does not undo it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::TaskNumber;

/// Numbered changes. The number grows with each.
#[derive(Debug, Default)]
pub(crate) struct StoreChanges {
    last: u64,
    /// The last change of each task.
    tasks: BTreeMap<TaskNumber, u64>,
    /// The last change that may concern any task.
    any: u64,
}

impl StoreChanges {
    /// Notes a change of one task, or of any.
    pub(crate) fn note(&mut self, task: Option<TaskNumber>) {
        self.last += 1;
        match task {
            Some(task) => drop(self.tasks.insert(task, self.last)),
            None => self.any = self.last,
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the tasks that changed after the change `seen`. Returns `None` if any may have.
    pub(crate) fn after(&self, seen: u64) -> Option<BTreeSet<TaskNumber>> {
        let changed = self.tasks.iter().filter(|(_, at)| **at > seen).map(|(task, _)| *task);
        (self.any <= seen).then(|| changed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_old_for_what_changed_after_it_was_read() {
        let (one, two) = (TaskNumber::new(1).unwrap(), TaskNumber::new(2).unwrap());
        let mut changes = StoreChanges::default();
        changes.note(Some(one));
        let read = changes.last();
        assert_eq!(changes.after(read), Some(BTreeSet::new()));
        changes.note(Some(two));
        assert_eq!(changes.after(read), Some([two].into()));
        assert_eq!(changes.after(0), Some([one, two].into()));
        changes.note(None);
        assert_eq!(changes.after(read), None);
        assert_eq!(changes.after(changes.last()), Some(BTreeSet::new()));
    }
}
