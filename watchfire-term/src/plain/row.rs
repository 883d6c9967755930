//! A row of text that is written over.

use std::ops::Range;

use crate::cells::width::Widths;

/// Stands for the columns that a wide character or a tab covers besides its first.
const COVERED: char = '\0';
const TAB: usize = 8;
/// More columns than any program needs.
const LONGEST: usize = 1 << 16;
/// Marks on one character; text that overdoes it would only hide something.
const MOST_MARKS: usize = 32;

/// One row: a character per column, and what combines with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    cells: Vec<char>,
    /// In the order of the columns.
    marks: Vec<(usize, String)>,
}

impl Row {
    /// Writes a character at `col`; the column after it.
    pub(super) fn put(&mut self, col: usize, c: char) -> usize {
        let columns = Widths::table().of(c).columns();
        if columns == 0 {
            self.mark(col, c);
            return col;
        }
        // A cursor sent far to the right must not make a row of blanks of any length.
        if col + columns > LONGEST {
            return col;
        }
        if self.cells.len() < col {
            self.cells.resize(col, ' ');
        }
        self.unmark(col..col + columns);
        for at in col..col + columns {
            self.uncover(at);
            let c = if at == col { c } else { COVERED };
            match self.cells.get_mut(at) {
                Some(cell) => *cell = c,
                None => self.cells.push(c),
            }
        }
        col + columns
    }

    /// Writes a tab at the end of the row; over text it only moves. Returns the column after it.
    pub(super) fn tab(&mut self, col: usize) -> usize {
        let next = (col / TAB + 1) * TAB;
        // Over text, a tab is a movement. At the end, it is the only sign of the room that it made.
        if col >= self.cells.len() && next <= LONGEST {
            self.cells.resize(col, ' ');
            self.cells.push('\t');
            self.cells.resize(next, COVERED);
        }
        next.min(LONGEST)
    }

    fn mark(&mut self, col: usize, c: char) {
        let before = self.cells.get(..col.min(self.cells.len())).unwrap_or(&[]);
        if let Some(at) = before.iter().rposition(|c| *c != COVERED) {
            let place = self.marks.partition_point(|(col, _)| *col < at);
            match self.marks.get_mut(place).filter(|(col, _)| *col == at) {
                Some((_, marks)) if marks.len() < MOST_MARKS => marks.push(c),
                Some(_) => {}
                None => self.marks.insert(place, (at, c.into())),
            }
        }
    }

    /// Replaces a character of several columns that covers `col` by blanks.
    fn uncover(&mut self, col: usize) {
        let covered = |row: &Self, col: usize| row.cells.get(col) == Some(&COVERED);
        if !covered(self, col) && !covered(self, col + 1) {
            return;
        }
        // From the first column of the character to its last: what is left of it would be a different text.
        let mut start = col;
        while start > 0 && covered(self, start) {
            start -= 1;
        }
        let mut end = col + 1;
        while covered(self, end) {
            end += 1;
        }
        if let Some(cells) = self.cells.get_mut(start..end) {
            cells.fill(' ');
        }
        self.unmark(start..end);
    }

    /// Blanks the columns from `start` to `end`.
    pub(super) fn erase(&mut self, start: usize, end: usize) {
        if end >= self.cells.len() {
            self.uncover(start);
            self.cells.truncate(start);
            self.unmark(start..usize::MAX);
            return;
        }
        for col in start..end {
            self.put(col, ' ');
        }
    }

    /// Takes out `count` columns at `col`.
    pub(super) fn delete(&mut self, col: usize, count: usize) {
        let end = (col + count).min(self.cells.len());
        if col < end {
            self.uncover(col);
            self.uncover(end);
            self.cells.drain(col..end);
            self.unmark(col..end);
            // Marks move with what they stand on.
            self.move_marks(end, col as isize - end as isize);
        }
    }

    /// Puts `count` blanks in at `col`.
    pub(super) fn insert(&mut self, col: usize, count: usize) {
        if col < self.cells.len() && self.cells.len() + count <= LONGEST {
            self.uncover(col);
            self.cells.splice(col..col, std::iter::repeat_n(' ', count));
            self.move_marks(col, count as isize);
        }
    }

    fn move_marks(&mut self, from: usize, by: isize) {
        // Marks are sorted by column, so all behind the place move as one.
        let from = self.marks.partition_point(|(at, _)| *at < from);
        for (at, _) in self.marks.get_mut(from..).unwrap_or(&mut []) {
            *at = at.saturating_add_signed(by);
        }
    }

    /// Forgets what combines with the characters in these columns.
    fn unmark(&mut self, columns: Range<usize>) {
        let place = |col: usize| self.marks.partition_point(|(at, _)| *at < col);
        self.marks.drain(place(columns.start)..place(columns.end));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.iter().all(|c| *c == ' ' || *c == COVERED)
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::with_capacity(self.cells.len());
        let mut marks = self.marks.iter().peekable();
        for (col, c) in self.cells.iter().enumerate().filter(|(_, c)| **c != COVERED) {
            text.push(*c);
            if let Some((_, marks)) = marks.next_if(|(at, _)| *at == col) {
                text.push_str(marks);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        let mut row = Row::default();
        let _ = text.chars().fold(0, |col, c| if c == '\t' { row.tab(col) } else { row.put(col, c) });
        row
    }

    #[test]
    fn text_is_written_over_by_columns() {
        let mut line = row("a漢\tbe\u{301}");
        assert_eq!(line.text(), "a漢\tbe\u{301}");
        line.put(2, 'x');
        assert_eq!(line.text(), "a x\tbe\u{301}");
        line.put(5, 'y');
        assert_eq!(line.text(), "a x  y  be\u{301}");
        line.erase(3, 99);
        assert_eq!(line.text(), "a x");
    }

    #[test]
    fn columns_come_and_go() {
        let mut line = row("abcdef");
        line.delete(1, 2);
        line.insert(2, 1);
        assert_eq!(line.text(), "ad ef");
        line.put(9, '!');
        assert_eq!(line.text(), "ad ef    !");
    }
}
