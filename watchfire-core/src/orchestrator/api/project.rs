//! The handle of an open project.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::orchestrator::LastHandle;
use super::{ChatRequest, MergeOptions, Run, RunRequest, Snapshot, Subscription, TaskInfo};
use crate::journal::Cursor;
use crate::model::{Mode, ProjectId, Question, SessionId, Task, TaskNumber, TaskStatus};
use crate::orchestrator::effects;
use crate::orchestrator::shared::{Message, ProjectShared, Proposal, archive, shut_down};
use crate::schedule::{
    self, Accepted, CallerEnvironment, CommandId, Ending, Fact, Ledger, Life, LifeId, LifeState, Request,
    ResumeTarget, RunId, RunOptions, Schedule, StopReason, Subject, Wait,
};
use crate::session::Session;
use crate::store::{ProjectPatch, TaskPatch, TaskQuery, TaskStore};
use crate::workspace::{BranchStatus, Pruned, Removed, Workspace};
use crate::{Error, ErrorKind, Result};

/// Time limit for the end of a chat before the next one: its work is kept in a moment.
const CHAT_ENDS: Duration = Duration::from_secs(15);

/// An open project. Cheap to clone.
#[derive(Clone)]
pub struct ProjectHandle(Arc<ProjectShared>, #[expect(dead_code, reason = "held")] Arc<LastHandle>);

/// Handles are equal if the project was not closed and opened again in between.
impl PartialEq for ProjectHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProjectHandle {}

impl ProjectHandle {
    pub(super) fn new(shared: Arc<ProjectShared>, last: Arc<LastHandle>) -> Self {
        Self(shared, last)
    }

    pub(super) fn shared(&self) -> &Arc<ProjectShared> {
        &self.0
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &ProjectId {
        &self.0.id
    }

    /// Returns its root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Returns the store of its tasks.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn TaskStore> {
        &self.0.store
    }

    /// Returns its workspace.
    #[must_use]
    pub fn workspace(&self) -> &Arc<dyn Workspace> {
        &self.0.workspace
    }

    /// Returns the folder of its session logs.
    #[must_use]
    pub fn logs_dir(&self) -> &Path {
        &self.0.logs_dir
    }

    /// Returns the running sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        self.0.sessions()
    }

    /// Returns a session that is running, or among the last that ended.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<Session> {
        self.0.session(id)
    }

    /// Returns how many sessions have begun since the project was opened, those that were taken over included.
    #[must_use]
    pub fn sessions_begun(&self) -> u64 {
        *self.0.begun().borrow()
    }

    /// Returns the sessions that began after the first `seen`, in their order, each with its number. They run or have ended.
    /// `None` if some of them are no longer kept: their logs are.
    #[must_use]
    pub fn sessions_since(&self, seen: u64) -> Option<Vec<(u64, Session)>> {
        self.0.begun_since(seen)
    }

    /// Returns the matching tasks in work order, each with its state.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskInfo>> {
        let list = self.0.store.list(query).await?;
        self.infos(list.tasks.into_iter().map(|task| task.value).collect()).await
    }

    /// Returns these tasks, each with its state.
    ///
    /// # Errors
    /// `target_off` once the orchestrator has shut down.
    pub async fn infos(&self, tasks: Vec<Task>) -> Result<Vec<TaskInfo>> {
        self.read(move |schedule| tasks.into_iter().map(|task| TaskInfo::of(task, schedule)).collect()).await
    }

    /// Returns what is under way, the last that ended, and the latest life of every task.
    ///
    /// # Errors
    /// `target_off` once the orchestrator has shut down.
    pub async fn ledger(&self) -> Result<Ledger> {
        self.read(|schedule| schedule.ledger().clone()).await
    }

    /// Returns a life, running or ended, however long ago.
    ///
    /// # Errors
    /// `not_found`; I/O errors for one that ended long ago.
    pub async fn life(&self, id: LifeId) -> Result<Life> {
        let known = self.read(move |schedule| schedule.ledger().life(id).cloned()).await?;
        match known {
            Some(life) => Ok(life),
            None => archive::read(&self.0, id).await,
        }
    }

    /// Returns a run, under way or ended, however long ago.
    ///
    /// # Errors
    /// `not_found`; I/O errors for one that ended long ago.
    pub async fn run_record(&self, id: RunId) -> Result<schedule::Run> {
        let known = self.read(move |schedule| schedule.ledger().runs.get(&id).cloned()).await?;
        match known {
            Some(run) => Ok(run),
            None => archive::read(&self.0, id).await,
        }
    }

    /// Returns the handle of a run.
    #[must_use]
    pub fn run_handle(&self, id: RunId) -> Run {
        Run::new(id, Arc::clone(&self.0))
    }

    /// Subscribes to the project's log: a snapshot, and all changes after `since`, or after the snapshot. A cursor before
    /// the oldest kept record is [`expired`](Subscription::expired).
    ///
    /// # Errors
    /// `invalid_cursor` for a cursor of another journal or from the future; those of the store.
    pub async fn subscribe(&self, since: Option<Cursor>) -> Result<Subscription> {
        let list = self.0.store.list(&TaskQuery::new()).await?;
        let tasks = list.tasks.into_iter().map(|task| task.value).collect::<Vec<_>>();
        let (reply, subscribed) = oneshot::channel();
        let project = self.0.id.clone();
        self.0.inner.reports.send(Message::Subscribe { project, since, reply });
        let subscribed = subscribed.await.map_err(|_| shut_down())??;
        // Read after the subscription: the tasks may be newer than its cursor, never older.
        let infos = self.infos(tasks).await?;
        let snapshot = Snapshot::new(
            self.0.id.clone(),
            (subscribed.cursor, subscribed.opened),
            infos,
            subscribed.ledger,
        );
        Ok(Subscription { snapshot, expired: subscribed.expired, changes: subscribed.stream })
    }

    /// Runs tasks. A draft that is asked for by its number becomes ready first, and so does a done one that is sent back. What no
    /// task could run without is looked for before anything changes.
    ///
    /// # Errors
    /// `unknown_backend` or `program_missing` if no covered task has an agent that is there; errors of the sandbox and the
    /// settings; `not_found` for a task that does not exist or lies in the trash; `invalid_input` for one that is done.
    pub async fn run(&self, request: RunRequest) -> Result<Run> {
        // A repeated request gets its outcome, whatever is missing by now.
        let is_new = !self.was_decided(request.command.as_ref()).await?;
        let mut reserved = Vec::new();
        if is_new {
            let unready = self.unready(&request).await?;
            effects::preflight(&self.0, &request.options, &request.scope).await?;
            // Before they are ready: the automation, or another run, would start them without these options.
            reserved.extend(request.scope.named().map(|number| ReservedTask::new(&self.0, number)));
            for number in unready {
                let patch = TaskPatch::new().with_status(TaskStatus::Ready);
                self.0.store.update(number, patch, None, None).await?;
            }
        }
        self.know_tasks().await?;
        let RunRequest { scope, options, command } = request;
        let accepted = self.request(command, Request::Run { scope, options }).await?;
        drop(reserved);
        let run = accepted.run.ok_or_else(|| Error::new(ErrorKind::Internal, "a run without an id"))?;
        Ok(Run::new(run, Arc::clone(&self.0)))
    }

    /// Lets the schedule know the tasks as they are now, so that none that was read before decides about what is asked next.
    async fn know_tasks(&self) -> Result<()> {
        // One that was outdated by an effect is read again.
        while !effects::load_board(&self.0).await? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Returns true if a request with this id was decided: by now its task may be done.
    async fn was_decided(&self, command: Option<&CommandId>) -> Result<bool> {
        let Some(command) = command.cloned() else { return Ok(false) };
        self.read(move |schedule| schedule.ledger().commands.contains_key(&command)).await
    }

    /// Returns the named tasks that must become ready first: drafts, and what is sent back.
    async fn unready(&self, request: &RunRequest) -> Result<Vec<TaskNumber>> {
        let mut unready = Vec::new();
        for number in request.scope.named() {
            if self.becomes_ready(number, request.options.note.is_some()).await? {
                unready.push(number);
            }
        }
        Ok(unready)
    }

    /// Returns true if a task must become ready before it can be run.
    async fn becomes_ready(&self, number: TaskNumber, is_sent_back: bool) -> Result<bool> {
        let task = self.0.store.get(number).await?.value;
        if task.is_deleted() {
            return Err(Error::new(ErrorKind::NotFound, "the task is in the trash").with("task", number));
        }
        if is_sent_back && self.read(move |schedule| !schedule.ledger().tasks.contains_key(&number)).await? {
            let error = Error::new(ErrorKind::InvalidInput, "nobody has worked on the task yet: run it");
            return Err(error.with("task", number));
        }
        let has_life = self.read(move |schedule| schedule.ledger().life_of(number).is_some()).await?;
        match task.status {
            TaskStatus::Ready => Ok(false),
            TaskStatus::Draft => Ok(true),
            TaskStatus::Done if is_sent_back && !has_life => Ok(true),
            TaskStatus::Done => {
                // A life that waits for a person continues, although its claim stands in the file.
                if has_life {
                    return Ok(false);
                }
                let error =
                    Error::new(ErrorKind::InvalidInput, "the task is done; set it back to ready first");
                Err(error.with("task", number))
            }
        }
    }

    /// Waits until a task that is about to start has a session. Returns at once for any other task.
    ///
    /// # Errors
    /// The reason why it ends without a session: its error, or `target_off` with its ending.
    pub async fn started(&self, task: TaskNumber) -> Result<()> {
        let starting = self.read(move |schedule| {
            let life = schedule.ledger().life_of(task)?;
            let is_starting = matches!(
                life.state,
                LifeState::Starting | LifeState::Waiting { on: Wait::Turn | Wait::OtherProjects }
            );
            is_starting.then_some(life.id)
        });
        let Some(life) = starting.await? else { return Ok(()) };
        let (reply, session) = oneshot::channel();
        let project = self.0.id.clone();
        self.0.inner.reports.send(Message::AwaitSession { project, life, reply });
        let Err(error) = session.await.map_err(|_| shut_down())? else { return Ok(()) };
        match self.life(life).await {
            Ok(life) if error.kind() == ErrorKind::TargetOff => {
                let error = Error::new(ErrorKind::TargetOff, "the task ended before it had a session");
                Err(error.with("task", task).with("ending", life.state))
            }
            _ => Err(error),
        }
    }

    /// Starts a chat in the project root. Its session may have ended by the time it is returned.
    ///
    /// # Errors
    /// `not_found` for a chat to resume that is not kept; `target_off` for a repeated request whose chat has ended.
    /// Errors that keep a session from starting: an unknown or missing agent, a sandbox that cannot enforce the
    /// policy.
    pub async fn chat(&self, request: ChatRequest) -> Result<Session> {
        let ChatRequest { mut options, command } = request;
        // A repeated request gets its outcome, whatever is missing by now.
        let is_repeated = self.was_decided(command.as_ref()).await?;
        if !is_repeated {
            if let Some(session) = &options.resume {
                let chat = self.ended_chat(session).await?;
                (options.agent, options.place) = (Some(chat.agent), chat.place);
            }
            effects::preflight_session(&self.0, &options).await?;
            self.chat_before().await?;
        }
        let accepted = self.request(command, Request::Chat { options }).await?;
        let life = accepted.life.ok_or_else(|| Error::new(ErrorKind::Internal, "a chat without a life"))?;
        // Accepted means recorded, not started: the session may fail to start, and the caller has to learn
        // why.
        let (reply, session) = oneshot::channel();
        let project = self.0.id.clone();
        self.0.inner.reports.send(Message::AwaitSession { project, life, reply });
        let session = session.await.map_err(|_| shut_down())??;
        match is_repeated && session.has_ended() {
            // Its life follows a moment later.
            true => Err(Error::new(ErrorKind::TargetOff, "the chat has ended").with("life", life)),
            false => Ok(session),
        }
    }

    /// Waits for a chat whose agent has ended: it is over for its person, and closed in a moment.
    async fn chat_before(&self) -> Result<()> {
        let chat = self.read(|schedule| {
            schedule.ledger().lives.values().rfind(|life| life.subject == Subject::Chat).cloned()
        });
        let Some(chat) = chat.await? else { return Ok(()) };
        let session = chat.session.as_ref().and_then(|session| self.session(&session.id));
        let is_over = matches!(chat.state, LifeState::Ending | LifeState::Capturing)
            || session.is_some_and(|session| session.has_ended());
        if !is_over {
            return Ok(());
        }
        let clock = &self.0.inner.clock;
        tokio::select! {
            life = self.settled(chat.id) => life.map(drop),
            // The request says what is open then.
            () = clock.sleep_until(clock.boot_time() + CHAT_ENDS) => Ok(()),
        }
    }

    /// Waits until a life has ended, or waits for a person.
    pub(super) async fn settled(&self, life: LifeId) -> Result<Life> {
        let (reply, settled) = oneshot::channel();
        let project = self.0.id.clone();
        self.0.inner.reports.send(Message::AwaitLife { project, life, reply });
        settled.await.map_err(|_| shut_down())
    }

    /// Lets an agent propose the definition of the project or tasks, and returns what it wrote. The proposal
    /// has no effect before it is [accepted](Self::accept).
    ///
    /// # Errors
    /// `invalid_input` for a mode that generates nothing; `busy` while it is being generated already, or if its agent
    /// waits for a person; `target_off`, `timeout` or `cancelled`, with the ending, if it proposed nothing.
    pub async fn generate(&self, mode: Mode, options: RunOptions) -> Result<Proposal> {
        effects::preflight_session(&self.0, &options).await?;
        let accepted = self.request(None, Request::Generate { mode, options }).await?;
        let life = accepted.life.ok_or_else(|| Error::new(ErrorKind::Internal, "no life"))?;
        let life = self.settled(life).await?;
        match life.ending() {
            Some(Ending::Proposed) => effects::proposal(&self.0, life.subject).await,
            Some(Ending::Error { code, message }) => Err(Error::from_code(code, message.clone())),
            ending => {
                let kind = match ending {
                    Some(Ending::Stopped { .. }) => ErrorKind::Cancelled,
                    Some(Ending::TimedOut { .. }) => ErrorKind::Timeout,
                    Some(_) => ErrorKind::TargetOff,
                    // It waits for a person.
                    None => ErrorKind::Busy,
                };
                Err(Error::new(kind, "nothing was proposed").with("life", life.id).with("state", &life.state))
            }
        }
    }

    /// Takes over a proposal: its definition, and its tasks as drafts, whose numbers it returns.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn accept(&self, proposal: Proposal) -> Result<Vec<TaskNumber>> {
        if let Some(definition) = proposal.definition {
            self.0.store.update_project(ProjectPatch::new().with_definition(definition), None, None).await?;
        }
        let created = effects::create(&self.0, proposal.tasks).await?;
        // A board that was read before the drafts were made must not hide them.
        self.0.store_changed(None);
        Ok(created)
    }

    /// Merges the finished work of a task, also where `auto_merge` is off. It waits for its turn and is verified like
    /// any other. Returns its state once it is merged, has failed, or waits for a person.
    ///
    /// # Errors
    /// `busy` while an agent or a merge is under way for the task; `invalid_input` for a task that is not done, or that
    /// was marked as failed; `not_found` if it has no work; those of the store.
    pub async fn merge(&self, task: TaskNumber) -> Result<LifeState> {
        self.merge_with(task, MergeOptions::default()).await
    }

    /// Does the same as [`merge`](Self::merge), with choices of a person.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub async fn merge_with(&self, task: TaskNumber, options: MergeOptions) -> Result<LifeState> {
        let MergeOptions { into, accept } = options;
        if !self.0.store.get(task).await?.value.claims_success() {
            let error =
                Error::new(ErrorKind::InvalidInput, "only the work of a task that is done can be merged");
            return Err(error.with("task", task).with("hint", "if it is good, mark the task as done first"));
        }
        let target = match into {
            Some(target) => {
                self.let_go(task, &target).await?;
                target
            }
            None => effects::target(&self.0, task).await?,
        };
        self.know_tasks().await?;
        // Last, because held work is tried while the project is opened: it may have been merged since.
        if let Some(how) = self.merged_into(task, &target).await? {
            return Ok(LifeState::Ended { how });
        }
        let accepted = self.request(None, Request::Merge { task, target, accept }).await?;
        let life = accepted.life.ok_or_else(|| Error::new(ErrorKind::Internal, "a merge without a life"))?;
        self.settled(life).await.map(|life| life.state)
    }

    /// Takes work out of what waits for another target than this one: it would be published there.
    async fn let_go(&self, task: TaskNumber, target: &str) -> Result<()> {
        let target = target.to_owned();
        let elsewhere = self.read(move |schedule| {
            let life = schedule.ledger().life_of(task)?;
            match &life.state {
                LifeState::Held { candidate: Some(held), .. } if held.target != target => Some(life.id),
                _ => None,
            }
        });
        if let Some(life) = elsewhere.await? {
            self.stop(life).await?;
            self.settled(life).await?;
        }
        Ok(())
    }

    /// Returns the ending of a task whose work is merged into `target`, unless its branch got commits since.
    ///
    /// # Errors
    /// `not_found` if the task has no branch. A merge would end as failed, though a program of another home may have merged it.
    async fn merged_into(&self, task: TaskNumber, target: &str) -> Result<Option<Ending>> {
        let known = self.read(move |schedule| {
            let ledger = schedule.ledger();
            let ending = || ledger.tasks.get(&task).and_then(|last| last.ending.clone());
            ledger.life_of(task).is_none().then(ending)
        });
        let Some(ending) = known.await? else { return Ok(None) };
        // An empty one is the branch that is checked out, for which the list below answers.
        let is_target = |to: &str| target.is_empty() || to == target;
        let is_there = |how: &Ending| matches!(how, Ending::Merged { target: Some(to), .. } if is_target(to));
        let key = task.to_string();
        let branch = self.0.workspace.list().await?.into_iter().find(|it| it.key == key);
        let Some(how) = ending.filter(is_there) else {
            let message = "there is no work to merge: it is in its target already, or was removed";
            let gone = Error::new(ErrorKind::NotFound, message).with("task", task);
            return branch.map(|_| None).ok_or(gone);
        };
        let has_more = branch.is_some_and(|branch| branch.status == BranchStatus::Unmerged);
        Ok((!has_more).then_some(how))
    }

    /// Stops a life: its session ends, and its work is captured and kept on its branch. The work is not
    /// merged until a person asks for that. Idempotent.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn stop(&self, life: LifeId) -> Result<()> {
        let reason = StopReason::Requested;
        self.request(None, Request::StopLife { life, reason }).await.map(|_| ())
    }

    /// Stops all runs and all work of the project, but not finished work on its way to its target. Where tasks start by
    /// themselves, none does from now on, also after a restart, until something is [run](Self::run) or
    /// [resumed](Self::resume).
    ///
    /// # Errors
    /// `cancelled` while the project is being closed.
    pub async fn stop_all(&self) -> Result<()> {
        self.request(None, Request::StopAll).await.map(|_| ())
    }

    /// Resumes lives that wait for a person.
    ///
    /// # Errors
    /// `not_found`; `busy` for a life that is under way.
    pub async fn resume(&self, target: ResumeTarget) -> Result<()> {
        self.request(None, Request::Resume { target }).await.map(|_| ())
    }

    /// Gives the next sessions of `life` what passes of these variables, instead of the orchestrator's.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn equip(
        &self,
        life: LifeId,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<()> {
        let environment = CallerEnvironment::new(variables);
        self.request(None, Request::Equip { life, environment }).await.map(|_| ())
    }

    /// Answers a question of the agent of `life`. The answer is durable when this returns.
    ///
    /// # Errors
    /// `not_found` if it is not asked; `already_answered` if it has another answer.
    pub async fn answer(
        &self,
        life: LifeId,
        question: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<()> {
        self.request(None, Request::answer(life, question, text)).await.map(|_| ())
    }

    /// Answers a question as a person read it, and no other that the agent asks by its id meanwhile. One without words
    /// stands for any of its id.
    ///
    /// # Errors
    /// `not_found` if it is not asked, or no longer; `already_answered` if it has another answer.
    pub async fn answer_to(&self, life: LifeId, question: &Question, text: impl Into<String>) -> Result<()> {
        self.request(None, Request::answer_to(life, question, text)).await.map(|_| ())
    }

    /// Makes a request under an id that the caller chose. Repeating it has no second effect and gives the same
    /// answer, also after a restart.
    ///
    /// # Errors
    /// `conflict` for another request under the same id; otherwise the refusal.
    pub async fn request(&self, command: Option<CommandId>, request: Request) -> Result<Accepted> {
        let (reply, accepted) = oneshot::channel();
        let project = self.0.id.clone();
        self.0.inner.reports.send(Message::Request { project, command, request, reply });
        accepted.await.map_err(|_| shut_down())?
    }

    /// Removes folder and branch of a task if all of the work is reachable without them. With `discard`, other work
    /// is first put under a rescue ref, and finished work that is held waits for its merge no more.
    ///
    /// # Errors
    /// `busy` while an agent or a merge is under way for the task; those of the workspace.
    pub async fn remove_branch(&self, task: TaskNumber, discard: bool) -> Result<Removed> {
        let life = self.read(move |schedule| schedule.ledger().life_of(task).cloned()).await?;
        let held = life.filter(|life| matches!(life.state, LifeState::Held { .. }));
        if let Some(life) = held.filter(|_| discard) {
            self.stop(life.id).await?;
            // Without an end then, what follows says what is open.
            self.settled(life.id).await?;
        }
        effects::remove_branch(&self.0, task, discard).await
    }

    /// Removes leftovers that no work depends on: folders of killed runs, administration without a folder, and where
    /// `auto_delete_branch` is on, merged branches of finished tasks. Also happens by itself, at the interval
    /// `prune_every` in the settings.
    ///
    /// # Errors
    /// Errors of the workspace and the store. A branch that cannot be removed is no error.
    pub async fn prune(&self) -> Result<Pruned> {
        effects::prune(&self.0).await
    }

    /// Suspends everything in this project, as [`shutdown`](super::Orchestrator::shutdown) does, and releases its locks.
    pub async fn close(self) {
        let (reply, closed) = oneshot::channel();
        let project = Some(self.0.id.clone());
        self.0.inner.reports.send(Message::Close { project, detach: false, reply });
        // An error means that the dispatcher has ended already.
        let _ = closed.await;
    }

    /// Reads the schedule in the dispatcher, between two facts.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Schedule) -> T + Send + 'static,
    ) -> Result<T> {
        self.0.read(read).await
    }
}

impl fmt::Debug for ProjectHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectHandle")
            .field("id", &self.0.id)
            .field("root", &self.0.root)
            .finish_non_exhaustive()
    }
}

/// A task that nothing else starts until the request for it is decided.
struct ReservedTask<'a>(&'a ProjectShared, TaskNumber);

impl<'a> ReservedTask<'a> {
    fn new(shared: &'a ProjectShared, task: TaskNumber) -> Self {
        shared.report(Fact::Reserved(task));
        Self(shared, task)
    }
}

impl Drop for ReservedTask<'_> {
    fn drop(&mut self) {
        // After the request this changes nothing.
        self.0.report(Fact::Released(self.1));
    }
}
