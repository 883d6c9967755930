//! Hyperlinks, with the text that they are on, on the screen and in the scrollback.

use watchfire_term::{Emulator, Line, Options, Size, Terminal};

/// Text and target of each run.
fn runs(line: &Line) -> Vec<(String, String)> {
    let target = |run| line.hyperlink(run).map_or(String::new(), |link| format!("{}:{}", link.id, link.uri));
    line.runs().map(|(run, text)| (text.to_owned(), target(run))).collect()
}

fn want(runs: &[(&str, &str)]) -> Vec<(String, String)> {
    runs.iter().map(|(text, target)| ((*text).to_owned(), (*target).to_owned())).collect()
}

const LINKS: &[u8] = b"see \x1b]8;;https://a.example\x07here\x1b[1m, bold\x1b[m\x1b]8;id=7;https://b.example\x1b\\there\x1b]8;;\x07 x";

#[test]
fn runs_know_where_they_lead() {
    let mut terminal = Emulator::new(Size::new(40, 3));
    terminal.process(LINKS);
    let a = ":https://a.example";
    let expected =
        want(&[("see ", ""), ("here", a), (", bold", a), ("there", "7:https://b.example"), (" x", "")]);
    assert_eq!(runs(&terminal.snapshot().lines[0]), expected);
    assert_eq!(terminal.hyperlink(0, 5).map(|link| link.uri.as_str()), Some("https://a.example"));
    // In the scrollback, too, and in another size.
    terminal.process(b"\r\n\n\n\n");
    assert_eq!(runs(&terminal.scrollback_rows(0..1)[0]), expected);
    terminal.resize(Size::new(6, 3));
    let rows = terminal.scrollback_rows(0..2);
    assert_eq!(runs(&rows[0]), want(&[("see ", ""), ("he", a)]));
    assert_eq!(runs(&rows[1])[0], (String::from("re"), String::from(a)));
}

#[test]
fn a_link_lives_as_long_as_its_text() {
    let mut terminal = Emulator::with_options(Size::new(40, 3), Options::default());
    terminal.process(LINKS);
    terminal.process(b"\r\n\n\n\n");
    let before = terminal.snapshot();
    // So many that those which are not used are looked for.
    for n in 0..20_000 {
        terminal.process(format!("\x1b[H\x1b]8;;https://x.example/{n}\x07y\x1b]8;;\x07").as_bytes());
    }
    assert_eq!(runs(&terminal.scrollback_rows(0..1)[0])[1], ("here".into(), ":https://a.example".into()));
    assert_eq!(runs(&terminal.snapshot().lines[0])[0], ("y".into(), ":https://x.example/19999".into()));
    assert!(runs(&before.lines[0]).is_empty());
}
