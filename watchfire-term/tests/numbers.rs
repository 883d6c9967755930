//! Numbers of lines: what they name after lines scrolled, were cleared or were laid out anew.

use watchfire_term::PromptMark::{CommandEnd, PromptStart};
use watchfire_term::{Emulator, Options, Size, Terminal};

fn filled(size: Size) -> Emulator {
    let mut terminal = Emulator::new(size);
    for line in 0..20 {
        terminal.process(format!("line {line}\r\n").as_bytes());
    }
    terminal
}

fn line(terminal: &Emulator, number: u64) -> Option<String> {
    terminal.scrollback(number..number + 1).first().map(|line| line.text().to_owned())
}

#[test]
fn numbers_go_on_after_the_scrollback_is_cleared() {
    for clear in ["\x1b[3J", "\x1bc", "\x1b[2J\x1b[3J\x1b[H"] {
        let mut terminal = filled(Size::new(20, 4));
        assert_eq!(terminal.scrollback_numbers(), 0..17, "{clear:?}");
        terminal.process(clear.as_bytes());
        assert_eq!(terminal.scrollback_numbers(), 17..17, "{clear:?}");
        assert_eq!(terminal.scrollback_since(10).gone, 7, "{clear:?}");
        terminal.process(b"\r\n\r\n\r\n\r\nlast\x1b[4H\n");
        let numbers = terminal.scrollback_numbers();
        assert!(numbers.start == 17 && numbers.end > 17, "{clear:?}: {numbers:?}");
        assert_eq!(terminal.snapshot().scrollback, numbers);
    }
    let mut terminal = filled(Size::new(20, 4));
    terminal.release_scrollback();
    assert_eq!(terminal.scrollback_numbers(), 17..17);
}

#[test]
fn lines_count_where_none_are_retained() {
    let mut terminal = Emulator::with_options(Size::new(20, 4), Options::default().with_scrollback(0, 0));
    terminal.process("x\r\n".repeat(20).as_bytes());
    assert_eq!(terminal.scrollback_numbers(), 17..17);
    let scrolled = terminal.scrollback_since(0);
    assert_eq!((scrolled.gone, scrolled.lines.len(), scrolled.next), (17, 0, 17));
}

#[test]
fn a_resize_gives_numbers_that_were_never_used() {
    for size in [Size::new(3, 4), Size::new(20, 9), Size::new(20, 2), Size::new(50, 30)] {
        let mut terminal = filled(Size::new(20, 4));
        terminal.resize(size);
        let numbers = terminal.scrollback_numbers();
        assert_eq!(numbers.start, 17, "{size:?}");
        // A reader gets all lines again, and none twice.
        let scrolled = terminal.scrollback_since(17);
        assert_eq!((scrolled.gone, scrolled.lines.len() as u64), (0, numbers.end - 17), "{size:?}");
        assert_eq!(line(&terminal, 16), None);
        // The same size is no resize.
        terminal.resize(size);
        assert_eq!(terminal.scrollback_numbers(), numbers);
    }
}

#[test]
fn the_alternate_screen_adds_no_lines() {
    let mut terminal = filled(Size::new(20, 4));
    for (enter, leave) in [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?47h", "\x1b[?47l")] {
        terminal.process(enter.as_bytes());
        terminal.process("other\r\n".repeat(30).as_bytes());
        assert_eq!(terminal.scrollback_numbers(), 0..17);
        assert_eq!(line(&terminal, 16).as_deref(), Some("line 16"));
        terminal.process(leave.as_bytes());
        assert_eq!(terminal.scrollback_numbers(), 0..17);
    }
    terminal.process(b"\x1b[4Hmore\r\n");
    assert_eq!(line(&terminal, 17).as_deref(), Some("line 17"));
}

/// Rows below a region stay on the screen when its top row leaves.
#[test]
fn rows_that_leave_a_region_at_the_top_count() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    terminal.process(b"1\r\n2\r\n3\r\nstatus\x1b[1;3r\x1b[3H\r\n4\r\n5");
    assert_eq!(terminal.scrollback_numbers(), 0..2);
    assert_eq!((line(&terminal, 0).as_deref(), line(&terminal, 1).as_deref()), (Some("1"), Some("2")));
    assert_eq!(terminal.snapshot().text(), "3\n4\n5\nstatus");
}

#[test]
fn numbers_are_those_of_the_frame_that_is_shown() {
    let options = Options::default().with_scrollback(5, 1 << 20);
    let mut terminal = Emulator::with_options(Size::new(20, 2), options);
    terminal.process(b"1\r\n2\r\n3\x1b[?2026h\r\n4\r\n5");
    let shown = terminal.snapshot();
    assert_eq!((shown.text().as_str(), &shown.scrollback), ("2\n3", &(0..1)));
    assert_eq!(terminal.scrollback_numbers(), 0..1);
    assert_eq!(terminal.scrollback_since(0).lines.len(), 1);
    terminal.process("\r\nx".repeat(20).as_bytes());
    let numbers = terminal.scrollback_numbers();
    assert!(numbers.is_empty() && numbers.end == 1, "{numbers:?}");
    terminal.process(b"\x1b[?2026l");
    assert_eq!(terminal.scrollback_numbers().end, 23);
}

#[test]
fn marks_are_by_number() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    terminal.process("x\r\n".repeat(10).as_bytes());
    terminal.process(b"\x1b]133;A\x07$ \r\n");
    let mark = [(10, PromptStart)];
    assert_eq!(terminal.prompt_marks(), mark);
    terminal.process("x\r\n".repeat(10).as_bytes());
    assert_eq!((terminal.prompt_marks(), line(&terminal, 10).as_deref()), (mark.to_vec(), Some("$ ")));
    terminal.process(b"\x1b[?1049h\x1b]133;D\x07");
    assert_eq!(terminal.prompt_marks(), [mark[0], (21, CommandEnd(None))]);
    terminal.process(b"\x1b[?1049l");
    assert_eq!(terminal.prompt_marks(), mark);
    terminal.process(b"\x1b[3J");
    assert_eq!(terminal.prompt_marks(), []);
}
