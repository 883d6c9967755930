//! The output of an agent: read once, shown on its terminal, logged, followed by readers, and searched for signs of
//! its state.

mod attach;
mod follower;
mod log_file;
pub(in crate::session) mod pump;
mod state;
#[cfg(test)]
mod tests;

pub use attach::{AttachRequest, Attachment, ScreenChange, ScreenUpdate};
pub(crate) use log_file::LogFile;
pub(crate) use pump::Sinks;
pub(in crate::session) use state::Screen;
