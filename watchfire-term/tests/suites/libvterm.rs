//! libvterm: scripts that push bytes and look at the screen, the cursor and the answers.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use watchfire_term::{Emulator, Options, Size, Terminal};

/// Sections that contradict xterm, or ask for what libvterm's own harness does.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("Spare combining chars get truncated", "we keep more marks than five"),
    ("10 combining accents should not crash", "we keep more marks than five"),
    ("40 combining accents in two split writes of 20 should not crash", "we keep more marks than five"),
    ("REP till end of line", "xterm wraps what is repeated"),
    ("Horizontal Position Backward", "xterm does not know HPB"),
    ("Vertical Position Backward", "xterm does not know VPB, and xterm.js's suite asks for that"),
    ("IL", "xterm moves the cursor to the margin, and so does xterm.js"),
    ("Insert/Replace Mode", "it looks in the middle of what is written"),
    ("DECRQSS on DECSCA", "xterm tells 2 as 0, which is the same"),
    ("DA", "ours is a VT420"),
    ("XTVERSION", "ours has a name of its own"),
    ("DECCPR", "a VT420 tells the page, too"),
    ("DECRQSS on SGR", "xterm tells the reset that comes first"),
    ("DECRQSS on SGR ANSI colours", "xterm tells the reset that comes first"),
    ("DECRQSS on SGR ANSI hi-bright colours", "xterm tells the reset that comes first"),
    ("DECRQSS on SGR 256-palette colours", "xterm tells the reset that comes first"),
    ("DECRQSS on SGR RGB8 colours", "xterm tells the reset that comes first"),
    ("Resize shrink moves cursor", "it turns reflow off, which we always do"),
    ("Resize taller attempts to pop scrollback", "the harness makes up the lines that come back"),
];

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let files =
        super::entries(folder).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "test"));
    let (mut trials, mut seen, mut held) = (Vec::new(), 0, 0);
    for path in files {
        let name = super::name_of(&path);
        let (results, tally) = run(&path);
        (seen, held) = (seen + tally.0, held + tally.1);
        for (section, result) in results {
            let reason = super::known(CONTRADICTIONS, &section);
            let name = format!("libvterm {name}: {section}{}", super::note(reason));
            trials.push(Trial::test(name, move || result).with_ignored_flag(reason.is_some()));
        }
    }
    eprintln!("libvterm: {held} of {seen} assertions about cursor, screen and answers hold");
    trials
}

/// Assertions that any terminal can be asked: how many there are, and how many hold.
type Tally = (usize, usize);

type Outcome = Result<(), Failed>;

struct Script {
    terminal: Emulator,
    bytes: bool,
    harness: bool,
    replies: Vec<u8>,
    failures: Vec<String>,
    checks: usize,
    tally: Tally,
}

/// Runs a script; the result of each section that checks something we can see.
fn run(path: &Path) -> (Vec<(String, Outcome)>, Tally) {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut script = Script::new();
    let (mut section, mut results) = (String::from("start"), Vec::new());
    let mut finish = |section: &str, script: &mut Script| {
        let failures = std::mem::take(&mut script.failures);
        if std::mem::take(&mut script.checks) > 0 {
            let result = if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) };
            results.push((section.to_owned(), result));
        }
    };
    for line in text.lines() {
        let line = line.trim_end();
        if line.trim_start().starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('!') {
            finish(&section, &mut script);
            section = name.trim().to_owned();
        } else if let Some((count, step)) = repeated(line) {
            (0..count).for_each(|_| script.step(step));
        } else if let Some((range, step)) = sequence(line) {
            range.for_each(|number| script.step(&step.replace("\\#", &number.to_string())));
        } else {
            script.step(line);
        }
    }
    finish(&section, &mut script);
    (results, script.tally)
}

fn repeated(line: &str) -> Option<(usize, &str)> {
    let (count, command) = line.strip_prefix("$REP ")?.split_once(':')?;
    Some((count.trim().parse().ok()?, command.trim()))
}

fn sequence(line: &str) -> Option<(std::ops::RangeInclusive<u32>, &str)> {
    let (range, command) = line.strip_prefix("$SEQ ")?.split_once(':')?;
    let (first, last) = range.trim().split_once(' ')?;
    Some((first.parse().ok()?..=last.trim().parse().ok()?, command.trim()))
}

impl Script {
    fn new() -> Self {
        Self {
            terminal: terminal(),
            bytes: true,
            harness: false,
            replies: Vec::new(),
            failures: Vec::new(),
            checks: 0,
            tally: (0, 0),
        }
    }

    fn step(&mut self, line: &str) {
        if line.starts_with([' ', '?']) { self.expect(line.trim()) } else { self.command(line) }
    }

    fn command(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.replies.clear();
        self.harness = false;
        match word {
            "INIT" => {
                let failures = std::mem::take(&mut self.failures);
                *self = Self { failures, checks: self.checks, tally: self.tally, ..Self::new() };
            }
            "UTF8" => self.bytes = rest.trim() == "0",
            "INKEY" | "INCHAR" | "PASTE" | "FOCUS" | "SELECTION" | "MOUSEMOVE" | "MOUSEBTN" => {
                self.harness = true
            }
            "RESET" => self.push(b"\x1bc"),
            "PUSH" => self.push(&string(rest)),
            "RESIZE" => {
                let (rows, cols) = rest.split_once(',').unwrap_or(("25", "80"));
                let number = |text: &str| text.trim().parse().unwrap_or(1);
                self.terminal.resize(Size::new(number(cols), number(rows)));
            }
            _ => {}
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.terminal.feed(bytes);
        if bytes == b"\x1bc" {
            self.terminal.feed(if self.bytes { b"\x1b%@" } else { b"\x1b%G" });
        }
        self.replies.extend(self.terminal.take_replies());
    }

    fn expect(&mut self, line: &str) {
        let (what, want) = line.split_once('=').unwrap_or((line, ""));
        let (word, arguments) = what.trim().split_once(' ').unwrap_or((what.trim(), ""));
        let numbers: Vec<usize> = arguments.split(',').filter_map(|part| part.trim().parse().ok()).collect();
        let want = want.trim();
        match (word, &*numbers) {
            ("?cursor", _) => {
                let cursor = self.terminal.snapshot().cursor;
                self.same(line, want, &format!("{},{}", cursor.row, cursor.col));
            }
            ("?screen_row", [row]) => {
                let have = self.terminal.snapshot().row_text(*row as u16).to_owned();
                self.same(line, characters(want).trim_end(), &have);
            }
            ("?screen_chars" | "?screen_text", [top, left, bottom, right]) => {
                let snapshot = self.terminal.snapshot();
                let mut rows = Vec::new();
                for row in snapshot.lines.get(*top..*bottom).unwrap_or(&[]) {
                    let mut col = 0;
                    let mut text = String::new();
                    for cell in row.cells() {
                        if (*left..*right).contains(&col) {
                            text.push_str(cell.text);
                        }
                        col += usize::from(cell.width);
                    }
                    rows.push(text.trim_end().to_owned());
                }
                let have = rows.join("\n");
                let want = if word == "?screen_text" { bytes_of(want) } else { characters(want) };
                self.same(line, want.trim_end(), have.trim_end());
            }
            ("?screen_cell", [row, col]) => {
                let snapshot = self.terminal.snapshot();
                let mut at = 0;
                let cells = snapshot.lines.get(*row).into_iter().flat_map(|line| line.cells());
                let cell = cells.into_iter().find(|cell| {
                    at += usize::from(cell.width);
                    at > *col
                });
                let text = cell.map_or("", |cell| cell.text).trim_end().to_owned();
                let want = want.split_once('}').map_or("", |(chars, _)| chars.trim_start_matches('{'));
                self.same(line, &characters(want), &text);
            }
            ("?lineinfo", [row]) => {
                let snapshot = self.terminal.snapshot();
                let above = row.checked_sub(1).and_then(|row| snapshot.lines.get(row));
                let have = if above.is_some_and(|line| line.is_wrapped()) { "cont" } else { "" };
                self.same(line, want, have);
            }
            // What the harness itself types or selects is not the screen's.
            _ if line.starts_with("output ") && self.harness => {}
            _ if line.starts_with("output ") => {
                let want = string(line.trim_start_matches("output "));
                let have: Vec<u8> = self.replies.drain(..want.len().min(self.replies.len())).collect();
                self.same(line, &want.escape_ascii().to_string(), &have.escape_ascii().to_string());
            }
            _ if line.starts_with("putglyph ") => self.glyph(line),
            _ => {}
        }
    }

    fn glyph(&mut self, line: &str) {
        let parts: Vec<&str> = line.split(' ').collect();
        let [_, chars, width, place, ..] = &*parts else { return };
        let (row, col) = place.split_once(',').unwrap_or(("0", "0"));
        let (row, col): (usize, usize) = (row.parse().unwrap_or(0), col.parse().unwrap_or(0));
        let snapshot = self.terminal.snapshot();
        let mut at = 0;
        let mut have = String::from("nothing");
        for cell in snapshot.lines.get(row).into_iter().flat_map(|line| line.cells()) {
            if at == col {
                have = format!("{} {}", cell.text, cell.width);
            }
            at += usize::from(cell.width);
        }
        self.same(line, &format!("{} {width}", characters(chars)), &have);
    }

    fn same(&mut self, line: &str, want: &str, have: &str) {
        self.checks += 1;
        if !line.starts_with("putglyph") && !line.starts_with("?lineinfo") {
            self.tally = (self.tally.0 + 1, self.tally.1 + usize::from(want == have));
        }
        if want != have {
            self.failures.push(format!("{line}\n   want {want:?}\n   have {have:?}"));
        }
    }
}

fn terminal() -> Emulator {
    // Lines that scroll away are gone in libvterm's harness.
    let options = Options::default().with_c1_controls(true).with_clipboard(true).with_scrollback(0, 0);
    let mut terminal = Emulator::with_options(Size::new(80, 25), options);
    terminal.feed(b"\x1b%@");
    terminal
}

/// Text from a quoted string or a list of codes.
fn characters(want: &str) -> String {
    if want.starts_with('"') {
        return String::from_utf8_lossy(&string(want)).into_owned();
    }
    want.split(',').filter_map(code).filter_map(char::from_u32).collect()
}

fn bytes_of(want: &str) -> String {
    let bytes: Vec<u8> = want.split(',').filter_map(code).map(|code| code as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn code(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// A string as the scripts spell it: quoted parts, joined by dots, repeated by x.
fn string(spelled: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), spelled.trim());
    while let Some(start) = rest.find('"') {
        let mut part = Vec::new();
        let mut chars = rest[start + 1..].char_indices();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = start + 1 + at + 1;
                    break;
                }
                '\\' => match chars.next().map_or('\\', |(_, c)| c) {
                    'e' => part.push(0x1b),
                    'a' => part.push(7),
                    'b' => part.push(8),
                    'n' => part.push(b'\n'),
                    'r' => part.push(b'\r'),
                    't' => part.push(b'\t'),
                    '0' => part.push(0),
                    'x' => {
                        let digits: String = rest[start + 1 + at + 2..]
                            .chars()
                            .filter(|c| *c != '{')
                            .take_while(char::is_ascii_hexdigit)
                            .take(2)
                            .collect();
                        let braced = rest[start + 1 + at + 2..].starts_with('{');
                        let skip = digits.len() + if braced { 2 } else { 0 };
                        let _ = chars.by_ref().take(skip).count();
                        part.push(u8::from_str_radix(&digits, 16).unwrap_or(0));
                    }
                    other => part.extend(other.to_string().bytes()),
                },
                other => part.extend(other.to_string().bytes()),
            }
        }
        rest = rest[end..].trim_start();
        let mut count = 1;
        if let Some(times) = rest.strip_prefix('x') {
            let digits: String = times.trim_start().chars().take_while(char::is_ascii_digit).collect();
            count = digits.parse().unwrap_or(1);
        }
        (0..count).for_each(|_| out.extend_from_slice(&part));
    }
    out
}
