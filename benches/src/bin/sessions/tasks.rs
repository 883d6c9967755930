//! What many task files cost.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use watchfire_benches::proc::cpu;
use watchfire_benches::{median, millis};
use watchfire_core::model::Task;
use watchfire_core::{Error, ErrorKind, Result};

use crate::Sizes;
use crate::reads::Reads;
use crate::table::Table;
use watchfire_benches::api::World;

/// Number of times that each way of reading is measured.
const ROUNDS: usize = 5;
/// Maximum time that the orchestrator gets for rewritten files.
const PATIENCE: Duration = Duration::from_secs(60);

/// A prompt as long as short ones are.
const PROMPT: &str =
    "Make the parser accept trailing commas in lists.\n\nKeep the error messages as they are.";

pub(crate) async fn opened(sizes: &Sizes, table: &mut Table) -> Result<()> {
    table.title(format!("a project of {} tasks", sizes.tasks));
    let world = World::new(sizes.tasks, 1, PROMPT).await?;
    let (mut floors, mut opens, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut parsed = Vec::with_capacity(sizes.tasks);
        for path in world.files() {
            let text = fs::read_to_string(path).map_err(|e| Error::io("reading a task", e))?;
            let task: Task = serde_yaml::from_str(&text)
                .map_err(|e| Error::new(ErrorKind::Malformed, "a task").with_source(e))?;
            parsed.push(task);
        }
        let floor = millis(start);
        let orchestrator = world.orchestrator().await?;
        let start = Instant::now();
        let project = orchestrator.open(&world.root).await?;
        let open = millis(start);
        drop(project);
        orchestrator.shutdown().await;
        floors.push(floor);
        opens.push(open);
        ratios.push(open / floor);
    }
    table.figure("reading and parsing its files", median(&floors), "ms");
    table.figure("opening it", median(&opens), "ms");
    table.bounded("ratio, pair by pair", median(&ratios), "x", 1.5);
    Ok(())
}

pub(crate) async fn rewritten(sizes: &Sizes, table: &mut Table) -> Result<()> {
    let all = sizes.rewritten * 5 / 3;
    table.title(format!("{} of {all} task files rewritten", sizes.rewritten));
    let world = World::new(all, 1, PROMPT).await?;
    let orchestrator = world.orchestrator().await?;
    let project = orchestrator.open(&world.root).await?;
    // New files are read once more when their stamps have settled.
    tokio::time::sleep(Duration::from_secs(6)).await;

    let files = world.files();
    let me = std::process::id();
    let folder = files.first().and_then(|path| path.parent()).unwrap_or(&world.root);
    let reads = Reads::of(folder)?;
    let before = cpu(me).unwrap_or_default();
    let start = Instant::now();
    let mut editor = Command::new("sed");
    editor.args(["-i", "s/^title: .Task/&s/"]).args(files.iter().take(sizes.rewritten));
    let status = tokio::task::spawn_blocking(move || editor.status()).await;
    if !status.is_ok_and(|status| status.is_ok_and(|status| status.success())) {
        return Err(Error::new(ErrorKind::Internal, "the files could not be rewritten"));
    }
    let edited = millis(start);
    // Until a second passes in which next to nothing happens.
    let mut last = cpu(me).unwrap_or_default();
    let mut quiet = start.elapsed();
    while start.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = cpu(me).unwrap_or_default();
        if now - last < 0.03 {
            break;
        }
        (last, quiet) = (now, start.elapsed());
    }
    // The editor reads each file that it rewrites, too.
    let read = reads.count().saturating_sub(sizes.rewritten);
    let used = cpu(me).unwrap_or_default() - before;

    table.bounded("boards read (files read, by the number of files)", read as f64 / all as f64, "", 1.5);
    table.figure("CPU of the orchestrator", used, "s");
    table.figure("until it was quiet again", quiet.as_secs_f64(), "s");
    table.figure("the rewriting itself", edited, "ms");
    drop(project);
    orchestrator.shutdown().await;
    Ok(())
}
