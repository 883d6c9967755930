//! Recordings in the format of asciinema.
//!
//! Both versions: <https://docs.asciinema.org/manual/asciicast/v2/> and
//! <https://docs.asciinema.org/manual/asciicast/v3/>.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::reader::{Recorded, Recording};
use crate::model::Timestamp;
use crate::terminal::Size;
use crate::{Error, Result};

/// Version of the asciicast format.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum AsciicastVersion {
    /// Understood by asciinema 2.0 and later, and by most players.
    #[default]
    V2,
    /// Understood by asciinema 3.0 and later.
    V3,
}

impl Recording {
    /// Writes the recording of a terminal, as far as it goes now, as an asciicast.
    ///
    /// # Errors
    /// I/O errors and of `out`.
    pub fn write_asciicast(&self, version: AsciicastVersion, title: &str, out: impl Write) -> Result<()> {
        let mut cast = Asciicast::new(version, title, out);
        self.read().try_for_each(|part| cast.write(&part?))?;
        cast.finish()
    }
}

/// Writer of an asciicast, which asciinema plays. Invalid UTF-8 is replaced, as the format requires. Missing output becomes
/// a marker that says how much there was.
#[derive(Debug)]
pub struct Asciicast<W> {
    version: AsciicastVersion,
    title: String,
    out: W,
    /// Time of the first event in milliseconds since 1970, once the header is written.
    began: Option<i64>,
    /// Time of the last event, in milliseconds after the first.
    last: i64,
    /// A character that is not complete yet.
    partial: Vec<u8>,
}

impl<W: Write> Asciicast<W> {
    /// Returns a writer of a cast with this title. Nothing is written yet.
    pub fn new(version: AsciicastVersion, title: &str, out: W) -> Self {
        Self { version, title: title.to_owned(), out, began: None, last: 0, partial: Vec::new() }
    }

    /// Writes a part of a recording, and flushes.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&mut self, part: &Recorded) -> Result<()> {
        let written = match part {
            Recorded::Resize { at, size } => self.resize(at, *size),
            Recorded::Output { at, bytes, .. } => self.output(at, bytes),
            Recorded::Missing { length, .. } => self.missing(*length),
            Recorded::End { at, code } => self.end(at, *code),
        };
        written.and_then(|()| self.out.flush()).map_err(failed)
    }

    /// Ends the cast. One without any output still becomes a valid file.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(mut self) -> Result<()> {
        let header = self.begin(&Timestamp::from_unix_millis(0), Size::default());
        header.and_then(|()| self.out.flush()).map_err(failed)
    }

    fn resize(&mut self, at: &Timestamp, size: Size) -> io::Result<()> {
        if self.began.is_none() {
            return self.begin(at, size);
        }
        self.event(at, "r", &format!("{}x{}", size.cols(), size.rows()))
    }

    fn output(&mut self, at: &Timestamp, bytes: &[u8]) -> io::Result<()> {
        self.begin(at, Size::default())?;
        self.partial.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.partial);
        let mut text = String::new();
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_cut = str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            match chunk.invalid() {
                [] => {}
                // The rest of this character comes with the next output.
                cut if is_cut && chunks.peek().is_none() => self.partial = cut.to_vec(),
                _ => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        if text.is_empty() { Ok(()) } else { self.event(at, "o", &text) }
    }

    /// Marks a gap. Before the header there is nothing to mark: the cast begins later.
    fn missing(&mut self, length: u64) -> io::Result<()> {
        self.partial.clear();
        let Some(began) = self.began else { return Ok(()) };
        let at = Timestamp::from_unix_millis(began + self.last);
        self.event(&at, "m", &format!("{length} bytes of output are missing"))
    }

    /// Version 2 has no event for the end.
    fn end(&mut self, at: &Timestamp, code: Option<i32>) -> io::Result<()> {
        match code.filter(|_| self.version == AsciicastVersion::V3) {
            Some(code) => {
                self.begin(at, Size::default()).and_then(|()| self.event(at, "x", &code.to_string()))
            }
            None => Ok(()),
        }
    }

    /// Writes the header, unless it is written.
    fn begin(&mut self, at: &Timestamp, size: Size) -> io::Result<()> {
        if self.began.is_some() {
            return Ok(());
        }
        self.began = Some(at.unix_millis());
        let title = &self.title;
        let (cols, rows) = (size.cols(), size.rows());
        let timestamp = at.unix_millis() / 1000;
        let header = match self.version {
            AsciicastVersion::V2 => json!({
                "version": 2, "width": cols, "height": rows, "timestamp": timestamp, "title": title,
                "env": { "TERM": "xterm-256color" },
            }),
            AsciicastVersion::V3 => json!({
                "version": 3, "term": { "cols": cols, "rows": rows, "type": "xterm-256color" },
                "timestamp": timestamp, "title": title,
            }),
        };
        writeln!(self.out, "{header}")
    }

    fn event(&mut self, at: &Timestamp, code: &str, data: &str) -> io::Result<()> {
        let now = self.began.map_or(0, |began| at.unix_millis() - began).max(self.last);
        // Version 2 counts from the beginning, version 3 from the event before.
        let shown = match self.version {
            AsciicastVersion::V2 => now,
            AsciicastVersion::V3 => now - self.last,
        };
        self.last = now;
        writeln!(self.out, "{}", Value::from(vec![json!(shown as f64 / 1000.0), json!(code), json!(data)]))
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("writing an asciicast", error)
}
