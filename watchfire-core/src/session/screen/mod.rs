//! The output of an agent, as it is kept: on its terminal, in its log, for readers who follow.

mod attach;
mod follower;
mod log_file;
mod state;
#[cfg(test)]
mod tests;

pub use attach::{AttachRequest, Attachment, ScreenChange, ScreenUpdate};
pub(crate) use log_file::LogFile;
pub(in crate::session) use state::Screen;
