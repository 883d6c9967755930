//! From one picture to another.

use std::fmt::Write as _;
use std::sync::Arc;

use watchfire_core::terminal::{
    Attributes, Cell, Color, CursorShape, Hyperlink, Line, RunKind, Snapshot, Style, Underline,
};

use crate::cells::width;

/// A cell that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellChange<'a> {
    /// Its row, from 0.
    pub row: u16,
    /// Its first column, from 0.
    pub col: u16,
    /// What is there now; none for a blank.
    pub cell: Option<Cell<'a>>,
}

/// The cells of `to` that are not what they are in `from`; all of them if the sizes differ.
pub fn cells<'a>(from: &Snapshot, to: &'a Snapshot) -> Vec<CellChange<'a>> {
    let mut changes = Vec::new();
    for (row, line) in (0..).zip(&to.lines) {
        let old = from.lines.get(usize::from(row)).filter(|_| from.size == to.size);
        if old.is_some_and(|old| Arc::ptr_eq(old, line)) {
            continue;
        }
        let before = old.map(|old| columns(old)).unwrap_or_default();
        let now = columns(line);
        let end = if old.is_some() { before.len().max(now.len()) } else { usize::from(to.size.cols()) };
        for col in 0..end {
            let (was, is) = (before.get(col).copied().flatten(), now.get(col).copied().flatten());
            let covered = now.get(col).is_some_and(Option::is_none) && col > 0 && is_wide(&now, col - 1);
            if (old.is_none() || was != is) && !covered {
                changes.push(CellChange { row, col: col as u16, cell: is });
            }
        }
    }
    changes
}

fn is_wide(cells: &[Option<Cell<'_>>], col: usize) -> bool {
    cells.get(col).copied().flatten().is_some_and(|cell| cell.width == 2)
}

/// The cell that begins in each column.
fn columns(line: &Line) -> Vec<Option<Cell<'_>>> {
    let mut columns = Vec::new();
    for cell in line.cells() {
        columns.push(Some(cell));
        columns.extend((1..cell.width).map(|_| None));
    }
    columns
}

/// ANSI that paints a picture on a terminal of its size, whatever that shows.
///
/// Graphemes that only mode 2027 makes one cell of are written in that mode, which is off afterwards.
#[must_use]
pub fn paint(snapshot: &Snapshot) -> String {
    let mut out = String::from("\x1b[m\x1b[H\x1b[2J");
    for (row, line) in (1_u32..).zip(&snapshot.lines) {
        paint_line(row, line, &mut out);
    }
    cursor(snapshot, &mut out);
    out
}

/// ANSI that makes a terminal that shows `from` show `to`: the rows that differ, and the cursor.
#[must_use]
pub fn repaint(from: &Snapshot, to: &Snapshot) -> String {
    if from.size != to.size {
        return paint(to);
    }
    let mut out = String::new();
    for ((row, old), new) in (1_u32..).zip(&from.lines).zip(&to.lines) {
        if !Arc::ptr_eq(old, new) && old != new {
            let _ = write!(out, "\x1b[{row}H\x1b[2K");
            paint_line(row, new, &mut out);
        }
    }
    if !out.is_empty() || from.cursor != to.cursor {
        cursor(to, &mut out);
    }
    out
}

fn paint_line(row: u32, line: &Line, out: &mut String) {
    if line.text().is_empty() {
        return;
    }
    let _ = write!(out, "\x1b[{row}H");
    let (mut style, mut link, mut col) = (Style::default(), 0, 1);
    for (run, text) in line.runs() {
        if run.link != link {
            link = run.link;
            write_link(line.hyperlink(run), out);
        }
        if run.style != style {
            style = run.style;
            write_style(style, out);
        }
        if run.kind == RunKind::Cluster && width::joins(text, run.columns == 2) {
            // Not with what is before it, either.
            let _ = write!(out, "\x1b[{row};{col}H\x1b[?2027h{text}\x1b[?2027l");
        } else {
            out.push_str(text);
        }
        col += run.columns;
    }
    if link != 0 {
        write_link(None, out);
    }
    if style != Style::default() {
        out.push_str("\x1b[m");
    }
}

/// The beginning of a link, or the end of one.
pub(crate) fn write_link(link: Option<&Hyperlink>, out: &mut String) {
    let (id, uri) = link.map_or(("", ""), |link| (&link.id, &link.uri));
    let _ = write!(out, "\x1b]8;{}{id};{uri}\x1b\\", if id.is_empty() { "" } else { "id=" });
}

fn cursor(snapshot: &Snapshot, out: &mut String) {
    let cursor = snapshot.cursor;
    let shape = match cursor.shape {
        CursorShape::Underline => 4,
        CursorShape::Bar => 6,
        _ => 2,
    };
    let shape = shape - u8::from(cursor.blink);
    let show = if cursor.hidden { 'l' } else { 'h' };
    let _ = write!(out, "\x1b[{};{}H\x1b[{shape} q\x1b[?25{show}", cursor.row + 1, cursor.col + 1);
}

fn write_style(style: Style, out: &mut String) {
    out.push_str("\x1b[0");
    for (attribute, code) in [
        (Attributes::BOLD, 1),
        (Attributes::DIM, 2),
        (Attributes::ITALIC, 3),
        (Attributes::BLINK, 5),
        (Attributes::INVERSE, 7),
        (Attributes::CONCEAL, 8),
        (Attributes::STRIKE, 9),
        (Attributes::OVERLINE, 53),
    ] {
        if style.attributes.contains(attribute) {
            let _ = write!(out, ";{code}");
        }
    }
    out.push_str(match style.underline {
        Underline::None => "",
        Underline::Double => ";4:2",
        Underline::Curly => ";4:3",
        Underline::Dotted => ";4:4",
        Underline::Dashed => ";4:5",
        _ => ";4",
    });
    for (color, kind) in [(style.foreground, 38), (style.background, 48)] {
        let _ = match color {
            Color::Default => Ok(()),
            Color::Indexed(n @ 0..8) => write!(out, ";{}", kind - 8 + u16::from(n)),
            Color::Indexed(n) => write!(out, ";{kind};5;{n}"),
            Color::Rgb(r, g, b) => write!(out, ";{kind};2;{r};{g};{b}"),
        };
    }
    let _ = match style.underline_color {
        Color::Default => Ok(()),
        Color::Indexed(n) => write!(out, ";58:5:{n}"),
        Color::Rgb(r, g, b) => write!(out, ";58:2::{r}:{g}:{b}"),
    };
    out.push('m');
}
