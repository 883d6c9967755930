//! Inserting and deleting, tab stops, character sets, protection: what a child does to the line it is on.

use crate::state::charset::Charset;
use crate::state::{Protect, State};

impl State {
    /// ICH: inserts blanks at the cursor.
    pub(crate) fn insert_characters(&mut self, count: usize) {
        // Outside of the side margins ICH and DCH have no effect (VT420 manual).
        if self.is_between() {
            self.shift_right(self.row, self.col, self.margins.right, count);
        }
        self.wrap = false;
    }

    /// DCH: deletes characters at the cursor.
    pub(crate) fn delete_characters(&mut self, count: usize) {
        if self.is_between() {
            self.shift_left(self.row, self.col, self.margins.right, count);
        }
        self.wrap = false;
    }

    /// IL: inserts blank lines at the cursor.
    pub(crate) fn insert_lines(&mut self, count: usize) {
        if self.is_inside() {
            self.rows_down(self.row, self.margins.bottom, count);
            // xterm moves the cursor to the left margin since patch 280.
            (self.col, self.wrap) = (self.margins.left, false);
        }
    }

    /// DL: deletes lines at the cursor.
    pub(crate) fn delete_lines(&mut self, count: usize) {
        if self.is_inside() {
            if self.row == 0 {
                self.detach_scrollback();
            }
            self.rows_up(self.row, self.margins.bottom, count);
            (self.col, self.wrap) = (self.margins.left, false);
        }
    }

    /// SL: scrolls left.
    pub(crate) fn scroll_left(&mut self, count: usize) {
        if self.is_inside() {
            self.columns_left(self.margins.left, count);
        }
    }

    /// SR: scrolls right.
    pub(crate) fn scroll_right(&mut self, count: usize) {
        if self.is_inside() {
            self.columns_right(self.margins.left, count);
        }
    }

    /// DECIC: inserts blank columns at the cursor.
    pub(crate) fn insert_columns(&mut self, count: usize) {
        if self.is_inside() {
            self.columns_right(self.col, count);
        }
    }

    /// DECDC: deletes columns at the cursor.
    pub(crate) fn delete_columns(&mut self, count: usize) {
        if self.is_inside() {
            self.columns_left(self.col, count);
        }
    }

    /// DECBI: moves left, scrolling at the left margin.
    pub(crate) fn back_index(&mut self) {
        if self.col != self.margins.left {
            return self.back(1);
        }
        (self.wrap, self.changed) = (false, true);
        // At the margin the columns move in place of the cursor.
        if self.is_inside() {
            self.columns_right(self.margins.left, 1);
        }
    }

    /// DECFI: moves right, scrolling at the right margin.
    pub(crate) fn forward_index(&mut self) {
        self.changed = true;
        if self.col + 1 == self.margins.right {
            if self.is_inside() {
                self.columns_left(self.margins.left, 1);
            }
        } else if self.col + 1 < self.cols() {
            (self.col, self.wrap) = (self.col + 1, false);
        }
    }

    /// TBC: clears tab stops.
    pub(crate) fn clear_tabs(&mut self, what: u16) {
        match what {
            0 => self.tabs.set(self.col, false),
            3 => self.tabs.clear(),
            _ => {}
        }
    }

    /// DECSCA, SPA and EPA: guards characters that follow from erasing.
    pub(crate) fn guard(&mut self, how: Protect, on: bool) {
        // EPA ends the guarding of what is written, but what SPA has guarded stays safe from every kind of erasing.
        if on || how == Protect::Dec {
            self.protect = how;
        }
        self.protected = on;
        self.apply_look();
    }

    /// Locking shifts: selects the character set that is used.
    pub(crate) fn shift(&mut self, set: u8) {
        self.charsets.left = set;
        self.update_special();
    }

    pub(crate) fn single_shift(&mut self, set: u8) {
        self.charsets.single = Some(set);
        self.update_special();
    }

    /// SCS: designates a character set.
    pub(crate) fn designate(&mut self, mark: u8, second: u8, last: u8) {
        let (index, wide) = match mark {
            b'(' => (0, false),
            b')' => (1, false),
            b'*' => (2, false),
            b'+' => (3, false),
            // ISO 2022 has no way to designate a set of 96 characters to G0.
            b'-' => (1, true),
            b'.' => (2, true),
            b'/' => (3, true),
            _ => return,
        };
        if let (Some(set), Some(slot)) =
            (Charset::named(wide, second, last), self.charsets.sets.get_mut(index))
        {
            *slot = set;
        }
    }
}
