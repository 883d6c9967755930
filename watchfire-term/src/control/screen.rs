//! Screens, saved cursors, modes and resets.

use std::mem;
use std::time::Instant;

use crate::cells::grid::Grid;
use crate::cells::style::Look;
use crate::color::Palette;
use crate::event::Event;
use crate::parser::Params;
use crate::state::charset::Charsets;
use crate::state::keyboard::Keyboard;
use crate::state::modes::{Mode, Modes};
use crate::state::stacks::Stacks;
use crate::state::{Frozen, Protect, Saved, State};

/// Mouse modes. One is in force, and resetting any ends it.
const MOUSE: [Mode; 5] =
    [Mode::MouseX10, Mode::MousePress, Mode::MouseHighlight, Mode::MouseDrag, Mode::MouseMove];

impl State {
    /// DECSC: saves the cursor.
    pub(crate) fn save_cursor(&mut self) {
        let saved = Saved {
            row: self.row,
            col: self.col,
            wrap: self.wrap,
            look: self.look,
            protected: self.protected,
            origin: self.on(Mode::Origin),
            charsets: self.charsets,
        };
        // xterm keeps a saved cursor for each screen, so that a full-screen program does not overwrite the shell's.
        let [main, other] = &mut self.saved;
        *(if self.alternate { other } else { main }) = saved;
    }

    /// DECRC: restores the cursor.
    pub(crate) fn restore_cursor(&mut self) {
        let [main, other] = &self.saved;
        let saved = *(if self.alternate { other } else { main });
        self.modes.set(Mode::Origin, saved.origin);
        // As in xterm, origin mode keeps it from going behind margins that came later, but not from before them.
        let (bottom, right) =
            if saved.origin { (self.margins.bottom, self.margins.right) } else { (self.rows(), self.cols()) };
        (self.row, self.col) = (saved.row.min(bottom - 1), saved.col.min(right - 1));
        self.wrap = saved.wrap;
        // OSC 8 alone opens and closes links. DECSC is older and knows nothing of them.
        self.look = saved.look.with_link(self.look.link());
        self.protected = saved.protected;
        // `ESC % @` chooses the coding of the stream, which is no part of what DECSC saves.
        self.charsets = Charsets { bytes: self.charsets.bytes, ..saved.charsets };
        (self.joining, self.changed) = (false, true);
        self.update_special();
        self.apply_look();
    }

    /// Shows the other screen.
    fn show(&mut self, alternate: bool) {
        if self.alternate == alternate {
            return;
        }
        let (cols, rows) = (self.cols(), self.rows());
        // A resize drops the alternate screen while the main one is shown, so there may be none, and one of another
        // size is never shown again.
        let other = self.other.take().filter(|other| other.cols() == cols && other.rows() == rows);
        let other = other.unwrap_or_else(|| Grid::new(cols, rows));
        self.other = Some(mem::replace(&mut self.grid, other));
        self.alternate = alternate;
        if !alternate {
            // What the alternate screen shows is gone when it is left.
            self.images.retain(|image| !image.alternate);
        }
        self.touch_all();
    }

    fn clear_screen(&mut self) {
        self.forget_images(0..self.rows());
        let blank = self.blank();
        for row in 0..self.rows() {
            self.grid.clear_row(row, blank, self.stamp);
        }
        (self.wrap, self.changed) = (false, true);
    }

    /// SM and RM: sets and resets ANSI modes.
    pub(crate) fn set_ansi_modes(&mut self, params: &Params, on: bool) {
        for mode in params.values().iter().filter_map(|number| Modes::ansi(*number)) {
            self.modes.set(mode, on);
        }
        self.update_special();
    }

    /// DECSET and DECRST: sets and resets DEC modes.
    pub(crate) fn set_dec_modes(&mut self, params: &Params, on: bool) {
        for number in params.values() {
            self.set_dec_mode(*number, on);
            // A VT52 has no modes.
            if self.vt52.is_some() {
                return;
            }
        }
    }

    pub(crate) fn set_dec_mode(&mut self, number: u16, on: bool) {
        let inhibited = self.on(Mode::AlternateInhibited);
        // An action, not a state: there is nothing to keep, and DECRQM answers "set" whatever the cursor did.
        if number == 1048 && !inhibited {
            return if on { self.save_cursor() } else { self.restore_cursor() };
        }
        // DECANM. Its reset leads to VT52 mode, where sequences have another form.
        if number == 2 {
            return self.set_ansi(on);
        }
        // Modes that came with a later terminal than the level in force (DECSCL) do not exist there.
        let Some(mode) = self.dec_mode(number) else { return };
        if inhibited && matches!(mode, Mode::Alternate47 | Mode::Alternate1047 | Mode::Alternate1049) {
            return;
        }
        let was = self.on(mode);
        self.modes.set(mode, on);
        match mode {
            Mode::Columns132 => self.set_columns_132(was, on),
            // VT100 manual: the cursor moves to the home position whenever this mode is set or reset.
            Mode::Origin => self.go_to(0, 0),
            // DECLRMM gives `CSI s` the meaning of DECSLRM. Without it margins at the sides could not be taken away.
            Mode::LeftRightMargins if !on => {
                (self.margins.left, self.margins.right) = (0, self.cols());
            }
            Mode::Alternate47 => self.set_alternate(on, false),
            // 1047 clears the alternate screen when it is left, 1049 when it is entered, 47 never.
            Mode::Alternate1047 => {
                if !on && self.alternate {
                    self.clear_screen();
                }
                self.set_alternate(on, false);
            }
            Mode::Alternate1049 => {
                if on {
                    // Before the switch, so that it is the main screen's cursor that is saved.
                    self.save_cursor();
                    self.set_alternate(true, true);
                } else {
                    // The switch first: the cursor to restore was saved on the main screen. A second reset restores
                    // it again, as in xterm.
                    self.set_alternate(false, false);
                    self.restore_cursor();
                }
            }
            // To set it is to allow the alternate screen, which the mode is against.
            Mode::AlternateInhibited => {
                self.modes.set(mode, !on);
                if !on {
                    self.set_alternate(false, false);
                }
            }
            Mode::MouseX10 | Mode::MousePress | Mode::MouseHighlight | Mode::MouseDrag | Mode::MouseMove => {
                self.only(mode, &MOUSE);
            }
            // Encodings exclude each other, and the last one that was set counts.
            Mode::MouseUtf8 | Mode::MouseSgr | Mode::MouseUrxvt | Mode::MousePixels if on => {
                self.only(mode, &[Mode::MouseUtf8, Mode::MouseSgr, Mode::MouseUrxvt, Mode::MousePixels]);
            }
            Mode::Synchronized => self.synchronize(on),
            Mode::InBandResize if on => self.report_size(),
            Mode::ReverseScreen => self.touch_all(),
            // The cursor lies over the cells and changes none.
            Mode::CursorVisible | Mode::CursorBlink => self.changed = true,
            Mode::Graphemes => self.joining = false,
            _ => {}
        }
        self.update_special();
    }

    fn only(&mut self, mode: Mode, group: &[Mode]) {
        for other in group.iter().filter(|other| **other != mode) {
            self.modes.set(*other, false);
        }
    }

    fn set_alternate(&mut self, on: bool, clear: bool) {
        // Three numbers for one state, which screen is shown, so DECRQM answers the same for each.
        for mode in [Mode::Alternate47, Mode::Alternate1047, Mode::Alternate1049] {
            self.modes.set(mode, on);
        }
        self.show(on);
        if on && clear {
            self.clear_screen();
        }
    }

    fn set_columns_132(&mut self, was: bool, on: bool) {
        // xterm ignores DECCOLM unless mode 40 allows it: a stray one would clear the screen.
        if !self.on(Mode::AllowColumns) {
            self.modes.set(Mode::Columns132, was);
            return;
        }
        if self.options.child_resize {
            let rows = self.rows();
            self.resize(if on { 132 } else { 80 }, rows);
            self.tell(Event::Resized);
        }
        self.reset_margins();
        // DECNCSM, since the VT510: the text stays when the columns change.
        if !self.on(Mode::KeepOnColumns) {
            self.clear_screen();
        }
        self.modes.set(Mode::Origin, false);
        self.go_to(0, 0);
    }

    /// Holds the picture while a frame is painted, and lets it go.
    fn synchronize(&mut self, on: bool) {
        if !on {
            self.synchronized_at = None;
        // A frame within a frame does not extend the limit, or a child that never ends one could freeze the picture.
        } else if self.synchronized_at.is_none() {
            self.synchronized_at = Some(Instant::now());
            // Writes so far belong to the picture that is held.
            self.grid.commit(self.stamp);
            self.notice_modes();
            let (view, generation) = (self.view(), self.stamp - u64::from(!self.changed));
            // The frame before has left its copy, from which most rows do not differ. Copying only those that do
            // keeps frames cheap.
            match self.frozen.as_mut() {
                Some(frozen) => {
                    if frozen.view.alternate == view.alternate {
                        frozen.grid.catch_up(&self.grid);
                    } else {
                        frozen.grid.clone_from(&self.grid);
                    }
                    (frozen.view, frozen.generation) = (view, generation);
                }
                None => self.frozen = Some(Box::new(Frozen { grid: self.grid.clone(), view, generation })),
            }
            // What changed before the frame gets a generation of its own: the one that the held picture shows.
            if mem::take(&mut self.changed) {
                self.stamp += 1;
            }
        }
        self.changed = true;
    }

    /// Returns the held-back snapshot, if there is one.
    pub(crate) fn held(&self) -> Option<&Frozen> {
        let since = self.synchronized_at?;
        // Asked at every read, so that no timer is needed to show the picture in time.
        self.frozen.as_deref().filter(|_| since.elapsed() < self.options.sync_timeout)
    }

    /// XTSAVE: saves modes.
    pub(crate) fn keep_modes(&mut self, params: &Params) {
        for number in params.values().iter().copied().map(kept_as) {
            if let Some(mode) = self.dec_mode(number) {
                // Mode 1046 is stored as what it inhibits, so its own value is the inverse.
                let on = self.on(mode) != (mode == Mode::AlternateInhibited);
                self.kept_modes.retain(|(kept, _)| *kept != number);
                self.kept_modes.push((number, on));
            }
        }
    }

    /// XTRESTORE: restores modes.
    pub(crate) fn restore_modes(&mut self, params: &Params) {
        for number in params.values().iter().copied().map(kept_as) {
            if let Some((_, on)) = self.kept_modes.iter().find(|(kept, _)| *kept == number) {
                self.set_dec_mode(number, *on);
            }
        }
    }

    /// DECSCUSR: sets the shape of the cursor.
    pub(crate) fn set_cursor_style(&mut self, style: u16) {
        if style <= 6 {
            self.cursor_style = style as u8;
            self.modes.set(Mode::CursorBlink, style % 2 == 1 || style == 0);
            self.changed = true;
        }
    }

    /// DECSCL: sets the level of the terminal.
    pub(crate) fn set_level(&mut self, params: &Params) {
        if let level @ 61..=65 = params.value(0) {
            self.soft_reset();
            self.level = (level - 60) as u8;
            // A VT100 (61) has no 8-bit controls to choose.
            if level > 61 {
                self.eight_bit_replies = self.options.c1_controls && params.value(1) != 1;
            }
        }
    }

    /// DECSTR: resets modes, and keeps the screen.
    pub(crate) fn soft_reset(&mut self) {
        self.reset_margins();
        for mode in [
            Mode::Insert,
            Mode::Origin,
            Mode::AppCursor,
            Mode::AppKeypad,
            Mode::KeyboardLock,
            Mode::LeftRightMargins,
            Mode::ReverseWrap,
            Mode::ReverseWrapExtended,
        ] {
            self.modes.set(mode, false);
        }
        self.modes.set(Mode::CursorVisible, true);
        // DEC's manuals switch autowrap off here. xterm goes back to its initial setting, which is on.
        self.modes.set(Mode::Wrap, true);
        self.look = Look::default();
        (self.protect, self.protected, self.joining) = (Protect::Off, false, false);
        self.charsets = Charsets { bytes: self.charsets.bytes, ..Charsets::default() };
        // Of the screen in use only: the other one's program did not ask for a reset.
        let [main, other] = &mut self.saved;
        *(if self.alternate { other } else { main }) = Saved::default();
        self.keyboard = Keyboard::default();
        self.apply_look();
        self.update_special();
        self.touch_all();
    }

    /// RIS: resets everything.
    pub(crate) fn reset(&mut self) {
        if self.on(Mode::AllowColumns) && self.on(Mode::Columns132) && self.options.child_resize {
            self.resize(80, self.rows());
            self.tell(Event::Resized);
        }
        // The main screen first, so that what is cleared below is the screen that stays.
        self.show(false);
        self.other = None;
        self.modes = self.initial_modes();
        self.soft_reset();
        self.clear_screen();
        // As in xterm, a full reset drops the saved lines as well.
        self.history.clear();
        self.images.retain(|_| false);
        (self.images.parts, self.images.refused) = (Vec::new(), false);
        (self.row, self.col, self.wrap) = (0, 0, false);
        (self.saved, self.change_extent) = ([Saved::default(); 2], 0);
        self.tabs.reset();
        (self.charsets, self.vt52) = (Charsets::default(), None);
        (self.palette, self.stacks) = (Palette::default(), Stacks::default());
        self.palette_changed();
        (self.cursor_style, self.level, self.last) = (0, 4, None);
        (self.eight_bit_replies, self.checksum_flags, self.title_modes) = (false, 0, 0);
        (self.title, self.icon) = (String::new(), String::new());
        self.titles.clear();
        (self.iconified, self.position, self.before_full) = (false, (0, 0), None);
        self.kept_modes.clear();
        (self.synchronized_at, self.frozen) = (None, None);
        self.update_special();
        self.touch_all();
        self.tell(Event::Reset);
    }
}

/// Returns the mode that is kept for another: only which screen is in use, without the way it was reached and without
/// the cursor.
const fn kept_as(number: u16) -> u16 {
    if matches!(number, 1047 | 1049) { 47 } else { number }
}
