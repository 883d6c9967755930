//! Projects in folders without git: their repository is a store of snapshots that lies elsewhere, and the folder is its
//! checkout.
//!
//! A snapshot is a commit of the folder as it is. One is taken when a task opens its folder and when its work is merged, and
//! where the person's edits are in the way of a publication; so edits of the person are the newest commit of the target. All
//! else is as in any repository.

mod init;
mod limits;
pub(crate) mod past;
mod places;
pub(crate) mod snapshot;
pub(crate) mod store;

pub use init::{check_plain, init_plain};
pub(crate) use limits::Measured;
