//! `watchfire agent`: starts and stops agents that the daemon runs.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use watchfire_client::daemon_proto::{AgentStatus, ProjectId, StartAgentRequest};
use watchfire_client::work_proto::ResumeRequest;
use watchfire_client::{ApiError, environment, work};
use watchfire_core::model::TaskNumber;
use watchfire_core::store::{TaskQuery, TaskStore as _};

use super::daemon;
use super::generate::{self, GenerateArgs};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::out::Out;
use crate::style::Style;
use crate::text;

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  watchfire agent start 3\n  watchfire agent start all\n  watchfire agent status\n  watchfire agent stop"
)]
pub(crate) enum AgentCommand {
    /// Start a task, all ready tasks, or a chat; returns at once
    Start(StartArgs),
    /// Run tasks, refine drafts and generate further tasks; returns at once
    #[command(after_help = "Examples:\n  watchfire agent wildfire")]
    Wildfire(OfAgent),
    /// Let an agent propose the definition of the project, or tasks; the same as `watchfire generate`
    #[command(
        visible_alias = "gen",
        after_help = "\
An agent reads the project and writes a proposal, which counts once you accept it. Tasks become drafts.

Examples:
  watchfire agent generate tasks            show what an agent proposes, and ask
  watchfire agent generate definition --yes

Exit codes: 0 accepted, 3 not accepted, 130 interrupted."
    )]
    Generate(GenerateArgs),
    /// Stop everything that runs in this project; work is kept, and no task starts by itself until you start something
    #[command(after_help = "Examples:\n  watchfire agent stop")]
    Stop,
    /// Show what runs in this project
    #[command(after_help = "Examples:\n  watchfire agent status")]
    Status,
    /// Go on with what waits for a limit or a login, and after a stop with ready tasks
    #[command(after_help = "Examples:\n  watchfire agent resume")]
    Resume,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  watchfire agent start 3\n  watchfire agent start all\n  watchfire agent start               a chat"
)]
pub(crate) struct StartArgs {
    /// A task's number, `all`, or nothing for a chat
    #[arg(value_name = "N|all")]
    which: Option<String>,
    #[command(flatten)]
    of: OfAgent,
}

#[derive(Args, Debug, Default)]
pub(crate) struct OfAgent {
    /// Use this agent instead of the one in task, project or settings
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Use this sandbox: auto, or one that watchfire sandbox probe lists
    #[arg(long, value_name = "NAME")]
    sandbox: Option<String>,
    /// Run without a sandbox, where settings allow it; the same as `--sandbox none`
    #[arg(long, conflicts_with = "sandbox")]
    no_sandbox: bool,
}

pub(crate) async fn run(context: &Context, command: AgentCommand) -> Result<Exit> {
    let project = context.project().await?;
    let (home, id) = (project.home.path().to_path_buf(), project.id.to_string());
    let starts_all =
        matches!(&command, AgentCommand::Start(StartArgs { which: Some(which), .. }) if which == "all");
    let malformed: Vec<_> = match starts_all {
        true => {
            project.store.list(&TaskQuery::new()).await?.malformed.iter().map(ToString::to_string).collect()
        }
        false => Vec::new(),
    };
    // The daemon opens the store itself.
    drop(project);
    let of = || ProjectId { meta: None, project_id: id.clone(), session_id: String::new() };
    let status = match command {
        AgentCommand::Start(StartArgs { which, of }) => {
            let request = match which.as_deref() {
                None => StartAgentRequest { mode: "chat".to_owned(), ..Default::default() },
                Some("all") => StartAgentRequest { mode: "start-all".to_owned(), ..Default::default() },
                Some(number) => {
                    let task = number.parse::<TaskNumber>()?;
                    let task_number = i32::try_from(task.value()).unwrap_or(i32::MAX);
                    StartAgentRequest { mode: "task".to_owned(), task_number, ..Default::default() }
                }
            };
            start(&home, &id, request, of).await?
        }
        AgentCommand::Wildfire(of) => {
            let request = StartAgentRequest { mode: "wildfire".to_owned(), ..Default::default() };
            start(&home, &id, request, of).await?
        }
        AgentCommand::Generate(args) => return generate::run(context, args).await,
        AgentCommand::Stop => {
            daemon_of(&home).await?.agents().stop_agent(of()).await.map_err(ApiError::from)?.into_inner()
        }
        AgentCommand::Status => daemon_of(&home)
            .await?
            .agents()
            .get_agent_status(of())
            .await
            .map_err(ApiError::from)?
            .into_inner(),
        AgentCommand::Resume => {
            let daemon = daemon_of(&home).await?;
            let request = ResumeRequest { project_id: id.clone(), life_id: 0, environment: environment() };
            daemon.work().resume(request).await.map_err(ApiError::from)?;
            daemon.agents().get_agent_status(of()).await.map_err(ApiError::from)?.into_inner()
        }
    };
    let agents: Vec<_> = status.all.iter().map(json).collect();
    context.out.report(
        json!({ "agents": agents, "halted": status.halted, "malformed": malformed }),
        |out: Out| {
            let lines: String = status.all.iter().map(|agent| line(agent, out.style)).collect();
            let lines = if lines.is_empty() { out.style.dim("no agents at work\n") } else { lines };
            let halted =
                "stopped: ready tasks start once you start something, or with `watchfire agent resume`\n";
            let faults: String = malformed
                .iter()
                .map(|fault| format!("{} not run: {}\n", out.style.red("✗"), text::line(fault)))
                .collect();
            lines + if status.halted { halted } else { "" } + &faults
        },
    );
    Ok(if malformed.is_empty() { Exit::Good } else { Exit::NeedsPerson })
}

async fn daemon_of(home: &Path) -> Result<watchfire_client::Daemon> {
    daemon::running(home).await
}

async fn start(home: &Path, project: &str, request: StartAgentRequest, of: OfAgent) -> Result<AgentStatus> {
    crate::git::require()?;
    let size = crate::terminal::size();
    let is_chat = request.mode == "chat";
    let request = StartAgentRequest {
        project_id: project.to_owned(),
        rows: size.rows().into(),
        cols: size.cols().into(),
        agent: of.agent.unwrap_or_default(),
        sandbox: if of.no_sandbox { "none".to_owned() } else { of.sandbox.unwrap_or_default() },
        environment: environment(),
        ..request
    };
    let started = daemon::connect(home).await?.agents().start_agent(request).await;
    let told = |error| match ApiError::from(error) {
        error if is_chat => of_chat(error),
        error => error,
    };
    Ok(started.map_err(|error| Failure::from(told(error)))?.into_inner())
}

/// Says, of a chat that is not opened beside another, what to do.
pub(super) fn of_chat(error: ApiError) -> ApiError {
    match error.code.as_str() {
        "busy" if error.hint.is_none() => {
            error.with_hint("watchfire attach shows the chat that is open; watchfire agent stop ends it")
        }
        _ => error,
    }
}

/// Returns an agent as JSON.
pub(super) fn json(agent: &AgentStatus) -> Value {
    let issue =
        agent.issue.as_ref().map(|issue| json!({ "type": issue.issue_type, "message": issue.message }));
    json!({
        "project": agent.project_id, "project_name": agent.project_name, "running": agent.is_running,
        "mode": agent.mode, "task": agent.task_number, "title": agent.task_title,
        "phase": agent.wildfire_phase, "agent": agent.agent, "session": agent.session_id,
        "alias": agent.alias, "started_at": agent.started_at, "state": agent.state,
        "issue": issue, "questions": agent.questions,
    })
}

/// Returns an agent as a line: `shop  task #0003 Add a page  running  brave-otter (scripted)`.
pub(super) fn line(agent: &AgentStatus, style: Style) -> String {
    let number = u32::try_from(agent.task_number).unwrap_or_default();
    let what = match work(&agent.mode, &agent.wildfire_phase, number) {
        what if what.starts_with('#') => format!("task {what}"),
        what => what,
    };
    let mut line = format!("{}  {what}", text::line(&agent.project_name));
    if !agent.task_title.is_empty() {
        line = format!("{line} {}", text::line(&agent.task_title));
    }
    line = format!("{line}  {}", style.yellow(&agent.state));
    if !agent.alias.is_empty() {
        line = format!("{line}  {}", style.dim(&format!("{} ({})", agent.alias, agent.agent)));
    }
    let issue = agent.issue.as_ref().map(|issue| format!("\n  {}", style.red(&text::line(&issue.message))));
    let questions = agent.questions.iter().map(|asked| format!("\n  ? {}", text::line(asked)));
    format!("{line}{}{}\n", issue.unwrap_or_default(), questions.collect::<String>())
}
