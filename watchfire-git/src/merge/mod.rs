//! Merges in memory.

pub(crate) mod prepare;
pub(crate) mod trees;
