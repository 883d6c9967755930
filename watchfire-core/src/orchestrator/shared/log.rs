//! The log of a project: its journal read out.
//!
//! Only the dispatcher writes it, and only durable changes. Readers pull at their own pace from one bounded ring, so
//! a slow reader costs no memory and slows nothing. Records that it missed are a [`Gap`].

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::journal::{Cursor, Entry};
use crate::model::{ProjectId, Timestamp};
use crate::schedule::{Change, Ledger};
use crate::{Error, ErrorKind, Result};

/// Bounds of the ring: the changes of about as many lives as the ledger keeps, so that memory stops growing with them.
/// Entries are about half a kilobyte as text and three times that in memory, with outputs of failed commands up to 16 KiB.
const ENTRIES: usize = 2048;
const BYTES: usize = 1 << 20;

/// One change in a project, with its place in the project's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The project.
    pub project: ProjectId,
    /// Its place. A subscription from here delivers the following records, also after a restart.
    pub cursor: Cursor,
    /// The time of the change.
    pub at: Timestamp,
    /// True if an earlier start of the orchestrator made the change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// One line for people.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = if self.replayed { "replayed" } else { "new" };
        write!(f, "{} {age} {}", self.cursor, self.change)
    }
}

/// An item of a [`LogStream`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Seen {
    /// A change.
    Record(Box<Record>),
    /// Changes that are no longer available. Read a fresh snapshot.
    Gap(Gap),
    /// Files of the project changed, so tasks or settings should be read again. Coalesced, and not part of the log.
    FilesChanged(ProjectId),
}

/// Records that a reader missed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gap {
    /// The project.
    pub project: ProjectId,
    /// Sequence number of the first missing record.
    pub from: u64,
    /// Sequence number of the last missing record.
    pub to: u64,
}

/// The log that the dispatcher writes and subscriptions read.
pub(crate) struct ProjectLog {
    project: ProjectId,
    journal: String,
    ring: Mutex<Ring>,
    /// Signal to readers.
    news: watch::Sender<News>,
}

struct Ring {
    entries: VecDeque<(Arc<Entry>, usize)>,
    bytes: usize,
    /// The last entry that an earlier start wrote.
    replayed: u64,
    /// The last entry that was emitted.
    last: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct News {
    last: u64,
    files: u64,
    closed: bool,
}

impl ProjectLog {
    pub(crate) fn new(project: ProjectId, journal: String, last: u64, recent: Vec<Entry>) -> Self {
        let ring = Ring { entries: VecDeque::new(), bytes: 0, replayed: last, last };
        let log =
            Self { project, journal, ring: Mutex::new(ring), news: watch::Sender::new(News::default()) };
        // Entries of earlier starts come first, so that cursors into them stay valid.
        log.emit(recent);
        log
    }

    /// Makes durable entries visible, in order.
    pub(crate) fn emit(&self, entries: Vec<Entry>) {
        let mut ring = self.ring();
        for entry in entries {
            // Sequence numbers have no holes, unless a part of the journal was damaged.
            let bytes = serde_json::to_vec(&entry).map_or(0, |text| text.len());
            ring.last = ring.last.max(entry.seq);
            ring.bytes += bytes;
            ring.entries.push_back((Arc::new(entry), bytes));
        }
        // The newest entry stays even if it exceeds the bound alone: its readers would get nothing but gaps.
        while ring.entries.len() > ENTRIES || ring.bytes > BYTES && ring.entries.len() > 1 {
            if let Some((_, bytes)) = ring.entries.pop_front() {
                ring.bytes -= bytes;
            }
        }
        let last = ring.last;
        drop(ring);
        // After the ring is unlocked, so that woken readers do not queue for it.
        self.news.send_modify(|news| news.last = last);
    }

    /// Informs readers that files changed.
    pub(crate) fn files_changed(&self) {
        self.news.send_modify(|news| news.files += 1);
    }

    /// Ends all streams once they have delivered everything.
    pub(crate) fn close(&self) {
        self.news.send_modify(|news| news.closed = true);
    }

    /// Returns the place at which this start of the orchestrator began to write.
    pub(crate) fn opened(&self) -> Cursor {
        let replayed = self.ring().replayed;
        self.cursor(replayed)
    }

    pub(crate) fn cursor(&self, seq: u64) -> Cursor {
        Cursor::new(&self.journal, seq)
    }

    /// Checks a reader's cursor and returns its sequence number.
    ///
    /// # Errors
    /// `invalid_cursor` for one of another journal or from the future, `cursor_expired` for one before the oldest kept
    /// record.
    pub(crate) fn place(&self, cursor: &Cursor) -> Result<u64> {
        let ring = self.ring();
        let oldest = ring.entries.front().map_or(ring.last + 1, |(entry, _)| entry.seq);
        let (kind, reason) = if *cursor.journal != *self.journal {
            (ErrorKind::InvalidCursor, "it belongs to another project or an older journal".to_owned())
        } else if cursor.seq > ring.last {
            (ErrorKind::InvalidCursor, "it lies in the future".to_owned())
        } else if cursor.seq + 1 < oldest {
            (ErrorKind::CursorExpired, format!("the oldest kept record is {oldest}"))
        } else {
            return Ok(cursor.seq);
        };
        Err(Error::new(kind, "the cursor cannot be resumed").with("cursor", cursor).with("reason", reason))
    }

    /// Returns the record after `seq`, or the gap before the oldest one that is kept.
    fn after(&self, seq: u64) -> Option<std::result::Result<Record, Gap>> {
        let ring = self.ring();
        let first = ring.entries.front().map(|(entry, _)| entry.seq)?;
        if seq + 1 < first {
            return Some(Err(Gap { project: self.project.clone(), from: seq + 1, to: first - 1 }));
        }
        let at = ring.entries.partition_point(|(entry, _)| entry.seq <= seq);
        let (entry, _) = ring.entries.get(at)?;
        // A damaged part of the journal left a hole.
        if entry.seq > seq + 1 {
            return Some(Err(Gap { project: self.project.clone(), from: seq + 1, to: entry.seq - 1 }));
        }
        Some(Ok(Record {
            project: self.project.clone(),
            cursor: self.cursor(entry.seq),
            at: entry.at.clone(),
            replayed: entry.seq <= ring.replayed,
            change: entry.change.clone(),
        }))
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProjectLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectLog").field("project", &self.project).finish_non_exhaustive()
    }
}

/// Answer to a subscription: the ledger at one place, and a stream from another.
#[derive(Debug)]
pub(crate) struct Subscribed {
    pub(crate) ledger: Ledger,
    pub(crate) cursor: Cursor,
    pub(crate) opened: Cursor,
    /// The reason for which the stream begins after the snapshot instead of at the requested place.
    pub(crate) expired: Option<Error>,
    pub(crate) stream: LogStream,
}

type Waiting = Pin<Box<dyn Future<Output = watch::Receiver<News>> + Send>>;

/// Stream of the records of one or several projects, in order within each. Ends after everything was delivered and
/// the orchestrator has closed the projects.
pub struct LogStream {
    sources: Vec<Source>,
}

struct Source {
    log: Arc<ProjectLog>,
    /// The place of the last record that was delivered.
    at: u64,
    files: u64,
    news: Option<watch::Receiver<News>>,
    waiting: Option<Waiting>,
}

impl LogStream {
    pub(crate) fn new(log: Arc<ProjectLog>, after: u64) -> Self {
        let news = log.news.subscribe();
        let files = news.borrow().files;
        Self { sources: vec![Source { log, at: after, files, news: Some(news), waiting: None }] }
    }

    /// Returns a stream of no project, which has ended.
    pub(crate) fn none() -> Self {
        Self { sources: Vec::new() }
    }

    /// Adds the records of another stream.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.sources.extend(other.sources);
        self
    }

    /// Returns the next item, or `None` once all projects are closed.
    pub async fn next(&mut self) -> Option<Seen> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Source {
    /// Returns the next item, or `None` at the end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Seen>> {
        loop {
            // Records before the signal: it only says that there are some, not how many.
            match self.log.after(self.at) {
                Some(Ok(record)) => {
                    self.at = record.cursor.seq;
                    return Poll::Ready(Some(Seen::Record(Box::new(record))));
                }
                Some(Err(gap)) => {
                    self.at = gap.to;
                    return Poll::Ready(Some(Seen::Gap(gap)));
                }
                None => {}
            }
            if let Some(news) = &mut self.news {
                // Marked as seen before the ring is read again, so that a record in between wakes the reader.
                let now = *news.borrow_and_update();
                if now.last > self.at {
                    continue;
                }
                if now.files > self.files {
                    self.files = now.files;
                    return Poll::Ready(Some(Seen::FilesChanged(self.log.project.clone())));
                }
                // Last: readers get everything that was written before the end.
                if now.closed {
                    return Poll::Ready(None);
                }
            }
            if let Some(mut news) = self.news.take() {
                self.waiting = Some(Box::pin(async move {
                    // The sender lives as long as the log, which this source holds.
                    let _ = news.changed().await;
                    news
                }));
            }
            let Some(waiting) = &mut self.waiting else { return Poll::Ready(None) };
            match waiting.as_mut().poll(cx) {
                Poll::Ready(news) => {
                    self.waiting = None;
                    // The signal is marked as seen; the loop above checks it against the ring.
                    self.news = Some(news);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Stream for LogStream {
    type Item = Seen;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Seen>> {
        let mut at = 0;
        while at < self.sources.len() {
            match self.sources[at].poll(cx) {
                Poll::Ready(Some(seen)) => {
                    // The next poll begins with the others, so that one busy project does not starve them.
                    self.sources.rotate_left(at + 1);
                    return Poll::Ready(Some(seen));
                }
                Poll::Ready(None) => drop(self.sources.remove(at)),
                Poll::Pending => at += 1,
            }
        }
        if self.sources.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl fmt::Debug for LogStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStream").field("projects", &self.sources.len()).finish()
    }
}
