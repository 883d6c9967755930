//! Selected cells and their text.

use std::ops::Range;

use super::rows::is_blank;
use super::{Place, Rows};
use crate::terminal::Cell;

/// A set of cells that belong together.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Selection {
    /// Cells from one place to another, as text runs.
    Running(Range<Place>),
    /// A rectangle.
    #[non_exhaustive]
    Block {
        /// Numbers of its rows.
        lines: Range<u64>,
        /// Its columns.
        columns: Range<u16>,
    },
}

impl Selection {
    /// Returns [`Block`](Self::Block).
    #[must_use]
    pub fn block(lines: Range<u64>, columns: Range<u16>) -> Self {
        Self::Block { lines, columns }
    }
}

impl From<Range<Place>> for Selection {
    fn from(range: Range<Place>) -> Self {
        Self::Running(range)
    }
}

/// The selected cells of one row.
#[derive(Debug)]
pub(super) struct Selected<'a, 'b> {
    /// True if a new line begins before it.
    pub(super) breaks: bool,
    pub(super) cells: &'b [Cell<'a>],
    /// Blank cells at the end of the line, which are no part of its text.
    pub(super) tail: &'b [Cell<'a>],
}

impl Rows {
    /// Returns the text of the selected cells, with a line feed between lines.
    ///
    /// Rows that were wrapped are joined, and blanks at the end of a line are cut. A block has one line for each of its
    /// rows, and a blank for each half of a wide character that it contains without the other.
    #[must_use]
    pub fn text(&self, selection: impl Into<Selection>) -> String {
        let mut text = String::new();
        self.for_each_selected(&selection.into(), |row| {
            if row.breaks {
                text.push('\n');
            }
            text.extend(row.cells.iter().map(|cell| cell.text));
        });
        text
    }

    pub(super) fn for_each_selected<'a>(&'a self, selection: &Selection, see: impl FnMut(Selected<'a, '_>)) {
        match selection {
            Selection::Running(range) => self.for_each_running(range, see),
            Selection::Block { lines, columns } => self.for_each_in_block(lines, columns, see),
        }
    }

    fn for_each_running<'a>(&'a self, range: &Range<Place>, mut see: impl FnMut(Selected<'a, '_>)) {
        let (numbers, mut cells) = (self.numbers(), Vec::new());
        let first = range.start.line.max(numbers.start);
        let (mut line, mut end) = (0..0, Place::default());
        for number in first..numbers.end.min(range.end.line.saturating_add(1)) {
            if !line.contains(&number) {
                line = self.line_of(number);
                end = self.content_end(&line);
            }
            cells.clear();
            let selected = self.cells(number).filter(|(col, cell)| {
                let after = Place::new(number, col.saturating_add(cell.width));
                after > range.start && Place::new(number, *col) < range.end
            });
            let mut shown = 0;
            for (col, cell) in selected {
                shown += usize::from(Place::new(number, col) < end);
                cells.push(cell);
            }
            let (cells, tail) = cells.split_at(shown);
            see(Selected { breaks: number > first && number == line.start, cells, tail });
        }
    }

    fn for_each_in_block<'a>(
        &'a self,
        lines: &Range<u64>,
        columns: &Range<u16>,
        mut see: impl FnMut(Selected<'a, '_>),
    ) {
        let (numbers, mut cells) = (self.numbers(), Vec::new());
        let first = lines.start.max(numbers.start);
        for number in first..numbers.end.min(lines.end) {
            cells.clear();
            for (col, cell) in self.cells(number) {
                let end = col.saturating_add(cell.width);
                let inside = end.min(columns.end).saturating_sub(col.max(columns.start));
                if inside == cell.width {
                    cells.push(cell);
                } else if inside > 0 {
                    // Half a character cannot be shown, but has to keep its place.
                    cells.push(Cell { text: " ", width: inside, ..cell });
                }
            }
            let shown = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
            let (cells, tail) = cells.split_at(shown);
            see(Selected { breaks: number > first, cells, tail });
        }
    }
}
