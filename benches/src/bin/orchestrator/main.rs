//! What orchestration costs, beside its floor and beside tmux, in one run.
//!
//! `cargo run --release -p watchfire-benches --bin orchestrator [-- --json] [done] [start] [idle] [hosts]`
//!
//! - `done`: from the rename that marks a task done to the target ref moved, with its parts. Floor: two hardened git
//!   processes, two fdatasyncs and one worktree status, which is what doing it by hand would take at the least. No verify,
//!   the target is not checked out, the agent exits on its own.
//! - `start`: from the request to the agent's first byte. Floor: a pseudo-terminal, a process and its first byte. tmux:
//!   `new-session` until `capture-pane` shows the byte.
//! - `idle`: memory (PSS) and CPU of one idle session, at 1, 10 and 100, guardians apart. tmux: its server.
//! - `hosts`: the start of a session that outlives its program, its host's memory (PSS), and a new orchestrator until the screen of
//!   such a session is there again. tmux: `attach` until its first byte. dtach: until the program runs; it keeps no screen.
//!
//! Times on a busy machine are noise; the ratios are taken pair by pair in one run.

mod done;
mod hosts;
mod idle;
mod start;
mod tmux;
mod world;

use watchfire_benches::Report;

fn main() {
    watchfire_core::process::helper::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted =
        |name: &str| args.iter().all(|arg| arg.starts_with("--")) || args.iter().any(|arg| arg == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: starting the runtime: {error}");
            std::process::exit(1);
        }
    };
    let mut report = Report::default();
    let result: watchfire_core::Result<()> = runtime.block_on(async {
        // First, so that it measures no memory that others left behind.
        if wanted("idle") {
            idle::measure(&mut report).await?;
        }
        if wanted("done") {
            done::measure(&mut report).await?;
        }
        if wanted("start") {
            start::measure(&mut report).await?;
        }
        if wanted("hosts") {
            hosts::measure(&mut report).await?;
        }
        Ok(())
    });
    if let Err(error) = result {
        eprintln!("error: {}", error.report());
        std::process::exit(1);
    }
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
}
