//! Properties of search, selection and export on rows by chance, and cases that chance would not find.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Place, Rows, Selection};
use crate::terminal::{
    Attributes, Color, Cursor, Generation, Hyperlink, Line, Modes, PlainTerminal, Run, RunKind, Size,
    Snapshot, Style, Terminal,
};

/// Cells: text, columns, kind.
const CELLS: [(&str, u16, RunKind); 16] = [
    ("a", 1, RunKind::Narrow),
    ("b", 1, RunKind::Narrow),
    ("e", 1, RunKind::Narrow),
    (" ", 1, RunKind::Narrow),
    (" ", 1, RunKind::Narrow),
    ("<", 1, RunKind::Narrow),
    (">", 1, RunKind::Narrow),
    ("&", 1, RunKind::Narrow),
    ("\"", 1, RunKind::Narrow),
    ("'", 1, RunKind::Narrow),
    (";", 1, RunKind::Narrow),
    ("é", 1, RunKind::Narrow),
    ("漢", 2, RunKind::Wide),
    ("\u{1f525}", 2, RunKind::Wide),
    ("e\u{301}", 1, RunKind::Cluster),
    ("\u{1f1e9}\u{1f1ea}", 2, RunKind::Cluster),
];

const LINKS: [&str; 5] = [
    "https://example.org/?a&b",
    "FILE:///etc/motd",
    "javascript:alert(1)",
    "http://x/\"><script>alert(1)</script>",
    "https://x/\n' onclick='",
];

fn line() -> impl Strategy<Value = Line> {
    let cell = (0..CELLS.len(), 0_u16..4, 0..=LINKS.len() as u16);
    (prop::collection::vec(cell, 0..10), any::<bool>()).prop_map(|(cells, wrapped)| {
        let (mut text, mut runs) = (String::new(), Vec::new());
        for (index, style, link) in cells {
            let (cell, columns, kind) = CELLS[index];
            let style = Style {
                background: if style & 1 == 0 { Color::Default } else { Color::Indexed(100) },
                attributes: Attributes::from_bits(style << 3),
                ..Style::default()
            };
            text.push_str(cell);
            runs.push(Run { style, bytes: cell.len() as u32, columns, link, kind });
        }
        let links: Vec<_> = LINKS.iter().map(|uri| Arc::new(Hyperlink::new("", *uri))).collect();
        Line::new(text, runs, wrapped).with_links(links)
    })
}

fn rows() -> impl Strategy<Value = Rows> {
    let lines = || prop::collection::vec(line(), 0..6);
    (lines(), lines(), 0_u64..1000).prop_map(|(scrollback, screen, start)| {
        let size = Size::new(20, screen.len() as u16);
        let screen = screen.into_iter().map(Arc::new).collect();
        let mut snapshot = Snapshot::new(size, screen, Cursor::default(), Generation(1));
        snapshot.scrollback = start..start + 100;
        Rows::new(&snapshot, scrollback)
    })
}

fn place(rows: &Rows) -> impl Strategy<Value = Place> + use<> {
    let numbers = rows.numbers();
    (numbers.start.saturating_sub(2)..numbers.end + 2, 0_u16..24)
        .prop_map(|(line, col)| Place::new(line, col))
}

fn selection(rows: &Rows) -> impl Strategy<Value = Selection> + use<> {
    let all = rows.all();
    (place(rows), place(rows), any::<bool>()).prop_map(move |(a, b, block)| match block {
        _ if a > b => all.clone().into(),
        true => Selection::Block { lines: a.line..b.line, columns: a.col.min(b.col)..a.col.max(b.col) },
        false => (a..b).into(),
    })
}

fn rows_and_selection() -> impl Strategy<Value = (Rows, Selection)> {
    rows().prop_flat_map(|rows| {
        let selection = selection(&rows);
        (Just(rows), selection)
    })
}

/// The text of all rows, made in the simplest way.
fn plain(rows: &Rows) -> String {
    let mut lines = vec![String::new()];
    for row in rows.numbers().filter_map(|number| rows.row(number)) {
        if let Some(line) = lines.last_mut() {
            line.push_str(row.text());
        }
        if !row.is_wrapped() {
            lines.push(String::new());
        }
    }
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end_matches(' ')).collect();
    lines.join("\n").trim_end_matches('\n').to_owned()
}

/// The text of a document, as a browser shows it. Fails on tags that are not ours.
fn without_tags(html: &str) -> String {
    let (mut text, mut rest) = (String::new(), html);
    while let Some((before, tail)) = rest.split_once('<') {
        let (tag, after) = tail.split_once('>').expect("an open tag");
        let name = tag.split(' ').next();
        assert!(matches!(name, Some("pre" | "/pre" | "span" | "/span" | "a" | "/a")), "<{tag}>");
        assert!([0, 2, 6].contains(&tag.matches('"').count()), "<{tag}>");
        let href = tag.split_once("href=\"").map(|(_, href)| href.to_lowercase());
        assert!(href.is_none_or(|href| href.starts_with("http") || href.starts_with("file")), "<{tag}>");
        text.push_str(before);
        rest = after;
    }
    assert_eq!(rest, "");
    for (entity, c) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
        text = text.replace(entity, c);
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_selected_is_the_plain_text(rows in rows()) {
        prop_assert_eq!(rows.text(rows.all()), plain(&rows));
    }

    #[test]
    fn html_without_tags_is_the_text((rows, selection) in rows_and_selection()) {
        prop_assert_eq!(without_tags(&rows.html(selection.clone())), rows.text(selection));
    }

    #[test]
    fn parts_of_a_line_are_the_line((rows, at) in rows().prop_flat_map(|rows| { let at = place(&rows); (Just(rows), at) })) {
        let line = rows.line_at(at);
        prop_assert!(!rows.text(line.clone()).contains('\n'));
        if line.contains(&at) {
            // A wide character that is cut belongs to both parts.
            let (left, right) = (rows.text(line.start..at), rows.text(at..line.end));
            let whole = rows.text(line);
            prop_assert!(whole.starts_with(&left) && whole.ends_with(&right), "{:?} {:?} {:?}", whole, left, right);
            prop_assert!(left.len() + right.len() >= whole.len());
        }
    }

    #[test]
    fn a_block_keeps_its_columns((rows, selection) in rows_and_selection()) {
        if let Selection::Block { lines, columns } = selection {
            let text = rows.text(Selection::Block { lines: lines.clone(), columns: columns.clone() });
            let numbers = rows.numbers();
            let lines: Vec<_> = (lines.start.max(numbers.start)..lines.end.min(numbers.end)).collect();
            prop_assert!(text.split('\n').count() == lines.len().max(1));
            for (number, text) in lines.into_iter().zip(text.split('\n')) {
                let mut col = 0;
                let mut want = String::new();
                for cell in rows.row(number).into_iter().flat_map(Line::cells) {
                    if columns.contains(&col) && columns.contains(&(col + cell.width - 1)) {
                        want.push_str(cell.text);
                    } else if columns.contains(&col) || columns.contains(&(col + cell.width - 1)) {
                        want.push(' ');
                    }
                    col += cell.width;
                }
                prop_assert_eq!(text, want.trim_end_matches(' '));
            }
        }
    }
}

fn range(from: (u64, u16), to: (u64, u16)) -> Range<Place> {
    Place::new(from.0, from.1)..Place::new(to.0, to.1)
}

fn shown(size: Size, text: &str) -> Rows {
    let mut terminal = PlainTerminal::new(size).with_scrollback(100_000, 1 << 30);
    terminal.feed(text.as_bytes());
    Rows::of(&mut terminal)
}

#[test]
fn words_and_lines_run_over_wrapped_rows() {
    let rows = shown(Size::new(5, 2), "x wrapped.end\r\ny   ");
    assert_eq!(rows.word_at(Place::new(1, 0), "."), range((0, 2), (1, 4)));
    assert_eq!(rows.word_at(Place::new(0, 3), ""), range((0, 2), (2, 3)));
    assert_eq!(rows.word_at(Place::new(1, 4), "."), range((1, 4), (1, 5)));
    assert_eq!(rows.word_at(Place::new(0, 1), "."), range((0, 1), (0, 2)));
    for behind in [Place::new(3, 2), Place::new(9, 0)] {
        assert_eq!(rows.word_at(behind, "."), behind..behind);
    }
    assert_eq!(rows.line_at(Place::new(1, 3)), range((0, 0), (2, 3)));
    assert_eq!(rows.line_at(Place::new(3, 3)), range((3, 0), (3, 1)));
    assert_eq!(rows.text(rows.line_at(Place::new(2, 0))), "x wrapped.end");
}

#[test]
fn blanks_are_cut_where_the_line_ends() {
    let rows = shown(Size::new(9, 3), "a  b   \r\n\r\nc");
    assert_eq!(rows.text(range((0, 0), (0, 3))), "a  ");
    assert_eq!(rows.text(range((0, 0), (0, 6))), "a  b");
    assert_eq!(rows.text(range((0, 3), (2, 0))), "b\n\n");
    assert_eq!(rows.text(range((0, 3), (9, 9))), "b\n\nc");
    assert_eq!(rows.text(range((2, 0), (0, 0))), "");
}

/// What the scrollback's last row goes on in is hidden by the alternate screen.
#[test]
fn the_alternate_screen_continues_no_line() {
    let mut terminal = PlainTerminal::new(Size::new(3, 1));
    terminal.feed(b"abcdef");
    let mut snapshot = Snapshot::clone(&terminal.snapshot());
    let scrollback = terminal.scrollback(0..1);
    assert_eq!(Rows::new(&snapshot, scrollback.clone()).text(range((0, 0), (9, 0))), "abcdef");
    snapshot.modes = Modes::ALTERNATE_SCREEN;
    assert_eq!(Rows::new(&snapshot, scrollback).text(range((0, 0), (9, 0))), "abc\ndef");
}

#[test]
fn html_keeps_looks_links_and_the_colours_of_bars() {
    let style = Style { foreground: Color::Indexed(1), attributes: Attributes::BOLD, ..Style::default() };
    let bar = Style { background: Color::Rgb(1, 2, 3), ..Style::default() };
    let run =
        |style, bytes: u32, link| Run { style, bytes, columns: bytes as u16, link, kind: RunKind::Narrow };
    let runs =
        vec![run(style, 2, 0), run(Style::default(), 1, 1), run(Style::default(), 1, 2), run(bar, 3, 0)];
    let links = [Arc::new(Hyperlink::new("", "https://a/?'")), Arc::new(Hyperlink::new("", "data:x"))];
    let line = Line::new("a<bc   ", runs, false).with_links(links);
    let snapshot = Snapshot::new(Size::new(7, 1), vec![Arc::new(line)], Cursor::default(), Generation(1));
    let rows = Rows::new(&snapshot, Vec::new());
    assert_eq!(
        rows.html(rows.all()),
        "<pre style=\"color:#e5e5e5;background-color:#000000\"><span>\
         <span style=\"color:#cd0000;font-weight:bold\">a&lt;</span>\
         <a rel=\"noreferrer\" href=\"https://a/?&#39;\" style=\"color:inherit;\">b</a>c\
         <span style=\"background-color:#010203;padding-left:3ch\"></span>\
         </span></pre>"
    );
}

#[cfg(feature = "search")]
mod search {
    use super::super::{Case, Found, Pattern};
    use super::*;

    fn forwards(rows: &Rows, pattern: &Pattern) -> Vec<Range<Place>> {
        let (mut from, mut all) = (Place::default(), Vec::new());
        loop {
            match rows.find(pattern, from) {
                Found::Match(found) => (from, _) = (found.end, all.push(found)),
                Found::Paused(at) => from = at,
                Found::Nothing => return all,
            }
        }
    }

    fn backwards(rows: &Rows, pattern: &Pattern) -> Vec<Range<Place>> {
        let (mut before, mut all) = (Place::new(u64::MAX, 0), Vec::new());
        loop {
            match rows.rfind(pattern, before) {
                Found::Match(found) => (before, _) = (found.start, all.push(found)),
                Found::Paused(at) => before = at,
                Found::Nothing => return all,
            }
        }
    }

    /// Rows and a part of their text, cut between cells.
    fn rows_and_needle() -> impl Strategy<Value = (Rows, String)> {
        let needle = prop::collection::vec(0..CELLS.len(), 1..3);
        let needle = needle.prop_map(|cells| cells.into_iter().map(|index| CELLS[index].0).collect());
        (rows(), needle)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn matches_are_where_the_text_is((rows, needle) in rows_and_needle()) {
            let pattern = Pattern::literal(&needle, Case::Exact).unwrap();
            let found = forwards(&rows, &pattern);
            prop_assert_eq!(found.len(), plain(&rows).matches(&needle).count());
            for found in &found {
                let text = rows.text(found.clone());
                prop_assert!(text.starts_with(&needle), "{:?} at {:?} is {:?}", needle, found, text);
            }
            let mut back = backwards(&rows, &pattern);
            back.reverse();
            prop_assert_eq!(back, found);
        }

        #[test]
        fn a_match_of_a_word_is_the_word(rows in rows()) {
            for found in forwards(&rows, &Pattern::regex("[^ ;]+", Case::Exact).unwrap()) {
                prop_assert_eq!(rows.word_at(found.start, ";"), found.clone());
                let last = Place::new(found.end.line, found.end.col - 1);
                prop_assert_eq!(rows.word_at(last, ";"), found);
            }
        }
    }

    #[test]
    fn matches_run_over_wrapped_rows_and_whole_cells() {
        let rows = shown(Size::new(6, 2), "say needle\r\nNeedle");
        let needle = |case| Pattern::literal("needle", case).unwrap();
        assert_eq!(forwards(&rows, &needle(Case::Exact)), [range((0, 4), (1, 4))]);
        assert_eq!(forwards(&rows, &needle(Case::Ignored)), [range((0, 4), (1, 4)), range((2, 0), (2, 6))]);
        let end = Pattern::regex("^n.*e$|le$", Case::Ignored).unwrap();
        assert_eq!(forwards(&rows, &end), [range((1, 2), (1, 4)), range((2, 0), (2, 6))]);
        // A longer pattern is searched for from where the shorter one was found.
        assert_eq!(rows.find(&needle(Case::Exact), Place::new(0, 4)), Found::Match(range((0, 4), (1, 4))));
        assert_eq!(rows.find(&needle(Case::Exact), Place::new(0, 5)), Found::Nothing);
    }

    #[test]
    fn matches_of_nothing_are_left_out_and_bad_patterns_refused() {
        let rows = shown(Size::new(9, 1), "baab");
        assert_eq!(forwards(&rows, &Pattern::regex("a*", Case::Exact).unwrap()), [range((0, 1), (0, 3))]);
        assert_eq!(forwards(&rows, &Pattern::literal("", Case::Exact).unwrap()), []);
        for bad in ["(", "a{1000}{1000}{1000}"] {
            let error = Pattern::regex(bad, Case::Exact).unwrap_err();
            assert_eq!(error.code(), "invalid_input");
        }
    }

    #[test]
    fn long_searches_pause_and_long_lines_are_searched_in_pieces() {
        let rows = shown(Size::new(10, 2), &("x\r\n".repeat(9_000) + "y\r\n" + &"z".repeat(100_000) + "y"));
        let pattern = Pattern::literal("y", Case::Exact).unwrap();
        assert_eq!(rows.find(&pattern, Place::default()), Found::Paused(Place::new(4_000, 0)));
        assert_eq!(
            forwards(&rows, &pattern),
            [range((9_000, 0), (9_000, 1)), range((19_001, 0), (19_001, 1))]
        );
        assert_eq!(rows.rfind(&pattern, Place::new(9_000, 0)), Found::Paused(Place::new(5_000, 0)));
        let back: Vec<_> = backwards(&rows, &pattern);
        assert_eq!(back, [range((19_001, 0), (19_001, 1)), range((9_000, 0), (9_000, 1))]);
        // Each piece has as many whole rows as fit.
        let all = Pattern::regex("z+", Case::Exact).unwrap();
        let ends = [(9_001, 12_277), (12_277, 15_553), (15_553, 18_829), (18_829, 19_001)];
        let pieces = ends.map(|(start, end)| range((start, 0), (end - 1, 10)));
        assert_eq!(forwards(&rows, &all), pieces);
        assert_eq!(backwards(&rows, &all).into_iter().rev().collect::<Vec<_>>(), pieces);
    }
}
