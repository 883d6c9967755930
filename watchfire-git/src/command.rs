//! The one place that runs the `git` program, for what libgit2 cannot do: signing commits, and converting
//! files as the person's configuration says.
//!
//! Each run is hardened: the repository is named, not discovered; no hook, monitor, pager or external differ
//! runs; git asks nothing on a terminal, and it is killed when its time is over.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use watchfire_core::{Error, ErrorKind, Result};

/// Time to wait for the last output of git after git has ended.
const LINGERING: Duration = Duration::from_secs(2);

/// Runs git on the repository `git_dir` with these arguments, variables and input. Returns what git printed,
/// at most its first 64 KiB.
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
    // An inherited `GIT_DIR` or `GIT_INDEX_FILE` would lead git to another repository. The caller's own
    // variables are set further down.
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
    // In a process group of its own, so that the filters that git starts are killed with it.
    let mut child = command.process_group(0).spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => failed(ErrorKind::ProgramMissing, "git is not installed".to_owned()),
        _ => Error::io("starting git", e),
    })?;
    let deadline = Instant::now() + limit;
    // Each pipe has a thread of its own. Git may stop reading until its messages are read. A filter may
    // outlive git and hold a pipe open, and only a thread may wait for that.
    let (given, input) = (child.stdin.take(), input.to_vec());
    std::thread::spawn(move || given.map(|mut given| given.write_all(&input)));
    let printed = child.stdout.take().map(kept_start);
    let complaints = child.stderr.take().map(kept_start);
    // The standard library has no wait with a time limit.
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| Error::io("waiting for git", e))? {
            break status;
        }
        if Instant::now() >= deadline {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            _ = group.map(|group| kill_process_group(group, Signal::KILL));
            _ = child.wait();
            return Err(failed(ErrorKind::Timeout, "git did not end in time".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |kept: Option<Receiver<Vec<u8>>>| {
        // A filter that outlived git may hold the pipe open for ever; what it prints does not count.
        let bytes = kept.and_then(|kept| kept.recv_timeout(LINGERING).ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    if !status.success() {
        return Err(failed(ErrorKind::Io, format!("git failed: {}", text(complaints).trim())));
    }
    Ok(text(printed))
}

/// Reads a pipe to its end on a thread of its own, and sends the first 64 KiB.
fn kept_start(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        _ = pipe.by_ref().take(64 * 1024).read_to_end(&mut kept);
        // The rest is read and dropped. Git would wait for a reader otherwise.
        _ = std::io::copy(&mut pipe, &mut std::io::sink());
        // The receiver is gone if git ran out of time.
        _ = sender.send(kept);
    });
    receiver
}
