//! Two suites that come with what a screen must show, run with all emulators in one harness: equal sizes, equal scrollback,
//! default options, and the same comparison of base characters, row by row, without blanks at their ends.
//!
//! Colours, attributes and the cursor are not compared here, because not every emulator tells them in the same terms.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::cores;
use crate::streams::fixtures;

/// A case: the size of the screen, the input, and the expected rows.
struct Case {
    size: (usize, usize),
    input: Vec<u8>,
    rows: Vec<String>,
}

/// Returns the number of passed cases of each suite for each emulator.
pub fn table(names: &[&'static str]) -> Vec<Value> {
    let terminal = fixtures().join("terminal");
    let suites = [("alacritty-ref", alacritty as fn(&Path) -> Option<Case>), ("xterm-js", xterm_js)];
    let mut rows = Vec::new();
    for (suite, read) in suites {
        let cases: Vec<_> = entries(&terminal.join(suite)).iter().filter_map(|path| read(path)).collect();
        if cases.is_empty() {
            eprintln!("SKIPPED: no {suite} in {}", terminal.display());
            continue;
        }
        let passed = names.iter().filter_map(|name| {
            let passed = cases.iter().map(|case| passes(name, case)).collect::<Option<Vec<_>>>()?;
            Some(((*name).to_owned(), json!(passed.iter().filter(|passed| **passed).count())))
        });
        rows.push(json!({ "name": format!("{suite} of {}", cases.len()), "passed": passed.collect::<Map<_, _>>() }));
    }
    rows
}

/// Returns true if the emulator ends in the expected rows, or `None` if its rows cannot be read.
fn passes(name: &str, case: &Case) -> Option<bool> {
    let run = || {
        let mut core = cores::sized(name, case.size.0, case.size.1);
        core.feed(&case.input);
        core.rows()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(rows) => rows.map(|rows| trimmed(rows) == case.rows),
        // It panicked.
        Err(_) => Some(false),
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Rows without blanks at their ends, without empty rows at the end, and without marks that take no column.
fn trimmed(rows: Vec<String>) -> Vec<String> {
    let is_base = |c: &char| !matches!(c, '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{20d0}'..='\u{20ff}');
    let row = |row: String| row.replace(['\0', '\t'], " ").chars().filter(is_base).collect::<String>().trim_end().to_owned();
    let mut rows: Vec<_> = rows.into_iter().map(row).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

fn alacritty(folder: &Path) -> Option<Case> {
    let input = std::fs::read(folder.join("alacritty.recording")).ok()?;
    let grid: Value = serde_json::from_slice(&std::fs::read(folder.join("grid.json")).ok()?).ok()?;
    let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
    let (cols, rows) = (number(&grid["columns"]), number(&grid["lines"]));
    let (inner, zero) = (grid["raw"]["inner"].as_array()?, number(&grid["raw"]["zero"]));
    // The bottom row comes first.
    let row = |row: usize| {
        let cells = inner[(zero + rows - 1 - row) % inner.len()]["inner"].as_array().into_iter().flatten();
        let cells = cells.filter(|cell| !cell["flags"].as_str().unwrap_or("").contains("SPACER"));
        cells.map(|cell| cell["c"].as_str().unwrap_or(" ")).collect()
    };
    let want = (0..rows).map(row).collect();
    Some(Case { size: (cols, rows), input, rows: trimmed(want) })
}

fn xterm_js(path: &Path) -> Option<Case> {
    if path.extension()? != "in" {
        return None;
    }
    let want = std::fs::read_to_string(path.with_extension("text")).ok()?;
    // What a tty does on output.
    let mut input = b"\x1bc\x1b[H".to_vec();
    for byte in std::fs::read(path).ok()? {
        input.extend_from_slice(if byte == b'\n' { b"\r\n" } else { std::slice::from_ref(&byte) });
    }
    Some(Case { size: (80, 25), input, rows: trimmed(want.lines().map(str::to_owned).collect()) })
}
