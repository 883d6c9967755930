//! One stream of the records of several sessions.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::ProjectHandle;
use crate::model::{SessionId, Timestamp};
use crate::observe::{Candidate, Cursor, Follow, FollowItem, FollowOptions, Log, Target};
use crate::{Error, ErrorKind, Result};
use futures_core::Stream;

/// Sessions that a stream has to join, and how far it is then. `None` once the project is closed.
type Arrivals = Pin<Box<dyn Future<Output = Option<(Vec<(Candidate, Log)>, Seen)>> + Send>>;

/// Position of a stream among the sessions that begin.
struct Seen {
    /// Time at which the stream began.
    since: Timestamp,
    /// Number of sessions that it has joined or passed over.
    passed: u64,
    /// Number of sessions that had begun when it last looked. More than `passed` after a failure.
    begun: u64,
}

/// Time after which a session that had no free place for a watcher is tried again.
const RETRY: Duration = Duration::from_secs(1);

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An item of a [`FollowSessions`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Followed {
    /// News about a session.
    #[non_exhaustive]
    Session {
        /// The session.
        session: Arc<Candidate>,
        /// The news.
        item: FollowItem,
    },
    /// A session that cannot be followed yet, because all places for watchers are taken. Told once. The stream joins it at
    /// `from` when a place is free.
    #[non_exhaustive]
    Refused {
        /// The session.
        session: Arc<Candidate>,
        /// Position up to which the reader has everything.
        from: Cursor,
        /// The error, `too_many_watchers`.
        error: Arc<Error>,
    },
    /// No session was followed for [`FollowOptions::heartbeat`]: the stream waits for one to begin.
    Heartbeat,
}

/// A stream of the records of all sessions that some targets name. Sessions that begin later and fit `all`, `project:`, `mode:`,
/// `backend:` or `label:` are joined from their first record on. It ends with the last session that a target for one session named,
/// or with the project.
///
/// Each session has its own position, gaps and heartbeats. A session that is followed from now on begins with a heartbeat, so that a
/// reader knows a position of each session; one that goes on from the last position of each misses nothing. A slow reader holds
/// at most 64 records, or 64 KiB, of each session, and slows nobody.
pub struct FollowSessions {
    project: ProjectHandle,
    targets: Vec<Target>,
    options: FollowOptions,
    open: Vec<(Arc<Candidate>, Follow)>,
    /// Index of the session that is asked first, so that a noisy one does not keep others from being heard.
    turn: usize,
    known: BTreeSet<SessionId>,
    /// Absent where no further session can fit.
    arrivals: Option<Arrivals>,
    /// What the reader is told before anything else.
    news: VecDeque<Followed>,
    /// Sessions that had no free place for a watcher.
    refused: Vec<Joining>,
    retry: Option<Timer>,
    silence: Option<Timer>,
}

/// A session to follow.
struct Joining {
    session: Arc<Candidate>,
    log: Log,
    from: Cursor,
}

impl ProjectHandle {
    /// Follows all sessions that `targets` name. A session goes on after its cursor in `since`; without one, a running
    /// session is followed from now on, and one that has ended from the oldest record that is kept. The stream keeps the
    /// project open like a handle.
    ///
    /// With cursors, a target for several sessions also includes the sessions that a reader missed while it was away: each one
    /// that a cursor names, even if it has ended, and each one that fits and began no earlier than the newest of those, from its
    /// first record on. A reader of several projects gives each the start of the newest session of all of them
    /// ([`FollowOptions::begun_since`]). A cursor of a session that this project does not know is ignored. A cursor that its session does not accept is a
    /// [`Gap`](FollowItem::Gap), after which all records follow that are kept.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target` if a target that names one session does not, and `too_many_watchers` if that session has
    /// no place; errors of the store and the disk.
    pub async fn follow(
        &self,
        targets: Vec<Target>,
        options: FollowOptions,
        since: &[Cursor],
    ) -> Result<FollowSessions> {
        let goes_on = targets.iter().any(|target| !target.is_single());
        // Before the sessions are listed: one that begins in between is then an arrival.
        let begun = *self.shared().begun().borrow();
        let seen = Seen { since: self.shared().inner.clock.now(), passed: begun, begun };
        let arrivals = goes_on.then(|| arrivals(self.clone(), targets.clone(), seen));
        let ended =
            !since.is_empty() || options.begun_since.is_some() || targets.iter().any(Target::is_single);
        let candidates = self.candidates(ended).await?;
        let mut single: Vec<&Candidate> = Vec::new();
        let mut meant: Vec<&Candidate> = Vec::new();
        for target in &targets {
            match target.resolve(&candidates, Some(self.id())) {
                Ok(found) if target.is_single() => single.extend(found),
                Ok(found) => meant.extend(found),
                // None fits as yet.
                Err(_) if !target.is_single() => {}
                Err(error) => return Err(error),
            }
        }
        let cursor_of = |it: &Candidate| since.iter().find(|cursor| cursor.scope() == it.session.as_str());
        // In whole seconds, as the logs of sessions that ended have the times.
        let second_of = |at: &Timestamp| at.unix_millis().div_euclid(1_000);
        let second = |it: &Candidate| second_of(&it.started_at);
        let newest = candidates.iter().filter(|it| cursor_of(it).is_some()).map(second).max();
        let newest = newest.max(options.begun_since.as_ref().map(second_of));
        let fits = |it: &Candidate| {
            targets.iter().any(|target| !target.is_single() && target.means(it, Some(self.id())))
        };
        let is_later = |it: &Candidate| newest.is_some_and(|newest| second(it) >= newest) && fits(it);
        if goes_on {
            // Oldest first, as they were begun.
            meant.extend(candidates.iter().rev().filter(|it| cursor_of(it).is_some() || is_later(it)));
        }
        let mut stream = FollowSessions {
            project: self.clone(),
            targets: targets.clone(),
            options,
            open: Vec::new(),
            turn: 0,
            known: BTreeSet::new(),
            arrivals,
            news: VecDeque::new(),
            refused: Vec::new(),
            retry: None,
            silence: None,
        };
        for candidate in single {
            if stream.known.insert(candidate.session.clone()) {
                let log = self.log_of(&candidate.session).await?;
                let from = cursor_of(candidate).cloned();
                let from = from.or_else(|| (!candidate.is_running).then(|| log.beginning()));
                stream.begin(candidate, log, from).map_err(|(_, error)| error)?;
            }
        }
        for candidate in meant {
            if stream.known.insert(candidate.session.clone()) {
                let given = cursor_of(candidate).cloned();
                match (self.log_of(&candidate.session).await, given) {
                    (Ok(log), given) => {
                        let from = given.or_else(|| is_later(candidate).then(|| log.beginning()));
                        if let Err((joining, error)) = stream.begin(candidate, log, from) {
                            stream.refuse(joining, error);
                        }
                    }
                    // Its log was removed, or cannot be read: all the others are followed.
                    (Err(_), Some(given)) => stream.lost(&Arc::new(candidate.clone()), &given, &given),
                    (Err(error), None) if candidate.is_running => return Err(error),
                    (Err(_), None) => {}
                }
            }
        }
        Ok(stream)
    }
}

/// Waits until further sessions have begun, and returns those that `targets` name. One may have ended by the time at which
/// its reader asks for more.
fn arrivals(project: ProjectHandle, targets: Vec<Target>, seen: Seen) -> Arrivals {
    let (mut begun, mut closing) = (project.shared().begun(), project.shared().closing.subscribe());
    Box::pin(async move {
        let begun = tokio::select! {
            biased;
            begun = begun.wait_for(|begun| *begun > seen.begun) => *begun.ok()?,
            _ = closing.wait_for(|closing| *closing) => return None,
        };
        // A store that cannot be read now is asked again with the next session.
        let Ok(arrived) = project.arrived(seen.passed, &seen.since).await else {
            return Some((Vec::new(), Seen { begun, ..seen }));
        };
        let mut joined = Vec::new();
        for candidate in arrived {
            let fits = |target: &Target| !target.is_single() && target.means(&candidate, Some(project.id()));
            if targets.iter().any(fits)
                && let Ok(log) = project.log_of(&candidate.session).await
            {
                joined.push((candidate, log));
            }
        }
        Some((joined, Seen { passed: begun, begun, ..seen }))
    })
}

impl FollowSessions {
    /// Opens a session after `from`, or from now on, which the reader is told as a position.
    fn begin(
        &mut self,
        candidate: &Candidate,
        log: Log,
        from: Option<Cursor>,
    ) -> Result<(), (Joining, Error)> {
        let (session, now) = (Arc::new(candidate.clone()), from.is_none());
        let from = from.unwrap_or_else(|| log.latest());
        let told = Followed::Session {
            session: Arc::clone(&session),
            item: FollowItem::Heartbeat { cursor: from.clone() },
        };
        self.open(Joining { session, log, from })?;
        self.news.extend(now.then_some(told));
        Ok(())
    }

    /// Opens a session. A cursor that its log does not accept is told as a gap.
    fn open(&mut self, joining: Joining) -> Result<(), (Joining, Error)> {
        let Joining { session, log, from } = &joining;
        let mut opened = log.follow(self.options.clone().with_since(from.clone()));
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidCursor) {
            let beginning = log.beginning();
            opened = log.follow(self.options.clone().with_since(beginning.clone()));
            if opened.is_ok() {
                self.lost(session, from, &beginning);
            }
        }
        match opened {
            Ok(follow) => {
                self.open.push((joining.session, follow));
                Ok(())
            }
            Err(error) => Err((joining, error)),
        }
    }

    /// Tells the reader that records of a session may be lost.
    fn lost(&mut self, session: &Arc<Candidate>, from: &Cursor, to: &Cursor) {
        let (from, to, kinds) = (from.clone(), to.clone(), self.options.kinds.clone());
        let item = FollowItem::Gap { from, to, kinds };
        self.news.push_back(Followed::Session { session: Arc::clone(session), item });
    }

    /// Tells the reader that a session has no place, and keeps it for later.
    fn refuse(&mut self, joining: Joining, error: Error) {
        let (session, from) = (Arc::clone(&joining.session), joining.from.clone());
        self.news.push_back(Followed::Refused { session, from, error: Arc::new(error) });
        self.refused.push(joining);
    }

    /// Opens the sessions among `arrived` that are new.
    fn join(&mut self, arrived: Vec<(Candidate, Log)>) {
        for (candidate, log) in arrived {
            if self.known.insert(candidate.session.clone()) {
                let (session, from) = (Arc::new(candidate), log.beginning());
                if let Err((joining, error)) = self.open(Joining { session, log, from }) {
                    self.refuse(joining, error);
                }
            }
        }
    }

    /// Tries the sessions again that had no place.
    fn try_again(&mut self) {
        for joining in std::mem::take(&mut self.refused) {
            if let Err((joining, _)) = self.open(joining) {
                self.refused.push(joining);
            }
        }
    }

    fn timer(&self, after: Duration) -> Timer {
        let clock = &self.project.shared().inner.clock;
        clock.sleep_until(clock.boot_time().saturating_add(after))
    }

    /// Returns the next item, or `None` if there is none now.
    fn poll_item(&mut self, context: &mut Context<'_>) -> Option<Followed> {
        if let Some(told) = self.news.pop_front() {
            return Some(told);
        }
        let mut asked = 0;
        while asked < self.open.len() {
            let at = (self.turn + asked) % self.open.len();
            let (session, follow) = self.open.get_mut(at)?;
            match Pin::new(follow).poll_next(context) {
                Poll::Ready(Some(item)) => {
                    let session = Arc::clone(session);
                    self.turn = at + 1;
                    return Some(Followed::Session { session, item });
                }
                // The next one moves to this place.
                Poll::Ready(None) => {
                    self.open.remove(at);
                    // Its place is free.
                    self.try_again();
                    // Those behind have moved, and may not have been asked.
                    asked = 0;
                }
                Poll::Pending => asked += 1,
            }
        }
        self.news.pop_front()
    }
}

impl Stream for FollowSessions {
    type Item = Followed;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Followed>> {
        let this = &mut *self;
        while let Some(arriving) = &mut this.arrivals {
            let Poll::Ready(arrived) = arriving.as_mut().poll(context) else { break };
            this.arrivals = None;
            if let Some((sessions, seen)) = arrived {
                this.arrivals = Some(arrivals(this.project.clone(), this.targets.clone(), seen));
                this.join(sessions);
            } else {
                // The project is closed. Whoever holds the places must not hold the stream open.
                this.refused.clear();
            }
        }
        // In a loop, because a new timer must be polled to wake this task.
        while !this.refused.is_empty() {
            let mut retry = this.retry.take().unwrap_or_else(|| this.timer(RETRY));
            if retry.as_mut().poll(context).is_pending() {
                this.retry = Some(retry);
                break;
            }
            this.try_again();
        }
        if let Some(item) = this.poll_item(context) {
            this.silence = None;
            return Poll::Ready(Some(item));
        }
        if !this.open.is_empty() {
            // Each session has heartbeats of its own.
            this.silence = None;
            return Poll::Pending;
        }
        if this.arrivals.is_none() && this.refused.is_empty() {
            return Poll::Ready(None);
        }
        let mut silence = this.silence.take().unwrap_or_else(|| this.timer(this.options.heartbeat));
        if silence.as_mut().poll(context).is_pending() {
            this.silence = Some(silence);
            return Poll::Pending;
        }
        Poll::Ready(Some(Followed::Heartbeat))
    }
}

impl fmt::Debug for FollowSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowSessions").field("targets", &self.targets).finish_non_exhaustive()
    }
}
