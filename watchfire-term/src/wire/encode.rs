//! Messages from snapshots.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use watchfire_core::terminal::{Cursor, CursorShape, Line, Palette, Scrolled, Snapshot};

use super::change::Splice;
use super::line;
use super::style::Numbers;
use super::write::Writer;
use super::{CHANGE, CURSOR, LINES, MODES, MOVED, PALETTE, SCREEN, SCROLLBACK, TITLE};

/// Returns a message with a whole screen.
#[must_use]
pub fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Writer::new(SCREEN);
    out.number(snapshot.size.cols().into());
    out.number(snapshot.size.rows().into());
    out.number(snapshot.generation.0);
    write_cursor(snapshot.cursor, &mut out);
    write_title(snapshot.title.as_deref(), &mut out);
    out.number(snapshot.modes.bits().into());
    write_palette(&snapshot.palette, &mut out);
    write_range(&snapshot.scrollback, &mut out);
    // A snapshot's fields are public, so there may be more lines than rows.
    let rows = snapshot.lines.iter().take(snapshot.size.rows().into());
    write_lines(&rows.map(|line| &**line).collect::<Vec<_>>(), &mut out);
    out.bytes
}

/// Returns a message that makes `to` of `from`. Where the sizes differ, that is a whole screen.
///
/// Rows that only moved, as those of a log that scrolls, are not sent again. They are found by their shared [`Line`], so
/// both snapshots should come from one terminal.
#[must_use]
pub fn encode_change(from: &Snapshot, to: &Snapshot) -> Vec<u8> {
    if from.size != to.size || from.lines.len() != to.lines.len() {
        return encode(to);
    }
    // Before the rows are compared: each is compared with the one that moved to its place.
    let by = to.moved_since(from);
    let mut out = Writer::new(CHANGE);
    out.number(from.generation.0);
    out.number(to.generation.0);
    let parts = [
        (CURSOR, from.cursor != to.cursor),
        (TITLE, from.title != to.title),
        (MODES, from.modes != to.modes),
        (PALETTE, from.palette != to.palette),
        (SCROLLBACK, from.scrollback != to.scrollback),
        (MOVED, by != 0),
    ];
    let parts = parts.into_iter().filter(|(_, changed)| *changed).fold(0, |parts, (part, _)| parts | part);
    out.number(parts);
    if parts & CURSOR != 0 {
        write_cursor(to.cursor, &mut out);
    }
    if parts & TITLE != 0 {
        write_title(to.title.as_deref(), &mut out);
    }
    if parts & MODES != 0 {
        out.number(to.modes.bits().into());
    }
    if parts & PALETTE != 0 {
        write_palette(&to.palette, &mut out);
    }
    if parts & SCROLLBACK != 0 {
        write_range(&to.scrollback, &mut out);
    }
    if parts & MOVED != 0 {
        out.signed(by as i64);
    }
    let blank = Arc::default();
    let rows = (0_isize..).zip(&to.lines).filter_map(|(row, new)| {
        let old = usize::try_from(row + by).ok().and_then(|row| from.lines.get(row)).unwrap_or(&blank);
        (!Arc::ptr_eq(old, new) && old != new).then(|| (row as usize, Splice::new(old, new)))
    });
    let rows: Vec<_> = rows.collect();
    let styles = rows.iter().flat_map(|(_, splice)| splice.runs()).map(|run| run.style);
    let links = rows.iter().flat_map(|(_, splice)| splice.links()).map(|link| &**link);
    let numbers = Numbers::write(styles, links, &mut out);
    out.count(rows.len());
    let mut next = 0;
    for (row, splice) in &rows {
        // Rows ascend, so the gap to the one before is shorter than the row itself.
        out.count(row - next);
        splice.write(&numbers, &mut out);
        next = row + 1;
    }
    out.bytes
}

/// Returns a message with lines of the scrollback.
#[must_use]
pub fn encode_lines(scrolled: &Scrolled) -> Vec<u8> {
    let mut out = Writer::new(LINES);
    out.number(scrolled.gone);
    out.number(scrolled.next);
    write_lines(&scrolled.lines.iter().collect::<Vec<_>>(), &mut out);
    out.bytes
}

/// Writes the tables and then the lines. A blank line is one byte.
fn write_lines(lines: &[&Line], out: &mut Writer) {
    let styles = lines.iter().flat_map(|line| line.runs()).map(|(run, _)| run.style);
    let links = lines.iter().flat_map(|line| line.links()).map(|link| &**link);
    let numbers = Numbers::write(styles, links, out);
    out.count(lines.len());
    for line in lines {
        line::write(line, &numbers, out);
    }
}

fn write_cursor(cursor: Cursor, out: &mut Writer) {
    out.number(cursor.row.into());
    out.number(cursor.col.into());
    let shape = match cursor.shape {
        CursorShape::Underline => 1,
        CursorShape::Bar => 2,
        _ => 0,
    };
    out.byte(u8::from(cursor.hidden) | u8::from(cursor.blink) << 1 | shape << 2);
}

/// Writes the length plus one, so that 0 is no title.
fn write_title(title: Option<&str>, out: &mut Writer) {
    let Some(title) = title else { return out.count(0) };
    out.count(title.len() + 1);
    out.bytes.extend_from_slice(title.as_bytes());
}

fn write_palette(palette: &Palette, out: &mut Writer) {
    out.count(palette.indexed.len());
    for (index, rgb) in &palette.indexed {
        out.byte(*index);
        out.rgb(*rgb);
    }
    let own = [palette.foreground, palette.background, palette.cursor];
    let set = iter::zip(own, 0..).filter(|(rgb, _)| rgb.is_some()).fold(0, |set, (_, bit)| set | 1 << bit);
    out.byte(set);
    own.into_iter().flatten().for_each(|rgb| out.rgb(rgb));
}

fn write_range(range: &Range<u64>, out: &mut Writer) {
    out.number(range.start);
    out.number(range.end);
}
