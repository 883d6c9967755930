//! Text of a line that was wrapped, and the cells that its bytes are in.

use std::ops::Range;

use super::{Place, Rows};

/// Text of consecutive rows, joined.
#[derive(Debug)]
pub(super) struct Joined<'a> {
    rows: &'a Rows,
    first: u64,
    /// Byte at which the text of each row begins.
    starts: Vec<usize>,
    pub(super) text: String,
}

impl<'a> Joined<'a> {
    /// Joins the rows in `range`; without trailing blanks if they are the end of their line.
    pub(super) fn new(rows: &'a Rows, range: &Range<u64>, ends: bool) -> Self {
        let (mut text, mut starts) = (String::new(), Vec::new());
        for line in range.clone().map_while(|number| rows.row(number)) {
            starts.push(text.len());
            text.push_str(line.text());
        }
        if ends {
            text.truncate(text.trim_end_matches(' ').len());
        }
        Self { rows, first: range.start, starts, text }
    }

    /// Returns the byte at which the cell at `place` begins. Places before and behind the rows are clamped.
    pub(super) fn byte(&self, place: Place) -> usize {
        let Some(index) = place.line.checked_sub(self.first) else { return 0 };
        let start = usize::try_from(index).ok().and_then(|index| self.starts.get(index));
        let Some(start) = start else { return self.text.len() };
        let before = self
            .rows
            .cells(place.line)
            .take_while(|(col, cell)| u32::from(*col) + u32::from(cell.width) <= u32::from(place.col));
        (start + before.map(|(_, cell)| cell.text.len()).sum::<usize>()).min(self.text.len())
    }

    /// Returns the cells that a part of the text is in, whole ones.
    pub(super) fn places(&self, bytes: &Range<usize>) -> Range<Place> {
        let (start, _) = self.cell(bytes.start);
        let (last, width) = self.cell(bytes.end.saturating_sub(1));
        start..Place::new(last.line, last.col.saturating_add(width))
    }

    /// Returns the cell that a byte belongs to, and its width.
    fn cell(&self, byte: usize) -> (Place, u16) {
        let row = self.starts.partition_point(|start| *start <= byte).saturating_sub(1);
        let (number, mut end) = (self.first + row as u64, self.starts.get(row).copied().unwrap_or(0));
        let found = self.rows.cells(number).find(|(_, cell)| {
            end += cell.text.len();
            byte < end
        });
        found.map_or((Place::new(number, 0), 0), |(col, cell)| (Place::new(number, col), cell.width))
    }
}
