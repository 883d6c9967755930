//! Kernel sandboxes for coding agents, with a report of what is enforced.
//!
//! [`sandboxes`] are those of this platform; [`base_policy()`] is what all sessions start from.

#![deny(unsafe_code)]

mod base_policy;
mod ladder;
#[cfg(target_os = "linux")]
mod linux;
mod resolve;
mod seatbelt;

pub use base_policy::base_policy;
pub use ladder::sandboxes;
#[cfg(target_os = "linux")]
pub use linux::LinuxSandbox;
pub use seatbelt::Seatbelt;
