//! Agents and their terminals.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use tonic::{Request, Response, Status};
use watchfire_api::daemon_proto as proto;
use watchfire_api::daemon_proto::agent_service_server::AgentService;
use watchfire_core::model::SessionId;
use watchfire_core::orchestrator::{ChatRequest, ProjectHandle, RunRequest};
use watchfire_core::sandbox::{Enforcement, SandboxChoice};
use watchfire_core::schedule::{
    CallerEnvironment, ChatPlace, CommandId, Life, ResumeTarget, RunOptions, Subject,
};
use watchfire_core::session::Session;
use watchfire_core::terminal::Size;
use watchfire_core::{Error, ErrorKind, Result};
use watchfire_term::diff;

use super::convert::{number, numbers, some};
use super::follow::{Issues, RawOutput, Screens, screens};
use super::report::require_git;
use super::{answer, blocking, status};
use crate::Daemon;

/// Lines of the scrollback in one answer, where the request has no limit, and the most.
const LINES: (u32, u32) = (1_000, 10_000);

type Answer<T> = std::result::Result<Response<T>, Status>;

impl Daemon {
    async fn start_agent_of(&self, request: proto::StartAgentRequest) -> Result<proto::AgentStatus> {
        // Ours: that of the caller, who looked for its own, may be elsewhere.
        blocking(require_git).await?;
        let project = self.project(&request.project_id).await?;
        let options = self.options(&request)?;
        let command = some(&request.idempotency_key).map(CommandId::new).transpose()?;
        let mut run = match request.mode.as_str() {
            "chat" => {
                let mut chat = ChatRequest::new();
                (chat.options, chat.command) = (options, command);
                project.chat(chat).await?;
                return status::of(&project).await;
            }
            "task" if request.further_tasks.is_empty() => RunRequest::task(number(request.task_number)?),
            "task" => {
                let first = number(request.task_number)?;
                RunRequest::tasks(numbers(&request.further_tasks)?.into_iter().chain([first]))
            }
            "start-all" => RunRequest::all(),
            "wildfire" => RunRequest::wildfire(),
            other => {
                let message = "not a mode, expected chat, task, start-all or wildfire";
                return Err(
                    Error::new(ErrorKind::InvalidInput, message).with("mode", format_args!("{other:?}"))
                );
            }
        };
        let is_new = match &command {
            Some(command) => !project.ledger().await?.commands.contains_key(command),
            None => true,
        };
        (run.options, run.command) = (options, command);
        let run = project.run(run).await?;
        // Only now: a request that is refused ends nothing, and a repeated one no chat that was begun since. Nor does a run of all tasks of
        // which none is ready.
        let begins = async {
            let ledger = project.ledger().await?;
            Ok::<_, Error>(ledger.lives.values().any(|life| life.run == Some(run.id())))
        };
        if is_new && (request.mode != "start-all" || begins.await?) {
            end_chats(&project).await?;
        }
        Ok(proto::AgentStatus { run_id: run.id().0, ..status::of(&project).await? })
    }

    /// Returns the overrides of a request. They cannot confine an agent less than the settings do, unless the daemon trusts
    /// its client.
    pub(super) fn options(&self, request: &proto::StartAgentRequest) -> Result<RunOptions> {
        let mut options = RunOptions::default();
        if let Some(name) = some(&request.sandbox) {
            options.sandbox = self.orchestrator().sandboxes().parse(name)?;
        }
        let loosens = request.best_effort || matches!(options.sandbox, Some(SandboxChoice::None));
        if loosens && !self.trusts() {
            return Err(Error::new(
                ErrorKind::PermissionDenied,
                "the daemon runs no agent without a sandbox",
            )
            .with("hint", format_args!("watchfire daemon stop --agents, then {}", embedded(request))));
        }
        if request.best_effort {
            options.enforcement = Enforcement::BestEffort;
        }
        options.place = place(&request.place)?;
        options.resume = some(&request.resume).map(|id| SessionId::try_from(id.to_owned())).transpose()?;
        options.note = some(&request.note).map(str::to_owned);
        options.merge = request.merge;
        if !request.environment.is_empty() {
            options.environment = Some(CallerEnvironment::new(variables(&request.environment)?));
        }
        options.agent = some(&request.agent).map(str::parse).transpose()?;
        if request.rows > 0 && request.cols > 0 {
            options.size = size(request.rows, request.cols)?;
        }
        Ok(options)
    }

    /// Returns a session: the named one, or the one of the project that started last.
    pub(crate) async fn session(&self, project: &str, session: &str) -> Result<Session> {
        let project = self.project(project).await?;
        current(&project, session)?.ok_or_else(|| {
            Error::new(ErrorKind::TargetOff, "no agent is running").with("project", project.id())
        })
    }

    /// Stops one session, and waits for its end. One that has ended needs nothing.
    async fn stop_one(&self, project: &str, session: &str) -> Result<proto::AgentStatus> {
        let project = self.project(project).await?;
        let Some(running) = project.session(&session.parse()?) else { return status::of(&project).await };
        let ledger = project.ledger().await?;
        let is_its = |life: &&Life| life.session.as_ref().is_some_and(|it| it.id == running.info().id);
        match ledger.lives.values().find(is_its) {
            Some(life) => project.stop(life.id).await?,
            None => running.stop(),
        }
        running.ended().await;
        status::of(&project).await
    }

    async fn stop_all(&self, project: &str) -> Result<proto::AgentStatus> {
        let project = self.project(project).await?;
        project.stop_all().await?;
        for session in project.sessions() {
            session.ended().await;
        }
        status::of(&project).await
    }
}

/// Returns the command of a request, as one that the daemon does not run.
fn embedded(request: &proto::StartAgentRequest) -> String {
    let tasks = [request.task_number].into_iter().chain(request.further_tasks.iter().copied());
    let tasks = || tasks.map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    let command = match request.mode.as_str() {
        "task" if !request.note.is_empty() => format!("send-back {} TEXT", tasks()),
        "task" => format!("run {}", tasks()),
        "start-all" => "run all".to_owned(),
        mode => mode.to_owned(),
    };
    format!("watchfire {command} --embedded --no-sandbox")
}

/// Returns the variables of a caller, of which none can be two.
pub(super) fn variables(variables: &HashMap<String, Vec<u8>>) -> Result<Vec<(OsString, OsString)>> {
    let is_sound = |(name, value): (&String, &Vec<u8>)| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains(&0)
    };
    if !variables.iter().all(is_sound) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "a variable has a name without `=`, and no zero bytes",
        )
        .with("field", "environment"));
    }
    let each = variables.iter().map(|(name, value)| (name.into(), OsString::from_vec(value.clone())));
    Ok(each.collect())
}

pub(super) fn place(word: &str) -> Result<ChatPlace> {
    match word {
        "" => Ok(ChatPlace::Root),
        "worktree" => Ok(ChatPlace::Worktree),
        "fresh-worktree" => Ok(ChatPlace::FreshWorktree),
        other => {
            let message = "not a place of a chat, expected worktree or fresh-worktree";
            Err(Error::new(ErrorKind::InvalidInput, message).with("place", format_args!("{other:?}")))
        }
    }
}

/// Ends the chats of a project: a task that is started takes the place of its chat.
async fn end_chats(project: &ProjectHandle) -> Result<()> {
    let ledger = project.ledger().await?;
    for life in ledger.lives.values().filter(|life| life.subject == Subject::Chat) {
        project.stop(life.id).await?;
        let session = life.session.as_ref().and_then(|session| project.session(&session.id));
        if let Some(session) = session {
            session.ended().await;
        }
    }
    Ok(())
}

/// Returns the named session, or if none is named the running one that started last.
pub(super) fn current(project: &ProjectHandle, named: &str) -> Result<Option<Session>> {
    if let Some(named) = some(named) {
        let id: SessionId = named.parse()?;
        return match project.session(&id) {
            Some(session) => Ok(Some(session)),
            None => Err(Error::new(ErrorKind::TargetOff, "the session has ended").with("session", id)),
        };
    }
    let running = project.sessions().into_iter().filter(|session| !session.has_ended());
    Ok(running.max_by(|a, b| a.info().started_at.cmp(&b.info().started_at)))
}

pub(crate) fn size(rows: u32, cols: u32) -> Result<Size> {
    match (u16::try_from(rows), u16::try_from(cols)) {
        (Ok(rows @ 1..=1000), Ok(cols @ 1..=1000)) => Ok(Size::new(cols, rows)),
        _ => Err(Error::new(ErrorKind::InvalidInput, "a terminal has 1 to 1000 rows and columns")
            .with("rows", rows)
            .with("cols", cols)),
    }
}

#[tonic::async_trait]
impl AgentService for Daemon {
    type SubscribeScreenStream = Screens;
    type SubscribeRawOutputStream = RawOutput;
    type SubscribeAgentIssuesStream = Issues;

    async fn start_agent(&self, request: Request<proto::StartAgentRequest>) -> Answer<proto::AgentStatus> {
        answer(self.start_agent_of(request.into_inner()).await)
    }

    async fn stop_agent(&self, request: Request<proto::ProjectId>) -> Answer<proto::AgentStatus> {
        let request = request.into_inner();
        answer(match some(&request.session_id) {
            Some(session) => self.stop_one(&request.project_id, session).await,
            None => self.stop_all(&request.project_id).await,
        })
    }

    async fn get_agent_status(&self, request: Request<proto::ProjectId>) -> Answer<proto::AgentStatus> {
        let asked = async { status::of(&self.project(&request.get_ref().project_id).await?).await };
        answer(asked.await)
    }

    async fn subscribe_screen(&self, request: Request<proto::SubscribeScreenRequest>) -> Answer<Screens> {
        answer(screens(self, request.into_inner()).await)
    }

    async fn subscribe_raw_output(
        &self,
        request: Request<proto::SubscribeRawOutputRequest>,
    ) -> Answer<RawOutput> {
        let request = request.into_inner();
        let follow = async {
            let project = self.project(&request.project_id).await?;
            super::follow::raw_output(self, project, request)
        };
        answer(follow.await)
    }

    async fn get_scrollback(
        &self,
        request: Request<proto::ScrollbackRequest>,
    ) -> Answer<proto::ScrollbackLines> {
        let request = request.into_inner();
        let read = async {
            let session = self.session(&request.project_id, &request.session_id).await?;
            let limit = if request.limit == 0 { LINES.0 } else { request.limit.min(LINES.1) };
            session.caught_up().await;
            let kept = session.snapshot().scrollback.clone();
            let end = request.offset.saturating_add(limit.into()).clamp(kept.start, kept.end);
            let lines: Vec<_> = session.scrollback(request.offset..end).iter().map(diff::line).collect();
            // What is not kept any more is left out at the beginning, also what went since the first look.
            let offset = end.saturating_sub(lines.len() as u64);
            Ok(proto::ScrollbackLines { lines, offset, total: session.snapshot().scrollback.end })
        };
        answer(read.await)
    }

    async fn send_input(&self, request: Request<proto::SendInputRequest>) -> Answer<()> {
        let request = request.into_inner();
        let write = async {
            let session = self.session(&request.project_id, &request.session_id).await?;
            session.write(request.data).await
        };
        answer(write.await)
    }

    async fn resize(&self, request: Request<proto::ResizeRequest>) -> Answer<()> {
        let request = request.into_inner();
        let resize = async {
            let size = size(request.rows, request.cols)?;
            self.session(&request.project_id, &request.session_id).await?.resize(size).await
        };
        answer(resize.await)
    }

    async fn subscribe_agent_issues(
        &self,
        request: Request<proto::SubscribeAgentIssuesRequest>,
    ) -> Answer<Issues> {
        let follow = async {
            let request = request.into_inner();
            let project = self.project(&request.project_id).await?;
            super::follow::issues(self, project, request.meta).await
        };
        answer(follow.await)
    }

    async fn resume_agent(&self, request: Request<proto::ProjectId>) -> Answer<proto::AgentStatus> {
        let resume = async {
            let project = self.project(&request.get_ref().project_id).await?;
            project.resume(ResumeTarget::All).await?;
            status::of(&project).await
        };
        answer(resume.await)
    }
}
