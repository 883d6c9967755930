//! Hearing from failed tools what the sandbox refused.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::backend::{Fact, Issue, IssueKind, Message, Part, Source};
use crate::sandbox::{Refusal, Refusals};
use crate::session::actor::Shared;

/// Longest queue of failed tools; more are dropped.
const WAITING: usize = 64;
/// Largest number of refusals that a session reports.
const KEPT: usize = 64;

/// Classifies the errors of failed tools and reports each refusal once.
pub(crate) struct Witness {
    /// Returns the refusals in what a failed tool printed. Blocks.
    pub(crate) find: Arc<dyn Fn(&str) -> Vec<Refusal> + Send + Sync>,
    pub(crate) tell: Box<dyn Fn(&Refusal) + Send>,
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

/// What a failed tool said, and how we know; none: there will be no more.
type Failed = Option<(String, Source)>;

/// Queue of failed tools.
#[derive(Debug)]
pub(in crate::session) struct Failures(mpsc::Sender<Failed>);

impl Failures {
    pub(in crate::session) fn new() -> (Self, mpsc::Receiver<Failed>) {
        let (send, receive) = mpsc::channel(WAITING);
        (Self(send), receive)
    }

    /// Takes in the tools of a message that failed.
    pub(in crate::session) fn note(&self, message: &Message, source: Source) {
        for part in &message.parts {
            if let Part::ToolResult { text, failed: true } = part {
                // Full: somebody fails faster than can be read.
                let _ = self.0.try_send(Some((Refusals::telling(text).to_owned(), source)));
            }
        }
    }

    /// There will be no more.
    pub(in crate::session) async fn close(&self) {
        // Nobody listens: then nobody waits.
        let _ = self.0.send(None).await;
    }
}

/// Hears failed tools until there are no more; gives what was refused, each once.
pub(in crate::session) async fn run(
    shared: Arc<Shared>,
    witness: Witness,
    mut failed: mpsc::Receiver<Failed>,
) -> Vec<Refusal> {
    let mut kept: Vec<Refusal> = Vec::new();
    while let Some(Some((said, source))) = failed.recv().await {
        let find = Arc::clone(&witness.find);
        let Ok(found) = tokio::task::spawn_blocking(move || find(&said)).await else { continue };
        for refusal in found {
            let issue = Issue::new(IssueKind::SandboxDenied, refusal.to_string());
            shared.learn(vec![Fact::Issue(issue)], source);
            let new = kept.iter().all(|old| (&old.path, old.access) != (&refusal.path, refusal.access));
            if new && kept.len() < KEPT {
                (witness.tell)(&refusal);
                kept.push(refusal);
            }
        }
    }
    kept
}
