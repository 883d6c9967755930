//! Messages that an agent sends through its session's spool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::control::is_settled;
use super::desk::Calls;
use super::signals::SignalWatch;
use crate::backend::{Backend, Fact, Observation, Source};
use crate::clock::Clock;
use crate::endpoint::{Intake, Signal, Spool, SpoolLimits, SpoolMessage};
use crate::observe::Body;
use crate::session::state::Shared;
use crate::{Error, ErrorKind, Result};

/// Fallback polling interval for the outbox, in case the watcher misses an event.
const POLL: std::time::Duration = std::time::Duration::from_secs(5);

/// Takes messages until the session is `over`, and once more after that.
pub(in crate::session) async fn run(
    shared: Arc<Shared>,
    calls: Arc<Calls>,
    backend: Arc<dyn Backend>,
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    mut over: watch::Receiver<bool>,
) {
    let spool = match tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || Spool::open(&folder, SpoolLimits::default()).map(Arc::new)
    })
    .await
    {
        Ok(Ok(spool)) => spool,
        Ok(Err(error)) => return shared.remark(format!("no messages from the agent: {}", error.report())),
        Err(_) => return,
    };
    let asked = Arc::clone(&spool);
    match tokio::task::spawn_blocking(move || asked.asked()).await {
        Ok(Ok(asked)) => {
            for message in asked {
                record(&shared, &*backend, (&spool, &calls), message).await;
            }
        }
        Ok(Err(error)) => shared.remark(format!("reading earlier questions: {}", error.report())),
        Err(_) => {}
    }
    let watch = SignalWatch::new([folder.join("outbox")]);
    let changed = watch.changed();
    let mut seen = None;
    loop {
        // Created before the folder is read, so that a message in between wakes the loop.
        let notified = changed.notified();
        let last = *over.borrow_and_update();
        let stamp = spool.stamp();
        if last || seen.is_none() || stamp != seen {
            let all = take_all(&shared, (&spool, &calls), &*backend).await;
            // Taking messages changes the stamp as well, so the next round takes once more.
            seen = stamp.filter(|stamp| all && is_settled(stamp.1, &*clock));
        }
        if last {
            return;
        }
        tokio::select! {
            () = notified => seen = None,
            _ = over.changed() => {}
            () = clock.sleep_until(clock.boot_time() + POLL) => {}
        }
    }
}

/// Takes the available messages and returns true if none is left. Returns early for an agent that sends without end,
/// so that it cannot keep this task busy.
async fn take_all(shared: &Arc<Shared>, at: (&Arc<Spool>, &Arc<Calls>), backend: &dyn Backend) -> bool {
    for _ in 0..16 {
        let spool = Arc::clone(at.0);
        let intake = match blocking(move || spool.read()).await {
            Ok(mut intake) if !intake.messages.is_empty() => {
                for message in std::mem::take(&mut intake.messages) {
                    record(shared, backend, at, message).await;
                }
                let (spool, log) = (Arc::clone(at.0), shared.log.clone());
                // Only when all is in the log: what a kill takes from there is read again.
                let remove = move || {
                    log.write();
                    spool.remove(&mut intake)?;
                    Ok(intake)
                };
                blocking(remove).await
            }
            none => none,
        };
        let intake = match intake {
            Ok(intake) => intake,
            Err(error) => {
                shared.remark(format!("reading the agent's messages: {}", error.report()));
                return false;
            }
        };
        for refused in &intake.refused {
            shared.remark(format!("refused a message {}: {}", refused.name, refused.reason));
        }
        if !intake.more {
            return true;
        }
    }
    false
}

async fn blocking(work: impl FnOnce() -> Result<Intake> + Send + 'static) -> Result<Intake> {
    let failed = |error| Error::new(ErrorKind::Internal, "taking messages").with_source(error);
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// Records a message, or takes a call. It is a claim of the agent: it may describe the agent, and ask for what agents may.
async fn record(
    shared: &Arc<Shared>,
    backend: &dyn Backend,
    (spool, calls): (&Arc<Spool>, &Arc<Calls>),
    message: SpoolMessage,
) {
    match message {
        SpoolMessage::Hook { event, payload, .. } => {
            let session = shared.vendor_session();
            let hook = Observation::Hook { event: &event, payload: &payload, session: session.as_deref() };
            // A message that a foreign backend panics on must not be read again for ever.
            let facts = catch_unwind(AssertUnwindSafe(|| backend.interpret(&hook))).unwrap_or_else(|_| {
                shared.remark(format!("the session's backend broke on the hook {event}"));
                Vec::new()
            });
            let ends = facts.contains(&Fact::TurnCompleted);
            if ends {
                // The status may say so before: a text that is to begin a turn must not be typed in between.
                shared.activity.send_modify(|activity| activity.is_ending = true);
                shared.catch_up().await;
            }
            shared.learn(facts, Source::Hook);
            if ends {
                shared.activity.send_modify(|activity| activity.is_ending = false);
            }
            // What the hook reports is in the transcript, or will be soon.
            shared.stirred.notify_one();
        }
        SpoolMessage::Note { text } => {
            let payload = serde_json::json!({ "text": text });
            shared.log.push(Source::Hook, Body::Event { name: "note".to_owned(), payload });
        }
        SpoolMessage::Call(call) => calls.take(shared, spool, call),
        SpoolMessage::Signal(Signal::Questions(questions)) => shared.ask(questions, Source::Hook),
        // For the end of the work, only `signal.json` counts: it holds the last word, messages hold every
        // one.
        _ => {}
    }
}
