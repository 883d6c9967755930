//! From the request to the first byte.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use watchfire_core::orchestrator::{ChatRequest, ProjectHandle, RunRequest};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::session::Session;
use watchfire_core::store::NewTask;
use watchfire_core::{Error, ErrorKind, Result};

use crate::tmux::first_byte;
use crate::world::{IDLE, MAIN, World};
use watchfire_benches::tmux::Tmux;
use watchfire_benches::{Report, millis};

const STARTS: usize = 20;
const TASKS: usize = 12;
/// Synced writes between the request for a task and its agent: its claim, and the records of its life.
const SYNCED: usize = 6;

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
    tasks(report, "none").await?;
    tasks(report, "auto").await
}

/// Starts tasks in a repository of 10,000 files: with a folder that is kept ready, and with one that is laid out for it.
async fn tasks(report: &mut Report, sandbox: &str) -> Result<()> {
    let (section, is_confined) = match sandbox {
        "none" => ("a task's start to its agent's first byte, 10,000 files", false),
        _ => ("a task's start to its agent's first byte, 10,000 files, in the sandbox", true),
    };
    for ready in [1, 0] {
        let world = World::with(10_000, sandbox, MAIN, ready).await?;
        if is_confined && world.orchestrator.sandboxes().choose(&SandboxChoice::Auto).is_err() {
            report.skip(section, "no sandbox works on this machine");
            world.orchestrator.shutdown().await;
            return Ok(());
        }
        let project = world.orchestrator.open(&world.root).await?;
        if ready > 0 {
            // Folders are made ready while an agent works, so the first task finds none.
            task(&project).await?;
        }
        let (mut floors, mut took, mut git) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..TASKS {
            while ready_folders(&world.root) < ready {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            floors.push(floor()? + namespaces(is_confined)? + synced(world.temp.path())?);
            git.push(worktree(&world.root, &world.temp.path().join(format!("w{n}")))?);
            took.push(task(&project).await?);
        }
        let name = if ready > 0 { "with a folder kept ready" } else { "with a folder laid out for it" };
        if ready > 0 {
            report.compare(section, name, "ms", took, "floor", &floors);
            report.add(section, "floor: pty, process, synced writes, bwrap", "ms", floors);
        } else {
            report.compare(section, name, "ms", took, "git worktree add", &git);
            report.add(section, "git worktree add", "ms", git);
        }
        world.orchestrator.shutdown().await;
    }
    Ok(())
}

/// Returns the number of folders that are ready. Those under way have names of their own.
fn ready_folders(root: &Path) -> usize {
    let there = root.join(".git/watchfire/ready").read_dir().into_iter().flatten().flatten();
    there.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")).count()
}

/// Starts a task, and ends it after its first byte. Returns the milliseconds until then.
async fn task(project: &ProjectHandle) -> Result<f64> {
    let task = NewTask::new("idle").with_prompt("idle").with_ready(true);
    let number = project.store().create(task, None).await?.value.task_number;
    let start = Instant::now();
    let run = project.run(RunRequest::task(number)).await?;
    let session = loop {
        match project.sessions().into_iter().find(|session| session.info().task == Some(number)) {
            Some(session) => break session,
            None => tokio::time::sleep(Duration::from_micros(200)).await,
        }
    };
    while session.snapshot().row_text(0).is_empty() && !session.has_ended() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let took = millis(start);
    run.stop();
    run.wait().await?;
    Ok(took)
}

/// Returns the milliseconds that `bwrap` takes for the namespaces that our sandbox has, around a program that does nothing.
fn namespaces(is_wanted: bool) -> Result<f64> {
    if !is_wanted {
        return Ok(0.0);
    }
    let words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--bind", "/", "/", "--proc", "/proc"];
    let start = Instant::now();
    let status =
        Command::new("bwrap").args(words).args(["--dev", "/dev", "--tmpfs", "/tmp", "/bin/true"]).status();
    match status {
        Ok(status) if status.success() => Ok(millis(start)),
        Ok(_) => Err(Error::new(ErrorKind::NotSupported, "bwrap makes no namespaces here")),
        Err(error) => Err(Error::io("starting bwrap, which is the floor of this row", error)),
    }
}

/// Returns the milliseconds of the synced writes of a start, with nothing around them.
fn synced(folder: &Path) -> Result<f64> {
    let mut file = std::fs::File::create(folder.join("synced")).map_err(|e| Error::io("making a file", e))?;
    let start = Instant::now();
    for _ in 0..SYNCED {
        file.write_all(&[0; 200]).and_then(|()| file.sync_data()).map_err(|e| Error::io("syncing", e))?;
    }
    Ok(millis(start))
}

/// Returns the milliseconds of `git worktree add`, and removes it again.
fn worktree(root: &Path, at: &Path) -> Result<f64> {
    let git = |words: &[&str]| {
        let status =
            Command::new("git").arg("-C").arg(root).args(words).arg(at).stderr(Stdio::null()).status();
        match status.map_err(|e| Error::io("running git", e))? {
            status if status.success() => Ok(()),
            _ => Err(Error::new(ErrorKind::Internal, "git worktree failed")),
        }
    };
    let start = Instant::now();
    git(&["worktree", "add", "-q", "--detach"])?;
    let took = millis(start);
    git(&["worktree", "remove", "--force"])?;
    Ok(took)
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
