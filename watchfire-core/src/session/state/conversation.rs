//! A session's conversation with an agent that is reached by a protocol.

use std::sync::{Arc, Mutex, PoisonError};

use super::{GRACE, Shared};
use crate::backend::{Dialogue, Move, Source};
use crate::observe::Body;

/// State of the protocol. Stays locked while the result of a line is recorded, so that records stand in the order in
/// which the lines were understood.
#[derive(Debug)]
pub(in crate::session) struct Conversation(Mutex<Box<dyn Dialogue>>);

impl Conversation {
    pub(in crate::session) fn new(dialogue: Box<dyn Dialogue>) -> Self {
        Self(Mutex::new(dialogue))
    }

    /// Advances the conversation, records the result, and returns the bytes to write.
    pub(in crate::session) fn step(
        &self,
        shared: &Arc<Shared>,
        step: impl FnOnce(&mut dyn Dialogue) -> Vec<Move>,
    ) -> Vec<u8> {
        // A foreign dialogue that panics keeps the state that it had.
        let mut dialogue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut facts, mut bytes) = (Vec::new(), Vec::new());
        for next in step(&mut **dialogue) {
            match next {
                Move::Write(line) => bytes.extend(line.bytes().chain([b'\n'])),
                Move::Fact(fact) => facts.push(fact),
                Move::Message(message) => {
                    shared.take_in(&message, Source::Protocol);
                    shared.say(message, Source::Protocol);
                }
                Move::Event { name, payload } => {
                    shared.log.push(Source::Protocol, Body::Event { name, payload });
                }
                Move::GiveUp(why) => give_up(shared, &why),
            }
        }
        // Together at the end: facts of one line are one observation, of which the last status counts.
        shared.learn(facts, Source::Protocol);
        let now = dialogue.is_ready();
        shared.ready.send_if_modified(|ready| std::mem::replace(ready, now) != now);
        bytes
    }
}

pub(in crate::session) fn give_up(shared: &Arc<Shared>, why: &str) {
    shared.remark(format!("the conversation with the agent has ended: {why}"));
    // In a task of its own: this is called with the conversation locked, by the pump that must go on reading.
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        // An agent that takes no order is ending already.
        let _ = shared.process.terminate(GRACE).await;
    });
}
