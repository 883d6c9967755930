//! The parts of one session: folders, launch, policy, environment, copies of the project's files.

pub(crate) mod files;
pub(crate) mod kept;
mod memory;
mod note;
mod policy;
mod preparation;
pub(crate) mod progress;
mod provided;
mod record;
pub(crate) mod resume;

pub(crate) use files::Documents;
pub(crate) use note::{Reached, SessionNote, notes};
pub(crate) use policy::{
    PolicyParts, Scope, environment, isolate, isolates_root, open_in_a_chat, own_policy,
};
pub(crate) use preparation::{
    Agent, Composed, Folders, Preparation, SessionRequest, agent_settings, check_lost, located,
};
pub(crate) use provided::Wanted;
pub(crate) use record::LiveRecord;
pub use record::SandboxRecord;
