//! Git worktrees and merges that never lose work: the [`Workspace`](watchfire_core::workspace::Workspace) on a
//! repository.
//!
//! [`GitWorkspace`] is the implementation; [`init`] makes a folder ready for it. What it promises, and how, is in
//! `docs/data-safety.md`.
//!
//! Everything here works on objects, references and files directly, through libgit2's object database. A folder in
//! which an agent worked is never opened as a repository: it is read as plain files, and compared with trees.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod branches;
mod command;
pub mod diff;
mod error;
mod failpoint;
mod files;
mod identity;
mod index;
pub mod init;
mod merge;
mod names;
mod options;
mod parts;
mod private;
mod publish;
mod repository;
mod workspace;
mod worktree;

pub use options::{GitOptions, Identity};
pub use workspace::GitWorkspace;
