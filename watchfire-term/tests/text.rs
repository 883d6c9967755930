//! Search, selection and export of what the emulator shows.

mod pieces;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::text::{Case, Found, Pattern, Place, Rows};
use watchfire_term::{Emulator, Options, Size, Terminal};

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 50_000 } else { 400 }
}

/// The same without blanks at the ends of lines.
fn trimmed(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| line.trim_end_matches(' ')).collect();
    lines.join("\n").trim_end_matches('\n').to_owned()
}

/// All matches, from the first to the last.
fn matches(rows: &Rows, pattern: &str) -> Vec<String> {
    let pattern = Pattern::regex(pattern, Case::Exact).unwrap();
    let (mut from, mut all) = (Place::default(), Vec::new());
    loop {
        match rows.find(&pattern, from) {
            Found::Match(found) => {
                all.push(rows.text(found.clone()));
                from = found.end;
            }
            Found::Paused(at) => from = at,
            Found::Nothing => return all,
        }
    }
}

#[test]
fn a_match_is_the_same_at_any_width() {
    let mut terminal = Emulator::new(Size::new(30, 4));
    terminal.process("see https://example.org/漢字/e\u{301}?q=1 for more\r\n".repeat(20).as_bytes());
    for cols in [30, 7, 80, 2, 13] {
        terminal.resize(Size::new(cols, 4));
        let rows = Rows::of(&mut terminal);
        let want = vec!["https://example.org/漢字/e\u{301}?q=1"; 20];
        assert_eq!(matches(&rows, "https://[^ ]*"), want, "{cols} columns");
    }
}

/// The place that a wide character did not fit into is no part of the line; blanks before it are.
#[test]
fn blanks_before_a_wide_character_that_wrapped_are_kept() {
    for (input, want) in [("aaaaa漢", "aaaaa漢"), ("a\x1b[1;6H漢", "a    漢"), ("a\x1b[1;5H漢b", "a   漢b")]
    {
        let mut terminal = Emulator::new(Size::new(6, 3));
        terminal.process(input.as_bytes());
        for _ in 0..2 {
            let rows = Rows::of(&mut terminal);
            assert_eq!(
                (rows.text(rows.all()).as_str(), trimmed(&terminal.contents_joined()).trim()),
                (want, want)
            );
            terminal.resize(Size::new(20, 3));
        }
        terminal.resize(Size::new(6, 3));
        terminal.process(b"\x1b[3H\n\n\n\n\n");
        let rows = Rows::of(&mut terminal);
        assert_eq!(rows.text(rows.all()), want);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_selected_is_what_is_shown(
        cols in 1_u16..16, rows in 1_u16..8, pieces in prop::collection::vec(piece(), 1..25)
    ) {
        let options = Options::default().with_scrollback(0, 0);
        let mut terminal = Emulator::with_options(Size::new(cols, rows), options);
        terminal.process(pieces.concat().as_bytes());
        let rows = Rows::of(&mut terminal);
        prop_assert_eq!(rows.text(rows.all()), trimmed(&terminal.contents_joined()));
        // A word on the screen is found where it is.
        for word in matches(&rows, "[a-z]+") {
            prop_assert!(word.starts_with(|c: char| c.is_ascii_lowercase()), "{:?}", word);
        }
    }
}
