//! From one picture to another.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use watchfire_core::terminal::{
    Attributes, Cell, Color, CursorShape, Hyperlink, Line, Modes, RunKind, Snapshot, Style, Underline,
};

use crate::cells::width;

/// A cell that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellChange<'a> {
    /// Its row, from 0.
    pub row: u16,
    /// Its first column, from 0.
    pub col: u16,
    /// The new cell, or `None` for a blank.
    pub cell: Option<Cell<'a>>,
}

/// Returns the cells of `to` that differ from those in `from`, or all cells if the sizes differ.
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
            // The right half belongs to the change of the left one.
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

/// Returns the cell that begins in each column.
fn columns(line: &Line) -> Vec<Option<Cell<'_>>> {
    let mut columns = Vec::new();
    for cell in line.cells() {
        columns.push(Some(cell));
        columns.extend((1..cell.width).map(|_| None));
    }
    columns
}

/// Returns ANSI that paints a picture on a terminal of its size, over any content.
///
/// Graphemes that only mode 2027 makes one cell of are written in that mode, which is off afterwards. Emoji by selector that take
/// one column are written without our mode 27027, which is on afterwards.
#[must_use]
pub fn paint(snapshot: &Snapshot) -> String {
    // Default looks first, because what is erased takes the background at hand.
    let mut out = String::from("\x1b[m\x1b[H\x1b[2J");
    for (row, line) in (1..).zip(&snapshot.lines) {
        paint_line(row, line, &mut out);
    }
    cursor(snapshot, &mut out);
    out
}

/// Returns ANSI that makes a terminal that shows `from` show `to`: one scroll if most rows only moved, then the columns
/// that differ, then the cursor.
#[must_use]
pub fn repaint(from: &Snapshot, to: &Snapshot) -> String {
    if from.size != to.size {
        return paint(to);
    }
    let (mut out, blank) = (String::new(), Line::default());
    let by = to.moved_since(from);
    let _ = match by {
        0 => Ok(()),
        // SU and SD move all rows, wherever the cursor is. Blank rows come in, as the lines that are compared below
        // expect.
        1.. => write!(out, "\x1b[{by}S"),
        _ => write!(out, "\x1b[{}T", -by),
    };
    for (row, new) in (0_isize..).zip(&to.lines) {
        let old = usize::try_from(row + by).ok().and_then(|row| from.lines.get(row));
        if !old.is_some_and(|old| Arc::ptr_eq(old, new)) {
            repaint_line(row + 1, old.map_or(&blank, |old| old), new, &mut out);
        }
    }
    if !out.is_empty() || from.cursor != to.cursor {
        cursor(to, &mut out);
    }
    out
}

/// Returns a line with its looks and links as ANSI, without moves of the cursor: for lists of lines. What follows has the default
/// looks.
#[must_use]
pub fn line(line: &Line) -> String {
    let mut out = String::with_capacity(line.text().len());
    let (mut style, mut link) = (Style::default(), 0);
    for (run, text) in line.runs() {
        if run.link != link {
            link = run.link;
            write_link(line.hyperlink(run), &mut out);
        }
        if run.style != style {
            style = run.style;
            write_style(style, &mut out);
        }
        out.push_str(text);
    }
    end(style, link, &mut out);
    out
}

/// The modes that a viewer's terminal takes over, with their numbers: how keys, pastes and the mouse are reported to the
/// child, and how the screen looks.
const TAKEN_OVER: [(Modes, u16); 9] = [
    (Modes::REVERSE_SCREEN, 5),
    (Modes::APPLICATION_CURSOR, 1),
    (Modes::APPLICATION_KEYPAD, 66),
    (Modes::BRACKETED_PASTE, 2004),
    (Modes::FOCUS, 1004),
    (Modes::MOUSE_BUTTONS, 1000),
    (Modes::MOUSE_DRAG, 1002),
    (Modes::MOUSE_MOVE, 1003),
    (Modes::MOUSE_SGR, 1006),
];

/// Returns ANSI that takes a viewer's terminal from the modes `from` to `to`, so that keys typed there can be passed on unchanged.
/// The viewer stays on the screen that it is on.
#[must_use]
pub fn modes(from: Modes, to: Modes) -> String {
    let mut out = String::new();
    let changed = |on: bool| {
        let is = move |mode: &&(Modes, u16)| {
            from.contains(mode.0) != to.contains(mode.0) && to.contains(mode.0) == on
        };
        TAKEN_OVER.iter().filter(is)
    };
    // Off before on: terminals keep one mode of the mouse, and turning off another would end it.
    for (on, suffix) in [(false, 'l'), (true, 'h')] {
        for (_, number) in changed(on) {
            let _ = write!(out, "\x1b[?{number}{suffix}");
        }
    }
    if from.kitty() != to.kitty() {
        // Set and not pushed, so that nothing has to be popped: a screen's flags end with the screen.
        let _ = write!(out, "\x1b[={}u", to.kitty());
    }
    out
}

/// Turns `old` into `new` in a row, counted from 1.
fn repaint_line(row: isize, old: &Line, new: &Line, out: &mut String) {
    // Terminals disagree on the width of graphemes. A row that is written whole cannot keep what such a one left.
    if [old, new].iter().any(|line| line.runs().any(|(run, _)| run.kind == RunKind::Cluster)) {
        if old != new {
            let _ = write!(out, "\x1b[{row}H\x1b[2K");
            paint_line(row, new, out);
        }
        return;
    }
    let (before, now) = (columns(old), columns(new));
    let mut start = before.iter().zip(&now).take_while(|(was, is)| was == is).count();
    if start == before.len() && start == now.len() {
        return;
    }
    // A wide character that differs is written whole.
    let begins = |col: usize| [&before, &now].iter().all(|cells| cells.get(col).is_none_or(Option::is_some));
    while start > 0 && !begins(start) {
        start -= 1;
    }
    // Columns at the end are equal only if both rows are as long: otherwise the rest is erased.
    let mut end = now.len();
    if before.len() == now.len() {
        while end > start && before.get(end - 1) == now.get(end - 1) {
            end -= 1;
        }
        while !begins(end) {
            end += 1;
        }
    }
    paint_columns(row, new, start..end, out);
    // EL is shorter than blanks, and the default background is in force.
    if before.len() > now.len() {
        out.push_str("\x1b[K");
    }
}

fn paint_line(row: isize, line: &Line, out: &mut String) {
    if !line.text().is_empty() {
        paint_columns(row, line, 0..usize::MAX, out);
    }
}

/// Paints the columns of a line that are in `range`, which parts no wide character.
fn paint_columns(row: isize, line: &Line, range: Range<usize>, out: &mut String) {
    let _ = match range.start {
        0 => write!(out, "\x1b[{row}H"),
        col => write!(out, "\x1b[{row};{}H", col + 1),
    };
    let (mut style, mut link, mut next) = (Style::default(), 0, 0);
    for (run, text) in line.runs() {
        let col = next;
        next += usize::from(run.columns);
        if next <= range.start || col >= range.end {
            continue;
        }
        if run.link != link {
            link = run.link;
            write_link(line.hyperlink(run), out);
        }
        if run.style != style {
            style = run.style;
            write_style(style, out);
        }
        let width = match run.kind {
            RunKind::Cluster if width::joins(text, run.columns == 2) => {
                // Not with what is before it, either.
                let _ = write!(out, "\x1b[{row};{}H\x1b[?2027h{text}\x1b[?2027l", col + 1);
                continue;
            }
            // Most terminals give it two columns. What comes next is placed, in case that the receiver does not know the mode.
            RunKind::Cluster if run.columns == 1 && width::selects_emoji(text) => {
                let _ = write!(out, "\x1b[?27027l{text}\x1b[?27027h\x1b[{row};{}H", col + 2);
                continue;
            }
            RunKind::Cluster => {
                out.push_str(text);
                continue;
            }
            RunKind::Narrow => 1,
            RunKind::Wide => 2,
        };
        let skipped = range.start.saturating_sub(col) / width;
        out.extend(text.chars().skip(skipped).take((range.end - col.max(range.start)).div_ceil(width)));
    }
    end(style, link, out);
}

/// Ends looks and link.
fn end(style: Style, link: u16, out: &mut String) {
    if link != 0 {
        write_link(None, out);
    }
    if style != Style::default() {
        out.push_str("\x1b[m");
    }
}

/// Writes the beginning of a link, or the end of one.
pub(crate) fn write_link(link: Option<&Hyperlink>, out: &mut String) {
    // An empty target ends a link, so no other sequence is needed.
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
    // From the default each time: the receiver's look is not known at the first run.
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
            // Their own codes too, which terminals of 16 colours know.
            Color::Indexed(n @ 8..16) => write!(out, ";{}", kind + 52 + u16::from(n - 8)),
            Color::Indexed(n) => write!(out, ";{kind};5;{n}"),
            Color::Rgb(r, g, b) => write!(out, ";{kind};2;{r};{g};{b}"),
        };
    }
    // With colons. After semicolons a terminal that does not know 58 would take what follows for codes of its own.
    let _ = match style.underline_color {
        Color::Default => Ok(()),
        Color::Indexed(n) => write!(out, ";58:5:{n}"),
        Color::Rgb(r, g, b) => write!(out, ";58:2::{r}:{g}:{b}"),
    };
    out.push('m');
}
