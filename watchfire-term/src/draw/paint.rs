//! A screen as ANSI, run by run.

use std::ops::Range;

use crate::cells::cell::Cell;
use crate::cells::clusters::Clusters;
use crate::cells::grid::{Grid, Slot};
use crate::cells::history::RowEnd;
use crate::cells::style::Look;
use crate::cells::width;
use crate::draw::diff;
use crate::draw::spell;
use crate::state::State;
use crate::state::modes::Mode;

/// Erases what was written into the next row only to make the line wrap, and puts the cursor there.
const RUN_ON: &[u8] = b"\r\x1b[2X";

/// Paints one screen, row by row, on one that is blank.
#[derive(Debug)]
pub(crate) struct Painter<'a> {
    state: &'a State,
    grid: &'a Grid,
    style: u32,
    look: Look,
    protected: bool,
    /// Mode 2027 of the receiver.
    graphemes: bool,
    /// Width of emoji by selector at the receiver, once it was set.
    emoji: Option<bool>,
}

impl<'a> Painter<'a> {
    /// Begins with the modes after a reset, without mode 2027.
    pub(crate) fn new(state: &'a State, grid: &'a Grid) -> Self {
        Self { state, grid, style: 0, look: Look::default(), protected: false, graphemes: false, emoji: None }
    }

    /// Begins with the modes of the terminal that is painted.
    pub(crate) fn within_modes(mut self) -> Self {
        self.graphemes = self.state.on(Mode::Graphemes);
        self.emoji = Some(self.state.on(Mode::EmojiPresentation));
        self
    }

    /// Paints everything that is not blank.
    pub(crate) fn paint(mut self, out: &mut Vec<u8>) {
        let cols = self.grid.cols();
        out.reserve(self.about());
        for row in 0..self.grid.rows() {
            let slot = self.grid.slot(row);
            self.cells(row, 0..cols, out);
            // After the text: once it is of double width, the row takes only half of it.
            if let Some(code) = [b'6', b'3', b'4'].get(usize::from(slot.size).wrapping_sub(1)) {
                spell::place(row, 0, out);
                out.extend_from_slice(&[0x1b, b'#', *code]);
            }
            let whole = self.grid.row(row).len() == cols;
            // A terminal notes a wrap only when text runs into the next row, so that is what has to happen again.
            if slot.flags & Slot::WRAPPED != 0 && row + 1 < self.grid.rows() && whole {
                self.wrap(row, cols, out);
            }
        }
        self.pen(Cell::BLANK, out);
        // Mode 2027 as it was before the painting. A second screen is painted from the same state.
        self.cluster(false, out);
    }

    /// Prints the scrollback on a screen that was reset, and scrolls that until it is blank. Prints nothing if it takes more than
    /// `most` bytes.
    pub(crate) fn scrollback(mut self, most: usize, out: &mut Vec<u8>) {
        let (cols, last, begin) = (self.grid.cols(), self.grid.rows() - 1, out.len());
        let most = begin.saturating_add(most);
        let mut lines = 0;
        self.state.history.for_each_row(0, usize::MAX, |clusters, cells, end| {
            if out.len() > most {
                return;
            }
            let row = last.min(lines);
            lines += 1;
            match cells {
                // A screen of one column shows nothing of a wide character.
                [half] if half.has(Cell::WIDE) => self.runs(row, 0, &[half.emptied()], clusters, out),
                _ => self.runs(row, 0, cells, clusters, out),
            }
            // What comes in from below takes the background at hand.
            self.pen(Cell::BLANK, out);
            // A row that was parted before its end cannot be made to wrap.
            if end != RowEnd::Wrapped {
                return out.extend_from_slice(b"\r\n");
            }
            if cells.len() < cols {
                // What did not fit there was wide.
                spell::place(row, cols - 1, out);
                out.extend_from_slice("\u{3000}".as_bytes());
            } else {
                if let Some(last) = cells.last().filter(|cell| cell.is_empty() && !cell.has(Cell::SPACER)) {
                    // Only a row that was written to its end goes on.
                    spell::place(row, cols - 1, out);
                    self.pen(*last, out);
                    out.push(b' ');
                    self.pen(Cell::BLANK, out);
                }
                out.extend_from_slice(report(row, cols - 1, true, false).as_bytes());
                out.push(b' ');
            }
            out.extend_from_slice(RUN_ON);
        });
        if out.len() > most {
            return out.truncate(begin);
        }
        self.cluster(false, out);
        // The cursor is in the row below the lines, and nothing else is on the screen.
        spell::place(last, 0, out);
        out.extend(std::iter::repeat_n(b'\n', last.min(lines)));
    }

    /// Estimates the number of bytes from every fourth row, with some room for the rest.
    fn about(&self) -> usize {
        let rows = (0..self.grid.rows()).step_by(4).map(|row| self.grid.row(row));
        let changes = |row: &[Cell]| {
            row.iter().zip(row.iter().skip(1)).filter(|(cell, next)| cell.style() != next.style()).count()
        };
        // A buffer that grows copies all of a redraw several times. Twenty-four bytes are about what a
        // change of colours takes.
        4 * rows.map(|row| row.len() + 24 * changes(row) + 16).sum::<usize>() + 1024
    }

    /// Writes one cell at the cursor.
    pub(crate) fn cell(&mut self, cell: Cell, out: &mut Vec<u8>) {
        self.pen(cell, out);
        if cell.has(Cell::CLUSTER) {
            self.cluster_of(cell, &self.state.clusters, out);
        } else {
            self.text(&[cell], out);
        }
    }

    /// Returns to the default look and to the modes of the terminal that is painted.
    pub(crate) fn end_within_modes(mut self, out: &mut Vec<u8>) {
        self.pen(Cell::BLANK, out);
        self.cluster(self.state.on(Mode::Graphemes), out);
        self.emoji(self.state.on(Mode::EmojiPresentation), out);
    }

    /// Makes a row go on in the next, which is blank yet.
    fn wrap(&mut self, row: usize, cols: usize, out: &mut Vec<u8>) {
        let last = self.grid.cell(row, cols - 1);
        let start = if last.has(Cell::SPACER) { cols.saturating_sub(2) } else { cols - 1 };
        if last.has(Cell::FILLER) {
            // A wide character does not fit, which is what left the blank.
            self.pen(Cell::BLANK.with_style(last.style()), out);
            spell::place(row, cols - 1, out);
            // Any wide character would do. It is blanked below, and the filler that it leaves is the one to make.
            out.extend_from_slice("\u{3000}".as_bytes());
        } else if self.is_written_once(row, start) {
            self.pen(Cell::BLANK, out);
            out.extend_from_slice(report(row, cols - 1, true, false).as_bytes());
            out.push(b' ');
        } else {
            self.cells(row, start..cols, out);
            out.push(b' ');
        }
        self.pen(Cell::BLANK, out);
        out.extend_from_slice(RUN_ON);
    }

    /// Returns true if the cell in the last columns of a row cannot be written there a second time, where it begins at `col`: it does
    /// not fit, on a row of double width, or it would join the cell before it.
    pub(crate) fn is_written_once(&self, row: usize, col: usize) -> bool {
        let is_wide = col + 1 < self.grid.cols();
        is_wide && self.grid.slot(row).size != 0 || self.grid.cell(row, col).has(Cell::CLUSTER)
    }

    /// Writes the cells of a row that are not blank.
    fn cells(&mut self, row: usize, columns: Range<usize>, out: &mut Vec<u8>) {
        let cells = self.grid.row(row);
        let cells = cells.get(columns.start..columns.end.min(cells.len())).unwrap_or(&[]);
        self.runs(row, columns.start, cells, &self.state.clusters, out);
    }

    /// Writes cells that are not blank from a column on.
    fn runs(&mut self, row: usize, start: usize, cells: &[Cell], clusters: &Clusters, out: &mut Vec<u8>) {
        // First and from the right, so that none joins what is before it: a flag is two letters, of which one may stand there
        // alone.
        if cells.iter().fold(Cell::BLANK, |all, cell| all.union(*cell)).has(Cell::CLUSTER) {
            for (col, cell) in cells.iter().enumerate().rev().filter(|(_, cell)| cell.has(Cell::CLUSTER)) {
                spell::place(row, start + col, out);
                self.pen(*cell, out);
                self.cluster_of(*cell, clusters, out);
            }
        }
        let mut rest = cells;
        // Where the next run is, and where the cursor is, as far as that is known.
        let (mut col, mut at) = (start, usize::MAX);
        while let Some(&first) = rest.first() {
            let alike = if first.is_empty() {
                rest.iter().take_while(|cell| **cell == first).count()
            } else {
                rest.iter().take_while(|cell| cell.is_alike(first)).count()
            };
            let (run, behind) = rest.split_at_checked(alike).unwrap_or((rest, &[]));
            if !first.is_blank() && !first.has(Cell::SPACER | Cell::CLUSTER) {
                if at != col {
                    spell::place(row, col, out);
                }
                self.pen(first, out);
                if first.is_empty() {
                    spell::erase(run.len(), out);
                    at = usize::MAX;
                } else {
                    self.text(run, out);
                    at = col + run.len() + usize::from(first.has(Cell::WIDE));
                }
            }
            col += run.len();
            rest = behind;
        }
    }

    /// Writes a cluster, each of which may need other modes than its neighbour.
    fn cluster_of(&mut self, cell: Cell, clusters: &Clusters, out: &mut Vec<u8>) {
        let text = clusters.text(cell.content());
        let joins = width::joins(text, cell.has(Cell::WIDE));
        self.cluster(joins, out);
        if !joins && width::selects_emoji(text) {
            self.emoji(cell.has(Cell::WIDE), out);
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Writes the text of cells that are alike, and no clusters.
    fn text(&mut self, run: &[Cell], out: &mut Vec<u8>) {
        self.cluster(false, out);
        let all = run.iter().fold(Cell::BLANK, |all, cell| all.union(*cell));
        if all.content() < 0x80 {
            return out.extend(run.iter().map(|cell| cell.content() as u8));
        }
        for cell in run {
            let c = char::from_u32(cell.content()).unwrap_or(char::REPLACEMENT_CHARACTER);
            spell::push_char(c, out);
        }
    }

    #[inline]
    fn cluster(&mut self, on: bool, out: &mut Vec<u8>) {
        if self.graphemes != on {
            self.graphemes = on;
            out.extend_from_slice(if on { b"\x1b[?2027h" } else { b"\x1b[?2027l" });
        }
    }

    fn emoji(&mut self, wide: bool, out: &mut Vec<u8>) {
        if self.emoji != Some(wide) {
            self.emoji = Some(wide);
            out.extend_from_slice(if wide { b"\x1b[?27027h" } else { b"\x1b[?27027l" });
        }
    }

    /// Switches to the look and the protection of a cell.
    #[inline]
    fn pen(&mut self, cell: Cell, out: &mut Vec<u8>) {
        if self.style != cell.style() {
            let look = self.state.styles.look(cell.style());
            spell::change(self.look, look, out);
            if look.link() != self.look.link() {
                out.extend_from_slice(link(self.state, look.link()).as_bytes());
            }
            (self.style, self.look) = (cell.style(), look);
        }
        if self.protected != cell.has(Cell::PROTECTED) {
            self.protected = !self.protected;
            out.extend_from_slice(if self.protected { b"\x1b[1\"q" } else { b"\x1b[0\"q" });
        }
    }
}

/// Returns the sequence of a hyperlink, or of the end of one.
pub(crate) fn link(state: &State, number: u16) -> String {
    let mut out = String::new();
    diff::write_link(state.links.get(number).map(|link| &**link), &mut out);
    out
}

/// Puts the cursor behind a column, or before the margins in origin mode, which only a report that is restored can; it
/// counts from the corner of the screen.
pub(crate) fn report(row: usize, col: usize, wrap: bool, origin: bool) -> String {
    let flags = char::from(0x40 | u8::from(wrap) << 3 | u8::from(origin));
    format!("\x1bP1$t{};{};1;@;@;{flags}\x1b\\", row + 1, col + 1)
}
