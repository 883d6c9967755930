//! One open project: the parts that its effects share.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};

use super::{BoardRead, Message, Parts, Reports, StoreChanges, hosts, shut_down};
use crate::Result;
use crate::backend::LeftBehind;
use crate::files::DirLock;
use crate::inquiry::Room;
use crate::journal::JournalHandle;
use crate::model::{self, KeyFile, Project, ProjectId, SessionId, Settings, TaskNumber, UnknownKey};
use crate::schedule::{Fact, LifeId, Limits, Notice, NoticeCode, Schedule};
use crate::session::Session;
use crate::store::{Claim, Fence, Malformed, TaskList, TaskStore};
use crate::workspace::Workspace;

/// Time after which the person is told of work that goes on.
const LONG: Duration = Duration::from_secs(10);

/// Location of a project, and the implementations that serve it.
pub(crate) struct Site {
    pub(crate) id: ProjectId,
    pub(crate) root: PathBuf,
    /// `state/<project_id>` in the home.
    pub(crate) state_dir: PathBuf,
    pub(crate) logs_dir: PathBuf,
    pub(crate) store: Arc<dyn TaskStore>,
    pub(crate) workspace: Arc<dyn Workspace>,
    /// The further repositories that the project's file named when the workspace was opened.
    pub(crate) repositories: Vec<String>,
    pub(crate) journal: JournalHandle,
    /// The lock in the repository, which other homes see.
    pub(crate) lock: Mutex<Option<DirLock>>,
}

/// An open project, as its effects see it.
pub(crate) struct ProjectShared {
    pub(crate) inner: Arc<Parts>,
    site: Site,
    /// The sessions of this run of the program, until their logs are dropped, each with its number in the order of their
    /// beginnings.
    sessions: Mutex<BTreeMap<SessionId, (u64, Session)>>,
    /// Number of sessions that have begun.
    begun: watch::Sender<u64>,
    /// The claims that we hold and renew; absent where another orchestrator took the task over.
    claims: Mutex<BTreeMap<LifeId, Option<Claim>>>,
    /// Boot time, in milliseconds, at which all claims were last known to be ours.
    renewed_at: AtomicU64,
    /// Requests another read of the board.
    pub(crate) reload: Arc<Notify>,
    /// The changes that effects made to the store.
    changes: Mutex<StoreChanges>,
    /// The malformed files that were reported.
    malformed: Mutex<Vec<Malformed>>,
    /// The unknown keys that were reported.
    unknown_keys: Mutex<Vec<UnknownKey>>,
    /// The further repositories that the file named at the last read.
    repositories_seen: Mutex<Vec<String>>,
    /// True once the project is being closed. Nothing new starts then.
    pub(crate) closing: watch::Sender<bool>,
    /// Locks for opening and removing the workspace of a task.
    task_locks: Mutex<BTreeMap<TaskNumber, Arc<tokio::sync::Mutex<()>>>>,
    /// Agents of which the person was told what does not go along.
    left: Mutex<BTreeSet<String>>,
    /// Number of reads of the board.
    boards: AtomicU64,
    /// Number of clean-ups under way.
    busy: watch::Sender<usize>,
    /// The inquiries of its sessions.
    pub(crate) inquiries: Arc<Room>,
}

impl std::ops::Deref for ProjectShared {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// Time limit for the clean-ups of a project that is being closed.
const CLEAN_UPS: Duration = Duration::from_secs(30);
/// Time that an agent has for its start before folders are made ready for the next.
const HEAD_START: Duration = Duration::from_secs(1);

/// Number of ended sessions that are kept for readers.
const ENDED_SESSIONS: usize = 32;

impl ProjectShared {
    pub(crate) fn new(inner: Arc<Parts>, site: Site) -> Self {
        let inquiries = Arc::new(Room::new(site.state_dir.join("inquiries"), Arc::clone(&inner.clock)));
        Self {
            renewed_at: AtomicU64::new(millis(inner.clock.boot_time())),
            inner,
            repositories_seen: Mutex::new(site.repositories.clone()),
            site,
            inquiries,
            sessions: Mutex::default(),
            begun: watch::Sender::new(0),
            claims: Mutex::default(),
            reload: Arc::default(),
            changes: Mutex::default(),
            malformed: Mutex::default(),
            unknown_keys: Mutex::default(),
            closing: watch::Sender::new(false),
            task_locks: Mutex::default(),
            left: Mutex::default(),
            boards: AtomicU64::new(0),
            busy: watch::Sender::new(0),
        }
    }

    fn reports(&self) -> &Reports {
        &self.inner.reports
    }

    /// Reports a fact to the dispatcher.
    pub(crate) fn report(&self, fact: Fact) {
        self.reports().fact(&self.id, fact);
    }

    /// Reports a fact, waits until its change is durable, and returns true if the effect may continue.
    pub(crate) async fn permit(&self, fact: Fact) -> bool {
        self.reports().permit(&self.id, fact).await
    }

    /// Records a notice for the person.
    pub(crate) fn notice(&self, code: NoticeCode, task: Option<TaskNumber>, message: impl Into<String>) {
        self.report(Fact::Noticed(Notice::new(code, message).with_task(task)));
    }

    /// Waits for work that is usually short. If it takes long, tells the person, who might think that it hangs.
    pub(crate) async fn patiently<T>(
        &self,
        task: Option<TaskNumber>,
        what: &str,
        work: impl Future<Output = T>,
    ) -> T {
        let (mut work, clock) = (std::pin::pin!(work), &self.inner.clock);
        tokio::select! {
            done = &mut work => return done,
            () = clock.sleep_until(clock.boot_time() + LONG) => {}
        }
        let message = format!(
            "{what} has taken {} s by now and goes on; a filter of git's or a slow disk may be the reason",
            LONG.as_secs()
        );
        self.notice(NoticeCode::Workspace, task, message);
        work.await
    }

    /// Reads the schedule in the dispatcher, between two facts.
    ///
    /// # Errors
    /// `cancelled` after a shutdown.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Schedule) -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let read = move |schedule: &Schedule| drop(reply.send(read(schedule)));
        self.inner.reports.send(Message::Read { project: self.id.clone(), read: Box::new(read) });
        answer.await.map_err(|_| shut_down())
    }

    /// Returns the current settings of the project and of the person.
    pub(crate) async fn settings(&self) -> Result<(Project, Settings)> {
        let project = self.store.project().await?.value;
        Ok((project, self.inner.settings()))
    }

    /// Returns the limits of this project.
    pub(crate) fn limits(&self, project: &Project, settings: &Settings) -> Limits {
        Limits {
            parallel: project.max_parallel.unwrap_or(1).max(1),
            in_all: settings.max_parallel,
            auto_start: self.inner.automation
                && project.auto_start_tasks.unwrap_or(settings.defaults.auto_start_tasks),
            batch: project.merge.batch.unwrap_or(1),
            stop_on_merge_failure: settings.defaults.stop_on_merge_failure,
            rounds: project.wildfire.rounds.unwrap_or(0),
            review: project.wildfire.review.unwrap_or(false),
            on_limit: project.on_limit.unwrap_or(settings.defaults.on_limit),
            ..Limits::default()
        }
    }

    /// Reports malformed files, each once.
    pub(crate) fn notice_malformed(&self, malformed: &[Malformed]) {
        let mut known = self.malformed.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that was repaired and breaks again is reported again.
        let known = std::mem::replace(&mut *known, malformed.to_vec());
        for fault in malformed.iter().filter(|fault| !known.contains(fault)) {
            self.notice(NoticeCode::Malformed, fault.number, fault.to_string());
        }
    }

    /// Reports what of the person's own does not go along into sessions of an agent, once.
    pub(crate) fn notice_left(&self, agent: &str, left: &[LeftBehind]) {
        if left.is_empty()
            || !self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(agent.to_owned())
        {
            return;
        }
        let items = left.iter().map(|left| format!("{} ({})", left.item, left.why));
        let items = items.collect::<Vec<_>>().join(", ");
        let setting = LeftBehind::setting(agent, left);
        let remedy = setting.map(|line| format!("; to take it along, in settings.yaml: {line}"));
        let message =
            format!("of your own {agent}, this stays behind: {items}{}", remedy.unwrap_or_default());
        self.notice(NoticeCode::Session, None, message);
    }

    /// Reports keys that change nothing, each once, however many tasks have it.
    pub(crate) fn notice_unknown_keys(&self, project: &Project, settings: &Settings, tasks: &TaskList) {
        let mut found: Vec<(UnknownKey, Vec<TaskNumber>)> = Vec::new();
        let mut keys = model::unknown_keys(KeyFile::Settings, settings);
        // Boards are read often, and most settings name no agent.
        if !settings.agents.is_empty() {
            let backends = self.inner.backends.clone().with_configured(settings);
            keys.extend(backends.as_ref().unwrap_or(&self.inner.backends).unread_settings(settings));
        }
        keys.extend(model::unknown_keys(KeyFile::Project, project));
        found.extend(keys.into_iter().map(|key| (key, Vec::new())));
        for task in tasks.tasks.iter().map(|task| &task.value).filter(|task| !task.extra.is_empty()) {
            for key in model::unknown_keys(KeyFile::Task, task) {
                match found.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, having)) => having.push(task.task_number),
                    None => found.push((key, vec![task.task_number])),
                }
            }
        }
        let keys = found.iter().map(|(key, _)| key.clone()).collect();
        let known = {
            let mut known = self.unknown_keys.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *known, keys)
        };
        for (key, having) in found.iter().filter(|(key, _)| !known.contains(key)) {
            let further = match having.len() {
                0 | 1 => String::new(),
                all => format!(" (it is in {all} tasks)"),
            };
            self.notice(NoticeCode::UnknownKey, having.first().copied(), format!("{key}{further}"));
        }
    }

    /// Reports, once for each change, that the file names other repositories than the open workspace has. The workspace keeps its
    /// own: work that is to be merged may have parts in them, and what the settings allow was asked when it was opened.
    pub(crate) fn notice_repositories(&self, project: &Project) {
        let mut seen = self.repositories_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *seen, project.repositories.clone());
        if before == project.repositories || self.site.repositories == project.repositories {
            return;
        }
        let in_use = match &self.site.repositories[..] {
            [] => "the project's own alone".to_owned(),
            all => all.join(", "),
        };
        let message = format!(
            "project.yaml names other `repositories` than are in use: tasks go on with {in_use} until the project is opened \
             again (`watchfire daemon restart`, if a daemon has it open)"
        );
        self.notice(NoticeCode::Workspace, None, message);
    }

    /// Notes that an effect has changed a task, or any. Boards read before now are stale for it.
    pub(crate) fn store_changed(&self, task: Option<TaskNumber>) {
        // Noted first: a reload that begins in between must already count as newer.
        self.changes().note(task);
        self.reload.notify_one();
    }

    pub(crate) fn changes(&self) -> MutexGuard<'_, StoreChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock by which other homes know of an agent that outlives this program, if the repository has a place for
    /// it.
    pub(crate) fn hosts_lock(&self) -> Result<Option<OwnedFd>> {
        let dir = self.workspace.shared_dir();
        dir.map(|dir| hosts::hold(&dir, &self.inner.home)).transpose()
    }

    /// Lets the project be opened again, here and by other homes. Handles that are still around keep nothing locked.
    pub(crate) fn unlock(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.inner.unreserve(&self.id);
    }

    /// Returns the moment at which a board is about to be read.
    pub(crate) fn begin_board(&self) -> BoardRead {
        BoardRead { number: self.boards.fetch_add(1, Ordering::AcqRel) + 1, changes: self.changes().last() }
    }

    pub(crate) fn add_session(&self, session: Session) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that who sees the number also finds the session.
        self.begun.send_modify(|begun| *begun += 1);
        sessions.insert(session.info().id.clone(), (*self.begun.borrow(), session));
        // Dropped here and not at their end, so that a reader can look at one that has just ended.
        let ended = sessions.values().filter(|(_, session)| session.has_ended());
        let mut ended: Vec<_> = ended.map(|(number, session)| (*number, session.info().id.clone())).collect();
        ended.sort_unstable();
        for (_, old) in ended.iter().take(ended.len().saturating_sub(ENDED_SESSIONS)) {
            sessions.remove(old);
        }
    }

    /// Returns the sessions that began after the first `seen`, in their order and with their numbers, unless some were dropped
    /// already.
    pub(crate) fn begun_since(&self, seen: u64) -> Option<Vec<(u64, Session)>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let later = sessions.values().filter(|(number, _)| *number > seen);
        let mut later: Vec<_> = later.cloned().collect();
        later.sort_unstable_by_key(|(number, _)| *number);
        (later.len() as u64 >= self.begun.borrow().saturating_sub(seen)).then_some(later)
    }

    /// Returns a receiver of the number of sessions that have begun.
    pub(crate) fn begun(&self) -> watch::Receiver<u64> {
        self.begun.subscribe()
    }

    /// Returns the running sessions.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions
            .values()
            .map(|(_, session)| session)
            .filter(|session| !session.has_ended())
            .cloned()
            .collect()
    }

    /// Returns a session, running or among the last that ended.
    pub(crate) fn session(&self, id: &SessionId) -> Option<Session> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).map(|(_, session)| session.clone())
    }

    /// Returns the lock that serialises opening and removing the workspace of a task.
    pub(crate) fn task_lock(&self, task: TaskNumber) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.task_locks.lock().unwrap_or_else(PoisonError::into_inner);
        // Only locks in use are kept.
        locks.retain(|other, lock| *other == task || Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(task).or_default())
    }

    /// Returns the folder with the texts that wait for the agent of a life.
    pub(crate) fn mailbox_of(&self, life: LifeId) -> PathBuf {
        self.state_dir.join("mail").join(life.to_string())
    }

    /// Returns the fence of the claim of a life, if we hold one.
    pub(crate) fn fence(&self, life: LifeId) -> Option<Fence> {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.get(&life)?.as_ref().map(|claim| claim.fence)
    }

    /// Returns true if the claim of a life was lost. It is not taken again: the work may be done twice by now.
    pub(crate) fn has_lost_claim(&self, life: LifeId) -> bool {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.get(&life).is_some_and(Option::is_none)
    }

    pub(crate) fn claims(&self) -> Vec<(LifeId, Claim)> {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.iter().filter_map(|(life, claim)| Some((*life, claim.clone()?))).collect()
    }

    /// Returns the boot time at which all claims were last known to be ours.
    pub(crate) fn renewed_at(&self) -> Duration {
        Duration::from_millis(self.renewed_at.load(Ordering::Acquire))
    }

    pub(crate) fn set_renewed_at(&self, boot_time: Duration) {
        self.renewed_at.store(millis(boot_time), Ordering::Release);
    }

    pub(crate) fn keep_claim(&self, life: LifeId, claim: Claim) {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).insert(life, Some(claim));
    }

    pub(crate) fn lose_claim(&self, life: LifeId) {
        // Not removed: the empty entry keeps `claim` from taking the task again.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).insert(life, None);
    }

    pub(crate) fn drop_claim(&self, life: LifeId) -> Option<Claim> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(&life)?
    }

    /// Prepares workspaces for the next tasks in the background, while agents work. Ends when the project is closed.
    pub(crate) fn make_ready(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let count = shared.inner.settings().defaults.ready_worktrees as usize;
            let mut closing = shared.closing.subscribe();
            let make = async {
                // The agent that was started a moment ago goes first.
                shared.inner.clock.sleep_until(shared.inner.clock.boot_time() + HEAD_START).await;
                shared.workspace.keep_ready(count).await
            };
            let made = tokio::select! {
                made = make => made,
                _ = closing.wait_for(|closing| *closing) => Ok(()),
            };
            if let Err(error) = made {
                let message = format!("making workspaces ready: {}", error.report());
                shared.notice(NoticeCode::Workspace, None, message);
            }
        });
    }

    /// Counts a clean-up as under way until the guard is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        Busy(Arc::clone(self))
    }

    /// Waits until no clean-up is under way, for a limited time: a disk that does not answer must not keep the program. A clean-up
    /// that takes longer has no claim any more, so its writes are rejected.
    pub(crate) async fn wait_for_clean_ups(&self) {
        let mut busy = self.busy.subscribe();
        let clock = &self.inner.clock;
        tokio::select! {
            biased;
            // It ends, because this project owns the sender.
            _ = busy.wait_for(|count| *count == 0) => {}
            () = clock.sleep_until(clock.boot_time() + CLEAN_UPS) => {
                tracing::warn!(project = %self.id, "closed while clean-ups are under way");
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Guard of a clean-up under way.
pub(crate) struct Busy(Arc<ProjectShared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|count| *count = count.saturating_sub(1));
    }
}
