//! What a terminal answers when it is asked for all that it shows.

pub(crate) const COLS: u16 = 40;
pub(crate) const ROWS: u16 = 10;

/// Undoes what the case before did.
pub(crate) const RESET: &[u8] = b"\x1b\\\x1b[?1046h\x1b[?47l\x1b%G\x1b[64;1\"p\x1bc\x1b[?1047h\x1b[?1047l\x1b[?7h\x1b[0#y\
    \x1b]104\x1b\\\x1b]105\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b[?69l\x1b[?1;3;4;5;6;41;42;45;66;67;2004l";

/// A question whose answer ends all others: an unknown mode.
pub(crate) const END: &[u8] = b"\x1b[?31337$p";
pub(crate) const ENDED: &[u8] = b"?31337;0$y";

/// POSITIVE, NOTRIM and BYTE: the sum over a cell is its character and its attributes.
const PLAIN: u16 = 1 | 4 | 16;

/// Asks for the cursor, margins, looks, some modes, tab stops, and each cell.
pub(crate) fn probe() -> Vec<u8> {
    let mut ask = String::from("\x1b F\x1b[6n\x1b[1$w\x1b[2$w");
    for setting in ["r", "s", "m", " q"] {
        ask.push_str(&format!("\x1bP$q{setting}\x1b\\"));
    }
    for mode in [1, 3, 5, 6, 7, 8, 9, 12, 25, 40, 42, 45, 47, 66, 67, 69, 1000, 1004, 1006, 1047, 1049, 2004]
    {
        ask.push_str(&format!("\x1b[?{mode}$p"));
    }
    ask.push_str("\x1b[2$p\x1b[4$p\x1b[12$p\x1b[20$p\x1b[?6l");
    ask.push_str(&format!("\x1b[{PLAIN}#y"));
    for row in 1..=ROWS {
        for col in 1..=COLS {
            ask.push_str(&format!("\x1b[7;1;{row};{col};{row};{col}*y"));
        }
    }
    ask.push_str("\x1b[0#y");
    ask.into_bytes()
}

/// Answers, the cells apart.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Picture {
    answers: String,
    cells: Vec<u16>,
}

impl Picture {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // What the end was introduced by.
        let bytes = bytes.strip_suffix(b"\x1b[").or(bytes.strip_suffix(b"\x9b")).unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        let (mut answers, mut cells, mut rest) = (String::new(), Vec::new(), &*text);
        while let Some(at) = rest.find("\x1bP7!~") {
            answers.push_str(&rest[..at]);
            let body = &rest[at + 5..];
            let end = body.find("\x1b\\").unwrap_or(body.len());
            // What was never drawn may count as nothing.
            cells.push(u16::from_str_radix(&body[..end], 16).unwrap_or(u16::MAX).max(0x20));
            rest = body.get(end + 2..).unwrap_or("");
        }
        answers.push_str(rest);
        Self { answers: spaced(&answers), cells }
    }

    /// What is not the same in `ours`.
    pub(crate) fn differences(&self, ours: &Self) -> String {
        let mut out = String::new();
        if self.answers != ours.answers {
            let (mut theirs, mut mine) = (self.answers.lines(), ours.answers.lines());
            loop {
                match (theirs.next(), mine.next()) {
                    (None, None) => break,
                    (theirs, mine) if theirs == mine => {}
                    (theirs, mine) => {
                        out.push_str(&format!(
                            "xterm {:?}\n ours {:?}\n",
                            theirs.unwrap_or(""),
                            mine.unwrap_or("")
                        ));
                    }
                }
            }
        }
        let width = usize::from(COLS);
        for (row, (theirs, mine)) in self.cells.chunks(width).zip(ours.cells.chunks(width)).enumerate() {
            if theirs != mine {
                let (theirs, mine) = (line(theirs), line(mine));
                out.push_str(&format!("row {}\nxterm {theirs}\n ours {mine}\n", row + 1));
            }
        }
        out
    }
}

/// One answer a line.
fn spaced(answers: &str) -> String {
    let text = answers.escape_debug().to_string();
    let text = text.replace("\\u{1b}\\\\", "^").replace("\\u{1b}", "\n\\e");
    // xterm takes all sets for such of 96 characters, what is not protected for protected, and has tab stops beyond
    // its screen.
    let text = text.replace(&format!("/{}^", COLS + 1), "^");
    let report = |line: &str| {
        let mut parts: Vec<_> = line.split(';').map(str::to_owned).collect();
        if line.starts_with("\\eP1$u") && parts.len() > 8 {
            parts[4].clear();
            parts[8].clear();
        }
        parts.join(";")
    };
    text.lines().map(report).collect::<Vec<_>>().join("\n")
}

/// Characters as they are; with attributes, or not ASCII, in hexadecimal.
fn line(cells: &[u16]) -> String {
    let shown = |cell: &u16| match *cell {
        plain @ 0x20..0x7f => char::from(plain as u8).to_string(),
        other => format!("<{other:x}>"),
    };
    cells.iter().map(shown).collect::<String>().trim_end().to_owned()
}
