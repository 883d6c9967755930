//! Prompt marks: which rows they are on, wherever those go.

use watchfire_term::PromptMark::{self, CommandEnd, CommandStart, OutputStart, PromptStart};
use watchfire_term::{Emulator, Event, Size, Terminal};

/// A command as a shell with marks shows it.
fn command(name: &str, output: &str) -> String {
    format!("\x1b]133;A\x07$ \x1b]133;B\x07{name}\r\n\x1b]133;C\x07{output}\r\n\x1b]133;D;0\x07")
}

/// Each mark with the text of its row.
fn marks(terminal: &mut Emulator) -> Vec<(String, PromptMark)> {
    let screen = terminal.snapshot();
    let kept = terminal.scrollback(screen.scrollback.clone());
    let rows: Vec<_> = kept.iter().chain(screen.lines.iter().map(|line| &**line)).collect();
    let row = |number: u64| rows[(number - screen.scrollback.start) as usize].text().to_owned();
    terminal.prompt_marks().into_iter().map(|(number, mark)| (row(number), mark)).collect()
}

fn want(marks: &[(&str, PromptMark)]) -> Vec<(String, PromptMark)> {
    marks.iter().map(|(text, mark)| ((*text).to_owned(), *mark)).collect()
}

#[test]
fn marks_scroll_and_reflow_with_their_lines() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    terminal.process(
        (command("first", "one\r\ntwo") + &command("second command", "three") + "\x1b]133;A\x07$ ")
            .as_bytes(),
    );
    assert!(terminal.take_events().contains(&Event::Prompt(CommandEnd(Some(0)))));
    let expected = [
        ("$ first", PromptStart),
        ("$ first", CommandStart),
        ("one", OutputStart),
        ("$ second command", CommandEnd(None)),
        ("$ second command", PromptStart),
        ("$ second command", CommandStart),
        ("three", OutputStart),
        ("$ ", CommandEnd(None)),
        ("$ ", PromptStart),
    ];
    assert_eq!(marks(&mut terminal), want(&expected));
    for size in [Size::new(30, 2), Size::new(40, 9), Size::new(20, 1), Size::new(20, 4)] {
        terminal.resize(size);
        assert_eq!(marks(&mut terminal), want(&expected), "{size:?}");
    }
    // A line that is wrapped has its marks where it begins.
    for size in [Size::new(9, 3), Size::new(9, 40), Size::new(9, 2)] {
        terminal.resize(size);
        let expected = expected.map(|(text, mark)| (if text.len() > 9 { "$ second " } else { text }, mark));
        assert_eq!(marks(&mut terminal), want(&expected), "{size:?}");
    }
    terminal.release_scrollback();
    assert_eq!(marks(&mut terminal), want(&expected[6..]));
}

#[test]
fn marks_stay_while_their_line_is_written_again_and_go_with_it() {
    let mut terminal = Emulator::new(Size::new(20, 4));
    terminal.process(b"a\r\n\x1b]133;A\x07$ x\r\x1b[K\x1b[J\x1b[2K> ");
    assert_eq!(marks(&mut terminal), want(&[("> ", PromptStart)]));
    terminal.process(b"\x1b[H\x1b[L");
    assert_eq!(marks(&mut terminal), want(&[("> ", PromptStart)]));
    terminal.process(b"\x1b[2J");
    assert_eq!(marks(&mut terminal), []);
    terminal.process(b"\x1b]133;A\x07");
    terminal.process(b"\x1b[?1049h");
    assert_eq!(marks(&mut terminal), []);
    terminal.process(b"\x1b[?1049l");
    assert_eq!(marks(&mut terminal), want(&[("", PromptStart)]));
    terminal.process(b"\x1bc");
    assert_eq!(marks(&mut terminal), []);
}

#[test]
fn marks_in_the_scrollback_go_with_it() {
    let options = watchfire_term::Options::default().with_scrollback(50, 1 << 20);
    let mut terminal = Emulator::with_options(Size::new(20, 4), options);
    for n in 0..500 {
        terminal.process(command(&format!("command {n}"), "out").as_bytes());
    }
    let marks = marks(&mut terminal);
    let starts: Vec<_> = marks.iter().filter(|(_, mark)| *mark == PromptStart).collect();
    assert!((25..=28).contains(&starts.len()), "{}", starts.len());
    for (n, (text, _)) in starts.iter().rev().enumerate() {
        assert_eq!(*text, format!("$ command {}", 499 - n));
    }
}

#[test]
fn numbers_of_marks_stay_while_lines_scroll() {
    let options = watchfire_term::Options::default().with_scrollback(50, 1 << 20);
    let mut terminal = Emulator::with_options(Size::new(20, 4), options);
    terminal.process(b"\r\n".repeat(200).as_slice());
    terminal.process(command("late", "out").as_bytes());
    let before = terminal.prompt_marks();
    assert_eq!(before.first(), Some(&(200, PromptStart)));
    terminal.process(b"\r\n".repeat(30).as_slice());
    assert_eq!(terminal.prompt_marks(), before);
}
