//! `watchfire sandbox`: one file per subcommand.

mod exec;
mod explain;
mod learn;
mod probe;
mod report;
mod setup;
mod trace;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use watchfire_client::work_proto::GetPolicyRequest;
use watchfire_client::{ApiError, Daemon};
use watchfire_core::model::{BackendName, Mode, Phase, ProjectId, TaskNumber};
use watchfire_core::orchestrator::{ConfineRequest, Confinement, Orchestrator, SandboxRecord};
use watchfire_core::schedule::ChatPlace;
use watchfire_core::{Error, ErrorKind};

use crate::args::SessionArgs;
use crate::compose;
use crate::context::{Context, find_project};
use crate::failure::{Exit, Result};

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum SandboxCommand {
    /// Try what each sandbox can enforce on this machine
    Probe(probe::ProbeArgs),
    /// Show what an agent's sandbox enforces: before a run, or in the last one
    Report(report::ReportArgs),
    /// Show which rule allows or denies an agent to read or write a path
    Explain(explain::ExplainArgs),
    /// Show how to make the sandbox work here, where the system forbids what it needs
    Setup(setup::SetupArgs),
    /// Run a command in the sandbox that an agent would get
    Exec(exec::ExecArgs),
    /// Run a command as an agent would be confined, and show what it was refused
    Learn(learn::LearnArgs),
}

const EXAMPLES: &str = "\
An agent that works on a task is confined to the task's worktree; in a chat, to the project's root; one that refines or
generates writes nothing but what it says. Without --task these commands are about a chat.

Examples:
  watchfire sandbox probe
  watchfire sandbox setup
  watchfire sandbox report --task 3
  watchfire sandbox explain ~/.ssh/id_ed25519 --task 3
  watchfire sandbox exec --task 3 -- cargo test
  watchfire sandbox learn --task 3 -- npm test
  watchfire sandbox report --mode generate-tasks";

/// Selection of the session whose sandbox is meant.
#[derive(Args, Debug)]
pub(crate) struct Whose {
    /// The project, by folder, name or id; without it the one around the current folder
    #[arg(long, value_name = "P")]
    project: Option<String>,
    /// The task; without it a chat
    #[arg(long, value_name = "N")]
    task: Option<TaskNumber>,
    /// A chat in a folder of its own
    #[arg(long, conflicts_with = "task")]
    worktree: bool,
    /// The kind of session; without it the task's, or a chat
    #[arg(long, value_name = "MODE")]
    mode: Option<Kind>,
    #[command(flatten)]
    session: SessionArgs,
}

/// A kind of session: the modes, and the steps of wildfire by their names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Chat,
    Task,
    StartAll,
    Wildfire,
    Execute,
    Refine,
    Generate,
    GenerateDefinition,
    GenerateTasks,
}

impl Kind {
    fn mode(self) -> (Mode, Option<Phase>) {
        match self {
            Self::Chat => (Mode::Chat, None),
            Self::Task => (Mode::Task, None),
            Self::StartAll => (Mode::StartAll, None),
            Self::Wildfire => (Mode::Wildfire, None),
            Self::Execute => (Mode::Wildfire, Some(Phase::Execute)),
            Self::Refine => (Mode::Wildfire, Some(Phase::Refine)),
            Self::Generate => (Mode::Wildfire, Some(Phase::Generate)),
            Self::GenerateDefinition => (Mode::GenerateDefinition, None),
            Self::GenerateTasks => (Mode::GenerateTasks, None),
        }
    }
}

/// Location of the selected project.
struct Found {
    home: PathBuf,
    root: PathBuf,
    id: ProjectId,
}

impl Whose {
    async fn find(&self, context: &Context) -> Result<Found> {
        let home = context.home().await?;
        let root = match &self.project {
            None => find_project(&context.directory()?)?,
            Some(named) => {
                let known = home.projects().await?;
                // A known name wins over a folder of the same name.
                let by_name =
                    known.into_iter().find(|it| it.project_id.as_str() == named || it.name == *named);
                match by_name {
                    Some(entry) => entry.path,
                    None => find_project(&context.within(named)?)?,
                }
            }
        };
        let id = home.ensure_registered(&root).await?.project_id;
        Ok(Found { home: home.path().to_path_buf(), root, id })
    }

    fn request(&self) -> Result<ConfineRequest> {
        let mut request = self.task.map_or_else(ConfineRequest::chat, ConfineRequest::task);
        // Otherwise the mode follows from the task, or is a chat.
        if let Some((mode, phase)) = self.mode.map(Kind::mode) {
            request = request.with_mode(mode, phase);
        }
        request.options.agent = self.session.agent.as_deref().map(str::parse::<BackendName>).transpose()?;
        request.options.sandbox = compose::sandbox_choice(&self.session)?;
        if self.worktree {
            request.options.place = ChatPlace::Worktree;
        }
        Ok(request)
    }

    /// Returns the confinement that the agent would get now.
    async fn confine(&self, found: &Found) -> Result<(Orchestrator, Confinement)> {
        let request = self.request()?;
        let orchestrator = compose::orchestrator(&found.home).await?.start().await?;
        // This opens the project and holds its lock until it is dropped.
        let confinement = orchestrator.confine(&found.root, request).await?;
        Ok((orchestrator, confinement))
    }

    /// Asks the daemon that has the project open for the record of the sandbox that the agent would get now. Without a daemon, another
    /// program has it open, and `locked` is the error.
    async fn ask(&self, found: &Found, locked: Error) -> Result<SandboxRecord> {
        let Ok(daemon) = Daemon::connect(&found.home).await else { return Err(locked.into()) };
        let mode = self.mode.and_then(|kind| Some(kind.to_possible_value()?.get_name().to_owned()));
        let request = GetPolicyRequest {
            project_id: found.id.to_string(),
            task_number: self.task.map_or(0, |task| i32::try_from(task.value()).unwrap_or(i32::MAX)),
            next: true,
            mode: mode.unwrap_or_default(),
            agent: self.session.agent.clone().unwrap_or_default(),
            sandbox: compose::sandbox_name(&self.session),
            place: if self.worktree { "worktree".to_owned() } else { String::new() },
        };
        let answer = daemon.reports().get_policy(request).await.map_err(ApiError::from)?.into_inner();
        let not_ours = |error| {
            Error::new(ErrorKind::NotSupported, "the daemon is of another release").with_source(error)
        };
        Ok(serde_json::from_str(&answer.json).map_err(not_ours)?)
    }

    fn words(&self) -> String {
        self.task.map_or_else(|| "a chat".to_owned(), |task| format!("task #{task}"))
    }
}

fn no_session(whose: &Whose) -> Error {
    Error::new(ErrorKind::NotFound, format!("{} has not had a session", whose.words()))
        .with("hint", "without --last, the report shows what would be enforced")
}

pub(super) async fn run(context: &Context, command: SandboxCommand) -> Result<Exit> {
    match command {
        SandboxCommand::Probe(args) => probe::run(context, args).await,
        SandboxCommand::Report(args) => report::run(context, args).await,
        SandboxCommand::Explain(args) => explain::run(context, args).await,
        SandboxCommand::Setup(args) => setup::run(context, args).await,
        SandboxCommand::Exec(args) => exec::run(context, args).await,
        SandboxCommand::Learn(args) => learn::run(context, args).await,
    }
}
