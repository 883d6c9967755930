//! The program that runs a project's agents: the daemon if one runs, else this program. Commands speak to both through the same API.

use std::collections::HashMap;
use std::path::Path;

use tokio::task::JoinHandle;
use watchfire_client::daemon_proto::{AgentStatus, StartAgentRequest};
use watchfire_client::{ApiError, Daemon, environment, work_proto as proto};
use watchfire_core::model::{Question, TaskNumber};
use watchfire_core::orchestrator::{Orchestrator, ProjectHandle, Proposal, TaskInfo};
use watchfire_core::schedule::{LifeId, RunId};
use watchfire_core::store::{Malformed, TaskQuery, TaskStore as _};
use watchfire_core::{Error, ErrorKind};

use crate::away;
use crate::commands::daemon;
use crate::compose;
use crate::context::OpenProject;
use crate::failure::Result;
use crate::interrupts::Interrupts;
use crate::serving::{Serving, serve};

/// Returns the daemon that is to do the work: one that runs, unless the work is to be done in this program; and one that has
/// left agents at work, which is started, because any other program would end them.
///
/// # Errors
/// `busy` if such agents are at work and the work is to be done in this program.
pub(crate) async fn wanted_daemon(home: &Path, embedded: bool) -> Result<Option<Daemon>> {
    if !embedded && let Ok(daemon) = Daemon::connect(home).await {
        return daemon::of_this_release(home, daemon).await.map(Some);
    }
    match !away::left(home).await?.is_empty() {
        true if embedded => {
            let error = Error::new(ErrorKind::Busy, "agents of the daemon are at work");
            let hint =
                "without --embedded the daemon goes on with them; watchfire daemon stop --agents ends them";
            Err(error.with("hint", hint).into())
        }
        true => Ok(Some(daemon::connect(home).await?)),
        false => Ok(None),
    }
}

/// The program that runs the agents of one project.
pub(crate) struct Worker {
    pub(crate) daemon: Daemon,
    /// The files of the project.
    pub(crate) place: OpenProject,
    own: Option<Own>,
}

/// The parts that run in this program if it works without the daemon.
struct Own {
    orchestrator: Orchestrator,
    project: ProjectHandle,
    telling: JoinHandle<()>,
    _serving: Serving,
}

impl Worker {
    /// Returns the daemon, if one runs.
    pub(crate) async fn by_daemon(place: OpenProject) -> Option<Self> {
        let daemon = Daemon::connect(place.home.path()).await.ok()?;
        Some(Self { daemon, place, own: None })
    }

    /// Returns the daemon, or with `embedded` or without one, this program. Returns `None` if the person interrupted first.
    pub(crate) async fn find(
        place: OpenProject,
        embedded: bool,
        interrupts: &Interrupts,
    ) -> Result<Option<Self>> {
        let home = place.home.path();
        if let Some(daemon) = wanted_daemon(home, embedded).await? {
            return Ok(Some(Self { daemon, place, own: None }));
        }
        let orchestrator = compose::orchestrator(home).await?.start().await?;
        Self::within(orchestrator, place, interrupts).await
    }

    /// Runs the agents in this program, by `orchestrator`.
    pub(crate) async fn within(
        orchestrator: Orchestrator,
        place: OpenProject,
        interrupts: &Interrupts,
    ) -> Result<Option<Self>> {
        let opened = tokio::select! {
            // Opening includes recovery, which may take a while.
            opened = orchestrator.open(&place.root) => opened,
            () = interrupts.first() => {
                orchestrator.shutdown().await;
                return Ok(None);
            }
        };
        let project = match opened {
            Ok(project) => project,
            Err(error) => {
                orchestrator.shutdown().await;
                return Err(error.into());
            }
        };
        let serving = serve(place.home.path(), &project);
        let within = watchfired::within(orchestrator.clone(), &project);
        let daemon = Daemon::over(within.connection).await?;
        let own = Own { orchestrator, project, telling: within.telling, _serving: serving };
        Ok(Some(Self { daemon, place, own: Some(own) }))
    }

    /// Returns the project, where it is run in this program.
    pub(crate) fn own(&self) -> Option<&ProjectHandle> {
        self.own.as_ref().map(|own| &own.project)
    }

    /// Ends what runs in this program, and no daemon.
    pub(crate) async fn end(self) {
        if let Some(own) = self.own {
            own.orchestrator.shutdown().await;
            // The project is closed now. What the person was not told yet, they are told.
            drop(own.project);
            let _ = own.telling.await;
        }
    }

    /// Returns the id of the project, as requests have it.
    pub(crate) fn project(&self) -> String {
        self.place.id.to_string()
    }

    /// Starts what `request` asks for in the project.
    pub(crate) async fn start(&self, request: StartAgentRequest) -> Result<AgentStatus> {
        let request =
            StartAgentRequest { project_id: self.project(), environment: self.environment(), ..request };
        Ok(self.daemon.agents().start_agent(request).await.map_err(ApiError::from)?.into_inner())
    }

    /// Returns this terminal's variables for the daemon's agents. Agents of this program inherit them anyway.
    fn environment(&self) -> HashMap<String, Vec<u8>> {
        if self.own.is_some() { HashMap::new() } else { environment() }
    }

    /// Asks a run to end. That it has ended by itself is no error.
    pub(crate) async fn stop(&self, run: RunId) {
        let request = proto::StopRunRequest { project_id: self.project(), run_id: run.0 };
        let _ = self.daemon.work().stop_run(request).await;
    }

    /// Answers a question of an agent.
    pub(crate) async fn answer(&self, life: LifeId, question: &Question, text: String) -> Result<()> {
        let (project_id, question_id) = (self.project(), question.id.clone());
        let request = proto::AnswerRequest {
            project_id,
            life_id: life.0,
            question_id,
            text,
            environment: self.environment(),
            question: question.question.clone(),
        };
        self.daemon.work().answer(request).await.map_err(ApiError::from)?;
        Ok(())
    }

    /// Goes on with work that waits for the person.
    pub(crate) async fn resume(&self, life: LifeId) -> Result<()> {
        let (project_id, environment) = (self.project(), self.environment());
        let request = proto::ResumeRequest { project_id, life_id: life.0, environment };
        self.daemon.work().resume(request).await.map_err(ApiError::from)?;
        Ok(())
    }

    /// Merges the finished work of a task.
    pub(crate) async fn merge(&self, request: proto::MergeTaskRequest) -> Result<proto::MergeTaskResponse> {
        let request = proto::MergeTaskRequest { project_id: self.project(), ..request };
        Ok(self.daemon.work().merge_task(request).await.map_err(ApiError::from)?.into_inner())
    }

    /// Takes back what a task has merged.
    pub(crate) async fn undo(&self, request: proto::UndoTaskRequest) -> Result<proto::UndoTaskResponse> {
        let request = proto::UndoTaskRequest { project_id: self.project(), ..request };
        Ok(self.daemon.work().undo_task(request).await.map_err(ApiError::from)?.into_inner())
    }

    /// Removes the branch of a task. Returns true if the branch is gone, and the outcome in words.
    pub(crate) async fn remove_branch(&self, task: TaskNumber, discard: bool) -> Result<(bool, String)> {
        let (project_id, task_number) = (self.project(), wire(task));
        let request = proto::RemoveBranchRequest { project_id, task_number, discard };
        let removed = self.daemon.work().remove_branch(request).await.map_err(ApiError::from)?.into_inner();
        Ok((removed.removed, removed.outcome))
    }

    /// Removes what finished tasks have left.
    pub(crate) async fn prune(&self) -> Result<proto::PruneResponse> {
        let request = proto::PruneRequest { project_id: self.project() };
        Ok(self.daemon.work().prune(request).await.map_err(ApiError::from)?.into_inner())
    }

    /// Lets an agent propose something.
    pub(crate) async fn propose(&self, request: proto::ProposeRequest) -> Result<Proposal> {
        let (project_id, environment) = (self.project(), self.environment());
        let request = proto::ProposeRequest { project_id, environment, ..request };
        let proposed = self.daemon.work().propose(request).await.map_err(ApiError::from)?.into_inner();
        let failed = |error| Error::new(ErrorKind::Internal, "reading a proposal").with_source(error);
        Ok(serde_json::from_str(&proposed.json).map_err(failed)?)
    }

    /// Takes over a proposal. Returns the numbers of its tasks.
    pub(crate) async fn accept(&self, proposal: &Proposal) -> Result<Vec<i32>> {
        let failed = |error| Error::new(ErrorKind::Internal, "writing a proposal").with_source(error);
        let json = serde_json::to_string(proposal).map_err(failed)?;
        let request = proto::AcceptProposalRequest { project_id: self.project(), json };
        let accepted = self.daemon.work().accept_proposal(request).await.map_err(ApiError::from)?;
        Ok(accepted.into_inner().task_numbers)
    }

    /// Returns all tasks with their states, and the files that cannot be read.
    pub(crate) async fn tasks(&self) -> Result<(Vec<TaskInfo>, Vec<Malformed>)> {
        let list = self.place.store.list(&TaskQuery::new()).await?;
        Ok((self.place.infos(list.tasks.into_iter().map(|task| task.value))?, list.malformed))
    }

    /// Returns the tasks in the trash.
    pub(crate) async fn deleted_tasks(&self) -> Result<Vec<TaskInfo>> {
        let list = self.place.store.list(&TaskQuery::new().deleted_only()).await?;
        Ok(self.place.infos(list.tasks.into_iter().map(|task| task.value))?)
    }

    /// Returns the title of a task now, if its file can be read.
    pub(crate) async fn title(&self, task: TaskNumber) -> Option<String> {
        self.place.store.get(task).await.ok().map(|task| task.value.title)
    }

    /// Connects again after the daemon has ended.
    pub(crate) async fn reconnect(&mut self) -> Result<(), ApiError> {
        self.daemon = Daemon::connect(self.place.home.path()).await?;
        Ok(())
    }
}

/// Returns the number of a task as requests have it.
pub(crate) fn wire(task: TaskNumber) -> i32 {
    i32::try_from(task.value()).unwrap_or(i32::MAX)
}
