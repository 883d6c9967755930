//! Window operations, as far as a terminal without a window has an answer.

use crate::event::Event;
use crate::parser::Params;
use crate::state::State;

/// Upper bound for the stack of titles. The oldest is dropped.
const DEPTH: usize = 10;
/// The largest screen that a child may ask for.
const MOST_COLS: usize = 1_000;
const MOST_ROWS: usize = 500;

/// The display that there could be, in pixels, height and width.
const DISPLAY: (usize, usize) = (1080, 1920);

impl State {
    /// XTWINOPS: changes and reports sizes and titles.
    pub(crate) fn window(&mut self, params: &Params) {
        let (rows, cols) = (self.rows(), self.cols());
        let (width, height) = self.options.cell_pixels;
        let pixels = (rows * usize::from(height), cols * usize::from(width));
        match params.value(0) {
            1 => self.iconified = false,
            2 => self.iconified = true,
            3 => self.position = (params.value(1), params.value(2)),
            4 => {
                let cells = |pixels: usize, size: u16| pixels / usize::from(size.max(1));
                let (high, wide) = self.wanted(params, pixels, self.display_pixels());
                self.child_resize(cells(wide, width), cells(high, height));
            }
            8 => {
                let (rows, cols) = self.wanted(params, (rows, cols), self.display());
                self.child_resize(cols, rows);
            }
            9 | 10 => self.maximize(params.value(0), params.value(1)),
            // There is no window, but what was asked of it is remembered.
            11 => self.reply_csi(if self.iconified { "2t" } else { "1t" }),
            // Made up, but consistent: a child that moves its window reads back where it is.
            13 => self.reply_csi(&format!("3;{};{}t", self.position.0, self.position.1)),
            14 => self.reply_csi(&format!("4;{};{}t", pixels.0, pixels.1)),
            15 => {
                let (high, wide) = self.display_pixels();
                self.reply_csi(&format!("5;{high};{wide}t"));
            }
            16 => self.reply_csi(&format!("6;{height};{width}t")),
            18 => self.reply_csi(&format!("8;{rows};{cols}t")),
            19 => {
                let (rows, cols) = self.display();
                self.reply_csi(&format!("9;{rows};{cols}t"));
            }
            // Titles are never told back: the child could plant commands in them.
            20 => self.reply_osc("L", false),
            21 => self.reply_osc("l", false),
            22 => self.push_titles(params.value(1)),
            23 => self.pop_titles(params.value(1)),
            // DECSLPP: from 24 on the number is that of lines.
            lines @ 24.. => self.child_resize(cols, usize::from(lines)),
            _ => {}
        }
    }

    /// Reads the height and width that are asked for: left out, it stays; zero is as much as there is.
    fn wanted(&self, params: &Params, now: (usize, usize), most: (usize, usize)) -> (usize, usize) {
        let one = |index, now, most| match usize::from(params.value(index)) {
            _ if !params.is_given(index) => now,
            0 => most,
            value => value,
        };
        (one(1, now.0, most.0), one(2, now.1, most.1))
    }

    /// Returns the height and width of the display that the window would be on.
    fn display_pixels(&self) -> (usize, usize) {
        let (width, height) = self.options.cell_pixels;
        (DISPLAY.0.max(self.rows() * usize::from(height)), DISPLAY.1.max(self.cols() * usize::from(width)))
    }

    /// Returns the same in rows and columns.
    fn display(&self) -> (usize, usize) {
        let ((high, wide), (width, height)) = (self.display_pixels(), self.options.cell_pixels);
        (high / usize::from(height.max(1)), wide / usize::from(width.max(1)))
    }

    /// Makes the screen as large as the display, wholly (1), in height (2) or in width (3), or as before (0); 10 stands for the full
    /// screen, to which 2 is there and back.
    fn maximize(&mut self, what: u16, how: u16) {
        let (rows, cols) = (self.rows(), self.cols());
        let how = match (what, how) {
            (10, 2) => u16::from(self.before_full.is_none()),
            (10, 3) => return,
            (_, how) => how,
        };
        let display = self.display();
        let wanted = match how {
            0 => self.before_full.take(),
            1 => Some(display),
            2 => Some((display.0, cols)),
            3 => Some((rows, display.1)),
            _ => None,
        };
        // The first size counts. Maximised twice, the screen must still find back to what it was.
        if how > 0 && wanted.is_some() {
            self.before_full.get_or_insert((rows, cols));
        }
        if let Some((rows, cols)) = wanted {
            self.child_resize(cols, rows);
        }
    }

    fn push_titles(&mut self, which: u16) {
        if self.titles.len() >= DEPTH {
            self.titles.pop_front();
        }
        // 0 stands for both, 1 for the icon's name, 2 for the window's title.
        let icon = (which != 2).then(|| self.icon.clone());
        let title = (which != 1).then(|| self.title.clone());
        self.titles.push_back((icon, title));
    }

    fn pop_titles(&mut self, which: u16) {
        let Some((icon, title)) = self.titles.pop_back() else { return };
        if let Some(icon) = icon.filter(|_| which != 2) {
            self.icon = icon;
            self.tell(Event::IconName);
        }
        if let Some(title) = title.filter(|_| which != 1) {
            self.changed |= self.title != title;
            self.title = title;
            self.tell(Event::Title);
        }
    }

    /// XTSMTITLE and XTRMTITLE: sets and resets modes of titles.
    pub(crate) fn set_title_modes(&mut self, params: &Params, on: bool) {
        if !on && params.len() == 1 && params.value(0) == 0 && params.values() == [0] {
            self.title_modes &= !1;
            return;
        }
        for mode in params.values().iter().filter(|mode| **mode < 4) {
            let bit = 1 << mode;
            self.title_modes = if on { self.title_modes | bit } else { self.title_modes & !bit };
        }
    }

    /// DECSCPP: sets the number of columns.
    pub(crate) fn set_page_columns(&mut self, cols: u16) {
        let cols = if cols == 0 { 80 } else { usize::from(cols) };
        self.child_resize(cols, self.rows());
    }

    pub(crate) fn set_page_rows(&mut self, rows: u16) {
        if rows > 0 {
            self.child_resize(self.cols(), usize::from(rows));
        }
    }

    fn child_resize(&mut self, cols: usize, rows: usize) {
        // The pseudo-terminal keeps its size: the child would paint for a screen other than the one that the kernel
        // reports to it.
        if self.options.child_resize {
            // A child must not get screens of any size for a few bytes.
            self.resize(cols.clamp(1, MOST_COLS), rows.clamp(1, MOST_ROWS));
            self.tell(Event::Resized);
        }
    }

    /// Mode 2048: reports the size without a question.
    pub(crate) fn report_size(&mut self) {
        let (rows, cols) = (self.rows(), self.cols());
        let (width, height) = self.options.cell_pixels;
        let (high, wide) = (rows * usize::from(height), cols * usize::from(width));
        self.reply_csi(&format!("48;{rows};{cols};{high};{wide}t"));
    }
}
