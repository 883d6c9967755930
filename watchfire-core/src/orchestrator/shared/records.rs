//! The record logs of sessions, with what is on disk of them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::logs::{EVENTS, RECORDING};
use super::{ProjectShared, blocking};
use crate::Result;
use crate::observe::{Log, LogSubject, RecordedOutput};
use crate::schedule::NoticeCode;
use crate::session::{Recorded, Recording, SessionInfo};

/// Opens the record log of a session that begins or goes on, whose other logs begin with `log_name`.
pub(crate) async fn open_records(shared: &Arc<ProjectShared>, info: &SessionInfo, log_name: &Path) -> Log {
    let inner = &shared.inner;
    let subject = LogSubject::new(info.alias.as_str(), info.backend.as_str());
    let subject = subject.with_work(Some(info.mode), info.phase, info.task);
    // Tells this run of the program apart.
    let epoch = u64::try_from(inner.clock.now().unix_millis()).unwrap_or_default();
    let (id, options, clock) = (info.id.clone(), inner.log_options.clone(), Arc::clone(&inner.clock));
    let (events, recording) = (log_name.with_extension(EVENTS), log_name.with_extension(RECORDING));
    let about = subject.clone();
    let open = move || {
        let mut output = OutputOf::new(Recording::open(&recording)?);
        Log::open(id.as_str(), epoch, about, &options, clock, &events, &mut output)
    };
    match blocking("opening the records of a session", open).await {
        Ok(log) => log,
        // A session without a log is better than none.
        Err(error) => {
            let message = format!("the records of its session are not kept: {}", error.report());
            shared.notice(NoticeCode::Session, info.task, message);
            Log::new(info.id.as_str(), epoch, subject, &inner.log_options, Arc::clone(&inner.clock))
        }
    }
}

/// The output of a recording, read once from its beginning.
pub(super) struct OutputOf {
    parts: Box<dyn Iterator<Item = Result<Recorded>>>,
    /// Bytes that are read and may be wanted, and the offset of the first.
    bytes: VecDeque<u8>,
    start: u64,
    /// Number of recorded bytes before `start`.
    before: u64,
}

impl OutputOf {
    pub(super) fn new(recording: Option<Recording>) -> Self {
        let parts = recording.into_iter().flat_map(|recording| recording.read());
        Self { parts: Box::new(parts), bytes: VecDeque::new(), start: 0, before: 0 }
    }

    /// Reads up to `end`, as far as the recording goes.
    fn read_to(&mut self, end: u64) {
        while self.start + (self.bytes.len() as u64) < end {
            match self.parts.next() {
                Some(Ok(Recorded::Output { offset, bytes, .. })) => {
                    if offset != self.start + self.bytes.len() as u64 {
                        self.before += self.bytes.len() as u64;
                        self.bytes.clear();
                        self.start = offset;
                    }
                    self.bytes.extend(bytes);
                }
                Some(Ok(_)) => {}
                // What cannot be read is missing.
                Some(Err(_)) | None => return,
            }
        }
    }
}

impl RecordedOutput for OutputOf {
    fn read(&mut self, offset: u64, length: u64) -> Option<Vec<u8>> {
        self.read_to(offset.saturating_add(length));
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(length).ok()?)?;
        if to > self.bytes.len() {
            return None;
        }
        self.bytes.drain(..from);
        (self.start, self.before) = (offset, self.before + from as u64);
        Some(self.bytes.range(..to - from).copied().collect())
    }

    fn before(&mut self, offset: u64) -> u64 {
        self.read_to(offset);
        self.before + offset.saturating_sub(self.start).min(self.bytes.len() as u64)
    }
}
