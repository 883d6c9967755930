//! Characters that belong together, at the edges of the screen.

use watchfire_term::{Emulator, Options, Size, Terminal};

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
    for (cols, input) in [(2, "👍🏻"), (3, "a👍🏻"), (2, "\u{1100}\u{1161}")] {
        assert_eq!(rows(cols, input), [input, "", ""], "at {cols} columns");
    }
}

#[test]
fn what_grows_beyond_the_last_column_wraps_whole() {
    for (cols, input, wrapped) in [
        (4, "abc🇩🇪x", ["abc", "🇩🇪x", ""]),
        (3, "ab⚠\u{fe0f}", ["ab", "⚠\u{fe0f}", ""]),
        (3, "abह\u{93f}c", ["ab", "ह\u{93f}c", ""]),
        (2, "a🇩🇪🇫🇷", ["a", "🇩🇪", "🇫🇷"]),
        // Between margins it goes to the left one.
        (6, "\x1b[?69h\x1b[2;4s\x1b[1;4H🇩🇪", ["", " 🇩🇪", ""]),
        // What is inserted makes room for all of it.
        (4, "\x1b[2;1Hxyz\x1b[4h\x1b[1;4H🇩🇪", ["", "🇩🇪xy", ""]),
        // Where nothing wraps, or nothing is wide enough, what does not fit is dropped.
        (3, "\x1b[?7lab🇩🇪", ["ab🇩", "", ""]),
        (1, "ह\u{93f}", ["ह", "", ""]),
    ] {
        assert_eq!(rows(cols, input), wrapped, "{input:?} at {cols} columns");
    }
    // It comes back with the line that it wrapped from.
    let mut terminal = Emulator::new(Size::new(4, 3));
    terminal.process("\x1b[?2027habc🇩🇪x".as_bytes());
    terminal.resize(Size::new(10, 3));
    assert_eq!(terminal.contents(), "abc🇩🇪x");
}

/// `string-width`, which agents lay out their boxes with, gives these two columns.
#[test]
fn emoji_by_selector_are_two_columns_wide() {
    let column = |options: Options, input: &str| {
        let mut terminal = Emulator::with_options(Size::new(4, 3), options);
        terminal.process(input.as_bytes());
        terminal.snapshot().cursor.col
    };
    let on = Options::default;
    let off = || Options::default().with_emoji_presentation(false);
    for (input, wide, narrow) in [
        ("⚠\u{fe0f}", 2, 1),
        ("⚠", 1, 1),
        ("✅", 2, 2),
        ("✅\u{fe0f}", 2, 2),
        ("x\u{fe0f}", 1, 1),
        ("❤\u{fe0f}\u{200d}", 2, 1),
        // In the last column it wraps whole.
        ("abc⚠\u{fe0f}", 2, 3),
        ("\x1b[?27027l⚠\u{fe0f}", 1, 1),
        ("\x1b[?27027h⚠\u{fe0f}", 2, 2),
        ("\x1b[?2027h⚠\u{fe0f}", 2, 2),
        ("\x1b[?27027l\x1bc⚠\u{fe0f}", 2, 1),
    ] {
        assert_eq!((column(on(), input), column(off(), input)), (wide, narrow), "{input:?}");
    }
}

#[test]
fn both_halves_are_guarded() {
    assert_eq!(rows(10, "\x1b[1\"q❤\u{fe0f}\x1b[?2K")[0], "❤\u{fe0f}");
}
