//! The terminal as its users see it.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use watchfire_core::terminal::{
    Cursor, CursorShape, Generation, Hyperlink, Line, LineSize, Modes, Size, Snapshot, Terminal,
};

use crate::cells::grid::{Grid, Slot};
use crate::cells::history::RowEnd;
use crate::cells::snapshot::{self, LineCache, Looks};
use crate::damage::Damage;
use crate::event::{Event, PromptMark};
use crate::image::Image;
use crate::options::{Colors, Options};
use crate::parser::Parser;
use crate::state::modes::Mode;
use crate::state::{State, View};

/// Bytes after which unused styles, links and clusters are looked for.
const CHUNK: usize = 64 << 10;
/// Cells of the largest screen, which takes 64 MiB.
const MOST_CELLS: u32 = 8 << 20;

/// A terminal without a window.
///
/// Feed it what a program writes, read what a person would see. See the crate's documentation for a tour. A screen
/// has at most 8 million cells; [`size`](Self::size) returns what a larger one was cut to.
#[derive(Debug)]
pub struct Emulator {
    parser: Parser,
    pub(crate) state: State,
    /// For the screen in use, the main and the alternate.
    lines: [LineCache; 2],
    last: Option<Arc<Snapshot>>,
}

impl Emulator {
    /// Creates a blank terminal with the default [`Options`].
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self::with_options(size, Options::default())
    }

    /// Creates the same behind the seam, for callers that take a constructor of terminals:
    /// `Orchestrator::builder().terminals(Emulator::boxed)`.
    #[must_use]
    pub fn boxed(size: Size) -> Box<dyn Terminal> {
        Box::new(Self::new(size))
    }

    /// Creates a blank terminal.
    #[must_use]
    pub fn with_options(size: Size, options: Options) -> Self {
        // Before anything is allocated for it.
        let size = bounded(size);
        // A command is held as a whole until it ends. What is longer than anything that is kept is dropped on the way.
        let limit = if options.clipboard { 1 << 20 } else { 64 << 10 };
        let limit = limit.max(options.image_bytes);
        Self {
            parser: Parser::new()
                .with_8bit_controls(options.c1_controls)
                .with_vt52(true)
                .with_string_limit(limit),
            state: State::new(usize::from(size.cols()), usize::from(size.rows()), options),
            lines: Default::default(),
            last: None,
        }
    }

    /// Processes output of the child, as [`Terminal::feed`] does.
    ///
    /// The time is in proportion to the number of bytes, and some sequences take a microsecond for each: on a thread that
    /// must not be held up, feed some KiB at a time.
    pub fn process(&mut self, bytes: &[u8]) {
        // What is not used any more goes after each of them.
        if bytes.len() > CHUNK {
            return bytes.chunks(CHUNK).for_each(|chunk| self.process(chunk));
        }
        self.parser.feed(bytes, &mut self.state);
        self.state.commit();
    }

    /// Returns the text of the screen, one line per row, without trailing blanks and trailing empty lines. The same as
    /// that of a snapshot, but quicker when nothing else is needed.
    #[must_use]
    pub fn contents(&self) -> String {
        self.text(false)
    }

    /// Returns the same text with wrapped rows joined to the lines that they were written as.
    #[must_use]
    pub fn contents_joined(&self) -> String {
        self.text(true)
    }

    fn text(&self, join: bool) -> String {
        // What a person sees now: the picture before the frame that is being painted.
        let grid = self.state.held().map_or(&self.state.grid, |frozen| &frozen.grid);
        let mut text = String::with_capacity((grid.cols() + 1) * grid.rows());
        for row in 0..grid.rows() {
            // A filler is no part of the text: without the wrap there would have been no room to leave blank.
            if join && grid.slot(row).flags & Slot::WRAPPED != 0 {
                snapshot::row_text(snapshot::without_filler(grid.row(row)), &self.state.clusters, &mut text);
            } else {
                snapshot::row_text(snapshot::without_end(grid.row(row)), &self.state.clusters, &mut text);
                text.push('\n');
            }
        }
        // A snapshot's text ends so as well, and both must be the same.
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Returns the events since the last call, oldest first: everything beside the picture. At most 256 are kept,
    /// with at most 4 MiB of text.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.state.event_bytes = 0;
        mem::take(&mut self.state.events).into()
    }

    /// Returns the icon name that the child set, without control characters.
    #[must_use]
    pub fn icon_name(&self) -> Option<&str> {
        Some(self.state.icon.as_str()).filter(|icon| !icon.is_empty())
    }

    /// Returns the link of the cell at `row` and `col` of the screen, both counted from 0.
    #[must_use]
    pub fn hyperlink(&self, row: u16, col: u16) -> Option<&Hyperlink> {
        // A link is looked up in the live screen, also while a frame is held.
        let cell = self.state.grid.cell(usize::from(row), usize::from(col));
        self.state.links.get(self.state.styles.look(cell.style()).link()).map(|link| &**link)
    }

    /// Returns the rows that the shell marked (OSC 133) by the numbers of [`Snapshot::scrollback`]; the rows of the screen
    /// follow its end. The numbers stay valid while lines scroll, and change with the size. Marks go with the lines that are
    /// dropped or cleared, and the alternate screen hides those of the screen, not those of the scrollback.
    ///
    /// A line that is wrapped has its marks in its first row once it scrolled off, or the size changed. The status of a
    /// command comes with its [`Event`] alone.
    #[must_use]
    pub fn prompt_marks(&self) -> Vec<(u64, PromptMark)> {
        let (grid, kept) = (&self.state.grid, self.state.history.numbers());
        let above = self.state.history.marks().map(|(row, flags)| (kept.start + row as u64, flags));
        let screen = (kept.end..).zip((0..grid.rows()).map(|row| grid.slot(row).flags));
        above
            .chain(screen)
            .flat_map(|(row, flags)| PromptMark::of(flags).map(move |mark| (row, mark)))
            .collect()
    }

    /// Yields the images that the child placed, oldest first.
    ///
    /// An image goes when its line does, when its row is erased as a whole, with the screen that it is on, at a reset, at any
    /// resize, and when later images need its room. It stays in its line while the whole screen scrolls; where rows move in
    /// another way, it does not follow. A frame that is held back does not hold back its images.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        // Those of lines that the scrollback has dropped since the last image came.
        // The alternate screen's rows have numbers too, but no scrollback to fall out of.
        let oldest = self.state.history.numbers().start;
        self.state.images.iter().filter(move |image| image.alternate || image.line >= oldest)
    }

    /// Returns true if the bytes so far end within a sequence or a character, so that more are likely to follow at
    /// once.
    #[must_use]
    pub fn is_mid_sequence(&self) -> bool {
        self.parser.is_mid_sequence()
    }

    /// Returns true while the child paints a frame that must not show yet (mode 2026), until its time is up.
    #[must_use]
    pub fn is_synchronizing(&self) -> bool {
        self.state.held().is_some()
    }

    /// Returns true if the child asked for graphemes to take one place, of the width that they are drawn with (mode
    /// 2027).
    #[must_use]
    pub fn clusters_graphemes(&self) -> bool {
        self.state.clusters_graphemes()
    }

    /// Sets the colours that the terminal answers with. A child that asked for it (mode 2031) gets a report when they
    /// turn from dark to light or back.
    pub fn set_colors(&mut self, colors: Colors) {
        let turned = colors.is_dark() != self.state.options.colors.is_dark();
        self.state.options.colors = colors;
        // Programs choose their colours for a light or a dark background, so a change within either is none to them.
        if turned && self.state.on(Mode::ColorScheme) {
            self.state.color_scheme();
        }
    }

    /// Gives up the scrollback and its memory.
    pub fn release_scrollback(&mut self) {
        self.state.history.clear();
        self.state.forget_styles();
        self.state.touch_all();
        self.state.commit();
    }

    /// Returns the size of the screen.
    #[must_use]
    pub fn size(&self) -> Size {
        Size::new(self.state.cols() as u16, self.state.rows() as u16)
    }

    /// Returns the cursor, as a snapshot would have it.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        cursor(self.state.held().map_or(&self.state.view(), |frozen| &frozen.view))
    }

    /// Returns the modes in force, as a snapshot would have them.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.state.held().map_or_else(|| self.state.view().modes, |frozen| frozen.view.modes)
    }

    /// Returns the number of the current state.
    #[must_use]
    pub fn generation(&self) -> Generation {
        // `stamp` marks the changes to come, so the state that can be seen is the one before it.
        Generation(self.state.held().map_or(self.state.stamp - 1, |frozen| frozen.generation))
    }

    /// Returns the rows that changed since `generation`, perhaps with some that did not.
    #[must_use]
    pub fn damage_since(&self, generation: Generation) -> Damage {
        let now = self.generation();
        if generation >= now {
            return Damage::None;
        }
        // Reverse video, colours, the other screen: every row looks different without any cell having changed.
        if self.state.all_changed_at > generation.0 {
            return Damage::Full;
        }
        let grid = self.state.held().map_or(&self.state.grid, |frozen| &frozen.grid);
        // By rows, because that is what is known at no cost: each write stamps its row.
        let changed = (0..grid.rows()).filter(|row| grid.changed_at(*row) > generation.0);
        Damage::Rows(changed.map(|row| row as u16).collect())
    }

    /// Returns the number of rows in the scrollback.
    #[must_use]
    pub fn scrollback_len(&self) -> usize {
        self.state.history.rows()
    }

    /// Returns rows of the scrollback by their place, 0 for the oldest; the range is clamped.
    #[must_use]
    pub fn scrollback_rows(&self, range: Range<usize>) -> Vec<Line> {
        let mut lines = Vec::new();
        let (state, cols) = (&self.state, self.state.cols());
        let looks = Looks { styles: &state.styles, links: &state.links };
        // An empty or inverted range is no error: numbers may have moved on since the caller read them.
        let count = range.end.saturating_sub(range.start);
        state.history.for_each_row(range.start, count, |clusters, cells, end| {
            lines.push(snapshot::line(cells, end != RowEnd::Line, cols, looks, clusters));
        });
        lines
    }

    /// Returns the window title that the child set, without control characters.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        Some(self.state.title.as_str()).filter(|title| !title.is_empty())
    }

    /// Returns the bytes of memory that the terminal holds, within some percent.
    #[must_use]
    pub fn memory(&self) -> usize {
        let lines: usize = self.lines.iter().map(LineCache::memory).sum();
        size_of::<Self>() + self.state.memory() + self.parser.memory() + lines
    }

    fn render(&mut self, generation: u64) -> Snapshot {
        let held = self.state.held();
        let (grid, view) = match held {
            Some(frozen) => (&frozen.grid, frozen.view.clone()),
            None => (&self.state.grid, self.state.view()),
        };
        let (state, [main, alternate]) = (&self.state, &mut self.lines);
        // The grids number their storage alike, so each screen has lines of its own.
        let cache = if view.alternate { alternate } else { main };
        let lines = (0..grid.rows()).map(|row| {
            cache.line(grid.storage(row), grid.slot(row).changed_at, || render_row(state, grid, row))
        });
        let lines = lines.collect();
        let size = Size::new(grid.cols() as u16, grid.rows() as u16);
        let mut snapshot = Snapshot::new(size, lines, cursor(&view), Generation(generation));
        snapshot.title = self.title().map(Arc::from);
        snapshot.modes = view.modes;
        // As they were when the frame began: rows that left since are on the screen that this snapshot shows.
        snapshot.scrollback = view.scrollback;
        snapshot.palette = view.palette;
        snapshot
    }
}

/// Cuts the rows of a size so that it has at most [`MOST_CELLS`].
fn bounded(size: Size) -> Size {
    let rows = (MOST_CELLS / u32::from(size.cols())).min(u32::from(size.rows()));
    Size::new(size.cols(), rows as u16)
}

fn render_row(state: &State, grid: &Grid, row: usize) -> Line {
    let wrapped = grid.slot(row).flags & Slot::WRAPPED != 0;
    let looks = Looks { styles: &state.styles, links: &state.links };
    let size = match grid.slot(row).size {
        1 => LineSize::DoubleWidth,
        2 => LineSize::DoubleTop,
        3 => LineSize::DoubleBottom,
        _ => LineSize::Single,
    };
    snapshot::line(grid.row(row), wrapped, grid.cols(), looks, &state.clusters).with_size(size)
}

fn cursor(view: &View) -> Cursor {
    let mut cursor = Cursor::at(view.row as u16, view.col as u16);
    cursor.hidden = view.hidden;
    cursor.blink = view.blink;
    // DECSCUSR: odd numbers blink, which the mode tells as well.
    cursor.shape = match view.cursor_style {
        3 | 4 => CursorShape::Underline,
        5 | 6 => CursorShape::Bar,
        _ => CursorShape::Block,
    };
    cursor
}

impl Terminal for Emulator {
    fn feed(&mut self, bytes: &[u8]) {
        self.process(bytes);
    }

    fn resize(&mut self, size: Size) {
        let size = bounded(size);
        for cache in &mut self.lines {
            // Storage has other rows now.
            cache.clear();
        }
        // Nothing is painted again by the child yet, so this is what people see for a moment.
        self.state.resize(usize::from(size.cols()), usize::from(size.rows()));
        self.state.commit();
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        let generation = self.generation();
        // The same allocation, so that a reader who asks often pays for a comparison of pointers.
        if let Some(last) = &self.last
            && last.generation == generation
        {
            return Arc::clone(last);
        }
        let snapshot = Arc::new(self.render(generation.0));
        Arc::clone(self.last.insert(snapshot))
    }

    fn scrollback_numbers(&self) -> Range<u64> {
        let kept = self.state.history.numbers();
        // Rows that left the screen since then are still shown.
        let end = self.state.held().map_or(kept.end, |frozen| frozen.view.scrollback.end);
        kept.start.min(end)..end
    }

    fn scrollback(&self, range: Range<u64>) -> Vec<Line> {
        let kept = self.state.history.numbers();
        let index = |number: u64| number.clamp(kept.start, kept.end) - kept.start;
        self.scrollback_rows(index(range.start) as usize..index(range.end) as usize)
    }

    fn take_replies(&mut self) -> Vec<u8> {
        mem::take(&mut self.state.replies)
    }

    fn is_synchronizing(&self) -> bool {
        self.state.held().is_some()
    }

    fn redraw(&mut self) -> Vec<u8> {
        Self::redraw(self)
    }

    fn redraw_with_scrollback(&mut self, most: usize) -> (Vec<u8>, u64) {
        (Self::redraw_with_scrollback(self, most), self.state.history.numbers().end)
    }

    fn renumber_scrollback(&mut self, end: u64) {
        self.state.history.renumber_until(end);
        self.state.touch_all();
        self.state.commit();
    }
}
