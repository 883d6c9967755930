//! What there is of all tasks: listed, cleaned up, recovered, backed up.

pub(crate) mod backup;
pub(crate) mod distance;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod recover;
