//! The log of a project, and what a person says to work that waits for them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto;
use watchfire_api::work_proto as proto;
use watchfire_api::work_proto::follow_response::What;
use watchfire_api::work_proto::work_service_server::WorkService;
use watchfire_core::journal::Cursor;
use watchfire_core::model::{Mode, Question};
use watchfire_core::orchestrator::{
    LogStream, MergeOptions, ProjectHandle, Proposal, Seen, TaskInfo, Undone,
};
use watchfire_core::schedule::{Accept, Life, LifeId, LifeState, ResumeTarget, RunId};
use watchfire_core::workspace::Removed;
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_git::GitOptions;
use watchfire_git::diff::{DiffRequest, Part};

use super::agents::variables;
use super::answer;
use super::branches::{in_others, is_merged};
use super::convert::{number, some, wire};
use super::follow::{Opened, Out, Sender, stream};
use crate::{Daemon, Repositories};

/// Pause between two looks at what agents do.
const LOOK: Duration = Duration::from_millis(100);

/// Largest number of lines of a diff.
const DIFF: usize = 20_000;

type Changes = Out<proto::FollowResponse>;
type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    /// Follows the log of one project, or with an empty id the logs of all projects.
    async fn changes(&self, request: proto::FollowRequest) -> Result<Changes> {
        let proto::Client { origin, client_id, version } = request.client.unwrap_or_default();
        let meta = daemon_proto::RequestMeta { origin, client_id, version };
        let watching = |project: &str| Some(self.watchers().add(Some(meta), project));
        if request.project_id.is_empty() {
            let (daemon, cursors, activity) = (self.clone(), request.cursors, request.activity);
            return Ok(stream(self, watching(""), move |send| {
                Box::pin(all(daemon, cursors, activity, send))
            }));
        }
        let project = self.project(&request.project_id).await?;
        // A cursor that means nothing is an error of the call.
        let log = Log::of(&project, &request.cursor, request.activity).await?;
        Ok(stream(self, watching(project.id().as_str()), move |send| Box::pin(log.tell(send))))
    }
}

/// Follows the logs of all projects that are open, now and later.
async fn all(
    daemon: Daemon,
    mut cursors: HashMap<String, String>,
    activity: bool,
    send: Sender<proto::FollowResponse>,
) -> Result<()> {
    let mut opened = Opened::of(&daemon);
    while let Some(projects) = opened.next().await {
        for project in projects {
            let cursor = cursors.remove(project.id().as_str()).unwrap_or_default();
            let log = match Log::of(&project, &cursor, activity).await {
                // It was closed just now.
                Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::TargetOff) => continue,
                log => log?,
            };
            // It ends with its project or with the stream.
            tokio::spawn(log.tell(send.clone()));
        }
    }
    Ok(())
}

/// The log of a project, for one client.
struct Log {
    project: ProjectHandle,
    first: Vec<What>,
    changes: LogStream,
    activity: bool,
}

impl Log {
    async fn of(project: &ProjectHandle, cursor: &str, activity: bool) -> Result<Self> {
        let since = some(cursor).map(str::parse::<Cursor>).transpose()?;
        let subscription = project.subscribe(since).await?;
        let mut snapshot = subscription.snapshot;
        // They can be many, and long.
        snapshot.tasks.clear();
        let state = proto::State {
            cursor: snapshot.cursor.to_string(),
            opened: snapshot.opened.to_string(),
            json: json(&snapshot)?,
        };
        let mut first = vec![What::State(state)];
        first.extend(subscription.expired.map(|_| What::Missed(proto::Missed::default())));
        Ok(Self { project: project.clone(), first, changes: subscription.changes, activity })
    }

    /// Sends everything until the project is closed or the client has gone.
    async fn tell(self, send: Sender<proto::FollowResponse>) -> Result<()> {
        let Self { project, first, mut changes, activity } = self;
        let told = |what| proto::FollowResponse { what: Some(what), project_id: project.id().to_string() };
        for what in first {
            if send.send(Ok(told(what))).await.is_err() {
                return Ok(());
            }
        }
        let mut looks = tokio::time::interval(LOOK);
        let mut shown = HashMap::new();
        loop {
            let what = tokio::select! {
                // Changes first: what an agent does is told between them.
                biased;
                () = send.closed() => return Ok(()),
                seen = changes.next() => match seen {
                    // The project was closed.
                    None => return Ok(()),
                    Some(Seen::Record(record)) => What::Record(proto::Record {
                        cursor: record.cursor.to_string(),
                        json: json(&record)?,
                    }),
                    Some(Seen::Gap(gap)) => What::Missed(proto::Missed { first: gap.from, last: gap.to }),
                    // Files are followed with ProjectService.Subscribe.
                    Some(_) => continue,
                },
                _ = looks.tick(), if activity => {
                    let doing = doing(&project);
                    if doing == shown {
                        continue;
                    }
                    shown.clone_from(&doing);
                    What::Activity(proto::Activity { doing })
                }
            };
            if send.send(Ok(told(what))).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Stops the agent that works on a proposal if the call is dropped before the proposal is there.
struct Generating(Option<(ProjectHandle, Mode)>);

impl Drop for Generating {
    fn drop(&mut self) {
        let Some((project, mode)) = self.0.take() else { return };
        tokio::spawn(async move {
            let ledger = project.ledger().await?;
            for life in ledger.lives.values().filter(|life| life.subject.mode() == mode) {
                project.stop(life.id).await?;
            }
            Ok::<_, Error>(())
        });
    }
}

impl Daemon {
    async fn propose_of(&self, request: proto::ProposeRequest) -> Result<proto::ProposeResponse> {
        let project = self.project(&request.project_id).await?;
        let mode = match request.what.as_str() {
            "definition" => Mode::GenerateDefinition,
            "tasks" => Mode::GenerateTasks,
            other => {
                return Err(Error::new(ErrorKind::InvalidInput, "expected definition or tasks")
                    .with("what", format_args!("{other:?}")));
            }
        };
        let options = self.options(&daemon_proto::StartAgentRequest {
            mode: format!("generate {}", request.what),
            agent: request.agent,
            sandbox: request.sandbox,
            environment: request.environment,
            ..Default::default()
        })?;
        let mut generating = Generating(Some((project.clone(), mode)));
        let proposed = project.generate(mode, options).await;
        generating.0 = None;
        Ok(proto::ProposeResponse { json: json(&proposed?)? })
    }

    async fn accept_of(
        &self,
        request: proto::AcceptProposalRequest,
    ) -> Result<proto::AcceptProposalResponse> {
        let project = self.project(&request.project_id).await?;
        let proposal: Proposal = serde_json::from_str(&request.json).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "not a proposal").with("field", "json").with_source(error)
        })?;
        let created = project.accept(proposal).await?;
        Ok(proto::AcceptProposalResponse { task_numbers: created.into_iter().map(wire).collect() })
    }

    async fn undo_of(&self, request: proto::UndoTaskRequest) -> Result<proto::UndoTaskResponse> {
        let project = self.project(&request.project_id).await?;
        let options = MergeOptions::default().with_into(some(&request.into).map(str::to_owned));
        Ok(match project.undo(number(request.task_number)?, options).await? {
            Undone::Merged { by, state, .. } => proto::UndoTaskResponse {
                task_number: wire(by),
                good: is_merged(&state),
                outcome: state.to_string(),
                conflicts: Vec::new(),
            },
            Undone::Conflicts { by, files, .. } => proto::UndoTaskResponse {
                task_number: wire(by),
                good: false,
                outcome: "later work has changed the same places".to_owned(),
                conflicts: files.iter().map(ToString::to_string).collect(),
            },
            other => {
                return Err(Error::new(ErrorKind::Internal, format!("an unknown outcome: {other:?}")));
            }
        })
    }

    async fn merge_of(&self, request: proto::MergeTaskRequest) -> Result<proto::MergeTaskResponse> {
        let project = self.project(&request.project_id).await?;
        let accept = Accept::default()
            .with_marks(request.accept_marks)
            .with_protected(request.accept_protected)
            .with_commands(request.accept_commands);
        let into = some(&request.into).map(str::to_owned);
        let options = MergeOptions::default().with_into(into).with_accept(accept);
        let state = project.merge_with(number(request.task_number)?, options).await?;
        let cure = match &state {
            LifeState::Held { by, .. } | LifeState::Incomplete { by, .. } => by.kind.cure(),
            _ => "",
        };
        let (good, outcome) = (is_merged(&state), state.to_string());
        Ok(proto::MergeTaskResponse { good, outcome, cure: cure.to_owned() })
    }

    async fn remove_of(&self, request: proto::RemoveBranchRequest) -> Result<proto::RemoveBranchResponse> {
        let project = self.project(&request.project_id).await?;
        let removed = project.remove_branch(number(request.task_number)?, request.discard).await?;
        let (removed, outcome) = match removed {
            Removed::Gone { rescued: Some(rescued), .. } => {
                (true, format!("deleted, kept as {}", rescued.name))
            }
            Removed::Kept { reason, .. } => (false, format!("kept: {reason}")),
            _ => (true, "deleted".to_owned()),
        };
        Ok(proto::RemoveBranchResponse { removed, outcome })
    }

    async fn diff_of(&self, request: proto::DiffRequest) -> Result<proto::DiffResponse> {
        let project = self.project(&request.project_id).await?;
        let task = number(request.task_number)?;
        let others = project.store().project().await?.value.repositories;
        let others: Vec<_> = others.into_iter().map(PathBuf::from).collect();
        let options = GitOptions::default();
        let repositories = Repositories::open_with(self.home(), project.root(), &others, options).await?;
        // A task without a file may have work all the same.
        let info = match project.store().get(task).await {
            Ok(task) => project.infos(vec![task.value]).await?.pop(),
            Err(_) => None,
        };
        let info = info.as_ref();
        let request = DiffRequest::new(task)
            .with_merged(info.and_then(TaskInfo::merged).map(str::to_owned))
            .with_last_merge(info.and_then(TaskInfo::last_merge).map(|merge| merge.commit));
        let mut lines = Vec::new();
        for (at, diff) in repositories.diffs(&request).await? {
            if !at.as_os_str().is_empty() {
                // A repository in which nothing is changed is not worth a heading.
                if diff.total_files == 0 {
                    continue;
                }
                lines.push((Part::Note, format!("in {}:", at.display())));
            }
            lines.extend(diff.lines());
        }
        let more = lines.len().saturating_sub(DIFF);
        lines.truncate(DIFF);
        lines.extend((more > 0).then(|| (Part::Note, format!("… and {more} more lines"))));
        let told = |(part, text)| {
            let part = match part {
                Part::File => proto::DiffPart::File,
                Part::Hunk => proto::DiffPart::Hunk,
                Part::Added => proto::DiffPart::Added,
                Part::Deleted => proto::DiffPart::Deleted,
                Part::Note => proto::DiffPart::Note,
                _ => proto::DiffPart::Unspecified,
            };
            proto::DiffLine { part: part.into(), text }
        };
        Ok(proto::DiffResponse { lines: lines.into_iter().map(told).collect() })
    }

    async fn prune_of(&self, project: &str) -> Result<proto::PruneResponse> {
        let pruned = self.project(project).await?.prune().await?;
        Ok(proto::PruneResponse { removed: pruned.removed, kept: pruned.kept })
    }
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::Internal, "writing a change as JSON").with_source(error))
}

/// Gives a life the variables of the caller, if it sent some.
async fn equip(project: &ProjectHandle, life: u64, environment: &HashMap<String, Vec<u8>>) -> Result<()> {
    match environment.is_empty() {
        true => Ok(()),
        false => project.equip(LifeId(life), variables(environment)?).await,
    }
}

/// Returns the lives whose secrets went with a restart. Others keep the variables that they were started with.
async fn lost_their_secrets(project: &ProjectHandle) -> Result<Vec<u64>> {
    let lives = project.subscribe(None).await?.snapshot.lives;
    let has_lost = |life: &Life| life.options.environment.as_ref().is_some_and(|own| !own.lost().is_empty());
    Ok(lives.iter().filter(|life| has_lost(life)).map(|life| life.id.0).collect())
}

fn doing(project: &ProjectHandle) -> HashMap<String, String> {
    let sessions = project.sessions().into_iter().filter(|session| !session.has_ended());
    let each = sessions.map(|session| (session.info().id.to_string(), session.doing()));
    each.filter(|(_, doing)| !doing.is_empty()).collect()
}

#[tonic::async_trait]
impl WorkService for Daemon {
    type FollowStream = Changes;

    async fn follow(&self, request: Request<proto::FollowRequest>) -> Answer<Changes> {
        answer(self.changes(request.into_inner()).await)
    }

    async fn stop_run(&self, request: Request<proto::StopRunRequest>) -> Answer<proto::StopRunResponse> {
        let request = request.into_inner();
        let stop = async {
            self.project(&request.project_id).await?.run_handle(RunId(request.run_id)).stop();
            Ok(proto::StopRunResponse {})
        };
        answer(stop.await)
    }

    async fn answer(&self, request: Request<proto::AnswerRequest>) -> Answer<proto::AnswerResponse> {
        let proto::AnswerRequest { project_id, life_id, question_id, text, environment, question } =
            request.into_inner();
        let say = async {
            let project = self.project(&project_id).await?;
            equip(&project, life_id, &environment).await?;
            project.answer_to(LifeId(life_id), &Question::new(question_id, question), text).await?;
            Ok(proto::AnswerResponse {})
        };
        answer(say.await)
    }

    async fn resume(&self, request: Request<proto::ResumeRequest>) -> Answer<proto::ResumeResponse> {
        let proto::ResumeRequest { project_id, life_id, environment } = request.into_inner();
        let resume = async {
            let project = self.project(&project_id).await?;
            let target = match life_id {
                0 => {
                    for life in lost_their_secrets(&project).await? {
                        match equip(&project, life, &environment).await {
                            // It has ended meanwhile.
                            Err(error) if error.kind() == ErrorKind::NotFound => {}
                            equipped => equipped?,
                        }
                    }
                    ResumeTarget::All
                }
                life => {
                    equip(&project, life, &environment).await?;
                    ResumeTarget::Life(LifeId(life))
                }
            };
            project.resume(target).await?;
            Ok(proto::ResumeResponse {})
        };
        answer(resume.await)
    }

    async fn ended_chats(
        &self,
        request: Request<proto::EndedChatsRequest>,
    ) -> Answer<proto::EndedChatsResponse> {
        let ended = async {
            let chats = self.project(&request.into_inner().project_id).await?.ended_chats().await?;
            let chats = chats.into_iter().map(|chat| proto::EndedChat {
                session_id: chat.session.to_string(),
                agent: chat.agent.to_string(),
                ended_at: chat.ended_at.to_string(),
                place: if chat.place.is_root() { String::new() } else { "worktree".to_owned() },
                last_words: chat.last_words,
            });
            Ok(proto::EndedChatsResponse { chats: chats.collect() })
        };
        answer(ended.await)
    }

    async fn propose(&self, request: Request<proto::ProposeRequest>) -> Answer<proto::ProposeResponse> {
        answer(self.propose_of(request.into_inner()).await)
    }

    async fn accept_proposal(
        &self,
        request: Request<proto::AcceptProposalRequest>,
    ) -> Answer<proto::AcceptProposalResponse> {
        answer(self.accept_of(request.into_inner()).await)
    }

    async fn undo_task(&self, request: Request<proto::UndoTaskRequest>) -> Answer<proto::UndoTaskResponse> {
        answer(self.undo_of(request.into_inner()).await)
    }

    async fn merge_task(
        &self,
        request: Request<proto::MergeTaskRequest>,
    ) -> Answer<proto::MergeTaskResponse> {
        answer(self.merge_of(request.into_inner()).await)
    }

    async fn remove_branch(
        &self,
        request: Request<proto::RemoveBranchRequest>,
    ) -> Answer<proto::RemoveBranchResponse> {
        answer(self.remove_of(request.into_inner()).await)
    }

    async fn list_other_branches(
        &self,
        request: Request<proto::ListOtherBranchesRequest>,
    ) -> Answer<proto::ListOtherBranchesResponse> {
        let listed = async {
            let project = self.project(&request.get_ref().project_id).await?;
            Ok(proto::ListOtherBranchesResponse { branches: in_others(&project).await? })
        };
        answer(listed.await)
    }

    async fn diff(&self, request: Request<proto::DiffRequest>) -> Answer<proto::DiffResponse> {
        answer(self.diff_of(request.into_inner()).await)
    }

    async fn prune(&self, request: Request<proto::PruneRequest>) -> Answer<proto::PruneResponse> {
        answer(self.prune_of(&request.get_ref().project_id).await)
    }

    async fn end_agents(&self, _: Request<proto::EndAgentsRequest>) -> Answer<proto::EndAgentsResponse> {
        self.end_agents_with_it();
        answer(Ok(proto::EndAgentsResponse {}))
    }
}
