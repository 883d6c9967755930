//! A policy as the disk has it, turned into a view for a mount namespace or into rules for Landlock alone.
//!
//! `tree` resolves links and holds what is said about each place, with the `names` that were searched for, in `listings`
//! that are kept for the next time, and the `sockets` in files that others listen on. `places` and `enumerate` are its two forms.
//! `listening` asks for the ports, and `internet` looks for what a network of its own needs.

pub(super) mod enumerate;
pub(super) mod internet;
pub(super) mod listening;
pub(super) mod listings;
pub(super) mod names;
pub(super) mod places;
pub(super) mod sockets;
pub(super) mod tree;
