//! Lines that scrolled off the top, packed: ASCII, two bytes for each cell, or UTF-8, and style runs beside it.
//!
//! Rows that were wrapped are kept as one line, so that a change of the width changes nothing here but how many
//! rows each line makes. Lines live in blocks; the oldest block goes when there are too many lines or bytes.

use std::collections::VecDeque;
use std::ops::Range;

use crate::cells::cell::{COVERED, Cell};
use crate::cells::clusters::Clusters;
use crate::cells::grid::Slot;
use crate::cells::runs::Runs;
use crate::cells::width::Widths;
use crate::draw::spell;

// Large enough that what a block costs besides its lines is little, small enough that the scrollback shrinks in small
// steps.
const BLOCK: usize = 32 << 10;
/// Cells that one stored line may have before the rest becomes the next one.
const MAX_LINE: usize = 16 << 10;
/// Comes before a cluster in the text, then its length and width.
const CLUSTER: u8 = 1;
/// Comes before cells of two bytes each in the text, then their count.
const PAIRS: u8 = 2;

/// A packed line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Entry {
    /// End of the line in the block's text and runs. It begins at the end of the line before.
    text_end: u32,
    runs_end: u32,
    cells: u16,
    /// Rows that it makes at the current width.
    rows: u16,
    flags: u8,
}

/// Whether a line ends with its row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RowEnd {
    /// The line ends here, too.
    Line,
    /// The line goes on in the next row.
    Wrapped,
    /// The line goes on although this row is not full: it is longer than what is kept as one line, and was laid out anew.
    Parted,
}

const WIDE: u8 = 1;
/// The line goes on in the next entry, or on the screen.
const OPEN: u8 = 2;
/// It ends before the last column, for a wide character did not fit there.
const FILLED: u8 = 4;
// The rest are the marks of a slot.

#[derive(Debug, Default)]
struct Block {
    text: Vec<u8>,
    runs: Runs,
    entries: Vec<Entry>,
    /// Rows that the entries make at the current width.
    rows: usize,
    /// The last row that was not simple is in pairs.
    pairs: bool,
}

/// The scrollback.
#[derive(Debug)]
pub(crate) struct History {
    /// Full blocks, oldest first.
    blocks: VecDeque<Block>,
    /// The block that is written to; empty only if there is no other.
    current: Block,
    spare: Option<Block>,
    cols: usize,
    rows: usize,
    /// Rows that were dropped, or had their numbers taken by [`renumber`](Self::renumber).
    gone: u64,
    max_rows: usize,
    max_bytes: usize,
    bytes: usize,
}

impl History {
    pub(crate) fn new(cols: usize, max_rows: usize, max_bytes: usize) -> Self {
        Self {
            blocks: VecDeque::new(),
            current: Block::default(),
            spare: None,
            cols,
            rows: 0,
            gone: 0,
            max_rows,
            max_bytes,
            bytes: 0,
        }
    }

    /// Returns the number of rows that the lines take at the current width.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.rows.min(self.max_rows)
    }

    /// Returns true if the next push continues the last line.
    pub(crate) fn is_open(&self) -> bool {
        self.current.entries.last().is_some_and(|entry| entry.flags & OPEN != 0)
    }

    /// Ends the last line, so that the next push begins another.
    pub(crate) fn end_line(&mut self) {
        if let Some(entry) = self.current.entries.last_mut() {
            entry.flags &= !OPEN;
        }
    }

    /// Appends a row with its marks, which is `simple` if there is but ASCII in the default style.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        cells: &[Cell],
        wrapped: bool,
        marks: u8,
        simple: bool,
        clusters: &Clusters,
    ) {
        // Lines have numbers also where none is kept.
        if self.max_rows == 0 {
            self.gone += 1;
            return;
        }
        // A line that wrapped goes on in its entry, so that it is one line at any width.
        let joined = self.current.can_join(cells.len());
        if !joined && self.current.is_full() {
            self.close_block();
        }
        let flags = marks | if wrapped { OPEN } else { 0 };
        // Most lines of a log: no runs, no clusters, a byte a cell.
        if simple && !joined {
            self.current.push_simple(cells, flags);
        } else {
            self.current.push(cells, flags, simple, joined, clusters);
        }
        self.current.rows += 1;
        self.rows += 1;
    }

    #[cold]
    fn close_block(&mut self) {
        let mut block = std::mem::take(&mut self.current);
        // Nothing is added to it any more. Room for growth would be lost for as long as the block is kept.
        block.text.shrink_to_fit();
        block.runs.shrink_to_fit();
        block.entries.shrink_to_fit();
        self.bytes += block.memory();
        self.blocks.push_back(block);
        // A block goes when nothing of it can be seen any more, or for want of room.
        while let Some(front) = self.blocks.front() {
            if self.rows - front.rows < self.max_rows && self.bytes <= self.max_bytes {
                break;
            }
            self.drop_block();
        }
        // The buffers of the block that was dropped have grown to the size that this one will need.
        self.current = self.spare.take().unwrap_or_default();
    }

    fn drop_block(&mut self) {
        if let Some(mut block) = self.blocks.pop_front() {
            self.rows -= block.rows;
            self.gone += block.rows as u64;
            self.bytes = self.bytes.saturating_sub(block.memory());
            block.text.clear();
            block.runs.clear();
            block.entries.clear();
            block.rows = 0;
            // Kept for the next block, because a full scrollback drops one for each that it begins.
            self.spare = Some(block);
        }
    }

    /// Forgets everything, and gives the memory back.
    pub(crate) fn clear(&mut self) {
        // The count goes on, because a number must never name another line.
        let gone = self.numbers().end;
        *self = Self { gone, ..Self::new(self.cols, self.max_rows, self.max_bytes) };
    }

    /// Returns the numbers of the rows, counted from the first that was ever pushed.
    pub(crate) fn numbers(&self) -> Range<u64> {
        let end = self.gone + self.rows as u64;
        end - self.rows() as u64..end
    }

    /// Gives all rows numbers from `first` on, as their layout changed.
    pub(crate) fn renumber(&mut self, first: u64) {
        self.gone = first;
    }

    /// Gives all rows numbers up to `end`, which is that of the next row.
    pub(crate) fn renumber_until(&mut self, end: u64) {
        self.gone = end.saturating_sub(self.rows as u64);
    }

    /// Counts rows at another width.
    pub(crate) fn set_cols(&mut self, cols: usize) {
        if cols == self.cols {
            return;
        }
        self.cols = cols;
        self.rows = 0;
        for block in self.blocks.iter_mut().chain([&mut self.current]) {
            block.rows = 0;
            for index in 0..block.entries.len() {
                // Rows are only counted. The text is wrapped when somebody reads it, so a resize costs little however
                // long the scrollback is.
                let rows = block.count_rows(index, cols);
                block.rows += rows;
                if let Some(entry) = block.entries.get_mut(index) {
                    entry.rows = rows as u16;
                }
            }
            self.rows += block.rows;
        }
    }

    /// Takes the newest line away and gives its cells, whether it goes on, and its marks.
    pub(crate) fn pop(&mut self, clusters: &mut Clusters) -> Option<(Vec<Cell>, bool, u8)> {
        let block = &mut self.current;
        let last = block.entries.len().checked_sub(1)?;
        let rows = block.rows_of(last);
        let mut cells = Vec::new();
        block.unpack(last, clusters, &mut cells);
        let (text, runs) = block.start(last);
        let entry = block.entries.pop()?;
        block.text.truncate(text);
        block.runs.truncate(runs);
        block.rows = block.rows.saturating_sub(rows);
        self.rows = self.rows.saturating_sub(rows);
        if block.entries.is_empty()
            && let Some(block) = self.blocks.pop_back()
        {
            self.bytes = self.bytes.saturating_sub(block.memory());
            self.current = block;
        }
        Some((cells, entry.flags & OPEN != 0, entry.flags & Slot::ANY_MARK))
    }

    /// Calls `see` with the cells of each of the rows from `start` on, and how it ends, until `count` are seen.
    pub(crate) fn for_each_row(
        &self,
        start: usize,
        count: usize,
        mut see: impl FnMut(&Clusters, &[Cell], RowEnd),
    ) {
        // Blocks are dropped as a whole, so there are mostly some rows more than the limit allows to be seen.
        let hidden = self.rows - self.rows();
        let (mut skip, mut left, mut cells) = (start.saturating_add(hidden), count, Vec::new());
        let clusters = &mut Clusters::default();
        for block in self.blocks.iter().chain([&self.current]) {
            if left == 0 {
                return;
            }
            // Whole blocks, and then whole lines, are passed over without unpacking them.
            if skip >= block.rows {
                skip -= block.rows;
                continue;
            }
            for index in 0..block.entries.len() {
                let rows = block.rows_of(index);
                if skip >= rows {
                    skip -= rows;
                    continue;
                }
                block.unpack(index, clusters, &mut cells);
                let flags = block.entries.get(index).map_or(0, |entry| entry.flags);
                let mut rest = &cells[..];
                for row in 0..rows {
                    let (head, tail) = split_row(rest, self.cols);
                    rest = tail;
                    if skip > 0 {
                        skip -= 1;
                    } else if left > 0 {
                        let is_short = head.len() + usize::from(flags & FILLED != 0) < self.cols;
                        let end = match row + 1 < rows {
                            true => RowEnd::Wrapped,
                            false if flags & OPEN == 0 => RowEnd::Line,
                            false if is_short => RowEnd::Parted,
                            false => RowEnd::Wrapped,
                        };
                        see(clusters, head, end);
                        left -= 1;
                    }
                }
            }
        }
    }

    /// Yields the marks of each row that has some.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (usize, u8)> {
        let hidden = self.rows - self.rows();
        let entries = self.blocks.iter().chain([&self.current]).flat_map(|block| &block.entries);
        let rows = entries.scan(0, |next, entry| {
            let row = *next;
            *next += usize::from(entry.rows);
            Some((row, entry.flags & Slot::ANY_MARK))
        });
        rows.filter_map(move |(row, marks)| Some((row.checked_sub(hidden).filter(|_| marks != 0)?, marks)))
    }

    /// Marks the styles in use.
    pub(crate) fn mark_styles(&self, used: &mut [bool]) {
        for style in self.blocks.iter().chain([&self.current]).flat_map(|block| block.runs.styles()) {
            if let Some(used) = used.get_mut(style as usize) {
                *used = true;
            }
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes
            + self.current.memory()
            + self.spare.as_ref().map_or(0, Block::memory)
            + self.blocks.capacity() * size_of::<Block>()
    }
}

impl Block {
    /// Pushes a line of its own, of ASCII in the default style.
    #[inline]
    fn push_simple(&mut self, cells: &[Cell], flags: u8) {
        match cells {
            [] => {}
            [cell] => self.text.push(cell.content() as u8),
            _ => self.text.extend(cells.iter().map(|cell| cell.content() as u8)),
        }
        let (text_end, runs_end) = (self.text.len() as u32, self.runs.len() as u32);
        self.entries.push(Entry { text_end, runs_end, cells: cells.len() as u16, rows: 1, flags });
    }

    fn push(&mut self, row: &[Cell], mut flags: u8, simple: bool, joined: bool, clusters: &Clusters) {
        // A filler is not stored, for it comes back where the line is wrapped.
        let cells = match row {
            [rest @ .., last] if flags & OPEN != 0 && last.has(Cell::FILLER) => rest,
            _ => row,
        };
        if joined {
            self.keep_filler(cells);
        }
        if simple {
            self.text.extend(cells.iter().map(|cell| cell.content() as u8));
            // A line without runs is all in the default style; a joined one may have some already.
            let (_, runs) = self.start(self.entries.len().saturating_sub(1));
            if joined && self.runs.len() > runs {
                self.push_runs(cells);
            }
        } else {
            let wide = self.push_rich(cells, joined, clusters) || cells.len() < row.len();
            flags |= if wide { WIDE } else { 0 };
        }
        flags |= if cells.len() < row.len() { FILLED } else { 0 };
        let cells = cells.len() as u16;
        let (text_end, runs_end) = (self.text.len() as u32, self.runs.len() as u32);
        match self.entries.last_mut() {
            Some(entry) if joined => {
                *entry = Entry {
                    text_end,
                    runs_end,
                    cells: entry.cells + cells,
                    rows: entry.rows + 1,
                    flags: entry.flags & !(OPEN | FILLED) | flags,
                };
            }
            _ => self.entries.push(Entry { text_end, runs_end, cells, rows: 1, flags }),
        }
    }

    /// Stores the filler of the row before after all, where the wide character that it made room for is not there any
    /// more.
    fn keep_filler(&mut self, next: &[Cell]) {
        let (_, runs) = self.start(self.entries.len().saturating_sub(1));
        let starts_wide = next.first().is_some_and(|cell| cell.has(Cell::WIDE));
        let Some(entry) = self.entries.last_mut().filter(|entry| entry.flags & FILLED != 0 && !starts_wide)
        else {
            return;
        };
        entry.cells += 1;
        self.text.push(b' ');
        if self.runs.len() > runs {
            self.push_run(0, 1);
        }
    }

    /// Pushes cells of any kind. Returns true if characters of two columns are among them.
    fn push_rich(&mut self, cells: &[Cell], joined: bool, clusters: &Clusters) -> bool {
        // Most rows are like the one before, and to look at the cells first takes as long as to store them.
        let start = self.text.len();
        let packed = self.pairs.then(|| self.push_pairs(cells));
        let all = packed.unwrap_or_else(|| cells.iter().fold(Cell::BLANK, |all, cell| all.union(*cell)));
        let wide = all.has(Cell::SPACER | Cell::FILLER);
        let fits = !all.has(Cell::CLUSTER) && all.content() <= 0xffff;
        self.pairs = fits && (wide || all.content() >= 0x80);
        if !self.pairs {
            // The guess was wrong, and is taken back.
            self.text.truncate(start);
            if fits {
                self.text.extend(cells.iter().map(|cell| cell.content() as u8));
            } else {
                self.push_utf8(cells, clusters);
            }
        } else if packed.is_none() {
            self.push_pairs(cells);
        }

        let (_, runs) = self.start(self.entries.len().saturating_sub(1));
        let has_runs = joined && self.runs.len() > runs;
        let styled = all.style() != 0;
        // The line had no runs yet, so its beginning is in the default style.
        if styled && joined && !has_runs {
            let before = self.entries.last().map_or(0, |entry| usize::from(entry.cells));
            self.push_run(0, before);
        }
        if styled || has_runs {
            self.push_runs(cells);
        }
        wide
    }

    /// Pushes two bytes for each cell, which is quick where characters are not ASCII. Returns every bit that is
    /// in one of the cells.
    #[inline(always)]
    fn push_pairs(&mut self, cells: &[Cell]) -> Cell {
        let [low, high] = (cells.len() as u16).to_le_bytes();
        self.text.extend([PAIRS, low, high]);
        let start = self.text.len();
        self.text.resize(start + 2 * cells.len(), 0);
        let pairs = self.text.get_mut(start..).unwrap_or(&mut []).as_chunks_mut().0;
        // Eight at a time become what the processor does at once.
        let ((eights, cells), (slots, pairs)) = (cells.as_chunks::<8>(), pairs.as_chunks_mut::<8>());
        let mut two = [Cell::BLANK; 2];
        for (slots, cells) in slots.iter_mut().zip(eights) {
            *slots = cells.map(Cell::pair);
            for pair in cells.as_chunks::<2>().0 {
                two = [two[0].union(pair[0]), two[1].union(pair[1])];
            }
        }
        let mut all = two[0].union(two[1]);
        for (slot, cell) in pairs.iter_mut().zip(cells) {
            *slot = cell.pair();
            all = all.union(*cell);
        }
        all
    }

    fn push_utf8(&mut self, cells: &[Cell], clusters: &Clusters) {
        // Most cells have no more than four bytes. Room is looked for once, and not for each of them.
        self.text.reserve(4 * cells.len());
        for cell in cells.iter().filter(|cell| !cell.has(Cell::SPACER)) {
            if cell.has(Cell::CLUSTER) {
                // The text itself, not the number: clusters on the screen are forgotten when the screen has them no
                // more. A cluster has at most 64 bytes, so its length fits into one.
                let text = clusters.text(cell.content());
                let width = if cell.has(Cell::WIDE) { 2 } else { 1 };
                self.text.extend([CLUSTER, text.len().min(255) as u8, width]);
                self.text.extend_from_slice(text.as_bytes());
            } else if cell.content() < 0x80 {
                self.text.push(cell.content() as u8);
            } else {
                let c = char::from_u32(cell.content()).unwrap_or(char::REPLACEMENT_CHARACTER);
                spell::push_char(c, &mut self.text);
            }
        }
    }

    fn push_runs(&mut self, cells: &[Cell]) {
        for run in cells.chunk_by(|a, b| a.style() == b.style()) {
            self.push_run(run.first().map_or(0, |cell| cell.style()), run.len());
        }
    }

    fn push_run(&mut self, style: u32, mut cells: usize) {
        while cells > 0 {
            // The length of a run is one byte. Longer runs are several.
            let count = cells.min(255);
            self.runs.push(style, count as u8);
            cells -= count;
        }
    }

    fn is_full(&self) -> bool {
        self.text.len() >= BLOCK || self.runs.len() >= BLOCK / 4 || self.entries.len() >= BLOCK / 32
    }

    /// Returns the beginning of an entry's text and runs.
    fn start(&self, index: usize) -> (usize, usize) {
        let before = index.checked_sub(1).and_then(|index| self.entries.get(index));
        before.map_or((0, 0), |entry| (entry.text_end as usize, entry.runs_end as usize))
    }

    #[inline]
    fn can_join(&self, cells: usize) -> bool {
        // A bound for lines that never end, such as a file without line feeds: each read unpacks a line as a whole.
        let last = self.entries.last();
        last.is_some_and(|entry| entry.flags & OPEN != 0 && usize::from(entry.cells) + cells <= MAX_LINE)
    }

    #[inline]
    fn rows_of(&self, index: usize) -> usize {
        self.entries.get(index).map_or(0, |entry| usize::from(entry.rows))
    }

    /// Counts the rows that an entry makes.
    fn count_rows(&self, index: usize, cols: usize) -> usize {
        let Some(entry) = self.entries.get(index) else { return 0 };
        let cells = usize::from(entry.cells);
        if cells <= cols {
            return 1;
        }
        // Without wide characters the line breaks at equal distances.
        if entry.flags & WIDE == 0 {
            return cells.div_ceil(cols);
        }
        let (mut rows, mut col) = (1, 0);
        self.for_each_character(index, |_, width| {
            if col + width > cols && col > 0 {
                (rows, col) = (rows + 1, 0);
            }
            // On a screen of one column a wide character still takes a row.
            col += width.min(cols);
        });
        rows
    }

    /// Calls `see` with each character or cluster and its width.
    fn for_each_character(&self, index: usize, mut see: impl FnMut(Character<'_>, usize)) {
        let (start, _) = self.start(index);
        let end = self.entries.get(index).map_or(start, |entry| entry.text_end as usize);
        let widths = Widths::table();
        let mut rest = self.text.get(start..end).unwrap_or(&[]);
        while let Some((&first, tail)) = rest.split_first() {
            // Neither 1 nor 2 is ever printed, so they can stand for what follows.
            if first == CLUSTER {
                let [len, width, tail @ ..] = tail else { return };
                let Some((text, tail)) = tail.split_at_checked(usize::from(*len)) else { return };
                see(Character::Cluster(str::from_utf8(text).unwrap_or("\u{fffd}")), usize::from(*width));
                rest = tail;
            } else if first == PAIRS {
                let [low, high, tail @ ..] = tail else { return };
                let len = usize::from(u16::from_le_bytes([*low, *high])) * 2;
                let Some((pairs, tail)) = tail.split_at_checked(len) else { return };
                let pairs = pairs.as_chunks::<2>().0;
                let code = |index: usize| pairs.get(index).map(|pair| u16::from_le_bytes(*pair));
                for (index, code_here) in pairs.iter().map(|pair| u16::from_le_bytes(*pair)).enumerate() {
                    if code_here != COVERED {
                        let c = char::from_u32(u32::from(code_here)).unwrap_or(char::REPLACEMENT_CHARACTER);
                        see(Character::Single(c), 1 + usize::from(code(index + 1) == Some(COVERED)));
                    }
                }
                rest = tail;
            } else if first < 0x80 {
                see(Character::Single(char::from(first)), 1);
                rest = tail;
            } else {
                let len = if first < 0xe0 {
                    2
                } else if first < 0xf0 {
                    3
                } else {
                    4
                };
                let Some((text, tail)) = rest.split_at_checked(len) else { return };
                let c = str::from_utf8(text).ok().and_then(|text| text.chars().next());
                let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
                see(Character::Single(c), widths.of(c).columns().max(1));
                rest = tail;
            }
        }
    }

    fn unpack(&self, index: usize, clusters: &mut Clusters, cells: &mut Vec<Cell>) {
        use crate::cells::cell::Pen;
        cells.clear();
        let (_, start) = self.start(index);
        let end = self.entries.get(index).map_or(start, |entry| entry.runs_end as usize);
        self.for_each_character(index, |character, width| {
            let cell = match character {
                Character::Single(c) => Cell::new(u32::from(c), Pen::default()),
                Character::Cluster(text) => clusters.cell(text, Pen::default()),
            };
            if width == 2 {
                cells.extend([cell.with(Cell::WIDE), Cell::BLANK.with(Cell::SPACER)]);
            } else {
                cells.push(cell);
            }
        });
        // Styles come last: most lines have none.
        let mut rest = cells.iter_mut();
        self.runs.for_each(start, end, |style, count| {
            for cell in rest.by_ref().take(count) {
                *cell = cell.with_style(style);
            }
        });
    }

    fn memory(&self) -> usize {
        self.text.capacity() + self.runs.memory() + self.entries.capacity() * size_of::<Entry>()
    }
}

enum Character<'a> {
    Single(char),
    Cluster(&'a str),
}

/// Splits off the cells that fit into one row of `cols`, and the rest. A wide character is not divided, unless it is wider
/// than the row.
pub(crate) fn split_row(cells: &[Cell], cols: usize) -> (&[Cell], &[Cell]) {
    let mut end = cols.min(cells.len());
    if cells.get(end).is_some_and(|cell| cell.has(Cell::SPACER)) {
        if end <= 1 {
            return (cells.get(..1).unwrap_or(cells), cells.get(2..).unwrap_or(&[]));
        }
        end -= 1;
    }
    cells.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_much_of_is_small() {
        assert_eq!(size_of::<Entry>(), 16);
    }
}
