//! One stream of the records of several sessions.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::watch;

use super::ProjectHandle;
use crate::Result;
use crate::model::SessionId;
use crate::observe::{Candidate, Cursor, Follow, FollowItem, FollowOptions, Target};

/// Sessions that a stream may have to join. `None` once the project is closed.
type Arrivals = Pin<Box<dyn Future<Output = Option<(Vec<Candidate>, watch::Receiver<u64>)>> + Send>>;

/// An item of a [`FollowSessions`], and the session that it is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Followed {
    /// The session.
    pub session: Arc<Candidate>,
    /// What became known of it.
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
        let arrivals = goes_on.then(|| arrivals(self.clone(), self.shared().begun()));
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

/// Waits until sessions have begun since `begun` last changed, and returns those that run.
fn arrivals(project: ProjectHandle, mut begun: watch::Receiver<u64>) -> Arrivals {
    let mut closing = project.shared().closing.subscribe();
    Box::pin(async move {
        tokio::select! {
            changed = begun.changed() => changed.ok()?,
            _ = closing.wait_for(|closing| *closing) => return None,
        }
        // A store that cannot be read now is asked again with the next session.
        Some((project.candidates(false).await.unwrap_or_default(), begun))
    })
}

impl FollowSessions {
    /// Opens the sessions among `candidates` that fit and are new.
    fn join(&mut self, candidates: Vec<Candidate>) {
        let here = Some(self.project.id().clone());
        for candidate in candidates {
            let fits = |target: &Target| {
                !target.is_single() && target.resolve(std::slice::from_ref(&candidate), here.as_ref()).is_ok()
            };
            if !self.targets.iter().any(fits) || self.known.contains(&candidate.session) {
                continue;
            }
            let Some(session) = self.project.session(&candidate.session) else { continue };
            let from = Some(session.log().beginning());
            // A session without a free place for a watcher is tried again when the next one begins.
            if let Ok(follow) = session.log().follow(FollowOptions { since: from, ..self.options.clone() }) {
                self.known.insert(candidate.session.clone());
                self.open.push((Arc::new(candidate), follow));
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
            if let Some((candidates, begun)) = arrived {
                this.arrivals = Some(arrivals(this.project.clone(), begun));
                this.join(candidates);
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
