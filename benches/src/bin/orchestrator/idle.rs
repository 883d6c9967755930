//! What idle sessions cost.

use std::time::Duration;

use watchfire_core::Result;
use watchfire_core::model::TaskNumber;
use watchfire_core::orchestrator::{ProjectHandle, RunRequest};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::session::Session;
use watchfire_core::store::{NewTask, ProjectPatch};

use crate::world::World;
use watchfire_benches::Report;
use watchfire_benches::proc::{children, cpu, pss};
use watchfire_benches::tmux::Tmux;

/// Time over which CPU use is measured.
const WINDOW: Duration = Duration::from_secs(10);

/// Pause after the starts, before anything is measured.
const SETTLED: Duration = Duration::from_secs(5);

/// Waits until the session of a task has printed.
async fn printed(project: &ProjectHandle, task: TaskNumber) -> Session {
    loop {
        let session = project.sessions().into_iter().find(|session| session.info().task == Some(task));
        match session {
            Some(session) if session.has_ended() || !session.snapshot().row_text(0).is_empty() => {
                break session;
            }
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let world = World::new(100, "none").await?;
    let project = world.orchestrator.open(&world.root).await?;
    project.store().update_project(ProjectPatch::new().with_max_parallel(100), None, None).await?;
    let tmux = Tmux::start();
    let me = std::process::id();
    let Some(empty) = pss(me) else {
        report.skip("memory and CPU of idle sessions", "the kernel does not tell PSS");
        return Ok(());
    };
    let tmux_empty = tmux.as_ref().and_then(Tmux::pid).and_then(pss);
    let mut sessions = Vec::new();
    for count in [1_usize, 10, 100] {
        let before = sessions.len();
        for _ in before..count {
            let task = NewTask::new("idle").with_prompt("idle").with_ready(true);
            let number = project.store().create(task, None).await?.value.task_number;
            project.run(RunRequest::task(number).with_sandbox(SandboxChoice::None)).await?;
            sessions.push(printed(&project, number).await);
        }
        // Folders for further tasks are made ready meanwhile, which is not what idle sessions cost.
        tokio::time::sleep(SETTLED).await;
        let each = |kib: f64| kib / count as f64;
        let busy = cpu(me).unwrap_or_default();
        tokio::time::sleep(WINDOW).await;
        let busy = (cpu(me).unwrap_or_default() - busy) / WINDOW.as_secs_f64();
        let ours = pss(me).unwrap_or_default();
        let guardians: Vec<f64> = children("wf-guardian").into_iter().filter_map(pss).collect();
        let guardians = guardians.iter().sum::<f64>();
        let section = match count {
            1 => "1 idle session",
            10 => "10 idle sessions, each",
            _ => "100 idle sessions, each",
        };
        report.add(section, "orchestrator's memory (PSS)", "KB", vec![each(ours - empty)]);
        report.add(section, "its guardian's memory (PSS)", "KB", vec![each(guardians)]);
        // The two share the pages of one program, so that each alone says little.
        report.add(section, "both together", "KB", vec![each(ours - empty + guardians)]);
        report.add(section, "CPU, share of one core", "%", vec![busy * 100.0 / count as f64]);
        if let (Some(tmux), Some(tmux_empty)) = (&tmux, tmux_empty) {
            let server = crate::tmux::fill(tmux, before, count).and_then(|()| tmux.pid()).and_then(pss);
            if let Some(server) = server {
                report.add(section, "tmux server's memory (PSS)", "KB", vec![each(server - tmux_empty)]);
            }
        }
    }
    if tmux.is_none() {
        report.skip("tmux", "not installed");
    }
    for session in &sessions {
        session.stop();
    }
    for session in &sessions {
        session.ended().await;
    }
    world.orchestrator.shutdown().await;
    Ok(())
}
