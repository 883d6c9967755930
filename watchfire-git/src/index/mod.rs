//! git's index as bytes: read, changed and written without opening an agent's folder as a repository.

pub(crate) mod ahead;
pub(crate) mod entry;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod hidden;
pub(crate) mod of_tree;
pub(crate) mod trees;
