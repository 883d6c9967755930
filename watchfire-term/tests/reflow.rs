//! Resizing: no text is lost or torn, and the cursor stays with what it was on.

use proptest::prelude::*;
use watchfire_term::{Emulator, Options, Size, Terminal};

/// All lines, scrollback and screen, as they were written.
fn everything(terminal: &mut Emulator) -> Vec<String> {
    let screen = terminal.snapshot();
    let rows = terminal.scrollback_rows(0..usize::MAX);
    let rows = rows.iter().chain(screen.lines.iter().map(|line| &**line));
    let (mut lines, mut line) = (Vec::new(), String::new());
    for row in rows {
        line.push_str(row.text());
        if !row.is_wrapped() {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        }
    }
    if !line.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,60}",
        2 => "[a-z漢字é😀e\u{301}]{1,30}".prop_map(|text| format!("x{text}")),
        1 => Just("a b".repeat(40)),
        1 => Just(String::new()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_survives_any_resizes(
        lines in prop::collection::vec(line(), 1..40),
        sizes in prop::collection::vec((2_u16..70, 1_u16..20), 1..6),
        styled in any::<bool>(),
    ) {
        let mut terminal = Emulator::with_options(Size::new(30, 8), Options::default());
        let mut want: Vec<String> = lines.iter().map(|line| line.trim_end().to_owned()).collect();
        while want.last().is_some_and(String::is_empty) {
            want.pop();
        }
        for (index, line) in lines.iter().enumerate() {
            let style = if styled { format!("\x1b[3{}m", index % 8) } else { String::new() };
            terminal.process(format!("{style}{line}\x1b[m\r\n").as_bytes());
        }
        terminal.process(b"> ");
        want.resize(lines.len(), String::new());
        want.push(">".into());
        prop_assert_eq!(everything(&mut terminal), want.clone());
        for (cols, rows) in sizes {
            terminal.resize(Size::new(cols, rows));
            prop_assert_eq!(everything(&mut terminal), want.clone(), "at {}x{}", cols, rows);
            let snapshot = terminal.snapshot();
            let row = snapshot.row_text(snapshot.cursor.row).to_owned();
            prop_assert!(row.starts_with('>') && snapshot.cursor.col == if cols > 2 { 2 } else { 1 }, "{row:?} {:?}", snapshot.cursor);
        }
        // What is typed lands where it would have.
        terminal.process(b"typed");
        want.pop();
        want.push("> typed".into());
        prop_assert_eq!(everything(&mut terminal), want);
    }
}

#[test]
fn scrollback_is_bounded_in_lines_and_bytes() {
    let options = Options::default().with_scrollback(100, 1 << 20);
    let mut terminal = Emulator::with_options(Size::new(40, 5), options);
    for line in 0..5_000 {
        terminal.process(format!("line {line}\r\n").as_bytes());
        assert!(terminal.scrollback_len() <= 100);
    }
    let lines = terminal.scrollback_rows(0..usize::MAX);
    assert_eq!((lines.len(), lines[0].text(), lines[99].text()), (100, "line 4896", "line 4995"));
    assert_eq!(terminal.scrollback_rows(98..99)[0].text(), "line 4994");
    let options = Options::default().with_scrollback(1_000_000, 1 << 20);
    let mut terminal = Emulator::with_options(Size::new(120, 5), options);
    terminal.process("x".repeat(110).repeat(40_000).as_bytes());
    terminal.process(format!("{}\r\n", "y".repeat(100)).repeat(40_000).as_bytes());
    assert!(terminal.memory() < 2 << 20, "{}", terminal.memory());
    terminal.release_scrollback();
    assert!(terminal.scrollback_len() == 0 && terminal.memory() < 128 << 10, "{}", terminal.memory());
}

#[test]
fn the_alternate_screen_is_cut_and_the_main_one_reflows() {
    let mut terminal = Emulator::new(Size::new(10, 3));
    terminal.process(b"0123456789abc\r\n$ \x1b[?1049h\x1b[Halternate!");
    terminal.resize(Size::new(5, 3));
    assert_eq!(terminal.contents(), "alter");
    terminal.process(b"\x1b[?1049l");
    assert_eq!(terminal.contents(), "56789\nabc\n$");
    terminal.process(b"x");
    assert_eq!(terminal.contents(), "56789\nabc\n$ x");
    terminal.resize(Size::new(20, 3));
    assert_eq!(terminal.contents(), "0123456789abc\n$ x");
}

/// A line that scrolled off in part ends there once the rest of it is cleared or moved away.
#[test]
fn what_takes_the_place_of_a_wrapped_line_is_another_line() {
    for clear in [
        "\x1b[H\x1b[2J",
        "\x1b[H\x1b[J",
        "\x1b[3H\x1b[1J\x1b[H",
        "\x1b[H\x1b[3M",
        "\x1b[H\x1b[3L",
        "\x1b[H\x1bM",
    ] {
        let mut terminal = Emulator::new(Size::new(10, 3));
        terminal.process(b"0123456789abcdefghijKLMNOPQRSTuvw");
        terminal.process(clear.as_bytes());
        terminal.process(b"new\x1b[K");
        terminal.resize(Size::new(40, 3));
        assert!(everything(&mut terminal).starts_with(&["0123456789".into(), "new".into()]), "{clear:?}");
    }
    // What the alternate screen does leaves the line of the main one whole.
    let mut terminal = Emulator::new(Size::new(10, 3));
    terminal.process(b"0123456789abcdefghijKLMNOPQRSTuvw\x1b[?1049h\x1b[H\x1b[2Jother\x1b[?1049l");
    terminal.resize(Size::new(40, 3));
    assert_eq!(everything(&mut terminal), ["0123456789abcdefghijKLMNOPQRSTuvw"]);
}
