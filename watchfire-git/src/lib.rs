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

mod admin;
mod agent_head;
mod agent_ref;
mod agent_refs;
mod backup;
mod branches;
mod bring;
mod capture;
mod checkout;
mod command;
mod commit;
mod commit_object;
mod convert;
pub mod diff;
mod distance;
mod error;
mod failpoint;
mod files;
mod folder;
mod hidden;
mod identity;
mod ignore;
mod import;
mod index_entry;
mod index_file;
mod index_format;
mod index_trees;
pub mod init;
mod left;
mod materialize;
mod merge;
mod names;
mod new_blobs;
mod options;
mod ownership;
mod parts;
mod place;
mod private;
mod prune;
mod publish;
mod queue;
mod reach;
mod ready;
mod record;
mod recover;
mod remove;
mod repository;
mod rescue;
mod special;
mod tag_object;
mod transfer;
mod tree;
mod tree_diff;
mod tree_edit;
mod tree_merge;
mod unfinished;
mod user_checkout;
mod verify;
mod view;
mod wildmatch;
mod workspace;
mod worktree;

pub use options::{GitOptions, Identity};
pub use workspace::GitWorkspace;
