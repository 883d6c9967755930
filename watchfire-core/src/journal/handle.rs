//! A journal shared among tasks: one thread writes, and appends that arrive together share one sync.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::entry::{Entry, Position};
use super::log::Journal;
use crate::{Error, ErrorKind, Result};

/// Maximum number of requests that share one sync.
const GROUP: usize = 256;

/// Maximum delay of posted entries, which no caller waits for, so that they share a sync with later ones.
const LINGER: Duration = Duration::from_millis(50);

enum Request {
    Append(Vec<Entry>, oneshot::Sender<Result<Position>>),
    Post(Vec<Entry>),
    Close(oneshot::Sender<()>),
}

/// Handle to a journal that many tasks write to.
///
/// A thread of its own writes all pending requests with one sync, in the order in which they were made. When the last
/// handle is dropped, the thread answers what is pending, closes the journal and ends.
#[derive(Clone, Debug)]
pub struct JournalHandle {
    requests: mpsc::Sender<Request>,
}

impl JournalHandle {
    /// Starts the thread that owns `journal`.
    ///
    /// # Errors
    /// `io` if the system cannot start a thread.
    pub fn new(journal: Journal) -> Result<Self> {
        let (requests, queue) = mpsc::channel();
        thread::Builder::new()
            .name("watchfire-journal".to_owned())
            .spawn(move || run(journal, &queue))
            .map_err(|error| Error::io("starting the journal's thread", error))?;
        Ok(Self { requests })
    }

    /// Writes `entries` as one record and returns once they survive a crash. After a crash all of them are there, or
    /// none.
    ///
    /// The request is sent at the first poll. Dropping the future afterwards does not cancel it, so the entries may be
    /// written or not.
    ///
    /// # Errors
    /// The same as [`Journal::append`].
    pub async fn append(&self, entries: Vec<Entry>) -> Result<Position> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Io, "the journal's thread has ended");
        self.requests.send(Request::Append(entries, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Writes what was posted, closes the journal and releases its lock. Later requests fail.
    pub async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.requests.send(Request::Close(reply)).is_ok() {
            // An error means that the thread has already ended, and with it the journal is closed.
            let _ = closed.await;
        }
    }

    /// Queues `entries` to be written within 50 ms, in order with all other requests, and returns at once.
    ///
    /// For facts that can be found out again after a crash: they share the sync of the next append. A failed write is
    /// logged and retried with the next request.
    pub fn post(&self, entries: Vec<Entry>) {
        if self.requests.send(Request::Post(entries)).is_err() {
            tracing::error!("the journal's thread has ended");
        }
    }
}

fn run(mut journal: Journal, queue: &mpsc::Receiver<Request>) {
    let mut posted: Vec<Vec<Entry>> = Vec::new();
    let mut due = Instant::now();
    loop {
        let first = if posted.is_empty() {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            queue.recv_timeout(due.saturating_duration_since(Instant::now()))
        };
        let ended = matches!(first, Err(RecvTimeoutError::Disconnected));
        if posted.is_empty() {
            due = Instant::now() + LINGER;
        }
        let (mut appends, mut closing) = (Vec::new(), None);
        for request in first.into_iter().chain(queue.try_iter().take(GROUP)) {
            match request {
                // Posted entries that arrived earlier stay in front: readers rely on one order for both kinds.
                Request::Append(entries, reply) => {
                    appends.push((posted.len(), reply));
                    posted.push(entries);
                }
                Request::Post(entries) => posted.push(entries),
                Request::Close(reply) => closing = Some(reply),
            }
        }
        let must = ended || closing.is_some() || !appends.is_empty() || Instant::now() >= due;
        if must && !posted.is_empty() {
            posted = write(&mut journal, posted, appends);
            // Entries are left only after a failed write. A full disk is not hammered every 50 ms.
            due = Instant::now() + LINGER * 20;
        }
        if let Some(reply) = closing {
            // The lock must be free when `close` returns: its caller may open the journal again.
            drop(journal);
            let _ = reply.send(());
            return;
        }
        if ended {
            return;
        }
    }
}

/// Writes all batches with one sync and answers the appends among them. Returns the posted batches to retry if the
/// write failed, at most [`GROUP`]; the callers of failed appends decide for themselves.
fn write(
    journal: &mut Journal,
    batches: Vec<Vec<Entry>>,
    appends: Vec<(usize, oneshot::Sender<Result<Position>>)>,
) -> Vec<Vec<Entry>> {
    let slices: Vec<&[Entry]> = batches.iter().map(Vec::as_slice).collect();
    match journal.append_all(&slices) {
        Ok(positions) => {
            let mut positions: Vec<_> = positions.into_iter().map(Some).collect();
            for (index, reply) in appends {
                let missing = || Error::new(ErrorKind::Internal, "the journal lost count of its records");
                let position =
                    positions.get_mut(index).and_then(Option::take).unwrap_or_else(|| Err(missing()));
                // A dropped future does not take its append back, so a missing receiver is no error.
                let _ = reply.send(position);
            }
            Vec::new()
        }
        Err(error) => {
            tracing::error!("writing the journal: {}", error.report());
            let waited: Vec<usize> = appends.iter().map(|(index, _)| *index).collect();
            for (_, reply) in appends {
                let _ = reply.send(Err(copy(&error)));
            }
            let posted = batches.into_iter().enumerate().filter(|(index, _)| !waited.contains(index));
            // Bounded, or a disk that stays full would grow the queue without end.
            posted.map(|(_, batch)| batch).take(GROUP).collect()
        }
    }
}

/// Returns an error with the same kind and words, since several appends may share one failure.
fn copy(error: &Error) -> Error {
    Error::new(error.kind(), error.report())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::State;

    fn restarts(subject: &str, count: u32) -> Entry {
        Entry::Restarts { subject: subject.to_owned(), count }
    }

    #[tokio::test]
    async fn many_tasks_share_one_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, state, _) = Journal::open(dir.path()).unwrap();
        assert_eq!(state, State::default());
        let handle = JournalHandle::new(journal).unwrap();
        let tasks: Vec<_> = (0..200)
            .map(|n| {
                let handle = handle.clone();
                tokio::spawn(async move { handle.append(vec![restarts(&n.to_string(), n + 1)]).await })
            })
            .collect();
        let mut positions = Vec::new();
        for task in tasks {
            positions.push(task.await.unwrap().unwrap().0);
        }
        positions.sort_unstable();
        assert_eq!(positions, (1..=200).collect::<Vec<_>>());
        drop(handle);
        // The thread releases the lock only after it has seen that no handle is left.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let (_, state, warnings) = loop {
            match Journal::open(dir.path()) {
                Ok(opened) => break opened,
                Err(error) if error.code() == "locked" && std::time::Instant::now() < deadline => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{}", error.report()),
            }
        };
        assert_eq!((state.restarts.len(), warnings), (200, vec![]));
    }
}
