//! The one place that runs the `git` program, for what libgit2 cannot do: signing commits, and converting files as the
//! person's configuration says.
//!
//! Hardened: the repository is named, not discovered; no hook, monitor, pager or external differ runs; nothing is
//! asked on a terminal; it ends within its time.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use watchfire_core::{Error, ErrorKind, Result};

/// Runs git on the repository `git_dir` with these arguments and variables, and gives it `input`. What it prints.
pub(crate) fn run(
    git_dir: &Path,
    args: &[impl AsRef<OsStr>],
    env: &[(String, OsString)],
    input: &[u8],
    limit: Duration,
) -> Result<String> {
    let failed = |kind, message: String| {
        let args: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        Error::new(kind, message).with("command", format_args!("git {}", args.join(" ")))
    };
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.pager=cat",
        "core.editor=false",
        "diff.external=",
        "protocol.ext.allow=never",
        "gc.auto=0",
        "maintenance.auto=false",
    ] {
        command.args(["-c", setting]);
    }
    command
        .arg("--git-dir")
        .arg(git_dir)
        .args(args)
        .current_dir(git_dir)
        .env("GIT_TERMINAL_PROMPT", "0")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => failed(ErrorKind::ProgramMissing, "git is not installed".to_owned()),
        _ => Error::io("starting git", e),
    })?;
    // What is printed is small, and what is given is read first: neither waits for the other.
    if let Some(mut stdin) = child.stdin.take() {
        _ = stdin.write_all(input);
    }
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| Error::io("waiting for git", e))? {
            break status;
        }
        if Instant::now() >= deadline {
            _ = child.kill();
            _ = child.wait();
            return Err(failed(ErrorKind::Timeout, "git did not end in time".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |pipe: Option<&mut dyn Read>| {
        let mut text = Vec::new();
        if let Some(pipe) = pipe {
            _ = pipe.take(64 * 1024).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    if !status.success() {
        let said = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        return Err(failed(ErrorKind::Io, format!("git failed: {}", said.trim())));
    }
    Ok(read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read)))
}
