//! Follows a run to its end.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use watchfire_client::daemon_proto::StartAgentRequest;
use watchfire_client::work_proto::{ListQueueRequest, Work};
use watchfire_client::{ApiError, Followed as Item, ProjectLog, State};
use watchfire_core::orchestrator::{Record, Spent};
use watchfire_core::schedule::{Change, Life, LifeId, LifeState, RunId, RunSummary, Scope, Subject, Wait};
use watchfire_core::{Error, ErrorKind};

use super::{FRAME, View};
use crate::away;
use crate::failure::Result;
use crate::interrupts::Interrupts;
use crate::worker::{Worker, wire};

/// Time after which a run says that its task waits for its turn.
const QUEUED: Duration = Duration::from_secs(1);
/// Time that the daemon has to answer what it is asked beside.
const ANSWER: Duration = Duration::from_secs(2);

/// A run and its view.
pub(crate) struct Followed<'a> {
    worker: &'a mut Worker,
    run: RunId,
    scope: Scope,
    log: ProjectLog,
    /// Place in the log of the last change on the screen.
    cursor: String,
    /// Lives whose ends are shown.
    lives: BTreeSet<LifeId>,
    spent: Spent,
    /// Time at which to say that the tasks that were asked for wait for their turn. `None` once one's has come.
    queued: Option<tokio::time::Instant>,
    view: Box<dyn View>,
}

impl<'a> Followed<'a> {
    /// Starts a run by `request`, and follows what happens from there on.
    pub(crate) async fn start(
        worker: &'a mut Worker,
        scope: Scope,
        request: StartAgentRequest,
        view: Box<dyn View>,
    ) -> Result<Self> {
        let (project, activity) = (worker.project(), view.is_live());
        // Followed before the run starts, so that its first changes are not missed; in this program from the time at which the
        // project was opened, because what was left over is brought to its end too.
        let (state, log) = worker.daemon.follow(&project, None, activity).await?;
        let (state, log) = match worker.own() {
            Some(_) => worker.daemon.follow(&project, Some(&state.opened), activity).await?,
            None => (state, log),
        };
        let run = RunId(worker.start(request).await?.run_id);
        let is_its_own =
            |life: &Life| life.subject.task().is_some_and(|task| scope.named().any(|it| it == task));
        let waits = |life: &Life| matches!(life.state, LifeState::Waiting { .. });
        // An agent that is at work on it already was taken over, or goes on.
        let runs = state.lives.iter().any(|life| is_its_own(life) && !life.has_ended() && !waits(life));
        let may_queue = !scope.is_general() && !runs;
        let mut followed = Self {
            worker,
            run,
            scope,
            log,
            cursor: state.cursor,
            lives: BTreeSet::new(),
            spent: Spent::default(),
            queued: may_queue.then(|| tokio::time::Instant::now() + QUEUED),
            view,
        };
        if followed.worker.own().is_none() {
            for life in state.lives {
                followed.show_life(life).await;
            }
        }
        Ok(followed)
    }

    /// Shows everything that happens until the run is over, and stops the run on Ctrl+C. Returns its summary and the spending of its
    /// sessions.
    pub(crate) async fn until_its_end(mut self, interrupts: &Interrupts) -> Result<(RunSummary, Spent)> {
        let mut frames = tokio::time::interval(FRAME);
        let mut asked = false;
        let mut doing = HashMap::new();
        loop {
            let queued = self.queued;
            tokio::select! {
                // Changes first: a busy log must not wait behind frames that show it.
                biased;
                item = self.log.next() => match item {
                    Ok(Some(Item::Record(record))) => {
                        if let Some(summary) = self.show(&record).await {
                            return Ok((summary, self.spent));
                        }
                    }
                    // The log is bounded. The run itself is not affected.
                    Ok(Some(Item::Missed(first, last))) => {
                        self.view.note(&match last {
                            0 => "changes are not shown: they are too old".to_owned(),
                            _ => format!(
                                "{} changes are not shown: this terminal was too slow",
                                (last + 1).saturating_sub(first)
                            ),
                        });
                        if let Some(summary) = self.again().await? {
                            return Ok((summary, self.spent));
                        }
                    }
                    Ok(Some(Item::Activity(now))) => doing = now,
                    Ok(Some(_)) => {}
                    Ok(None) => return Err(gone().into()),
                    Err(error) => {
                        self.reconnect(error, interrupts).await?;
                        // What was asked for while nobody was there.
                        if asked {
                            self.worker.stop(self.run).await;
                        }
                    }
                },
                // Once: afterwards `first` returns at once, and the loop would spin.
                () = interrupts.first(), if !asked => {
                    if interrupts.hung_up() && self.worker.own().is_none() {
                        // It was started for whoever looks in again.
                        let left = ApiError::new("cancelled", "the terminal was closed; the run goes on in the daemon");
                        return Err(left.into());
                    }
                    asked = true;
                    self.worker.stop(self.run).await;
                    self.view.note("stopping: agents are ended and their work is kept; Ctrl+C again leaves at once");
                }
                () = tokio::time::sleep_until(queued.unwrap_or_else(tokio::time::Instant::now)), if queued.is_some() => {
                    self.queued = None;
                    self.say_what_is_waited_for().await;
                }
                _ = frames.tick(), if self.view.is_live() => self.view.tick(&doing, Instant::now()),
            }
        }
    }

    /// Says why none of the tasks that were asked for has begun.
    async fn say_what_is_waited_for(&mut self) {
        let tasks: Vec<_> = self.scope.named().collect();
        let request = ListQueueRequest { project_id: self.worker.project() };
        let mut reports = self.worker.daemon.reports();
        // A daemon that hangs must not keep Ctrl+C from being heeded.
        let Ok(queue) = tokio::time::timeout(ANSWER, reports.list_queue(request)).await else { return };
        let works = queue.map(|queue| queue.into_inner().works).unwrap_or_default();
        let waits =
            |work: &Work| work.state == "waiting" && tasks.iter().any(|task| wire(*task) == work.task_number);
        let turn = Wait::Turn.to_string();
        let reason =
            works.into_iter().find(|work| waits(work) && work.detail != turn).map(|work| work.detail);
        let names: Vec<_> = tasks.iter().map(|task| format!("#{task}")).collect();
        let (names, one) = (names.join(", "), tasks.len() == 1);
        self.view.note(&match reason {
            Some(reason) => format!("{names} {}: {reason}", if one { "waits" } else { "wait" }),
            // In this program nothing else has the turn.
            None if self.worker.own().is_some() => return,
            None if one => format!("{names} waits for its turn: other agents work on this project"),
            None => format!("{names} wait for their turn: other agents work on this project"),
        });
    }

    /// Follows the log anew, from now on. Returns the summary if the run has ended in between.
    async fn again(&mut self) -> Result<Option<RunSummary>> {
        let state = self.follow(None).await?;
        let run = state.runs.iter().find(|run| run.id == self.run);
        Ok(run.ok_or_else(gone)?.summary())
    }

    async fn follow(&mut self, since: Option<&str>) -> Result<State, ApiError> {
        let project = self.worker.project();
        let (state, log) = self.worker.daemon.follow(&project, since, self.view.is_live()).await?;
        self.log = log;
        Ok(state)
    }

    /// Waits for the daemon to come back, and follows the log from the last change.
    ///
    /// # Errors
    /// The error that ended the connection, if the daemon is not back in time or the person stops waiting.
    async fn reconnect(&mut self, error: ApiError, interrupts: &Interrupts) -> Result<()> {
        if self.worker.own().is_some() || !error.is_gone() {
            return Err(error.into());
        }
        self.view.note(away::WAITING);
        let cursor = self.cursor.clone();
        let attempt = async || {
            self.worker.reconnect().await?;
            self.follow(Some(&cursor)).await
        };
        away::back(error, interrupts.first(), attempt).await?;
        Ok(())
    }

    /// Shows a change. Returns the summary if it is the end of the run.
    async fn show(&mut self, record: &Record) -> Option<RunSummary> {
        self.cursor = record.cursor.to_string();
        if !self.concerns(&record.change) {
            return None;
        }
        match &record.change {
            // Before the record, which is printed with the title.
            Change::Life(life) => {
                if !matches!(life.state, LifeState::Waiting { on: Wait::Turn | Wait::OtherProjects, .. }) {
                    self.queued = None;
                }
                self.learn_title(life).await;
            }
            Change::SessionOver { end, .. } => {
                self.spent = self.spent.plus(Spent::new(end.usage, end.cost));
            }
            _ => {}
        }
        self.view.record(record, Instant::now());
        match &record.change {
            Change::Run(run) if run.id == self.run => run.summary(),
            _ => None,
        }
    }

    /// Shows a life that was running before the run and belongs to it.
    async fn show_life(&mut self, life: Life) {
        let change = Change::Life(Box::new(life));
        if !self.concerns(&change) {
            return;
        }
        if let Change::Life(life) = &change {
            self.learn_title(life).await;
        }
        self.view.change(&change, Instant::now());
    }

    /// Returns whether a change belongs to the run. In this program every change does.
    fn concerns(&mut self, change: &Change) -> bool {
        if self.worker.own().is_some() {
            return true;
        }
        match change {
            Change::Life(life) => {
                let covered = life.subject.task().is_some_and(|task| self.scope.covers(task));
                let is_its_own = covered || life.run == Some(self.run);
                if is_its_own {
                    self.lives.insert(life.id);
                }
                is_its_own
            }
            Change::SessionOver { life, .. } => self.lives.contains(life),
            Change::Run(run) => run.id == self.run,
            Change::Reopened { task, .. } => self.scope.covers(*task),
            Change::Notice(notice) => notice.task.is_none_or(|task| self.scope.covers(task)),
            Change::Backend { .. } => true,
            // Of others.
            _ => false,
        }
    }

    /// Looks up the title of a task that is new or may have been renamed by its agent.
    async fn learn_title(&mut self, life: &Life) {
        let number = match life.subject {
            Subject::Task { task, .. } if self.view.needs_title(task) => task,
            // A refinement may change the title, so it is read again at its end.
            Subject::Refine { draft, .. } if life.has_ended() || self.view.needs_title(draft) => draft,
            _ => return,
        };
        if let Some(title) = self.worker.title(number).await {
            self.view.set_title(number, &title);
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the project was closed, or archived, before the run ended")
        .with("hint", "watchfire task list says where its tasks stand")
}
