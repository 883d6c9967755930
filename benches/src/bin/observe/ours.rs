//! Our side: an agent in a session, and streams and watches of its log.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_core::Stream as _;
use tokio::task::JoinSet;
use watchfire_benches::api::{World, run};
use watchfire_benches::proc::{children, cpu, rss};
use watchfire_core::observe::{Body, FollowItem, FollowOptions, Include, Log, RecordKind, WatchRequest};
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::session::Session;
use watchfire_core::{Error, ErrorKind, Result};

use crate::stamps::{Figures, PRINT, Stamps};

/// An agent that runs this script.
struct Stage {
    world: World,
    orchestrator: Orchestrator,
    _project: ProjectHandle,
    session: Session,
}

impl Stage {
    async fn new(script: &str) -> Result<Self> {
        let world = World::new(1, 1, script).await?;
        let orchestrator = world.orchestrator().await?;
        let project = orchestrator.open(&world.root).await?;
        run(&project, None, SandboxChoice::None).await?;
        let deadline = Instant::now() + Duration::from_secs(30);
        let session = loop {
            match project.sessions().pop() {
                Some(session) => break session,
                None if Instant::now() > deadline => {
                    return Err(Error::new(ErrorKind::Timeout, "the agent does not start"));
                }
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        Ok(Self { world, orchestrator, _project: project, session })
    }
}

/// An agent prints `lines` with a pause of so many microseconds, and so many readers follow.
pub(crate) async fn printed(lines: usize, pause: u64, readers: usize) -> Result<Figures> {
    let program = std::env::current_exe().map_err(|e| Error::io("finding this program", e))?;
    let script = format!(
        "until [ -e go ]; do sleep 0.05; done; '{}' {PRINT} {lines} {pause}; touch over; exec sleep 1000",
        program.display()
    );
    let stage = Stage::new(&script).await?;
    let folder = stage.world.root.join(".watchfire/worktrees/0001");
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        let log = stage.session.log().clone();
        reading.spawn(read(log, lines));
    }
    // The worktree is made and everything is quiet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let used = || {
        let own = children("observe").into_iter().chain([std::process::id()]);
        own.filter_map(cpu).sum::<f64>()
    };
    let before = used();
    std::fs::write(folder.join("go"), "").map_err(|e| Error::io("starting the agent", e))?;
    let mut figures = Figures::default();
    while let Some(read) = reading.join_next().await {
        let delays = read.map_err(|e| Error::new(ErrorKind::Internal, "reading").with_source(e))??;
        figures.missing += lines - delays.len();
        figures.delays.extend(delays);
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    while !folder.join("over").exists() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The last lines are on their way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    figures.cpu = used() - before;
    stage.session.stop();
    stage.orchestrator.shutdown().await;
    Ok(figures)
}

/// Reads until all `lines` are there, or nothing has come for two seconds.
async fn read(log: Log, lines: usize) -> Result<Vec<f64>> {
    let mut follow = log.follow(FollowOptions::default().with_kinds([RecordKind::Output]))?;
    let mut stamps = Stamps::default();
    while stamps.delays.len() < lines {
        let next = poll_fn(|context| Pin::new(&mut follow).poll_next(context));
        match tokio::time::timeout(Duration::from_secs(2), next).await {
            Ok(Some(FollowItem::Record(record))) => {
                if let Body::Output { text, .. } = &record.body {
                    stamps.read(text);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            // Before the first line, the agent has not begun.
            Err(_) if stamps.delays.is_empty() => {}
            Err(_) => break,
        }
    }
    Ok(stamps.delays)
}

/// A text is written to an agent that repeats it, and a watch waits for it.
pub(crate) async fn echoed(times: usize) -> Result<Vec<f64>> {
    let stage = Stage::new("stty -echo -icanon; exec cat").await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut delays = Vec::new();
    for n in 0..times {
        let token = format!("token-{n}-end");
        let request = WatchRequest::default().with_until(format!("output:{token}"));
        let (log, request) = (stage.session.log().clone(), request.with_include([Include::Status]));
        let waiting = tokio::spawn(async move { log.watch(&request).await.map(|_| Instant::now()) });
        tokio::time::sleep(Duration::from_millis(5)).await;
        let start = Instant::now();
        stage.session.write(format!("{token}\n")).await?;
        let seen =
            waiting.await.map_err(|e| Error::new(ErrorKind::Internal, "watching").with_source(e))??;
        delays.push(seen.duration_since(start).as_secs_f64() * 1e3);
    }
    stage.session.stop();
    stage.orchestrator.shutdown().await;
    Ok(delays)
}

/// Many agents print `lines` each as fast as they can, and so many readers of each look once and then never read again. Returns the
/// seconds until all have printed, and the memory that this process holds then, in KiB.
pub(crate) async fn crowd(agents: usize, lines: usize, readers: usize) -> Result<(f64, f64)> {
    let program = std::env::current_exe().map_err(|e| Error::io("finding this program", e))?;
    let script = format!(
        "until [ -e ../go ]; do sleep 0.05; done; '{}' {PRINT} {lines} 0; touch over; exec sleep 1000",
        program.display()
    );
    let world = World::new(agents, agents, &script).await?;
    let orchestrator = world.orchestrator().await?;
    let project = orchestrator.open(&world.root).await?;
    run(&project, None, SandboxChoice::None).await?;
    while project.sessions().len() < agents {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut streams = Vec::new();
    for session in project.sessions() {
        for _ in 0..readers {
            let mut follow = session.log().follow(FollowOptions::default())?;
            let first = poll_fn(|context| Pin::new(&mut follow).poll_next(context));
            let _ = tokio::time::timeout(Duration::from_millis(1), first).await;
            streams.push(follow);
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let folders = world.root.join(".watchfire/worktrees");
    let start = Instant::now();
    std::fs::write(folders.join("go"), "").map_err(|e| Error::io("starting the agents", e))?;
    let over = || {
        let folders = std::fs::read_dir(&folders).into_iter().flatten().flatten();
        folders.filter(|folder| folder.path().join("over").exists()).count()
    };
    while over() < agents {
        if start.elapsed() > Duration::from_secs(300) {
            return Err(Error::new(ErrorKind::Timeout, "the agents do not end"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let figures = (start.elapsed().as_secs_f64(), rss(std::process::id()).unwrap_or_default());
    drop(streams);
    project.sessions().iter().for_each(Session::stop);
    orchestrator.shutdown().await;
    Ok(figures)
}
