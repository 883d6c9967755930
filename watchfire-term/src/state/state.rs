//! Everything that a terminal remembers. What sequences do to it is in the modules beside.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use watchfire_core::terminal::{self, Modes as ShownModes};

use crate::cells::cell::{Cell, Pen};
use crate::cells::clusters::Clusters;
use crate::cells::grid::Grid;
use crate::cells::history::History;
use crate::cells::link::Links;
use crate::cells::style::{Look, Paint, Styles};
use crate::color::Palette;
use crate::event::Event;
use crate::options::Options;
use crate::state::charset::Charsets;
use crate::state::images::Images;
use crate::state::keyboard::Keyboard;
use crate::state::modes::{Mode, Modes};
use crate::state::stacks::Stacks;
use crate::state::tabs::Tabs;

/// Answers that are not taken are dropped beyond this many bytes.
const MAX_REPLIES: usize = 64 << 10;
const MAX_EVENTS: usize = 256;
const MAX_EVENT_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: Options,
    /// The screen in use.
    pub(crate) grid: Grid,
    /// The other one, once it was used.
    pub(crate) other: Option<Grid>,
    pub(crate) alternate: bool,
    pub(crate) history: History,
    pub(crate) styles: Styles,
    pub(crate) clusters: Clusters,
    pub(crate) links: Links,

    // The cursor and what is written next. `col` is never beyond the last column: behind it is `wrap`.
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// The last column was written: the next character goes to the next row.
    pub(crate) wrap: bool,
    /// The last character may join with the next (mode 2027).
    pub(crate) joining: bool,
    pub(crate) look: Look,
    pen: Pen,
    /// True if the pen matches the look.
    fresh_pen: bool,
    pub(crate) protect: Protect,
    /// True if written cells are protected.
    pub(crate) protected: bool,
    pub(crate) last: Option<char>,
    pub(crate) margins: Margins,
    pub(crate) modes: Modes,
    pub(crate) kept_modes: Vec<(u16, bool)>,
    pub(crate) charsets: Charsets,
    /// In VT52 mode: the character sets to come back to.
    pub(crate) vt52: Option<Charsets>,
    /// Characters take the long way: inserted, mapped, or otherwise special.
    pub(crate) special: bool,
    pub(crate) tabs: Tabs,
    /// A line was given double width at some time.
    pub(crate) sized: bool,
    pub(crate) saved: [Saved; 2],
    pub(crate) cursor_style: u8,
    pub(crate) keyboard: Keyboard,
    pub(crate) palette: Palette,
    /// Colours that snapshots show, as of the last commit.
    pub(crate) palette_shown: Arc<terminal::Palette>,
    palette_stale: bool,
    pub(crate) stacks: Stacks,
    /// Extent of DECCARA and DECRARA (DECSACE): 2 for rectangles, otherwise everything between two places.
    pub(crate) change_extent: u16,
    pub(crate) checksum_flags: u16,
    pub(crate) eight_bit_replies: bool,
    /// The level of DECSCL, from 1 to 5.
    pub(crate) level: u8,

    pub(crate) iconified: bool,
    /// Position that the window was asked to take.
    pub(crate) position: (u16, u16),
    /// The rows and columns before the screen was made as large as can be.
    pub(crate) before_full: Option<(usize, usize)>,
    pub(crate) title: String,
    pub(crate) icon: String,
    pub(crate) titles: VecDeque<(Option<String>, Option<String>)>,
    pub(crate) title_modes: u8,
    pub(crate) images: Images,
    pub(crate) dcs: Dcs,
    pub(crate) replies: Vec<u8>,
    pub(crate) events: VecDeque<Event>,
    /// Of their texts.
    pub(crate) event_bytes: usize,
    /// The number that changes are marked with: one more than the generation.
    pub(crate) stamp: u64,
    pub(crate) changed: bool,
    /// The modes of the last commit, as snapshots show them.
    modes_shown: ShownModes,
    /// Everything changed at this generation.
    pub(crate) all_changed_at: u64,
    pub(crate) synchronized_at: Option<Instant>,
    /// Content of snapshots while output is held back.
    pub(crate) frozen: Option<Box<Frozen>>,
}

/// A picture held back during synchronized output.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) grid: Grid,
    pub(crate) view: View,
    pub(crate) generation: u64,
}

/// State that a snapshot has besides its rows.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) row: usize,
    pub(crate) col: usize,
    pub(crate) hidden: bool,
    pub(crate) cursor_style: u8,
    pub(crate) blink: bool,
    pub(crate) alternate: bool,
    pub(crate) modes: ShownModes,
    pub(crate) scrollback: Range<u64>,
    pub(crate) palette: Arc<terminal::Palette>,
}

/// Limits of scrolling and moving. `bottom` and `right` are outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Margins {
    pub(crate) top: usize,
    pub(crate) bottom: usize,
    pub(crate) left: usize,
    pub(crate) right: usize,
}

/// From which kinds of erasing guarded cells are safe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Protect {
    #[default]
    Off,
    /// DECSCA: against selective erase.
    Dec,
    /// SPA: against all erase.
    Iso,
}

/// State that DECSC saves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) row: usize,
    pub(crate) col: usize,
    pub(crate) wrap: bool,
    pub(crate) look: Look,
    pub(crate) protected: bool,
    pub(crate) origin: bool,
    pub(crate) charsets: Charsets,
}

impl Saved {
    /// Returns true if nothing has been saved yet.
    pub(crate) fn is_initial(&self) -> bool {
        (self.row, self.col, self.wrap, self.protected, self.origin) == (0, 0, false, false, false)
            && self.look == Look::default()
            && self.charsets == Charsets::default()
    }
}

/// A device control string that is being read.
#[derive(Debug, Default)]
pub(crate) enum Dcs {
    #[default]
    None,
    /// DECRQSS.
    Setting(Vec<u8>),
    /// XTGETTCAP.
    Capability(Vec<u8>),
    /// DECRSPS: what kind of report.
    Presentation(u16, Vec<u8>),
    /// DECRSTS, likewise.
    Terminal(u16, Vec<u8>),
    /// Sixels, with their introducer.
    Sixel(Vec<u8>),
}

impl Dcs {
    fn memory(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Setting(data) | Self::Capability(data) | Self::Sixel(data) => data.capacity(),
            Self::Presentation(_, data) | Self::Terminal(_, data) => data.capacity(),
        }
    }
}

impl State {
    pub(crate) fn new(cols: usize, rows: usize, options: Options) -> Self {
        let history = History::new(cols, options.scrollback_lines, options.scrollback_bytes);
        let mut state = Self {
            grid: Grid::new(cols, rows),
            other: None,
            alternate: false,
            history,
            styles: Styles::default(),
            clusters: Clusters::default(),
            links: Links::default(),
            row: 0,
            col: 0,
            wrap: false,
            joining: false,
            look: Look::default(),
            pen: Pen::default(),
            fresh_pen: true,
            protect: Protect::Off,
            protected: false,
            last: None,
            margins: Margins { top: 0, bottom: rows, left: 0, right: cols },
            modes: Modes::default(),
            kept_modes: Vec::new(),
            charsets: Charsets::default(),
            vt52: None,
            special: false,
            tabs: Tabs::new(cols),
            sized: false,
            saved: [Saved::default(); 2],
            cursor_style: 0,
            keyboard: Keyboard::default(),
            palette: Palette::default(),
            palette_shown: Arc::default(),
            palette_stale: false,
            stacks: Stacks::default(),
            change_extent: 0,
            checksum_flags: 0,
            eight_bit_replies: false,
            // A VT420, which is what DA1 says by default.
            level: 4,
            iconified: false,
            position: (0, 0),
            before_full: None,
            title: String::new(),
            icon: String::new(),
            titles: VecDeque::new(),
            title_modes: 0,
            images: Images::default(),
            dcs: Dcs::None,
            replies: Vec::new(),
            events: VecDeque::new(),
            event_bytes: 0,
            // Generation 0 is the blank screen, which nothing has been marked with yet.
            stamp: 1,
            changed: false,
            modes_shown: ShownModes::default(),
            all_changed_at: 0,
            synchronized_at: None,
            frozen: None,
            options,
        };
        state.modes = state.initial_modes();
        state
    }

    /// Returns the modes of a fresh terminal.
    pub(crate) fn initial_modes(&self) -> Modes {
        let mut modes = Modes::default();
        modes.set(Mode::Graphemes, self.options.graphemes);
        modes.set(Mode::EmojiPresentation, self.options.emoji_presentation);
        modes
    }

    pub(crate) fn rows(&self) -> usize {
        self.grid.rows()
    }

    pub(crate) fn cols(&self) -> usize {
        self.grid.cols()
    }

    #[inline]
    pub(crate) fn on(&self, mode: Mode) -> bool {
        self.modes.on(mode)
    }

    /// Reports that the current look or its protection changed.
    #[inline]
    pub(crate) fn apply_look(&mut self) {
        self.fresh_pen = false;
    }

    /// Returns the common part of written cells.
    #[inline]
    pub(crate) fn pen(&mut self) -> Pen {
        // SGR often comes several times before any text does. The table of styles is asked once.
        if !self.fresh_pen {
            self.pen = Pen::new(self.styles.number(self.look), self.protected);
            self.fresh_pen = true;
        }
        self.pen
    }

    /// Returns an erased cell.
    #[inline]
    pub(crate) fn blank(&mut self) -> Cell {
        // Erased cells in the default background need no style, and mostly no cells.
        if self.look.background() == Paint::DEFAULT {
            return Cell::BLANK;
        }
        Cell::new(0, Pen::new(self.styles.number(self.look.erased()), false))
    }

    /// Decides whether characters must take the long way.
    pub(crate) fn update_special(&mut self) {
        self.special = self.on(Mode::Insert) || !self.charsets.is_plain();
    }

    /// Marks everything as changed.
    pub(crate) fn touch_all(&mut self) {
        self.all_changed_at = self.stamp;
        self.changed = true;
    }

    /// Sends an answer to the child. Dropped if the embedder takes no answers.
    pub(crate) fn reply(&mut self, bytes: &[u8]) {
        // A child that asks without end, of an embedder that takes no answers, must not fill memory.
        if self.replies.len() + bytes.len() <= MAX_REPLIES {
            self.replies.extend_from_slice(bytes);
        }
    }

    /// Reports an event to the embedder. The oldest is dropped if the embedder takes none.
    pub(crate) fn tell(&mut self, event: Event) {
        self.event_bytes += event.bytes();
        // The oldest go first: a title or a directory that came later is the one in force.
        while self.events.len() >= MAX_EVENTS || self.event_bytes > MAX_EVENT_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.event_bytes -= oldest.bytes();
        }
        self.events.push_back(event);
    }

    /// Ends a generation if anything changed in it.
    pub(crate) fn commit(&mut self) {
        // Between chunks no number of a style or a cluster is held outside of cells.
        if self.styles.is_crowded() || self.links.is_crowded() {
            self.forget_styles();
        }
        if self.clusters.is_crowded() {
            let cells = self.grids().flat_map(Grid::used_cells).collect::<Vec<_>>();
            self.clusters.retain(cells.into_iter());
        }
        self.notice_modes();
        if std::mem::take(&mut self.changed) {
            self.grid.commit(self.stamp);
            self.stamp += 1;
        }
    }

    fn grids(&self) -> impl Iterator<Item = &Grid> {
        let frozen = self.frozen.as_deref().map(|frozen| &frozen.grid);
        std::iter::once(&self.grid).chain(&self.other).chain(frozen)
    }

    /// Forgets looks and links that nothing has any more.
    pub(crate) fn forget_styles(&mut self) {
        let mut used = vec![false; self.styles.len()];
        self.fresh_pen = false;
        let cells = self.grids().flat_map(Grid::used_cells).map(Cell::style);
        for number in cells {
            if let Some(used) = used.get_mut(number as usize) {
                *used = true;
            }
        }
        // Packed lines hold numbers of styles as well.
        self.history.mark_styles(&mut used);
        self.styles.retain(&used);
        // Links that nothing shows yet: of the look at hand and of saved cursors.
        let saved = self.saved.map(|saved| saved.look.link());
        let links = self.styles.links(&used).chain(saved).chain([self.look.link()]);
        self.links.retain(links);
    }

    /// Reports that the child set or reset colours.
    pub(crate) fn palette_changed(&mut self) {
        self.palette_stale = true;
        // A scheme of many colours is one event.
        // Programs that set a scheme send a command for each of its colours.
        if self.events.back() != Some(&Event::Palette) {
            self.tell(Event::Palette);
        }
    }

    /// Marks a change if modes or colours that snapshots show were set or reset.
    pub(crate) fn notice_modes(&mut self) {
        // Compared only after a command about colours, because the copy for snapshots is made of all of them.
        if std::mem::take(&mut self.palette_stale) {
            let shown = self.palette.shown();
            if shown != *self.palette_shown {
                self.palette_shown = Arc::new(shown);
                self.touch_all();
            }
        }
        let modes = self.shown_modes();
        self.changed |= modes != std::mem::replace(&mut self.modes_shown, modes);
    }

    /// Returns the modes that snapshots show.
    fn shown_modes(&self) -> ShownModes {
        [
            (ShownModes::ALTERNATE_SCREEN, self.alternate),
            (ShownModes::REVERSE_SCREEN, self.on(Mode::ReverseScreen)),
            (ShownModes::APPLICATION_CURSOR, self.on(Mode::AppCursor)),
            (ShownModes::APPLICATION_KEYPAD, self.on(Mode::AppKeypad)),
            (ShownModes::BRACKETED_PASTE, self.on(Mode::BracketedPaste)),
            (ShownModes::FOCUS, self.on(Mode::Focus)),
            (
                // X10's mode and highlighting differ in what they send, which is the encoder's to know. For a viewer all
                // three ask for buttons and not for moves.
                ShownModes::MOUSE_BUTTONS,
                [Mode::MouseX10, Mode::MousePress, Mode::MouseHighlight]
                    .into_iter()
                    .any(|mode| self.on(mode)),
            ),
            (ShownModes::MOUSE_DRAG, self.on(Mode::MouseDrag)),
            (ShownModes::MOUSE_MOVE, self.on(Mode::MouseMove)),
            (ShownModes::MOUSE_SGR, self.on(Mode::MouseSgr)),
        ]
        .into_iter()
        .fold(ShownModes::from_kitty(self.keyboard.flags(self.alternate)), |modes, (mode, on)| {
            modes.with(mode, on)
        })
    }

    pub(crate) fn view(&self) -> View {
        View {
            row: self.row,
            col: self.col.min(self.cols() - 1),
            hidden: !self.on(Mode::CursorVisible),
            cursor_style: self.cursor_style,
            blink: self.on(Mode::CursorBlink),
            alternate: self.alternate,
            modes: self.modes_shown,
            scrollback: self.history.numbers(),
            palette: Arc::clone(&self.palette_shown),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        let grids: usize = self.grids().map(Grid::memory).sum();
        // Titles are bounded by themselves, their stack by ten.
        let titles: usize = self.titles.iter().flat_map(|(a, b)| [a, b]).flatten().map(String::len).sum();
        grids
            + self.history.memory()
            + self.styles.memory()
            + self.clusters.memory()
            + self.links.memory()
            + self.replies.capacity()
            + titles
            + self.stacks.memory()
            + self.events.capacity() * size_of::<Event>()
            + self.event_bytes
            + self.images.memory()
            + self.dcs.memory()
    }
}
