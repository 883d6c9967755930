//! Scrolling, whole rows and between margins.

use crate::cells::cell::Cell;
use crate::cells::clusters::Clusters;
use crate::cells::grid::Slot;
use crate::cells::history::History;
use crate::state::State;

impl State {
    fn is_full_width(&self) -> bool {
        self.margins.left == 0 && self.margins.right == self.cols()
    }

    /// Moves the rows between the margins up. Rows that leave the top of the screen go to the scrollback.
    pub(crate) fn scroll_up(&mut self, count: usize) {
        let (top, bottom) = (self.margins.top, self.margins.bottom);
        let count = count.min(bottom - top);
        // Only rows that leave the top of the whole screen were lines of it. What leaves a smaller region is lost, as
        // in xterm, and the alternate screen has no scrollback.
        if top == 0 && self.is_full_width() && !self.alternate {
            for row in 0..count {
                let (slot, cells) = (self.grid.slot(row), self.grid.row(row));
                retire(&mut self.history, &self.clusters, slot, cells, self.grid.cols());
            }
        }
        self.rows_up(top, bottom, count);
    }

    /// Moves them up by one row, which is the most frequent scroll.
    pub(crate) fn scroll_line(&mut self) {
        if !self.is_full_width() {
            return self.scroll_up(1);
        }
        self.changed = true;
        let (blank, cols, margins) = (self.blank(), self.cols(), self.margins);
        // A region that begins in the first row still feeds the scrollback: programs with a status line at the bottom
        // scroll so.
        let kept = margins.top == 0 && !self.alternate;
        let (history, clusters) = (&mut self.history, &self.clusters);
        self.grid.turn(margins.top..margins.bottom, blank, self.stamp, |slot, cells| {
            if kept {
                retire(history, clusters, slot, cells, cols);
            }
        });
    }

    /// Moves the rows between the margins down.
    pub(crate) fn scroll_down(&mut self, count: usize) {
        self.rows_down(self.margins.top, self.margins.bottom, count);
    }

    /// Moves the rows from `top` to `bottom`, between the left and right margins, up.
    pub(crate) fn rows_up(&mut self, top: usize, bottom: usize, count: usize) {
        self.changed = true;
        let count = count.min(bottom.saturating_sub(top));
        if self.is_full_width() {
            let blank = self.blank();
            self.grid.scroll_up(top..bottom, count, blank, self.stamp);
            return;
        }
        // Between side margins only columns move, so rows cannot just get other numbers. From the top down, so that
        // each is read before it is written.
        for row in top..bottom {
            self.replace_columns(row, (row + count < bottom).then_some(row + count));
        }
    }

    /// Moves the same rows down.
    pub(crate) fn rows_down(&mut self, top: usize, bottom: usize, count: usize) {
        self.changed = true;
        let count = count.min(bottom.saturating_sub(top));
        if self.is_full_width() {
            // Another row comes first on the screen now, which the last line of the scrollback does not go on in.
            if top == 0 {
                self.detach_scrollback();
            }
            let blank = self.blank();
            self.grid.scroll_down(top..bottom, count, blank, self.stamp);
            return;
        }
        // From the bottom up, for the same reason as in `rows_up`.
        for row in (top..bottom).rev() {
            self.replace_columns(row, row.checked_sub(count).filter(|from| *from >= top));
        }
    }

    /// Ends the last line of the scrollback, which went on in the first row: that is another one now.
    pub(crate) fn detach_scrollback(&mut self) {
        // What is above the alternate screen goes on in the main one.
        if !self.alternate {
            self.history.end_line();
        }
    }

    /// Replaces the columns between the margins by the same columns of another row, or by blanks.
    fn replace_columns(&mut self, row: usize, from: Option<usize>) {
        let (columns, blank) = (self.margins.left..self.margins.right, self.blank());
        match from {
            Some(from) if from == row => {}
            Some(from) => self.grid.copy_columns(from, row, columns, self.stamp),
            None => self.grid.fill(row, columns, blank, self.stamp),
        }
        // With columns of another row it is no longer the text that wrapped.
        self.grid.unwrap(row, self.stamp);
    }

    /// SL and SR, DECIC and DECDC, DECFI and DECBI: moves columns from `col` to the right margin sideways, in all
    /// rows inside the margins.
    pub(crate) fn columns_left(&mut self, col: usize, count: usize) {
        for row in self.margins.top..self.margins.bottom {
            self.shift_left(row, col, self.margins.right, count);
        }
    }

    /// Moves the same columns to the right.
    pub(crate) fn columns_right(&mut self, col: usize, count: usize) {
        for row in self.margins.top..self.margins.bottom {
            self.shift_right(row, col, self.margins.right, count);
        }
    }

    /// Removes `count` cells at `col`; blanks come in before `end`.
    pub(crate) fn shift_left(&mut self, row: usize, col: usize, end: usize, count: usize) {
        self.changed = true;
        let count = count.min(end.saturating_sub(col));
        let stamp = self.stamp;
        self.grid.split(row, col, stamp);
        self.grid.split(row, col + count, stamp);
        self.grid.split(row, end, stamp);
        // Beyond the length of the row there are only blanks, which look the same wherever they are moved.
        if self.grid.row(row).len() <= col {
            return;
        }
        self.grid.cells_mut(row, col..end, stamp).rotate_left(count);
        let blank = self.blank();
        self.grid.fill(row, end - count..end, blank, stamp);
        self.grid.unwrap(row, self.stamp);
    }

    /// Inserts `count` blanks at `col`; what passes `end` is lost.
    pub(crate) fn shift_right(&mut self, row: usize, col: usize, end: usize, count: usize) {
        self.changed = true;
        let count = count.min(end.saturating_sub(col));
        let stamp = self.stamp;
        self.grid.split(row, col, stamp);
        // A wide character across this column would leave one half in the row and lose the other.
        self.grid.split(row, end - count, stamp);
        self.grid.split(row, end, stamp);
        if self.grid.row(row).len() > col {
            self.grid.cells_mut(row, col..end, stamp).rotate_right(count);
            // What came round is lost; it must not heal against its new neighbours.
            for cell in self.grid.cells_mut(row, col..col + count, stamp) {
                *cell = Cell::BLANK;
            }
        }
        let blank = self.blank();
        self.grid.fill(row, col..col + count, blank, stamp);
        self.grid.unwrap(row, self.stamp);
    }
}

/// Appends a row of the screen to the scrollback.
#[inline(always)]
fn retire(history: &mut History, clusters: &Clusters, slot: Slot, mut cells: &[Cell], cols: usize) {
    let wrapped = slot.flags & Slot::WRAPPED != 0 && cells.len() == cols;
    if !wrapped {
        while let [rest @ .., last] = cells
            && last.is_blank()
        {
            cells = rest;
        }
    }
    history.push(cells, wrapped, slot.flags & Slot::ANY_MARK, slot.flags & Slot::RICH == 0, clusters);
}
