//! Linux: namespaces, Landlock and seccomp, without any other program.
//!
//! `tree` is the policy as the disk has it, with the `names` that were searched for, in `listings` that are kept for the next time. `places` turns it into a view for a
//! mount namespace, `enumerate` into rules for Landlock alone; `plan` chooses, with the `facts` that the report is made
//! of. `sandbox` is our side; `helper` runs in the child, over `namespaces`, `mounts`, `keeper`, `capabilities`, `landlock` and
//! `seccomp`; `config` is what the two say to each other. `trial` finds out what works here, `memory` remembers it. `bwrap` lets that
//! program make the view instead; `birdcage` is another sandbox, in a program of its own.

mod advice;
mod area;
mod birdcage;
mod bwrap;
mod capabilities;
mod config;
mod enumerate;
mod facts;
mod helper;
mod keeper;
mod landlock;
mod layers;
mod listings;
mod memory;
mod mounts;
mod names;
mod namespaces;
mod places;
mod plan;
mod sandbox;
mod seccomp;
mod sockets;
mod summary;
mod sys;
mod tree;
mod trial;

pub use advice::{Way, apparmor_profile, ways_to_namespaces};
pub use sandbox::LinuxSandbox;
