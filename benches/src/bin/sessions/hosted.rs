//! What sessions cost that outlive their program.

use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use watchfire_benches::agent::{prints, redraws};
use watchfire_benches::api::{World, run, wait_for_screens};
use watchfire_benches::proc::{cpu, descendants, descriptors, pss};
use watchfire_benches::tmux::Tmux;
use watchfire_core::orchestrator::{LogStream, ProjectHandle, Seen};
use watchfire_core::sandbox::SandboxChoice;
use watchfire_core::schedule::{Change, Ending};
use watchfire_core::store::NewTask;
use watchfire_core::{Error, ErrorKind, Result};

use crate::Sizes;
use crate::table::Table;

/// Bytes a second of an agent that redraws.
const RATE: u64 = 10_000;
/// Pause after the starts: the worktrees are made and their threads gone again.
const SETTLED: Duration = Duration::from_secs(15);
/// The longest that the ends of all agents may take to be seen.
const SEEN: Duration = Duration::from_secs(120);

pub(crate) async fn idle(sizes: &Sizes, table: &mut Table) -> Result<()> {
    measure(sizes, table, "idle", &prints(40)).await
}

pub(crate) async fn redrawing(sizes: &Sizes, table: &mut Table) -> Result<()> {
    measure(sizes, table, "redrawing 10 KB/s each", &redraws(RATE)?).await
}

/// Processes of one kind.
struct Group(Vec<u32>);

impl Group {
    fn named(name: &str) -> Self {
        Self(descendants().into_iter().filter(|(_, is)| is == name).map(|(pid, _)| pid).collect())
    }

    fn sum(&self, figure: impl Fn(u32) -> Option<f64>) -> f64 {
        self.0.iter().filter_map(|pid| figure(*pid)).sum()
    }

    /// Returns the CPU time used while `window` passes, in percent of one core.
    fn percent(&self, before: f64, window: Duration) -> f64 {
        (self.sum(cpu) - before) / window.as_secs_f64() * 100.0
    }
}

async fn measure(sizes: &Sizes, table: &mut Table, what: &str, script: &str) -> Result<()> {
    let count = sizes.sessions;
    let each = |all: f64| all / count as f64;
    table.title(format!("{count} hosted sessions, {what}"));
    let world = World::new(count, count + 4, script).await?;
    let orchestrator = world.hosted().await?;
    let project = orchestrator.open(&world.root).await?;
    let own = Group(vec![std::process::id()]);
    let (memory, files) = (own.sum(pss), descriptors(own.0[0]));

    let start = Instant::now();
    run(&project, None, SandboxChoice::None).await?;
    wait_for_screens(&project, count).await?;
    table.figure("until all had printed", start.elapsed().as_secs_f64(), "s");
    tokio::time::sleep(SETTLED).await;

    let hosts = Group::named("wf-guardian");
    let window = Duration::from_secs(sizes.seconds as u64);
    let (own_before, hosts_before) = (own.sum(cpu), hosts.sum(cpu));
    tokio::time::sleep(window).await;
    let (own_cpu, hosts_cpu) = (own.percent(own_before, window), hosts.percent(hosts_before, window));
    table.figure("orchestrator, PSS per session", each(own.sum(pss) - memory), "KiB");
    table.figure("hosts, PSS per session", each(hosts.sum(pss)), "KiB");
    table.figure("orchestrator, descriptors per session", each(descriptors(own.0[0]) - files), "");
    table.figure("hosts, descriptors per session", each(hosts.sum(|pid| Some(descriptors(pid)))), "");
    table.figure("CPU of the orchestrator, of one core", own_cpu, "%");
    table.figure("CPU of the hosts, of one core", hosts_cpu, "%");

    let mut merged = tasks(&project, &world, sizes.meanwhile).await?;
    merged.sort_by(f64::total_cmp);
    let at = |share: f64| merged.get((merged.len() as f64 * share) as usize).or(merged.last()).copied();
    table.figure("done to merged meanwhile, p50", at(0.5).unwrap_or(f64::NAN), "ms");
    table.figure("done to merged meanwhile, p99", at(0.99).unwrap_or(f64::NAN), "ms");

    let start = Instant::now();
    orchestrator.detach().await;
    drop((project, orchestrator));
    table.figure("until all were left to their hosts", start.elapsed().as_secs_f64(), "s");
    let start = Instant::now();
    let orchestrator = world.hosted().await?;
    let project = orchestrator.open(&world.root).await?;
    table.figure("taken over: until the project was open", start.elapsed().as_secs_f64(), "s");
    wait_for_screens(&project, count).await?;
    table.figure("taken over: until all screens were there", start.elapsed().as_secs_f64(), "s");

    let lives = project.ledger().await?.lives;
    let agents = lives.values().filter_map(|life| life.session.as_ref()?.agent.as_ref());
    let agents: Vec<_> = agents.filter_map(|agent| Pid::from_raw(agent.pid.cast_signed())).collect();
    let start = Instant::now();
    for agent in &agents {
        kill_process(*agent, Signal::KILL).map_err(|e| Error::io("killing an agent", e.into()))?;
    }
    while !project.ledger().await?.lives.is_empty() && start.elapsed() < SEEN {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let missed = count - agents.len() + project.ledger().await?.lives.len();
    table.figure("all agents killed: until their work was kept", start.elapsed().as_secs_f64(), "s");
    table.bounded("exits that were missed", missed as f64, "", 0.0);
    orchestrator.shutdown().await;
    peer(table, count, script, window).await
}

/// Lets tasks be done one after the other, and returns for each the milliseconds from its claim to its merge.
async fn tasks(project: &ProjectHandle, world: &World, count: usize) -> Result<Vec<f64>> {
    let mut changes = project.subscribe(None).await?.changes;
    let mut all = Vec::new();
    for n in 0..count {
        let claimed = world.root.with_file_name(format!("claimed-{n}"));
        let script = format!(
            r#"echo x > "made-{n}"; date +%s%N > '{}'; sed -i 's/^status: .*/status: done/' "$WATCHFIRE_TASK_FILE""#,
            claimed.display()
        );
        // The run of all ready tasks takes it at once.
        let task = NewTask::new(format!("meanwhile {n}")).with_prompt(script).with_ready(true);
        let number = project.store().create(task, None).await?.value.task_number;
        let (ending, merged) = ended(&mut changes, number).await?;
        if !matches!(ending, Ending::Merged { .. }) {
            return Err(Error::new(ErrorKind::Internal, "a task did not merge").with("ending", ending));
        }
        let claimed = std::fs::read_to_string(&claimed).map_err(|e| Error::io("reading a moment", e))?;
        let claimed: f64 = claimed.trim().parse().unwrap_or(f64::NAN);
        all.push((merged - claimed) / 1e6);
    }
    Ok(all)
}

/// Waits for the end of a task. Returns the ending, and the time in nanoseconds.
async fn ended(changes: &mut LogStream, number: watchfire_core::model::TaskNumber) -> Result<(Ending, f64)> {
    while let Some(seen) = changes.next().await {
        if let Seen::Record(record) = seen
            && let Change::Life(life) = record.change
            && life.subject.task() == Some(number)
            && let Some(ending) = life.ending()
        {
            let now = SystemTime::UNIX_EPOCH.elapsed().map_or(f64::NAN, |now| now.as_nanos() as f64);
            return Ok((ending.clone(), now));
        }
    }
    Err(Error::new(ErrorKind::Internal, "the log ended before a task"))
}

/// Measures as many sessions of tmux.
async fn peer(table: &mut Table, count: usize, script: &str, window: Duration) -> Result<()> {
    let Some((tmux, server)) = Tmux::start().and_then(|tmux| tmux.pid().map(|pid| (tmux, Group(vec![pid]))))
    else {
        println!("tmux: SKIPPED, not installed");
        return Ok(());
    };
    let (memory, files) = (server.sum(pss), descriptors(server.0[0]));
    let start = Instant::now();
    for n in 0..count {
        let name = format!("session-{n}");
        let words = ["new-session", "-d", "-s", &name, "-x", "120", "-y", "40", script];
        if tmux.run(&words).is_none() {
            println!("tmux: SKIPPED, it refused session {n}");
            return Ok(());
        }
    }
    table.figure("tmux: until all were started", start.elapsed().as_secs_f64(), "s");
    tokio::time::sleep(SETTLED).await;
    let before = server.sum(cpu);
    tokio::time::sleep(window).await;
    let each = |all: f64| all / count as f64;
    table.figure("tmux server, PSS per session", each(server.sum(pss) - memory), "KiB");
    table.figure("tmux server, descriptors per session", each(descriptors(server.0[0]) - files), "");
    table.figure("CPU of the tmux server, of one core", server.percent(before, window), "%");
    Ok(())
}
