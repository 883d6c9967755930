//! What the emulators are fed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cores::{COLS, ROWS};

/// Each stream is about so long.
const LENGTH: usize = 2 << 20;

/// The names and bytes of all streams: made here, real ones of this repository, recorded agents, and vtebench's if it is there.
///
/// A stream is what its name says and nothing else: a few characters beyond ASCII in a text turn a fast path into a slow
/// one, and the ratio then tells of those few.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let mut streams: Vec<(String, Vec<u8>)> = [
        ("random_places", repeat(random_places)),
        ("ascii_prose", repeat(|n| text(n, "The quick brown fox jumps over the lazy dog, and then it sleeps for an hour. "))),
        ("cargo_log", repeat(cargo_log)),
        ("cjk", repeat(|n| text(n, "漢字仮名交じり文は日本語の標準的な書き方である。中文繁體한국어"))),
        ("cjk_with_ascii", repeat(|n| text(n, "構築: cargo build は 42 個のクレートを作成しました。编译完成, 0 warnings (release). "))),
        ("cjk_with_emoji", repeat(|n| text(n, "漢字✅仮名🚀交じり文\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}中文⚠\u{fe0f}繁體한국어👍🏽"))),
        ("emoji_with_prose", repeat(|n| text(n, "build ok ✅ \u{1f680} deploy \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{2764}\u{fe0f} 👍🏽 done 🇩🇪 "))),
        ("cyrillic_and_greek", repeat(|n| text(n, "Съешь же ещё этих мягких французских булок, да выпей чаю. Ελληνικά àéîõü "))),
        ("short_words_of_two_bytes", repeat(|n| text(n, "я и ты, мы не он. да? но: αν τι θα να "))),
        ("scripts_with_ascii", repeat(|n| text(n, "naïve café — “quotes” ▐█▌ ├──┤ π≈3.14 漢字 Привет → ✓ plain ascii in between "))),
        ("cursor_jumps", repeat(cursor_jumps)),
        ("one_letter_screens", repeat(one_letter_screens)),
        ("eight_cells_a_colour", repeat(eight_cells_a_colour)),
        ("eight_cells_in_frames", repeat(|n| format!("\x1b[?2026h{}\x1b[?2026l", eight_cells_a_colour(n)))),
        ("every_cell_a_style", repeat(every_cell_a_style)),
        ("every_cell_truecolor", repeat(every_cell_truecolor)),
        ("short_lines", repeat(|_| "y\r\n".repeat(2_000))),
        ("full_lines", repeat(|n| format!("{}\r\n", letter(n).to_string().repeat(COLS)))),
        ("upper_margins", region(1, ROWS / 2)),
        ("lower_margins", region(ROWS / 2, ROWS)),
        ("like_vim", repeat(like_vim)),
        ("like_htop", repeat(like_htop)),
        ("real_source_ascii", repeat(|_| include_str!("../../../watchfire-term/src/cells/grid.rs").replace('\n', "\r\n"))),
        ("real_source_with_symbols", repeat(|_| include_str!("streams.rs").replace('\n', "\r\n"))),
    ]
    .into_iter()
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .collect();
    for (name, bytes) in &streams {
        assert!(!name.contains("ascii") || name.contains("with") || bytes.is_ascii(), "{name} holds something else");
    }
    streams.extend(recordings());
    streams.extend(vtebench());
    streams
}

/// Returns the payloads of vtebench under its names, if `$WATCHFIRE_VTEBENCH` is a checkout of vtebench. They are not
/// part of this repository.
fn vtebench() -> Vec<(String, Vec<u8>)> {
    let Some(root) = std::env::var_os("WATCHFIRE_VTEBENCH") else {
        eprintln!("SKIPPED: no $WATCHFIRE_VTEBENCH");
        return Vec::new();
    };
    let folders = std::fs::read_dir(Path::new(&root).join("benchmarks")).into_iter().flatten().flatten();
    let mut folders: Vec<_> = folders.map(|entry| entry.path()).filter(|path| path.join("benchmark").is_file()).collect();
    folders.sort();
    let output = |folder: &Path, script: &str| {
        // Its scripts ask the terminal for the size, and `sh` is bash where they were written.
        let mut command = Command::new("bash");
        command.arg(folder.join(script)).current_dir(folder).env("TERM", "xterm-256color");
        let output = command.env("COLUMNS", COLS.to_string()).env("LINES", ROWS.to_string()).output();
        let bytes = output.map(|output| output.stdout).unwrap_or_default();
        // What a pseudo-terminal adds.
        String::from_utf8_lossy(&bytes).replace('\n', "\r\n")
    };
    let streams = folders.iter().filter_map(|folder| {
        let payload = output(folder, "benchmark");
        if payload.is_empty() {
            eprintln!("SKIPPED: {} printed nothing", folder.display());
            return None;
        }
        let mut bytes = if folder.join("setup").is_file() { output(folder, "setup").into_bytes() } else { Vec::new() };
        bytes.extend(payload.repeat((LENGTH / payload.len()).max(1)).into_bytes());
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some((format!("vtebench_{name}"), bytes))
    });
    streams.collect()
}

/// Other projects' test data: `$WATCHFIRE_FIXTURES` or `../shared/fixtures` beside the workspace.
pub fn fixtures() -> PathBuf {
    std::env::var_os("WATCHFIRE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        Into::into,
    )
}

/// Recorded agents, if they are here.
fn recordings() -> Vec<(String, Vec<u8>)> {
    let folder = fixtures().join("recordings");
    ["claude-long", "codex-long", "gemini-typed", "opencode-long", "copilot-long"]
        .into_iter()
        .filter_map(|agent| {
            let bytes = std::fs::read(folder.join(format!("{agent}-120x40.raw"))).ok();
            if bytes.is_none() {
                eprintln!("SKIPPED: no recording of {agent}");
            }
            let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
            let name = format!("tui_{}", agent.split('-').next().unwrap_or(agent));
            Some((name, bytes.repeat((LENGTH / bytes.len()).max(1))))
        })
        .collect()
}

fn repeat(make: impl Fn(usize) -> String) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0.. {
        bytes.extend_from_slice(make(n).as_bytes());
        if bytes.len() >= LENGTH {
            break;
        }
    }
    bytes
}

fn letter(n: usize) -> char {
    char::from(b'A' + (n % 26) as u8)
}

fn random(n: usize) -> usize {
    let x = (n as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as usize
}

fn text(n: usize, sample: &str) -> String {
    let chars: Vec<char> = sample.chars().collect();
    let start = random(n) % chars.len();
    let mut line: String = chars.iter().cycle().skip(start).take(100).collect();
    line.push_str("\r\n");
    line
}

fn random_places(n: usize) -> String {
    let mut out = String::from("\x1b[?1049h");
    for i in 0..500 {
        let r = random(n * 500 + i);
        let _ = write!(out, "\x1b[{};{}H\x1b[{}m{}", r % ROWS + 1, r / 64 % COLS + 1, 30 + r / 7 % 8, letter(r));
    }
    out + "\x1b[?1049l"
}

fn cargo_log(n: usize) -> String {
    format!("\x1b[0m\x1b[1m\x1b[32m   Compiling\x1b[0m crate-number-{n} v0.{}.{} (/home/user/project)\r\n", n % 40, n % 9)
}

fn cursor_jumps(n: usize) -> String {
    let mut out = String::new();
    for row in 1..=ROWS {
        for col in (1..=COLS).step_by(4) {
            let _ = write!(out, "\x1b[{row};{col}H{}", letter(n + row + col));
        }
    }
    out
}

fn every_cell_a_style(n: usize) -> String {
    let mut out = String::from("\x1b[H");
    for i in 0..ROWS * COLS {
        let r = n + i;
        let _ = write!(out, "\x1b[38;5;{};48;5;{};1;3;4m{}", r % 156 + 100, 255 - r % 156, letter(n));
    }
    out
}

fn one_letter_screens(n: usize) -> String {
    format!("\x1b[H{}", letter(n).to_string().repeat(ROWS * COLS))
}

fn eight_cells_a_colour(n: usize) -> String {
    let mut out = String::from("\x1b[H");
    for i in 0..ROWS * COLS / 8 {
        let r = random(n + i);
        let _ = write!(out, "\x1b[{}m{}", 30 + r % 8, letter(r).to_string().repeat(8));
    }
    out
}

fn region(top: usize, bottom: usize) -> Vec<u8> {
    let mut bytes = format!("\x1b[{top};{bottom}r\x1b[{bottom};1H").into_bytes();
    bytes.extend(b"y\r\n".repeat(LENGTH / 3));
    bytes.extend(b"\x1b[r");
    bytes
}

fn every_cell_truecolor(n: usize) -> String {
    let mut out = String::from("\x1b[H");
    for i in 0..ROWS * COLS {
        let r = n * 3 + i;
        let _ = write!(out, "\x1b[38;2;{};{};{};48;2;{};{};{}m▀", r % 256, r / 2 % 256, r / 3 % 256, r / 5 % 256, r / 7 % 256, n % 256);
    }
    out
}

fn like_vim(n: usize) -> String {
    let mut out = String::from("\x1b[?25l\x1b[H");
    for row in 1..ROWS {
        let _ = write!(
            out,
            "\x1b[{row};1H\x1b[38;5;130m{:4} \x1b[m\x1b[38;5;81mfn\x1b[m name_{}(\x1b[38;5;224m&self\x1b[m) -> \x1b[38;5;121mu32\x1b[m {{ \x1b[38;5;159m// {}\x1b[m\x1b[K",
            n + row, (n + row) % 97, random(n + row)
        );
    }
    out + "\x1b[40;1H\x1b[7m NORMAL \x1b[m\x1b[?25h"
}

fn like_htop(n: usize) -> String {
    let mut out = String::from("\x1b[H");
    for row in 0..ROWS {
        let r = random(n * ROWS + row);
        let _ = write!(
            out,
            "\x1b[{};1H\x1b[30m\x1b[46m{:7} \x1b[39m\x1b[49mroot      20   0 \x1b[36m{:6}\x1b[39mM \x1b[1m{:3}\x1b[m.{} \x1b[32m{}\x1b[90m{}\x1b[m\x1b[K",
            row + 1, r % 99999, r % 4096, r % 100, r % 10, "|".repeat(r % 20), " ".repeat(20 - r % 20)
        );
    }
    out
}
