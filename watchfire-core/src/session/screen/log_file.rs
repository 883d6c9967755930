//! The readable log of a session on disk.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::files::open_untrusted;
use crate::observe::{Sanitizer, present};
use crate::{Error, ErrorKind, Result};

/// Number of bytes gathered before a write. Each takes a turn of another thread, and many agents may print at full speed.
const BATCH: usize = 256 * 1024;
/// Upper bound for the time between two writes while output arrives.
const EVERY: Duration = Duration::from_secs(1);
/// Upper bound for the header.
const HEADER: u64 = 64 * 1024;
/// Key of the length of what stands between the header and the agent's output, in bytes.
const SETUP: &str = "setup_bytes: ";
/// Size at which the log is closed with a line that says so.
const LIMIT: u64 = 64 << 20;

/// Text log of an agent's output, after a header that names the session.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    sanitizer: Sanitizer,
    pending: String,
    written: u64,
    /// Bytes of text that an earlier program has written already.
    skip: usize,
    last: Instant,
}

impl LogFile {
    /// Creates the file, readable by its owner only. Writes `header` between two `---` lines, and behind it `setup`, the text
    /// of what ran before the agent.
    pub(crate) fn create(path: &Path, header: &[(&str, String)], setup: &str) -> Result<Self> {
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
        let setup = present(setup);
        if !setup.is_empty() {
            // `resume` counts the agent's output alone.
            pending.push_str(&format!("{SETUP}{}\n", setup.len()));
        }
        pending.push_str("---\n");
        pending.push_str(&setup);
        file.write_all(pending.as_bytes()).map_err(failed)?;
        let written = pending.len() as u64;
        pending.clear();
        let (path, last) = (path.to_path_buf(), Instant::now());
        Ok(Self { path, sanitizer: Sanitizer::default(), pending, written, skip: 0, last })
    }

    /// Continues the file of an earlier program, given the same output from its beginning.
    pub(crate) fn resume(path: &Path) -> Result<Self> {
        let failed = |e| Error::io("continuing a session log", e).with_path(path);
        let missing = || Error::new(ErrorKind::NotFound, "the session log is gone").with_path(path);
        let mut head = Vec::new();
        let file = open_untrusted(path)?.ok_or_else(missing)?;
        let length = file.metadata().map_err(failed)?.len();
        file.take(HEADER).read_to_end(&mut head).map_err(failed)?;
        let end = head.windows(5).position(|bytes| bytes == b"\n---\n").map_or(0, |at| at + 5);
        let header = String::from_utf8_lossy(&head[..end]);
        let setup = header.lines().find_map(|line| line.strip_prefix(SETUP)?.parse::<usize>().ok());
        let end = end.saturating_add(setup.unwrap_or(0));
        let skip = usize::try_from(length.saturating_sub(end as u64)).unwrap_or(usize::MAX);
        let (path, last) = (path.to_path_buf(), Instant::now());
        let pending = String::new();
        Ok(Self { path, sanitizer: Sanitizer::default(), pending, written: end as u64, skip, last })
    }

    /// Notes that output is missing. Its lines may be written twice then, which is better than never.
    pub(crate) fn gap(&mut self) {
        self.skip = 0;
    }

    /// Appends output, and writes it once enough is gathered.
    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        if self.written > LIMIT {
            return;
        }
        self.sanitizer.feed(bytes, &mut self.pending);
        if self.skip > 0 {
            let mut known = self.skip.min(self.pending.len());
            while !self.pending.is_char_boundary(known) {
                known -= 1;
            }
            self.written += known as u64;
            self.pending.drain(..known);
            // Of a character that was cut in the middle, the whole stands behind its half.
            self.skip = if self.pending.is_empty() { self.skip - known } else { 0 };
        }
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
        let mut log = LogFile::create(&path, &header, "").unwrap();
        log.push(b"\x1b[31mhel").await;
        log.push(b"lo\x1b[0m\r\nworld").await;
        log.finish().await;
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "---\ntask_number: 1\nagent: a b\n---\nhello\nworld\n");
        assert!(LogFile::create(&path, &[], "").is_err(), "a log is never overwritten");
    }

    #[tokio::test]
    async fn a_log_goes_on_where_a_killed_program_left_it() {
        let temp = tempfile::tempdir().unwrap();
        let output = "one\r\n\x1b[31mtwö\x1b[0m three\r\nfour";
        let header = [("agent", "a".to_owned())];
        let whole = temp.path().join("whole.log");
        let mut log = LogFile::create(&whole, &header, "setup: x\ny\n").unwrap();
        log.push(output.as_bytes()).await;
        log.finish().await;
        let whole = std::fs::read(&whole).unwrap();
        for cut in 0..output.len() {
            for chunk in [1, 5, 100] {
                let path = temp.path().join(format!("{cut}-{chunk}.log"));
                let mut killed = LogFile::create(&path, &header, "setup: x\ny\n").unwrap();
                killed.push(&output.as_bytes()[..cut]).await;
                killed.write().await;
                drop(killed);
                let mut next = LogFile::resume(&path).unwrap();
                for bytes in output.as_bytes().chunks(chunk) {
                    next.push(bytes).await;
                }
                next.finish().await;
                assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}, in chunks of {chunk}");
            }
        }
        assert_eq!(LogFile::resume(&temp.path().join("none")).unwrap_err().code(), "not_found");
    }

    #[tokio::test]
    async fn a_full_log_says_so_whichever_write_fills_it() {
        for is_idle in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("0001-1.log");
            let mut log = LogFile::create(&path, &[], "").unwrap();
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
