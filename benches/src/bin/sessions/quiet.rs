//! What sessions cost that do nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchfire_benches::proc::{anonymous, cpu, descendants, descriptors, pss, threads, wakeups, woken};
use watchfire_core::Result;
use watchfire_core::sandbox::SandboxChoice;

use crate::Sizes;
use crate::table::Table;
use watchfire_benches::agent::prints;
use watchfire_benches::api::{World, run, wait_for_screens};

/// Bounds of what one session costs.
struct Bounds {
    orchestrator: f64,
    guardian: f64,
    descriptors: f64,
    /// For all sessions together.
    threads: f64,
    cpu: f64,
}

const BOUNDS: Bounds =
    Bounds { orchestrator: 256.0, guardian: 512.0, descriptors: 5.0, threads: 8.0, cpu: 1.0 };

pub(crate) async fn quiet(sizes: &Sizes, table: &mut Table) -> Result<()> {
    let title = format!("{} quiet sessions, unconfined", sizes.sessions);
    measure(sizes.sessions, 40, SandboxChoice::None, sizes, table, title, Some(BOUNDS)).await
}

pub(crate) async fn sandboxed(sizes: &Sizes, table: &mut Table) -> Result<()> {
    let title = format!("{} quiet sessions, sandboxed", sizes.sessions);
    measure(sizes.sessions, 40, SandboxChoice::Auto, sizes, table, title, None).await
}

pub(crate) async fn scrollback(sizes: &Sizes, table: &mut Table) -> Result<()> {
    let count = (sizes.sessions / 20).max(1);
    let title = format!("{count} quiet sessions with full scrollback, unconfined");
    measure(count, 30_000, SandboxChoice::None, sizes, table, title, None).await
}

async fn measure(
    count: usize,
    rows: usize,
    sandbox: SandboxChoice,
    sizes: &Sizes,
    table: &mut Table,
    title: String,
    bounds: Option<Bounds>,
) -> Result<()> {
    table.title(title);
    let world = World::new(count, count, &prints(rows)).await?;
    let orchestrator = world.orchestrator().await?;
    if sandbox != SandboxChoice::None && orchestrator.sandboxes().choose(&sandbox).is_err() {
        table.title("quiet sessions, sandboxed: SKIPPED, no sandbox works on this machine");
        orchestrator.shutdown().await;
        return Ok(());
    }
    let project = orchestrator.open(&world.root).await?;
    let me = std::process::id();
    let (memory, files, pool) = (pss(me).unwrap_or_default(), descriptors(me), threads(me));
    let heap = anonymous(me).unwrap_or_default();

    let start = Instant::now();
    let running = run(&project, None, sandbox).await?;
    wait_for_screens(&project, count).await?;
    let started = start.elapsed().as_secs_f64();
    // The worktrees are made and the threads of it are gone again.
    tokio::time::sleep(Duration::from_secs(15)).await;

    let ours: Vec<(u32, String)> =
        descendants().into_iter().filter(|(_, name)| name != "sleep" && name != "sh").collect();
    let everyone = || std::iter::once(me).chain(ours.iter().map(|(pid, _)| *pid));
    let sum = |figure: &dyn Fn(u32) -> f64| everyone().map(figure).sum::<f64>();
    let busy = |pid| cpu(pid).unwrap_or_default();
    let all_wakeups = || everyone().flat_map(wakeups).collect::<BTreeMap<_, _>>();
    let (cpu_before, mine_before) = (sum(&busy), busy(me));
    let (all_before, own_before) = (all_wakeups(), wakeups(me));
    let window = Duration::from_secs(sizes.seconds as u64);
    tokio::time::sleep(window).await;
    let share = |seconds: f64| seconds / window.as_secs_f64();
    let all_cpu = share(sum(&busy) - cpu_before) * 100.0;
    let my_cpu = share(busy(me) - mine_before) * 100.0;
    let (all_woken, own_woken) =
        (share(woken(&all_before, &all_wakeups())), share(woken(&own_before, &wakeups(me))));

    let each = |all: f64| all / count as f64;
    let (own, open, pool) =
        (each(pss(me).unwrap_or_default() - memory), each(descriptors(me) - files), threads(me) - pool);
    let heap = each(anonymous(me).unwrap_or_default() - heap);
    let mut others: BTreeMap<&str, (usize, f64, f64)> = BTreeMap::new();
    for (pid, name) in &ours {
        let group = others.entry(name).or_default();
        *group = (group.0 + 1, group.1 + pss(*pid).unwrap_or_default(), group.2 + threads(*pid));
    }
    let others_memory = each(others.values().map(|group| group.1).sum());

    match &bounds {
        Some(bounds) => {
            table.bounded("orchestrator, PSS per session", own, "KiB", bounds.orchestrator);
            table.bounded("guardian, PSS per session", others_memory, "KiB", bounds.guardian);
            table.bounded("orchestrator, descriptors per session", open, "", bounds.descriptors);
            table.bounded("orchestrator, threads more than before", pool, "", bounds.threads);
            table.bounded("CPU of all our processes, of one core", all_cpu, "%", bounds.cpu);
        }
        None => {
            table.figure("orchestrator, PSS per session", own, "KiB");
            table.figure("our other processes, PSS per session", others_memory, "KiB");
            table.figure("orchestrator, descriptors per session", open, "");
            table.figure("orchestrator, threads more than before", pool, "");
            table.figure("CPU of all our processes, of one core", all_cpu, "%");
        }
    }
    table.figure("orchestrator, its heap and stacks per session", heap, "KiB");
    table.figure("CPU of the orchestrator, of one core", my_cpu, "%");
    for (name, (number, memory, pool)) in others {
        let what = format!("{number} {name}: PSS per process");
        table.figure(what, memory / number as f64, "KiB");
        table.figure(format!("{number} {name}: threads per process"), pool / number as f64, "");
    }
    table.figure("wake-ups of all our processes", all_woken, "/s");
    table.figure("wake-ups of the orchestrator", own_woken, "/s");
    table.figure("until all had printed", started, "s");

    let start = Instant::now();
    running.stop();
    running.wait().await?;
    table.figure("until all were stopped", start.elapsed().as_secs_f64(), "s");
    orchestrator.shutdown().await;
    Ok(())
}
