//! The loop that takes in all facts in one order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::project::OpenProject;
use super::slots::Slots;
use crate::clock::Clock;
use crate::model::ProjectId;
use crate::orchestrator::shared::Message;
use crate::schedule::Fact;
use crate::{Error, ErrorKind};

/// Runs until all senders are gone. A panic closes every project, because otherwise callers would wait for
/// answers that never come.
pub(crate) async fn run(inbox: mpsc::UnboundedReceiver<Message>, clock: Arc<dyn Clock>) {
    let dispatcher = Arc::new(Mutex::new(Dispatcher::default()));
    // In a task of its own: a foreign clock may panic, or we ourselves. The inbox goes with it, and with the inbox the
    // reply channels of all who wait.
    let working = tokio::spawn(work(inbox, clock, Arc::clone(&dispatcher)));
    if let Err(error) = working.await {
        tracing::error!("the dispatcher ended: {error}");
        let dispatcher = std::mem::take(&mut *dispatcher.lock().unwrap_or_else(PoisonError::into_inner));
        dispatcher.projects.into_values().for_each(OpenProject::fail);
    }
}

async fn work(
    mut inbox: mpsc::UnboundedReceiver<Message>,
    clock: Arc<dyn Clock>,
    shared: Arc<Mutex<Dispatcher>>,
) {
    // Locked between awaits only. After a panic, `run` takes the projects out of it.
    let dispatcher = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let tick = dispatcher().next_tick(&*clock);
        let due = async {
            match tick {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Facts first: a tick only makes due what no fact has changed.
            biased;
            message = inbox.recv() => match message {
                Some(message) => dispatcher().take_in(message),
                None => return,
            },
            () = due => dispatcher().tick(),
        }
        let mut dispatcher = dispatcher();
        // After every fact: two projects must not take the same slot.
        dispatcher.share_slots();
        dispatcher.spread_blocks();
        dispatcher.finish_closed();
        dispatcher.share_slots();
    }
}

#[derive(Default)]
struct Dispatcher {
    projects: BTreeMap<ProjectId, OpenProject>,
    slots: Slots,
}

impl Dispatcher {
    fn take_in(&mut self, message: Message) {
        match message {
            Message::Open(opening) => {
                let id = opening.project.id.clone();
                self.projects.insert(id, OpenProject::open(*opening));
            }
            Message::Fact { project, fact, permit } => self.with(&project, |p| p.fact(*fact, permit)),
            Message::Board { project, read, cards, limits, reply } => self.with(&project, |p| {
                // Most callers do not wait for the answer.
                let _ = reply.send(p.board(read, cards, limits));
            }),
            Message::Request { project, command, request, reply } => match self.projects.get_mut(&project) {
                Some(open) => open.request(command, request, reply),
                None => {
                    let error = Error::new(ErrorKind::NotFound, "the project is not open");
                    // The caller may be gone.
                    let _ = reply.send(Err(error.with("project", &project)));
                }
            },
            Message::AwaitRun { project, run, reply } => self.with(&project, |p| p.await_run(run, reply)),
            Message::AwaitLife { project, life, reply } => self.with(&project, |p| p.await_life(life, reply)),
            Message::AwaitSession { project, life, reply } => {
                self.with(&project, |p| p.await_session(life, reply));
            }
            Message::Read { project, read } => self.with(&project, |p| read(p.schedule())),
            Message::Subscribe { project, since, reply } => {
                self.with(&project, |p| p.subscribe(since.as_ref(), reply));
            }
            Message::Close { project, detach, reply } => {
                let ids: Vec<_> =
                    project.map_or_else(|| self.projects.keys().cloned().collect(), |id| vec![id]);
                let mut closing = Vec::new();
                for id in ids {
                    self.with(&id, |p| {
                        let (closed, was_closed) = oneshot::channel();
                        p.close(closed, detach);
                        closing.push(was_closed);
                    });
                }
                // In a task of its own, since projects close only as this loop goes on.
                tokio::spawn(async move {
                    for closed in closing {
                        // A dropped sender means closed, too.
                        let _ = closed.await;
                    }
                    let _ = reply.send(());
                });
            }
        }
    }

    /// Acts on an open project. A message to another one is dropped, and its reply channel with it.
    fn with(&mut self, id: &ProjectId, act: impl FnOnce(&mut OpenProject)) {
        if let Some(project) = self.projects.get_mut(id) {
            act(project);
        }
    }

    fn tick(&mut self) {
        // All of them, although one is due: a tick changes nothing where nothing is due.
        let ids: Vec<_> = self.projects.keys().cloned().collect();
        for id in ids {
            self.with(&id, |project| project.fact(Fact::Tick, None));
            self.share_slots();
        }
    }

    /// Returns the boot time at which the next tick is due.
    fn next_tick(&self, clock: &dyn Clock) -> Option<Duration> {
        let due =
            self.projects.values().filter_map(OpenProject::next_tick).map(|at| at.unix_millis()).min()?;
        let millis = u64::try_from(due.saturating_sub(clock.now().unix_millis())).unwrap_or(0);
        // At least a millisecond, so that a tick that changes nothing cannot spin; at most a minute, because the clock may be
        // set forward meanwhile.
        Some(clock.boot_time() + Duration::from_millis(millis.clamp(1, 60_000)))
    }

    /// Reports blocked backends to the other projects, which share their accounts.
    fn spread_blocks(&mut self) {
        let mut blocks = Vec::new();
        for (id, project) in &mut self.projects {
            let taken = std::mem::take(&mut project.blocked);
            blocks.extend(taken.into_iter().map(|(backend, issue)| (id.clone(), backend, issue)));
        }
        for (from, backend, issue) in blocks {
            let others: Vec<_> = self.projects.keys().filter(|id| **id != from).cloned().collect();
            for id in others {
                let Some(project) = self.projects.get_mut(&id) else { continue };
                let known = project.schedule().ledger().blocked.get(&backend).map(|block| &block.issue);
                if known != issue.as_ref() {
                    let fact = Fact::BackendBlocked { backend: backend.clone(), issue: issue.clone() };
                    project.fact(fact, None);
                    // The block came from elsewhere; passing it on would send it round for ever.
                    project.blocked.retain(|(other, _)| *other != backend);
                    self.share_slots();
                }
            }
        }
    }

    /// Tells each project which of the slots that all share are for it.
    fn share_slots(&mut self) {
        self.slots.share(&mut self.projects);
    }

    fn finish_closed(&mut self) {
        let closed: Vec<_> =
            self.projects.iter().filter(|(_, p)| p.is_closed()).map(|(id, _)| id.clone()).collect();
        for id in closed {
            if let Some(project) = self.projects.remove(&id) {
                project.finish();
            }
        }
    }
}
