//! `watchfire sandbox exec`: runs a command in the place of an agent, confined in the same way.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use watchfire_core::orchestrator::{Confinement, Orchestrator};
use watchfire_core::process::CommandSpec;
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::session::Attached;
use watchfire_core::{Error, ErrorKind};

use super::Whose;
use super::explain::unreadable;
use super::report::refused;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
The command gets the policy, the variables and the working directory of an agent that started now, from the same code,
and runs in its place: for a task in its worktree, which is made if there is none. It has your terminal. Whatever it
leaves running ends with it. What it commits and what it writes to memory.md stay; what it says about the task does not
count. The project is locked meanwhile.

Examples:
  watchfire sandbox exec --task 3 -- cargo test
  watchfire sandbox exec --task 3 -- bash
  watchfire sandbox exec --sandbox bwrap --report -- cat ~/.ssh/id_ed25519

Exit codes: the command's own, or 128 and the number of the signal that ended it; 125 nothing was started, 126 it could
not be confined or executed, 127 there is no such program.")]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    whose: Whose,
    /// Report on stderr, after the command, which rules were in force; as JSON with --json
    #[arg(long)]
    report: bool,
    /// The command
    // Everything behind the command belongs to it, flags included.
    #[arg(value_name = COMMAND, required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Placeholder of the command in the usage.
pub(super) const COMMAND: &str = "COMMAND";

/// Exit code if Watchfire itself failed.
const FAILED: u8 = 125;
/// Exit code if the command was found and could not be run as required.
const REFUSED: u8 = 126;
/// Exit code if there is no such command.
const MISSING: u8 = 127;

pub(super) async fn run(context: &Context, args: ExecArgs) -> Result<Exit> {
    coded(exec(context, &args).await)
}

/// Gives an error the exit code that it has in the place of the command.
pub(super) fn coded(ran: Result<Exit>) -> Result<Exit> {
    ran.map_err(|failure| match failure {
        Failure::Error(error) => {
            let code = match error.kind() {
                ErrorKind::ProgramMissing => MISSING,
                ErrorKind::SandboxUnavailable
                | ErrorKind::PolicyUnenforceable
                | ErrorKind::PermissionDenied => REFUSED,
                _ => FAILED,
            };
            let hint = "it is looked for in PATH, or in the working directory where its name has a slash";
            let error = if code == MISSING { error.with("hint", hint) } else { error };
            Failure::Command { error, code }
        }
        other => other,
    })
}

/// Returns the exit code of a command that ran.
pub(super) fn code(ran: &Attached) -> u8 {
    ran.exit.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Prints the remarks about the command's work in the repository.
pub(super) fn tell(context: &Context, ran: &Attached) {
    if !context.out.json {
        ran.remarks.iter().for_each(|remark| eprintln!("watchfire: {}", text::line(remark)));
    }
}

async fn exec(context: &Context, args: &ExecArgs) -> Result<Exit> {
    let found = args.whose.find(context).await?;
    let (orchestrator, confinement) = args.whose.confine(&found).await?;
    let is_held = confinement.choice().value != SandboxChoice::None;
    if !is_held {
        let by = confinement.choice().from;
        // With the source of the choice, which may be a settings file.
        eprintln!("watchfire: no sandbox, asked for by {by}: this command can do whatever you can");
    } else if let Ok(sandbox) = orchestrator.sandboxes().choose(&confinement.choice().value) {
        let probe = sandbox.probe();
        // A weaker sandbox than the usual one: the person accepted it in the settings.
        if !probe.step.is_empty() {
            eprintln!("watchfire: the sandbox is {}", probe.title());
        }
    }
    let (policy, cwd) = (confinement.policy().clone(), confinement.command().cwd().map(Path::to_path_buf));
    let mut command = args.command.iter();
    let program = PathBuf::from(command.next().cloned().unwrap_or_default());
    let command = CommandSpec::new(program).with_args(command.cloned());
    let Some(ran) = held(orchestrator, confinement, &command).await? else { return Ok(Exit::Interrupted) };
    let Attached { exit, report, denials, remarks, .. } = &ran;
    tell(context, &ran);
    if args.report && context.out.json {
        let value = serde_json::json!({ "schema": 1, "report": report, "denials": denials, "remarks": remarks, "exit": exit.code() });
        // On stderr: stdout belongs to the command.
        eprintln!("{value}");
    } else if args.report {
        eprint!("{report}{}", refused(denials));
    } else if is_held && !context.out.json && code(&ran) != 0 {
        let closed = unreadable(&policy, &cwd.unwrap_or(found.root), &args.command);
        closed.iter().for_each(|line| eprintln!("watchfire: {line}"));
        let task = args.whose.task.map(|task| format!("--task {task} ")).unwrap_or_default();
        eprintln!(
            "watchfire: it ended with {}; what the sandbox refused it, if anything: watchfire sandbox learn {task}-- …",
            code(&ran)
        );
    }
    Ok(Exit::Of(code(&ran)))
}

/// Runs a command with our terminal. Returns `None` if we were asked to stop.
pub(super) async fn held(
    orchestrator: Orchestrator,
    confinement: Confinement,
    command: &CommandSpec,
) -> Result<Option<Attached>> {
    let ran = tokio::select! {
        ran = confinement.run(command) => Some(ran),
        // Dropping the run ends the command and everything that it started.
        stopped = stopped() => stopped.map(|()| None)?,
    };
    orchestrator.shutdown().await;
    Ok(ran.transpose()?)
}

/// Waits until we are asked to stop. Ctrl+C on a terminal is for the command, which is in the foreground.
async fn stopped() -> Result<()> {
    let listen = |kind| signal(kind).map_err(|error| Error::io("listening for signals", error));
    let (mut terminate, mut hang_up) = (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    // Caught even on a terminal, where it is then ignored: its default action would end us.
    let mut interrupt = listen(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => return Ok(()),
            _ = interrupt.recv() => if !std::io::stdin().is_terminal() { return Ok(()) },
        }
    }
}
