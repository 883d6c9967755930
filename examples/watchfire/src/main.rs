//! `watchfire`: coding agents on task files, on your own repositories.
//!
//! Everything here is written against the public API of the workspace's crates; an embedder could write the same.

#![forbid(unsafe_code)]

mod args;
mod away;
mod commands;
mod complete;
mod compose;
mod context;
mod demo;
mod editor;
mod failure;
mod fit;
mod git;
mod help;
mod interrupts;
mod out;
mod progress;
mod serving;
mod status;
mod style;
mod terminal;
mod text;
mod worker;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind as Kind;
use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};
use commands::task::TaskCommand;
use failure::Failure;
use style::Style;
use watchfire_core::Error;
use watchfire_core::model::TaskNumber;

// Linking the crate registers its agents.
use watchfire_backends as _;

fn main() -> ExitCode {
    // First, and before any thread starts: our program is also the helper that sandboxes and ends agents.
    watchfire_core::process::helper::run_if_asked();
    complete::run_if_asked();
    // Not `parse`, which would print its own error text even with `--json`.
    let cli = match Cli::try_parse().and_then(known) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    // Not before `run_if_asked`: a helper keeps the limit that it was started with.
    raise_descriptor_limit();
    // Kept, because the command consumes the rest and a failure is printed after it.
    let json = cli.json;
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from(Error::io("starting the runtime", error)))
        .and_then(|runtime| {
            let ended = runtime.block_on(commands::dispatch(cli));
            // A thread that waits for a key never ends, and must not keep the program.
            runtime.shutdown_timeout(Duration::from_millis(200));
            ended
        });
    match ended.and_then(|exit| unprinted().map_or(Ok(exit), Err)) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            failure.print(json);
            ExitCode::from(failure.code())
        }
    }
}

/// Returns an error if something could not be printed.
fn unprinted() -> Option<Failure> {
    let why = out::failed()?;
    Some(Error::new(watchfire_core::ErrorKind::Io, "writing the output").with("because", why).into())
}

/// Raises the soft limit of open files, within a bound: the usual 1024 is too low for a few hundred sessions.
///
/// Agents inherit the limit. It is bounded because some programs close every possible descriptor before they start
/// others.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    const ENOUGH: u64 = 65_536;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if limit.current.is_some_and(|current| current < wanted) {
        // A failure is ignored: everything works with the lower limit, only for fewer sessions.
        let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(wanted), ..limit });
    }
}

/// Refuses a word after `task` that is neither a command nor a number, as the parser refuses other unknown commands.
fn known(cli: Cli) -> Result<Cli, clap::Error> {
    let Some(Command::Task(TaskCommand::Number(words))) = &cli.command else { return Ok(cli) };
    if words.first().is_some_and(|word| word.parse::<TaskNumber>().is_err()) {
        // Made anew: a command that takes other words cannot be told to take none.
        let strict = |task: clap::Command| {
            clap::Command::new("task").subcommand_required(true).subcommands(task.get_subcommands().cloned())
        };
        Cli::command().mut_subcommand("task", strict).try_get_matches()?;
    }
    Ok(cli)
}

/// Returns the command that the command line names, such as `watchfire task add`.
fn named() -> String {
    let all = Cli::command();
    let (mut at, mut path) = (&all, all.get_name().to_owned());
    for word in std::env::args_os().skip(1) {
        if let Some(next) = at.find_subcommand(&word) {
            path = format!("{path} {}", next.get_name());
            at = next;
        }
    }
    path
}

/// Prints help, the version, or the mistake in the command line, which is printed as JSON if the command line asks
/// for JSON.
fn refuse(error: &clap::Error) -> ExitCode {
    // The parser failed, so its own answer is not available.
    let wants_json = std::env::args_os().any(|arg| arg == "--json");
    if error.use_stderr() && wants_json {
        let text = error.render().to_string();
        // Without the usage and the way to help, which is the hint. What is missing stands on lines of its own, and so do tips.
        let told = text.split("\n\nUsage:").next().unwrap_or_default();
        let lines = told.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<_> = lines.filter(|line| !line.starts_with("For more information")).collect();
        let (tips, said): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.starts_with("tip: "));
        let message = match error.kind() {
            // Its text is the help.
            Kind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".to_owned(),
            _ => said.join(" "),
        };
        let message = message.trim_start_matches("error: ");
        let hint = match tips.first() {
            Some(tip) => tip.trim_start_matches("tip: "),
            None => &format!("{} --help", named()),
        };
        Failure::usage(message, hint).print(true);
    } else if error.kind() == Kind::DisplayHelpOnMissingArgumentOrSubcommand {
        let help = help::wrapped(&error.render().to_string());
        // If the output cannot be written, there is no place left to report that.
        let _ = std::io::stderr().write_all(help.as_bytes());
    } else if error.use_stderr() {
        let is_terminal = std::io::stderr().is_terminal();
        let mut text = error.render().to_string();
        if let Some(rest) = text.strip_prefix("error:") {
            text = format!("{}{rest}", Style::new(is_terminal).red("error:"));
        }
        if is_terminal {
            text = fit::fitted(&text, usize::from(terminal::size().cols()));
        }
        let _ = std::io::stderr().write_all(watchfire_tui::ascii::shown(&text).as_bytes());
    } else {
        help::print(&error.render().to_string());
        if let Some(failure) = unprinted() {
            failure.print(false);
            return ExitCode::from(failure.code());
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
