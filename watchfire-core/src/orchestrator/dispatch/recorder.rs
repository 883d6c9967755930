//! Records changes in the journal, in order, and then runs the actions that wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::journal::{Entry, JournalHandle};
use crate::orchestrator::shared::ProjectLog;

/// Pause before a failed write to the journal is repeated.
const PAUSE: Duration = Duration::from_millis(500);

/// Action that must not run before the changes before it are durable.
pub(super) type After = Box<dyn FnOnce() + Send>;

/// Changes that belong together, and the actions that wait for them.
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    pub(super) after: Vec<After>,
}

/// Starts the recorder of a project. It ends when the sending end is dropped.
pub(super) fn start(
    journal: JournalHandle,
    log: Arc<ProjectLog>,
    clock: Arc<dyn Clock>,
) -> mpsc::UnboundedSender<Batch> {
    let (sender, mut batches) = mpsc::unbounded_channel::<Batch>();
    tokio::spawn(async move {
        let mut waiting = Vec::new();
        // Everything that arrived during the last write goes into one record and one sync.
        while batches.recv_many(&mut waiting, 256).await > 0 {
            let (mut entries, mut after) = (Vec::new(), Vec::new());
            for batch in waiting.drain(..) {
                entries.extend(batch.entries);
                after.extend(batch.after);
            }
            // No change may overtake one that could not be written, so a full disk holds up everything until
            // there is room again. Closing the journal ends the wait.
            while !entries.is_empty() {
                match journal.append(entries.clone()).await {
                    // Only after the append: subscribers must not see a change that a crash can undo.
                    Ok(()) => log.emit(std::mem::take(&mut entries)),
                    Err(error) if journal.is_closed() => {
                        tracing::error!("the journal is closed: {}", error.report());
                        return;
                    }
                    Err(error) => {
                        tracing::error!("writing the journal: {}", error.report());
                        clock.sleep_until(clock.boot_time() + PAUSE).await;
                    }
                }
            }
            after.into_iter().for_each(|act| act());
        }
    });
    sender
}
