//! Erasing.

use std::ops::Range;

use crate::cells::cell::Cell;
use crate::cells::grid::Slot;
use crate::state::{Protect, State};

impl State {
    /// ED and DECSED: erases in the display.
    pub(crate) fn erase_display(&mut self, what: u16, selective: bool) {
        let (rows, cols) = (self.rows(), self.cols());
        match what {
            0 => {
                // From the corner on all of the screen goes, and with it what the last line of the scrollback went on
                // in.
                if (self.row, self.col) == (0, 0) {
                    self.detach_scrollback();
                }
                self.erase_cells(self.row, self.col..cols, selective);
                self.erase_rows(self.row + 1..rows, selective);
            }
            1 => {
                self.erase_rows(0..self.row, selective);
                self.erase_cells(self.row, 0..self.col + 1, selective);
            }
            2 => self.erase_rows(0..rows, selective),
            // xterm's own: the saved lines. The screen stays.
            3 if !selective => {
                self.history.clear();
                self.touch_all();
            }
            _ => return,
        }
        (self.wrap, self.changed) = (false, true);
    }

    /// EL and DECSEL: erases in the line.
    pub(crate) fn erase_line(&mut self, what: u16, selective: bool) {
        let cols = self.cols();
        match what {
            0 => self.erase_cells(self.row, self.col..cols, selective),
            1 => self.erase_cells(self.row, 0..self.col + 1, selective),
            2 => self.erase_cells(self.row, 0..cols, selective),
            _ => return,
        }
        self.wrap = false;
    }

    /// ECH: erases characters at the cursor.
    pub(crate) fn erase_characters(&mut self, count: usize) {
        let end = (self.col + count).min(self.cols());
        self.erase_cells(self.row, self.col..end, false);
        self.wrap = false;
    }

    fn erase_rows(&mut self, rows: Range<usize>, selective: bool) {
        if rows.contains(&0) {
            self.detach_scrollback();
        }
        if !selective {
            self.forget_images(rows.clone());
        }
        for row in rows {
            self.erase_cells(row, 0..self.cols(), selective);
            if let Some(slot) = self.grid.slot_mut(row) {
                // VT100 manual: lines that are erased completely become lines of single width.
                slot.size = 0;
                slot.flags &= !Slot::ANY_MARK;
            }
        }
    }

    /// Erases cells, but for those that are guarded.
    fn erase_cells(&mut self, row: usize, columns: Range<usize>, selective: bool) {
        self.changed = true;
        let columns = columns.start..columns.end.min(self.cols());
        if columns.end == self.cols() {
            self.grid.unwrap(row, self.stamp);
        }
        // Erased cells take the background at hand, as in xterm; terminfo calls it `bce`.
        let erased = self.blank();
        if self.protect == Protect::Iso || selective && self.protect == Protect::Dec {
            self.replace(row, columns, true, |_| erased);
        } else if columns.start == 0 && columns.end == self.cols() {
            // EL, unlike ED, leaves the size of the line. The marks of the shell stay too: prompts redraw their line
            // often.
            let Slot { size, flags, .. } = self.grid.slot(row);
            self.grid.clear_row(row, erased, self.stamp);
            if let Some(slot) = self.grid.slot_mut(row) {
                slot.size = size;
                slot.flags |= flags & Slot::ANY_MARK;
            }
        } else {
            self.grid.fill(row, columns, erased, self.stamp);
        }
    }

    /// DECSERA, in one row: erases the characters and keeps their look.
    pub(crate) fn empty_cells(&mut self, row: usize, columns: Range<usize>) {
        self.changed = true;
        if columns.end == self.cols() {
            self.grid.unwrap(row, self.stamp);
        }
        let guarded = self.protect == Protect::Dec;
        let blank = |cell: Cell| if cell.is_blank() { cell } else { cell.emptied() };
        self.replace(row, columns, guarded, blank);
    }

    fn replace(&mut self, row: usize, columns: Range<usize>, guarded: bool, blank: impl Fn(Cell) -> Cell) {
        self.grid.split(row, columns.start, self.stamp);
        self.grid.split(row, columns.end, self.stamp);
        for cell in self.grid.cells_mut(row, columns, self.stamp) {
            if !guarded || !cell.has(Cell::PROTECTED) {
                *cell = blank(*cell);
            }
        }
        if let Some(slot) = self.grid.slot_mut(row) {
            slot.flags |= Slot::RICH;
        }
    }
}
