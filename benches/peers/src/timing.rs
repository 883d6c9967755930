//! How fast: streams, resizes and snapshots, the emulators taking turns.
//!
//! All time is processor time of this thread, so that what else runs on the machine counts little.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cores::{self, COLS, Core, ROWS};
use crate::streams;

const CHUNK: usize = 16 << 10;
/// From here on all recorded agents show what they have to say.
const PAINTING: usize = 96 << 10;
/// Number of turns that each emulator gets for its snapshots.
const TURNS: usize = 10;

#[derive(Default)]
pub struct Options {
    pub quick: bool,
    pub streams: Vec<String>,
}

/// A moment of this thread's processor time.
struct Instant(Duration);

impl Instant {
    fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

/// Megabytes per second, best of several; the first pass fills the scrollback and does not count.
pub fn streams(names: &[&'static str], options: &Options) -> Vec<Value> {
    let rounds = if options.quick { 3 } else { 7 };
    let mut rows = Vec::new();
    for (name, bytes) in streams::all() {
        if !options.streams.is_empty() && !options.streams.contains(&name) {
            continue;
        }
        let mut cores: Vec<_> = names.iter().map(|name| (*name, Some(cores::make(name)), Duration::MAX)).collect();
        for round in 0..=rounds {
            for (_, slot, best) in &mut cores {
                let Some(core) = slot else { continue };
                let start = Instant::now();
                let fed = catch_unwind(AssertUnwindSafe(|| bytes.chunks(CHUNK).for_each(|chunk| core.feed(chunk))));
                if fed.is_err() {
                    // It panicked: it has no number here.
                    (*slot, *best) = (None, Duration::MAX);
                } else if round > 0 {
                    *best = start.elapsed().min(*best);
                }
            }
        }
        let speeds = cores.iter().filter(|(_, core, _)| core.is_some()).map(|(name, _, best)| {
            ((*name).to_owned(), json!(bytes.len() as f64 / 1e6 / best.as_secs_f64()))
        });
        rows.push(json!({ "name": name, "mb_s": speeds.collect::<Map<_, _>>() }));
        eprint!(".");
    }
    eprintln!();
    rows
}

fn filled(name: &str) -> Box<dyn Core> {
    let mut core = cores::make(name);
    for line in 0..cores::LINES + ROWS {
        let text: String = format!("{line} the quick brown fox jumps over the lazy dog. ").repeat(4);
        core.feed(format!("{}\r\n", &text[..COLS - 1]).as_bytes());
    }
    core
}

/// Milliseconds with 10,000 lines of scrollback, best of several.
pub fn resize(names: &[&'static str], options: &Options) -> Vec<Value> {
    let rounds = if options.quick { 3 } else { 9 };
    let kinds = ["120 to 80 and back", "40 to 50 rows", "120 to 80, read all"];
    let mut tables: [Map<String, Value>; 3] = Default::default();
    for name in names {
        let mut core = filled(name);
        let mut best = [f64::MAX; 3];
        for _ in 0..rounds {
            let start = Instant::now();
            if !core.resize(80, ROWS) || !core.resize(COLS, ROWS) {
                break;
            }
            best[0] = best[0].min(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            core.resize(COLS, ROWS + 10);
            best[1] = best[1].min(start.elapsed().as_secs_f64() * 1e3);
            core.resize(COLS, ROWS);
            let start = Instant::now();
            core.resize(80, ROWS);
            if core.history().is_some() {
                best[2] = best[2].min(start.elapsed().as_secs_f64() * 1e3);
            }
            core.resize(COLS, ROWS);
        }
        for (table, best) in tables.iter_mut().zip(best) {
            if best < f64::MAX {
                table.insert((*name).to_owned(), json!(best));
            }
        }
    }
    kinds.iter().zip(tables).map(|(kind, table)| json!({ "name": kind, "ms": table })).collect()
}

/// Returns the start of a stream that repaints a screen, cut at the end of a frame: within one, some emulators still
/// show the old screen.
fn painting(bytes: &[u8]) -> &[u8] {
    const FRAME_END: &[u8] = b"\x1b[?2026l";
    let start = &bytes[..bytes.len().min(PAINTING)];
    let end = start.windows(FRAME_END.len()).rposition(|window| window == FRAME_END);
    end.map_or(start, |end| &start[..end + FRAME_END.len()])
}

/// Measures the microseconds for the text and the ANSI of a screen, after painting all cells or only one.
pub fn snapshot(names: &[&'static str], options: &Options) -> Vec<Value> {
    let rounds = if options.quick { 50 } else { 500 };
    let mut rows = Vec::new();
    for (stream, bytes) in streams::all() {
        if !["cargo_log", "like_vim", "tui_opencode", "every_cell_a_style"].contains(&&*stream) {
            continue;
        }
        let painting = painting(&bytes);
        for (kind, painted) in [("text", true), ("text", false), ("ansi", true)] {
            let mut all: Vec<_> = names.iter().map(|name| (cores::make(name), f64::MAX)).collect();
            all.iter_mut().for_each(|(core, _)| core.feed(&bytes));
            // In turns, so that what else the machine does meets all of them.
            for _ in 0..TURNS {
                for (core, best) in &mut all {
                    for round in 0..rounds / TURNS {
                        if painted {
                            // All of it is painted again, so that nothing can be kept.
                            core.feed(painting);
                        } else {
                            core.feed(if round % 2 == 0 { b"\x1b[5;5Hx" } else { b"\x1b[5;5Hy" });
                        }
                        let start = Instant::now();
                        let some = if kind == "text" { core.text().map(|text| text.len()) } else { core.ansi() };
                        if some.is_none() {
                            break;
                        }
                        *best = best.min(start.elapsed().as_secs_f64() * 1e6);
                    }
                }
            }
            let told = names.iter().zip(all).filter(|(_, (_, best))| *best < f64::MAX);
            let table: Map<_, _> = told.map(|(name, (_, best))| ((*name).to_owned(), json!(best))).collect();
            let how = if painted { "painted" } else { "one cell" };
            rows.push(json!({ "name": format!("{stream} {kind} {how}"), "us": table }));
        }
    }
    rows
}
