//! What it costs to watch agents, beside tmux's control mode for the same output.
//!
//! `cargo run --release -p watchfire-benches --bin observe [-- --json]`
//!
//! - an agent prints a line each millisecond, with the time in it: the time until 1, 10 and 100 readers have it, and the CPU of
//!   what stands between, for a thousand lines. Readers are streams of `follow` here, and control clients there;
//! - an agent prints as fast as it can: the CPU for a thousand lines, with no reader and with one;
//! - 20 agents print as fast as they can, with 100 readers that never read, and with none: the time until all have printed;
//! - a text is written to an agent that repeats it: the time until a reader that waits for it has it. Here it waits with `watch`.
//!
//! Our CPU is that of the orchestrator and the session's guardian, and includes what readers do with a line; tmux's is that of its
//! server and its clients, which only pass lines on.

mod ours;
mod stamps;
mod tmux;

use std::process::ExitCode;

use watchfire_benches::{Report, api, median};
use watchfire_core::Result;

use stamps::Figures;

/// Readers of one agent.
const READERS: [usize; 3] = [1, 10, 100];
/// Lines that are printed at their pace, and as fast as it goes.
const LINES: usize = 2_000;
const FLOOD: usize = 200_000;
/// Agents that print at the same time, and readers of each that never read.
const CROWD: usize = 20;
const CROWD_LINES: usize = 100_000;
const SLOW: usize = 5;

fn main() -> ExitCode {
    watchfire_core::process::helper::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, lines, pause] = &args[..]
        && role == stamps::PRINT
    {
        return stamps::print(lines.parse().unwrap_or_default(), pause.parse().unwrap_or_default());
    }
    let mut report = Report::default();
    let measured = api::runtime().and_then(|runtime| runtime.block_on(measure(&mut report)));
    if let Err(error) = measured {
        eprintln!("error: {}", error.report());
        return ExitCode::FAILURE;
    }
    match args.iter().any(|arg| arg == "--json") {
        true => println!("{}", report.to_json()),
        false => println!("{report}"),
    }
    ExitCode::SUCCESS
}

async fn measure(report: &mut Report) -> Result<()> {
    let there_is_tmux = watchfire_benches::tmux::Tmux::start().is_some();
    if !there_is_tmux {
        report.skip("tmux", "it is not installed");
    }
    for readers in READERS {
        let section = format!("a line each millisecond, {readers} readers");
        let ours = ours::printed(LINES, 1_000, readers).await?;
        let theirs = if there_is_tmux { tmux::printed(LINES, 1_000, readers) } else { None };
        told(report, &section, &ours, theirs.as_ref(), LINES);
    }
    for readers in [0, 1] {
        let section = format!("{FLOOD} lines as fast as it goes, {readers} readers");
        let ours = ours::printed(FLOOD, 0, readers).await?;
        let theirs = if there_is_tmux { tmux::printed(FLOOD, 0, readers) } else { None };
        told(report, &section, &Figures { delays: Vec::new(), ..ours }, None, FLOOD);
        if let Some(theirs) = theirs {
            report.add(&section, "tmux: CPU for 1000 lines", "ms", vec![theirs.cpu * 1e6 / FLOOD as f64]);
        }
    }
    // Pair by pair, because the machine is not the same twice.
    let section = format!("{CROWD} agents print {CROWD_LINES} lines each as fast as it goes");
    let (mut alone, mut watched) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..5 {
        for (readers, figures) in [(0, &mut alone), (SLOW, &mut watched)] {
            let (seconds, memory) = ours::crowd(CROWD, CROWD_LINES, readers).await?;
            figures.0.push(seconds);
            figures.1.push(memory / 1024.0);
        }
    }
    report.add(&section, "no readers: until all have printed", "s", alone.0.clone());
    let who = format!("{SLOW} readers of each that never read");
    report.compare(&section, format!("{who}: the same"), "s", watched.0, "no readers", &alone.0);
    report.add(&section, "no readers: resident", "M", alone.1.clone());
    report.compare(&section, format!("{who}: the same"), "M", watched.1, "no readers", &alone.1);
    let section = "a text to its agent and back to one that waits for it";
    percentiles(report, section, "ours", &ours::echoed(500).await?);
    if let Some(theirs) = there_is_tmux.then(|| tmux::echoed(500)).flatten() {
        percentiles(report, section, "tmux", &theirs);
    }
    Ok(())
}

fn told(report: &mut Report, section: &str, ours: &Figures, theirs: Option<&Figures>, lines: usize) {
    for (who, figures) in [("ours", Some(ours)), ("tmux", theirs)] {
        let Some(figures) = figures else { continue };
        percentiles(report, section, who, &figures.delays);
        report.add(
            section,
            format!("{who}: CPU for 1000 lines"),
            "ms",
            vec![figures.cpu * 1e6 / lines as f64],
        );
        if figures.missing > 0 {
            report.add(section, format!("{who}: lines that no reader got"), "", vec![figures.missing as f64]);
        }
    }
}

fn percentiles(report: &mut Report, section: &str, who: &str, millis: &[f64]) {
    if millis.is_empty() {
        return;
    }
    let mut sorted = millis.to_vec();
    sorted.sort_by(f64::total_cmp);
    report.add(section, format!("{who}, half of them"), "ms", vec![median(&sorted)]);
    let last = sorted[(sorted.len() - 1) * 99 / 100];
    report.add(section, format!("{who}, 99 of 100"), "ms", vec![last]);
}
