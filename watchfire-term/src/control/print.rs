//! Characters onto the screen, in runs where possible.

use crate::cells::cell::{Cell, NOT_ALONE, Pen};
use crate::cells::grid::Slot;
use crate::cells::width::Widths;
use crate::state::State;
use crate::state::modes::Mode;

/// VS16, behind a character that has a text and an emoji form, such as U+26A0.
const EMOJI_SELECTOR: char = '\u{fe0f}';

impl State {
    /// Prints ASCII.
    #[inline(always)]
    pub(crate) fn print_ascii(&mut self, run: &[u8]) {
        self.changed = true;
        // One test for all that is rare, so that the usual run is a bounds check and a copy.
        if (self.special | self.joining | self.wrap) || run.len() >= self.limit().saturating_sub(self.col) {
            return self.print_long_ascii(run);
        }
        self.last = run.last().map(|byte| char::from(*byte));
        let pen = self.pen();
        self.grid.write_ascii(self.row, self.col, run, pen, self.stamp);
        self.col += run.len();
    }

    /// Prints ASCII that takes more than one row, or in a mode that is special.
    fn print_long_ascii(&mut self, mut run: &[u8]) {
        if self.special || self.joining {
            return run.iter().for_each(|byte| self.put(char::from(*byte)));
        }
        self.last = run.last().map(|byte| char::from(*byte));
        let pen = self.pen();
        loop {
            if self.wrap && self.on(Mode::Wrap) {
                self.wrap_line();
            }
            let limit = self.limit();
            let room = limit.saturating_sub(self.col);
            if run.len() < room {
                self.grid.write_ascii(self.row, self.col, run, pen, self.stamp);
                self.col += run.len();
                return;
            }
            let (head, tail) = run.split_at(room);
            self.grid.write_ascii(self.row, self.col, head, pen, self.stamp);
            // The cursor waits on the last column until another character comes (DEC's autowrap). A line as wide as
            // the screen then takes one row, and its line end no second one.
            self.col = limit - 1;
            self.wrap = true;
            run = match tail {
                [] => return,
                // Without autowrap every further character replaces the one in the last column: only the last is
                // seen.
                [.., last] if !self.on(Mode::Wrap) => std::slice::from_ref(last),
                _ => tail,
            };
        }
    }

    /// Prints any characters.
    pub(crate) fn print_chars(&mut self, mut run: &[char]) {
        self.changed = true;
        let widths = Widths::table();
        let graphemes = self.on(Mode::Graphemes);
        while let [first, tail @ ..] = run {
            if self.special || self.joining || !matches!(widths.plain(*first, graphemes), 1 | 2) {
                self.put(*first);
                run = tail;
                continue;
            }
            if self.wrap && self.on(Mode::Wrap) {
                self.wrap_line();
            }
            let limit = self.limit();
            let used = self.print_plain(run, limit, graphemes, widths);
            if used == 0 {
                // A wide character that does not fit.
                self.put(*first);
                run = tail;
            } else {
                run = run.get(used..).unwrap_or(&[]);
            }
        }
    }

    /// Prints characters of one or two columns as far as the row goes. Returns their number.
    fn print_plain(&mut self, run: &[char], limit: usize, graphemes: bool, widths: Widths) -> usize {
        let (row, start, pen, stamp) = (self.row, self.col, self.pen(), self.stamp);
        // No further than these characters reach, because cells that are opened count as written.
        let reach = limit.min(start + 2 * run.len());
        let cells = self.grid.open(row, start, reach, true, stamp);
        let (used, at, wide) = fill(cells, run, pen, graphemes, widths);
        self.grid.close(row, start + at, wide);
        if used > 0 {
            self.last = run.get(used - 1).copied();
        }
        self.advance(at, limit);
        used
    }

    #[inline]
    fn advance(&mut self, columns: usize, limit: usize) {
        self.col += columns;
        if self.col >= limit && columns > 0 {
            self.col = limit - 1;
            self.wrap = true;
        }
    }

    /// Prints one character, with all that may be special about it.
    pub(crate) fn put(&mut self, c: char) {
        let c = self.charsets.map(c);
        if self.special {
            self.update_special();
        }
        // Packed lines mark the right half of a wide character by this code (`COVERED`), so the character itself is
        // kept as a cluster.
        if c == NOT_ALONE {
            let pen = self.pen();
            let cell = self.clusters.cell(c.encode_utf8(&mut [0; 4]), pen);
            return self.place(cell, 1);
        }
        let width = Widths::table().of(c);
        let graphemes = self.on(Mode::Graphemes);
        // After most characters nothing with a width can join. Remembering those few leaves the fast path to all
        // others.
        let joining = std::mem::replace(&mut self.joining, graphemes && width.may_join());
        if (width.columns() == 0 || graphemes && (joining || width.may_join())) && self.join(c, graphemes) {
            return;
        }
        if width.columns() == 0 {
            // A mark with nothing to stand on gets a cell of its own, but for one where a line begins; other invisible
            // characters are dropped.
            if !is_mark(c) || self.col == 0 {
                return;
            }
            let text: String = [' ', c].into_iter().collect();
            let pen = self.pen();
            let cell = self.clusters.cell(&text, pen);
            self.place(cell, 1);
            return;
        }
        self.last = Some(c);
        let cell = Cell::new(u32::from(c), self.pen());
        self.place(cell, width.columns());
    }

    /// Puts a cell at the cursor and moves on.
    fn place(&mut self, cell: Cell, mut columns: usize) {
        self.changed = true;
        if self.wrap && self.on(Mode::Wrap) {
            self.wrap_line();
        }
        let mut limit = self.limit();
        if columns == 2 && self.col + 2 > limit {
            let left = self.line_start();
            if self.on(Mode::Wrap) && limit.saturating_sub(left) >= 2 {
                let filler = self.blank().with(Cell::FILLER);
                self.grid.fill(self.row, self.col..limit, filler, self.stamp);
                self.go_on(true);
                limit = self.limit();
            } else if limit.saturating_sub(left) >= 2 {
                // There is no room for it, and it makes none, as in xterm.
                return;
            } else {
                columns = 1;
            }
        }
        if self.on(Mode::Insert) && self.is_between() {
            self.shift_right(self.row, self.col, limit, columns);
        }
        let (row, col, stamp, pen) = (self.row, self.col, self.stamp, self.pen());
        // What is left and right of the cell must not keep half of a wide character.
        self.grid.split(row, col, stamp);
        self.grid.split(row, col + columns, stamp);
        let cells = self.grid.cells_mut(row, col..col + columns, stamp);
        let mut flags = Slot::RICH;
        match cells {
            [left, right] => {
                *left = cell.with(Cell::WIDE);
                *right = Cell::new(0, pen).with(Cell::SPACER);
                flags |= Slot::WIDE;
            }
            // Half of a wide character on a screen of one column would be a lie.
            [only] if columns == 1 && is_wide(cell) => *only = Cell::new(0xfffd, pen),
            [only, ..] => *only = cell,
            [] => {}
        }
        if let Some(slot) = self.grid.slot_mut(row) {
            slot.flags |= flags;
        }
        self.advance(columns, limit);
    }

    /// Adds a character to the one before the cursor, if they belong together.
    fn join(&mut self, c: char, graphemes: bool) -> bool {
        let row = self.row;
        let Some(mut col) = (if self.wrap { Some(self.col) } else { self.col.checked_sub(1) }) else {
            return false;
        };
        if self.grid.cell(row, col).has(Cell::SPACER) {
            col = col.saturating_sub(1);
        }
        let old = self.grid.cell(row, col);
        // A mark on a blank is shown on a space, as in xterm, but blanks begin no grapheme.
        if old.is_empty() && (graphemes || !is_mark(c)) {
            return false;
        }
        let Some(joined) = self.clusters.join(old, c, graphemes) else { return false };
        let was = if old.has(Cell::WIDE) { 2 } else { 1 };
        // Without mode 2027 a character has the width that it was printed with. The one exception is a selector that asks for
        // the emoji: programs that measure text reckon with the two columns that most terminals then give it.
        let measured = graphemes || c == EMOJI_SELECTOR && self.on(Mode::EmojiPresentation);
        let now = if measured { usize::from(joined.columns) } else { was };
        if now > was && col + 2 > self.limit() {
            self.join_below(col, old.with_text(joined.cell));
            return true;
        }
        self.changed = true;
        let (cell, stamp) = (old.with_text(joined.cell), self.stamp);
        if let Some(slot) = self.grid.cells_mut(row, col..col + 1, stamp).first_mut() {
            *slot = cell;
        }
        if let Some(slot) = self.grid.slot_mut(row) {
            slot.flags |= Slot::RICH | Slot::WIDE;
        }
        if now > was {
            self.grid.split(row, col + 2, stamp);
            self.widen(row, col, cell);
            let limit = self.limit();
            self.col = col + 1;
            self.wrap = false;
            self.advance(1, limit);
        }
        true
    }

    /// Takes a grapheme that grew in the last column, where it does not fit any more, to the next row. It wraps whole, as a
    /// wide character would. Where nothing wraps, the addition is dropped, as xterm drops a wide character there: a
    /// grapheme in half of its width would be drawn over its neighbour by whoever paints this screen.
    fn join_below(&mut self, col: usize, cell: Cell) {
        let room = self.limit().saturating_sub(self.line_start());
        if !self.wrap || !self.on(Mode::Wrap) || room < 2 {
            return;
        }
        self.changed = true;
        let filler = self.blank().with(Cell::FILLER);
        self.grid.fill(self.row, col..col + 1, filler, self.stamp);
        self.go_on(true);
        let (row, col, limit) = (self.row, self.col, self.limit());
        if self.on(Mode::Insert) && self.is_between() {
            self.shift_right(row, col, limit, 2);
        }
        self.grid.split(row, col, self.stamp);
        self.grid.split(row, col + 2, self.stamp);
        self.widen(row, col, cell);
        if let Some(slot) = self.grid.slot_mut(row) {
            slot.flags |= Slot::RICH | Slot::WIDE;
        }
        self.advance(2, limit);
    }

    /// Puts a cell and its right half in two columns.
    fn widen(&mut self, row: usize, col: usize, cell: Cell) {
        if let [left, right] = self.grid.cells_mut(row, col..col + 2, self.stamp) {
            *left = cell.with(Cell::WIDE);
            *right = Cell::new(0, Pen::new(cell.style(), cell.has(Cell::PROTECTED))).with(Cell::SPACER);
        }
    }

    /// REP: prints the last character again.
    pub(crate) fn repeat(&mut self, count: usize) {
        // More than the screen holds shows nothing new.
        let count = count.min(self.rows() * self.cols());
        // ECMA-48: REP repeats the character directly before it. As in xterm, a second REP therefore repeats nothing.
        let Some(c) = self.last.take() else { return };
        let col = if self.wrap { self.col } else { self.col.saturating_sub(1) };
        let before = self.grid.cell(self.row, col);
        if before.has(Cell::CLUSTER) && !before.has(Cell::WIDE) {
            return (0..count).for_each(|_| self.place(before, 1));
        }
        let width = Widths::table().of(c).columns().max(1);
        let cell = Cell::new(u32::from(c), self.pen());
        (0..count).for_each(|_| self.place(cell, width));
    }

    /// Returns the column at which a written line ends.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        // A cursor beyond the right margin writes up to the edge of the screen (VT420).
        let limit = if self.col < self.margins.right { self.margins.right } else { self.cols() };
        // A line of double width shows half of its columns, and wraps there.
        if self.sized && self.grid.slot(self.row).size != 0 {
            limit.min((self.cols() / 2).max(self.col + 1))
        } else {
            limit
        }
    }

    fn line_start(&self) -> usize {
        if self.col >= self.margins.left { self.margins.left } else { 0 }
    }

    /// Continues in the next row.
    pub(crate) fn wrap_line(&mut self) {
        let last = self.grid.cell(self.row, self.col);
        self.go_on(!last.is_empty() || last.has(Cell::SPACER));
    }

    /// Continues in the next row from one that is `full` or not.
    fn go_on(&mut self, full: bool) {
        let (margins, below) = (self.margins, self.row + 1);
        // Only a line that fills the whole width can be joined with the next row at another width. Between margins,
        // rows are not lines.
        let whole = full && margins.left == 0 && margins.right == self.cols() && self.col + 1 == self.cols();
        // In the last row below a scrolling region the cursor stays: the text that follows overwrites the row, and
        // does not continue it.
        let whole = whole && (below == margins.bottom || below < self.rows());
        // The row may leave for the scrollback right now, or move up and stay.
        self.mark_wrapped(self.row, whole);
        let start = self.margins.left;
        self.index();
        self.mark_wrapped(self.row.wrapping_sub(1), whole);
        (self.col, self.wrap) = (start, false);
    }

    fn mark_wrapped(&mut self, row: usize, whole: bool) {
        if let Some(slot) = self.grid.slot_mut(row)
            && whole
        {
            slot.flags |= Slot::WRAPPED;
            slot.changed_at = self.stamp;
        }
    }
}

/// Writes characters into cells as far as both go. Returns the numbers of characters and cells, and the flags of the row.
///
/// A loop for each kind, for that is what keeps each of them small.
fn fill(cells: &mut [Cell], run: &[char], pen: Pen, graphemes: bool, widths: Widths) -> (usize, usize, u8) {
    let (mut rest, mut at, mut flags) = (run, 0, 0);
    let new = |c: char| Cell::new(u32::from(c), pen);
    while let Some(&first) = rest.first() {
        let (start, mut used) = (at, 0);
        let cells = cells.get_mut(at..).unwrap_or(&mut []);
        match widths.plain(first, graphemes) {
            1 => {
                for (four, slots) in rest.as_chunks().0.iter().zip(cells.as_chunks_mut().0) {
                    if !widths.are_narrow(*four, graphemes) {
                        break;
                    }
                    *slots = four.map(new);
                    used += 4;
                }
                let (rest, cells) =
                    (rest.get(used..).unwrap_or(&[]), cells.get_mut(used..).unwrap_or(&mut []));
                for (c, slot) in rest.iter().zip(cells) {
                    if widths.plain(*c, graphemes) != 1 {
                        break;
                    }
                    *slot = new(*c);
                    used += 1;
                }
                at += used;
            }
            2 => {
                for (c, pair) in rest.iter().zip(cells.as_chunks_mut().0) {
                    if widths.plain(*c, graphemes) != 2 {
                        break;
                    }
                    *pair = [new(*c).with(Cell::WIDE), Cell::new(0, pen).with(Cell::SPACER)];
                    used += 1;
                }
                at += 2 * used;
                flags = Slot::WIDE;
            }
            _ => break,
        }
        if at == start {
            break;
        }
        rest = rest.get(used..).unwrap_or(&[]);
    }
    (run.len() - rest.len(), at, flags)
}

fn is_wide(cell: Cell) -> bool {
    let c = char::from_u32(cell.content()).unwrap_or(' ');
    !cell.has(Cell::CLUSTER) && Widths::table().of(c).columns() == 2
}

/// Returns true if a character without width changes the look of the one before.
fn is_mark(c: char) -> bool {
    !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{0}'..='\u{9f}')
        || c == '\u{200d}'
        || c == '\u{200c}'
}
