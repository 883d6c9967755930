//! One stream of the records of several sessions.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::ProjectHandle;
use crate::Result;
use crate::model::{SessionId, Timestamp};
use crate::observe::{Candidate, Cursor, Follow, FollowItem, FollowOptions, Log, Target};
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

/// An item of a [`FollowSessions`], and the session that it is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Followed {
    /// The session.
    pub session: Arc<Candidate>,
    /// The news about it.
    pub item: FollowItem,
}

/// A stream of the records of all sessions that some targets name. Sessions that begin later and fit `all`, `project:`, `mode:`,
/// `backend:` or `label:` are joined from their first record on. It ends with the last session that a target for one session named,
/// or with the project.
///
/// Each session has its own position, gaps and heartbeats. A slow reader holds a few dozen records of each, and slows nobody.
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
    /// Sessions that had no free place for a watcher. They are tried again with the next arrival.
    refused: Vec<(Candidate, Log)>,
}

impl ProjectHandle {
    /// Follows all sessions that `targets` name. A session goes on after its cursor in `since`; without one, a running
    /// session is followed from now on, and one that has ended from the oldest record that is kept. The stream keeps the
    /// project open like a handle.
    ///
    /// # Errors
    /// `not_found` or `ambiguous_target` if a target that names one session does not; `too_many_watchers`; `invalid_cursor`;
    /// errors of the store and the disk.
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
        let ended = targets.iter().any(Target::is_single);
        let candidates = self.candidates(ended).await?;
        let mut meant: Vec<&Candidate> = Vec::new();
        for target in &targets {
            match target.resolve(&candidates, Some(self.id())) {
                Ok(found) => meant.extend(found),
                // None fits as yet.
                Err(_) if !target.is_single() => {}
                Err(error) => return Err(error),
            }
        }
        let mut stream = FollowSessions {
            project: self.clone(),
            targets,
            options,
            open: Vec::new(),
            turn: 0,
            known: BTreeSet::new(),
            arrivals,
            refused: Vec::new(),
        };
        for candidate in meant {
            if stream.known.insert(candidate.session.clone()) {
                let log = self.log_of(&candidate.session).await?;
                let given = since.iter().find(|cursor| cursor.scope() == candidate.session.as_str());
                let from = given.cloned().or_else(|| (!candidate.is_running).then(|| log.beginning()));
                let follow = log.follow(FollowOptions { since: from, ..stream.options.clone() })?;
                stream.open.push((Arc::new(candidate.clone()), follow));
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
    /// Opens the sessions among `arrived` that are new.
    fn join(&mut self, arrived: Vec<(Candidate, Log)>) {
        for (candidate, log) in std::mem::take(&mut self.refused).into_iter().chain(arrived) {
            if self.known.contains(&candidate.session) {
                continue;
            }
            let from = Some(log.beginning());
            match log.follow(FollowOptions { since: from, ..self.options.clone() }) {
                Ok(follow) => {
                    self.known.insert(candidate.session.clone());
                    self.open.push((Arc::new(candidate), follow));
                }
                Err(_) => self.refused.push((candidate, log)),
            }
        }
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
            }
        }
        let mut asked = 0;
        while asked < this.open.len() {
            let at = (this.turn + asked) % this.open.len();
            let Some((session, follow)) = this.open.get_mut(at) else { break };
            match Pin::new(follow).poll_next(context) {
                Poll::Ready(Some(item)) => {
                    let session = Arc::clone(session);
                    this.turn = at + 1;
                    return Poll::Ready(Some(Followed { session, item }));
                }
                // The next one moves to this place.
                Poll::Ready(None) => {
                    this.open.remove(at);
                }
                Poll::Pending => asked += 1,
            }
        }
        if this.open.is_empty() && this.arrivals.is_none() { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl fmt::Debug for FollowSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowSessions").field("targets", &self.targets).finish_non_exhaustive()
    }
}
