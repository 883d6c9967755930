//! vt100: what was typed so far, and the text and the cursor that it must end in.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use watchfire_term::{Emulator, Size, Terminal};

/// Fixtures with steps that contradict xterm.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("alternate_buffer", "xterm has one cursor for both screens, and does not move it"),
    ("il_dl", "xterm moves the cursor to the margin, and so does xterm.js"),
    ("wide", "nothing stays of a wide character of which a half is moved"),
    ("wrap", "xterm does not wrap after a line feed"),
];

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let (mut trials, mut seen, mut held) = (Vec::new(), 0, 0);
    for path in super::entries(folder).into_iter().filter(|path| path.join("1.typescript").is_file()) {
        let (name, results) = (super::name_of(&path), run(&path));
        let wrong: Vec<String> = results.iter().filter_map(|result| result.clone().err()).collect();
        (seen, held) = (seen + results.len(), held + results.len() - wrong.len());
        let reason = super::known(CONTRADICTIONS, &name);
        let result = if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) };
        trials.push(
            Trial::test(format!("vt100 {name}{}", super::note(reason)), move || result)
                .with_ignored_flag(reason.is_some()),
        );
    }
    eprintln!("vt100: {held} of {seen} steps end in the same text and cursor");
    trials
}

/// How each step ends.
fn run(folder: &Path) -> Vec<Result<(), String>> {
    let mut terminal = Emulator::new(Size::new(80, 24));
    let steps = (1..).map_while(|step| {
        terminal.feed(&std::fs::read(folder.join(format!("{step}.typescript"))).ok()?);
        let want = std::fs::read(folder.join(format!("{step}.json"))).ok()?;
        let want = serde_json::from_slice(&want).unwrap_or_default();
        Some(compare(&mut terminal, &want).map_err(|wrong| format!("step {step}: {wrong}")))
    });
    steps.collect()
}

fn compare(terminal: &mut Emulator, want: &Value) -> Result<(), String> {
    let snapshot = terminal.snapshot();
    let place = |index: usize| want["cursor_position"][index].as_u64().unwrap_or(0) as u16;
    // Theirs may be behind the last column.
    let (row, col) = (place(0), place(1).min(79));
    if (row, col) != (snapshot.cursor.row, snapshot.cursor.col) {
        return Err(format!("the cursor is not at {row}, {col}"));
    }
    for (row, line) in snapshot.lines.iter().enumerate() {
        let mut have = vec![""; 80];
        let mut col = 0;
        for cell in line.cells() {
            have.iter_mut().skip(col).take(1).for_each(|slot| *slot = cell.text);
            col += usize::from(cell.width);
        }
        for (col, have) in have.iter().enumerate() {
            let want = want["cells"][format!("{row},{col}")]["contents"].as_str().unwrap_or("");
            if have.trim_end() != want.trim_end() {
                return Err(format!("{have:?} at {row}, {col} instead of {want:?}"));
            }
        }
    }
    Ok(())
}
