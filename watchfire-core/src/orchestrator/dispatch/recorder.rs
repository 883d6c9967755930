//! Records changes in the journal, in order, and then runs the actions that wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::ErrorKind;
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

/// Starts the recorder of a project. It ends when the sending end is dropped, or when the journal cannot be
/// written any more; the actions that still wait are then dropped and never run.
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
            let (mut last_tries, mut most) = (LAST_TRIES, entries.len());
            while !entries.is_empty() {
                let part = &entries[..most.min(entries.len())];
                part.iter().for_each(|entry| reached(|| format!("before {}", entry.change.place())));
                match journal.append(part.to_vec()).await {
                    // Only after the append: subscribers must not see a change that a crash can undo.
                    Ok(()) => {
                        part.iter().for_each(|entry| reached(|| format!("after {}", entry.change.place())));
                        log.emit(entries.drain(..part.len()).collect());
                    }
                    // Too long for one record. Two records are better than none.
                    Err(error) if error.kind() == ErrorKind::InvalidInput && part.len() > 1 => {
                        most = part.len().div_ceil(2);
                    }
                    // Waiting would not help: no record can hold the change, or the journal must be opened
                    // again first.
                    Err(error) if error.kind() == ErrorKind::InvalidInput || journal.is_closed() => {
                        tracing::error!("a change that cannot be recorded: {}", error.report());
                        return;
                    }
                    Err(error) if *closing.borrow() && last_tries == 0 => {
                        tracing::error!("closing without the last changes: {}", error.report());
                        return;
                    }
                    Err(error) => {
                        tracing::error!("writing the journal: {}", error.report());
                        // Counted only while closing: until then, a full disk is waited for without limit.
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
    use std::path::Path;

    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::SystemClock;
    use crate::journal::Journal;
    use crate::schedule::{Change, Notice, NoticeCode};

    /// Starts a recorder over a journal in `dir`.
    fn recorder(dir: &Path, break_disk: bool) -> mpsc::UnboundedSender<Batch> {
        let mut opened = Journal::open(dir).unwrap();
        if break_disk {
            opened.journal.lose_disk();
        }
        let journal = JournalHandle::new(opened.journal).unwrap();
        let project = "a1b2c3d4-0000-4000-8000-000000000000".parse().unwrap();
        let log = Arc::new(ProjectLog::new(project, opened.id, 0, Vec::new()));
        start(journal, log, Arc::new(SystemClock), watch::Sender::new(false).subscribe())
    }

    /// Sends notices of these lengths, and returns true if what waits for them happens.
    async fn sent(recorder: &mpsc::UnboundedSender<Batch>, lengths: &[usize]) -> bool {
        let notice = |(seq, length): (u64, &usize)| {
            let change = Change::Notice(Notice::new(NoticeCode::Store, "n".repeat(*length)));
            Entry::new(seq, SystemClock.now(), change)
        };
        let (permit, permitted) = oneshot::channel();
        let entries = (1..).zip(lengths).map(notice).collect();
        let batch = Batch { entries, after: vec![Box::new(move || permit.send(()).unwrap())] };
        assert!(recorder.send(batch).is_ok());
        let waited = tokio::time::timeout(Duration::from_secs(60), permitted).await;
        waited.expect("it waits for ever").is_ok()
    }

    async fn has_ended(recorder: &mpsc::UnboundedSender<Batch>) {
        tokio::time::timeout(Duration::from_secs(10), recorder.closed()).await.expect("it goes on");
    }

    #[tokio::test]
    async fn what_waits_for_a_journal_that_is_lost_does_not_happen() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = recorder(dir.path(), true);
        assert!(!sent(&recorder, &[1]).await);
        has_ended(&recorder).await;
    }

    #[tokio::test]
    async fn changes_too_long_for_one_record_become_several() {
        const MIB: usize = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let recorder = recorder(dir.path(), false);
        assert!(sent(&recorder, &[1, 7 * MIB, 7 * MIB, 7 * MIB, 1]).await);
        // No record can hold it, now or later.
        assert!(!sent(&recorder, &[17 * MIB]).await);
        has_ended(&recorder).await;
        let opened = std::iter::repeat_with(|| Journal::open(dir.path())).find_map(Result::ok).unwrap();
        assert_eq!(opened.state.seq, 5);
    }
}
