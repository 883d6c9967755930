//! Runs a command as an agent in the current folder would run: `confine [--sandbox NAME] [--report] command…`.
//!
//! The current folder may be written; everything else is the base policy. With `--report` it says on stderr what was
//! in force.

use std::path::PathBuf;
use std::process::ExitCode;

use watchfire_core::process::helper::{Helper, run_if_asked};
use watchfire_core::process::{CommandSpec, SpawnOptions, spawn};
use watchfire_core::sandbox::{PolicyInputs, SandboxChoice};
use watchfire_core::{Error, ErrorKind, Result};

fn main() -> ExitCode {
    run_if_asked();
    match confine() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("confine: {}", error.report());
            ExitCode::from(2)
        }
    }
}

fn confine() -> Result<u8> {
    let mut args = std::env::args_os().skip(1).peekable();
    let set = watchfire_sandbox::sandboxes(Helper::current()?);
    let mut choice = SandboxChoice::Auto;
    let mut report = false;
    while let Some(flag) = args.next_if(|arg| arg.as_encoded_bytes().starts_with(b"--")) {
        match flag.to_str() {
            Some("--report") => report = true,
            Some("--sandbox") => {
                let name = args.next().unwrap_or_default();
                choice = set.parse(&name.to_string_lossy())?.unwrap_or_default();
            }
            _ => return Err(Error::new(ErrorKind::InvalidInput, "unknown flag").with("flag", flag.display())),
        }
    }
    let Some(program) = args.next() else {
        return Err(Error::new(ErrorKind::InvalidInput, "no command"));
    };
    let cwd = std::env::current_dir().map_err(|error| Error::io("finding the current folder", error))?;

    let mut inputs = PolicyInputs::new();
    inputs.home = std::env::home_dir();
    inputs.watchfire_home = inputs.home.as_ref().map(|home| home.join(".watchfire"));
    inputs.project_root = Some(cwd.clone());
    let policy = set.base_policy(&inputs)?.write(&cwd, "the current folder").build()?;
    let environment = policy.environment.filter(&std::env::vars_os().collect());
    let command =
        CommandSpec::new(PathBuf::from(program)).with_args(args).with_envs(environment).with_cwd(cwd);

    let confined = set.choose(&choice)?.prepare(&policy, command)?;
    let options = SpawnOptions::default()
        .with_stdin(std::process::Stdio::inherit())
        .with_stdout(std::process::Stdio::inherit())
        .with_stderr(std::process::Stdio::inherit())
        .with_descriptors(confined.descriptors);
    let mut child = spawn(&confined.command, options)?;
    let status = child.wait().map_err(|error| Error::io("waiting for the command", error))?;
    if report {
        eprint!("{}", confined.guard.report());
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
