//! What an agent is told: the composer.
//!
//! [`compose()`] turns a [`PromptContext`] into [`Composed`]: a system prompt made of named sections, each between tags
//! of its name, and the short line that starts the work. Pure: the same context gives the same text.
//!
//! Three kinds of text meet in a prompt, and are kept apart:
//! - our own words and the instructions of the person (`secrets/instructions.md`, the task, the project's definition);
//! - data that only informs: the memory of earlier sessions, output of commands, conflicting hunks;
//! - names and paths.
//!
//! None of the last two, and not the task either, can end the section that it stands in: see [`neutralise`].

mod blocks;
mod compose;
mod context;
pub(crate) mod escape;

pub use compose::{Composed, Section, compose};
pub use context::{Assignment, PreviousAttempt, PromptContext, SessionPaths, Setback};
pub use escape::{neutralise, one_line};
