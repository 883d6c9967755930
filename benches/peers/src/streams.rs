//! What the emulators are fed.

use std::fmt::Write as _;
use std::path::Path;

use crate::cores::{COLS, ROWS};

/// Each stream is about so long.
const LENGTH: usize = 2 << 20;

/// The names and bytes of all streams.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let mut streams: Vec<(String, Vec<u8>)> = [
        ("alt_random", repeat(alt_random)),
        ("ascii_source", repeat(|_| include_str!("streams.rs").replace('\n', "\r\n"))),
        ("cargo_log", repeat(cargo_log)),
        ("cjk", repeat(|n| text(n, "漢字仮名交じり文は日本語の標準的な書き方である。中文繁體한국어"))),
        ("cursor_motion", repeat(cursor_motion)),
        ("dense_cells", repeat(dense_cells)),
        ("emoji_mixed", repeat(|n| text(n, "build ok ✅ \u{1f680} deploy \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{2764}\u{fe0f} 👍🏽 done 🇩🇪 "))),
        ("light_cells", repeat(light_cells)),
        ("medium_cells", repeat(medium_cells)),
        ("scrolling", repeat(|_| "y\r\n".repeat(2_000))),
        ("scrolling_fullscreen", repeat(|n| format!("{}\r\n", letter(n).to_string().repeat(COLS)))),
        ("scrolling_top_region", region(1, ROWS / 2)),
        ("scrolling_bottom_region", region(ROWS / 2, ROWS)),
        ("sync_medium_cells", repeat(|n| format!("\x1b[?2026h{}\x1b[?2026l", medium_cells(n)))),
        ("truecolor", repeat(truecolor)),
        ("two_byte", repeat(|n| text(n, "Съешь же ещё этих мягких французских булок, да выпей чаю. Ελληνικά àéîõü "))),
        ("unicode", repeat(|n| text(n, "naïve café — “quotes” ▐█▌ ├──┤ π≈3.14 漢字 Привет → ✓ plain ascii in between "))),
        ("tui_vim", repeat(vim)),
        ("tui_htop", repeat(htop)),
    ]
    .into_iter()
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .collect();
    streams.extend(recordings());
    streams
}

/// Recorded agents, if they are here: `$WATCHFIRE_FIXTURES` or `../shared/fixtures` beside the workspace.
fn recordings() -> Vec<(String, Vec<u8>)> {
    let root = std::env::var_os("WATCHFIRE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        Into::into,
    );
    let folder = root.join("recordings");
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

fn alt_random(n: usize) -> String {
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

fn cursor_motion(n: usize) -> String {
    let mut out = String::new();
    for row in 1..=ROWS {
        for col in (1..=COLS).step_by(4) {
            let _ = write!(out, "\x1b[{row};{col}H{}", letter(n + row + col));
        }
    }
    out
}

fn dense_cells(n: usize) -> String {
    let mut out = String::from("\x1b[H");
    for i in 0..ROWS * COLS {
        let r = n + i;
        let _ = write!(out, "\x1b[38;5;{};48;5;{};1;3;4m{}", r % 156 + 100, 255 - r % 156, letter(n));
    }
    out
}

fn light_cells(n: usize) -> String {
    format!("\x1b[H{}", letter(n).to_string().repeat(ROWS * COLS))
}

fn medium_cells(n: usize) -> String {
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

fn truecolor(n: usize) -> String {
    let mut out = String::from("\x1b[H");
    for i in 0..ROWS * COLS {
        let r = n * 3 + i;
        let _ = write!(out, "\x1b[38;2;{};{};{};48;2;{};{};{}m▀", r % 256, r / 2 % 256, r / 3 % 256, r / 5 % 256, r / 7 % 256, n % 256);
    }
    out
}

fn vim(n: usize) -> String {
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

fn htop(n: usize) -> String {
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
