//! The repository itself: references, records, locks and administration. Nothing here reads the content of a checkout.

pub(crate) mod admin;
pub(crate) mod agent_head;
pub(crate) mod agent_ref;
pub(crate) mod index_lock;
pub(crate) mod last_merge;
pub(crate) mod layout;
pub(crate) mod left;
pub(crate) mod new_blobs;
pub(crate) mod new_pack;
pub(crate) mod ownership;
pub(crate) mod project;
pub(crate) mod queue;
pub(crate) mod reach;
pub(crate) mod record;
pub(crate) mod ref_lock;
pub(crate) mod special;
