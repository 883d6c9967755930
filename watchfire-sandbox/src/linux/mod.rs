//! Linux: namespaces, Landlock and seccomp, without any other program.
//!
//! `sandbox` is our side: `look` reads the disk, `plan` chooses what the helper does, `report` says what that holds. `config` is
//! what our side and `inside` say to each other. `trial` finds out what works here, `memory` remembers it; `area` is a folder for
//! layers, `copies` what stands in for one, and `kept` what outlives them; `others` are the programs that can make the view instead.

mod area;
mod config;
mod copies;
mod inside;
mod kept;
mod look;
mod memory;
mod others;
mod plan;
mod report;
mod sandbox;
mod trial;

pub use report::advice::{Way, apparmor_profile, ways_to_namespaces};
pub use sandbox::LinuxSandbox;
