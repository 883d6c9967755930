//! xterm.js: escape sequence files and the text that they must end in.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use watchfire_term::{Emulator, Size, Terminal};

/// Where this suite and xterm disagree.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("t0060-DECSC", "xterm saves and restores a pending wrap with the cursor"),
    ("t0061-CSI_s", "xterm saves and restores a pending wrap with the cursor"),
];

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let inputs =
        super::entries(folder).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "in"));
    inputs
        .map(|path| {
            let name = super::name_of(&path);
            let reason = super::known(CONTRADICTIONS, &name);
            Trial::test(format!("xterm.js {name}{}", super::note(reason)), move || check(&path))
                .with_ignored_flag(reason.is_some())
        })
        .collect()
}

fn check(path: &Path) -> Result<(), Failed> {
    let input = std::fs::read(path)?;
    let want = std::fs::read_to_string(path.with_extension("text"))?;
    let mut terminal = Emulator::new(Size::new(80, 25));
    terminal.feed(b"\x1bc\x1b[H");
    // What a tty does on output.
    for byte in input {
        terminal.feed(if byte == b'\n' { b"\r\n" } else { std::slice::from_ref(&byte) });
    }
    let have = terminal.contents();
    let trimmed = |text: &str| {
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    };
    if trimmed(&have) == trimmed(&want) {
        return Ok(());
    }
    Err(format!("want:\n{}\nhave:\n{}", trimmed(&want), trimmed(&have)).into())
}
