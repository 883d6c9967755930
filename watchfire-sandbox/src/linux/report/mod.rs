//! Texts for people: the facts of a plan, its first sentence, and advice for machines that lack something.

pub(super) mod advice;
pub(super) mod facts;
pub(super) mod summary;
