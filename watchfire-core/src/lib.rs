//! Run coding agents on task files, from your own program.
//!
//! This crate holds the seams, the domain model and the in-process orchestrator. It names no agent, no sandbox, no git:
//! those are crates of their own (`watchfire-backends`, `watchfire-sandbox`, `watchfire-git`, `watchfire-term`), or yours.
//!
//! # The tour
//!
//! - [`orchestrator::Orchestrator`] is where embedders begin: open a project, run its tasks, watch, shut down.
//! - [`session::Session`] is one run of one agent: type into it, read its screen and its record log, end it.
//! - The five seams, each a folder with the trait, its guarantees written both ways, a reference implementation that
//!   needs nothing, and (feature `testing`) a conformance suite:
//!   [`backend::Backend`] (an agent), [`sandbox::Sandbox`] (the enforcement of its access rights), [`store::TaskStore`]
//!   (the tasks), [`terminal::Terminal`] (its screen), [`workspace::Workspace`] (its working folder, and the way its work
//!   comes back).
//! - [`model`] is plain data: the content of the files. [`schedule`] and the fold of the [`journal`] are pure.
//! - [`process::helper::run_if_asked`] belongs first in your `main`: guardians, sandboxes and hooks are your own program,
//!   started again in another role.
//!
//! # Features
//!
//! `default = ["orchestrator"]`. `seams` alone is model, seams, schedule and the journal's fold, on serde and thiserror, with
//! no tokio, no git and no watcher. `runtime` adds processes, sessions, observation and the journal; `yaml` the store on
//! files, on top of it; `orchestrator` itself, on top of both. `search` adds the search in [`terminal::text`], `serde` its
//! snapshots in any format, `testing` the conformance suites and fakes. Without any there is [`terminal`], which needs no other crate.
//!
//! # Errors
//!
//! Everything fails with one [`Error`]: a kind with a stable [`code`](Error::code), a message for people, named facts and
//! the source.

#![deny(unsafe_code)]
// On docs.rs each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Most rooms serve the orchestrator.
#![cfg_attr(
    not(feature = "orchestrator"),
    allow(dead_code, unused_imports, reason = "without it they are unused")
)]

mod error;

#[cfg(feature = "seams")]
pub mod backend;
#[cfg(feature = "seams")]
pub mod clock;
#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "runtime")]
pub mod endpoint;
#[cfg(feature = "orchestrator")]
mod failpoint;
#[cfg(feature = "runtime")]
pub mod files;
#[cfg(feature = "seams")]
pub mod inquiry;
#[cfg(feature = "seams")]
pub mod journal;
#[cfg(feature = "seams")]
pub mod model;
#[cfg(feature = "runtime")]
pub mod observe;
#[cfg(feature = "orchestrator")]
pub mod orchestrator;
#[cfg(feature = "seams")]
pub mod process;
#[cfg(feature = "seams")]
mod prompt;
#[cfg(feature = "seams")]
pub mod sandbox;
#[cfg(feature = "seams")]
pub mod schedule;
#[cfg(feature = "runtime")]
pub mod session;
#[cfg(feature = "seams")]
pub mod store;
pub mod terminal;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "seams")]
pub mod workspace;

/// The macro that implementations of the asynchronous seams need. Their methods return boxed futures, so that a seam can be a
/// `dyn` one; native `async fn` in traits cannot yet.
#[cfg(feature = "seams")]
pub use async_trait::async_trait;
pub use error::{Error, ErrorKind, Result};
