//! What scrolls off the screen stays as it was shown.

mod pieces;

use pieces::piece;
use proptest::prelude::*;
use watchfire_term::{Emulator, Line, Size, Snapshot, Style, Terminal};

fn cases() -> u32 {
    if std::env::var_os("WATCHFIRE_LONG").is_some() { 50_000 } else { 400 }
}

/// The characters of a line with their looks and links, up to the last one that shows. What fills a row before a wide
/// character that goes on in the next is a blank without a look.
fn shown(line: &Line) -> Vec<(String, u16, Style, Option<String>)> {
    let cells = line.cells().map(|cell| {
        let link = cell.link.map(|link| format!("{link:?}"));
        (cell.text.to_owned(), cell.width, cell.style, link)
    });
    let mut cells: Vec<_> = cells.collect();
    let plain = |style: Style| line.is_wrapped() || style == Style::default();
    while cells.last().is_some_and(|(text, _, style, _)| text == " " && plain(*style)) {
        cells.pop();
    }
    cells
}

/// Scrolls all of the screen off, and compares.
fn check(terminal: &mut Emulator, about: &str) {
    terminal.process(b"\x1b\\\x1b<\x1b[?47l\x1b[m\x1b[?69l\x1b[?6l\x1b[r");
    let before: std::sync::Arc<Snapshot> = terminal.snapshot();
    let rows = usize::from(before.size.rows());
    let kept = terminal.scrollback_len();
    terminal.process(format!("\x1b[{rows}H{}", "\n".repeat(rows)).as_bytes());
    let after = terminal.scrollback_rows(kept..kept + rows);
    let (before, after): (Vec<_>, Vec<_>) =
        (before.lines.iter().map(|line| shown(line)).collect(), after.iter().map(shown).collect());
    assert_eq!(before, after, "{}", about.escape_debug());
}

/// A wide character that did not fit before a margin leaves a blank in the middle of the row.
#[test]
fn a_blank_at_a_margin_stays() {
    for rest in ["abc", "\u{e9}bc", "e\u{301}bc", "\u{1F600}bc"] {
        let mut terminal = Emulator::new(Size::new(20, 3));
        let input = format!("\x1b[?69h\x1b[1;10saaaaaaaaa漢\x1b[?69l\x1b[1;11H{rest}");
        terminal.process(input.as_bytes());
        check(&mut terminal, &input);
    }
}

/// Valid in UTF-8, though no character.
#[test]
fn noncharacters_are_kept() {
    for input in ["a\u{ffff}b", "\u{e9}\u{ffff}z", "\u{fffe}\u{e9}", "漢\u{ffff}字", "\u{1ffff}a"] {
        let mut terminal = Emulator::new(Size::new(10, 2));
        terminal.process(input.as_bytes());
        check(&mut terminal, input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_scrolls_off_is_kept(
        cols in 1_u16..16, rows in 1_u16..8, pieces in prop::collection::vec(piece(), 1..25)
    ) {
        let input = pieces.concat();
        let mut terminal = Emulator::new(Size::new(cols, rows));
        terminal.process(input.as_bytes());
        check(&mut terminal, &format!("{cols}x{rows} {input}"));
    }
}
