//! The reference implementation of [`Terminal`], which shows plain text.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::escapes::Escapes;
use super::{Cursor, Generation, Line, Run, RunKind, Size, Snapshot, Style, Terminal};

const TAB: u16 = 8;

/// Terminal that shows text and understands line feed, carriage return, backspace, tab and wrapping.
///
/// Escape sequences are recognised and swallowed, every character is one column wide, lines keep their breaks when
/// the width changes, and queries are not answered. Sessions work, and can be tested, with this terminal alone. It is
/// also the smallest example of an implementation of [`Terminal`].
#[derive(Debug)]
pub struct PlainTerminal {
    size: Size,
    rows: VecDeque<Row>,
    cursor: Cursor,
    pending_wrap: bool,
    scrollback: VecDeque<Line>,
    /// Number of the oldest line in `scrollback`.
    first: u64,
    scrollback_bytes: usize,
    max_lines: usize,
    max_bytes: usize,
    escapes: Escapes,
    incomplete: Vec<u8>,
    generation: u64,
    dirty: bool,
    last: Option<Arc<Snapshot>>,
}

#[derive(Debug, Default)]
struct Row {
    chars: Vec<char>,
    wrapped: bool,
    line: Option<Arc<Line>>,
}

impl PlainTerminal {
    /// Creates a blank terminal that retains at most 1,000 lines and 1 MiB of scrollback.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self {
            size,
            rows: (0..size.rows()).map(|_| Row::default()).collect(),
            cursor: Cursor::default(),
            pending_wrap: false,
            scrollback: VecDeque::new(),
            first: 0,
            scrollback_bytes: 0,
            max_lines: 1_000,
            max_bytes: 1 << 20,
            escapes: Escapes::default(),
            incomplete: Vec::new(),
            generation: 0,
            dirty: false,
            last: None,
        }
    }

    /// Limits the scrollback to `lines` lines and about `bytes` bytes of memory.
    #[must_use]
    pub fn with_scrollback(mut self, lines: usize, bytes: usize) -> Self {
        (self.max_lines, self.max_bytes) = (lines, bytes);
        self.trim_scrollback();
        self
    }

    fn text(&mut self, text: &str) {
        // Escapes come first: controls within a sequence still act, as on a real terminal.
        for c in text.chars() {
            match self.escapes.pass(c) {
                None => {}
                // Terminals take vertical tab and form feed for line feeds.
                Some('\n' | '\u{b}' | '\u{c}') => self.line_feed(),
                Some('\r') => self.move_to(0),
                Some('\u{8}') => self.move_to(self.cursor.col.saturating_sub(1)),
                Some('\t') => {
                    // A tab stops at the last column and never wraps.
                    let stop = (self.cursor.col / TAB).saturating_add(1).saturating_mul(TAB);
                    self.move_to(stop.min(self.size.cols() - 1));
                }
                // Bell and the like have nothing to show.
                Some(c) if c.is_control() => {}
                Some(c) => self.print(c),
            }
        }
    }

    fn print(&mut self, c: char) {
        // A line wraps when the next character arrives, not when the last column is written, so that a line that fits
        // exactly is followed by no empty one.
        if self.pending_wrap {
            if let Some(row) = self.touch() {
                row.wrapped = true;
            }
            self.line_feed();
            self.move_to(0);
        }
        let col = usize::from(self.cursor.col);
        if let Some(row) = self.touch() {
            if row.chars.len() <= col {
                // Rows are stored only as far as they were written.
                row.chars.resize(col + 1, ' ');
            }
            if let Some(cell) = row.chars.get_mut(col) {
                *cell = c;
            }
        }
        if self.cursor.col + 1 < self.size.cols() {
            self.cursor.col += 1;
        } else {
            self.pending_wrap = true;
        }
    }

    fn move_to(&mut self, col: u16) {
        self.cursor.col = col;
        self.pending_wrap = false;
        self.dirty = true;
    }

    fn line_feed(&mut self) {
        self.pending_wrap = false;
        self.dirty = true;
        if self.cursor.row + 1 < self.size.rows() {
            self.cursor.row += 1;
        } else {
            self.scroll();
            self.rows.push_back(Row::default());
        }
    }

    /// Moves the top row into the scrollback.
    fn scroll(&mut self) {
        if let Some(mut row) = self.rows.pop_front() {
            let line = row.render();
            // Dropped first, so that the line below has one owner and need not be copied.
            drop(row);
            self.scrollback_bytes += bytes_of(&line);
            self.scrollback.push_back(Arc::unwrap_or_clone(line));
            self.trim_scrollback();
        }
        self.dirty = true;
    }

    fn trim_scrollback(&mut self) {
        while self.scrollback.len() > self.max_lines || self.scrollback_bytes > self.max_bytes {
            let Some(line) = self.scrollback.pop_front() else { return };
            self.scrollback_bytes -= bytes_of(&line);
            self.first += 1;
        }
    }

    /// Returns the row of the cursor and marks it as changed.
    fn touch(&mut self) -> Option<&mut Row> {
        self.dirty = true;
        let row = self.rows.get_mut(usize::from(self.cursor.row))?;
        // The next snapshot renders it again. All other rows go on sharing the lines of the last one.
        row.line = None;
        Some(row)
    }

    fn commit(&mut self) {
        if mem::take(&mut self.dirty) {
            // Once for each call, however much of the screen changed.
            self.generation += 1;
        }
    }
}

impl Row {
    fn render(&mut self) -> Arc<Line> {
        let (chars, wrapped) = (&self.chars, self.wrapped);
        Arc::clone(self.line.get_or_insert_with(|| {
            let text: String = chars.iter().collect();
            let run = Run {
                style: Style::default(),
                bytes: u32::try_from(text.len()).unwrap_or(u32::MAX),
                // A row is never wider than the screen, and the width of a screen is a `u16`.
                columns: u16::try_from(chars.len()).unwrap_or(u16::MAX),
                link: 0,
                kind: RunKind::Narrow,
            };
            Arc::new(Line::new(text, if run.bytes == 0 { vec![] } else { vec![run] }, wrapped))
        }))
    }
}

impl Terminal for PlainTerminal {
    fn feed(&mut self, bytes: &[u8]) {
        // The output is read in arbitrary chunks, which can end within a character.
        let mut joined = mem::take(&mut self.incomplete);
        // Most chunks end between characters and are used as they are.
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text(chunk.valid());
            let invalid = chunk.invalid();
            let incomplete = str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            // Only at the very end can more bytes complete it.
            if incomplete && chunks.peek().is_none() {
                self.incomplete = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.text("\u{fffd}");
            }
        }
        self.commit();
    }

    fn resize(&mut self, size: Size) {
        // A resize that changes nothing must not raise the generation.
        if size == self.size {
            return;
        }
        let rows = usize::from(size.rows());
        // Rows leave at the top, as the cursor has to stay on the screen.
        while self.rows.len() > rows && self.cursor.row >= size.rows() {
            self.scroll();
            self.cursor.row -= 1;
        }
        // The cursor is on the screen by now, so only rows below it can go.
        self.rows.resize_with(rows, Row::default);
        for row in &mut self.rows {
            row.chars.truncate(usize::from(size.cols()));
            row.line = None;
        }
        self.size = size;
        self.move_to(self.cursor.col.min(size.cols() - 1));
        self.commit();
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        // The same snapshot, not an equal one: followers compare pointers first.
        if let Some(last) = &self.last
            && last.generation.0 == self.generation
        {
            return Arc::clone(last);
        }
        let lines = self.rows.iter_mut().map(Row::render).collect();
        let mut snapshot = Snapshot::new(self.size, lines, self.cursor, Generation(self.generation));
        snapshot.scrollback = self.scrollback_numbers();
        Arc::clone(self.last.insert(Arc::new(snapshot)))
    }

    fn scrollback_numbers(&self) -> Range<u64> {
        self.first..self.first + self.scrollback.len() as u64
    }

    fn renumber_scrollback(&mut self, end: u64) {
        self.first = end.saturating_sub(self.scrollback.len() as u64);
        self.dirty = true;
        self.commit();
    }

    fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        let numbered = (self.first..).zip(&self.scrollback);
        numbered.filter(|(number, _)| range.contains(number)).map(|(_, line)| line.clone()).collect()
    }
}

fn bytes_of(line: &Line) -> usize {
    // With the line itself, so that a flood of empty lines is bounded by bytes too.
    size_of::<Line>() + line.text().len() + line.runs().count() * size_of::<Run>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(size: Size, bytes: &str) -> String {
        let mut terminal = PlainTerminal::new(size);
        terminal.feed(bytes.as_bytes());
        terminal.snapshot().text()
    }

    #[test]
    fn text_is_laid_out_as_on_a_teletype() {
        let size = Size::new(10, 3);
        assert_eq!(shown(size, "10%\r20%"), "20%");
        assert_eq!(shown(size, "a\tb\u{8}c"), "a       c");
        assert_eq!(shown(size, "0123456789abc\r\nd"), "0123456789\nabc\nd");
        assert_eq!(shown(size, "1\r\n2\r\n3\r\n4"), "2\n3\n4");
        assert_eq!(shown(size, "\x1b[31mred\x1b]0;title\x07!\x1bP1$r\x1b\\?\x1b(B."), "red!?.");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_and_split_characters_joined() {
        let mut terminal = PlainTerminal::new(Size::default());
        for byte in "é▐\u{1f525}".as_bytes() {
            terminal.feed(&[*byte]);
        }
        terminal.feed(b"\xff\xe2\x96!");
        assert_eq!(terminal.snapshot().text(), "é▐\u{1f525}\u{fffd}\u{fffd}!");
    }

    #[test]
    fn scrollback_keeps_the_newest_lines() {
        let mut terminal = PlainTerminal::new(Size::new(10, 1)).with_scrollback(2, 1 << 10);
        terminal.feed(b"1\r\n2\r\n3\r\n4");
        let texts: Vec<_> = terminal.scrollback(0..9).iter().map(|line| line.text().to_owned()).collect();
        assert_eq!(texts, ["2", "3"]);
    }

    #[test]
    fn narrow_and_low_screens_keep_the_row_of_the_cursor() {
        let mut terminal = PlainTerminal::new(Size::new(10, 3));
        terminal.feed(b"one\r\ntwo\r\nthree");
        terminal.resize(Size::new(2, 1));
        assert_eq!(terminal.snapshot().text(), "th");
        assert_eq!(terminal.snapshot().scrollback, 0..2);
    }
}
