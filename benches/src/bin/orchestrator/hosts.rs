//! Sessions that outlive their program, beside tmux and dtach.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use watchfire_benches::proc::{children, pss};
use watchfire_benches::tmux::Tmux;
use watchfire_benches::{Report, millis};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::{Error, ErrorKind, Result};

use crate::start::{begin, first_byte_of, floor};
use crate::tmux::first_byte;
use crate::world::{IDLE, World};

const ROUNDS: usize = 20;
/// The longest that a program may take to run under dtach.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Samples {
    start: Vec<f64>,
    attach: Vec<f64>,
    memory: Vec<f64>,
}

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let mut world = World::new(100, "none").await?;
    world.restart_hosted().await?;
    let tmux = Tmux::start();
    let mut floors = Vec::new();
    let (mut ours, mut tmuxes, mut dtaches) = (Samples::default(), Samples::default(), Samples::default());
    let socket = world.temp.path().join("dtach");
    for _ in 0..ROUNDS {
        floors.push(floor()?);
        hosted(&mut world, &mut ours).await?;
        if let Some(tmux) = &tmux {
            tmuxes.start.extend(first_byte(tmux));
            let made = tmux.run(&["new-session", "-d", "-s", "again", IDLE]);
            while made.is_some()
                && tmux.run(&["capture-pane", "-p", "-t", "again"]).is_some_and(|it| it.trim().is_empty())
            {
            }
            tmuxes.attach.push(first_byte_of(tmux.command(&["attach", "-t", "again"]))?);
            tmuxes.memory.extend(tmux.pid().and_then(pss));
            let _ = tmux.run(&["kill-session", "-t", "again"]);
        }
        if let Some((start, memory)) = dtach(&socket)? {
            dtaches.start.push(start);
            dtaches.memory.push(memory);
        }
    }
    let section = "a session that outlives its program";
    report.add(section, "floor: pty, process, first byte", "ms", floors.clone());
    report.compare(section, "start to first byte, hosted", "ms", ours.start, "floor", &floors);
    if tmux.is_some() {
        report.compare(section, "tmux new-session, capture-pane", "ms", tmuxes.start, "floor", &floors);
    }
    if !dtaches.start.is_empty() {
        report.compare(section, "dtach -n until it runs", "ms", dtaches.start, "floor", &floors);
    }
    match tmux {
        Some(_) => {
            let section = "its screen, by a program that comes later";
            report.add(section, "tmux attach to first byte", "ms", tmuxes.attach.clone());
            let what = "new orchestrator, project opened, screen";
            report.compare(section, what, "ms", ours.attach, "tmux", &tmuxes.attach);
            report.skip("dtach -a", "it keeps no screen");
            let section = "memory (PSS) of the host of one session";
            report.add(section, "tmux server", "KB", tmuxes.memory.clone());
            report.compare(section, "guardian", "KB", ours.memory, "tmux", &tmuxes.memory);
            if !dtaches.memory.is_empty() {
                report.compare(section, "dtach", "KB", dtaches.memory, "tmux", &tmuxes.memory);
            }
        }
        None => {
            report.add(section, "new orchestrator, project opened, screen", "ms", ours.attach);
            report.add(section, "memory (PSS) of its guardian", "KB", ours.memory);
            report.skip("tmux", "not installed");
        }
    }
    for program in ["dtach", "abduco"] {
        if Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_err()
        {
            report.skip(program, "not installed");
        }
    }
    world.orchestrator.shutdown().await;
    Ok(())
}

/// Starts a session, leaves it to its host, and takes it over by a new orchestrator.
async fn hosted(world: &mut World, samples: &mut Samples) -> Result<()> {
    let project = match world.orchestrator.projects().pop() {
        Some(project) => project,
        None => world.orchestrator.open(&world.root).await?,
    };
    let (took, session) = begin(&project, SandboxChoice::None).await?;
    samples.start.push(took);
    samples.memory.extend(children("wf-guardian").into_iter().find_map(pss));
    let id = session.info().id.clone();
    drop((session, project));
    world.orchestrator.detach().await;
    let start = Instant::now();
    world.restart_hosted().await?;
    let project = world.orchestrator.open(&world.root).await?;
    let session = project
        .session(&id)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "the session was not taken over"))?;
    while session.snapshot().row_text(0).is_empty() && !session.has_ended() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    samples.attach.push(millis(start));
    session.stop();
    session.ended().await;
    Ok(())
}

/// Returns the milliseconds until a program runs under dtach, and the memory of its host. Returns `None` without dtach.
fn dtach(socket: &Path) -> Result<Option<(f64, f64)>> {
    let ran = socket.with_extension("ran");
    let _ = std::fs::remove_file(&ran);
    let script = format!("echo $$ $PPID > '{0}.new'; mv '{0}.new' '{0}'; {IDLE}", ran.display());
    let start = Instant::now();
    let status = Command::new("dtach").arg("-n").arg(socket).args(["/bin/sh", "-c", &script]).status();
    if !status.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    while !ran.exists() {
        if start.elapsed() > PATIENCE {
            return Err(Error::new(ErrorKind::Timeout, "nothing runs under dtach"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let took = millis(start);
    let text = std::fs::read_to_string(&ran).map_err(|e| Error::io("reading a process id", e))?;
    let mut pids = text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
    let (Some(program), Some(host)) = (pids.next(), pids.next()) else { return Ok(None) };
    let memory = pss(host).unwrap_or(f64::NAN);
    if let Some(program) = Pid::from_raw(program.cast_signed()) {
        kill_process(program, Signal::KILL).map_err(|e| Error::io("ending a program", e.into()))?;
    }
    while socket.exists() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Some((took, memory)))
}
