//! What the daemon costs: its start, beside tmux, and its rest.
//!
//! `cargo run --release -p watchfire-benches --bin daemon [-- --json]`
//!
//! - from no daemon to its first answer, beside `tmux new-session -d` without a server, pair by pair in one run;
//! - memory and CPU of a daemon with ten projects and no agent, against their bounds: 20 MB, and nothing that can be measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use watchfire_benches::{Report, millis, proc};
use watchfire_client::Daemon;
use watchfire_client::daemon_proto::CreateProjectRequest;
use watchfire_core::process::CommandSpec;

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

const STARTS: usize = 20;
const PROJECTS: usize = 10;
/// Time over which the CPU of an idle daemon is counted.
const IDLE: Duration = Duration::from_secs(20);
/// The word that makes this program the daemon.
const ROLE: &str = "be-the-daemon";

fn main() -> Done {
    watchfire_core::process::helper::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == ROLE) {
        let _ = watchfired::main(watchfired::DaemonArgs::default());
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::default();
    runtime.block_on(measure(&mut report))?;
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(())
}

async fn measure(report: &mut Report) -> Done {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..STARTS {
        // Who goes first changes from pair to pair.
        if round % 2 == 0 {
            theirs.extend(tmux());
        }
        ours.push(start().await?);
        if round % 2 == 1 {
            theirs.extend(tmux());
        }
    }
    let section = "no server to its first answer";
    if theirs.len() == ours.len() {
        report.add(section, "tmux new-session -d", "ms", theirs.clone());
        report.compare(section, "the daemon", "ms", ours, "tmux", &theirs);
    } else {
        report.skip("tmux", "not installed");
        report.add(section, "the daemon", "ms", ours);
    }
    idle(report).await
}

/// A home of its own, and the command that starts a daemon in it.
fn home() -> Done<(tempfile::TempDir, PathBuf, CommandSpec)> {
    let folder = tempfile::tempdir()?;
    let home = folder.path().join("watchfire");
    let command = CommandSpec::new(std::env::current_exe()?)
        .with_args([ROLE])
        .with_env("HOME", folder.path())
        .with_env("WATCHFIRE_HOME", &home)
        .with_env("WATCHFIRE_LOG", "warn")
        .with_env("PATH", std::env::var_os("PATH").unwrap_or_default());
    Ok((folder, home, command))
}

async fn start() -> Done<f64> {
    let (_folder, home, command) = home()?;
    let began = Instant::now();
    let daemon = Daemon::find_or_start(&home, &command).await?;
    let took = millis(began);
    daemon.service().shutdown(()).await?;
    Ok(took)
}

/// A server under a name of its own, from nothing to its first session.
fn tmux() -> Option<f64> {
    let socket = format!("watchfire-bench-{}", std::process::id());
    let run = |words: &[&str]| {
        let mut command = Command::new("tmux");
        command.args(["-L", &socket, "-f", "/dev/null"]).args(words).stderr(Stdio::null());
        command.status().ok().filter(std::process::ExitStatus::success)
    };
    let began = Instant::now();
    run(&["new-session", "-d", "sleep 1000"])?;
    let took = millis(began);
    run(&["kill-server"])?;
    // The next one must not meet it while it ends.
    while run(&["has-session"]).is_some() {}
    Some(took)
}

async fn idle(report: &mut Report) -> Done {
    let (folder, home, command) = home()?;
    let daemon = Daemon::find_or_start(&home, &command).await?;
    for n in 0..PROJECTS {
        project(&daemon, &folder.path().join(format!("project-{n}"))).await?;
    }
    let pid = daemon.service().get_status(()).await?.into_inner().pid;
    // What opening them left to do is done by then.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = proc::cpu(pid).unwrap_or_default();
    tokio::time::sleep(IDLE).await;
    let used = proc::cpu(pid).unwrap_or_default() - before;
    let section = "idle, with ten projects";
    report.add(
        section,
        "resident memory (bound: 20)",
        "MB",
        vec![proc::rss(pid).unwrap_or_default() / 1024.0],
    );
    report.add(section, "proportional memory", "MB", vec![proc::pss(pid).unwrap_or_default() / 1024.0]);
    report.add(section, "CPU of one core", "%", vec![used / IDLE.as_secs_f64() * 100.0]);
    report.add(section, "threads", "", vec![proc::threads(pid)]);
    report.add(section, "descriptors", "", vec![proc::descriptors(pid)]);
    daemon.service().shutdown(()).await?;
    Ok(())
}

async fn project(daemon: &Daemon, root: &Path) -> Done {
    let path = root.display().to_string();
    daemon.projects().create_project(CreateProjectRequest { path, ..Default::default() }).await?;
    Ok(())
}
