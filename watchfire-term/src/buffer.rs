//! A screen as Watchfire's clients receive it.

use serde::{Deserialize, Serialize};
use watchfire_core::terminal::{Attributes, Cell, Color, Snapshot, Underline};

/// A grid of cells that serialises as the screen buffer of Watchfire's protocol.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ScreenBuffer {
    /// When the picture was taken, in RFC 3339; the caller knows.
    pub timestamp: String,
    /// Height in cells.
    pub rows: u16,
    /// Width in cells.
    pub cols: u16,
    /// The cursor.
    pub cursor: BufferCursor,
    /// `cells[row][col]`. The right half of a wide character is a cell without text.
    pub cells: Vec<Vec<BufferCell>>,
    /// Lines of history that can be asked for.
    pub scrollback_available: usize,
}

/// Position and visibility of the cursor.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BufferCursor {
    /// Row, from 0.
    pub row: u16,
    /// Column, from 0.
    pub col: u16,
    /// True if the cursor shows.
    pub visible: bool,
}

/// One cell. Colours are entries of the palette of 256. True colours become the nearest entry, and the default
/// colours become 7 on 0.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are the attributes they are named for")]
pub struct BufferCell {
    pub char: String,
    pub fg: u8,
    pub bg: u8,
    pub bold: bool,
    pub italic: bool,
    pub underline: bool,
    pub inverse: bool,
    pub blink: bool,
    pub strikethrough: bool,
    pub dim: bool,
}

impl ScreenBuffer {
    /// Creates the buffer of a snapshot that was taken at `timestamp`.
    #[must_use]
    pub fn new(snapshot: &Snapshot, timestamp: impl Into<String>) -> Self {
        let cols = usize::from(snapshot.size.cols());
        let blank = BufferCell { char: " ".into(), fg: 7, ..BufferCell::default() };
        let cells = snapshot.lines.iter().map(|line| {
            let mut row = Vec::with_capacity(cols);
            for cell in line.cells() {
                let shown = buffer_cell(cell);
                let rest = BufferCell { char: String::new(), ..shown.clone() };
                row.push(shown);
                row.extend((1..cell.width).map(|_| rest.clone()));
            }
            // The protocol has a cell for each column. Lines end where only blanks follow.
            row.resize(cols, blank.clone());
            row
        });
        Self {
            timestamp: timestamp.into(),
            rows: snapshot.size.rows(),
            cols: snapshot.size.cols(),
            cursor: BufferCursor {
                row: snapshot.cursor.row,
                col: snapshot.cursor.col,
                visible: !snapshot.cursor.hidden,
            },
            cells: cells.collect(),
            scrollback_available: (snapshot.scrollback.end - snapshot.scrollback.start) as usize,
        }
    }
}

fn buffer_cell(cell: Cell<'_>) -> BufferCell {
    let has = |attribute| cell.style.attributes.contains(attribute);
    BufferCell {
        char: cell.text.to_owned(),
        // The protocol has no default colours: light grey on black stand for them.
        fg: index(cell.style.foreground, 7),
        bg: index(cell.style.background, 0),
        bold: has(Attributes::BOLD),
        italic: has(Attributes::ITALIC),
        underline: cell.style.underline != Underline::None,
        inverse: has(Attributes::INVERSE),
        blink: has(Attributes::BLINK),
        strikethrough: has(Attributes::STRIKE),
        dim: has(Attributes::DIM),
    }
}

fn index(color: Color, default: u8) -> u8 {
    match color {
        Color::Default => default,
        Color::Indexed(index) => index,
        Color::Rgb(red, green, blue) => nearest([red, green, blue]),
    }
}

/// Returns the nearest entry of the cube or the greys.
fn nearest(rgb: [u8; 3]) -> u8 {
    // The six levels of the cube are 0, 95, 135, 175, 215 and 255. The middle between the first two is below 48.
    let step = |part: u8| if part < 48 { 0 } else { (part.max(75) - 35) / 40 };
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    let distance =
        |other: [u8; 3]| rgb.iter().zip(other).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum::<u32>();
    let [r, g, b] = rgb.map(step);
    let sum: u16 = rgb.iter().map(|part| u16::from(*part)).sum();
    let grey = ((sum / 3).saturating_sub(3) / 10).min(23) as u8;
    // The greys are finer than the cube's own, but no grey is black or white.
    if distance([8 + 10 * grey; 3]) < distance([r, g, b].map(level)) {
        232 + grey
    } else {
        16 + 36 * r + 6 * g + b
    }
}

#[cfg(test)]
mod tests {
    use watchfire_core::terminal::{Size, Terminal};

    use super::*;
    use crate::Emulator;

    #[test]
    fn a_screen_becomes_the_protocols_grid() {
        let mut terminal = Emulator::new(Size::new(6, 2));
        terminal.process("\x1b[1;31ma\x1b[38;2;255;0;0;48;2;8;8;8m漢\x1b[?25l".as_bytes());
        let buffer = ScreenBuffer::new(&terminal.snapshot(), "2026-02-03T13:05:00.123Z");
        let json = serde_json::to_value(&buffer).unwrap_or_default();
        assert_eq!(json["cells"][0][0]["char"], "a");
        assert_eq!((&json["cells"][0][0]["fg"], &json["cells"][0][0]["bold"]), (&1.into(), &true.into()));
        assert_eq!((&json["cells"][0][1]["fg"], &json["cells"][0][1]["bg"]), (&196.into(), &232.into()));
        assert_eq!(json["cells"][0][2]["char"], "");
        assert_eq!(json["cells"][1].as_array().map(Vec::len), Some(6));
        assert_eq!(json["cursor"]["visible"], false);
        assert_eq!(nearest([95, 135, 175]), 67);
    }
}
