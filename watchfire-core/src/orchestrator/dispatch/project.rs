//! One open project, as the dispatcher sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::recorder::{self, After, Batch};
use crate::backend::IssueKind;
use crate::failpoint::reached;
use crate::journal::{Cursor, Entry};
use crate::model::{BackendName, Timestamp};
use crate::orchestrator::effects;
use crate::orchestrator::shared::{
    BoardRead, Control, LogStream, Opening, ProjectLog, ProjectShared, SubscribeReply, Subscribed, archive,
    shut_down,
};
use crate::schedule::{
    Accepted, Card, Change, Command, CommandId, Fact, Life, LifeId, LifeState, Limits, NoticeCode, Request,
    Run, RunId, RunSummary, Schedule, Step, StopReason, Subject,
};
use crate::session::Session;
use crate::{Error, ErrorKind, Result};

/// An open project.
pub(super) struct OpenProject {
    pub(super) shared: Arc<ProjectShared>,
    schedule: Schedule,
    controls: BTreeMap<LifeId, Control>,
    log: Arc<ProjectLog>,
    recorder: mpsc::UnboundedSender<Batch>,
    seq: u64,
    newest_board: u64,
    /// A read of the tasks that began after this one is waited for.
    look: Option<u64>,
    runs: Vec<(RunId, oneshot::Sender<Arc<RunSummary>>)>,
    lives: Vec<(LifeId, oneshot::Sender<Life>)>,
    sessions: Vec<(LifeId, oneshot::Sender<Result<Session>>)>,
    /// The session of the last chat that has ended: it may end before who asked for it hears that it began.
    last_chat: Option<(LifeId, Session)>,
    pub(super) closing: Vec<oneshot::Sender<()>>,
    /// True while sessions are left to their hosts.
    detaching: bool,
    /// Blocks of backends that other projects should know of.
    pub(super) blocked: Vec<(BackendName, Option<crate::backend::Issue>)>,
}

impl OpenProject {
    /// Takes over a project. Replies with the lives whose outcome the caller must find out.
    pub(super) fn open(opening: Opening) -> Self {
        let Opening { project: shared, state, journal_id, recent, reply } = opening;
        let clock = Arc::clone(&shared.inner.clock);
        let log = Arc::new(ProjectLog::new(shared.id.clone(), journal_id, state.seq, recent));
        let recorder = recorder::start(
            shared.journal.clone(),
            Arc::clone(&log),
            Arc::clone(&clock),
            shared.closing.subscribe(),
        );
        let ended: Vec<_> = state.ledger.runs.values().filter(|run| run.ended.is_some()).cloned().collect();
        let (schedule, steps) = Schedule::restore(state.ledger, &clock.now(), shared.inner.resume);
        // Held work, too: the killed start may have published it while it tried again.
        let unknown = |life: &&Life| {
            life.session.is_some()
                || matches!(
                    life.state,
                    LifeState::Starting
                        | LifeState::Running
                        | LifeState::Ending
                        | LifeState::Capturing
                        | LifeState::Publishing { .. }
                        | LifeState::Held { .. }
                )
        };
        let unknown: Vec<_> = schedule.ledger().lives.values().filter(unknown).collect();
        let unknown: Vec<_> = unknown.into_iter().map(|life| (life.clone(), Control::new())).collect();
        let mut project = Self {
            shared,
            schedule,
            controls: unknown.iter().map(|(life, control)| (life.id, control.clone())).collect(),
            log,
            recorder,
            seq: state.seq,
            newest_board: 0,
            look: None,
            runs: Vec::new(),
            lives: Vec::new(),
            sessions: Vec::new(),
            last_chat: None,
            closing: Vec::new(),
            detaching: false,
            blocked: Vec::new(),
        };
        // Recovery begins only once the changes of this start are durable.
        let answer: After = Box::new(move || drop(reply.send(unknown)));
        // An earlier start may have been killed between the end of a run and its record.
        let keep = project.keep_runs(ended);
        project.carry_out(steps, vec![keep, answer], None, None);
        project
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.inner.clock.now()
    }

    pub(super) fn next_tick(&self) -> Option<Timestamp> {
        self.schedule.next_tick()
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(super) fn fact(&mut self, fact: Fact, permit: Option<oneshot::Sender<bool>>) {
        let steps = self.schedule.step(&self.now(), fact);
        self.carry_out(steps, Vec::new(), permit, None);
    }

    pub(super) fn request(
        &mut self,
        command: Option<CommandId>,
        request: Request,
        reply: oneshot::Sender<Result<Accepted>>,
    ) {
        let steps = self.schedule.step(&self.now(), Fact::Request { command, request });
        self.carry_out(steps, Vec::new(), None, Some(reply));
    }

    /// Takes in the tasks and returns true, unless a newer board is known. Tasks that an effect has changed since the board
    /// was read stay as they were: with hundreds at work, no board would be without one, and new tasks would never be seen.
    pub(super) fn board(&mut self, read: BoardRead, mut cards: Vec<Card>, limits: Limits) -> bool {
        // Reads overlap; a board from a read that began later is known already.
        if read.number < self.newest_board {
            return false;
        }
        let changed = self.shared.changes().after(read.changes);
        if changed.as_ref().is_none_or(|tasks| !tasks.is_empty()) {
            // Without another read, the schedule would keep what was before the change.
            self.shared.reload.notify_one();
        }
        let Some(changed) = changed else { return false };
        cards.retain(|card| !changed.contains(&card.number));
        cards.extend(changed.iter().filter_map(|task| self.schedule.card(*task).cloned()));
        self.newest_board = read.number;
        // First, so that the tasks of this board are admitted under the limits of the same moment.
        self.fact(Fact::Limits(limits), None);
        self.fact(Fact::Board(cards), None);
        if self.look.take_if(|look| read.number > *look).is_some() {
            self.fact(Fact::Looked, None);
        }
        self.log.files_changed();
        true
    }

    /// Records the changes of `steps`, then carries out their commands. Replies, permits and everything else that
    /// cannot be undone wait until the changes are durable.
    fn carry_out(
        &mut self,
        steps: Vec<Step>,
        mut after: Vec<After>,
        permit: Option<oneshot::Sender<bool>>,
        reply: Option<oneshot::Sender<Result<Accepted>>>,
    ) {
        let (mut entries, mut permit, mut reply) = (Vec::new(), permit, reply);
        let mut commands = Vec::new();
        let at = self.now();
        for step in steps {
            match step {
                Step::Record(change) => {
                    // Numbered in the order of the facts, which the recorder keeps.
                    self.seq += 1;
                    self.notify_waiters(&change, &mut after);
                    entries.push(Entry::new(self.seq, at.clone(), change));
                }
                Step::Do(command) => commands.push(command),
                Step::Permit(permitted) => {
                    if let Some(permit) = permit.take() {
                        after.push(Box::new(move || {
                            // The effect may have ended.
                            let _ = permit.send(permitted);
                        }));
                    }
                }
                Step::Reply(answer) => {
                    if let Some(reply) = reply.take() {
                        let answer = answer.map_err(Error::from);
                        after.push(Box::new(move || drop(reply.send(answer))));
                    }
                }
            }
        }
        // After all changes of this step: a command reads the ledger as it is at the end.
        for command in commands {
            if let Some(act) = self.command(command) {
                after.push(act);
            }
        }
        self.answer_settled(&mut after);
        let is_empty = entries.is_empty() && after.is_empty();
        if !is_empty && self.recorder.send(Batch { entries, after }).is_err() {
            self.abandon();
        }
    }

    /// Answers those who wait for a life that waits for a person now.
    fn answer_settled(&mut self, after: &mut Vec<After>) {
        let schedule = &self.schedule;
        for (id, reply) in self.lives.extract_if(.., |(id, _)| settled(schedule, *id).is_some()) {
            if let Some(life) = settled(schedule, id).cloned() {
                after.push(Box::new(move || drop(reply.send(life))));
            }
        }
    }

    /// Closes the project because its journal cannot be written any more. The next start finds out what became of its
    /// lives, as after a kill.
    fn abandon(&mut self) {
        if self.closing.is_empty() {
            tracing::error!(project = %self.shared.id, "the journal cannot be written; the project is closed");
            let (closed, _) = oneshot::channel();
            self.close(closed, false);
        }
    }

    /// Answers the requests that wait for a change, once it is durable.
    fn notify_waiters(&mut self, change: &Change, after: &mut Vec<After>) {
        match change {
            Change::Run(run) if run.ended.is_some() => {
                let Some(summary) = run.summary().map(Arc::new) else { return };
                after.push(self.keep_runs(vec![(**run).clone()]));
                for (_, reply) in self.runs.extract_if(.., |(id, _)| *id == run.id) {
                    let summary = Arc::clone(&summary);
                    after.push(Box::new(move || drop(reply.send(summary))));
                }
            }
            Change::Life(life) => {
                if life.has_ended() {
                    for (_, reply) in self.lives.extract_if(.., |(id, _)| *id == life.id) {
                        let life = (**life).clone();
                        after.push(Box::new(move || drop(reply.send(life))));
                    }
                }
                if life.has_ended() {
                    let session = self.controls.remove(&life.id).and_then(|control| control.session());
                    if let Some(session) = session.filter(|_| life.subject == Subject::Chat) {
                        self.last_chat = Some((life.id, session));
                    }
                }
                if life.has_ended() || life.state == LifeState::Running || is_put_off(life) {
                    let waiting: Vec<_> = self.sessions.extract_if(.., |(id, _)| *id == life.id).collect();
                    for (_, reply) in waiting {
                        self.answer_session(life, reply, after);
                    }
                }
            }
            Change::Backend { backend, block } => {
                let issue = block.as_ref().map(|block| block.issue.clone());
                // Only collected: the dispatcher passes it on once this project has taken in the fact.
                self.blocked.push((backend.clone(), issue));
            }
            _ => {}
        }
    }

    /// Writes the records of ended runs that have none.
    fn keep_runs(&self, runs: Vec<Run>) -> After {
        let shared = Arc::clone(&self.shared);
        // Counted before it is spawned, so that closing cannot overtake it.
        let busy = shared.busy();
        Box::new(move || {
            tokio::spawn(async move {
                for run in runs {
                    if !archive::holds::<Run>(&shared, run.id) {
                        archive::keep(&shared, &run).await;
                    }
                }
                drop(busy);
            });
        })
    }

    fn answer_session(&self, life: &Life, reply: oneshot::Sender<Result<Session>>, after: &mut Vec<After>) {
        let last =
            self.last_chat.as_ref().filter(|(id, _)| *id == life.id).map(|(_, session)| session.clone());
        let session = self.controls.get(&life.id).and_then(Control::session).or(last);
        let answer = match (session, life.ending(), &life.state) {
            (Some(session), ..) => Ok(session),
            (None, Some(crate::schedule::Ending::Error { code, message }), _) => {
                Err(Error::from_code(code, message.clone()))
            }
            (None, Some(_), _) => Err(has_ended()),
            (None, None, LifeState::Limited { issue, .. }) => {
                let kind = match issue.kind {
                    IssueKind::AgentMissing => ErrorKind::ProgramMissing,
                    IssueKind::VariablesGone => ErrorKind::VariablesGone,
                    _ => ErrorKind::TargetOff,
                };
                Err(Error::new(kind, issue.message.clone()))
            }
            (None, None, _) => Err(shut_down()),
        };
        after.push(Box::new(move || drop(reply.send(answer))));
    }

    /// Carries out a command, or returns it if it must wait for the journal.
    fn command(&mut self, command: Command) -> Option<After> {
        reached(|| format!("do {}", command.word()));
        let shared = Arc::clone(&self.shared);
        match command {
            Command::Start(id) => {
                let life = self.schedule.ledger().lives.get(&id)?.clone();
                let control = Control::new();
                self.controls.insert(id, control.clone());
                // Not after the journal: everything before the permit for its session can be repeated after a
                // kill.
                tokio::spawn(effects::attempt(shared, life, control));
                None
            }
            Command::Look => {
                self.look = Some(shared.begin_board().number);
                shared.reload.notify_one();
                None
            }
            Command::End(id, reason) => {
                // A life of an earlier start has no control: `recover` ends its session and reports the
                // outcome.
                if let Some(control) = self.controls.get(&id) {
                    let life = self.schedule.ledger().lives.get(&id).filter(|_| self.detaching);
                    let is_left = life.is_some_and(|life| !life.subject.is_step()) && control.can_be_left();
                    control.stop(if is_left { StopReason::Detached } else { reason });
                }
                None
            }
            Command::CancelMerge(id) => {
                if let Some(control) = self.controls.get(&id) {
                    control.stop(StopReason::Requested);
                }
                None
            }
            Command::Merge(ticket) => {
                let lives: Vec<Life> = ticket
                    .lives
                    .iter()
                    .filter_map(|id| self.schedule.ledger().lives.get(id).cloned())
                    .collect();
                let control = Control::new();
                // One control for the whole ticket: stopping one of its lives ends the batch, and the others
                // are queued again.
                self.controls.extend(ticket.lives.iter().map(|id| (*id, control.clone())));
                tokio::spawn(effects::merge(shared, ticket, lives, control));
                None
            }
            Command::TryHeld(ids) => {
                let lives =
                    ids.iter().filter_map(|id| self.schedule.ledger().lives.get(id).cloned()).collect();
                tokio::spawn(effects::try_held(shared, lives));
                None
            }
            Command::Withdraw(id) => {
                let life = self.schedule.ledger().lives.get(&id)?.clone();
                tokio::spawn(effects::withdraw(shared, life));
                None
            }
            Command::Deliver(id, question) => {
                let session = self.controls.get(&id).and_then(Control::session)?;
                let life = self.schedule.ledger().lives.get(&id)?;
                let answer = life.answer(&question)?.clone();
                // Durable first: after a crash, an answer that is not recorded must not have reached the
                // agent.
                Some(Box::new(move || {
                    tokio::spawn(effects::deliver(shared, session, answer));
                }))
            }
            Command::Continue(id) => {
                let life = self.schedule.ledger().lives.get(&id)?;
                let session = self.controls.get(&id)?.awaited(&life.session.as_ref()?.id);
                tokio::spawn(effects::go_on(shared, session));
                None
            }
            Command::Release(life) => {
                // Counted before it is spawned, so that closing cannot overtake it.
                let busy = shared.busy();
                Some(Box::new(move || {
                    tokio::spawn(async move {
                        let (task, releasing) = (life.subject.task(), Arc::clone(&shared));
                        let released = tokio::spawn(async move { effects::release(&releasing, *life).await });
                        // A foreign store panicked. Its claim expires.
                        if let Err(error) = released.await {
                            let message = format!("giving the task back: {error}");
                            shared.notice(NoticeCode::Store, task, message);
                        }
                        drop(busy);
                    });
                }))
            }
        }
    }

    pub(super) fn await_run(&mut self, id: RunId, reply: oneshot::Sender<Arc<RunSummary>>) {
        match self.schedule.ledger().runs.get(&id).map(crate::schedule::Run::summary) {
            Some(Some(summary)) => drop(reply.send(Arc::new(summary))),
            Some(None) => self.runs.push((id, reply)),
            // Dropping the reply means that there is no such run.
            None => {}
        }
    }

    pub(super) fn await_life(&mut self, id: LifeId, reply: oneshot::Sender<Life>) {
        match settled(&self.schedule, id) {
            Some(life) => drop(reply.send(life.clone())),
            None if self.schedule.ledger().life(id).is_some() => self.lives.push((id, reply)),
            None => {}
        }
    }

    pub(super) fn await_session(&mut self, id: LifeId, reply: oneshot::Sender<Result<Session>>) {
        let Some(life) = self.schedule.ledger().life(id).cloned() else {
            return drop(reply.send(Err(has_ended())));
        };
        // One that asks or is limited has a session too, and may stay so for hours.
        let has_session = self.controls.get(&id).is_some_and(|control| control.session().is_some());
        if life.has_ended() || has_session || is_put_off(&life) {
            let mut after = Vec::new();
            self.answer_session(&life, reply, &mut after);
            after.into_iter().for_each(|act| act());
        } else {
            self.sessions.push((id, reply));
        }
    }

    /// Answers with a snapshot as of the newest change, and a stream from `since` or from there on.
    pub(super) fn subscribe(&mut self, since: Option<&Cursor>, reply: SubscribeReply) {
        // Checked here, in order with the changes: a cursor from the future is one of a lost journal.
        let (after, expired) = match since.map(|cursor| self.log.place(cursor)).transpose() {
            Ok(after) => (after.unwrap_or(self.seq), None),
            Err(error) if error.kind() == ErrorKind::CursorExpired => (self.seq, Some(error)),
            Err(error) => return drop(reply.send(Err(error))),
        };
        let subscribed = Subscribed {
            ledger: self.schedule.ledger().clone(),
            cursor: self.log.cursor(self.seq),
            opened: self.log.opened(),
            expired,
            stream: LogStream::new(Arc::clone(&self.log), after),
        };
        let answer: After = Box::new(move || drop(reply.send(Ok(subscribed))));
        // Through the recorder, so that the snapshot is not delivered before its last change is durable.
        self.carry_out(Vec::new(), vec![answer], None, None);
    }

    pub(super) fn close(&mut self, closed: oneshot::Sender<()>, detach: bool) {
        // Before the fact: effects that wait for a file, a disk or git give up once they see this.
        self.shared.closing.send_replace(true);
        self.closing.push(closed);
        let request = Fact::Request { command: None, request: Request::Close };
        // Only for the ends that this request brings.
        self.detaching = detach && self.shared.inner.host.outlives();
        self.fact(request, None);
        self.detaching = false;
    }

    /// Returns true if closing was requested and no effect is running.
    pub(super) fn is_closed(&self) -> bool {
        !self.closing.is_empty() && self.schedule.is_closed()
    }

    /// Releases everything once all changes are written.
    pub(super) fn finish(self) {
        let Self { shared, log, recorder, closing, .. } = self;
        tokio::spawn(async move {
            // Clean-ups still write to the store, under the claims that are released below.
            shared.wait_for_clean_ups().await;
            // An empty batch behind all others: its action runs once everything before it is written.
            let (written, all_written) = oneshot::channel();
            let act: After = Box::new(move || {
                let _ = written.send(());
            });
            let _ = recorder.send(Batch { entries: Vec::new(), after: vec![act] });
            // A dropped sender means that the recorder has ended.
            let _ = all_written.await;
            // Claims before the journal: as long as it is locked, no other orchestrator of this home starts.
            let releasing = Arc::clone(&shared);
            // In a task of its own: a foreign store that panics must not leave the project locked.
            let _ = tokio::spawn(async move { effects::release_all(&releasing).await }).await;
            shared.journal.close().await;
            log.close();
            // After the journal is closed: the next opener of the project takes both locks.
            shared.unlock();
            for closed in closing {
                // The caller may be gone.
                let _ = closed.send(());
            }
        });
    }

    /// Ends everything after a panic. The schedule may be half-way through a step, so it decides nothing more. Agents
    /// end, and the next start finds out what became of them.
    pub(super) fn fail(self) {
        let Self { shared, controls, log, recorder, .. } = self;
        shared.closing.send_replace(true);
        // No permit can be given any more, so effects that are under way begin nothing.
        controls.into_values().for_each(|control| control.stop(StopReason::Suspended));
        tokio::spawn(async move {
            let (written, all_written) = oneshot::channel();
            let act: After = Box::new(move || {
                let _ = written.send(());
            });
            let _ = recorder.send(Batch { entries: Vec::new(), after: vec![act] });
            drop(recorder);
            // Dropped unsent: the recorder has ended.
            let _ = all_written.await;
            log.close();
            shared.journal.close().await;
            shared.unlock();
        });
    }
}

/// Returns true if a caller that waits for the life can be answered: it has ended, or an obstacle keeps it,
/// if only for a while.
/// Returns a life that has ended or waits for a person, unless it is being found out whether what held it is gone.
fn settled(schedule: &Schedule, id: LifeId) -> Option<&Life> {
    let life = schedule.ledger().life(id)?;
    let waits = life.waits_for_person() || matches!(life.state, LifeState::Held { .. });
    (life.has_ended() || waits && !schedule.will_be_tried(id)).then_some(life)
}

/// Returns true for a life that is limited before its session starts. It waits for a person, who may be the one that asks for the
/// session.
fn is_put_off(life: &Life) -> bool {
    matches!(life.state, LifeState::Limited { .. }) && life.session.is_none()
}

fn has_ended() -> Error {
    Error::new(ErrorKind::TargetOff, "its session has ended")
}
