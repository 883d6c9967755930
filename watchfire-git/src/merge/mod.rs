//! Merges work with its target in memory.

pub(crate) mod guard;
pub(crate) mod obeyed;
pub(crate) mod places;
pub(crate) mod prepare;
pub(crate) mod renames;
pub(crate) mod revert;
pub(crate) mod taken;
pub(crate) mod three_way;
pub(crate) mod tools;
pub(crate) mod trees;
pub(crate) mod withdraw;
