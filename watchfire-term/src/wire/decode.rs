//! Snapshots from messages.

use std::ops::Range;
use std::sync::Arc;

use watchfire_core::terminal::{
    Cursor, CursorShape, Generation, Line, Modes, Palette, Scrolled, Size, Snapshot,
};
use watchfire_core::{Error, ErrorKind, Result};

use super::read::Reader;
use super::style::Tables;
use super::{CHANGE, CURSOR, LINES, MODES, MOVED, PALETTE, SCREEN, SCROLLBACK, TITLE, VERSION};
use super::{change, line};

/// Returns the screen of a message by [`encode`](super::encode).
///
/// # Errors
///
/// Fails with [`ErrorKind::NotSupported`] for a version that is not known, and with [`ErrorKind::InvalidInput`] for
/// everything else that is no whole screen.
pub fn decode(message: &[u8]) -> Result<Snapshot> {
    let (kind, mut bytes) = begin(message)?;
    if kind != SCREEN {
        return Err(bytes.error("the message is no whole screen"));
    }
    screen(&mut bytes)
}

/// Returns the screen that a message by [`encode_change`](super::encode_change) makes of `from`, or that a whole screen
/// puts in its place. Rows that did not change share their lines with `from`.
///
/// # Errors
///
/// Fails with [`ErrorKind::Conflict`] if the change begins at another generation than that of `from`: the receiver has
/// missed a message and needs a whole screen. Otherwise fails as [`decode`] does.
pub fn decode_change(from: &Snapshot, message: &[u8]) -> Result<Snapshot> {
    let (kind, mut bytes) = begin(message)?;
    match kind {
        SCREEN => screen(&mut bytes),
        CHANGE => changed(from, &mut bytes),
        _ => Err(bytes.error("the message is no change of a screen")),
    }
}

/// Returns the lines of a message by [`encode_lines`](super::encode_lines).
///
/// # Errors
///
/// Fails as [`decode`] does.
pub fn decode_lines(message: &[u8]) -> Result<Scrolled> {
    let (kind, mut bytes) = begin(message)?;
    if kind != LINES {
        return Err(bytes.error("the message has no lines of a scrollback"));
    }
    let mut scrolled = Scrolled::default();
    (scrolled.gone, scrolled.next) = (bytes.number()?, bytes.number()?);
    let lines = read_lines(&mut bytes)?;
    bytes.end()?;
    // Just read, so nothing else shares them.
    scrolled.lines = lines.into_iter().map(Arc::unwrap_or_clone).collect();
    Ok(scrolled)
}

fn begin(message: &[u8]) -> Result<(u8, Reader<'_>)> {
    let mut bytes = Reader::new(message);
    let version = bytes.byte()?;
    if version != VERSION {
        let error = Error::new(ErrorKind::NotSupported, "a version of the screen's form that is not known");
        return Err(error.with("version", version));
    }
    Ok((bytes.byte()?, bytes))
}

fn screen(bytes: &mut Reader<'_>) -> Result<Snapshot> {
    let size = (bytes.fit()?, bytes.fit()?);
    if size.0 == 0 || size.1 == 0 {
        return Err(bytes.error("a screen without columns or rows"));
    }
    let size = Size::new(size.0, size.1);
    let generation = Generation(bytes.number()?);
    let cursor = read_cursor(bytes)?;
    let title = read_title(bytes)?;
    let modes = read_modes(bytes)?;
    let palette = Arc::new(read_palette(bytes)?);
    let scrollback = read_range(bytes)?;
    let lines = read_lines(bytes)?;
    if lines.len() > usize::from(size.rows()) {
        return Err(bytes.error("more lines than rows"));
    }
    bytes.end()?;
    let mut snapshot = Snapshot::new(size, lines, cursor, generation);
    (snapshot.title, snapshot.modes, snapshot.palette) = (title, modes, palette);
    snapshot.scrollback = scrollback;
    Ok(snapshot)
}

fn changed(from: &Snapshot, bytes: &mut Reader<'_>) -> Result<Snapshot> {
    let base = bytes.number()?;
    if base != from.generation.0 {
        let error = Error::new(ErrorKind::Conflict, "the change belongs to another screen");
        return Err(error.with("expected", base).with("generation", from.generation.0));
    }
    let mut snapshot = from.clone();
    snapshot.generation = Generation(bytes.number()?);
    let parts = bytes.number()?;
    // What an unknown part takes up is not known, so nothing behind it could be read.
    if parts & !(CURSOR | TITLE | MODES | PALETTE | SCROLLBACK | MOVED) != 0 {
        return Err(bytes.error("a part of a screen that is not known"));
    }
    if parts & CURSOR != 0 {
        snapshot.cursor = read_cursor(bytes)?;
    }
    if parts & TITLE != 0 {
        snapshot.title = read_title(bytes)?;
    }
    if parts & MODES != 0 {
        snapshot.modes = read_modes(bytes)?;
    }
    if parts & PALETTE != 0 {
        snapshot.palette = Arc::new(read_palette(bytes)?);
    }
    if parts & SCROLLBACK != 0 {
        snapshot.scrollback = read_range(bytes)?;
    }
    if parts & MOVED != 0 {
        shift(&mut snapshot.lines, bytes.signed()?);
    }
    let tables = Tables::read(bytes)?;
    let mut next = 0_usize;
    for _ in 0..bytes.count()? {
        let row = next.saturating_add(bytes.fit()?);
        let Some(slot) = snapshot.lines.get_mut(row) else {
            return Err(bytes.error("a row that the screen does not have"));
        };
        *slot = change::read(slot, &tables, bytes)?;
        next = row + 1;
    }
    bytes.end()?;
    Ok(snapshot)
}

/// Moves lines up, or down if `by` is negative, and fills up with blank ones.
fn shift(lines: &mut [Arc<Line>], by: i64) {
    // A distance beyond the screen leaves nothing of it.
    let distance = usize::try_from(by.unsigned_abs()).map_or(lines.len(), |by| by.min(lines.len()));
    let blank = Arc::<Line>::default();
    let kept = lines.len() - distance;
    if by < 0 {
        lines.rotate_right(distance);
        lines.iter_mut().take(distance).for_each(|line| *line = Arc::clone(&blank));
    } else {
        lines.rotate_left(distance);
        lines.iter_mut().skip(kept).for_each(|line| *line = Arc::clone(&blank));
    }
}

fn read_lines(bytes: &mut Reader<'_>) -> Result<Vec<Arc<Line>>> {
    let tables = Tables::read(bytes)?;
    (0..bytes.count()?).map(|_| line::read(&tables, bytes)).collect()
}

fn read_cursor(bytes: &mut Reader<'_>) -> Result<Cursor> {
    let mut cursor = Cursor::at(bytes.fit()?, bytes.fit()?);
    let look = bytes.byte()?;
    (cursor.hidden, cursor.blink) = (look & 1 != 0, look & 2 != 0);
    cursor.shape = match look >> 2 {
        0 => CursorShape::Block,
        1 => CursorShape::Underline,
        2 => CursorShape::Bar,
        _ => return Err(bytes.error("a shape of the cursor that is not known")),
    };
    Ok(cursor)
}

fn read_title(bytes: &mut Reader<'_>) -> Result<Option<Arc<str>>> {
    let Some(len) = bytes.fit::<usize>()?.checked_sub(1) else { return Ok(None) };
    let title = str::from_utf8(bytes.take(len)?).map_err(|_| bytes.error("text is not UTF-8"))?;
    Ok(Some(title.into()))
}

fn read_modes(bytes: &mut Reader<'_>) -> Result<Modes> {
    let bits = bytes.fit()?;
    let modes = Modes::from_bits(bits);
    if modes.bits() == bits { Ok(modes) } else { Err(bytes.error("a mode that is not known")) }
}

fn read_palette(bytes: &mut Reader<'_>) -> Result<Palette> {
    let mut palette = Palette::default();
    for _ in 0..bytes.count()? {
        let index = bytes.byte()?;
        palette.indexed.insert(index, bytes.rgb()?);
    }
    let set = bytes.byte()?;
    if set > 7 {
        return Err(bytes.error("a colour that is not known"));
    }
    let mut own = |bit: u8| if set & bit == 0 { Ok(None) } else { bytes.rgb().map(Some) };
    (palette.foreground, palette.background, palette.cursor) = (own(1)?, own(2)?, own(4)?);
    Ok(palette)
}

fn read_range(bytes: &mut Reader<'_>) -> Result<Range<u64>> {
    Ok(bytes.number()?..bytes.number()?)
}
