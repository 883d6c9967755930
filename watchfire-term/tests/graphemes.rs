//! Characters that belong together (mode 2027), at the edges of the screen.

use watchfire_term::{Emulator, Size, Terminal};

fn rows(cols: u16, input: &str) -> Vec<String> {
    let mut terminal = Emulator::new(Size::new(cols, 3));
    terminal.process(format!("\x1b[?2027h{input}").as_bytes());
    let snapshot = terminal.snapshot();
    let rows: Vec<_> = (0..3).map(|row| snapshot.row_text(row).to_owned()).collect();
    assert_eq!(terminal.contents(), rows.join("\n").trim_end_matches('\n'));
    rows
}

#[test]
fn what_belongs_together_is_not_wrapped_apart() {
    for (cols, input) in [(2, "👍🏻"), (3, "a👍🏻"), (1, "ह\u{93f}"), (3, "abह\u{93f}"), (2, "\u{1100}\u{1161}")]
    {
        assert_eq!(rows(cols, input), [input, "", ""], "at {cols} columns");
    }
}

#[test]
fn both_halves_are_guarded() {
    assert_eq!(rows(10, "\x1b[1\"q❤\u{fe0f}\x1b[?2K")[0], "❤\u{fe0f}");
}
