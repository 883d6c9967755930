//! What happens in projects, as a stream.

use std::collections::BTreeSet;

use tokio_stream::StreamExt as _;
use watchfire_api::daemon_proto as proto;
use watchfire_core::clock::{Clock as _, SystemClock};
use watchfire_core::model::{Mode, TaskNumber};
use watchfire_core::orchestrator::{LogStream, ProjectHandle, Record, Seen};
use watchfire_core::schedule::{Change as Happened, Ending, Life, LifeState, Run};
use watchfire_core::store::{Change, TaskQuery};
use watchfire_core::{ErrorKind, Result};

use super::follow::{Opened, Out, closed, stream};
use super::status::{self, mode_of, of_life};
use crate::Daemon;

pub(super) type Events = Out<proto::Event>;
type Payload = proto::event::Payload;

impl Daemon {
    /// Follows one project, or with an empty id all, also those that are opened later.
    pub(super) async fn events(&self, request: proto::SubscribeRequest) -> Result<Events> {
        let proto::SubscribeRequest { meta, project_id: project } = request;
        if project.is_empty() {
            let daemon = self.clone();
            let watching = self.watchers().add(meta, "");
            return Ok(stream(self, Some(watching), move |send| Box::pin(all(daemon, send))));
        }
        let followed = Followed::new(self, self.project(&project).await?).await?;
        Ok(stream(self, Some(self.watchers().add(meta, &project)), move |send| {
            Box::pin(async move {
                followed.follow(send.clone()).await;
                Err(closed(&project))
            })
        }))
    }
}

/// Follows all projects.
async fn all(daemon: Daemon, send: Sender) -> Result<()> {
    let mut opened = Opened::of(&daemon);
    while let Some(projects) = opened.next().await {
        for project in projects {
            // It ends with its project or with the stream.
            tokio::spawn(Followed::new(&daemon, project).await?.follow(send.clone()));
        }
    }
    Ok(())
}

type Sender = tokio::sync::mpsc::Sender<std::result::Result<proto::Event, tonic::Status>>;

/// A project whose events are sent.
struct Followed {
    daemon: Daemon,
    project: ProjectHandle,
    changes: LogStream,
    /// Known tasks, so that any other is reported as created.
    known: BTreeSet<TaskNumber>,
    /// Lives whose start has been reported.
    started: BTreeSet<watchfire_core::schedule::LifeId>,
}

impl Followed {
    async fn new(daemon: &Daemon, project: ProjectHandle) -> Result<Self> {
        let subscription = project.subscribe(None).await?;
        let known = subscription.snapshot.tasks.iter().map(|info| info.task.task_number).collect();
        let running = |life: &&Life| life.state == LifeState::Running;
        let started = subscription.snapshot.lives.iter().filter(running).map(|life| life.id).collect();
        Ok(Self { daemon: daemon.clone(), project, changes: subscription.changes, known, started })
    }

    async fn follow(mut self, send: Sender) {
        let mut files = self.project.store().subscribe();
        let first = self.event("subscribed", None);
        if send.send(Ok(first)).await.is_err() {
            return;
        }
        loop {
            let events = tokio::select! {
                () = send.closed() => return,
                seen = self.changes.next() => match seen {
                    // The project was closed.
                    None => return,
                    Some(Seen::Record(record)) => self.of_record(&record).await,
                    Some(Seen::Gap(_)) => Ok(vec![self.event("missed", None)]),
                    // The store says which files.
                    Some(_) => Ok(Vec::new()),
                },
                Some(change) = files.next() => self.of_files(change).await,
            };
            // What cannot be read now is read again by the client.
            let events = events
                .unwrap_or_else(|error| vec![self.event("missed", Some(Payload::Message(error.report())))]);
            for event in events {
                if send.send(Ok(event)).await.is_err() {
                    return;
                }
            }
        }
    }

    fn event(&self, name: &str, payload: Option<Payload>) -> proto::Event {
        proto::Event {
            event_type: name.to_owned(),
            timestamp: SystemClock.now().to_string(),
            project_id: self.project.id().to_string(),
            payload,
        }
    }

    /// Returns the events of a change of files.
    async fn of_files(&mut self, change: Change) -> Result<Vec<proto::Event>> {
        let numbers = match change {
            Change::Task(number) => vec![number],
            Change::Project => return Ok(vec![self.event("project_updated", None)]),
            _ => {
                let list = self.project.store().list(&TaskQuery::new()).await?;
                list.tasks.iter().map(|task| task.value.task_number).collect()
            }
        };
        let mut events = Vec::new();
        for number in numbers {
            let is_new = self.known.insert(number);
            let task = match self.project.store().get(number).await {
                Ok(task) => task.value,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.known.remove(&number);
                    let gone = proto::Task {
                        task_number: super::convert::wire(number),
                        project_id: self.project.id().to_string(),
                        ..proto::Task::default()
                    };
                    events.push(self.event("task_deleted", Some(Payload::Task(gone))));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let name = match (is_new, task.is_deleted()) {
                (_, true) => "task_deleted",
                (true, _) => "task_created",
                (false, _) => "task_updated",
            };
            let task = self.daemon.told_one(self.project.id().as_str(), task).await?;
            events.push(self.event(name, Some(Payload::Task(task))));
        }
        Ok(events)
    }

    /// Returns the events of a change in the project's log.
    async fn of_record(&mut self, record: &Record) -> Result<Vec<proto::Event>> {
        let mut events = match &record.change {
            Happened::Life(life) => self.of_life(life).await?,
            Happened::Run(run) => self.of_run(run).await.into_iter().collect(),
            Happened::Notice(notice) => {
                vec![self.event("notice", Some(Payload::Message(notice.message.clone())))]
            }
            _ => Vec::new(),
        };
        for event in &mut events {
            event.timestamp = record.at.to_string();
        }
        Ok(events)
    }

    async fn of_run(&mut self, run: &Run) -> Option<proto::Event> {
        let end = run.ended.as_ref()?;
        let state = match (run.stopped, end.interrupted) {
            (true, _) => "stopped",
            (false, true) => "interrupted",
            (false, false) => "ended",
        };
        let over = proto::AgentStatus {
            project_id: self.project.id().to_string(),
            project_name: status::name(&self.project).await,
            mode: mode_of(&run.scope).unwrap_or(Mode::Task).to_string(),
            state: state.to_owned(),
            run_id: run.id.0,
            ..proto::AgentStatus::default()
        };
        Some(self.event("run_over", Some(Payload::Agent(over))))
    }

    async fn of_life(&mut self, life: &Life) -> Result<Vec<proto::Event>> {
        let name = match &life.state {
            LifeState::Ended { .. } => {
                self.started.remove(&life.id);
                "agent_stopped"
            }
            LifeState::Running if self.started.insert(life.id) => "agent_started",
            _ => "agent_updated",
        };
        let ledger = self.project.ledger().await?;
        let project = status::name(&self.project).await;
        let agent = of_life(&self.project, &project, &ledger, life).await;
        let mut events = vec![self.event(name, Some(Payload::Agent(agent)))];
        if let (LifeState::Ended { how: Ending::Merged { .. }, .. }, Some(task)) =
            (&life.state, life.subject.task())
        {
            let branch = proto::Branch {
                name: format!("watchfire/{task}"),
                task_number: super::convert::wire(task),
                project_id: self.project.id().to_string(),
                status: "merged".to_owned(),
                target: life.target.clone().unwrap_or_default(),
                ..proto::Branch::default()
            };
            events.push(self.event("branch_merged", Some(Payload::Branch(branch))));
        }
        Ok(events)
    }
}
