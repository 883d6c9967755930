//! A turn that ends without a claim: the agent is asked once to go on or to say how its task ended; after that, a person is.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::{Source, Status};
use crate::clock::Clock;
use crate::model::Question;
use crate::observe::Body;
use crate::session::state::Activity;
use crate::session::state::claim::Completion;
use crate::session::state::notes::note;
use crate::session::{Blocks, Session};

/// Time for which an agent must be idle before its turn counts as over. A claim is often written in the last moment, and
/// screens flicker.
const REST: Duration = Duration::from_secs(5);
/// Time for which it must be idle after a text of ours where no end of a turn was seen: a short turn can begin and end between two looks
/// at its screen. Longer than a text waits for the input box.
const UNSEEN: Duration = Duration::from_secs(90);

/// Watches for turns that end without a claim. Never returns.
pub(in crate::session) async fn run(session: &Session, completion: &Completion) -> Infallible {
    let shared = &session.0;
    let Some(request) = request(completion).filter(|_| shared.can_type) else { return pending().await };
    let (mut activity, mut blocks) = (shared.activity.subscribe(), shared.blocks.subscribe());
    let mut heard = 0;
    // Only then: an agent that has ended a turn shows that it works, so that being idle means something.
    let mut is_told = false;
    // Of a session that was taken over, what is known first is how it stood.
    drop(shared.ready.subscribe().wait_for(|ready| *ready).await);
    loop {
        let mut idle = activity.clone();
        let over = tokio::select! {
            biased;
            over = activity.wait_for(|now| now.status == Status::Idle && now.turns > heard) => over.map(|now| now.turns).ok(),
            turns = long_idle(&mut idle, &*shared.clock), if is_told => turns,
        };
        let Some(turns) = over else { return pending().await };
        let rested = tokio::select! {
            // In this order: a new turn or an obstacle that comes together with the timer wins over it.
            biased;
            _ = activity.wait_for(|now| now.status != Status::Idle || now.turns != turns) => false,
            _ = blocks.wait_for(|now| !now.is_empty()) => false,
            () = shared.clock.sleep_until(shared.clock.boot_time() + REST) => true,
        };
        if !rested {
            // The agent goes on by itself, or something blocks it that a person sees already.
            drop(blocks.wait_for(Blocks::is_empty).await);
            continue;
        }
        heard = turns;
        if shared.may_nudge.swap(false, Ordering::Relaxed) {
            if let Some(path) = shared.notes.as_ref().map(|notes| notes.nudged.clone()) {
                // First, so that a program that takes the session over does not ask once more. A turn without the note is
                // better than none.
                note(path).await;
            }
            shared.log.push(Source::Process, Body::lifecycle("nudged", serde_json::Value::Null));
            match session.say(request.clone()).await {
                Ok(_) => {
                    is_told = true;
                    continue;
                }
                // The agent cannot be reached, so a person is asked at once.
                Err(error) => {
                    shared.remark(format!("asking the agent how its task ended: {}", error.report()));
                }
            }
        }
        // By the time: the next program counts turns anew.
        let now = shared.clock.now().unix_millis();
        let question = Question::new(format!("turn-{}", now / 1000), shared.last_message());
        let id = question.id.clone();
        shared.ask(vec![question], Source::Process);
        tokio::select! {
            biased;
            _ = blocks.wait_for(|now| now.questions.iter().all(|open| open.id != id)) => {}
            _ = activity.wait_for(|now| now.status == Status::Processing || now.turns != turns) => {}
        }
        // Does nothing if the question has its answer. Otherwise a person has typed at the terminal, or the agent
        // goes on by itself.
        shared.withdraw(&id);
        is_told = shared.may_ask;
    }
}

/// Waits until the agent has been idle for long, and returns the number of its turns; `None` if it has ended.
async fn long_idle(activity: &mut watch::Receiver<Activity>, clock: &dyn Clock) -> Option<u64> {
    loop {
        let turns = activity.wait_for(|now| now.status == Status::Idle).await.ok()?.turns;
        tokio::select! {
            biased;
            _ = activity.wait_for(|now| now.status != Status::Idle) => {}
            () = clock.sleep_until(clock.boot_time() + UNSEEN) => return Some(turns),
        }
    }
}

/// Returns the message to the agent, or `None` if the session expects no claim.
fn request(completion: &Completion) -> Option<String> {
    let how = completion.how()?;
    Some(format!(
        "Your turn has ended, and you have not said how your task ended. If something is left to do, go on. If it is done, \
         or cannot be done, {how}. If a person has to decide something first, ask exactly that."
    ))
}
