//! Composition of prompts.
//!
//! `compose` turns a `PromptContext` into a `Prompt`: a system prompt of named sections, each between tags of its
//! name, and a short line that starts the work. It is pure: the same context gives the same text.
//!
//! A prompt mixes three kinds of text:
//! - instructions: Watchfire's own blocks, the user's `secrets/instructions.md`, the task, the project's definition;
//! - data that only informs: memory of earlier sessions, output of commands, conflicting hunks, what other agents say;
//! - names and paths.
//!
//! Everything but Watchfire's own blocks passes through `neutralise`, so that no text can close its section and pose
//! as another one.

mod blocks;
mod compose;
mod context;
pub(crate) mod escape;
#[cfg(feature = "orchestrator")]
mod peers;

#[cfg(feature = "orchestrator")]
pub(crate) use compose::compose;
#[cfg(feature = "orchestrator")]
pub(crate) use context::{
    Assignment, Commands, OtherFolder, PreviousAttempt, PromptContext, SessionPaths, Setback,
};
#[cfg(feature = "orchestrator")]
pub(crate) use peers::{asked, ended};
