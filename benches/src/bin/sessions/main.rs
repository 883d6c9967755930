//! What many sessions and many tasks cost, each figure beside its bound.
//!
//! `cargo run --release -p watchfire-benches --bin sessions [-- --sessions=200 --seconds=30 --tasks=10000
//! --rewritten=3000 --merged=1000 --meanwhile=20] [quiet] [sandboxed] [scrollback] [opened] [rewritten] [merged] [hosted]
//! [redrawing]`
//!
//! - `quiet`: sessions on terminals of 120x40 that have printed one screen and sleep, unconfined: memory (PSS), descriptors
//!   and threads of the orchestrator for each session, memory of the guardians, CPU and wake-ups over a while of silence;
//! - `sandboxed`: the same in a sandbox, with all processes that are ours;
//! - `scrollback`: the same with full scrollback, for a twentieth of the sessions;
//! - `opened`: a project opened, beside reading and parsing its task files;
//! - `rewritten`: task files rewritten by another program: how often the board was read for it, and CPU;
//! - `merged`: memory in use and resident after a fifth of the tasks and after all of them. What is resident and not in use
//!   is kept by the allocator, which is that of the embedder;
//! - `hosted`: sessions that outlive their program, unconfined, idle; what tasks take meanwhile; a new orchestrator that takes
//!   them all over; and all agents killed at once. tmux: as many sessions of the same script;
//! - `redrawing`: the same while each agent repaints its screen, 10 KB a second.
//!
//! Each part runs in a process of its own, so that none measures memory that another left behind. PSS shares the pages
//! of a program among its processes: the orchestrator's own falls a little with each guardian.

mod hosted;
mod merged;
mod quiet;
mod reads;
mod table;
mod tasks;

use std::process::{Command, ExitCode};

use cap::Cap;
use watchfire_benches::api;
use watchfire_core::Result;

use table::Table;

/// The usual allocator, counted. The limit is never reached.
#[global_allocator]
static IN_USE: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const PARTS: [&str; 8] =
    ["quiet", "sandboxed", "scrollback", "opened", "rewritten", "merged", "hosted", "redrawing"];

/// Sizes of the measurements.
struct Sizes {
    sessions: usize,
    seconds: usize,
    tasks: usize,
    rewritten: usize,
    merged: usize,
    meanwhile: usize,
}

fn main() -> ExitCode {
    watchfire_core::process::helper::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let size = |name: &str, usual: usize| {
        let given = args.iter().find_map(|arg| arg.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('='));
        given.and_then(|given| given.parse().ok()).unwrap_or(usual)
    };
    let sizes = Sizes {
        sessions: size("sessions", 200),
        seconds: size("seconds", 30),
        tasks: size("tasks", 10_000),
        rewritten: size("rewritten", 3_000),
        merged: size("merged", 1_000),
        meanwhile: size("meanwhile", 20),
    };
    let mut parts: Vec<&str> = PARTS.into_iter().filter(|part| args.iter().any(|arg| arg == part)).collect();
    if parts.is_empty() {
        parts = PARTS.to_vec();
    }
    let done = match parts[..] {
        [part] => measure(part, &sizes).map_err(|error| error.report()),
        _ => parts.iter().try_for_each(|part| apart(part, &args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures a part in a process of its own.
fn apart(part: &str, args: &[String]) -> std::result::Result<(), String> {
    let flags = args.iter().filter(|arg| arg.starts_with("--"));
    let status = std::env::current_exe()
        .and_then(|program| Command::new(program).args(flags).arg(part).status())
        .map_err(|error| format!("starting this program again: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{part}: {status}")) }
}

fn measure(part: &str, sizes: &Sizes) -> Result<()> {
    let runtime = api::runtime()?;
    let mut table = Table::new();
    runtime.block_on(async {
        match part {
            "quiet" => quiet::quiet(sizes, &mut table).await,
            "sandboxed" => quiet::sandboxed(sizes, &mut table).await,
            "scrollback" => quiet::scrollback(sizes, &mut table).await,
            "opened" => tasks::opened(sizes, &mut table).await,
            "rewritten" => tasks::rewritten(sizes, &mut table).await,
            "hosted" => hosted::idle(sizes, &mut table).await,
            "redrawing" => hosted::redrawing(sizes, &mut table).await,
            _ => merged::measure(sizes, &mut table).await,
        }
    })?;
    table.end();
    Ok(())
}
