//! The sanitiser.

use std::collections::VecDeque;

use super::row::Row;
use crate::parser::{Handler, Params, Parser, Sequence};

/// Rows above the last that a program can come back to; it repaints no more than a screen.
const KEPT: usize = 256;
/// Strings that do not end within so many bytes are no strings.
const LONGEST_STRING: usize = 1 << 20;
/// Columns that a cursor can be sent to.
const MOST_COLUMNS: usize = 4096;

/// Effect of a carriage return without a line feed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum CarriageReturn {
    /// The text after it overwrites the line, as on a screen: a progress bar is one line.
    #[default]
    Overwrite,
    /// The text after it is a new line: nothing is lost.
    NewLine,
}

/// Turns raw bytes into text, chunk by chunk.
///
/// It guarantees that
/// - the text has no control characters but newline and tab, and no part of an escape sequence;
/// - no invisible characters reorder or hide text, and invalid UTF-8 becomes U+FFFD;
/// - any chunking gives the same text, and a sequence or character that a chunk ends in waits for the next;
/// - strings that are never terminated (a title, an image) swallow at most the rest of their line, images at most
///   1 MiB;
/// - backspaces, carriage returns and cursor movements read as they look: rows come out when they are left, and
///   again only if they were repainted with something else, so that a spinner is not a thousand lines;
/// - it holds no more than some hundred rows.
///
/// Bytes must begin at a boundary: the tail of a log should be sanitised first and cut then, for
/// the middle of a sequence cannot be told from text.
#[derive(Debug)]
pub struct PlainText {
    parser: Parser,
    screen: Screen,
}

/// Returns the text of a whole output.
#[must_use]
pub fn strip(bytes: &[u8]) -> String {
    let mut plain = PlainText::new();
    let mut text = plain.feed(bytes);
    text += &plain.finish();
    text
}

impl Default for PlainText {
    fn default() -> Self {
        Self::new()
    }
}

impl PlainText {
    /// Creates a sanitiser for a screen of 24 rows.
    #[must_use]
    pub fn new() -> Self {
        Self {
            parser: Parser::new().with_string_recovery(LONGEST_STRING),
            screen: Screen { height: 24, rows: VecDeque::from([Kept::default()]), ..Screen::default() },
        }
    }

    /// Reads carriage returns so.
    #[must_use]
    pub fn with_carriage_return(mut self, policy: CarriageReturn) -> Self {
        self.screen.policy = policy;
        self
    }

    /// Knows the height of the screen that the bytes were written for, which absolute positions refer to.
    #[must_use]
    pub fn with_rows(mut self, rows: u16) -> Self {
        self.screen.height = usize::from(rows).clamp(1, KEPT);
        self
    }

    /// Takes bytes; gives the text of the lines that were finished.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        self.parser.feed(bytes, &mut self.screen);
        std::mem::take(&mut self.screen.out)
    }

    /// Ends the stream and returns the rest, without a line end if the bytes had none.
    pub fn finish(&mut self) -> String {
        // A character that was never finished is one that is broken.
        let mut rest = self.parser.take_incomplete();
        self.screen.chars(&std::mem::take(&mut rest));
        // A cursor above the last row stands in text that has its line end already.
        let fresh = self.screen.at + 1 == self.screen.rows.len();
        self.screen.leave();
        let mut text = std::mem::take(&mut self.screen.out);
        if fresh && text.ends_with('\n') {
            text.pop();
        }
        self.parser = self.parser.fresh();
        let (height, policy) = (self.screen.height, self.screen.policy);
        self.screen = Screen { height, policy, rows: VecDeque::from([Kept::default()]), ..Screen::default() };
        text
    }
}

/// A row, with the text that was emitted for it, if any.
#[derive(Debug, Default)]
struct Kept {
    row: Row,
    said: Option<String>,
}

#[derive(Debug, Default)]
struct Screen {
    rows: VecDeque<Kept>,
    /// The row of the cursor, an index into `rows`.
    at: usize,
    col: usize,
    /// The row that position 1;1 refers to.
    top: usize,
    height: usize,
    policy: CarriageReturn,
    /// A carriage return that may belong to a line feed.
    returned: bool,
    saved: (usize, usize),
    last: Option<char>,
    out: String,
}

impl Screen {
    fn here(&mut self) -> Option<&mut Row> {
        self.rows.get_mut(self.at).map(|kept| &mut kept.row)
    }

    /// Says what the row of the cursor holds, if that is news.
    fn leave(&mut self) {
        if let Some(kept) = self.rows.get_mut(self.at)
            && !kept.row.is_empty()
        {
            let text = kept.row.text();
            // A spinner repaints its row many times with what was there.
            if kept.said.as_ref() != Some(&text) {
                self.out.push_str(&text);
                self.out.push('\n');
                kept.said = Some(text);
            }
        }
    }

    fn go_to_row(&mut self, row: usize) {
        if row == self.at {
            return;
        }
        self.leave();
        while self.rows.len() <= row {
            self.rows.push_back(Kept::default());
        }
        self.at = row;
        self.trim();
    }

    fn trim(&mut self) {
        // Whatever a program repaints is on its screen. What is above can only be left.
        while self.rows.len() > KEPT {
            self.rows.pop_front();
            self.at = self.at.saturating_sub(1);
            self.top = self.top.saturating_sub(1);
        }
        self.top = self.top.max(self.rows.len().saturating_sub(self.height));
    }

    fn line_feed(&mut self) {
        let blank = self.rows.get(self.at).is_some_and(|kept| kept.row.is_empty() && kept.said.is_none());
        // A blank row is text too, once.
        if blank {
            self.out.push('\n');
            if let Some(kept) = self.rows.get_mut(self.at) {
                kept.said = Some(String::new());
            }
        }
        self.go_to_row(self.at + 1);
        self.col = 0;
    }

    fn put(&mut self, c: char) {
        // Only text behind a carriage return shows whether that began a line anew.
        if std::mem::take(&mut self.returned) && self.policy == CarriageReturn::NewLine {
            self.line_feed();
        }
        let col = self.col;
        if let Some(row) = self.here() {
            self.col = row.put(col, c);
        }
        self.last = Some(c);
    }

    fn up(&mut self, count: usize) {
        // The bytes may begin anywhere on a screen: there were rows above the first.
        // Only as many as there can be on the screen, or a program could make rows without end.
        while self.at < count && self.top == 0 && self.rows.len() < self.height {
            self.rows.push_front(Kept::default());
            self.at += 1;
        }
        self.go_to_row(self.at.saturating_sub(count).max(self.top.min(self.at)));
    }

    fn down(&mut self, count: usize) {
        // A cursor moves no further than the screen reaches. Only line feeds make new rows.
        let bottom = (self.top + self.height - 1).max(self.at);
        self.go_to_row((self.at + count).min(bottom));
    }

    fn go_to(&mut self, row: usize, col: usize) {
        self.go_to_row(self.top + row.min(self.height - 1));
        self.col = col.min(MOST_COLUMNS);
    }

    fn erase_rows(&mut self, from: usize, to: usize) {
        for kept in self.rows.iter_mut().take(to).skip(from) {
            // What was said of a row is remembered: the same text painted again is no news.
            kept.row = Row::default();
        }
    }
}

impl Handler for Screen {
    fn ascii(&mut self, run: &[u8]) {
        for byte in run {
            self.put(char::from(*byte));
        }
    }

    fn chars(&mut self, run: &[char]) {
        for &c in run {
            match c {
                // Unicode's line and paragraph separators: a viewer would break the line there.
                '\u{2028}' | '\u{2029}' => self.line_feed(),
                // A joiner belongs between two characters of some scripts and of emoji.
                '\u{200c}' | '\u{200d}' if self.last.is_some_and(|c| !c.is_ascii()) => self.put(c),
                c if is_hidden(c) => {}
                c => self.put(c),
            }
        }
    }

    fn control(&mut self, byte: u8) {
        let returned = std::mem::take(&mut self.returned);
        match byte {
            b'\n' | 0x0b | 0x0c | 0x84 | 0x85 => self.line_feed(),
            b'\r' => (self.col, self.returned) = (0, true),
            0x08 => self.col = self.col.saturating_sub(1),
            b'\t' => {
                let col = self.col;
                if let Some(row) = self.here() {
                    self.col = row.tab(col);
                }
            }
            0x8d => self.up(1),
            _ => self.returned = returned,
        }
    }

    fn csi(&mut self, params: &Params, sequence: Sequence) {
        let count = usize::from(params.value_or(0, 1));
        let col = self.col;
        match (sequence.marks, sequence.last) {
            ([0, 0], b'A') => self.up(count),
            ([0, 0], b'B' | b'e') => self.down(count),
            ([0, 0], b'C' | b'a') => self.col = (col + count).min(MOST_COLUMNS),
            ([0, 0], b'D') => self.col = col.saturating_sub(count),
            ([0, 0], b'E') => {
                self.down(count);
                self.col = 0;
            }
            ([0, 0], b'F') => {
                self.up(count);
                self.col = 0;
            }
            ([0, 0], b'G' | b'`') => self.col = (count - 1).min(MOST_COLUMNS),
            ([0, 0], b'd') => self.go_to(count - 1, col),
            ([0, 0], b'H' | b'f') => self.go_to(count - 1, usize::from(params.value_or(1, 1)) - 1),
            ([0, 0], b's') => self.saved = (self.at, col),
            ([0, 0], b'u') => {
                self.go_to_row(self.saved.0);
                self.col = self.saved.1;
            }
            ([0, 0], b'b') => {
                if let Some(c) = self.last {
                    (0..count.min(MOST_COLUMNS)).for_each(|_| self.put(c));
                }
            }
            ([0, 0], b'J') => {
                let (start, end) = match params.value(0) {
                    0 => (self.at + 1, usize::MAX),
                    1 => (0, self.at),
                    2 => {
                        self.leave();
                        (0, usize::MAX)
                    }
                    _ => return,
                };
                self.erase_rows(start, end);
                if let (0, Some(row)) = (params.value(0), self.here()) {
                    row.erase(col, usize::MAX);
                }
            }
            ([0, 0], b'K') => {
                if let Some(row) = self.here() {
                    match params.value(0) {
                        0 => row.erase(col, usize::MAX),
                        1 => row.erase(0, (col + 1).min(row.len().max(1))),
                        2 => *row = Row::default(),
                        _ => {}
                    }
                }
            }
            ([0, 0], b'X') => {
                if let Some(row) = self.here() {
                    row.erase(col, col + count);
                }
            }
            ([0, 0], b'P') => {
                if let Some(row) = self.here() {
                    row.delete(col, count);
                }
            }
            ([0, 0], b'@') => {
                if let Some(row) = self.here() {
                    row.insert(col, count);
                }
            }
            ([b'?', 0], b'h' | b'l')
                if params.values().iter().any(|mode| matches!(mode, 47 | 1047 | 1049)) =>
            {
                // Another screen: what follows is not on the rows above.
                self.leave();
                if self.rows.back().is_some_and(|kept| kept.said.is_some() || !kept.row.is_empty()) {
                    self.rows.push_back(Kept::default());
                }
                (self.at, self.col) = (self.rows.len() - 1, 0);
                self.top = self.at;
                self.trim();
            }
            _ => {}
        }
    }

    fn esc(&mut self, sequence: Sequence) {
        match (sequence.marks, sequence.last) {
            ([0, 0], b'D' | b'E') => self.line_feed(),
            ([0, 0], b'M') => self.up(1),
            ([0, 0], b'7') => self.saved = (self.at, self.col),
            ([0, 0], b'8') => {
                self.go_to_row(self.saved.0.min(self.rows.len() - 1));
                self.col = self.saved.1;
            }
            _ => {}
        }
    }
}

/// Returns true for characters that show nothing, or change how others are shown.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{115f}'..='\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}
