//! Git worktrees and merges that never lose work: the [`Workspace`](watchfire_core::workspace::Workspace) on
//! a repository.
//!
//! [`GitWorkspace`] is the implementation; [`init`] makes a folder ready for it. What it promises, and how,
//! is in `docs/data-safety.md`.
//!
//! The crate works on objects, references and files directly, through libgit2's object database. It never
//! opens a folder in which an agent worked as a repository: it reads such a folder as plain files and
//! compares them with trees.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod branches;
mod command;
pub mod diff;
mod earlier;
mod error;
mod failpoint;
mod files;
mod guest;
mod identity;
mod index;
pub mod init;
mod joint;
mod merge;
mod names;
mod objects;
mod options;
mod parts;
mod plain;
mod private;
mod publish;
mod repository;
mod workspace;
mod worktree;

pub use joint::JointWorkspace;
pub use options::{GitOptions, Identity};
pub use workspace::GitWorkspace;
