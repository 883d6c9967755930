//! Texts for people: the facts of a plan, its first sentence, and advice for machines that lack something.
//!
//! The controls of a report differ by what makes the view; each has its file.

pub(super) mod advice;
mod birdcage;
pub(super) mod facts;
mod landlock_alone;
mod namespaces;
mod remarks;
pub(super) mod summary;
