//! What a person types into an agent's terminal.

use std::pin::Pin;

use watchfire_core::ErrorKind;
use watchfire_core::session::Session;
use watchfire_core::terminal::Size;

/// Upper bound for keys that wait for an agent, and for those that it is given at once.
const WAITING: usize = 1 << 20;
const AT_ONCE: usize = 64 << 10;

/// Keys on their way to an agent, and the size that its terminal gets before them.
pub(super) struct Typing {
    /// `None` for an agent that has ended, which takes nothing more.
    session: Option<Session>,
    waiting: Vec<u8>,
    size: Option<Size>,
    now: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Typing {
    pub(super) fn new(session: Option<Session>, waiting: Vec<u8>) -> Self {
        Self { session, waiting, size: None, now: None }
    }

    /// Takes in keys. Returns false if the agent reads nothing and too many wait.
    pub(super) fn keep(&mut self, typed: &[u8]) -> bool {
        let fits = self.waiting.len() + typed.len() <= WAITING;
        if fits {
            self.waiting.extend_from_slice(typed);
        }
        fits
    }

    /// Gives the agent this size, before the keys that wait.
    pub(super) fn fit(&mut self, size: Size) {
        self.size = Some(size);
    }

    /// Returns the keys that the agent has not got.
    pub(super) fn into_rest(self) -> Vec<u8> {
        self.waiting
    }

    pub(super) fn is_done(&self) -> bool {
        self.now.is_none() && self.size.is_none() && self.waiting.is_empty()
    }

    /// Types what waits, however long the agent reads nothing. Cancel safe. What its session refuses is told by the session's end.
    pub(super) async fn finish(&mut self) {
        while !self.is_done() {
            let Some(session) = &self.session else {
                (self.size, self.waiting) = (None, Vec::new());
                return;
            };
            let now = match &mut self.now {
                Some(now) => now,
                None => {
                    let at_once = self.waiting.len().min(AT_ONCE);
                    let next =
                        type_into(session.clone(), self.size.take(), self.waiting.drain(..at_once).collect());
                    self.now.insert(Box::pin(next))
                }
            };
            now.await;
            self.now = None;
        }
    }
}

async fn type_into(session: Session, size: Option<Size>, mut data: Vec<u8>) {
    if let Some(size) = size {
        let _ = session.resize(size).await;
    }
    while !data.is_empty() {
        let Err(error) = session.write(data.clone()).await else { return };
        let written = error.detail("written").and_then(|written| written.parse().ok());
        let Some(written) = written.filter(|_| error.kind() == ErrorKind::Timeout) else { return };
        data.drain(..data.len().min(written));
    }
}
