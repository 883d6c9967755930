//! The dispatcher: all facts, one after the other; all decisions, in one place.
//!
//! It owns what should run. It waits for nothing but its inbox: effects are spawned and report back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot, watch};

use super::project::ProjectShared;
use super::request::{Run, RunOptions, TaskInfo};
use super::{Event, Step, attempt, merge};
use crate::journal::{self, IntentId, TaskRecord, TaskState};
use crate::model::{Attempt, ProjectId, Task, TaskNumber, TaskStatus};
use crate::schedule::{
    Action, Card, Chain, Ending, Event as Fact, Limits, MergeTicket, Queue, RunId, RunSummary, Scope,
    StopReason,
};
use crate::store::{TaskPatch, Versioned};
use crate::workspace::Commit;
use crate::{Error, ErrorKind, Result};

/// The way to the dispatcher. Sending never waits; a message to one that has ended is dropped.
#[derive(Clone, Debug)]
pub(super) struct Outbox(mpsc::UnboundedSender<Message>);

impl Outbox {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(super) fn send(&self, message: Message) {
        // Whoever needs an answer sees that its reply channel is closed.
        let _ = self.0.send(message);
    }
}

/// Everything that the dispatcher can be told.
pub(super) enum Message {
    Open {
        project: Arc<ProjectShared>,
        state: Box<journal::State>,
        pending: Vec<PendingMerge>,
        reply: oneshot::Sender<()>,
    },
    Board {
        project: ProjectId,
        read: BoardRead,
        tasks: Vec<Versioned<Task>>,
        limits: Limits,
        /// Whether it was taken in.
        reply: oneshot::Sender<bool>,
    },
    RetryHeld {
        project: ProjectId,
    },
    /// A person wants finished work merged.
    Merge {
        project: ProjectId,
        merge: PendingMerge,
        /// How it will have ended.
        reply: oneshot::Sender<Result<oneshot::Receiver<Ending>>>,
    },
    /// Whether an agent or a merge is under way for a task.
    IsUnderWay {
        project: ProjectId,
        task: TaskNumber,
        reply: oneshot::Sender<bool>,
    },
    Progress {
        project: ProjectId,
        task: TaskNumber,
        attempt: Attempt,
        step: Step,
    },
    Run {
        project: ProjectId,
        scope: Scope,
        options: RunOptions,
        reply: oneshot::Sender<Result<Run>>,
    },
    StopRun {
        project: ProjectId,
        run: RunId,
    },
    AttemptStarted {
        project: ProjectId,
        task: TaskNumber,
        control: attempt::Control,
    },
    AttemptEnded {
        project: ProjectId,
        task: TaskNumber,
        report: attempt::Report,
    },
    MergeEnded {
        project: ProjectId,
        ticket: MergeTicket,
        merged: merge::Merged,
    },
    Tasks {
        project: ProjectId,
        tasks: Vec<Task>,
        reply: oneshot::Sender<Vec<TaskInfo>>,
    },
    Close {
        project: Option<ProjectId>,
        reply: oneshot::Sender<()>,
    },
}

/// When a board was read.
#[derive(Clone, Copy)]
pub(super) struct BoardRead {
    /// Grows with every read.
    pub(super) number: u64,
    /// What effects had changed by then.
    pub(super) epoch: u64,
}

/// Finished work that a killed orchestrator left unmerged.
pub(super) struct PendingMerge {
    pub(super) task: TaskNumber,
    pub(super) attempt: Attempt,
    pub(super) target: String,
    /// The intent and the commit that may have been published.
    pub(super) publishing: Option<(IntentId, Commit)>,
    /// What its run was asked with.
    pub(super) options: RunOptions,
}

/// Runs until every way to it is gone.
pub(super) async fn run(mut inbox: mpsc::UnboundedReceiver<Message>) {
    let mut dispatcher = Dispatcher::default();
    while let Some(message) = inbox.recv().await {
        dispatcher.take_in(message);
    }
}

#[derive(Default)]
struct Dispatcher {
    projects: BTreeMap<ProjectId, Project>,
    next_run: u64,
}

struct Project {
    shared: Arc<ProjectShared>,
    chain: Chain,
    queue: Queue,
    runs: BTreeMap<RunId, ActiveRun>,
    attempts: BTreeMap<TaskNumber, Option<attempt::Control>>,
    /// Stops that came before the attempt could take them.
    stops: BTreeMap<TaskNumber, StopReason>,
    merges: BTreeMap<TaskNumber, attempt::Finished>,
    /// Who waits for the end of a merge.
    waiting: BTreeMap<TaskNumber, oneshot::Sender<Ending>>,
    views: BTreeMap<TaskNumber, View>,
    closing: Vec<oneshot::Sender<()>>,
    /// The number of the newest board.
    newest_board: u64,
}

struct ActiveRun {
    scope: Scope,
    options: RunOptions,
    summary: watch::Sender<Option<Arc<RunSummary>>>,
}

#[derive(Clone, Default)]
struct View {
    attempt: Attempt,
    step: Option<Step>,
    ending: Option<Ending>,
    /// Where its work last stood.
    tip: Option<Commit>,
    /// Where its last merge was to go, and what its run was asked with.
    target: Option<String>,
    options: RunOptions,
}

impl Dispatcher {
    fn take_in(&mut self, message: Message) {
        match message {
            Message::Open { project, state, pending, reply } => {
                self.next_run = self.next_run.max(state.chains.keys().map(|run| run.0).max().unwrap_or(0));
                let id = project.id.clone();
                let project = self.projects.entry(id).or_insert_with(|| Project::new(project, &state));
                for merge in pending {
                    project.resume_merge(merge);
                }
                let _ = reply.send(());
            }
            Message::Run { project: id, scope, options, reply } => {
                self.next_run += 1;
                let run = RunId(self.next_run);
                let answer = match self.projects.get_mut(&id) {
                    Some(project) if project.closing.is_empty() => Ok(project.run(run, scope, options)),
                    _ => Err(Error::new(ErrorKind::NotFound, "the project is not open").with("project", &id)),
                };
                let _ = reply.send(answer);
            }
            Message::Close { project, reply } => {
                let ids: Vec<_> =
                    project.map_or_else(|| self.projects.keys().cloned().collect(), |id| vec![id]);
                let (done, all_done) = mpsc::channel::<()>(1);
                for id in ids {
                    if let Some(project) = self.projects.get_mut(&id) {
                        let (closed, was_closed) = oneshot::channel();
                        project.close(closed);
                        let (done, shared) = (done.clone(), Arc::clone(&project.shared));
                        tokio::spawn(async move {
                            // Dropped unsent: closed either way.
                            let _ = was_closed.await;
                            shared.settle().await;
                            shared.inner.unreserve(&shared.id);
                            drop((shared, done));
                        });
                    }
                }
                tokio::spawn(when_dropped(all_done, reply));
                self.projects.retain(|_, project| !project.is_closed());
            }
            Message::Board { project, read, tasks, limits, reply } => self.with(&project, |p| {
                // Most who send one do not ask.
                let _ = reply.send(p.board(read, &tasks, limits));
            }),
            Message::Progress { project, task, attempt, step } => {
                self.with(&project, |p| {
                    p.view(task, |view| (view.attempt, view.step) = (attempt, Some(step)))
                });
            }
            Message::RetryHeld { project } => self.with(&project, Project::retry_held),
            Message::Merge { project, merge, reply } => self.with(&project, |p| {
                let _ = reply.send(p.merge_now(merge));
            }),
            Message::IsUnderWay { project, task, reply } => self.with(&project, |p| {
                let _ = reply.send(p.is_under_way(task));
            }),
            Message::StopRun { project, run } => self.with(&project, |p| p.step(Fact::StopRun(run))),
            Message::AttemptStarted { project, task, control } => {
                self.with(&project, |p| p.started(task, control))
            }
            Message::AttemptEnded { project, task, report } => {
                self.with(&project, |p| p.attempt_ended(task, report))
            }
            Message::MergeEnded { project, ticket, merged } => {
                self.with(&project, |p| p.merge_ended(&ticket, merged));
            }
            Message::Tasks { project, tasks, reply } => {
                let views = self.projects.get(&project).map(|project| &project.views);
                let info = |task: Task| {
                    let view =
                        views.and_then(|views| views.get(&task.task_number)).cloned().unwrap_or_default();
                    TaskInfo { task, attempt: view.attempt, step: view.step, ending: view.ending }
                };
                let _ = reply.send(tasks.into_iter().map(info).collect());
            }
        }
    }

    fn with(&mut self, id: &ProjectId, act: impl FnOnce(&mut Project)) {
        if let Some(project) = self.projects.get_mut(id) {
            act(project);
            if project.is_closed() {
                self.projects.remove(id);
            }
        }
    }
}

async fn when_dropped(mut all_done: mpsc::Receiver<()>, reply: oneshot::Sender<()>) {
    let _ = all_done.recv().await;
    let _ = reply.send(());
}

impl Project {
    fn new(shared: Arc<ProjectShared>, state: &journal::State) -> Self {
        let view = |record: &TaskRecord| View {
            attempt: record.attempt,
            step: None,
            ending: match &record.state {
                Some(TaskState::Ended { ending }) => Some(ending.clone()),
                _ => None,
            },
            ..View::default()
        };
        Self {
            shared,
            chain: Chain::default(),
            queue: Queue::default(),
            runs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            stops: BTreeMap::new(),
            merges: BTreeMap::new(),
            waiting: BTreeMap::new(),
            views: state.tasks.iter().map(|(number, record)| (*number, view(record))).collect(),
            closing: Vec::new(),
            newest_board: 0,
        }
    }

    fn view(&mut self, task: TaskNumber, change: impl FnOnce(&mut View)) {
        change(self.views.entry(task).or_default());
    }

    /// Takes in the tasks, unless something newer is known; says whether it did.
    fn board(&mut self, read: BoardRead, tasks: &[Versioned<Task>], limits: Limits) -> bool {
        if read.number < self.newest_board {
            return false;
        }
        if read.epoch < self.shared.epoch.load(Ordering::Acquire) {
            self.shared.reload.notify_one();
            return false;
        }
        self.newest_board = read.number;
        let cards = tasks.iter().map(|task| self.card(&task.value)).collect();
        self.queue.set_batch(limits.batch);
        let limits = if self.closing.is_empty() { limits } else { Limits { auto_start: false, ..limits } };
        self.step(Fact::Limits(limits));
        self.step(Fact::Board(cards));
        true
    }

    fn card(&self, task: &Task) -> Card {
        // While something is under way with it, nothing of it is in the target.
        let merged = self
            .views
            .get(&task.task_number)
            .is_none_or(|view| view.step.is_none() && view.ending.as_ref().is_none_or(Ending::is_integrated));
        Card::new(task, task.claims_success() && merged, task.agent.clone())
    }

    fn run(&mut self, run: RunId, scope: Scope, options: RunOptions) -> Run {
        let (summary, receiver) = watch::channel(None);
        self.runs.insert(run, ActiveRun { scope, options, summary });
        self.shared.tell(&Event::RunStarted { project: self.shared.id.clone(), run });
        let handle = Run {
            id: run,
            project: self.shared.id.clone(),
            outbox: self.shared.inner.outbox.clone(),
            summary: receiver,
        };
        self.step(Fact::Run { run, scope });
        handle
    }

    fn step(&mut self, fact: Fact) {
        for action in self.chain.step(fact) {
            match action {
                Action::StartAttempt(task) => self.start(task),
                Action::StopAttempt(task, reason) => self.stop(task, reason),
                Action::Merge(task) => self.enqueue(task),
                Action::Reopen(task) => self.reopen(task),
                Action::RestartLimit { task, count } => {
                    let message = format!(
                        "task #{task} was started {count} times without progress; not again by itself"
                    );
                    self.shared.attention(Some(task), message);
                }
                Action::RunEnded(run, summary) => {
                    if let Some(active) = self.runs.remove(&run) {
                        active.summary.send_replace(Some(Arc::new(summary)));
                    }
                    self.shared.tell(&Event::RunEnded { project: self.shared.id.clone(), run });
                }
            }
        }
    }

    fn start(&mut self, task: TaskNumber) {
        let covers = |scope: Scope| matches!(scope, Scope::All) || scope == Scope::Task(task);
        let options = self.runs.values().find(|run| covers(run.scope)).map(|run| run.options.clone());
        let (attempt, previous) = {
            let view = self.views.entry(task).or_default();
            let previous = (view.attempt, view.ending.take());
            view.attempt = Attempt(view.attempt.0.saturating_add(1));
            view.step = Some(Step::Starting);
            (view.attempt, previous)
        };
        self.attempts.insert(task, None);
        self.stops.remove(&task);
        let request = attempt::Request { task, attempt, previous, options: options.unwrap_or_default() };
        tokio::spawn(attempt::run(Arc::clone(&self.shared), request));
    }

    fn started(&mut self, task: TaskNumber, control: attempt::Control) {
        if let Some(reason) = self.stops.remove(&task) {
            control.stop(reason);
        }
        if let Some(slot) = self.attempts.get_mut(&task) {
            *slot = Some(control);
        }
    }

    fn stop(&mut self, task: TaskNumber, reason: StopReason) {
        match self.attempts.get(&task) {
            Some(Some(control)) => control.stop(reason),
            Some(None) => {
                self.stops.insert(task, reason);
            }
            None => {}
        }
    }

    fn attempt_ended(&mut self, task: TaskNumber, report: attempt::Report) {
        self.attempts.remove(&task);
        self.stops.remove(&task);
        let attempt::Report { attempt, ending, tip, commits, finished } = report;
        let progress = match (&self.views.entry(task).or_default().tip, &tip) {
            (Some(before), Some(now)) => before != now,
            _ => commits > 0,
        };
        self.view(task, |view| view.tip = tip.or(view.tip.take()));
        if let Some(ending) = &ending {
            self.ended(task, attempt, ending);
        }
        if let Some(finished) = finished {
            self.merges.insert(task, finished);
        }
        self.step(Fact::AttemptEnded { task, ending, progress });
    }

    fn ended(&mut self, task: TaskNumber, attempt: Attempt, ending: &Ending) {
        let view = self.views.entry(task).or_default();
        let again = view.attempt == attempt && view.ending.as_ref() == Some(ending);
        (view.attempt, view.step, view.ending) = (attempt, None, Some(ending.clone()));
        // Held work that is held once more is no news.
        if !again {
            let project = self.shared.id.clone();
            self.shared.tell(&Event::TaskEnded { project, task, ending: ending.clone() });
        }
    }

    fn enqueue(&mut self, task: TaskNumber) {
        let target = self.merges.get(&task).map(|finished| finished.target.clone()).unwrap_or_default();
        self.view(task, |view| view.step = Some(Step::Queued));
        self.queue.push(task, &target);
        self.start_merges();
    }

    /// Takes up a merge as if its attempt had just ended.
    fn resume_merge(&mut self, pending: PendingMerge) {
        let PendingMerge { task, attempt, target, publishing, options } = pending;
        self.merges.insert(task, attempt::Finished { attempt, target, options, publishing });
        self.view(task, |view| (view.attempt, view.step) = (attempt, Some(Step::Queued)));
        self.step(Fact::AttemptEnded { task, ending: None, progress: false });
    }

    /// Merges the work of a task because a person wants it.
    fn merge_now(&mut self, merge: PendingMerge) -> Result<oneshot::Receiver<Ending>> {
        let task = merge.task;
        if !self.closing.is_empty() || self.is_under_way(task) {
            return Err(Error::new(ErrorKind::Busy, "an agent or a merge is under way for the task")
                .with("task", task));
        }
        let (ended, receiver) = oneshot::channel();
        self.waiting.insert(task, ended);
        self.resume_merge(merge);
        Ok(receiver)
    }

    fn is_under_way(&self, task: TaskNumber) -> bool {
        self.attempts.contains_key(&task)
            || self.merges.contains_key(&task)
            || self.chain.under_way().any(|other| other == task)
    }

    /// Tries held work again: what stood in the way may be gone, or it was published with what was stacked on it.
    fn retry_held(&mut self) {
        let under_way: Vec<_> = self.chain.under_way().collect();
        let held = self.views.iter().filter(|(task, view)| {
            view.step.is_none()
                && !under_way.contains(task)
                && matches!(view.ending, Some(Ending::Held { .. }))
        });
        let held: Vec<_> = held.map(|(task, view)| (*task, view.clone())).collect();
        for (task, view) in held {
            let Some(target) = view.target else { continue };
            let (attempt, options) = (view.attempt, view.options);
            self.resume_merge(PendingMerge { task, attempt, target, publishing: None, options });
        }
    }

    fn start_merges(&mut self) {
        for ticket in self.queue.take_ready() {
            self.merge(ticket);
        }
    }

    fn merge(&self, ticket: MergeTicket) {
        let finished = |task: &TaskNumber| Some((*task, self.merges.get(task)?.clone()));
        let finished = ticket.tasks.iter().filter_map(finished).collect();
        tokio::spawn(merge::run(Arc::clone(&self.shared), ticket, finished));
    }

    fn merge_ended(&mut self, ticket: &MergeTicket, ended: merge::Merged) {
        let mut merged = false;
        for (task, attempt, ending) in ended.ended {
            merged |= matches!(ending, Ending::Merged { .. });
            self.task_merged(ticket, task, attempt, ending);
        }
        match ended.moved.then(|| self.queue.moved(ticket)) {
            Some(Ok(again)) => self.merge(again),
            Some(Err(rest)) => {
                let reason =
                    format!("{} moved {} times while the work was being merged", rest.target, rest.moves);
                for task in rest.tasks {
                    let attempt = self.merges.get(&task).map(|finished| finished.attempt).unwrap_or_default();
                    self.task_merged(ticket, task, attempt, Ending::Error { reason: reason.clone() });
                }
                self.queue.finished(ticket);
            }
            None => self.queue.finished(ticket),
        }
        self.start_merges();
        if merged {
            self.retry_held();
        }
    }

    fn task_merged(&mut self, ticket: &MergeTicket, task: TaskNumber, attempt: Attempt, ending: Ending) {
        self.queue.ended(ticket, task);
        if let Some(finished) = self.merges.remove(&task) {
            self.view(task, |view| (view.target, view.options) = (Some(finished.target), finished.options));
        }
        self.ended(task, attempt, &ending);
        if let Some(waiting) = self.waiting.remove(&task) {
            // Whoever asked may be gone.
            let _ = waiting.send(ending.clone());
        }
        self.step(Fact::MergeEnded { task, ending });
    }

    fn reopen(&self, task: TaskNumber) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let patch = TaskPatch::new().with_status(TaskStatus::Ready);
            if let Err(error) = shared.store.update(task, patch, None, None).await {
                shared.attention(Some(task), format!("setting the task back to ready: {}", error.report()));
            }
            shared.store_changed();
        });
    }

    fn close(&mut self, closed: oneshot::Sender<()>) {
        self.shared.closing.send_replace(true);
        self.closing.push(closed);
        for session in self.shared.sessions().iter().filter(|session| session.info().task.is_none()) {
            session.stop();
        }
        self.step(Fact::Limits(Limits::default()));
        self.step(Fact::StopAll);
    }

    /// Whether it is to be closed, and nothing is under way any more.
    fn is_closed(&self) -> bool {
        !self.closing.is_empty() && self.chain.under_way().next().is_none() && self.queue.is_empty()
    }
}
