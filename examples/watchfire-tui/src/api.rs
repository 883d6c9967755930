//! The daemon: its news become messages, and commands become calls.

use std::collections::HashMap;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tonic::{Code, Status, Streaming};
use watchfire_client::daemon_proto as proto;
use watchfire_client::{ApiError, Daemon, environment, talk_proto, work_proto};
use watchfire_core::terminal::{Line, Size, Snapshot, Terminal as _};
use watchfire_term::{Emulator, wire};

use crate::find;
use crate::message::{Command, Message};
use crate::model::{Accepted, Details};
use crate::syntax;

/// Pause between two tries to reach the daemon.
const AGAIN: Duration = Duration::from_secs(3);
/// Changes within this time are read at once.
const TOGETHER: Duration = Duration::from_millis(30);
/// Code of the error that says that an agent's program is not there.
const MISSING: &str = "program_missing";
/// Code of the error that says that another program has the project.
const LOCKED: &str = "locked";
/// Code of the error that says that a chat is open already.
const BUSY: &str = "busy";
/// Time in which a daemon that does not answer may still say why.
const REASON: Duration = Duration::from_millis(500);

/// A command, and the session whose terminal was shown when it was given.
pub(crate) type ForSession = (String, Command);

/// Finds the daemon, or starts it.
pub type Connect =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Daemon, ApiError>> + Send>> + Send + Sync>;

/// Chats that start by themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chats {
    /// One as soon as the project is followed.
    pub(crate) first: bool,
    /// One after each chain.
    pub(crate) after_chains: bool,
}

/// Returns true for the end of a chain. One that a person stopped, or that goes on with the next daemon, is none.
fn ends_chain(event: &proto::Event) -> bool {
    match &event.payload {
        Some(proto::event::Payload::Agent(run)) if event.event_type == "run_over" => {
            run.state == "ended" && matches!(run.mode.as_str(), "start-all" | "wildfire")
        }
        _ => false,
    }
}

/// The way to the daemon. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    project: String,
    messages: mpsc::UnboundedSender<Message>,
    /// The daemon, while it answers.
    daemon: watch::Sender<Option<Daemon>>,
    /// The session whose screen is asked for. Empty for the newest.
    followed: watch::Sender<String>,
    /// The sessions whose screens are shown side by side.
    watched: watch::Sender<Vec<String>>,
}

impl Api {
    pub(crate) fn new(project: String, messages: mpsc::UnboundedSender<Message>) -> Self {
        let (followed, watched) = Default::default();
        Self { project, messages, daemon: watch::Sender::new(None), followed, watched }
    }

    fn tell(&self, message: Message) {
        // An error means that the program ends.
        let _ = self.messages.send(message);
    }

    fn id(&self) -> proto::ProjectId {
        proto::ProjectId { meta: Some(meta()), project_id: self.project.clone(), session_id: String::new() }
    }

    /// Keeps the connection: finds or starts the daemon, follows it, and tries again when it has gone.
    pub(crate) async fn keep(self, connect: Connect, mut chats: Chats) {
        loop {
            match connect().await {
                Ok(daemon) => {
                    let ended = self.follow(&daemon, &mut chats).await;
                    self.daemon.send_replace(None);
                    let is_end =
                        ended.code() == Code::Unavailable && ended.message().contains("shutting down");
                    self.tell(if is_end { Message::ShutDown } else { Message::Disconnected });
                    if is_end {
                        return;
                    }
                }
                Err(error) => {
                    self.tell(Message::Disconnected);
                    self.tell(Message::Failed(error.message));
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Follows the project until the connection ends, and returns the reason.
    async fn follow(&self, daemon: &Daemon, chats: &mut Chats) -> Status {
        let request = proto::SubscribeRequest { meta: Some(meta()), project_id: self.project.clone() };
        // Another project can be gone to, whatever is wrong with this one.
        self.daemon.send_replace(Some(daemon.clone()));
        let mut events = match daemon.projects().subscribe(request).await {
            Ok(events) => events.into_inner(),
            Err(error) => {
                self.tell(Message::Failed(words_of(error.clone())));
                if error.code() != Code::Unavailable {
                    tokio::time::sleep(AGAIN).await;
                }
                return error;
            }
        };
        // After the subscription, so that nothing is missed in between.
        if let Err(error) = self.refresh(daemon).await {
            self.tell(Message::Failed(words_of(error.clone())));
            return error;
        }
        self.tell(Message::Connected);
        if std::mem::take(&mut chats.first) {
            self.start_chat(daemon, Message::NoAgent).await;
        }
        let screens = tokio::spawn(self.clone().screens(daemon.clone()));
        let tiles = tokio::spawn(self.clone().tiles(daemon.clone()));
        let ended = 'following: loop {
            let mut next = events.message().await;
            let mut is_over = false;
            loop {
                is_over |= next.as_ref().is_ok_and(|it| it.as_ref().is_some_and(ends_chain));
                if let Some(ended) = self.news(next) {
                    break 'following ended;
                }
                // One change seldom comes alone.
                match tokio::time::timeout(TOGETHER, events.message()).await {
                    Ok(more) => next = more,
                    Err(_) => break,
                }
            }
            if let Err(error) = self.refresh(daemon).await {
                // The stream knows better why the daemon does not answer.
                let reason = async {
                    loop {
                        if let Some(ended) = self.news(events.message().await) {
                            return ended;
                        }
                    }
                };
                break tokio::time::timeout(REASON, reason).await.unwrap_or_else(|_| {
                    self.tell(Message::Failed(words_of(error.clone())));
                    error
                });
            }
            if is_over && chats.after_chains {
                self.start_chat(daemon, Message::NotStarted).await;
            }
        };
        screens.abort();
        tiles.abort();
        ended
    }

    /// Passes on words for the person; all else is read anew. Returns the reason why the stream has ended, if it has.
    fn news(&self, next: Result<Option<proto::Event>, Status>) -> Option<Status> {
        match next {
            Ok(Some(proto::Event { payload: Some(proto::event::Payload::Message(words)), .. })) => {
                self.tell(Message::Notice(words));
                None
            }
            Ok(Some(_)) => None,
            Ok(None) => Some(Status::unavailable("the stream has ended")),
            Err(error) => Some(error),
        }
    }

    /// Reads everything anew.
    async fn refresh(&self, daemon: &Daemon) -> Result<(), Status> {
        let list = proto::ListTasksRequest {
            meta: Some(meta()),
            project_id: self.project.clone(),
            ..Default::default()
        };
        let project = daemon.projects().get_project(self.id()).await?.into_inner();
        let proto::TaskList { tasks, malformed } = daemon.tasks().list_tasks(list).await?.into_inner();
        let status = daemon.agents().get_agent_status(self.id()).await?.into_inner();
        self.tell(Message::Project(Box::new(project)));
        self.tell(Message::Malformed(malformed));
        self.tell(Message::Tasks(tasks));
        self.tell(Message::Status(Box::new(status)));
        Ok(())
    }

    /// Starts a chat, unless something runs already. If its agent is not installed, sends `missing`.
    async fn start_chat(&self, daemon: &Daemon, missing: fn(String) -> Message) {
        let idle = daemon.agents().get_agent_status(self.id()).await;
        if idle.is_ok_and(|status| status.get_ref().all.is_empty()) {
            let chat = Command::StartAgent { mode: "chat", tasks: Vec::new() };
            match self.answer(daemon, String::new(), chat).await {
                Ok(message) => message.into_iter().for_each(|message| self.tell(message)),
                Err(error) if ApiError::from(error.clone()).code == MISSING => {
                    self.tell(missing(words_of(error)));
                }
                // Another screen was faster.
                Err(error) if ApiError::from(error.clone()).code == BUSY => {}
                Err(error) => self.tell(Message::NotStarted(words_of(error))),
            }
        }
    }

    /// Follows the screen of the chosen session, or of the newest one and each after it.
    async fn screens(self, daemon: Daemon) {
        let mut followed = self.followed.subscribe();
        loop {
            let session = followed.borrow_and_update().clone();
            tokio::select! {
                () = self.screen(&daemon, session) => {
                    // A named session has ended. The newest is asked for next, once its end is known.
                    if followed.changed().await.is_err() {
                        return;
                    }
                }
                changed = followed.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    /// Follows the screens that are shown side by side.
    async fn tiles(self, daemon: Daemon) {
        let mut watched = self.watched.subscribe();
        // They end with this task, and with the tile that they are for.
        let (mut following, mut handles) = (JoinSet::new(), HashMap::<String, AbortHandle>::new());
        loop {
            let wanted = watched.borrow_and_update().clone();
            handles.retain(|session, handle| {
                let is_wanted = wanted.contains(session);
                if !is_wanted {
                    handle.abort();
                }
                is_wanted
            });
            for session in wanted {
                handles.entry(session.clone()).or_insert_with(|| {
                    let (api, daemon) = (self.clone(), daemon.clone());
                    following.spawn(async move { api.tile(&daemon, session).await })
                });
            }
            if watched.changed().await.is_err() {
                return;
            }
        }
    }

    /// Follows the screen of `session` until the session ends.
    async fn tile(&self, daemon: &Daemon, session: String) {
        let tell = |message| match message {
            Message::Screen { session, snapshot } => {
                self.tell(Message::Tile { session, snapshot });
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        };
        self.subscribe(daemon, session, tell).await;
    }

    /// Follows the screen of a session until the session ends, or without an id that of the newest one, and of each after it.
    async fn screen(&self, daemon: &Daemon, session: String) {
        let tell = |message| {
            self.tell(message);
            ControlFlow::Continue(())
        };
        self.subscribe(daemon, session, tell).await;
    }

    /// Forwards the screens of a session until it ends or `tell` wants no more. Without an id, follows the newest session and each
    /// one after it. Subscribes again when the stream breaks.
    async fn subscribe(
        &self,
        daemon: &Daemon,
        session_id: String,
        mut tell: impl FnMut(Message) -> ControlFlow<()>,
    ) {
        let request = proto::SubscribeScreenRequest {
            meta: Some(meta()),
            project_id: self.project.clone(),
            session_id,
            format: proto::ScreenFormat::Changes.into(),
        };
        loop {
            match daemon.agents().subscribe_screen(request.clone()).await {
                Ok(screens) => match pass_on(screens.into_inner(), &mut tell).await {
                    Ok(()) => return,
                    Err(Some(words)) => self.tell(Message::Failed(words)),
                    Err(None) => {}
                },
                // It ended in the meantime.
                Err(error) if matches!(error.code(), Code::NotFound | Code::FailedPrecondition) => return,
                Err(_) => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Carries out a command; keys and what was printed are of `session`. Keys go one after the other, everything else beside them.
    pub(crate) fn carry_out(
        &self,
        session: String,
        command: Command,
        keys: &mpsc::UnboundedSender<ForSession>,
    ) {
        if let Command::Follow(session) = command {
            self.followed.send_replace(session);
            return;
        }
        if let Command::Watch(sessions) = command {
            self.watched.send_replace(sessions);
            return;
        }
        let queued = match command {
            Command::SendInput(_) | Command::Resize { .. } => Some(session.clone()),
            // Each says the whole order, so that the last one counts.
            Command::ReorderTasks(_) => Some(String::new()),
            _ => None,
        };
        if let Some(queue) = queued {
            // An error means that the program ends.
            let _ = keys.send((queue, command));
            return;
        }
        let Some(daemon) = self.daemon.borrow().clone() else {
            return self.tell(Message::Failed("the daemon does not answer".to_owned()));
        };
        tokio::spawn(self.clone().call(daemon, session, command));
    }

    /// Sends keys, sizes and orders one after the other: an agent that reads nothing holds up only its own.
    pub(crate) async fn send_keys(self, mut keys: mpsc::UnboundedReceiver<ForSession>) {
        // They end with this task.
        let (mut working, mut queues) = (JoinSet::new(), HashMap::<_, mpsc::UnboundedSender<_>>::new());
        while let Some((session, command)) = keys.recv().await {
            let queue = queues.entry(session.clone()).or_insert_with(|| {
                let (queue, queued) = mpsc::unbounded_channel();
                working.spawn(self.clone().send_to(session, queued));
                queue
            });
            // The other end lives as long as this one.
            let _ = queue.send(command);
        }
    }

    async fn send_to(self, session: String, mut keys: mpsc::UnboundedReceiver<Command>) {
        while let Some(command) = keys.recv().await {
            let daemon = self.daemon.borrow().clone();
            match (daemon, &command) {
                (Some(daemon), _) => self.clone().call(daemon, session.clone(), command).await,
                (None, Command::SendInput(_)) => {
                    self.tell(Message::Failed(
                        "the daemon does not answer; what you type goes nowhere".to_owned(),
                    ));
                }
                // It is asked for again.
                (None, Command::Resize { .. }) => {}
                (None, _) => self.tell(Message::Failed("the daemon does not answer".to_owned())),
            }
        }
    }

    async fn call(self, daemon: Daemon, session: String, command: Command) {
        let not = match command {
            Command::StartAgent { .. } | Command::SendBack { .. } | Command::ResumeChat => {
                Message::NotStarted
            }
            Command::CreateTask(_) | Command::UpdateTask(_) | Command::Answer { .. } => Message::NotSaved,
            _ => Message::Failed,
        };
        let is_order = matches!(command, Command::ReorderTasks(_));
        match self.answer(&daemon, session, command).await {
            Ok(Some(message)) => self.tell(message),
            Ok(None) => {}
            Err(error) => {
                self.tell(not(words_of(error)));
                if is_order {
                    // The list shows an order that is not saved.
                    let _ = self.refresh(&daemon).await;
                }
            }
        }
    }

    /// Searches upwards from a line. Returns the number of the first line that contains the text.
    async fn find(
        &self,
        daemon: &Daemon,
        session_id: &str,
        text: &str,
        before: u64,
    ) -> Result<Option<u64>, Status> {
        let page = |offset| {
            let request = proto::ScrollbackRequest {
                meta: Some(meta()),
                project_id: self.project.clone(),
                offset,
                limit: find::PAGE,
                session_id: session_id.to_owned(),
            };
            async move { Ok(daemon.agents().get_scrollback(request).await?.into_inner()) }
        };
        find::upwards(text, before, page).await
    }

    async fn trash(&self, daemon: &Daemon) -> Result<Message, Status> {
        let request = proto::ListTasksRequest {
            meta: Some(meta()),
            project_id: self.project.clone(),
            include_deleted: true,
            ..Default::default()
        };
        Ok(Message::Trash(daemon.tasks().list_tasks(request).await?.into_inner().tasks))
    }

    /// Starts an agent on `tasks`, or on none, as `request` wants it otherwise.
    async fn start(
        &self,
        daemon: &Daemon,
        tasks: &[i32],
        request: proto::StartAgentRequest,
    ) -> Result<Message, Status> {
        let (first, further) = tasks.split_first().map_or((0, &[][..]), |(first, further)| (*first, further));
        let request = proto::StartAgentRequest {
            meta: Some(meta()),
            project_id: self.project.clone(),
            task_number: first,
            further_tasks: further.to_vec(),
            environment: environment(),
            ..request
        };
        let status = daemon.agents().start_agent(request).await?.into_inner();
        let is_there = |task: &&i32| status.all.iter().any(|agent| agent.task_number == **task);
        let words = tasks
            .iter()
            .find(|task| !is_there(task))
            .map(|task| format!("#{task:04} was asked for, and waits for its turn or its agent"));
        self.tell(Message::Status(Box::new(status)));
        Ok(Message::Started(words))
    }

    async fn logs(&self, daemon: &Daemon) -> Result<Message, Status> {
        let request =
            proto::ListLogsRequest { meta: Some(meta()), project_id: self.project.clone(), task_number: 0 };
        Ok(Message::Logs(daemon.logs().list_logs(request).await?.into_inner().logs))
    }

    async fn costs(&self, daemon: &Daemon) -> Result<work_proto::GetCostsResponse, Status> {
        let request = work_proto::GetCostsRequest { project_id: self.project.clone(), by: "task".to_owned() };
        Ok(daemon.reports().get_costs(request).await?.into_inner())
    }

    async fn branches(&self, daemon: &Daemon) -> Result<Message, Status> {
        let own = daemon.branches().list_branches(self.id()).await?.into_inner().branches;
        let request = work_proto::ListOtherBranchesRequest { project_id: self.project.clone() };
        let others = match daemon.work().list_other_branches(request).await {
            Ok(others) => others.into_inner().branches,
            // A daemon of an earlier version.
            Err(status) if status.code() == Code::Unimplemented => Vec::new(),
            Err(status) => return Err(status),
        };
        Ok(Message::Branches(own, others))
    }

    /// Makes the call of a command and returns its answer as a message. Changes arrive separately, as events.
    async fn answer(
        &self,
        daemon: &Daemon,
        session_id: String,
        command: Command,
    ) -> Result<Option<Message>, Status> {
        let (meta, project_id) = (Some(meta()), self.project.clone());
        let task = |task_number| proto::TaskId {
            meta: Some(self::meta()),
            project_id: self.project.clone(),
            task_number,
        };
        Ok(match command {
            Command::CreateTask(request) => {
                let task = daemon.tasks().create_task(*request).await?.into_inner();
                Some(Message::Created(task.task_number))
            }
            Command::UpdateTask(request) => {
                daemon.tasks().update_task(*request).await?;
                Some(Message::Saved)
            }
            Command::DeleteTask(number) => {
                daemon.tasks().delete_task(task(number)).await?;
                None
            }
            Command::RestoreTask(number) => {
                daemon.tasks().restore_task(task(number)).await?;
                Some(self.trash(daemon).await?)
            }
            Command::ListTrash => Some(self.trash(daemon).await?),
            Command::EmptyTrash => {
                daemon.tasks().empty_trash(self.id()).await?;
                Some(Message::Saved)
            }
            Command::GetDiff(task_number) => {
                let request = work_proto::DiffRequest { project_id, task_number };
                let lines = match daemon.work().diff(request).await {
                    Ok(diff) => diff.into_inner().lines,
                    Err(error) => {
                        let text = match error.code() {
                            Code::NotFound => "Nothing yet: no agent has worked on it.".to_owned(),
                            _ => ApiError::from(error).message,
                        };
                        let part = work_proto::DiffPart::Note.into();
                        return Ok(Some(Message::Diff(
                            task_number,
                            vec![work_proto::DiffLine { part, text }],
                        )));
                    }
                };
                self.tell(Message::Diff(task_number, lines.clone()));
                // After it: the text is read meanwhile.
                let inks = tokio::task::spawn_blocking(move || syntax::inks(&lines)).await;
                inks.ok().map(|inks| Message::Inked(task_number, inks))
            }
            Command::ListBranches => Some(self.branches(daemon).await?),
            Command::DeleteBranch { task, discard } => {
                let name = format!("watchfire/{task:04}");
                let request = proto::BranchId { meta, project_id, name, discard };
                daemon.branches().delete_branch(request).await?;
                Some(self.branches(daemon).await?)
            }
            Command::PruneBranches => {
                daemon.branches().prune_branches(self.id()).await?;
                Some(self.branches(daemon).await?)
            }
            Command::GetInbox => {
                let status = daemon.service().get_status(()).await?.into_inner();
                Some(Message::Inbox(status.active_agents))
            }
            Command::ListProjects => {
                Some(Message::Projects(daemon.projects().list_projects(()).await?.into_inner().projects))
            }
            Command::GetCosts => Some(Message::Costs(Box::new(self.costs(daemon).await?))),
            Command::ListHistory => {
                let request = work_proto::ListHistoryRequest { project_id, before: 0, limit: 200 };
                Some(Message::History(daemon.reports().list_history(request).await?.into_inner().works))
            }
            Command::GetDetails(number) => {
                let all = self.costs(daemon).await?.costs;
                let cost = all.into_iter().find(|cost| cost.of == format!("#{number:04}"));
                let cost = cost.map(|cost| format!("{}  {}", cost.amount, cost.tokens)).unwrap_or_default();
                let request =
                    work_proto::GetPolicyRequest { project_id, task_number: number, ..Default::default() };
                // A task without a session has none.
                let policy = daemon.reports().get_policy(request).await.map(tonic::Response::into_inner);
                let refused = policy.map(|policy| policy.refused).unwrap_or_default();
                Some(Message::Details(number, Details { cost, refused }))
            }
            Command::ReorderTasks(task_numbers) => {
                let request = proto::ReorderTasksRequest { meta, project_id, task_numbers };
                daemon.tasks().reorder_tasks(request).await?;
                None
            }
            Command::UpdateProject(request) => {
                daemon.projects().update_project(*request).await?;
                Some(Message::Saved)
            }
            Command::StartAgent { mode, tasks } => {
                let request = proto::StartAgentRequest { mode: mode.to_owned(), ..Default::default() };
                Some(self.start(daemon, &tasks, request).await?)
            }
            Command::SendBack { task, text } => {
                let mode = "task".to_owned();
                let request = proto::StartAgentRequest { mode, note: text, ..Default::default() };
                Some(self.start(daemon, &[task], request).await?)
            }
            Command::ResumeChat => {
                let request = work_proto::EndedChatsRequest { project_id };
                let chats = daemon.work().ended_chats(request).await?.into_inner().chats;
                let Some(last) = chats.into_iter().next() else {
                    return Err(Status::not_found("there is no chat to go on with"));
                };
                let (mode, resume) = ("chat".to_owned(), last.session_id);
                let request = proto::StartAgentRequest { mode, resume, ..Default::default() };
                Some(self.start(daemon, &[], request).await?)
            }
            Command::StopAgent => {
                let status = daemon.agents().stop_agent(self.id()).await?.into_inner();
                Some(Message::Status(Box::new(status)))
            }
            Command::ResumeAgent => {
                let (life_id, environment) = (0, environment());
                let request = work_proto::ResumeRequest { project_id, life_id, environment };
                daemon.work().resume(request).await?;
                let status = daemon.agents().get_agent_status(self.id()).await?.into_inner();
                Some(Message::Status(Box::new(status)))
            }
            Command::SendInput(data) => {
                let request = proto::SendInputRequest { meta, project_id, data, session_id };
                daemon.agents().send_input(request).await?;
                None
            }
            Command::Resize { rows, cols } => {
                let (rows, cols) = (rows.into(), cols.into());
                let request = proto::ResizeRequest { meta, project_id, rows, cols, session_id };
                // The end of the session is seen on its screen.
                let _ = daemon.agents().resize(request).await;
                None
            }
            Command::Answer { task, question, text } => {
                let request = talk_proto::AnswerRequest {
                    project_id,
                    task_number: u32::try_from(task).unwrap_or_default(),
                    conversation_id: question.id,
                    text,
                    question: question.question,
                };
                daemon.talk().answer(request).await?;
                Some(Message::Saved)
            }
            Command::GetScrollback(offset) => {
                let session = session_id.clone();
                let request = proto::ScrollbackRequest { meta, project_id, offset, limit: 0, session_id };
                let lines = daemon.agents().get_scrollback(request).await?.into_inner();
                Some(Message::Scrollback {
                    session,
                    from: lines.offset,
                    lines: lines.lines.iter().map(|line| line_of(line)).collect(),
                })
            }
            Command::Find { text, before } => {
                let line = self.find(daemon, &session_id, &text, before).await?;
                Some(Message::Found { session: session_id, line })
            }
            Command::ListLogs => Some(self.logs(daemon).await?),
            Command::GetLog(log_id) => {
                let request = proto::LogId { meta, project_id, log_id };
                Some(Message::Log(Box::new(daemon.logs().get_log(request).await?.into_inner())))
            }
            Command::DeleteLog(log_id) => {
                daemon.logs().delete_log(proto::LogId { meta, project_id, log_id }).await?;
                Some(self.logs(daemon).await?)
            }
            Command::Undo(number) => {
                let request =
                    work_proto::UndoTaskRequest { project_id, task_number: number, into: String::new() };
                let undone = daemon.work().undo_task(request).await?.into_inner();
                let by = undone.task_number;
                Some(match (undone.good, undone.conflicts.first()) {
                    (true, _) => Message::Saved,
                    (false, Some(file)) => Message::Failed(format!(
                        "later work has changed the same places of {file}: #{by:04} is for an agent"
                    )),
                    (false, None) => Message::Failed(format!("#{by:04} is {}", undone.outcome)),
                })
            }
            Command::MergeTask(number, accepted) => {
                let request = work_proto::MergeTaskRequest {
                    project_id,
                    task_number: number,
                    into: String::new(),
                    accept_marks: accepted == Accepted::Marks,
                    accept_protected: accepted == Accepted::Protected,
                    accept_commands: accepted == Accepted::Commands,
                };
                let merged = daemon.work().merge_task(request).await?.into_inner();
                Some(if merged.good { Message::Saved } else { Message::Failed(merged.outcome) })
            }
            Command::MergeBranch(number) => {
                let name = format!("watchfire/{number:04}");
                let request = proto::MergeBranchRequest { meta, project_id, name, ..Default::default() };
                let branch = daemon.branches().merge_branch(request).await?.into_inner();
                self.tell(match branch.problem.as_str() {
                    "" => Message::Saved,
                    problem => Message::Failed(problem.to_owned()),
                });
                Some(self.branches(daemon).await?)
            }
            // Of the program itself.
            Command::Quit
            | Command::GiveUp(_)
            | Command::Edit(_)
            | Command::Follow(_)
            | Command::Watch(_)
            | Command::Copy(_)
            | Command::OpenProject { .. }
            | Command::Alert(_) => None,
        })
    }
}

/// Forwards screens until their session has ended or `tell` wants no more. Fails if the stream breaks before that, with words if
/// it contained something that is not a screen.
async fn pass_on(
    mut screens: Streaming<proto::ScreenBuffer>,
    tell: &mut impl FnMut(Message) -> ControlFlow<()>,
) -> Result<(), Option<String>> {
    let (mut before, mut is_over) = (None::<Arc<Snapshot>>, false);
    while let Some(buffer) = screens.message().await.map_err(|_| None)? {
        is_over = buffer.end.is_some();
        let message = if let Some(end) = &buffer.end {
            // The next session begins with a whole screen.
            before = None;
            Message::ScreenEnded(end.outcome == "failed" && end.exit_code != 0)
        } else {
            let next = match &before {
                None => wire::decode(&buffer.cells),
                Some(before) => wire::decode_change(before, &buffer.cells),
            };
            let snapshot = Arc::new(next.map_err(|error| Some(error.report()))?);
            before = Some(Arc::clone(&snapshot));
            Message::Screen { session: buffer.session_id, snapshot }
        };
        if tell(message).is_break() {
            return Ok(());
        }
    }
    if is_over { Ok(()) } else { Err(None) }
}

/// Returns an error in words, with what to do about it.
fn words_of(error: Status) -> String {
    let error = ApiError::from(error);
    if let (MISSING, Some(agent)) = (error.code.as_str(), error.details.get("agent")) {
        let hint = error.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
        return format!("{agent} not found. Configure path in settings.{hint}");
    }
    if let (LOCKED, Some(pid)) = (error.code.as_str(), error.details.get("pid")) {
        let message = error.message;
        return format!(
            "{message}, outside of the daemon (pid {pid}). `watchfire watch` shows what its agents do."
        );
    }
    let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", error.message)
}

/// Returns a line of a screen from its text with ANSI looks.
fn line_of(text: &str) -> Arc<Line> {
    const WIDEST: u16 = 1000;
    let mut terminal = Emulator::new(Size::new(WIDEST, 1));
    terminal.process(text.as_bytes());
    terminal.snapshot().lines.first().cloned().unwrap_or_default()
}

/// Says who calls.
fn meta() -> proto::RequestMeta {
    watchfire_client::meta("tui")
}
