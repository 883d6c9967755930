//! Positions of cells that stay valid while lines scroll.

/// A cell, by the number of its row and its column.
///
/// Rows have the numbers of [`Snapshot::scrollback`](crate::terminal::Snapshot::scrollback), and the rows of the screen
/// follow its end. Ranges of places exclude their end.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// Number of the row.
    pub line: u64,
    /// Column, counted from 0.
    pub col: u16,
}

impl Place {
    /// Creates a place in column `col` of the row with number `line`.
    #[must_use]
    pub const fn new(line: u64, col: u16) -> Self {
        Self { line, col }
    }
}
