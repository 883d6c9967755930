//! A budget that is used up: the agent is asked to finish, and stopped.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backend::{Source, Status};
use crate::observe::Body;
use crate::schedule::StopReason;
use crate::session::state::claim::Completion;
use crate::session::{Counted, Session};

/// Shortest time between two reports to the meter.
const PAUSE: Duration = Duration::from_secs(2);
/// Time limit for the running turn to end. After it the turn is interrupted.
const TURN: Duration = Duration::from_secs(30);
/// Time limit for finishing as a whole, from the used-up budget to the stop.
const FINISH: Duration = Duration::from_secs(150);
/// Time after the last turn in which a claim still counts.
const CLAIM: Duration = Duration::from_secs(2);

/// Receiver of a session's spending.
pub(crate) trait Meter: Send + Sync {
    /// Takes in the session's spending so far. Returns true if a budget is used up. May block.
    fn take_in(&self, counted: Counted) -> bool;
}

/// Reports the session's spending to the meter, and ends the session when a budget is used up. Never returns.
pub(in crate::session) async fn run(
    session: &Session,
    completion: &Completion,
    meter: Option<&Arc<dyn Meter>>,
) -> Infallible {
    let Some(meter) = meter else { return pending().await };
    let shared = &session.0;
    let mut heard = shared.heard.subscribe();
    // A fast agent may have reported tokens before this task subscribed.
    heard.mark_changed();
    // What `spent` returns before anything is counted, so that a first message without tokens is not
    // reported.
    let mut known = Counted { cost: Some(0), ..Counted::default() };
    while heard.changed().await.is_ok() {
        let now = shared.spent();
        if std::mem::replace(&mut known, now) == now {
            continue;
        }
        let meter = Arc::clone(meter);
        // A meter that panics must not end the session.
        if tokio::task::spawn_blocking(move || meter.take_in(now)).await.unwrap_or(false) {
            let limit = shared.clock.sleep_until(shared.clock.boot_time() + FINISH);
            tokio::select! {
                () = finish(session, completion) => {}
                () = limit => {}
            }
            session.stop_because(StopReason::Budget);
            break;
        }
        shared.clock.sleep_until(shared.clock.boot_time() + PAUSE).await;
    }
    pending().await
}

/// Asks the agent to finish, and waits until it has. Returns at once if it takes no texts.
async fn finish(session: &Session, completion: &Completion) {
    let shared = &session.0;
    shared.log.push(Source::Process, Body::lifecycle("budget_used_up", serde_json::Value::Null));
    if !shared.can_type {
        return;
    }
    shared.may_nudge.store(false, Ordering::Relaxed);
    let mut activity = shared.activity.subscribe();
    let in_time = tokio::select! {
        _ = activity.wait_for(|now| now.rests()) => true,
        () = shared.clock.sleep_until(shared.clock.boot_time() + TURN) => false,
    };
    if !in_time {
        match session.interrupt().await {
            // The end of the interrupted turn must not be taken for the end of the next one.
            Ok(()) => drop(activity.wait_for(|now| now.rests()).await),
            Err(error) => shared.remark(format!("interrupting the agent's turn: {}", error.report())),
        }
    }
    let turns = activity.borrow().turns;
    if let Err(error) = session.say(request(completion)).await {
        return shared.remark(format!("asking the agent to finish: {}", error.report()));
    }
    drop(activity.wait_for(|now| now.turns > turns && now.status == Status::Idle).await);
    shared.clock.sleep_until(shared.clock.boot_time() + CLAIM).await;
}

fn request(completion: &Completion) -> String {
    let how = completion.how().map_or_else(String::new, |how| format!(", and {how}"));
    format!(
        "The budget for this is used up. Finish now: commit what is worth keeping{how}. Begin nothing new."
    )
}
