//! Work on all tasks at once: list, distances, prune, recovery and backup.

pub(crate) mod backup;
pub(crate) mod distance;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod recover;
