//! Our program in the child, which confines itself and becomes the command.
//!
//! `helper` goes through the steps: `namespaces`, `mounts` with their `layers`, the `keeper` of covers, `capabilities`,
//! `landlock` and `seccomp`; `internet` gives the program a network of its own. `sys` holds calls that no safe crate offers.

pub(super) mod capabilities;
pub(super) mod helper;
pub(super) mod internet;
pub(super) mod keeper;
pub(super) mod landlock;
pub(super) mod layers;
pub(super) mod mounts;
pub(super) mod namespaces;
pub(super) mod seccomp;
pub(super) mod sys;
