//! `watchfired`: the daemon in the foreground, until it is told to end.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use watchfired::DaemonArgs;

/// Runs coding agents for many clients, until it is told to end
#[derive(Debug, Parser)]
#[command(name = "watchfired", version)]
struct Cli {
    #[command(flatten)]
    args: DaemonArgs,
}

fn main() -> ExitCode {
    // First, and before any thread starts: our program is also the helper that sandboxes and ends agents.
    watchfire_core::process::helper::run_if_asked();
    watchfired::main(Cli::parse().args)
}
