//! vt100: what was typed so far, and the text and the cursor that it must end in.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use watchfire_term::{Emulator, Size, Snapshot, Terminal};

/// Steps that contradict xterm: the fixture, the steps, why. All others hold, and these do not.
const CONTRADICTIONS: &[(&str, &[usize], &str)] = &[
    ("alternate_buffer", &[3, 4, 5, 6, 7, 10, 11, 13], "one cursor for both screens, which does not move"),
    (
        "combining",
        &[14],
        "BS behind the last column moves the cursor, and the mark goes to what is before it",
    ),
    ("decstbm", &[4], "DECSTBM homes the cursor to the corner of the screen"),
    ("decstbm", &[10], "IL moves the cursor to the margin"),
    ("ff", &[5], "FF ends a pending wrap"),
    ("ich_dch_ech", &[15], "nothing stays of a wide character of which a half is moved"),
    ("il_dl", &[2, 3, 4, 6, 7, 8, 11, 12, 16, 17, 18, 21], "IL and DL move the cursor to the margin"),
    ("lf", &[5], "LF ends a pending wrap"),
    ("origin_mode", &[1], "DECSTBM homes the cursor to the corner of the screen"),
    ("origin_mode", &[7, 9], "both screens have the same origin mode"),
    ("vt", &[5], "VT ends a pending wrap"),
    ("wide", &[9], "nothing stays of a wide character of which a half is moved"),
    ("wide", &[24], "BS behind the last column moves the cursor"),
    ("wrap", &[21], "LF ends a pending wrap"),
];

/// How a step ends: in the same text, and what differs, if anything does.
type Outcome = (bool, Result<(), String>);

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let (mut trials, mut seen, mut text, mut both) = (Vec::new(), 0, 0, 0);
    for path in super::entries(folder).into_iter().filter(|path| path.join("1.typescript").is_file()) {
        let (name, steps) = (super::name_of(&path), run(&path));
        seen += steps.len();
        text += steps.iter().filter(|(same, _)| *same).count();
        both += steps.iter().filter(|(_, whole)| whole.is_ok()).count();
        trials.push(Trial::test(format!("vt100 {name}"), move || check(&name, &steps)));
    }
    eprintln!("vt100: {text} of {seen} steps end in the same text, {both} in the same text and cursor");
    trials
}

fn check(name: &str, steps: &[Outcome]) -> Result<(), Failed> {
    let listed =
        |step| CONTRADICTIONS.iter().any(|(known, steps, _)| *known == name && steps.contains(&step));
    let wrong = steps.iter().zip(1..).filter_map(|((_, whole), step)| match whole {
        Err(wrong) if !listed(step) => Some(format!("step {step}: {wrong}")),
        Ok(()) if listed(step) => Some(format!("step {step} holds, and is listed as a contradiction")),
        _ => None,
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// How each step ends.
fn run(folder: &Path) -> Vec<Outcome> {
    let mut terminal = Emulator::new(Size::new(80, 24));
    let steps = (1..).map_while(|step| {
        terminal.feed(&std::fs::read(folder.join(format!("{step}.typescript"))).ok()?);
        let want = std::fs::read(folder.join(format!("{step}.json"))).ok()?;
        let want = serde_json::from_slice(&want).unwrap_or_default();
        let snapshot = terminal.snapshot();
        let text = text(&snapshot, &want);
        Some((text.is_ok(), text.and_then(|()| cursor(&snapshot, &want))))
    });
    steps.collect()
}

fn cursor(snapshot: &Snapshot, want: &Value) -> Result<(), String> {
    let place = |index: usize| want["cursor_position"][index].as_u64().unwrap_or(0) as u16;
    // Theirs may be behind the last column.
    let (row, col) = (place(0), place(1).min(79));
    if (row, col) == (snapshot.cursor.row, snapshot.cursor.col) {
        return Ok(());
    }
    Err(format!("the cursor is at {}, {} instead of {row}, {col}", snapshot.cursor.row, snapshot.cursor.col))
}

fn text(snapshot: &Snapshot, want: &Value) -> Result<(), String> {
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
