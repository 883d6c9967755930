//! Reading an agent's input box off its screen: a frame, a mark in its first row, and what stands behind that.

use std::ops::Range;

use watchfire_core::backend::InputBox;
use watchfire_core::terminal::{Attributes, Cell, Line, Snapshot};

/// The characters that lines of a frame begin with, after blanks.
pub(crate) struct Frame {
    pub(crate) top: char,
    pub(crate) bottom: char,
    /// The prompt before the text in the first row.
    pub(crate) mark: char,
    /// The beginning of every row.
    pub(crate) bar: Option<char>,
    /// The hints of an empty box, by how they begin, where they do not look dim.
    pub(crate) hints: &'static [&'static str],
}

/// The shortest line that counts as part of a frame.
const FRAME: usize = 8;

impl Frame {
    /// The lowest frame on the screen whose first row has the mark.
    pub(crate) fn read(&self, screen: &Snapshot) -> InputBox {
        let is = |row: u16, c: char| {
            let text = at_the_left(screen.row_text(row));
            text.starts_with(c) && text.chars().count() >= FRAME
        };
        let Some(bottom) = (0..screen.size.rows()).rev().find(|row| is(*row, self.bottom)) else {
            return InputBox::Absent;
        };
        let Some(top) = (0..bottom).rev().find(|row| is(*row, self.top)) else { return InputBox::Absent };
        let first = screen.row_text(top + 1);
        let inner =
            self.bar.map_or(Some(first), |bar| first.trim_start().strip_prefix(bar)).unwrap_or_default();
        // One that has scrolled has its mark above, and says so in its frame.
        let frame = screen.row_text(top);
        let scrolled = frame.contains('↑') && frame.contains(" more ");
        let column = match inner.trim_start().starts_with(self.mark) {
            true => column(first, self.mark),
            false if scrolled => 1,
            false => return InputBox::Absent,
        };
        self.inside(text(screen, top + 1..bottom, column, self.hints))
    }

    /// The text without the other side of its frame, and without a cursor that is drawn as a letter.
    fn inside(&self, read: InputBox) -> InputBox {
        let (Some(bar), InputBox::Holds(text)) = (self.bar, &read) else { return read };
        let lines = text.lines().map(|line| line.trim_end().trim_end_matches(bar).trim_end());
        let text = lines.collect::<Vec<_>>().join("\n");
        InputBox::Holds(text.strip_suffix('▋').unwrap_or(&text).to_owned())
    }
}

/// Returns a row from the left edge of the screen. Typed text is indented.
fn at_the_left(row: &str) -> &str {
    row.strip_prefix(' ').unwrap_or(row)
}

/// The column behind the first `mark` in a row; columns and characters are the same up to there.
fn column(row: &str, mark: char) -> usize {
    row.chars().position(|c| c == mark).map_or(0, |at| at + 1)
}

/// Returns the text in `rows` from `column` on, without hints: those look dim, or begin like one of `hints`.
pub(crate) fn text(screen: &Snapshot, rows: Range<u16>, column: usize, hints: &[&str]) -> InputBox {
    within(screen, rows, column..usize::MAX, hints)
}

/// The same, where other things stand at the right.
pub(crate) fn within(screen: &Snapshot, rows: Range<u16>, columns: Range<usize>, hints: &[&str]) -> InputBox {
    let lines = rows.filter_map(|row| screen.lines.get(usize::from(row)));
    let read: Vec<Written> = lines.map(|line| Written::read(line, &columns)).collect();
    let text = read.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let dim = read.iter().any(|line| line.dim);
    // The cursor stands on the first letter of a hint.
    let cursor = dim && read.iter().map(|line| line.plain).sum::<usize>() == 0;
    let hint = hints.iter().any(|hint| text.trim_start_matches(['▋', ' ', '\u{a0}']).starts_with(hint));
    InputBox::Holds(if cursor || hint { String::new() } else { text })
}

/// The text of a row.
#[derive(Default)]
struct Written {
    text: String,
    /// True if dim text was left out.
    dim: bool,
    /// The number of letters that are neither dim nor the cursor's.
    plain: usize,
}

impl Written {
    fn read(line: &Line, columns: &Range<usize>) -> Self {
        let mut written = Self::default();
        let mut at = 0;
        for Cell { text, width, style, .. } in line.cells() {
            at += usize::from(width);
            let blank = text.trim().is_empty();
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

/// The rows from the lowest one that begins with `mark` up to the empty one above the lowest words, if those come after;
/// or up to the end, where the first of them shows that the rest has scrolled off.
pub(crate) fn last(screen: &Snapshot, mark: char) -> Option<Range<u16>> {
    let rows = || (0..screen.size.rows()).rev();
    let empty = |row: &u16| screen.row_text(*row).is_empty();
    let start = rows().find(|row| at_the_left(screen.row_text(*row)).starts_with(mark))?;
    let end = rows().skip_while(empty).find(empty).filter(|end| *end > start);
    let scrolled = screen.row_text(start).ends_with('↑').then(|| screen.size.rows());
    Some(start..end.or(scrolled)?)
}

/// The text behind the lowest `>` at the left of the screen, up to the last row that says something, for programs that
/// ask line by line. `is_prompt` knows what may stand before the mark.
pub(crate) fn line(screen: &Snapshot, is_prompt: impl Fn(&str) -> bool) -> InputBox {
    let rows = || (0..screen.size.rows()).rev();
    let Some(last) = rows().find(|row| !screen.row_text(*row).is_empty()) else { return InputBox::Absent };
    // What a program prints may begin with several of them.
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
