//! Each emulator behind one trait.

use std::sync::Arc;

pub const COLS: usize = 120;
pub const ROWS: usize = 40;
pub const LINES: usize = 10_000;

pub const NAMES: [&str; 8] = [
    "watchfire-term",
    "rio-vt",
    "alacritty_terminal",
    "vt100",
    "avt",
    "justerm-core",
    "nativelite-vterm",
    "tattoy-wezterm-term",
];

fn size(cells: usize) -> std::num::NonZeroU16 {
    std::num::NonZeroU16::new(cells as u16).expect("a size")
}

pub trait Core {
    fn feed(&mut self, bytes: &[u8]);
    /// False if it cannot.
    fn resize(&mut self, _cols: usize, _rows: usize) -> bool {
        false
    }
    /// The text of the screen.
    fn text(&mut self) -> Option<String> {
        None
    }
    /// The base characters of each row of the screen, a wide one once.
    fn rows(&mut self) -> Option<Vec<String>> {
        None
    }
    /// The state as ANSI.
    fn ansi(&mut self) -> Option<usize> {
        None
    }
    /// Reads all scrollback: how many characters.
    fn history(&mut self) -> Option<usize> {
        None
    }
}

pub fn make(name: &str) -> Box<dyn Core> {
    sized(name, COLS, ROWS)
}

/// An emulator of another size.
pub fn sized(name: &str, cols: usize, rows: usize) -> Box<dyn Core> {
    match name {
        "rio-vt" => Box::new(Rio::new(cols, rows)),
        "alacritty_terminal" => Box::new(Alacritty::new(cols, rows)),
        "vt100" => Box::new(vt100::Parser::new(size(rows), size(cols), LINES)),
        "avt" => Box::new(Avt::new(cols, rows)),
        "justerm-core" => Box::new(justerm_core::Engine::with_scrollback(cols, rows, LINES)),
        "nativelite-vterm" => Box::new(vterm::Term::with_history(rows, cols, LINES)),
        "tattoy-wezterm-term" => Box::new(Wezterm::new(cols, rows)),
        _ => Box::new(Ours::new(cols, rows)),
    }
}

struct Ours(watchfire_term::Emulator);

impl Ours {
    fn new(cols: usize, rows: usize) -> Self {
        Self(watchfire_term::Emulator::new(watchfire_term::Size::new(cols as u16, rows as u16)))
    }
}

impl Core for Ours {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.process(bytes);
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        use watchfire_term::Terminal as _;
        self.0.resize(watchfire_term::Size::new(cols as u16, rows as u16));
        true
    }
    fn text(&mut self) -> Option<String> {
        Some(self.0.contents())
    }
    fn rows(&mut self) -> Option<Vec<String>> {
        use watchfire_term::Terminal as _;
        Some(self.0.snapshot().lines.iter().map(|line| line.text().to_owned()).collect())
    }
    fn ansi(&mut self) -> Option<usize> {
        Some(self.0.redraw().len())
    }
    fn history(&mut self) -> Option<usize> {
        Some(self.0.scrollback_rows(0..usize::MAX).iter().map(|line| line.text().len()).sum())
    }
}

struct Rio {
    term: rio_vt::crosswords::Crosswords<rio_vt::event::VoidListener>,
    parser: rio_vt::performer::handler::Processor,
}

impl Rio {
    fn new(cols: usize, rows: usize) -> Self {
        use rio_vt::crosswords::{Crosswords, CrosswordsSize};
        let size = CrosswordsSize::new(cols, rows);
        let shape = rio_vt::ansi::CursorShape::Block;
        let id = rio_vt::event::WindowId::from(0);
        Self {
            term: Crosswords::new(size, shape, rio_vt::event::VoidListener, id, 0, LINES),
            parser: Default::default(),
        }
    }
}

impl Core for Rio {
    fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        self.term.resize(rio_vt::crosswords::CrosswordsSize::new(cols, rows));
        true
    }
    fn text(&mut self) -> Option<String> {
        let rows = self.term.visible_rows();
        let mut text = String::new();
        for row in &rows {
            for col in 0..COLS {
                text.push(row[rio_vt::crosswords::pos::Column(col)].c());
            }
            text.push('\n');
        }
        Some(text)
    }
    fn rows(&mut self) -> Option<Vec<String>> {
        let cols = self.term.columns();
        let row = |row: &rio_vt::crosswords::grid::row::Row<rio_vt::crosswords::square::Square>| {
            let cells = (0..cols).map(|col| row[rio_vt::crosswords::pos::Column(col)]);
            cells.filter(|cell| !cell.is_spacer() && !cell.is_leading_spacer()).map(|cell| cell.c()).collect()
        };
        Some(self.term.visible_rows().iter().map(row).collect())
    }
}

struct Alacritty {
    term: alacritty_terminal::Term<alacritty_terminal::event::VoidListener>,
    parser: alacritty_terminal::vte::ansi::Processor,
}

struct Shape(usize, usize);

impl alacritty_terminal::grid::Dimensions for Shape {
    fn total_lines(&self) -> usize {
        self.1
    }
    fn screen_lines(&self) -> usize {
        self.1
    }
    fn columns(&self) -> usize {
        self.0
    }
}

impl Alacritty {
    fn new(cols: usize, rows: usize) -> Self {
        let config = alacritty_terminal::term::Config { scrolling_history: LINES, ..Default::default() };
        Self {
            term: alacritty_terminal::Term::new(config, &Shape(cols, rows), alacritty_terminal::event::VoidListener),
            parser: Default::default(),
        }
    }

    fn between(&self, top: i32, bottom: i32) -> String {
        use alacritty_terminal::index::{Column, Line, Point};
        let last = alacritty_terminal::grid::Dimensions::columns(&self.term) - 1;
        self.term.bounds_to_string(Point::new(Line(top), Column(0)), Point::new(Line(bottom), Column(last)))
    }
}

impl Core for Alacritty {
    fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        self.term.resize(Shape(cols, rows));
        true
    }
    fn text(&mut self) -> Option<String> {
        Some(self.between(0, ROWS as i32 - 1))
    }
    fn rows(&mut self) -> Option<Vec<String>> {
        use alacritty_terminal::grid::Dimensions as _;
        use alacritty_terminal::index::{Column, Line};
        use alacritty_terminal::term::cell::Flags;
        let spacers = Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER;
        let row = |row: i32| {
            let cells = (0..self.term.columns()).map(|col| &self.term.grid()[Line(row)][Column(col)]);
            cells.filter(|cell| !cell.flags.intersects(spacers)).map(|cell| cell.c).collect()
        };
        Some((0..self.term.screen_lines() as i32).map(row).collect())
    }
    fn history(&mut self) -> Option<usize> {
        let lines = alacritty_terminal::grid::Dimensions::history_size(self.term.grid());
        Some(self.between(-(lines as i32), -1).len())
    }
}

impl Core for vt100::Parser {
    fn feed(&mut self, bytes: &[u8]) {
        self.process(bytes);
    }
    fn text(&mut self) -> Option<String> {
        Some(self.screen().contents())
    }
    fn rows(&mut self) -> Option<Vec<String>> {
        Some(self.screen().rows(0, u16::MAX).collect())
    }
    fn ansi(&mut self) -> Option<usize> {
        Some(self.screen().state_formatted().len())
    }
}

/// avt takes text, so its adapter puts split characters together.
struct Avt {
    term: avt::Terminal,
    rest: Vec<u8>,
}

impl Avt {
    fn new(cols: usize, rows: usize) -> Self {
        Self { term: avt::Terminal::with_scrollback(cols, rows, Some(LINES)).expect("a size"), rest: Vec::new() }
    }
}

impl Core for Avt {
    fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let end = match str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.rest.len(),
        };
        let tail = self.rest.split_off(end);
        let text = String::from_utf8_lossy(&self.rest);
        self.term.feed(&*text);
        drop(text);
        self.rest = tail;
    }
    fn text(&mut self) -> Option<String> {
        Some(self.term.screen().visible_lines().map(|line| line.text()).collect::<Vec<_>>().join("\n"))
    }
    fn rows(&mut self) -> Option<Vec<String>> {
        Some(self.term.screen().visible_lines().map(|line| line.text()).collect())
    }
    fn ansi(&mut self) -> Option<usize> {
        Some(self.term.dump().len())
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        self.term.resize(cols, rows);
        true
    }
}

impl Core for justerm_core::Engine {
    fn rows(&mut self) -> Option<Vec<String>> {
        let row = |row| {
            let cells = self.grid().row(row).iter().filter(|cell| !cell.is_spacer());
            cells.map(|cell| cell.c()).collect()
        };
        Some((0..self.grid().rows()).map(row).collect())
    }
    fn feed(&mut self, bytes: &[u8]) {
        justerm_core::Engine::feed(self, bytes);
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        justerm_core::Engine::resize(self, cols, rows);
        true
    }
}

impl Core for vterm::Term {
    fn feed(&mut self, bytes: &[u8]) {
        vterm::Term::feed(self, bytes);
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        vterm::Term::resize(self, rows, cols);
        true
    }
}

struct Wezterm(tattoy_wezterm_term::Terminal);

#[derive(Debug)]
struct WezConfig;

impl tattoy_wezterm_term::config::TerminalConfiguration for WezConfig {
    fn scrollback_size(&self) -> usize {
        LINES
    }
    fn color_palette(&self) -> tattoy_wezterm_term::color::ColorPalette {
        Default::default()
    }
}

impl Wezterm {
    fn size(cols: usize, rows: usize) -> tattoy_wezterm_term::TerminalSize {
        tattoy_wezterm_term::TerminalSize { rows, cols, pixel_width: 0, pixel_height: 0, dpi: 0 }
    }
    fn new(cols: usize, rows: usize) -> Self {
        let sink = Box::new(std::io::sink());
        Self(tattoy_wezterm_term::Terminal::new(Self::size(cols, rows), Arc::new(WezConfig), "bench", "0", sink))
    }
}

impl Core for Wezterm {
    fn rows(&mut self) -> Option<Vec<String>> {
        let screen = self.0.screen();
        let lines = screen.lines_in_phys_range(screen.phys_range(&(0..screen.physical_rows as i64)));
        Some(lines.iter().map(|line| line.as_str().into_owned()).collect())
    }
    fn feed(&mut self, bytes: &[u8]) {
        self.0.advance_bytes(bytes);
    }
    fn resize(&mut self, cols: usize, rows: usize) -> bool {
        self.0.resize(Self::size(cols, rows));
        true
    }
}
