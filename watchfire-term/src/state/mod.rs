//! Everything that a terminal remembers.

pub(crate) mod charset;
pub(crate) mod images;
pub(crate) mod keyboard;
pub(crate) mod modes;
pub(crate) mod stacks;
#[expect(clippy::module_inception, reason = "the room is named for what it holds")]
mod state;
pub(crate) mod tabs;

pub(crate) use state::*;
