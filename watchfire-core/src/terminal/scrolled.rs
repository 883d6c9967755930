//! Lines for a reader who follows the scrollback.

use super::Line;

/// Lines of the scrollback from a number on. See [`Terminal::scrollback_since`](super::Terminal::scrollback_since).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Scrolled {
    /// Number of lines that were asked for and are gone. They came before `lines`.
    pub gone: u64,
    /// Retained lines, oldest first. Their numbers end with `next`.
    pub lines: Vec<Line>,
    /// Number to continue from: the first row of the screen.
    pub next: u64,
}
