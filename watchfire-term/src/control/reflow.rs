//! Another size: lines that were wrapped are joined and wrapped again, and the cursor stays where it was in them.

use crate::cells::cell::Cell;
use crate::cells::grid::{Grid, Slot};
use crate::cells::history::split_row;
use crate::state::State;
use crate::state::modes::Mode;

/// A line as it was written, independent of the rows it took.
#[derive(Debug, Default)]
struct Logical {
    cells: Vec<Cell>,
    size: u8,
    marks: u8,
    /// It goes on beyond the rows that were looked at.
    open: bool,
}

/// A place in logical lines.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    line: usize,
    cell: usize,
}

/// A row of the new screen.
#[derive(Debug)]
struct Row {
    cells: Vec<Cell>,
    wrapped: bool,
    size: u8,
    marks: u8,
}

impl State {
    /// Changes the size of both screens. The alternate one is cut or extended; the other reflows.
    pub(crate) fn resize(&mut self, cols: usize, rows: usize) {
        let (cols, rows) = (cols.max(1), rows.max(1));
        if (cols, rows) == (self.cols(), self.rows()) {
            return;
        }
        let end = self.history.numbers().end;
        self.tabs.resize(cols);
        // A frame that is held has the old size. The child paints anew after its signal (SIGWINCH), so what is there
        // is shown until then.
        self.frozen = None;
        self.synchronized_at = None;
        if self.alternate {
            let main = self.other.take().unwrap_or_else(|| Grid::new(cols, rows));
            let alternate = std::mem::replace(&mut self.grid, main);
            // While it is hidden, the main screen's cursor is the one that was saved on the way to the alternate
            // screen.
            let [saved, _] = self.saved;
            let (row, col) = self.reflow(cols, rows, saved.row, saved.col);
            let [saved, _] = &mut self.saved;
            (saved.row, saved.col) = (row, col);
            let top = (self.row + 1).saturating_sub(rows);
            // Programs paint the alternate screen by places, not by lines. To wrap it anew would tear it, and they
            // repaint it anyway.
            let cut = self.cut(&alternate, cols, rows, top);
            self.other = Some(std::mem::replace(&mut self.grid, cut));
            self.row -= top.min(self.row);
        } else {
            let wrap = self.wrap;
            // With the last column written the cursor is behind it.
            let col = self.col + usize::from(wrap);
            (self.row, self.col) = self.reflow(cols, rows, self.row, col);
            self.other = None;
        }
        self.wrap = false;
        self.row = self.row.min(rows - 1);
        if self.col >= cols {
            (self.col, self.wrap) = (cols - 1, self.col == cols);
        }
        // xterm resets the margins as well. Those of another size have no meaning.
        self.margins = crate::state::Margins { top: 0, bottom: rows, left: 0, right: cols };
        for saved in &mut self.saved {
            (saved.row, saved.col, saved.wrap) = (saved.row.min(rows - 1), saved.col.min(cols - 1), false);
        }
        self.joining = false;
        self.history.renumber(end);
        // Their lines have other numbers now, and how much of a line an image covered is not known.
        self.images.retain(|_| false);
        self.touch_all();
        if self.on(Mode::InBandResize) {
            self.report_size();
        }
    }

    /// Changes the size of the main screen, which must be in use, and returns the new position of the cursor.
    fn reflow(&mut self, cols: usize, rows: usize, row: usize, col: usize) -> (usize, usize) {
        let old_rows = self.grid.rows();
        let same_width = self.grid.cols() == cols;
        let row = row.min(old_rows - 1);
        // Blank rows below the text and the cursor belong to no line, and must not push lines into the scrollback.
        let used = (0..old_rows).rev().find(|row| self.grid.row(*row).iter().any(|cell| !cell.is_blank()));
        let end = used.map_or(0, |row| row + 1).max(row + 1);
        let (mut lines, mut cursor) = self.logical_lines(end, row, col);
        // The line that the screen begins in began above it.
        // A line keeps its place in the count also if its head scrolled off: head and rest are wrapped as one.
        if self.history.is_open()
            && let Some((mut head, _, marks)) = self.history.pop(&mut self.clusters)
        {
            if cursor.line == 0 {
                cursor.cell += head.len();
            }
            if let Some(first) = lines.first_mut() {
                head.append(&mut first.cells);
                first.cells = head;
                first.marks |= marks;
            }
        }
        if !same_width {
            self.history.set_cols(cols);
        }
        let (mut laid, mut at) = lay_out(&lines, cols, cursor);
        // Room above is filled with what scrolled off, as long as there is any.
        let (below, mut above) = (laid.len(), Vec::new());
        while below + above.len() < rows && self.history.rows() > 0 {
            // Whole lines come back, because half of one would be wrapped differently from its other half.
            let Some((cells, open, marks)) = self.history.pop(&mut self.clusters) else { break };
            let line = Logical { cells, size: 0, marks, open };
            above.extend(lay_out(&[line], cols, Place { line: 9, cell: 0 }).0.into_iter().rev());
        }
        at.0 += above.len();
        laid.splice(..0, above.into_iter().rev());
        // What is too much leaves at the top, but for the row of the cursor.
        let surplus = laid.len().saturating_sub(rows).min(at.0);
        for row in laid.drain(..surplus) {
            let mut cells = &row.cells[..];
            while let [rest @ .., last] = cells
                && !row.wrapped
                && last.is_blank()
            {
                cells = rest;
            }
            self.history.push(cells, row.wrapped, row.marks, false, &self.clusters);
        }
        let mut grid = Grid::new(cols, rows);
        for (index, row) in laid.iter().take(rows).enumerate() {
            // What it would go on in is cut off below the last row.
            let flags = if row.wrapped && index + 1 < rows { Slot::WRAPPED } else { 0 };
            grid.set_row(index, &row.cells, flags | row.marks, row.size, self.stamp);
        }
        self.grid = grid;
        (at.0 - surplus, at.1)
    }

    fn logical_lines(&self, end: usize, row: usize, col: usize) -> (Vec<Logical>, Place) {
        let (mut lines, mut cursor) = (Vec::new(), Place::default());
        let mut line = Logical::default();
        for index in 0..end {
            let slot = self.grid.slot(index);
            let mut cells = self.grid.row(index);
            // Rows of another size are no part of a line.
            let plain = slot.size == 0 && (index + 1 >= end || self.grid.slot(index + 1).size == 0);
            let wrapped = slot.flags & Slot::WRAPPED != 0 && cells.len() == self.grid.cols() && plain;
            if let [rest @ .., last] = cells
                && last.has(Cell::FILLER)
            {
                cells = rest;
            }
            // Before the blanks go: the cursor may stand among them.
            if index == row {
                cursor = Place { line: lines.len(), cell: line.cells.len() + col };
            }
            while let [rest @ .., last] = cells
                && !wrapped
                && last.is_blank()
            {
                cells = rest;
            }
            line.cells.extend_from_slice(cells);
            line.size = slot.size;
            line.marks |= slot.flags & Slot::ANY_MARK;
            line.open = wrapped;
            if !wrapped {
                lines.push(std::mem::take(&mut line));
            }
        }
        if line.open {
            lines.push(line);
        }
        (lines, cursor)
    }

    fn cut(&self, old: &Grid, cols: usize, rows: usize, top: usize) -> Grid {
        let mut grid = Grid::new(cols, rows);
        for row in 0..rows.min(old.rows().saturating_sub(top)) {
            let (cells, _) = split_row(old.row(row + top), cols);
            let slot = old.slot(row + top);
            // A row that was cut or extended does not end where it wrapped.
            let flags = if cols == old.cols() && row + 1 < rows { slot.flags & Slot::WRAPPED } else { 0 };
            grid.set_row(row, cells, flags, slot.size, self.stamp);
            empty_half(&mut grid, row, self.stamp);
        }
        grid
    }
}

/// Lays out lines in rows, and returns them with the new position of the cursor.
fn lay_out(lines: &[Logical], cols: usize, cursor: Place) -> (Vec<Row>, (usize, usize)) {
    let (mut rows, mut at) = (Vec::new(), (0, 0));
    for (index, line) in lines.iter().enumerate() {
        let (mut rest, mut done) = (&line.cells[..], 0);
        loop {
            let (head, tail) = if line.size == 0 { split_row(rest, cols) } else { (rest, &[][..]) };
            // Every row of the line may be the one with the cursor. The last one that begins before it is.
            if index == cursor.line && cursor.cell >= done {
                let col = cursor.cell - done;
                at = (rows.len(), col.min(cols));
            }
            let taken = rest.len() - tail.len();
            done += taken;
            let wrapped = !tail.is_empty() || line.open && head.len() == cols;
            let mut cells: Vec<Cell> = head.iter().take(cols).copied().collect();
            // No left half without the right: of what is cut, or on a screen of one column.
            if let Some(last) = cells.get_mut(cols - 1).filter(|last| last.has(Cell::WIDE)) {
                *last = last.emptied();
            }
            if !tail.is_empty() && cells.len() < cols {
                cells.resize(cols, Cell::BLANK.with(Cell::FILLER));
            } else if wrapped
                && let Some(last) = cells.last_mut()
                && last.is_empty()
                && !last.has(Cell::SPACER | Cell::FILLER)
            {
                // Only a row that was written to its end goes on in the next.
                *last = last.emptied();
            }
            let marks = if done == taken { line.marks } else { 0 };
            rows.push(Row { cells, wrapped, size: line.size, marks });
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
    }
    (rows, at)
}

/// Empties a left half without its right one.
fn empty_half(grid: &mut Grid, row: usize, stamp: u64) {
    let last = grid.cols() - 1;
    if grid.cell(row, last).has(Cell::WIDE) {
        for cell in grid.cells_mut(row, last..last + 1, stamp) {
            *cell = cell.emptied();
        }
    }
}
