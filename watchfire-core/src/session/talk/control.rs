//! When a session ends: by its agent's claim, its process, its time, or somebody's wish.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::claim::{Claim, Completion};
use super::last_call::{self, Uncommitted};
use crate::backend::{Source, Status};
use crate::clock::Clock;
use crate::endpoint::{Signal, SignalRead, read_signal};
use crate::observe::Body;
use crate::session::StopReason;
use crate::session::actor::{GRACE, Session, Shared};
use crate::session::watch::ended::{Cause, Ended};
use crate::{Error, ErrorKind, Result};

/// How long an agent that said it is finished gets to end by itself, before it is asked to.
const OWN_END: Duration = Duration::from_millis(1500);
/// How long one gets to come to the end of its turn, where that is known.
const OWN_TURN: Duration = Duration::from_secs(10);
/// How long a completion file may be half-written before that is told.
const HALF_WRITTEN: Duration = Duration::from_millis(500);
/// How often the completion file is looked at although nothing was seen to change.
const POLL: Duration = Duration::from_secs(5);

/// Returns true if a change that far back, in seconds since 1970, cannot be followed by another one with the same stamp:
/// file systems stamp with a clock that ticks.
pub(super) fn is_settled(changed: i64, clock: &dyn Clock) -> bool {
    changed + 1 < clock.now().unix_millis() / 1000
}

/// Sees how a session ends.
pub(in crate::session) struct Control {
    pub(in crate::session) shared: Arc<Shared>,
    pub(in crate::session) completion: Completion,
    pub(in crate::session) uncommitted: Option<Arc<dyn Uncommitted>>,
    pub(in crate::session) files: PathBuf,
    pub(in crate::session) changed: Arc<Notify>,
    pub(in crate::session) deadline: Option<Duration>,
    pub(in crate::session) clock: Arc<dyn Clock>,
}

impl Control {
    pub(in crate::session) async fn run(&self) -> Ended {
        let cause = self.cause().await;
        if cause == Cause::Claimed {
            self.shared.log.push(Source::Process, Body::lifecycle("claimed", serde_json::Value::Null));
            // Most agents write their last words after the claim.
            let own_end = self.clock.sleep_until(self.clock.boot_time() + OWN_END);
            tokio::select! {
                _ = self.shared.process.wait() => {}
                () = own_end => {
                    self.end_of_turn().await;
                    self.last_call().await;
                }
            }
        }
        if let Err(error) = self.shared.process.terminate(GRACE).await {
            self.shared.remark(format!("ending the process tree: {}", error.report()));
        }
        let exit = self.shared.process.wait().await;
        // What it wrote in its last moments counts too.
        let (claim, unclear) = match self.read_claim().await {
            Ok(claim) => (claim, None),
            Err(error) => (None, Some(error.report())),
        };
        // The rest is known when all that it wrote is read.
        Ended { claim, unclear, ..Ended::new(exit, cause) }
    }

    async fn cause(&self) -> Cause {
        let mut stop = self.shared.stop.subscribe();
        tokio::select! {
            biased;
            reason = stop.wait_for(Option::is_some) => {
                Cause::Stopped(reason.ok().and_then(|reason| *reason).unwrap_or(StopReason::Requested))
            }
            () = self.claimed() => Cause::Claimed,
            _ = self.shared.process.wait() => Cause::Exited,
            () = self.deadline() => Cause::TimedOut,
        }
    }

    /// Waits for the last words of a turn that is known to be running.
    async fn end_of_turn(&self) {
        let (mut ready, mut stop) = (self.shared.ready.subscribe(), self.shared.stop.subscribe());
        let over = async {
            if self.shared.converses() {
                drop(ready.wait_for(|ready| *ready).await);
            } else if self.shared.activity.borrow().status == Status::Processing {
                let mut activity = self.shared.activity.subscribe();
                drop(activity.wait_for(|activity| activity.status == Status::Idle).await);
            }
        };
        tokio::select! {
            () = over => {}
            _ = stop.wait_for(Option::is_some) => {}
            _ = self.shared.process.wait() => {}
            () = self.deadline() => {}
            () = self.clock.sleep_until(self.clock.boot_time() + OWN_TURN) => {}
        }
    }

    async fn deadline(&self) {
        match self.deadline {
            Some(deadline) => self.clock.sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Asks an agent that claims success to commit what it has not, unless it ends or is ended first.
    async fn last_call(&self) {
        let Some(uncommitted) = &self.uncommitted else { return };
        if !matches!(self.read_claim().await, Ok(Some(Claim { success: true, .. }))) {
            return;
        }
        let session = Session(Arc::clone(&self.shared));
        let mut stop = self.shared.stop.subscribe();
        tokio::select! {
            asked = last_call::run(&session, &**uncommitted) => if let Err(error) = asked {
                self.shared.remark(format!("asking the agent to commit: {}", error.report()));
            },
            _ = stop.wait_for(Option::is_some) => {}
            _ = self.shared.process.wait() => {}
            () = self.deadline() => {}
            () = self.clock.sleep_until(self.clock.boot_time() + last_call::LIMIT) => {}
        }
    }

    /// Waits until the agent says that it is finished.
    async fn claimed(&self) {
        let (mut seen, mut told) = (None, None);
        let mut read = None;
        loop {
            let changed = self.changed.notified();
            let stamps = self.stamps();
            if read.as_ref() == Some(&stamps) {
                tokio::select! {
                    () = changed => read = None,
                    () = self.clock.sleep_until(self.clock.boot_time() + POLL) => {}
                }
                continue;
            }
            read = Some(stamps)
                .filter(|stamps| stamps.iter().flatten().all(|it| is_settled(it.1, &*self.clock)));
            match self.read_claim().await {
                Ok(Some(_)) if self.completion != Completion::Never => return,
                Ok(_) => (seen, told) = (None, None),
                Err(error) => {
                    let problem = Some(error.report());
                    if seen != problem {
                        // Perhaps half-written.
                        seen = problem;
                        self.clock.sleep_until(self.clock.boot_time() + HALF_WRITTEN).await;
                        read = None;
                        continue;
                    }
                    if told != problem {
                        told = problem;
                        self.shared.remark(seen.clone().unwrap_or_default());
                    }
                }
            }
        }
    }

    /// Returns what changes with the completion file and `signal.json`. Costs two system calls: a quiet agent's files are
    /// not read, which takes a thread.
    fn stamps(&self) -> [Option<(u64, i64, i64)>; 2] {
        let stamp = |path: &Path| {
            let about = std::fs::symlink_metadata(path).ok()?;
            Some((about.ino(), about.ctime(), about.ctime_nsec()))
        };
        [self.completion.file().and_then(stamp), stamp(&self.files.join("signal.json"))]
    }

    /// Reads the agent's claim, and takes in its questions.
    async fn read_claim(&self) -> Result<Option<Claim>> {
        let (completion, files, info) = (self.completion.clone(), self.files.clone(), &self.shared.info);
        let (session, started) = (info.id.clone(), info.started_at.clone());
        let read = move || (completion.read(), read_signal(&files, &session, &started));
        let (file, signal) = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Error::new(ErrorKind::Internal, "reading the claim").with_source(error))?;
        if let SignalRead::Signal(Signal::Questions(questions)) = &signal {
            self.shared.ask(questions.clone(), Source::Hook);
        }
        Ok(Claim::together(file?, &signal))
    }
}
