//! One journal for many tasks.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::entry::{Entry, Position};
use super::log::Journal;
use crate::{Error, ErrorKind, Result};

/// The most requests that share one sync.
const GROUP: usize = 256;

/// How long entries that nobody waits for may wait for company.
const LINGER: Duration = Duration::from_millis(50);

enum Request {
    Append(Vec<Entry>, oneshot::Sender<Result<Position>>),
    Post(Vec<Entry>),
    Close(oneshot::Sender<()>),
}

/// Shares a journal among tasks. Its thread writes everything that waits in one go with one sync, in the order in which
/// it was asked; it ends, and the journal is closed, when the last handle is gone and the last request answered.
#[derive(Clone, Debug)]
pub struct JournalHandle {
    requests: mpsc::Sender<Request>,
}

impl JournalHandle {
    /// Gives `journal` a thread of its own.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn new(journal: Journal) -> Result<Self> {
        let (requests, queue) = mpsc::channel();
        thread::Builder::new()
            .name("watchfire-journal".to_owned())
            .spawn(move || run(journal, &queue))
            .map_err(|error| Error::io("starting the journal's thread", error))?;
        Ok(Self { requests })
    }

    /// Writes `entries` as one record: after a crash all of them are there or none. When this returns, they survive one.
    ///
    /// Asked for at the first poll; whoever drops the future does not know whether they are written.
    ///
    /// # Errors
    /// Those of [`Journal::append`].
    pub async fn append(&self, entries: Vec<Entry>) -> Result<Position> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Io, "the journal's thread has ended");
        self.requests.send(Request::Append(entries, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Writes what was posted, closes the journal and lets go of its lock. What is asked of it afterwards fails.
    pub async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.requests.send(Request::Close(reply)).is_ok() {
            // An error means that the thread has ended: closed either way.
            let _ = closed.await;
        }
    }

    /// Writes `entries` soon, in order with everything else, without anyone waiting: for what can be found out again
    /// after a crash. They share the sync of the next append, or get one of their own within 50 ms. A failure is
    /// logged, and shows again in the next append.
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
                // In order: what was posted before it is written before it.
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
            due = Instant::now() + LINGER * 20;
        }
        if let Some(reply) = closing {
            drop(journal);
            // Whoever asked may be gone.
            let _ = reply.send(());
            return;
        }
        if ended {
            return;
        }
    }
}

/// Writes batches in one go; gives back those that nobody waits for if that fails, to be tried again.
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
                // Whoever asked may be gone; it is written all the same.
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
            let kept = batches.into_iter().enumerate().filter(|(index, _)| !waited.contains(index));
            kept.map(|(_, batch)| batch).take(GROUP).collect()
        }
    }
}

/// The same error once more: everyone who waited gets it.
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
        // The thread lets go of the lock once it has seen that no handle is left.
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
