//! The private copies on which an agent's git works, and the import of the work in them.

pub(crate) mod agent_refs;
pub(crate) mod copies;
pub(crate) mod import;
pub(crate) mod transfer;
