//! The readable log of a session on disk.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::observe::Sanitizer;
use crate::{Error, Result};

/// Number of bytes gathered before a write.
const BATCH: usize = 32 * 1024;
/// Upper bound for the time between two writes while output arrives.
const EVERY: Duration = Duration::from_secs(1);
/// Size at which the log is closed with a line that says so.
const LIMIT: u64 = 64 << 20;

/// Text log of an agent's output, after a header that names the session.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    sanitizer: Sanitizer,
    pending: String,
    written: u64,
    last: Instant,
}

impl LogFile {
    /// Creates the file, readable by its owner only, and writes `header` between two `---` lines.
    pub(crate) fn create(path: &Path, header: &[(&str, String)]) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let failed = |e| Error::io("making a session log", e).with_path(path);
        let mut options = File::options();
        // A log may hold secrets that the agent printed. `create_new` follows no link that was placed at its
        // name.
        let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let mut pending = String::from("---\n");
        for (name, value) in header {
            // A line break in a value would begin another key.
            let value = value.replace(|c: char| c.is_control(), " ");
            pending.push_str(&format!("{name}: {value}\n"));
        }
        pending.push_str("---\n");
        file.write_all(pending.as_bytes()).map_err(failed)?;
        let written = pending.len() as u64;
        pending.clear();
        let (path, last) = (path.to_path_buf(), Instant::now());
        Ok(Self { path, sanitizer: Sanitizer::default(), pending, written, last })
    }

    /// Appends output, and writes it once enough is gathered.
    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        if self.written > LIMIT {
            return;
        }
        self.sanitizer.feed(bytes, &mut self.pending);
        if self.pending.len() >= BATCH || self.last.elapsed() >= EVERY {
            self.write().await;
        }
    }

    /// Writes the remaining output and ends the last line.
    pub(crate) async fn finish(mut self) {
        self.sanitizer.finish(&mut self.pending);
        if !self.pending.ends_with('\n') {
            self.pending.push('\n');
        }
        self.write().await;
    }

    /// Returns true if output is gathered that is not written yet.
    pub(crate) fn has_more(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the gathered output.
    pub(crate) async fn write(&mut self) {
        let (path, mut text) = (self.path.clone(), std::mem::take(&mut self.pending));
        let had_room = self.written <= LIMIT;
        self.written += text.len() as u64;
        // With the write that crosses the limit: later output is refused by `push`.
        if had_room && self.written > LIMIT {
            text.push_str("\n[watchfire] the log is full; what follows is not kept\n");
        }
        self.last = Instant::now();
        // Opened for each batch: quiet sessions hold no descriptor for it.
        // Blocking: a full or network disk must not stall the other sessions of this runtime.
        let write = move || File::options().append(true).open(path)?.write_all(text.as_bytes());
        let writing = tokio::task::spawn_blocking(write);
        // The session continues without its log: trouble with the disk is reported by everything else, too.
        if let Ok(Err(error)) = writing.await {
            tracing::error!(path = %self.path.display(), "writing a session log: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_log_is_text_behind_a_header() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("0001-1.log");
        let header = [("task_number", "1".to_owned()), ("agent", "a\nb".to_owned())];
        let mut log = LogFile::create(&path, &header).unwrap();
        log.push(b"\x1b[31mhel").await;
        log.push(b"lo\x1b[0m\r\nworld").await;
        log.finish().await;
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "---\ntask_number: 1\nagent: a b\n---\nhello\nworld\n");
        assert!(LogFile::create(&path, &[]).is_err(), "a log is never overwritten");
    }

    #[tokio::test]
    async fn a_full_log_says_so_whichever_write_fills_it() {
        for is_idle in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("0001-1.log");
            let mut log = LogFile::create(&path, &[]).unwrap();
            log.written = LIMIT;
            log.push(if is_idle { b"a" } else { &[b'a'; BATCH] }).await;
            // As after a second of silence.
            log.write().await;
            log.push(b"more").await;
            log.finish().await;
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.matches("the log is full").count(), 1, "{is_idle}");
            assert!(!text.contains("more"), "{is_idle}");
        }
    }
}
