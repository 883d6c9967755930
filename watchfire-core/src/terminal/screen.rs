//! Content of a screen: lines of styled runs, with cells as a view.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::{Generation, Hyperlink, Modes, Palette};

/// Size of a screen in character cells. Neither dimension is ever zero.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "super::serial::SizeData")
)]
pub struct Size {
    cols: u16,
    rows: u16,
}

impl Size {
    /// Creates a size of `cols` by `rows`. A zero counts as one.
    #[must_use]
    pub const fn new(cols: u16, rows: u16) -> Self {
        Self { cols: if cols == 0 { 1 } else { cols }, rows: if rows == 0 { 1 } else { rows } }
    }

    /// Returns the width in cells.
    #[must_use]
    pub const fn cols(self) -> u16 {
        self.cols
    }

    /// Returns the height in cells.
    #[must_use]
    pub const fn rows(self) -> u16 {
        self.rows
    }
}

impl Default for Size {
    /// Returns 80 by 24.
    fn default() -> Self {
        Self::new(80, 24)
    }
}

/// State of a screen at one moment: immutable and cheap to share.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "super::serial::SnapshotData")
)]
#[non_exhaustive]
pub struct Snapshot {
    /// Size of the screen.
    pub size: Size,
    /// Lines from top to bottom, one for each row.
    pub lines: Box<[Arc<Line>]>,
    /// Place and look of the cursor.
    pub cursor: Cursor,
    /// Window title that the child set, without control characters.
    pub title: Option<Arc<str>>,
    /// Modes in force.
    pub modes: Modes,
    /// Colours that the child set.
    pub palette: Arc<Palette>,
    /// Numbers of the lines that can be read with [`Terminal::scrollback`](super::Terminal::scrollback). The end is the
    /// number of the first row of the screen: it grows by one with each line that leaves the top, and never shrinks. See
    /// [`Terminal`](super::Terminal#line-numbers).
    pub scrollback: Range<u64>,
    /// State of the terminal that this snapshot shows.
    pub generation: Generation,
}

impl Snapshot {
    /// Creates a snapshot without title, modes, palette and scrollback. Missing lines are blank, surplus ones are dropped.
    #[must_use]
    pub fn new(size: Size, mut lines: Vec<Arc<Line>>, cursor: Cursor, generation: Generation) -> Self {
        lines.resize_with(usize::from(size.rows()), Arc::default);
        Self {
            size,
            lines: lines.into(),
            cursor,
            title: None,
            modes: Modes::default(),
            palette: Arc::default(),
            scrollback: 0..0,
            generation,
        }
    }

    /// Returns the text of the screen, one line for each row, without trailing blanks and trailing empty lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line.text().trim_end_matches(' '));
            text.push('\n');
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Returns the number of rows by which the picture moved up since `before`, negative for down, or 0 if a move explains
    /// no more rows than none.
    #[must_use]
    pub fn moved_since(&self, before: &Self) -> isize {
        let rows = before.lines.len();
        let stay = before.lines.iter().zip(&self.lines).filter(|(old, new)| Arc::ptr_eq(old, new)).count();
        // As after a key: no move explains more, and the table below would cost more than all else.
        if stay + 1 >= self.lines.len() {
            return 0;
        }
        // Lines are shared between snapshots, also after they scrolled, so that pointers suffice. Each shared line votes
        // for the distance that it moved.
        let places: HashMap<_, _> =
            before.lines.iter().zip(0..).map(|(line, row)| (Arc::as_ptr(line), row)).collect();
        let mut votes = vec![0_usize; rows + self.lines.len() + 1];
        for (row, line) in self.lines.iter().enumerate() {
            let place = places.get(&Arc::as_ptr(line)).map(|old: &usize| old + self.lines.len() - row);
            if let Some(vote) = place.and_then(|place| votes.get_mut(place)) {
                *vote += 1;
            }
        }
        let stay = votes.get(self.lines.len()).copied().unwrap_or_default();
        let most = votes.iter().enumerate().max_by_key(|(_, count)| **count);
        most.filter(|(_, count)| **count > stay)
            .map_or(0, |(place, _)| place as isize - self.lines.len() as isize)
    }

    /// Returns the text of one row without trailing blanks; empty if there is no such row.
    #[must_use]
    pub fn row_text(&self, row: u16) -> &str {
        self.lines.get(usize::from(row)).map_or("", |line| line.text().trim_end_matches(' '))
    }
}

/// One row: its text, divided into runs of one style.
///
/// Cells right of the last run are blank in the default style.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "super::serial::LineData")
)]
pub struct Line {
    text: Box<str>,
    runs: Box<[Run]>,
    links: Box<[Arc<Hyperlink>]>,
    wrapped: bool,
    size: LineSize,
}

impl Line {
    /// Creates a line of `runs` over `text`. Text that the runs do not cover is dropped. A run that ends inside a character
    /// or beyond the text is dropped with all runs after it.
    #[must_use]
    pub fn new(text: impl Into<String>, runs: impl Into<Vec<Run>>, wrapped: bool) -> Self {
        let (mut text, mut runs) = (text.into(), runs.into());
        // Checked once here, so that readers can split the text by their lengths without a panic.
        let mut end = 0;
        let valid = runs
            .iter()
            .take_while(|run| {
                end += run.bytes as usize;
                end <= text.len() && text.is_char_boundary(end)
            })
            .count();
        runs.truncate(valid);
        text.truncate(runs.iter().map(|run| run.bytes as usize).sum());
        Self { text: text.into(), runs: runs.into(), links: Box::default(), wrapped, size: LineSize::Single }
    }

    /// Sets the links that the runs refer to by number.
    #[must_use]
    pub fn with_links(mut self, links: impl Into<Box<[Arc<Hyperlink>]>>) -> Self {
        self.links = links.into();
        self
    }

    /// Sets the size in which the line is shown.
    #[must_use]
    pub fn with_size(mut self, size: LineSize) -> Self {
        self.size = size;
        self
    }

    /// Returns the size in which the line is shown. Cells are counted before they are stretched.
    #[must_use]
    pub fn size(&self) -> LineSize {
        self.size
    }

    /// Returns the text of all runs.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Yields the runs with their text.
    pub fn runs(&self) -> impl Iterator<Item = (&Run, &str)> {
        let mut rest = &*self.text;
        self.runs.iter().map(move |run| {
            // Cannot panic: `new` has dropped every run that ends inside a character or beyond the text.
            let (text, tail) = rest.split_at(run.bytes as usize);
            rest = tail;
            (run, text)
        })
    }

    /// Returns the links that the runs refer to by number: link 1 is the first.
    #[must_use]
    pub fn links(&self) -> &[Arc<Hyperlink>] {
        &self.links
    }

    /// Returns the hyperlink of a run of this line.
    #[must_use]
    pub fn hyperlink(&self, run: &Run) -> Option<&Hyperlink> {
        self.links.get(usize::from(run.link).checked_sub(1)?).map(|link| &**link)
    }

    /// Returns true if the line continues in the next row because it was too long.
    #[must_use]
    pub fn is_wrapped(&self) -> bool {
        self.wrapped
    }

    /// Yields the cells from left to right. A wide character is one cell of width 2.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        self.runs().flat_map(|(run, text)| {
            let (mut rest, style, kind, columns) = (text, run.style, run.kind, run.columns);
            let link = self.hyperlink(run);
            std::iter::from_fn(move || {
                let end = match kind {
                    RunKind::Cluster => rest.len(),
                    RunKind::Narrow | RunKind::Wide => rest.chars().next()?.len_utf8(),
                };
                // The text of a cluster is used up by its one cell.
                if end == 0 {
                    return None;
                }
                let (text, tail) = rest.split_at(end);
                rest = tail;
                let width = match kind {
                    RunKind::Narrow => 1,
                    RunKind::Wide => 2,
                    RunKind::Cluster => columns,
                };
                Some(Cell { text, width, style, link })
            })
        })
    }
}

/// Size in which a line is shown (DECDWL, DECDHL). Of a double line, the left half of the columns is visible.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum LineSize {
    /// Usual width and height.
    #[default]
    Single,
    /// Double width.
    DoubleWidth,
    /// Upper half of a line of double width and height.
    DoubleTop,
    /// Lower half of a line of double width and height.
    DoubleBottom,
}

/// Adjacent cells with one style and one link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Run {
    /// Style of the cells.
    pub style: Style,
    /// Length of their text in bytes.
    pub bytes: u32,
    /// Width in columns.
    pub columns: u16,
    /// Number of the link within the line, from 1, or 0 for none. See [`Line::hyperlink`].
    pub link: u16,
    /// Division of the text into cells.
    pub kind: RunKind,
}

/// Division of the text of a [`Run`] into cells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum RunKind {
    /// Each character is one column wide.
    Narrow,
    /// Each character is two columns wide.
    Wide,
    /// The whole text is one grapheme, as wide as the run.
    Cluster,
}

/// One character cell: a view into a [`Line`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Cell<'a> {
    /// Base character with its combining characters.
    pub text: &'a str,
    /// Width in columns: 1 or 2.
    pub width: u16,
    /// Style of the cell.
    pub style: Style,
    /// Hyperlink of the cell.
    pub link: Option<&'a Hyperlink>,
}

/// Look of a cell.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Style {
    /// Colour of the text.
    pub foreground: Color,
    /// Colour of the background.
    pub background: Color,
    /// Colour of the underline; the default is the colour of the text.
    pub underline_color: Color,
    /// Attributes, such as bold and italic.
    pub attributes: Attributes,
    /// Kind of underline.
    pub underline: Underline,
}

/// Colour as the child named it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Color {
    /// Default colour of the viewer.
    #[default]
    Default,
    /// Entry of the palette: 0 to 15 are the named colours, 16 to 231 the cube, 232 to 255 the greys.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// Set of attributes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Attributes(u16);

impl Attributes {
    /// SGR 1.
    pub const BOLD: Self = Self(1);
    /// SGR 2.
    pub const DIM: Self = Self(2);
    /// SGR 3.
    pub const ITALIC: Self = Self(4);
    /// SGR 5 and 6.
    pub const BLINK: Self = Self(8);
    /// SGR 7.
    pub const INVERSE: Self = Self(16);
    /// SGR 8.
    pub const CONCEAL: Self = Self(32);
    /// SGR 9.
    pub const STRIKE: Self = Self(64);
    /// SGR 53.
    pub const OVERLINE: Self = Self(128);

    /// Creates a set from its bits. Unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        // The constants above use eight bits.
        Self(bits & 0xff)
    }

    /// Returns the bits of the set.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns true if the set contains all of `other`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the set with `other` added or removed.
    #[must_use]
    pub const fn with(self, other: Self, on: bool) -> Self {
        Self(if on { self.0 | other.0 } else { self.0 & !other.0 })
    }
}

/// Kind of underline.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Underline {
    /// No underline.
    #[default]
    None,
    /// One line.
    Single,
    /// Two lines.
    Double,
    /// Curly.
    Curly,
    /// Dotted.
    Dotted,
    /// Dashed.
    Dashed,
}

/// Place and look of the cursor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Cursor {
    /// Row, counted from 0 at the top.
    pub row: u16,
    /// Column, counted from 0 at the left.
    pub col: u16,
    /// True if the cursor is hidden.
    pub hidden: bool,
    /// Shape of the cursor.
    pub shape: CursorShape,
    /// True if the cursor blinks.
    pub blink: bool,
}

impl Cursor {
    /// Creates a visible cursor at `row` and `col`, both counted from 0.
    #[must_use]
    pub fn at(row: u16, col: u16) -> Self {
        Self { row, col, ..Self::default() }
    }
}

/// Shape of a cursor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CursorShape {
    /// A filled cell.
    #[default]
    Block,
    /// A line below.
    Underline,
    /// A line to the left.
    Bar,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_the_runs() {
        let run = |bytes, columns, kind| Run { style: Style::default(), bytes, columns, link: 0, kind };
        let line = Line::new(
            "ab漢字e\u{301}",
            vec![run(2, 2, RunKind::Narrow), run(6, 4, RunKind::Wide), run(3, 1, RunKind::Cluster)],
            false,
        );
        let cells: Vec<_> = line.cells().map(|cell| (cell.text, cell.width)).collect();
        assert_eq!(cells, [("a", 1), ("b", 1), ("漢", 2), ("字", 2), ("e\u{301}", 1)]);
    }

    #[test]
    fn runs_lead_where_the_line_says() {
        let run = |link| Run { style: Style::default(), bytes: 1, columns: 1, link, kind: RunKind::Narrow };
        let link = Arc::new(Hyperlink::new("", "https://a.example"));
        let line = Line::new("abc", vec![run(0), run(1), run(2)], false).with_links([link]);
        let links: Vec<_> = line.cells().map(|cell| cell.link.map(|link| &*link.uri)).collect();
        assert_eq!(links, [None, Some("https://a.example"), None]);
    }

    #[test]
    fn runs_that_do_not_fit_are_dropped() {
        let run = Run { style: Style::default(), bytes: 2, columns: 2, link: 0, kind: RunKind::Narrow };
        assert_eq!(Line::new("é", vec![run, run], false).text(), "é");
        assert_eq!(Line::new("aé", vec![run], false).text(), "");
        assert_eq!(Size::new(0, 0), Size::new(1, 1));
    }
}
