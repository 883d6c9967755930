//! `watchfire daemon`: starts, shows and ends the program that runs agents for all terminals.

mod install;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use watchfire_client::daemon_proto::{DaemonStatus, ProjectId, RequestMeta, Watcher};
use watchfire_client::{AgentsFile, ApiError, Daemon, DaemonFile, work};
use watchfire_core::process::CommandSpec;
use watchfire_core::{Error, ErrorKind};
use watchfired::DaemonArgs;

use self::install::InstallArgs;
use crate::context::{Context, home_path, open_home};
use crate::failure::{Exit, Failure, Result};
use crate::{terminal, text};

/// Time that a daemon has to end.
const END: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  watchfire daemon start\n  watchfire daemon status\n  watchfire daemon stop --agents"
)]
pub(crate) enum DaemonCommand {
    /// Start the daemon, unless it runs
    Start(StartArgs),
    /// Show whether the daemon runs, and what it does
    #[command(after_help = "Examples:\n  watchfire daemon status")]
    Status,
    /// End the daemon; agents go on by themselves, for the next one
    Stop(StopArgs),
    /// End the daemon and start it anew, with its options; agents go on meanwhile
    #[command(after_help = "Examples:\n  watchfire daemon restart")]
    Restart,
    /// Start the daemon whenever you log in
    Install(InstallArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  watchfire daemon start\n  watchfire daemon start --foreground")]
pub(crate) struct StartArgs {
    /// Stay in this terminal, and log to it
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    args: DaemonArgs,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire daemon stop               agents go on by themselves\n  watchfire daemon stop --agents"
)]
pub(crate) struct StopArgs {
    /// Stop all agents first; their work is kept
    #[arg(long)]
    agents: bool,
}

pub(crate) async fn run(context: &Context, command: DaemonCommand) -> Result<Exit> {
    let home = home_path()?;
    match command {
        DaemonCommand::Start(StartArgs { foreground: true, args }) => {
            watchfired::program(args).await?;
            Ok(Exit::Good)
        }
        DaemonCommand::Start(StartArgs { args, .. }) => start(context, &home, &args).await,
        DaemonCommand::Status => status(context, &home).await,
        DaemonCommand::Install(args) => install::run(context, &home, &args),
        DaemonCommand::Stop(args) => stop(context, &home, &args).await,
        DaemonCommand::Restart => {
            let daemon = restart(&home).await?;
            tell(context, &home, &status_of(&daemon).await?, "the daemon has started");
            Ok(Exit::Good)
        }
    }
}

/// Connects to the daemon, and starts it if it does not run.
pub(crate) async fn connect(home: &Path) -> Result<Daemon> {
    let daemon = find_or_start(home, Vec::new()).await?;
    of_this_release(home, daemon).await
}

/// Connects to the daemon, or starts it with the options of the one that has gone.
pub(crate) async fn anew(home: &Path) -> Result<Daemon> {
    // One that did not end in order has left its file.
    let before = DaemonFile::read(home).ok().flatten();
    find_or_start(home, before.map(|file| file.arguments).unwrap_or_default()).await
}

/// Connects to the daemon that runs.
pub(crate) async fn running(home: &Path) -> Result<Daemon> {
    let daemon = Daemon::connect(home).await.map_err(|error| with_left(error, home))?;
    of_this_release(home, daemon).await
}

/// Returns the daemon if it is of this release, and otherwise asks the person whether to restart it. Who says no goes on with it: most
/// calls are the same.
pub(crate) async fn of_this_release(home: &Path, daemon: Daemon) -> Result<Daemon> {
    let ours = env!("CARGO_PKG_VERSION");
    let theirs = match DaemonFile::read(home) {
        Ok(Some(file)) if file.program_version != ours => file.program_version,
        // One that cannot be read belongs to a daemon that is starting or ending.
        _ => return Ok(daemon),
    };
    if !terminal::is_interactive() {
        let error = Error::new(ErrorKind::NotSupported, "the daemon is of another release");
        let error = error.with("release", ours).with("daemon", theirs);
        return Err(error.with("hint", "run watchfire daemon restart; agents go on meanwhile").into());
    }
    let question = format!(
        "the daemon is of release {}, and this program of {ours}; agents go on while it is restarted\nrestart it now? [y/N] ",
        text::line(&theirs)
    );
    match terminal::ask(&question).await? {
        true => restart(home).await,
        false => Ok(daemon),
    }
}

/// Ends the daemon if one runs, and starts one with its options. Agents go on meanwhile.
async fn restart(home: &Path) -> Result<Daemon> {
    let mut arguments = Vec::new();
    match Daemon::connect(home).await {
        Ok(daemon) => {
            arguments = DaemonFile::read(home)?.map(|file| file.arguments).unwrap_or_default();
            end(home, &daemon).await?;
        }
        Err(error) if error.is_gone() => {}
        Err(error) => return Err(error.into()),
    }
    find_or_start(home, arguments).await
}

/// Connects to the daemon, and starts it with these arguments if it does not run.
async fn find_or_start(home: &Path, arguments: Vec<String>) -> Result<Daemon> {
    match Daemon::find_or_start(home, &command(arguments)?).await {
        Ok(daemon) => Ok(daemon),
        Err(error) => {
            // Its log has the reason, too, but for files that it cannot read the reason is here.
            let opened = open_home(home.to_path_buf()).await?;
            opened.settings().await?;
            opened.projects().await?;
            Err(error.into())
        }
    }
}

/// Ends a daemon, and waits for its end.
async fn end(home: &Path, daemon: &Daemon) -> Result<()> {
    daemon.service().shutdown(()).await.map_err(ApiError::from)?;
    // It has ended when its lock is free.
    let lock = home.join("daemon.lock");
    let waited =
        tokio::task::spawn_blocking(move || watchfire_core::files::FileLock::acquire(&lock, END)).await;
    let failed = |error| Error::new(ErrorKind::Internal, "waiting for the daemon").with_source(error);
    waited.map_err(failed)??;
    Ok(())
}

/// Returns the command that starts a daemon with these arguments: this program, which has it in it.
pub(crate) fn command(arguments: Vec<String>) -> Result<CommandSpec> {
    let program = std::env::current_exe().map_err(|e| Error::io("finding this program", e))?;
    let command = CommandSpec::new(program)
        .with_args(["daemon", "start", "--foreground", "--detached"])
        .with_args(arguments)
        // It keeps no folder from being removed.
        .with_cwd("/");
    Ok(command.with_envs(std::env::vars_os()))
}

async fn start(context: &Context, home: &Path, args: &DaemonArgs) -> Result<Exit> {
    let options = args.options()?;
    // Its own error would be in its log.
    options.check()?;
    if let Ok(daemon) = Daemon::connect(home).await {
        let daemon = of_this_release(home, daemon).await?;
        let status = status_of(&daemon).await?;
        tell(context, home, &status, "the daemon runs already");
        let wanted = options.arguments();
        let others = without_effect(&wanted, home, status.port);
        if !others.is_empty() {
            let others = text::line(&others.join(" "));
            // If stderr cannot be written, there is no place left to report that.
            let _ = std::io::stderr().write_all(
                format!("warning: it runs without {others}; watchfire daemon stop, and start it with that; agents go on meanwhile\n")
                    .as_bytes(),
            );
        }
        return Ok(Exit::Good);
    }
    let daemon = find_or_start(home, options.arguments()).await?;
    tell(context, home, &status_of(&daemon).await?, "the daemon has started");
    Ok(Exit::Good)
}

/// Returns the options among `wanted` that the daemon which runs does not have.
fn without_effect(wanted: &[String], home: &Path, port: u32) -> Vec<String> {
    let has = DaemonFile::read(home).ok().flatten().map(|file| file.arguments).unwrap_or_default();
    let options = |all: &[String]| -> Vec<String> {
        let ends = |next: &String| next.starts_with("--");
        let mut options: Vec<String> = Vec::new();
        for word in all {
            match options.last_mut().filter(|_| !ends(word)) {
                Some(option) => *option = format!("{option} {word}"),
                None => options.push(word.clone()),
            }
        }
        options
    };
    let has = options(&has);
    let is_missing = |option: &String| !has.contains(option) && *option != format!("--port {port}");
    options(wanted).into_iter().filter(is_missing).collect()
}

async fn status(context: &Context, home: &Path) -> Result<Exit> {
    let daemon = Daemon::connect(home).await.map_err(|error| with_left(error, home))?;
    let status = status_of(&daemon).await?;
    tell(context, home, &status, "the daemon runs");
    Ok(Exit::Good)
}

/// Adds to the error that no daemon runs what the last one left at work.
pub(super) fn with_left(mut error: ApiError, home: &Path) -> ApiError {
    let agents = AgentsFile::read(home).ok().flatten().unwrap_or_default().agents;
    let named = agents.iter().map(|agent| {
        let number = u32::try_from(agent.task_number.unwrap_or_default()).unwrap_or_default();
        let title = agent.task_title.as_deref().unwrap_or_default();
        let words = [&agent.project_name, &work(&agent.mode, "", number), title].join(" ");
        text::line(words.trim_end())
    });
    let named: Vec<_> = named.collect();
    if error.is_gone() && !named.is_empty() {
        // Not that there are no agents.
        error.message = "no daemon runs for this home".to_owned();
        error.details.insert("left".to_owned(), named.join(", "));
        return error.with_hint("watchfire daemon start goes on with them");
    }
    error
}

async fn status_of(daemon: &Daemon) -> Result<DaemonStatus> {
    let status = daemon.service().get_status(()).await.map_err(ApiError::from)?;
    Ok(status.into_inner())
}

async fn stop(context: &Context, home: &Path, args: &StopArgs) -> Result<Exit> {
    let daemon = Daemon::connect(home).await.map_err(|error| with_left(error, home))?;
    // What is wrong with one of its projects does not keep it.
    let status = status_of(&daemon).await.unwrap_or_default();
    let file = DaemonFile::read(home).ok().flatten();
    let ends_agents =
        args.agents || file.is_some_and(|file| file.arguments.iter().any(|it| it == "--end-agents"));
    if args.agents {
        // Before they are stopped: where one ends, another task may start.
        let request = watchfire_client::work_proto::EndAgentsRequest {};
        daemon.work().end_agents(request).await.map_err(ApiError::from)?;
        for agent in &status.active_agents {
            let project =
                ProjectId { meta: None, project_id: agent.project_id.clone(), session_id: String::new() };
            daemon.agents().stop_agent(project).await.map_err(ApiError::from)?;
        }
    }
    end(home, &daemon).await?;
    let left = status
        .active_agents
        .iter()
        .filter(|agent| agent.is_running && agent.state != "ending" && !ends_agents)
        .count();
    context.out.report(json!({ "stopped": true, "agents_left": left }), |_| match left {
        0 => "the daemon has ended\n".to_owned(),
        left => format!("the daemon has ended; agents that go on: {left}\n"),
    });
    Ok(Exit::Good)
}

fn tell(context: &Context, home: &Path, status: &DaemonStatus, what: &str) {
    let agents: Vec<_> = status.active_agents.iter().map(super::agent::json).collect();
    let tls = DaemonFile::read(home).ok().flatten().and_then(|file| file.tls);
    let watcher = |watcher: &Watcher| {
        let RequestMeta { origin, client_id, version } = watcher.meta.clone().unwrap_or_default();
        json!({ "origin": origin, "client_id": client_id, "version": version, "project_id": watcher.project_id })
    };
    let watchers: Vec<_> = status.watchers.iter().map(watcher).collect();
    let value = json!({
        "watchers": watchers, "running": true, "host": status.host, "port": status.port, "tls": tls, "pid": status.pid,
        "started_at": status.started_at, "uptime_seconds": status.uptime_seconds,
        "version": status.version, "projects": status.projects, "agents": agents,
    });
    context.out.report(value, |out| {
        let DaemonStatus { host, port, pid, version, projects, .. } = status;
        let up = text::elapsed(Duration::from_secs(status.uptime_seconds));
        let tls = tls.map(|address| format!(", with TLS {address}")).unwrap_or_default();
        let mut told = format!(
            "{what}: {host}:{port}{tls}, pid {pid}, release {version}, up {up}, projects open: {projects}\n"
        );
        for agent in &status.active_agents {
            told.push_str(&super::agent::line(agent, out.style));
        }
        if status.active_agents.is_empty() {
            told.push_str(&out.style.dim("no agents at work\n"));
        }
        for Watcher { meta, project_id } in &status.watchers {
            let RequestMeta { origin, client_id, version } = meta.clone().unwrap_or_default();
            let who = text::line(&format!("{origin} {client_id} {version}"));
            let who = if who.is_empty() { "a client".to_owned() } else { who };
            let what = if project_id.is_empty() { "all projects" } else { project_id };
            told.push_str(&format!("watched by {who}: {what}\n"));
        }
        told
    });
}

/// Says in an error of a locked project that it is the daemon that has it, and what to do instead. `tries_alone`: by a command that
/// never goes through the daemon.
pub(crate) fn explain_lock(failure: Failure, tries_alone: bool) -> Failure {
    let Failure::Error(error) = failure else { return failure };
    let daemon = home_path().ok().and_then(|home| DaemonFile::read(&home).ok().flatten());
    let pid = daemon.map(|file| file.pid.to_string());
    if error.kind() == ErrorKind::Locked && pid.is_some() && error.detail("pid") == pid.as_deref() {
        // What tries a sandbox has no other way; all else the daemon does.
        let hint = match tries_alone {
            true => "the daemon has it: watchfire daemon stop, and try again; agents go on meanwhile",
            false => {
                "the daemon has it: without --embedded it does the work; or watchfire daemon stop, and agents go on"
            }
        };
        return Failure::Error(error.with("hint", hint));
    }
    Failure::Error(error)
}
