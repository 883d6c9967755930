//! Measures how memory grows with the number of finished tasks.

use std::time::Instant;

use watchfire_benches::proc::{descriptors, rss, threads};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::{Error, ErrorKind, Result};

use crate::table::Table;
use crate::{IN_USE, Sizes};
use watchfire_benches::agent::FINISHES;
use watchfire_benches::api::{World, run};

/// Number of tasks requested at a time.
const BATCH: usize = 20;

/// Memory and descriptors of this process at one moment.
struct Now {
    /// KiB.
    in_use: f64,
    /// KiB.
    resident: f64,
    descriptors: f64,
}

impl Now {
    fn read() -> Self {
        let me = std::process::id();
        Self {
            in_use: IN_USE.allocated() as f64 / 1024.0,
            resident: rss(me).unwrap_or_default(),
            descriptors: descriptors(me),
        }
    }
}

pub(crate) async fn measure(sizes: &Sizes, table: &mut Table) -> Result<()> {
    let fifth = (sizes.merged / 5).max(1);
    table.title(format!("{} tasks worked on and merged", sizes.merged));
    let world = World::new(sizes.merged, 4, FINISHES).await?;
    let orchestrator = world.orchestrator().await?;
    let project = orchestrator.open(&world.root).await?;
    let me = std::process::id();
    let start = Instant::now();
    let mut early = None;
    for first in (1..=sizes.merged).step_by(BATCH) {
        let mut runs = Vec::new();
        for task in first..(first + BATCH).min(sizes.merged + 1) {
            runs.push(run(&project, Some(task), SandboxChoice::None).await?);
        }
        for run in runs {
            let summary = run.wait().await?;
            if !summary.is_good() {
                return Err(Error::new(ErrorKind::Internal, "a task did not merge")
                    .with("summary", format_args!("{summary:?}")));
            }
        }
        if early.is_none() && first + BATCH > fifth {
            early = Some(Now::read());
        }
    }
    let (late, tasks) = (Now::read(), (sizes.merged - fifth).max(1) as f64);
    let early = early.unwrap_or_else(Now::read);
    table.figure(format!("in use after {fifth}"), early.in_use / 1024.0, "MiB");
    table.figure(format!("in use after {}", sizes.merged), late.in_use / 1024.0, "MiB");
    table.bounded("growth per task", (late.in_use - early.in_use) / tasks, "KiB", 2.0);
    table.figure(format!("resident after {fifth}"), early.resident / 1024.0, "MiB");
    table.figure(format!("resident after {}", sizes.merged), late.resident / 1024.0, "MiB");
    table.bounded("ratio", late.resident / early.resident, "x", 1.05);
    table.figure("descriptors more than before", late.descriptors - early.descriptors, "");
    table.figure("threads at the end", threads(me), "");
    table.figure("all of it", start.elapsed().as_secs_f64(), "s");
    orchestrator.shutdown().await;
    Ok(())
}
