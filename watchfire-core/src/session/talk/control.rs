//! The end of a session: by its agent's claim, its process, its time limit, or a request.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::budget::{self, Meter};
use super::deadline::Deadline;
use super::last_call::{self, Uncommitted};
use super::nudge;
use crate::backend::{Source, Status};
use crate::clock::Clock;
use crate::endpoint::{Signal, SignalRead, read_signal};
use crate::observe::Body;
use crate::schedule::StopReason;
use crate::session::Exit;
use crate::session::handle::Session;
use crate::session::state::claim::{Claim, Completion};
use crate::session::state::ended::{Cause, Ended};
use crate::session::state::{Activity, GRACE, Shared};
use crate::{Error, ErrorKind, Result};

/// Grace period after a completion claim of an agent that does not report the end of its turn. Agents usually write their
/// final message now; after it, the session is asked to end.
const OWN_END: Duration = Duration::from_millis(1500);
/// Further grace for a turn that is known to be running.
const OWN_TURN: Duration = Duration::from_secs(10);
/// Time for which a completion file may stay half-written before the person is informed.
const HALF_WRITTEN: Duration = Duration::from_millis(500);
/// Time within which a machine without descriptors or memory has to recover, before a last claim is given up.
const EXHAUSTED: Duration = Duration::from_secs(60);
/// Fallback polling interval for the completion file, in case the watcher misses an event.
const POLL: Duration = Duration::from_secs(5);

/// Returns true if a file that changed at `changed`, in seconds since 1970, cannot change again with the same stamp.
/// File systems take their stamps from a clock that ticks, so two writes within a tick look alike.
pub(super) fn is_settled(changed: i64, clock: &dyn Clock) -> bool {
    changed + 1 < clock.now().unix_millis() / 1000
}

/// Supervisor of a session's end.
pub(in crate::session) struct Control {
    pub(in crate::session) shared: Arc<Shared>,
    pub(in crate::session) completion: Completion,
    pub(in crate::session) uncommitted: Option<Arc<dyn Uncommitted>>,
    pub(in crate::session) meter: Option<Arc<dyn Meter>>,
    pub(in crate::session) files: PathBuf,
    pub(in crate::session) changed: Arc<Notify>,
    /// True for a session whose host has ended it at its time limit.
    pub(in crate::session) timed_out: bool,
    /// End of the time limit.
    pub(in crate::session) deadline: Mutex<Option<Deadline>>,
    /// File for it, if the session can outlive this program.
    pub(in crate::session) deadline_file: Option<PathBuf>,
    pub(in crate::session) clock: Arc<dyn Clock>,
}

impl Control {
    pub(in crate::session) async fn run(&self) -> Ended {
        let mut cause = self.cause().await;
        // Who follows the output sees its end at the same time as we do, and may stop the session then.
        if cause == Cause::Stopped(StopReason::Requested)
            && tokio::time::timeout(Duration::ZERO, self.shared.process.wait()).await.is_ok()
        {
            cause = Cause::Exited;
        }
        if cause == Cause::Stopped(StopReason::Detached) {
            self.shared.process.detach().await;
            return Ended::new(Exit::Unknown, cause);
        }
        let turns = self.shared.activity.borrow().turns;
        if cause == Cause::Claimed {
            self.shared.log.push(Source::Process, Body::lifecycle("claimed", serde_json::Value::Null));
            // Most agents write their final message after the claim.
            let own_end = self.clock.sleep_until(self.clock.boot_time() + OWN_END);
            tokio::select! {
                _ = self.shared.process.wait() => {}
                // If the turn ended before the claim was noticed, this never resolves and `own_end` ends the
                // wait.
                () = self.turn_after(turns) => self.last_call().await,
                () = own_end => {
                    self.end_of_turn().await;
                    self.last_call().await;
                }
            }
        }
        // Always, also after the process has exited by itself: its descendants have to go, too.
        if let Err(error) = self.shared.process.terminate(GRACE).await {
            self.shared.remark(format!("ending the process tree: {}", error.report()));
        }
        let exit = self.shared.process.wait().await;
        // Only now is the tree gone, so what is read here is the agent's last word on its work.
        let (claim, unclear) = match self.last_claim().await {
            Ok(claim) => (claim, None),
            Err(error) => (None, Some(error.report())),
        };
        // The other fields are known only when all of its output has been read.
        Ended { claim, unclear, ..Ended::new(exit, cause) }
    }

    async fn cause(&self) -> Cause {
        if self.timed_out {
            return Cause::TimedOut;
        }
        let mut stop = self.shared.stop.subscribe();
        let session = Session(Arc::clone(&self.shared));
        tokio::select! {
            // In this order: a claim that is written while a person stops the session does not turn the stop
            // into a success.
            biased;
            reason = stop.wait_for(Option::is_some) => {
                Cause::Stopped(reason.ok().and_then(|reason| *reason).unwrap_or(StopReason::Requested))
            }
            () = self.claimed() => Cause::Claimed,
            _ = self.shared.process.wait() => Cause::Exited,
            () = self.deadline() => Cause::TimedOut,
            never = nudge::run(&session, &self.completion) => match never {},
            never = budget::run(&session, &self.completion, self.meter.as_ref()) => match never {},
        }
    }

    /// Waits for the end of the turn in which the claim was made: nothing follows it.
    async fn turn_after(&self, turns: u64) {
        let mut activity = self.shared.activity.subscribe();
        let is_over = |now: &Activity| now.turns > turns && now.status == Status::Idle;
        drop(activity.wait_for(is_over).await);
    }

    /// Waits for the end of a turn that is known to be running.
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
        let mut blocks = self.shared.blocks.subscribe();
        loop {
            let waits = !blocks.borrow_and_update().is_empty();
            let now = self.clock.boot_time();
            let (at, deadline) = {
                let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(deadline) = &mut *deadline else { break };
                (deadline.at(waits, now), *deadline)
            };
            self.keep_deadline(deadline).await;
            self.shared.process.end_in(at.map(|at| at.saturating_sub(now))).await;
            let passed = async {
                match at {
                    Some(at) => self.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = blocks.wait_for(|now| now.is_empty() == waits) => {}
                () = passed => return,
            }
        }
        std::future::pending().await
    }

    /// Writes the deadline down for a program that takes the session over.
    async fn keep_deadline(&self, deadline: Deadline) {
        let Some(path) = self.deadline_file.clone() else { return };
        let written = tokio::task::spawn_blocking(move || deadline.write(&path)).await;
        if let Ok(Err(error)) = written {
            self.shared.remark(format!("keeping the time limit: {}", error.report()));
        }
    }

    /// Asks an agent that claims success to commit its remaining changes, unless it ends or is stopped first.
    async fn last_call(&self) {
        let Some(uncommitted) = &self.uncommitted else { return };
        // A failed task is kept on its branch as it is; more commits would not make it mergeable.
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

    /// Waits until the agent has made a claim.
    async fn claimed(&self) {
        let (mut seen, mut reported) = (None, None);
        let mut read = None;
        loop {
            // Created before the files are read, so that a change in between is not lost.
            let changed = self.changed.notified();
            let stamps = self.stamps();
            // Unchanged since the last read. Polling then costs two system calls and no thread.
            if read.as_ref() == Some(&stamps) {
                tokio::select! {
                    () = changed => read = None,
                    () = self.clock.sleep_until(self.clock.boot_time() + POLL) => {}
                }
                continue;
            }
            // A stamp is trusted only once it is old enough: a second write within the same tick would not
            // change it.
            read = Some(stamps)
                .filter(|stamps| stamps.iter().flatten().all(|it| is_settled(it.1, &*self.clock)));
            match self.read_claim().await {
                // A session without a completion file, such as a chat, is ended by its person, whatever
                // `signal.json` says.
                Ok(Some(_)) if self.completion != Completion::Never => return,
                Ok(_) => (seen, reported) = (None, None),
                Err(error) => {
                    let problem = Some(error.report());
                    if seen != problem {
                        // Perhaps half-written. The agent is given time to finish the write before a person
                        // hears of it.
                        seen = problem;
                        self.clock.sleep_until(self.clock.boot_time() + HALF_WRITTEN).await;
                        read = None;
                        continue;
                    }
                    if reported != problem {
                        reported = problem;
                        self.shared.remark(seen.clone().unwrap_or_default());
                    }
                }
            }
        }
    }

    /// Returns the stamps of the completion file and of `signal.json`. Reading the files themselves would take a
    /// thread each time, so a quiet agent costs only these two system calls.
    fn stamps(&self) -> [Option<(u64, i64, i64)>; 2] {
        let stamp = |path: &Path| {
            // The change time, not the modification time: an agent can set the latter at will.
            let about = std::fs::symlink_metadata(path).ok()?;
            Some((about.ino(), about.ctime(), about.ctime_nsec()))
        };
        [self.completion.file().and_then(stamp), stamp(&self.files.join("signal.json"))]
    }

    /// Reads the claim of an agent that is gone. While this machine lacks descriptors or memory, it is read again: its turn is
    /// paid for.
    async fn last_claim(&self) -> Result<Option<Claim>> {
        let deadline = self.clock.boot_time() + EXHAUSTED;
        loop {
            match self.read_claim().await {
                Err(error) if error.is_trouble() && self.clock.boot_time() < deadline => {
                    self.clock.sleep_until(self.clock.boot_time() + HALF_WRITTEN).await;
                }
                read => return read,
            }
        }
    }

    /// Reads the agent's claim and takes in its questions.
    async fn read_claim(&self) -> Result<Option<Claim>> {
        let (completion, files, info) = (self.completion.clone(), self.files.clone(), &self.shared.info);
        let (session, started) = (info.id.clone(), info.started_at.clone());
        // Blocking, and on files that the agent owns: it may place a FIFO or a huge file there.
        let read = move || (completion.read(), read_signal(&files, &session, &started));
        let (file, signal) = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Error::new(ErrorKind::Internal, "reading the claim").with_source(error))?;
        match &signal {
            SignalRead::Signal(Signal::Questions(questions)) => self.shared.ask_by_file(questions.clone()),
            // With its claim, or by removing the file, an agent takes its questions back.
            SignalRead::Signal(_) | SignalRead::Missing => self.shared.ask_by_file(Vec::new()),
            // Half-written, or not for us.
            SignalRead::Incomplete | SignalRead::Stale { .. } | SignalRead::Invalid { .. } => {}
        }
        Ok(Claim::together(file?, &signal))
    }
}
