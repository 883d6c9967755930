//! Records changes in the journal, in order, and then runs the actions that wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::failpoint::reached;
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

/// Number of times that a failed write is tried again once the project is being closed.
const LAST_TRIES: u32 = 6;

/// Starts the recorder of a project. It ends when the sending end is dropped, and when nothing can be written any more:
/// what waits for it then is dropped, and nothing of it happens.
pub(super) fn start(
    journal: JournalHandle,
    log: Arc<ProjectLog>,
    clock: Arc<dyn Clock>,
    closing: watch::Receiver<bool>,
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
            // there is room again. It does not hold up the end of the project: the next start finds out what
            // was not written, as after a kill.
            let mut last_tries = LAST_TRIES;
            while !entries.is_empty() {
                entries.iter().for_each(|entry| reached(|| format!("before {}", entry.change.place())));
                match journal.append(entries.clone()).await {
                    // Only after the append: subscribers must not see a change that a crash can undo.
                    Ok(()) => {
                        entries
                            .iter()
                            .for_each(|entry| reached(|| format!("after {}", entry.change.place())));
                        log.emit(std::mem::take(&mut entries));
                    }
                    Err(error) if journal.is_closed() => {
                        tracing::error!("the journal is closed: {}", error.report());
                        return;
                    }
                    Err(error) if *closing.borrow() && last_tries == 0 => {
                        tracing::error!("closing without the last changes: {}", error.report());
                        return;
                    }
                    Err(error) => {
                        tracing::error!("writing the journal: {}", error.report());
                        last_tries -= u32::from(*closing.borrow());
                        clock.sleep_until(clock.boot_time() + PAUSE).await;
                    }
                }
            }
            after.into_iter().for_each(|act| act());
        }
    });
    sender
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::SystemClock;
    use crate::journal::Journal;
    use crate::schedule::{Change, Notice, NoticeCode};

    #[tokio::test]
    async fn what_waits_for_a_journal_that_is_lost_does_not_happen() {
        let dir = tempfile::tempdir().unwrap();
        let mut opened = Journal::open(dir.path()).unwrap();
        opened.journal.lose_disk();
        let journal = JournalHandle::new(opened.journal).unwrap();
        let project = "a1b2c3d4-0000-4000-8000-000000000000".parse().unwrap();
        let log = Arc::new(ProjectLog::new(project, opened.id, 0, Vec::new()));
        let closing = watch::Sender::new(false);
        let recorder = start(journal, log, Arc::new(SystemClock), closing.subscribe());
        let (permit, permitted) = oneshot::channel();
        let change = Change::Notice(Notice::new(NoticeCode::Store, "n"));
        let entries = vec![Entry::new(1, SystemClock.now(), change)];
        let batch = Batch { entries, after: vec![Box::new(move || permit.send(true).unwrap())] };
        assert!(recorder.send(batch).is_ok());
        let waited = tokio::time::timeout(Duration::from_secs(10), permitted).await;
        assert!(waited.expect("it waits for ever").is_err());
        tokio::time::timeout(Duration::from_secs(10), recorder.closed()).await.expect("it goes on");
    }
}
