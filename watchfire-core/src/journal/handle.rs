//! A journal shared among tasks: one thread writes, and appends that arrive together share one sync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::oneshot;

use super::entry::Entry;
use super::log::Journal;
use crate::{Error, Result};

/// Maximum number of requests that share one sync.
const GROUP: usize = 256;

enum Request {
    Append(Vec<Entry>, oneshot::Sender<Result<()>>),
    Close(oneshot::Sender<()>),
}

/// Handle to a journal that many tasks write to.
///
/// A thread of its own writes all pending requests with one sync, in the order in which they were made. When the last
/// handle is dropped, the thread answers what is pending, closes the journal and ends.
#[derive(Clone, Debug)]
pub(crate) struct JournalHandle {
    requests: mpsc::Sender<Request>,
    closed: Arc<AtomicBool>,
}

impl JournalHandle {
    /// Starts the thread that owns `journal`.
    ///
    /// # Errors
    /// `io` if the system cannot start a thread.
    pub(crate) fn new(journal: Journal) -> Result<Self> {
        let (requests, queue) = mpsc::channel();
        let closed = Arc::new(AtomicBool::new(false));
        // A thread, not a task: `fdatasync` blocks for as long as the disk wants.
        thread::Builder::new()
            .name("watchfire-journal".to_owned())
            .spawn({
                let closed = Arc::clone(&closed);
                move || {
                    run(journal, &queue);
                    closed.store(true, Ordering::Release);
                }
            })
            .map_err(|error| Error::io("starting the journal's thread", error))?;
        Ok(Self { requests, closed })
    }

    /// Writes `entries` as one record and returns once they survive a crash. After a crash, either all or none are
    /// there.
    ///
    /// Requested at the first poll. A caller that drops the future does not know whether the entries were written.
    ///
    /// # Errors
    /// The errors of [`Journal::append`]; `closed` journals answer `io`.
    pub(crate) async fn append(&self, entries: Vec<Entry>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Append(entries, reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Returns true once the journal is closed: no append can succeed any more.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Writes the pending requests, closes the journal and releases its lock. Later requests fail.
    pub(crate) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.requests.send(Request::Close(reply)).is_ok() {
            // An error means that the thread has already ended, and with it the journal is closed.
            let _ = closed.await;
        }
    }
}

fn closed() -> Error {
    Error::new(crate::ErrorKind::Io, "the journal is closed")
}

fn run(mut journal: Journal, queue: &mpsc::Receiver<Request>) {
    while let Ok(first) = queue.recv() {
        let (mut batches, mut replies, mut closing) = (Vec::new(), Vec::new(), None);
        // Requests that arrived during the last sync share the next one, so throughput grows with the load.
        for request in std::iter::once(first).chain(queue.try_iter().take(GROUP)) {
            match request {
                Request::Append(entries, reply) => {
                    batches.push(entries);
                    replies.push(reply);
                }
                Request::Close(reply) => closing = Some(reply),
            }
        }
        if !batches.is_empty() {
            write(&mut journal, &batches, replies);
        }
        if journal.is_broken() {
            tracing::error!("the journal cannot be written any more; open it again");
            // Replies that are still queued are dropped with the queue, which their callers see as a closed
            // journal.
            return;
        }
        if let Some(reply) = closing {
            // The lock must be free when `close` returns: its caller may open the journal again.
            drop(journal);
            // The caller may be gone.
            let _ = reply.send(());
            return;
        }
    }
}

fn write(journal: &mut Journal, batches: &[Vec<Entry>], replies: Vec<oneshot::Sender<Result<()>>>) {
    let slices: Vec<&[Entry]> = batches.iter().map(Vec::as_slice).collect();
    match journal.append_all(&slices) {
        Ok(results) => {
            for (result, reply) in results.into_iter().zip(replies) {
                // The caller may be gone; the entries are durable all the same.
                let _ = reply.send(result);
            }
        }
        // One sync for all, so none of them is known to be on the disk.
        Err(error) => {
            for reply in replies {
                let _ = reply.send(Err(Error::new(error.kind(), error.report())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::State;
    use crate::journal::entry::tests::notice;

    #[tokio::test]
    async fn many_tasks_share_one_journal() {
        let dir = tempfile::tempdir().unwrap();
        let opened = Journal::open(dir.path()).unwrap();
        assert_eq!(opened.state, State::default());
        let handle = JournalHandle::new(opened.journal).unwrap();
        let tasks: Vec<_> = (1..=200)
            .map(|n| {
                let handle = handle.clone();
                tokio::spawn(async move { handle.append(vec![notice(n, "n")]).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        drop(handle);
        // The thread releases the lock only after it has seen that no handle is left.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let opened = loop {
            match Journal::open(dir.path()) {
                Ok(opened) => break opened,
                Err(error) if error.code() == "locked" && std::time::Instant::now() < deadline => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{}", error.report()),
            }
        };
        let mut seen: Vec<_> = opened.recent.iter().map(|entry| entry.seq).collect();
        seen.sort_unstable();
        assert_eq!((seen, opened.warnings), ((1..=200).collect::<Vec<_>>(), vec![]));
    }
}
