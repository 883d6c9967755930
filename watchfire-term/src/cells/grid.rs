//! The cells of one screen: rows that scroll by renumbering, and are cleared by forgetting how long they are.

use std::ops::Range;

use crate::cells::cell::{Cell, Pen};

/// The cells of a screen, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    cols: usize,
    /// Slot by slot, each `cols` long.
    cells: Vec<Cell>,
    slots: Vec<Slot>,
    /// Slots of the rows. The slots of rows in `ring`, the last to scroll, are rotated by `turned`.
    order: Vec<u16>,
    ring: Range<usize>,
    turned: usize,
    /// For each row, when another slot was last put there.
    moved_at: Vec<u64>,
    /// Rows that were given other slots since [`Grid::commit`].
    moved: Range<usize>,
}

#[expect(clippy::reversed_empty_ranges, reason = "any row that moves makes it the range of that row")]
const NONE_MOVED: Range<usize> = usize::MAX..0;

/// State of a row besides its cells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Slot {
    /// The generation of the last change.
    pub(crate) changed_at: u64,
    /// Cells from this column on are blank, although the buffer may hold others.
    len: u16,
    pub(crate) flags: u8,
    /// 0 single width, 1 double width, 2 and 3 double height, top and bottom.
    pub(crate) size: u8,
}

impl Slot {
    /// The line goes on in the next row.
    pub(crate) const WRAPPED: u8 = 1;
    /// There may be wide characters.
    pub(crate) const WIDE: u8 = 2;
    /// There may be something other than ASCII in the default style.
    pub(crate) const RICH: u8 = 4;
    /// Marks of the shell (OSC 133): a command ended, a prompt, a command and its output begin.
    pub(crate) const MARKS: [u8; 4] = [8, 16, 32, 64];
    pub(crate) const ANY_MARK: u8 = 8 | 16 | 32 | 64;

    /// Returns true if a write from `col` on may cut a wide character.
    #[inline]
    const fn may_split(&self, col: usize) -> bool {
        self.flags & Self::WIDE != 0 && col < self.len as usize
    }
}

impl Grid {
    pub(crate) fn new(cols: usize, rows: usize) -> Self {
        Self {
            cols,
            cells: vec![Cell::BLANK; cols * rows],
            slots: vec![Slot::default(); rows],
            // Rows are 65,535 at most, which a size allows.
            order: (0..rows).map(|row| row as u16).collect(),
            ring: 0..rows,
            turned: 0,
            moved_at: vec![0; rows],
            moved: NONE_MOVED,
        }
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    pub(crate) fn rows(&self) -> usize {
        self.order.len()
    }

    #[inline]
    fn slot_of(&self, row: usize) -> usize {
        let (place, len) = (row.wrapping_sub(self.ring.start), self.ring.end.wrapping_sub(self.ring.start));
        // The most frequent computation of all. Comparisons instead of a remainder, which would be a division.
        let index = if place >= len {
            row
        } else if place + self.turned < len {
            row + self.turned
        } else {
            row + self.turned - len
        };
        self.order.get(index).map_or(usize::MAX, |slot| usize::from(*slot))
    }

    /// Returns the slot of a row.
    #[inline]
    pub(crate) fn slot(&self, row: usize) -> Slot {
        self.slots.get(self.slot_of(row)).copied().unwrap_or_default()
    }

    /// Returns the slot of a row, to change.
    #[inline]
    pub(crate) fn slot_mut(&mut self, row: usize) -> Option<&mut Slot> {
        let slot = self.slot_of(row);
        self.slots.get_mut(slot)
    }

    /// Returns the index of the storage of a row, which moves with the row when that scrolls.
    pub(crate) fn storage(&self, row: usize) -> usize {
        self.slot_of(row)
    }

    /// Returns the cells of a row up to the last that may not be blank.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> &[Cell] {
        let slot = self.slot_of(row);
        let len = self.slots.get(slot).map_or(0, |slot| usize::from(slot.len));
        let start = slot.saturating_mul(self.cols);
        self.cells.get(start..start.saturating_add(len)).unwrap_or(&[])
    }

    /// Returns the cell at a place; blank where there is none.
    pub(crate) fn cell(&self, row: usize, col: usize) -> Cell {
        self.row(row).get(col).copied().unwrap_or_default()
    }

    /// Returns the cells `range` of a row, to write; all before them are valid. Marks the row as changed.
    #[inline]
    pub(crate) fn cells_mut(&mut self, row: usize, range: Range<usize>, stamp: u64) -> &mut [Cell] {
        let index = self.slot_of(row);
        let Some(slot) = self.slots.get_mut(index) else { return &mut [] };
        let (start, len) = (index * self.cols, usize::from(slot.len));
        let end = range.end.min(self.cols);
        // Whoever asks for cells to write is taken to write them: comparing contents would cost more than painting a
        // row again.
        slot.changed_at = stamp;
        if len < end {
            slot.len = end as u16;
            // What lies between the end of the row and the range was left over from another row.
            if len < range.start
                && let Some(gap) = self.cells.get_mut(start + len..start + range.start.min(self.cols))
            {
                gap.fill(Cell::BLANK);
            }
            let fresh = len.max(range.start).min(end);
            if let Some(rest) = self.cells.get_mut(start + fresh..start + end) {
                rest.fill(Cell::BLANK);
            }
        }
        self.cells.get_mut(start + range.start.min(end)..start + end).unwrap_or(&mut [])
    }

    /// Makes the columns before and from `col` independent: a wide character across the edge is emptied.
    #[inline]
    pub(crate) fn split(&mut self, row: usize, col: usize, stamp: u64) {
        self.split_slot(self.slot_of(row), col, stamp);
    }

    /// Does the same by the index of the row's storage.
    #[inline]
    fn split_slot(&mut self, index: usize, col: usize, stamp: u64) {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| col > 0 && slot.may_split(col)) else {
            return;
        };
        let at = index * self.cols + col;
        if let Some([left, right]) = self.cells.get_mut(at - 1..at + 1)
            && right.has(Cell::SPACER)
        {
            // Both halves become spaces in their style, as in xterm: a character is never shown by half.
            (*left, *right, slot.changed_at) = (left.emptied(), right.emptied(), stamp);
        }
    }

    /// Fills the columns `range` of a row with `cell`. Wide characters that reach beyond the range are erased.
    pub(crate) fn fill(&mut self, row: usize, range: Range<usize>, cell: Cell, stamp: u64) {
        let range = range.start..range.end.min(self.cols);
        if range.is_empty() {
            return;
        }
        self.split(row, range.start, stamp);
        self.split(row, range.end, stamp);
        let Some(slot) = self.slot_mut(row) else { return };
        slot.changed_at = stamp;
        // Blanks up to the end are no cells at all: the row becomes shorter.
        if cell == Cell::BLANK && range.end >= usize::from(slot.len) {
            slot.len = slot.len.min(range.start as u16);
            return;
        }
        slot.flags |= Slot::RICH;
        self.cells_mut(row, range, stamp).fill(cell);
    }

    /// Makes a row blank, not wrapped, and of single width.
    pub(crate) fn clear_row(&mut self, row: usize, blank: Cell, stamp: u64) {
        if let Some(slot) = self.slot_mut(row) {
            *slot = Slot { changed_at: stamp, ..Slot::default() };
        }
        if blank != Cell::BLANK {
            self.fill(row, 0..self.cols, blank, stamp);
        }
    }

    /// Moves the rows `range` up by one; the first becomes the last, blank. Before that `see` gets to look at it.
    #[inline(always)]
    pub(crate) fn turn(
        &mut self,
        range: Range<usize>,
        blank: Cell,
        stamp: u64,
        see: impl FnOnce(Slot, &[Cell]),
    ) {
        self.make_ring(&range);
        let index = self.order.get(range.start + self.turned).map_or(usize::MAX, |slot| usize::from(*slot));
        let Some(slot) = self.slots.get_mut(index) else { return };
        let start = index * self.cols;
        // Before the row is cleared: the scrollback takes it from here, without a copy between.
        see(*slot, self.cells.get(start..start + usize::from(slot.len)).unwrap_or(&[]));
        *slot = Slot { changed_at: stamp, ..Slot::default() };
        let len = range.end.wrapping_sub(range.start);
        self.turned = if self.turned + 1 < len { self.turned + 1 } else { 0 };
        self.note_moved(&range);
        // No row at the bottom of the screen goes on below it, but for one that is being wrapped right now.
        if len < self.order.len() {
            self.unwrap_around(&range, range.end - 1, stamp);
        }
        if blank != Cell::BLANK {
            self.fill(range.end - 1, 0..self.cols, blank, stamp);
        }
    }

    /// Moves the rows `range` up by `count`; blank ones come in below.
    pub(crate) fn scroll_up(&mut self, range: Range<usize>, count: usize, blank: Cell, stamp: u64) {
        // `CSI 65535 S` is as much as the whole region.
        let count = count.min(range.len());
        self.rotate(&range, count);
        self.unwrap_around(&range, range.end - count, stamp);
        for row in range.end - count..range.end {
            self.clear_row(row, blank, stamp);
        }
    }

    /// Moves the rows `range` down by `count`; blank ones come in above.
    pub(crate) fn scroll_down(&mut self, range: Range<usize>, count: usize, blank: Cell, stamp: u64) {
        let count = count.min(range.len());
        self.rotate(&range, range.len() - count);
        self.unwrap_around(&range, range.end, stamp);
        for row in range.start..range.start + count {
            self.clear_row(row, blank, stamp);
        }
    }

    fn rotate(&mut self, range: &Range<usize>, count: usize) {
        self.make_ring(range);
        self.note_moved(range);
        self.turned += count;
        if self.turned >= range.len() {
            self.turned -= range.len();
        }
    }

    /// Makes `range` the rows that are a ring, so that they can be turned without moving anything.
    #[inline]
    fn make_ring(&mut self, range: &Range<usize>) {
        // One ring at a time is enough, because a program that scrolls a region does so many times before it takes
        // another.
        if self.ring != *range {
            self.end_ring();
            self.ring = range.clone();
        }
    }

    #[cold]
    fn end_ring(&mut self) {
        if let Some(order) = self.order.get_mut(self.ring.clone()) {
            order.rotate_left(self.turned);
        }
        self.turned = 0;
    }

    /// Ends the lines of the row above `range` and of the last row before `end`.
    #[inline]
    fn unwrap_around(&mut self, range: &Range<usize>, end: usize, stamp: u64) {
        self.unwrap(range.start.wrapping_sub(1), stamp);
        if end > range.start {
            self.unwrap(end - 1, stamp);
        }
    }

    /// Ends the line of a row, because the next row is another one now.
    #[inline]
    pub(crate) fn unwrap(&mut self, row: usize, stamp: u64) {
        if let Some(slot) = self.slot_mut(row)
            && slot.flags & Slot::WRAPPED != 0
        {
            slot.flags &= !Slot::WRAPPED;
            slot.changed_at = stamp;
        }
    }

    #[inline]
    fn note_moved(&mut self, range: &Range<usize>) {
        if range.start < self.moved.start {
            self.moved.start = range.start;
        }
        if range.end > self.moved.end {
            self.moved.end = range.end;
        }
    }

    /// Copies cells within or between rows. Both ranges are as long; halves of wide characters are emptied.
    pub(crate) fn copy(&mut self, from: usize, columns: Range<usize>, to: usize, col: usize, stamp: u64) {
        let columns = columns.start.min(self.cols)..columns.end.min(self.cols);
        let target = col.min(self.cols)..(col + columns.len()).min(self.cols);
        // Out of the row first, because both places may be in one row and overlap.
        let mut taken: Vec<Cell> = columns.clone().map(|column| self.cell(from, column).unfilled()).collect();
        // What is cut at the edges of the source does not arrive as half a character.
        if let Some(first) = taken.first_mut()
            && first.has(Cell::SPACER)
        {
            *first = first.emptied();
        }
        taken.truncate(target.len());
        if let Some(last) = taken.last_mut()
            && last.has(Cell::WIDE)
        {
            *last = last.emptied();
        }
        let to_edge = !target.is_empty() && target.end == self.cols;
        let flags = self.slot(from).flags & (Slot::WIDE | Slot::RICH) | Slot::RICH;
        self.split(to, target.start, stamp);
        self.split(to, target.end, stamp);
        for (cell, new) in self.cells_mut(to, target, stamp).iter_mut().zip(taken) {
            *cell = new;
        }
        if let Some(slot) = self.slot_mut(to) {
            slot.flags |= flags;
            // The last column holds something else now, so the row does not run into the next.
            if to_edge {
                slot.flags &= !Slot::WRAPPED;
            }
        }
    }

    /// Copies columns of one row to the same columns of another. Wide characters across their edges are emptied in both.
    pub(crate) fn copy_columns(&mut self, from: usize, to: usize, columns: Range<usize>, stamp: u64) {
        let columns = columns.start..columns.end.min(self.cols);
        if from.max(to) >= self.rows() {
            return;
        }
        for row in [from, to] {
            self.split(row, columns.start, stamp);
            self.split(row, columns.end, stamp);
        }
        let Slot { len, flags, .. } = self.slot(from);
        // Beyond its end the row is blank, whatever the buffer holds.
        let end = columns.end.min(usize::from(len)).max(columns.start);
        if end < columns.end {
            self.fill(to, end..columns.end, Cell::BLANK, stamp);
        }
        if end == columns.start {
            return;
        }
        let source = self.slot_of(from) * self.cols;
        let target = self.slot_of(to) * self.cols;
        self.cells_mut(to, columns.start..end, stamp);
        self.cells.copy_within(source + columns.start..source + end, target + columns.start);
        if flags & Slot::RICH != 0 {
            for cell in self.cells.get_mut(target + columns.start..target + end).unwrap_or(&mut []) {
                *cell = cell.unfilled();
            }
        }
        if let Some(slot) = self.slot_mut(to) {
            slot.flags |= flags & (Slot::WIDE | Slot::RICH);
        }
    }

    /// Becomes a copy of `other`, which it was before: only rows that changed since are copied.
    pub(crate) fn catch_up(&mut self, other: &Self) {
        if self.cols != other.cols || self.slots.len() != other.slots.len() {
            self.clone_from(other);
            return;
        }
        let rows = self.cells.chunks_mut(self.cols).zip(other.cells.chunks(other.cols));
        for ((slot, new), (cells, new_cells)) in self.slots.iter_mut().zip(&other.slots).zip(rows) {
            // A slot has the generation of its last change, so a row that did not change costs this comparison.
            if slot != new {
                *slot = *new;
                let len = usize::from(new.len);
                if let (Some(cells), Some(new)) = (cells.get_mut(..len), new_cells.get(..len)) {
                    cells.copy_from_slice(new);
                }
            }
        }
        self.order.clone_from(&other.order);
        self.moved_at.clone_from(&other.moved_at);
        (self.ring, self.turned, self.moved) = (other.ring.clone(), other.turned, other.moved.clone());
    }

    /// Yields all cells in use, to find the styles and clusters in use.
    pub(crate) fn used_cells(&self) -> impl Iterator<Item = Cell> {
        // Cells beyond the length of a row hold what was there before. Their styles need not be kept.
        (0..self.rows()).flat_map(|row| self.row(row).iter().copied())
    }

    /// Ends a generation: rows that were moved in it count as changed.
    #[inline]
    pub(crate) fn commit(&mut self, stamp: u64) {
        if !self.moved.is_empty() {
            let range = std::mem::replace(&mut self.moved, NONE_MOVED);
            if let Some(moved) = self.moved_at.get_mut(range) {
                moved.fill(stamp);
            }
        }
    }

    /// Returns the generation of the last change of a row's picture.
    pub(crate) fn changed_at(&self, row: usize) -> u64 {
        self.slot(row).changed_at.max(self.moved_at.get(row).copied().unwrap_or(0))
    }

    /// Puts a row in place.
    pub(crate) fn set_row(&mut self, row: usize, cells: &[Cell], flags: u8, size: u8, stamp: u64) {
        self.clear_row(row, Cell::BLANK, stamp);
        let len = cells.len().min(self.cols);
        for (cell, new) in self.cells_mut(row, 0..len, stamp).iter_mut().zip(cells) {
            *cell = *new;
        }
        if let Some(slot) = self.slot_mut(row) {
            // Nobody has looked at the cells, so they may be anything.
            (slot.flags, slot.size) = (flags | Slot::RICH | Slot::WIDE, size);
        }
    }

    /// Writes ASCII from `col` on, as far as the row goes; wide characters that are cut are emptied.
    #[inline(always)]
    pub(crate) fn write_ascii(&mut self, row: usize, col: usize, run: &[u8], pen: Pen, stamp: u64) {
        let end = col + run.len();
        let index = self.slot_of(row);
        let Some(slot) = self.slots.get(index) else { return };
        // Only a write into a row with wide characters, left of its end, can cut one.
        if slot.may_split(col) {
            self.split_slot(index, col, stamp);
            self.split_slot(index, end, stamp);
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.changed_at = stamp;
        if pen != Pen::default() {
            slot.flags |= Slot::RICH;
        }
        let (base, len) = (index * self.cols, usize::from(slot.len));
        // Before the cells are filled, so that the borrow of the row is over.
        slot.len = slot.len.max(end as u16);
        if col > len
            && let Some(gap) = self.cells.get_mut(base + len..base + col)
        {
            gap.fill(Cell::BLANK);
        }
        match (self.cells.get_mut(base + col..base + end), run) {
            // Single characters are frequent, and what makes long runs fast would only get in their way.
            (Some([cell]), [byte]) => *cell = Cell::new(u32::from(*byte), pen),
            (Some(cells), _) => {
                for (cell, byte) in cells.iter_mut().zip(run) {
                    *cell = Cell::new(u32::from(*byte), pen);
                }
            }
            (None, _) => {}
        }
    }

    /// Returns the cells from `start` to `end` of a row, to be written all or up to where [`Grid::close`] says. Those that
    /// are beyond the row's length hold anything.
    #[inline]
    pub(crate) fn open(
        &mut self,
        row: usize,
        start: usize,
        end: usize,
        rich: bool,
        stamp: u64,
    ) -> &mut [Cell] {
        let index = self.slot_of(row);
        let Some(slot) = self.slots.get(index) else { return &mut [] };
        if slot.may_split(start) {
            self.split_slot(index, start, stamp);
        }
        let Some(slot) = self.slots.get_mut(index) else { return &mut [] };
        slot.changed_at = stamp;
        if rich {
            slot.flags |= Slot::RICH;
        }
        let (base, len) = (index * self.cols, usize::from(slot.len));
        if start > len
            && let Some(gap) = self.cells.get_mut(base + len..base + start)
        {
            gap.fill(Cell::BLANK);
        }
        self.cells.get_mut(base + start..base + end).unwrap_or(&mut [])
    }

    /// Ends what [`Grid::open`] began: the cells up to `end` were written, and the row has `flags` now. The rest of a
    /// wide character that begins before `end` is emptied.
    #[inline]
    pub(crate) fn close(&mut self, row: usize, end: usize, flags: u8) {
        let index = self.slot_of(row);
        let Some(slot) = self.slots.get_mut(index) else { return };
        let were_wide = slot.flags & Slot::WIDE != 0;
        slot.flags |= flags;
        if usize::from(slot.len) <= end {
            slot.len = end as u16;
        } else if were_wide
            && let Some(cell) = self.cells.get_mut(index * self.cols + end)
            // The left half was overwritten just now.
            && cell.has(Cell::SPACER)
        {
            *cell = cell.emptied();
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.order.capacity() * size_of::<u16>()
            + self.moved_at.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(grid: &Grid, row: usize) -> String {
        let shown = |cell: &Cell| char::from_u32(cell.content()).filter(|c| *c != '\0').unwrap_or('.');
        grid.row(row).iter().map(shown).collect()
    }

    #[test]
    fn a_slot_is_sixteen_bytes() {
        assert_eq!(size_of::<Slot>(), 16);
    }

    #[test]
    fn rows_scroll_and_forget() {
        let mut grid = Grid::new(4, 3);
        for row in 0..3 {
            grid.write_ascii(row, 0, &[b'a' + row as u8; 4], Pen::default(), 1);
        }
        grid.scroll_up(0..3, 1, Cell::BLANK, 2);
        grid.commit(2);
        assert_eq!([0, 1, 2].map(|row| text(&grid, row)), ["bbbb", "cccc", ""]);
        grid.write_ascii(2, 2, b"x", Pen::default(), 3);
        assert_eq!(text(&grid, 2), "..x");
        grid.scroll_down(1..3, 9, Cell::BLANK, 4);
        assert_eq!([0, 1, 2].map(|row| text(&grid, row)), ["bbbb", "", ""]);
        assert_eq!((grid.changed_at(0), grid.changed_at(1)), (2, 4));
    }

    #[test]
    fn halves_of_wide_characters_do_not_stay() {
        let mut grid = Grid::new(4, 1);
        let wide = Cell::new(0x6f22, Pen::default());
        grid.set_row(0, &[wide.with(Cell::WIDE), Cell::new(0, Pen::default()).with(Cell::SPACER)], 0, 0, 1);
        grid.write_ascii(0, 1, b"x", Pen::default(), 2);
        assert_eq!(text(&grid, 0), " x");
        assert!(!grid.cell(0, 0).has(Cell::WIDE));
    }

    /// Rows of blanks, letters, fillers and wide characters, all of ten columns or shorter.
    fn cells() -> impl Strategy<Value = Vec<Cell>> {
        let pen = Pen::new(3, false);
        let letter = vec![Cell::new(u32::from('x'), pen)];
        let wide = vec![Cell::new(0x6f22, pen).with(Cell::WIDE), Cell::new(0, pen).with(Cell::SPACER)];
        let one = prop_oneof![
            Just(vec![Cell::BLANK]),
            Just(vec![Cell::BLANK.with(Cell::FILLER)]),
            Just(letter),
            Just(wide)
        ];
        prop::collection::vec(one, 0..6).prop_map(|cells| cells.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn columns_are_copied_as_any_cells_are(from in cells(), to in cells(), start in 0_usize..10, len in 1_usize..10) {
            let mut grid = Grid::new(10, 2);
            // What lies beyond a short row is left over from another one.
            for row in [0, 1] {
                grid.write_ascii(row, 0, b"0123456789", Pen::default(), 1);
            }
            grid.set_row(0, &from, 0, 0, 2);
            grid.set_row(1, &to, 0, 0, 2);
            let (mut other, columns) = (grid.clone(), start..(start + len).min(10));
            other.copy(0, columns.clone(), 1, columns.start, 3);
            grid.copy_columns(0, 1, columns, 3);
            for col in 0..10 {
                prop_assert_eq!(grid.cell(1, col), other.cell(1, col), "column {}", col);
            }
            prop_assert_eq!(grid.slot(1).changed_at, 3);
        }
    }
}
