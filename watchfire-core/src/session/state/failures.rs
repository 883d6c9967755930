//! Failed tools, in line to be searched for refusals.

use tokio::sync::mpsc;

use crate::backend::{Message, Part, Source};
use crate::sandbox::Refusals;

/// Upper bound for queued tool errors. Further ones are dropped.
const WAITING: usize = 64;

/// Output of a failed tool and its source, or `None` at the end.
pub(in crate::session) type Failed = Option<(String, Source)>;

/// Queue of failed tools.
#[derive(Debug)]
pub(in crate::session) struct Failures(mpsc::Sender<Failed>);

impl Failures {
    pub(in crate::session) fn new() -> (Self, mpsc::Receiver<Failed>) {
        let (send, receive) = mpsc::channel(WAITING);
        (Self(send), receive)
    }

    /// Queues the failed tools of a message.
    pub(in crate::session) fn note(&self, message: &Message, source: Source) {
        for part in &message.parts {
            if let Part::ToolResult { text, failed: true } = part {
                // A full queue means that tools fail faster than they can be classified. Refusals are
                // repeated soon enough.
                let _ = self.0.try_send(Some((Refusals::telling(text).to_owned(), source)));
            }
        }
    }

    /// Ends the queue.
    pub(in crate::session) async fn close(&self) {
        // Fails only when the reader has ended, and then nothing is left to end.
        let _ = self.0.send(None).await;
    }
}
