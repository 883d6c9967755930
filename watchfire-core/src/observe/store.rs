//! The records of a log on disk, for readers that go on after the program has ended.
//!
//! A file beside the session's log, only ever appended to. Each line is one JSON object:
//!
//! ```text
//! {"start":{"epoch":1770123900000}}                                                      a program begins to write
//! {"record":{"seq":1,"at":"2026-02-03T13:05:00.000Z","source":"hook","body":{…}}}        a record
//! {"output":[2,1770123900120,0,37]}                                                      output: time, offset and length in the recording
//! {"end":{}}                                                                             the program has written everything
//! ```
//!
//! The file needs no fsync: what was written outlives the program, whatever kills it, and after a crash of the machine the
//! session is gone too. A program that is killed has told its readers of records that are not in the file, at most those of
//! the last moments. The next program finds no `end` then, and tells readers of the loss.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind as IoKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Handle;

use super::delivery::DeliveryState;
use super::record::{Body, Record};
use crate::backend::{Issue, IssueKind, Message, Source, Status};
use crate::files::open_untrusted;
use crate::model::Timestamp;
use crate::{Error, Result};

/// Size at which nothing more is written. Readers of a later program are told of the loss.
const LIMIT: u64 = 64 << 20;
/// Bytes that wait for a slow disk at most.
const WAITING: usize = 4 << 20;
/// Time in which lines gather: a write for each line would cost more than all else that is done for it.
const GATHER: Duration = Duration::from_millis(20);

/// The output of a session, as something else has recorded it.
pub(crate) trait RecordedOutput {
    /// Returns `length` bytes from `offset` on, or `None` if some are missing. Offsets only ever grow.
    fn read(&mut self, offset: u64, length: u64) -> Option<Vec<u8>>;

    /// Returns the number of bytes before `offset` that are there.
    fn before(&mut self, offset: u64) -> u64;
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'a> {
    /// A program with this epoch writes from here on.
    Start { epoch: u64 },
    Record {
        seq: u64,
        at: Timestamp,
        source: Source,
        #[serde(default, skip_serializing_if = "is_zero")]
        omitted: u64,
        body: StoredBody<'a>,
    },
    /// Number, time in milliseconds, offset and length of output. The bytes are in the recording.
    Output(u64, i64, u64, u64),
    /// The program has written everything.
    End {},
    /// What the program adds from here on is lost.
    Cut {},
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A [`Body`] on disk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum StoredBody<'a> {
    Delivery {
        state: DeliveryState,
        #[serde(default, skip_serializing_if = "is_none")]
        receipt: Cow<'a, Option<String>>,
        #[serde(default, skip_serializing_if = "is_none")]
        message_id: Cow<'a, Option<String>>,
        #[serde(default, skip_serializing_if = "is_none")]
        error: Cow<'a, Option<(String, String)>>,
    },
    Event {
        name: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "is_null")]
        payload: Cow<'a, Value>,
    },
    Issue {
        issue: Cow<'a, Issue>,
    },
    IssueCleared {
        issue: IssueKind,
    },
    Lifecycle {
        name: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "is_null")]
        payload: Cow<'a, Value>,
    },
    Status {
        status: Status,
    },
    Transcript {
        message: Cow<'a, Message>,
    },
}

fn is_none<T: Clone>(value: &Option<T>) -> bool {
    value.is_none()
}

fn is_null(value: &Value) -> bool {
    value.is_null()
}

impl<'a> StoredBody<'a> {
    /// Returns `None` for output, whose bytes are in the recording.
    pub(super) fn of(body: &'a Body) -> Option<Self> {
        use Cow::Borrowed as B;
        Some(match body {
            Body::Delivery { state, receipt, message_id, error } => {
                let state = *state;
                Self::Delivery { state, receipt: B(receipt), message_id: B(message_id), error: B(error) }
            }
            Body::Event { name, payload } => Self::Event { name: B(name), payload: B(payload) },
            Body::Issue(issue) => Self::Issue { issue: B(issue) },
            Body::IssueCleared(issue) => Self::IssueCleared { issue: *issue },
            Body::Lifecycle { name, payload } => Self::Lifecycle { name: B(name), payload: B(payload) },
            Body::Output { .. } => return None,
            Body::Status(status) => Self::Status { status: *status },
            Body::Transcript(message) => Self::Transcript { message: B(message) },
        })
    }
}

impl From<StoredBody<'_>> for Body {
    fn from(body: StoredBody<'_>) -> Self {
        match body {
            StoredBody::Delivery { state, receipt, message_id, error } => Self::Delivery {
                state,
                receipt: receipt.into_owned(),
                message_id: message_id.into_owned(),
                error: error.into_owned(),
            },
            StoredBody::Event { name, payload } => {
                Self::Event { name: name.into_owned(), payload: payload.into_owned() }
            }
            StoredBody::Issue { issue } => Self::Issue(issue.into_owned()),
            StoredBody::IssueCleared { issue } => Self::IssueCleared(issue),
            StoredBody::Lifecycle { name, payload } => {
                Self::Lifecycle { name: name.into_owned(), payload: payload.into_owned() }
            }
            StoredBody::Status { status } => Self::Status(status),
            StoredBody::Transcript { message } => Self::Transcript(message.into_owned()),
        }
    }
}

/// Yields the lines of a file; `None` for a torn or unknown one, and no file for one that is not there.
pub(super) fn read(path: &Path) -> Result<Option<impl Iterator<Item = Result<Option<Line<'static>>>>>> {
    let Some(file) = open_untrusted(path)? else { return Ok(None) };
    let path = path.to_owned();
    let lines = BufReader::new(file).split(b'\n');
    Ok(Some(lines.filter(|line| !line.as_ref().is_ok_and(Vec::is_empty)).map(move |line| {
        let line =
            line.map_err(|error| Error::io("reading the records of a session", error).with_path(&path))?;
        // A later program begins a new line after one that was torn by a kill.
        Ok(serde_json::from_slice(&line).ok())
    })))
}

/// The writer of the file.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// Absent outside of a runtime, where lines are written at once.
    runtime: Option<Handle>,
    waiting: Mutex<Waiting>,
    /// Held while lines are written, so that they keep their order.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Length of the file with all lines that were added.
    length: u64,
    /// True while lines gather, or a thread writes.
    is_busy: bool,
    /// True once a line was lost. Nothing is written after that but that it is so, the end in particular.
    is_broken: bool,
    /// True once that is written, or waits for it.
    is_cut: bool,
}

impl Waiting {
    /// Adds once that lines are lost.
    fn cut(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            // A line of constants, after one that may be torn.
            self.lines.extend_from_slice(b"\n{\"cut\":{}}\n");
        }
    }
}

impl Store {
    /// Opens the file for appending, and creates it if there is none.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let failed = |error| Error::io("opening the records of a session", error).with_path(path);
        // It holds what agents say, and texts that were sent to them.
        let file = File::options().append(true).create(true).mode(0o600).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        // The last line may be torn.
        let lines = if length > 0 { vec![b'\n'] } else { Vec::new() };
        let waiting = Mutex::new(Waiting { lines, length, ..Waiting::default() });
        let (path, runtime) = (path.to_owned(), Handle::try_current().ok());
        Ok(Arc::new(Self { path, runtime, waiting, writing: Mutex::new(()) }))
    }

    /// Adds a line. It is written once the caller calls [`flush`](Self::flush).
    pub(super) fn add(&self, line: &Line<'_>) {
        let mut waiting = lock(&self.waiting);
        if waiting.is_broken {
            waiting.cut();
            return;
        }
        let before = waiting.lines.len();
        let is_written = serde_json::to_writer(&mut waiting.lines, line).is_ok();
        waiting.lines.push(b'\n');
        let added = (waiting.lines.len() - before) as u64;
        if !is_written || before > WAITING || waiting.length + added > LIMIT {
            waiting.lines.truncate(before);
            waiting.is_broken = true;
            waiting.cut();
            return;
        }
        waiting.length += added;
    }

    /// Adds a record. `offset` is the position of its output in the recording.
    pub(super) fn add_record(&self, record: &Record, offset: u64) {
        let seq = record.cursor.sequence();
        self.add(&match (&record.body, StoredBody::of(&record.body)) {
            (Body::Output { bytes, .. }, _) => {
                Line::Output(seq, record.time.unix_millis(), offset, bytes.len() as u64)
            }
            (_, Some(body)) => Line::Record {
                seq,
                // With its milliseconds.
                at: record.time.to_millis_string().parse().unwrap_or_else(|_| record.time.clone()),
                source: record.source,
                omitted: record.omitted_bytes,
                body,
            },
            (_, None) => return,
        });
    }

    /// Begins to write what was added, on a thread that may block: a slow disk must not delay the session.
    pub(super) fn flush(self: &Arc<Self>) {
        let mut waiting = lock(&self.waiting);
        // Whoever writes now writes these lines too.
        if waiting.is_busy || waiting.lines.is_empty() {
            return;
        }
        match &self.runtime {
            Some(runtime) => {
                waiting.is_busy = true;
                drop(waiting);
                let store = Arc::clone(self);
                runtime.spawn(async move {
                    tokio::time::sleep(GATHER).await;
                    tokio::task::spawn_blocking(move || store.write());
                });
            }
            None => {
                drop(waiting);
                self.write();
            }
        }
    }

    /// Writes what was added. Blocks.
    pub(super) fn write(&self) {
        let _writing = lock(&self.writing);
        loop {
            let mut waiting = lock(&self.waiting);
            let lines = std::mem::take(&mut waiting.lines);
            if lines.is_empty() {
                waiting.is_busy = false;
                return;
            }
            drop(waiting);
            // Opened for each batch: quiet sessions hold no descriptor. Not created again: it may have been removed.
            let written =
                File::options().append(true).open(&self.path).and_then(|mut file| file.write_all(&lines));
            if let Err(error) = written {
                // What was added meanwhile must not follow the gap: its end would look whole.
                let mut waiting = lock(&self.waiting);
                if !waiting.is_broken && error.kind() != IoKind::NotFound {
                    tracing::error!(path = %self.path.display(), "writing the records of a session: {error}");
                }
                (waiting.is_broken, waiting.is_busy, waiting.is_cut) = (true, false, false);
                waiting.lines.clear();
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_costs_a_short_line_whatever_its_length() {
        let line = serde_json::to_string(&Line::Output(1 << 20, 1_770_123_900_120, 1 << 30, 8192)).unwrap();
        assert_eq!(line, r#"{"output":[1048576,1770123900120,1073741824,8192]}"#);
    }

    #[test]
    fn a_log_that_lost_a_line_says_so_once() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.events");
        let store = Store::open(&path).unwrap();
        let end = Line::End {};
        store.add(&end);
        // As when the disk is full: what is added meanwhile is lost.
        std::fs::rename(&path, temp.path().join("away")).unwrap();
        store.write();
        store.add(&end);
        store.write();
        std::fs::rename(temp.path().join("away"), &path).unwrap();
        for _ in 0..2 {
            store.add(&end);
            store.write();
        }
        let lines: Vec<_> = read(&path).unwrap().unwrap().map(Result::unwrap).collect();
        assert!(matches!(lines[..], [Some(Line::Cut {})]), "{lines:?}");
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.events");
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, "{\"start\":{\"epoch\":7}}\n{\"end\":{\"se").unwrap();
        let store = Store::open(&path).unwrap();
        store.add(&Line::Start { epoch: 8 });
        store.write();
        let lines: Vec<_> = read(&path).unwrap().unwrap().map(Result::unwrap).collect();
        assert!(
            matches!(
                lines[..],
                [Some(Line::Start { epoch: 7, .. }), None, Some(Line::Start { epoch: 8, .. })]
            ),
            "{lines:?}"
        );
    }
}
