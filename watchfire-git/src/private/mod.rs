//! The git of an agent that works on private copies, and the way of its work into the repository.

pub(crate) mod agent_refs;
pub(crate) mod copies;
pub(crate) mod import;
pub(crate) mod transfer;
