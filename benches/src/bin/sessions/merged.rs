//! Whether memory grows with the tasks that were done.

use std::time::Instant;

use watchfire_benches::proc::{descriptors, rss, threads};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::{Error, ErrorKind, Result};

use crate::Sizes;
use crate::agent::FINISHES;
use crate::api::{World, run};
use crate::table::Table;

/// How many are asked for at once.
const BATCH: usize = 20;

pub(crate) async fn measure(sizes: &Sizes, table: &mut Table) -> Result<()> {
    let fifth = (sizes.merged / 5).max(1);
    table.title(format!("{} tasks worked on and merged", sizes.merged));
    let world = World::new(sizes.merged, 4, FINISHES).await?;
    let orchestrator = world.orchestrator().await?;
    let project = orchestrator.open(&world.root).await?;
    let me = std::process::id();
    let start = Instant::now();
    let mut early = (0.0, 0.0);
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
        if early == (0.0, 0.0) && first + BATCH > fifth {
            early = (rss(me).unwrap_or_default(), descriptors(me));
        }
    }
    let late = (rss(me).unwrap_or_default(), descriptors(me));
    table.figure(format!("resident after {fifth}"), early.0 / 1024.0, "MiB");
    table.figure(format!("resident after {}", sizes.merged), late.0 / 1024.0, "MiB");
    table.bounded("ratio", late.0 / early.0, "x", 1.05);
    let grown = (late.0 - early.0) / (sizes.merged - fifth).max(1) as f64;
    table.figure("growth per task", grown, "KiB");
    table.figure("descriptors more than before", late.1 - early.1, "");
    table.figure("threads at the end", threads(me), "");
    table.figure("all of it", start.elapsed().as_secs_f64(), "s");
    orchestrator.shutdown().await;
    Ok(())
}
