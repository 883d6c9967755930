//! Sandbox denials, recognised from the errors of failed tools.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::backend::{Fact, Issue, IssueKind};
use crate::sandbox::Refusal;
use crate::session::state::Shared;
use crate::session::state::failures::Failed;

/// Upper bound for the refusals that a session reports.
const KEPT: usize = 64;

/// Function from the output of a failed tool to the refusals in it.
type FindRefusals = dyn Fn(&str) -> Vec<Refusal> + Send + Sync;

/// Classifier for the errors of failed tools, and the callback that receives each refusal once.
pub(crate) struct RefusalReporter {
    /// Returns the refusals in the output of a failed tool. Blocks, because paths are resolved on the disk.
    pub(crate) find: Arc<FindRefusals>,
    pub(crate) report: Box<dyn Fn(&Refusal) + Send>,
}

impl fmt::Debug for RefusalReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalReporter").finish_non_exhaustive()
    }
}

/// Classifies failed tools until the queue ends, and returns each refusal once.
pub(in crate::session) async fn run(
    shared: Arc<Shared>,
    reporter: RefusalReporter,
    mut failed: mpsc::Receiver<Failed>,
) -> Vec<Refusal> {
    let mut kept: Vec<Refusal> = Vec::new();
    while let Some(Some((said, source))) = failed.recv().await {
        let find = Arc::clone(&reporter.find);
        let Ok(found) = tokio::task::spawn_blocking(move || find(&said)).await else { continue };
        for refusal in found {
            let issue = Issue::new(IssueKind::SandboxDenied, refusal.to_string());
            // Also for a refusal that is known: its repetition keeps the issue open for another turn.
            shared.learn(vec![Fact::Issue(issue)], source);
            let new = kept.iter().all(|old| old.what != refusal.what);
            if new && kept.len() < KEPT {
                (reporter.report)(&refusal);
                kept.push(refusal);
            }
        }
    }
    kept
}
