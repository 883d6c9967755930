//! Search, selection and export of what the emulator shows.

mod pieces;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::text::{Case, Found, Pattern, Place, Rows};
use watchfire_term::{Emulator, Options, Size, Terminal};

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 50_000 } else { 400 }
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
        let shown = terminal.snapshot();
        let want: Vec<_> = shown.lines.iter().map(|line| line.text()).collect();
        // Blanks that nothing was written to before a wide character that did not fit are no part of a line.
        prop_assert_eq!(rows.text(rows.all()).replace([' ', '\n'], ""), want.concat().replace(' ', ""));
        prop_assert!(!rows.html(rows.all()).is_empty());
        // A word on the screen is found where it is.
        for word in matches(&rows, "[a-z]+") {
            prop_assert!(word.starts_with(|c: char| c.is_ascii_lowercase()), "{:?}", word);
        }
    }
}
