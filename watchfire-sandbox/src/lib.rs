//! Kernel sandboxes for coding agents, with a report of what is enforced.
//!
//! [`sandboxes`] are those of this platform; [`base_policy()`] is what all sessions start from, and [`ask()`]
//! says what a policy means for one path.

#![deny(unsafe_code)]

mod ask;
mod base_policy;
mod ladder;
#[cfg(target_os = "linux")]
mod linux;
mod resolve;
mod seatbelt;

pub use ask::{Answer, ask};
pub use base_policy::base_policy;
pub use ladder::{sandboxes, sandboxes_remembering};
#[cfg(target_os = "linux")]
pub use linux::{LinuxSandbox, Way, apparmor_profile, ways_to_namespaces};
pub use seatbelt::Seatbelt;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
