//! ANSI that makes the same state on another terminal.

use std::fmt::Write as _;

use crate::cells::cell::Cell;
use crate::draw::paint::{self, Painter};
use crate::draw::spell;
use crate::emulator::Emulator;
use crate::state::charset::{Charset, Charsets};
use crate::state::modes::{ANSI, DEC, Mode, Modes};
use crate::state::tabs::Tabs;
use crate::state::{Protect, Saved, State};

impl Emulator {
    /// Returns bytes that reset a terminal of the same size and make it look and behave as this one: both screens, the
    /// cursor, what is saved, looks, links, margins, tab stops, character sets, modes, titles and colours.
    ///
    /// Left out are scrollback, images, prompt marks, what is on stacks (titles, XTPUSHSGR, XTPUSHCOLORS, the keyboard of the
    /// screen that is not shown), modes kept by XTSAVE, how sums and titles are to be told (XTCHECKSUM, XTSMTITLE),
    /// reports of the size (mode 2048), DECCOLM, where the window is, what REP would repeat, and an unfinished
    /// grapheme, sequence or frame.
    #[must_use]
    pub fn redraw(&self) -> Vec<u8> {
        self.draw(None)
    }

    /// Like [`redraw`](Self::redraw), with the scrollback before it, unless that takes more than `most` bytes: a few kilobytes of
    /// long links can be spelt out as gigabytes. A line of more than 16,384 columns that was laid out anew may
    /// be two lines there, and wide characters do not survive a terminal of one column.
    #[must_use]
    pub fn redraw_with_scrollback(&self, most: usize) -> Vec<u8> {
        self.draw(Some(most))
    }

    fn draw(&self, scrollback: Option<usize>) -> Vec<u8> {
        let state = &self.state;
        let mut out = b"\x1bc".to_vec();
        // 4 is the level after a reset.
        if state.level != 4 {
            // This resets, too.
            out.extend_from_slice(format!("\x1b[6{};1\"p", state.level).as_bytes());
        }
        // The painter begins from here, whatever the receiver's options are.
        out.extend_from_slice(b"\x1b[?2027l");
        if let Some(most) = scrollback {
            Painter::new(state, &state.grid).scrollback(most, &mut out);
        }
        match &state.other {
            Some(main) if state.alternate => {
                // Before the painting, because each cursor is saved while its screen is shown, and moving there
                // leaves no trace.
                add(&mut out, |text| save(state.saved[0], text));
                Painter::new(state, main).paint(&mut out);
                out.extend_from_slice(b"\x1b[?47h");
                add(&mut out, |text| save(state.saved[1], text));
                Painter::new(state, &state.grid).paint(&mut out);
            }
            _ => {
                add(&mut out, |text| save(state.saved[0], text));
                Painter::new(state, &state.grid).paint(&mut out);
            }
        }
        add(&mut out, |text| settings(state, text));
        out
    }
}

fn add(out: &mut Vec<u8>, write: impl FnOnce(&mut String)) {
    let mut text = String::new();
    write(&mut text);
    out.extend_from_slice(text.as_bytes());
}

/// Makes DECRC find what it would here.
fn save(saved: Saved, out: &mut String) {
    if saved.is_initial() {
        return;
    }
    place(saved.row, saved.col, saved.wrap, saved.origin, out);
    let _ = write!(out, "\x1b[{}m", spell::describe(saved.look));
    if saved.protected {
        out.push_str("\x1b[1\"q");
    }
    charsets(saved.charsets, out);
    // Back to the state after a reset, from which the painter goes on.
    out.push_str("\x1b7\x1b[?6l\x1b[m");
    if saved.protected {
        out.push_str("\x1b[0\"q");
    }
    if saved.charsets.single.is_some() {
        // Only a character ends a single shift; nothing is painted yet.
        out.push_str("\x1b[H \x1b[H\x1b[X");
    }
    charsets(Charsets::default(), out);
}

/// Puts the cursor somewhere, or behind the last column.
fn place(row: usize, col: usize, wrap: bool, origin: bool, out: &mut String) {
    if wrap {
        return out.push_str(&paint::report(row, col, true, origin));
    }
    if origin {
        out.push_str("\x1b[?6h");
    }
    let _ = write!(out, "\x1b[{};{}H", row + 1, col + 1);
}

fn charsets(charsets: Charsets, out: &mut String) {
    for (set, mark) in charsets.sets.into_iter().zip(['(', ')', '*', '+']) {
        // A set of 96 has its own marks (ISO 2022).
        let mark =
            if set == Charset::Latin1 { ['-', '-', '.', '/'][usize::from(mark as u8 - b'(')] } else { mark };
        let _ = write!(out, "\x1b{mark}{}", set.name());
    }
    let shift = |codes: [&'static str; 4], set| codes.get(usize::from(set)).copied().unwrap_or("");
    out.push_str(shift(["\x0f", "\x0e", "\x1bn", "\x1bo"], charsets.left));
    out.push_str(charsets.single.map_or("", |set| shift(["", "", "\x1bN", "\x1bO"], set)));
}

/// Writes all state that is not painted.
fn settings(state: &State, out: &mut String) {
    tabs(state, out);
    // Titles have no control characters, so they cannot end this command early.
    let _ = write!(out, "\x1b]2;{}\x1b\\\x1b]1;{}\x1b\\", state.title, state.icon);
    for (name, color) in state.palette.set_colors() {
        let _ = write!(out, "\x1b]{name};{color}\x1b\\");
    }
    // For the screen that is shown: the stack of the other one cannot be reached from here.
    state.keyboard.describe(state.alternate, out);
    if state.change_extent != 0 {
        let _ = write!(out, "\x1b[{}*x", state.change_extent);
    }
    let _ = write!(out, "\x1b[{} q", state.cursor_style);
    // Modes first, margins next, the cursor last: DECOM, DECLRMM and DECSTBM send the cursor home, and origin mode
    // counts from the margins.
    modes(state, out);
    margins(state, out);
    cursor(state, out);
    let _ = write!(out, "\x1b[{}m", spell::describe(state.look));
    out.push_str(&paint::link(state, state.look.link()));
    match (state.protect, state.protected) {
        (Protect::Off, _) => {}
        (Protect::Dec, on) => {
            let _ = write!(out, "\x1b[{}\"q", u8::from(on));
        }
        (Protect::Iso, on) => out.push_str(if on { "\x1bV" } else { "\x1bV\x1bW" }),
    }
    let sets = state.vt52.unwrap_or(state.charsets);
    charsets(sets, out);
    out.push_str(match sets.right {
        Some(1) => "\x1b~",
        Some(2) => "\x1b}",
        Some(3) => "\x1b|",
        _ => "",
    });
    if state.eight_bit_replies {
        out.push_str("\x1b G");
    }
    if sets.bytes {
        out.push_str("\x1b%@");
    }
    // At the end, because nothing above may be inserted, or overwritten in the last column.
    if state.on(Mode::Insert) {
        out.push_str("\x1b[4h");
    }
    if !state.on(Mode::Wrap) {
        out.push_str("\x1b[?7l");
    }
    if state.vt52.is_some() {
        out.push_str("\x1b[?2l");
        out.push_str(if state.charsets.sets[0] == Charset::Graphics { "\x1bF" } else { "" });
        out.push_str(if state.charsets.left == 1 { "\x0e" } else { "" });
    }
}

fn tabs(state: &State, out: &mut String) {
    if state.tabs == Tabs::new(state.cols()) {
        return;
    }
    // The receiver has a stop every eight columns after its reset.
    out.push_str("\x1b[3g");
    for col in state.tabs.stops() {
        let _ = write!(out, "\x1b[{}G\x1bH", col + 1);
    }
}

fn modes(state: &State, out: &mut String) {
    // These are set where they do no harm, or come with what they do.
    let apart = [
        Mode::Insert,
        Mode::Wrap,
        Mode::Origin,
        Mode::LeftRightMargins,
        Mode::Columns132,
        Mode::Alternate47,
        Mode::Alternate1047,
        Mode::Alternate1049,
        Mode::Synchronized,
        Mode::InBandResize,
        Mode::AlternateInhibited,
    ];
    let default = Modes::default();
    for (list, mark) in [(&ANSI[..], ""), (&DEC[..], "?")] {
        for (number, mode) in list.iter().filter(|(_, mode)| !apart.contains(mode)) {
            let on = state.on(*mode);
            // What a reset makes of these depends on the receiver's options, so they are always said.
            let optional = matches!(mode, Mode::Graphemes | Mode::EmojiPresentation);
            if on != default.on(*mode) || optional || *mode == Mode::CursorBlink {
                let _ = write!(out, "\x1b[{mark}{number}{}", if on { 'h' } else { 'l' });
            }
        }
    }
    if state.on(Mode::AlternateInhibited) {
        out.push_str("\x1b[?1046l");
    }
}

fn margins(state: &State, out: &mut String) {
    let margins = state.margins;
    if (margins.top, margins.bottom) != (0, state.rows()) {
        let _ = write!(out, "\x1b[{};{}r", margins.top + 1, margins.bottom);
    }
    // The mode before its margins, which it alone allows.
    if state.on(Mode::LeftRightMargins) {
        let _ = write!(out, "\x1b[?69h\x1b[{};{}s", margins.left + 1, margins.right);
    }
    if state.on(Mode::Origin) {
        out.push_str("\x1b[?6h");
    }
}

fn cursor(state: &State, out: &mut String) {
    let margins = state.margins;
    let inside = (margins.top..margins.bottom).contains(&state.row)
        && (margins.left..margins.right).contains(&state.col);
    // CUP cannot leave the margins in origin mode. A cursor report that is restored can.
    if state.on(Mode::Origin) && !inside {
        return out.push_str(&paint::report(state.row, state.col, state.wrap, true));
    }
    // As the child counts, because origin mode is in force at the receiver by now.
    let (row, col) = (state.own_row() + 1, state.own_col() + 1);
    let cell = state.grid.cell(state.row, state.col);
    // Modes are set by now, so the cell is written in those in force, and they stay.
    let mut painter = Painter::new(state, &state.grid).within_modes();
    let wide = cell.has(Cell::SPACER) && state.col > 0;
    let at = if wide { state.col - 1 } else { state.col };
    let odd = painter.is_written_once(state.row, at);
    if !state.wrap || odd || cell.is_empty() && !cell.has(Cell::SPACER) || state.col + 1 != state.limit() {
        let (row, col) = if state.wrap { (state.row, state.col) } else { (row - 1, col - 1) };
        return place(row, col, state.wrap, state.on(Mode::Origin), out);
    }
    // Only writing into the last column leaves a cursor behind it.
    let _ = write!(out, "\x1b[{row};{}H", col - usize::from(wide));
    let mut text = Vec::new();
    painter.cell(state.grid.cell(state.row, at), &mut text);
    painter.end_within_modes(&mut text);
    out.push_str(&String::from_utf8_lossy(&text));
}
