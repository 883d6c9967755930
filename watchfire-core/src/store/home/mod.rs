//! The Watchfire home: settings, the index of projects, and the state that the machine keeps for each project.

mod files;
#[expect(clippy::module_inception, reason = "the room is named for what it holds")]
mod home;
mod identity;
mod project;
mod repositories;

pub use home::{Home, HomeChange, HomeChanges};
pub use project::NewProject;
pub(crate) use project::take_place;
