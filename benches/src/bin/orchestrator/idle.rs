//! What idle sessions cost.

use std::time::Duration;

use watchfire_core::Result;
use watchfire_core::orchestrator::ChatRequest;
use watchfire_core::sandbox::SandboxChoice;

use crate::tmux::Tmux;
use crate::world::World;
use watchfire_benches::Report;
use watchfire_benches::proc::{children, cpu, pss};

/// How long CPU is watched.
const WINDOW: Duration = Duration::from_secs(10);

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let world = World::new(100, "none").await?;
    let project = world.orchestrator.open(&world.root).await?;
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
            let session = project.chat(ChatRequest::new().with_sandbox(SandboxChoice::None)).await?;
            while session.snapshot().row_text(0).is_empty() && !session.has_ended() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            sessions.push(session);
        }
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
            let server = tmux.fill(before, count).and_then(|()| tmux.pid()).and_then(pss);
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
