//! Following a recording while it is written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::reader::{Reader, Recorded};
use crate::Result;
use crate::files::FolderWatch;
use crate::observe::{Sanitizer, present};

/// Fallback polling interval, in case the system gives no watch or loses an event.
const POLL: Duration = Duration::from_secs(1);
/// Pause between two looks at a recording that grows all the time.
const PAUSE: Duration = Duration::from_millis(16);

/// A recording, part by part, until the session ends. It needs no orchestrator, and delays no agent.
#[derive(Debug)]
pub struct FollowRecording {
    /// `None` after the end.
    reader: Option<Reader>,
    parts: VecDeque<Recorded>,
    changed: Arc<Notify>,
    /// Made at the first wait.
    watch: Option<FolderWatch>,
}

impl FollowRecording {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader: Some(reader), parts: VecDeque::new(), changed: Arc::default(), watch: None }
    }

    /// Returns the next part, waiting for it, or `None` after the last. The last is [`Recorded::End`], unless the guardian
    /// was killed or the recording removed. A future that is dropped loses nothing.
    ///
    /// # Errors
    /// I/O errors; after one the recording has ended.
    pub async fn next(&mut self) -> Result<Option<Recorded>> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Ok(Some(part));
            }
            let Some(reader) = &mut self.reader else { return Ok(None) };
            if self.watch.is_none() {
                // Before the reading: what is written after it notifies. Without a watch the polling below remains.
                self.watch = FolderWatch::new(reader.folder(), &self.changed).ok();
            }
            // Before the reading, too: whoever writes no more by now has written everything.
            let is_written = reader.is_written();
            let read = read_on(reader);
            if read.as_ref().map_or(true, |parts| parts.is_empty() && !is_written) {
                self.reader = None;
            }
            self.parts.extend(read?);
            if self.parts.is_empty() && is_written {
                let _ = tokio::time::timeout(POLL, self.changed.notified()).await;
                // More is written within moments of the first byte, and each look costs a few system calls.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The text of a recording, line by line, until the session ends.
#[derive(Debug)]
pub struct FollowLines {
    follow: FollowRecording,
    /// `None` after the end.
    sanitizer: Option<Sanitizer>,
    text: String,
}

impl FollowRecording {
    /// Follows the text instead: without escape sequences, as in the log of the session.
    #[must_use]
    pub fn lines(self) -> FollowLines {
        FollowLines { follow: self, sanitizer: Some(Sanitizer::default()), text: String::new() }
    }
}

impl FollowLines {
    /// Returns the next lines, each with its end, or `None` after the last. A line that a program draws again and again
    /// comes once, when the next one begins. A future that is dropped loses nothing.
    ///
    /// # Errors
    /// As [`FollowRecording::next`].
    pub async fn next(&mut self) -> Result<Option<String>> {
        while let Some(sanitizer) = &mut self.sanitizer {
            match self.follow.next().await? {
                Some(Recorded::Output { bytes, .. }) => sanitizer.feed(&bytes, &mut self.text),
                Some(Recorded::Missing { length, .. }) => {
                    self.text.push_str(&format!("\n[watchfire] {length} bytes of output are missing\n"));
                }
                Some(Recorded::Resize { .. } | Recorded::End { .. }) => {}
                None => {
                    sanitizer.finish(&mut self.text);
                    self.sanitizer = None;
                    if !self.text.is_empty() && !self.text.ends_with('\n') {
                        self.text.push('\n');
                    }
                }
            }
            if let Some(end) = self.text.rfind('\n') {
                let rest = self.text.split_off(end + 1);
                return Ok(Some(present(&std::mem::replace(&mut self.text, rest))));
            }
        }
        Ok(None)
    }
}

/// Reads the new parts of the first segment that has any. Not in a blocking thread: they were written a moment ago.
fn read_on(reader: &mut Reader) -> Result<Vec<Recorded>> {
    for segment in reader.segments()? {
        let parts = reader.read(segment)?;
        if !parts.is_empty() {
            return Ok(parts);
        }
    }
    Ok(Vec::new())
}
