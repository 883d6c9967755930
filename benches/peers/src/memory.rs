//! How much memory: each measurement in a process of its own.

use std::process::Command;

use serde_json::{Map, Value, json};

use crate::cores::{self, COLS};

const KINDS: [(&str, &str, usize); 4] = [
    ("empty", "empty", 200),
    ("10k lines plain", "plain", 4),
    ("10k lines styled", "styled", 4),
    ("1000 x 1000 short lines", "short", 1000),
];

/// Kilobytes of resident memory for each terminal.
pub fn table(names: &[&'static str]) -> Vec<Value> {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    KINDS
        .iter()
        .map(|(name, kind, count)| {
            let kib = names.iter().filter_map(|core| {
                let output = Command::new(&program).args(["--measure-memory", core, kind]).arg(count.to_string()).output().ok()?;
                let kib: f64 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
                Some(((*core).to_owned(), json!(kib)))
            });
            json!({ "name": name, "kib": kib.collect::<Map<_, _>>() })
        })
        .collect()
}

/// Prints how much resident memory one terminal of `kind` takes, in KiB.
pub fn measure(core: &str, kind: &str, count: usize) {
    // What is made once per process is not counted.
    let mut warm = cores::make(core);
    warm.feed("warm é漢😀\r\n".as_bytes());
    let lines = lines(kind);
    let before = resident();
    let terminals: Vec<_> = (0..count)
        .map(|_| {
            let mut terminal = cores::make(core);
            lines.chunks(16 << 10).for_each(|chunk| terminal.feed(chunk));
            terminal
        })
        .collect();
    println!("{:.1}", resident().saturating_sub(before) as f64 / count as f64 / 1024.0);
    drop(terminals);
}

fn lines(kind: &str) -> Vec<u8> {
    let text = "the quick brown fox jumps over the lazy dog and runs away from the bear ".repeat(3);
    let mut out = String::new();
    match kind {
        "plain" => (0..cores::LINES + 40).for_each(|line| {
            out += &format!("{}\r\n", &format!("{line:6}{text}")[..COLS - 1]);
        }),
        "styled" => (0..cores::LINES + 40).for_each(|line| {
            for at in (0..COLS - 1).step_by(6) {
                out += &format!("\x1b[3{}m{}", (line + at / 6) % 8, &text[at..(at + 6).min(COLS - 1)]);
            }
            out += "\x1b[m\r\n";
        }),
        "short" => (0..1_000).for_each(|line| out += &format!("line {line} of a short log\r\n")),
        _ => {}
    }
    out.into_bytes()
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
