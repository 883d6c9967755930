//! Moving the cursor.

use crate::cells::grid::Slot;
use crate::state::State;
use crate::state::modes::Mode;

impl State {
    /// Returns true if the cursor is between the left and the right margin.
    pub(crate) fn is_between(&self) -> bool {
        self.col >= self.margins.left && self.col < self.margins.right
    }

    /// Returns true if the cursor is inside all margins.
    pub(crate) fn is_inside(&self) -> bool {
        self.is_between() && self.row >= self.margins.top && self.row < self.margins.bottom
    }

    fn moved(&mut self) {
        // Every movement ends a pending wrap, as on a VT100, and what is written next begins a new grapheme.
        (self.wrap, self.joining, self.changed) = (false, false, true);
    }

    /// Moves to a place counted from 0, relative to the margins in origin mode.
    pub(crate) fn go_to(&mut self, row: usize, col: usize) {
        let (top, bottom, left, right) = if self.on(Mode::Origin) {
            (self.margins.top, self.margins.bottom, self.margins.left, self.margins.right)
        } else {
            (0, self.rows(), 0, self.cols())
        };
        // CUP stops at the edge, and in origin mode at the margin. It never scrolls.
        self.row = (top + row).min(bottom - 1);
        self.col = (left + col).min(right - 1);
        self.moved();
    }

    /// Returns the row as the child counts it: from the margin in origin mode.
    pub(crate) fn own_row(&self) -> usize {
        if self.on(Mode::Origin) { self.row.saturating_sub(self.margins.top) } else { self.row }
    }

    /// Returns the column as the child counts it.
    pub(crate) fn own_col(&self) -> usize {
        if self.on(Mode::Origin) { self.col.saturating_sub(self.margins.left) } else { self.col }
    }

    pub(crate) fn up(&mut self, count: usize) {
        // From above the region the way leads to the edge of the screen, from within only to the margin (VT420
        // manual, CUU).
        let top = if self.row >= self.margins.top { self.margins.top } else { 0 };
        self.row = self.row.saturating_sub(count).max(top);
        self.moved();
    }

    pub(crate) fn down(&mut self, count: usize) {
        let bottom = if self.row < self.margins.bottom { self.margins.bottom } else { self.rows() };
        self.row = (self.row + count).min(bottom - 1);
        self.moved();
    }

    pub(crate) fn forward(&mut self, count: usize) {
        // The margin stops only who is left of it.
        let right = if self.col < self.margins.right { self.margins.right } else { self.cols() };
        self.col = (self.col + count).min(right - 1);
        self.moved();
    }

    /// Moves to the left, and in reverse wrap mode on to the row above.
    pub(crate) fn back(&mut self, mut count: usize) {
        // Reverse wrap is nothing without wrap: xterm requires both modes.
        let reverse = self.on(Mode::ReverseWrap) || self.on(Mode::ReverseWrapExtended);
        if !(reverse && self.on(Mode::Wrap)) {
            let left = if self.col >= self.margins.left { self.margins.left } else { 0 };
            self.col = self.col.saturating_sub(count).max(left);
            self.moved();
            return;
        }
        // The last column counts twice: once written, once not.
        if self.wrap {
            count = count.saturating_sub(1);
        }
        let left = if self.col >= self.margins.left { self.margins.left } else { 0 };
        if let Some(col) = self.col.checked_sub(count).filter(|col| *col >= left) {
            self.col = col;
        } else if (self.row, self.col) == (self.margins.top, self.margins.left) {
            // From one corner to the other, and no further.
            (self.row, self.col) = (self.margins.bottom - 1, self.margins.right - 1);
        } else {
            // On a strip of all rows, one behind the other, which is a ring.
            let width = self.margins.right - left;
            let length = self.rows() * width;
            let place = (self.row * width + self.col + length - left) - count % length;
            (self.row, self.col) = (place % length / width, left + place % width);
        }
        self.moved();
    }

    #[inline]
    pub(crate) fn carriage_return(&mut self) {
        // Left of the margin it stays left of it, but for origin mode.
        let left = self.margins.left;
        self.col = if left == 0 || self.col >= left || self.on(Mode::Origin) { left } else { 0 };
        self.moved();
    }

    /// Moves to the next row, scrolling at the bottom margin.
    #[inline]
    pub(crate) fn index(&mut self) {
        self.changed = true;
        (self.wrap, self.joining) = (false, false);
        if self.row + 1 == self.margins.bottom {
            // At the bottom margin but beside the side margins the cursor stays, and nothing scrolls (VT420, xterm).
            if self.is_between() {
                self.scroll_line();
            }
        } else if self.row + 1 < self.rows() {
            self.row += 1;
        }
    }

    /// Moves to the row above, scrolling at the top margin.
    pub(crate) fn reverse_index(&mut self) {
        self.moved();
        if self.row == self.margins.top {
            if self.is_between() {
                self.scroll_down(1);
            }
        } else {
            self.row = self.row.saturating_sub(1);
        }
    }

    #[inline]
    pub(crate) fn line_feed(&mut self) {
        self.index();
        if self.on(Mode::NewLine) {
            self.carriage_return();
        }
    }

    pub(crate) fn tab(&mut self, count: usize) {
        // Mode 41, xterm's workaround for `more`: a tab behind the last column wraps instead of being swallowed.
        if self.wrap && self.on(Mode::MoreFix) && self.on(Mode::Wrap) {
            self.index();
            self.col = 0;
        }
        for _ in 0..count.min(self.cols()) {
            // HT stops at the right margin also from beyond it.
            self.col = self.tabs.next(self.col).min(self.margins.right - 1);
        }
        // A pending wrap stays: the tab did not move the cursor, and the next character still belongs to the next
        // row.
        (self.joining, self.changed) = (false, true);
    }

    pub(crate) fn back_tab(&mut self, count: usize) {
        // CBT goes beyond the left margin unless origin mode makes it the edge, as in xterm.
        let left = if self.on(Mode::Origin) { self.margins.left } else { 0 };
        for _ in 0..count.min(self.cols()) {
            self.col = self.tabs.previous(self.col).max(left);
        }
        (self.joining, self.changed) = (false, true);
    }

    /// DECSTBM: sets the rows of the margins, from 0, the end outside. Does nothing unless two rows are left.
    pub(crate) fn set_rows(&mut self, top: usize, bottom: usize) {
        let bottom = bottom.min(self.rows());
        if top + 1 < bottom {
            (self.margins.top, self.margins.bottom) = (top, bottom);
            self.go_to(0, 0);
        }
    }

    /// DECSLRM: sets the columns of the margins, from 0, the end outside. Does nothing unless two columns are left.
    pub(crate) fn set_columns(&mut self, left: usize, right: usize) {
        let right = right.min(self.cols());
        if left + 1 < right {
            (self.margins.left, self.margins.right) = (left, right);
            self.go_to(0, 0);
        }
    }

    pub(crate) fn reset_margins(&mut self) {
        (self.margins.top, self.margins.bottom) = (0, self.rows());
        (self.margins.left, self.margins.right) = (0, self.cols());
    }

    /// DECDHL, DECSWL, DECDWL: sets the size of the line, 0 for single width.
    pub(crate) fn set_line_size(&mut self, size: u8) {
        // Only lines as wide as the screen can be stretched.
        if self.on(Mode::LeftRightMargins) || self.grid.slot(self.row).size == size {
            return;
        }
        self.sized |= size != 0;
        let half = self.cols() / 2;
        let stamp = self.stamp;
        if size != 0 && half > 0 {
            self.col = self.col.min(half - 1);
        }
        if let Some(slot) = self.grid.slot_mut(self.row) {
            (slot.size, slot.changed_at) = (size, stamp);
            slot.flags &= !Slot::WRAPPED;
        }
        // A pending wrap stays where the line becomes a usual one.
        (self.joining, self.changed) = (false, true);
        self.wrap &= size == 0;
    }
}
