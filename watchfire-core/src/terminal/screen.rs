//! What a terminal shows: lines of styled runs, with cells as a view.

use std::ops::Range;
use std::sync::Arc;

use super::{Generation, Hyperlink, Modes};

/// The size of a screen in character cells; neither is ever zero.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Size {
    cols: u16,
    rows: u16,
}

impl Size {
    /// `cols` wide and `rows` high; a zero counts as one.
    #[must_use]
    pub const fn new(cols: u16, rows: u16) -> Self {
        Self { cols: if cols == 0 { 1 } else { cols }, rows: if rows == 0 { 1 } else { rows } }
    }

    /// Width in cells.
    #[must_use]
    pub const fn cols(self) -> u16 {
        self.cols
    }

    /// Height in cells.
    #[must_use]
    pub const fn rows(self) -> u16 {
        self.rows
    }
}

impl Default for Size {
    /// 80 by 24.
    fn default() -> Self {
        Self::new(80, 24)
    }
}

/// An immutable picture of a screen, cheap to share.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The size of the screen.
    pub size: Size,
    /// One line per row, top first.
    pub lines: Box<[Arc<Line>]>,
    /// The cursor.
    pub cursor: Cursor,
    /// Window title that the child set, without control characters.
    pub title: Option<Arc<str>>,
    /// Modes in force.
    pub modes: Modes,
    /// Numbers of the lines that can be read with [`Terminal::scrollback`](super::Terminal::scrollback). The end grows
    /// by one with each line that leaves the top of the screen, and never shrinks.
    pub scrollback: Range<u64>,
    /// State of the terminal that this snapshot shows.
    pub generation: Generation,
}

impl Snapshot {
    /// A picture with these lines; missing lines are blank, surplus ones are dropped.
    #[must_use]
    pub fn new(size: Size, mut lines: Vec<Arc<Line>>, cursor: Cursor, generation: Generation) -> Self {
        lines.resize_with(usize::from(size.rows()), Arc::default);
        Self {
            size,
            lines: lines.into(),
            cursor,
            title: None,
            modes: Modes::default(),
            scrollback: 0..0,
            generation,
        }
    }

    /// The text of the screen, one line per row, without trailing blanks and without trailing empty lines.
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

    /// The text of one row, without trailing blanks; empty when there is no such row.
    #[must_use]
    pub fn row_text(&self, row: u16) -> &str {
        self.lines.get(usize::from(row)).map_or("", |line| line.text().trim_end_matches(' '))
    }
}

/// One row: text, and how it is divided into runs of one style.
///
/// Cells right of the last run are blank in the default style.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line {
    text: Box<str>,
    runs: Box<[Run]>,
    links: Box<[Arc<Hyperlink>]>,
    wrapped: bool,
}

impl Line {
    /// A line of `runs` over `text`. Runs must cover the text exactly; what they do not cover is dropped, and a run
    /// that ends inside a character, or beyond the text, is dropped with all that follow.
    #[must_use]
    pub fn new(text: impl Into<String>, runs: impl Into<Vec<Run>>, wrapped: bool) -> Self {
        let (mut text, mut runs) = (text.into(), runs.into());
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
        Self { text: text.into(), runs: runs.into(), links: Box::default(), wrapped }
    }

    /// The same with the links that its runs name.
    #[must_use]
    pub fn with_links(mut self, links: impl Into<Box<[Arc<Hyperlink>]>>) -> Self {
        self.links = links.into();
        self
    }

    /// The text of all runs.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The runs with their text.
    pub fn runs(&self) -> impl Iterator<Item = (&Run, &str)> {
        let mut rest = &*self.text;
        self.runs.iter().map(move |run| {
            let (text, tail) = rest.split_at(run.bytes as usize);
            rest = tail;
            (run, text)
        })
    }

    /// Where a run of this line leads to.
    #[must_use]
    pub fn hyperlink(&self, run: &Run) -> Option<&Hyperlink> {
        self.links.get(usize::from(run.link).checked_sub(1)?).map(|link| &**link)
    }

    /// Whether the line goes on in the next row.
    #[must_use]
    pub fn is_wrapped(&self) -> bool {
        self.wrapped
    }

    /// The cells, left to right. A wide character gives one cell of width 2.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        self.runs().flat_map(|(run, text)| {
            let (mut rest, style, kind, columns) = (text, run.style, run.kind, run.columns);
            let link = self.hyperlink(run);
            std::iter::from_fn(move || {
                let end = match kind {
                    RunKind::Cluster => rest.len(),
                    RunKind::Narrow | RunKind::Wide => rest.chars().next()?.len_utf8(),
                };
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

/// A stretch of cells with one style and one link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// How they look.
    pub style: Style,
    /// How many bytes of the line's text they take.
    pub bytes: u32,
    /// How many columns they take.
    pub columns: u16,
    /// Which of the line's links they are, from 1; none for 0. [`Line::hyperlink`] tells where it leads.
    pub link: u16,
    /// How the text divides into cells.
    pub kind: RunKind,
}

/// How the text of a [`Run`] divides into cells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunKind {
    /// Each character is one column wide.
    Narrow,
    /// Each character is two columns wide.
    Wide,
    /// All of it is one grapheme, as wide as the run.
    Cluster,
}

/// One character cell: a view into a [`Line`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cell<'a> {
    /// The character with what combines with it.
    pub text: &'a str,
    /// How many columns it takes: 1 or 2.
    pub width: u16,
    /// How it looks.
    pub style: Style,
    /// Where it leads to.
    pub link: Option<&'a Hyperlink>,
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Style {
    /// The colour of the text.
    pub foreground: Color,
    /// The colour behind it.
    pub background: Color,
    /// The colour of the underline; default: that of the text.
    pub underline_color: Color,
    /// Bold, italic and so on.
    pub attributes: Attributes,
    /// The kind of underline.
    pub underline: Underline,
}

/// A colour as the child named it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Color {
    /// What the terminal shows by default.
    #[default]
    Default,
    /// An entry of the palette: 0 to 15 the named ones, to 231 the cube, to 255 the greys.
    Indexed(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// A set of attributes.
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

    /// The set of these bits.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0xff)
    }

    /// The bits of the set.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `other` are in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set with `other` put in or taken out.
    #[must_use]
    pub const fn with(self, other: Self, on: bool) -> Self {
        Self(if on { self.0 | other.0 } else { self.0 & !other.0 })
    }
}

/// The kind of underline.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Underline {
    /// None.
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

/// Where the cursor is and how it looks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Cursor {
    /// Row from the top, from 0.
    pub row: u16,
    /// Column from the left, from 0.
    pub col: u16,
    /// Whether it is hidden.
    pub hidden: bool,
    /// How it looks.
    pub shape: CursorShape,
    /// Whether it blinks.
    pub blink: bool,
}

impl Cursor {
    /// A visible cursor at `row` and `col`, both from 0.
    #[must_use]
    pub fn at(row: u16, col: u16) -> Self {
        Self { row, col, ..Self::default() }
    }
}

/// The shape of a cursor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
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
