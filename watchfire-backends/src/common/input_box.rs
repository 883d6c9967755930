//! Reads an agent's input box off its screen: a frame, a mark in its first row, and the text behind the mark.

use std::ops::Range;

use watchfire_core::backend::InputBox;
use watchfire_core::terminal::{Attributes, Cell, Line, Snapshot};

/// The look of an input box: characters that begin the lines of its frame, after blanks.
pub(crate) struct Frame {
    pub(crate) top: char,
    pub(crate) bottom: char,
    /// Prompt in front of the text in the first row.
    pub(crate) mark: char,
    /// Character that begins every row of text.
    pub(crate) bar: Option<char>,
    /// Beginnings of the hints in an empty box, if these are not dim.
    pub(crate) hints: &'static [&'static str],
}

/// Shortest line that counts as part of a frame, in characters.
const FRAME: usize = 8;

impl Frame {
    /// Reads the lowest frame on the screen, if its first row has the mark.
    pub(crate) fn read(&self, screen: &Snapshot) -> InputBox {
        let is = |row: u16, c: char| {
            let text = at_the_left(screen.row_text(row));
            text.starts_with(c) && text.chars().count() >= FRAME
        };
        // From below, where the input is: output above it may draw frames too.
        let Some(bottom) = (0..screen.size.rows()).rev().find(|row| is(*row, self.bottom)) else {
            return InputBox::Absent;
        };
        let Some(top) = (0..bottom).rev().find(|row| is(*row, self.top)) else { return InputBox::Absent };
        let first = screen.row_text(top + 1);
        let inner =
            self.bar.map_or(Some(first), |bar| first.trim_start().strip_prefix(bar)).unwrap_or_default();
        // The first row of a scrolled box has no mark. Its frame says how many rows are above.
        let frame = screen.row_text(top);
        let scrolled = frame.contains('↑') && frame.contains(" more ");
        let column = match inner.trim_start().starts_with(self.mark) {
            true => column(first, self.mark),
            false if scrolled => 1,
            false => return InputBox::Absent,
        };
        self.inside(text(screen, top + 1..bottom, column, self.hints))
    }

    /// Removes the right side of the frame, and a cursor that is drawn as a letter.
    fn inside(&self, read: InputBox) -> InputBox {
        let (Some(bar), InputBox::Holds(text)) = (self.bar, &read) else { return read };
        let lines = text.lines().map(|line| line.trim_end().trim_end_matches(bar).trim_end());
        let text = lines.collect::<Vec<_>>().join("\n");
        InputBox::Holds(text.strip_suffix('▋').unwrap_or(&text).to_owned())
    }
}

/// Returns a row without one leading blank. Typed text is indented further, so it is not taken for a frame.
fn at_the_left(row: &str) -> &str {
    row.strip_prefix(' ').unwrap_or(row)
}

/// Returns the column behind the first `mark` in a row. Columns and characters are the same up to there.
fn column(row: &str, mark: char) -> usize {
    row.chars().position(|c| c == mark).map_or(0, |at| at + 1)
}

/// Returns the text in `rows` from `column` on, without hints: those look dim, or begin like one of `hints`.
pub(crate) fn text(screen: &Snapshot, rows: Range<u16>, column: usize, hints: &[&str]) -> InputBox {
    within(screen, rows, column..usize::MAX, hints)
}

/// Returns the text in `rows` and `columns`, without hints. For screens that show other things at the right.
pub(crate) fn within(screen: &Snapshot, rows: Range<u16>, columns: Range<usize>, hints: &[&str]) -> InputBox {
    let lines = rows.filter_map(|row| screen.lines.get(usize::from(row)));
    let read: Vec<Written> = lines.map(|line| Written::read(line, &columns)).collect();
    let text = read.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let dim = read.iter().any(|line| line.dim);
    // The cursor is on the first letter of a hint, which is therefore not dim.
    let cursor = dim && read.iter().map(|line| line.plain).sum::<usize>() == 0;
    let hint = hints.iter().any(|hint| text.trim_start_matches(['▋', ' ', '\u{a0}']).starts_with(hint));
    InputBox::Holds(if cursor || hint { String::new() } else { text })
}

/// The typed text of a row.
#[derive(Default)]
struct Written {
    text: String,
    /// True if dim text was left out.
    dim: bool,
    /// Number of letters that are neither dim nor under the cursor.
    plain: usize,
}

impl Written {
    fn read(line: &Line, columns: &Range<usize>) -> Self {
        let mut written = Self::default();
        let mut at = 0;
        for Cell { text, width, style, .. } in line.cells() {
            at += usize::from(width);
            let blank = text.trim().is_empty();
            // `at` is the column behind the cell, so a wide character across the right edge is left out.
            if at <= columns.start || at > columns.end {
                continue;
            }
            if style.attributes.contains(Attributes::DIM) && !blank {
                written.dim = true;
                continue;
            }
            written.text.push_str(text);
            written.plain += usize::from(!blank && !style.attributes.contains(Attributes::INVERSE));
        }
        written
    }
}

/// Returns the rows from the lowest one that begins with `mark` to the empty row above the lowest words, if those
/// come after it. If the first row shows that the rest has scrolled off, returns all rows to the end.
pub(crate) fn last(screen: &Snapshot, mark: char) -> Option<Range<u16>> {
    let rows = || (0..screen.size.rows()).rev();
    let empty = |row: &u16| screen.row_text(*row).is_empty();
    let start = rows().find(|row| at_the_left(screen.row_text(*row)).starts_with(mark))?;
    let end = rows().skip_while(empty).find(empty).filter(|end| *end > start);
    let scrolled = screen.row_text(start).ends_with('↑').then(|| screen.size.rows());
    Some(start..end.or(scrolled)?)
}

/// Returns the text behind the lowest `>` at the left of the screen, up to the last row with text, for programs that
/// ask line by line. `is_prompt` knows what may stand in front of the mark.
pub(crate) fn line(screen: &Snapshot, is_prompt: impl Fn(&str) -> bool) -> InputBox {
    let rows = || (0..screen.size.rows()).rev();
    let Some(last) = rows().find(|row| !screen.row_text(*row).is_empty()) else { return InputBox::Absent };
    // Output of a program may begin with several `>` in a row.
    let asks = |row: &u16| {
        let text = screen.row_text(*row).split_once('>');
        text.is_some_and(|(prompt, said)| is_prompt(prompt) && (said.is_empty() || said.starts_with(' ')))
    };
    match rows().find(asks) {
        Some(start) => {
            let mark = screen.row_text(start).chars().position(|c| c == '>').map_or(0, |at| at + 1);
            let InputBox::Holds(first) = text(screen, start..start + 1, mark, &[]) else {
                return InputBox::Absent;
            };
            let InputBox::Holds(more) = text(screen, start + 1..last + 1, 0, &[]) else {
                return InputBox::Absent;
            };
            InputBox::Holds(format!("{first}\n{more}"))
        }
        None => InputBox::Absent,
    }
}
