//! From the request to the first byte.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use watchfire_core::orchestrator::{ChatRequest, ProjectHandle};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::session::Session;
use watchfire_core::{Error, ErrorKind, Result};

use crate::tmux::first_byte;
use crate::world::{IDLE, World};
use watchfire_benches::tmux::Tmux;
use watchfire_benches::{Report, millis};

const STARTS: usize = 20;

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let world = World::new(100, "none").await?;
    let project = world.orchestrator.open(&world.root).await?;
    let tmux = Tmux::start();
    let (mut floors, mut plain, mut confined, mut tmuxes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let sandboxed = world.orchestrator.sandboxes().choose(&SandboxChoice::Auto).is_ok();
    for _ in 0..STARTS {
        floors.push(floor()?);
        plain.push(session(&project, SandboxChoice::None).await?);
        if sandboxed {
            confined.push(session(&project, SandboxChoice::Auto).await?);
        }
        if let Some(tmux) = &tmux {
            tmuxes.extend(first_byte(tmux));
        }
    }
    let section = "start request to first byte";
    report.add(section, "floor: pty, process, first byte", "ms", floors.clone());
    report.compare(section, "session without sandbox", "ms", plain, "floor", &floors);
    if sandboxed {
        report.compare(section, "session in the sandbox", "ms", confined, "floor", &floors);
    } else {
        report.skip("a session in the sandbox", "no sandbox works on this machine");
    }
    if tmux.is_some() {
        report.compare(section, "tmux new-session, capture-pane", "ms", tmuxes, "floor", &floors);
    } else {
        report.skip("tmux", "not installed");
    }
    world.orchestrator.shutdown().await;
    Ok(())
}

async fn session(project: &ProjectHandle, sandbox: SandboxChoice) -> Result<f64> {
    let (took, session) = begin(project, sandbox).await?;
    session.stop();
    session.ended().await;
    Ok(took)
}

/// Starts a chat. Returns the milliseconds until its first byte, and its session.
pub(crate) async fn begin(project: &ProjectHandle, sandbox: SandboxChoice) -> Result<(f64, Session)> {
    let (start, session) = loop {
        let start = Instant::now();
        match project.chat(ChatRequest::new().with_sandbox(sandbox.clone())).await {
            // The chat before has ended, and is not closed yet.
            Err(error) if error.kind() == ErrorKind::Busy => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            session => break (start, session?),
        }
    };
    while session.snapshot().row_text(0).is_empty() && !session.has_ended() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    Ok((millis(start), session))
}

/// A bare pseudo-terminal with the same program, to its first byte.
pub(crate) fn floor() -> Result<f64> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", IDLE]);
    first_byte_of(command)
}

/// Starts a program on a terminal of its own. Returns the milliseconds until its first byte.
pub(crate) fn first_byte_of(mut command: Command) -> Result<f64> {
    let failed = |e: rustix::io::Errno| Error::io("opening a terminal", e.into());
    let start = Instant::now();
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(failed)?;
    rustix::pty::grantpt(&master).and_then(|()| rustix::pty::unlockpt(&master)).map_err(failed)?;
    let name = rustix::pty::ptsname(&master, Vec::new()).map_err(failed)?;
    let slave = rustix::fs::open(
        name,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY,
        rustix::fs::Mode::empty(),
    )
    .map_err(failed)?;
    let copy = || slave.as_fd().try_clone_to_owned().map_err(|e| Error::io("copying a descriptor", e));
    let mut child = command
        .stdin(copy()?)
        .stdout(copy()?)
        .stderr(copy()?)
        .spawn()
        .map_err(|e| Error::io("starting a program", e))?;
    let mut byte = [0];
    std::fs::File::from(master).read_exact(&mut byte).map_err(|e| Error::io("reading", e))?;
    let took = millis(start);
    let _ = child.kill();
    let _ = child.wait();
    Ok(took)
}
