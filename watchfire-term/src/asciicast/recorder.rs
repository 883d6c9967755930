//! Writing.

use std::io::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};
use watchfire_core::terminal::Size;

use super::{CastError, Header, Version};

/// Writes a recording, line by line.
///
/// Each line is written at once, so that a recording that breaks off is valid up to there. Times that go back count
/// as no time passed. Bytes that are not UTF-8 become U+FFFD, for the format has no other way; characters that
/// two writes share are put together.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    writer: W,
    version: Version,
    input: bool,
    last: Duration,
    /// The start of a character that is not whole yet, of output and of input.
    rest: [Vec<u8>; 2],
}

impl<W: Write> Recorder<W> {
    /// Begins a recording.
    ///
    /// # Errors
    ///
    /// If the header cannot be written.
    pub fn new(mut writer: W, header: &Header) -> Result<Self, CastError> {
        let mut fields = Map::new();
        match header.version {
            Version::V2 => {
                fields.insert("version".into(), json!(2));
                fields.insert("width".into(), json!(header.size.cols()));
                fields.insert("height".into(), json!(header.size.rows()));
            }
            Version::V3 => {
                let mut term = json!({ "cols": header.size.cols(), "rows": header.size.rows() });
                if let (Some(kind), Some(term)) = (&header.term, term.as_object_mut()) {
                    term.insert("type".into(), json!(kind));
                }
                fields.insert("version".into(), json!(3));
                fields.insert("term".into(), term);
            }
        }
        for (key, value) in [
            ("timestamp", header.timestamp.map(|seconds| json!(seconds))),
            ("title", header.title.as_ref().map(|title| json!(title))),
            ("command", header.command.as_ref().map(|command| json!(command))),
            ("idle_time_limit", header.idle_time_limit.map(|limit| json!(limit.as_secs_f64()))),
            (
                "env",
                header
                    .term
                    .as_ref()
                    .filter(|_| header.version == Version::V2)
                    .map(|term| json!({ "TERM": term })),
            ),
        ] {
            fields.extend(value.map(|value| (key.to_owned(), value)));
        }
        writeln!(writer, "{}", Value::Object(fields))?;
        Ok(Self {
            writer,
            version: header.version,
            input: false,
            last: Duration::ZERO,
            rest: Default::default(),
        })
    }

    /// Records input too. It is off by default, for people type secrets.
    #[must_use]
    pub fn with_input(mut self, on: bool) -> Self {
        self.input = on;
        self
    }

    /// Records that the program wrote `bytes`, `at` this time since the start.
    ///
    /// # Errors
    ///
    /// If the line cannot be written.
    pub fn output(&mut self, at: Duration, bytes: &[u8]) -> Result<(), CastError> {
        self.text(at, 'o', 0, bytes)
    }

    /// Records that the user typed `bytes`; dropped unless [`with_input`](Self::with_input) is on.
    ///
    /// # Errors
    ///
    /// If the line cannot be written.
    pub fn input(&mut self, at: Duration, bytes: &[u8]) -> Result<(), CastError> {
        if self.input { self.text(at, 'i', 1, bytes) } else { Ok(()) }
    }

    /// Records another size of the screen.
    ///
    /// # Errors
    ///
    /// If the line cannot be written.
    pub fn resize(&mut self, at: Duration, size: Size) -> Result<(), CastError> {
        self.line(at, 'r', &format!("{}x{}", size.cols(), size.rows()))
    }

    /// Records a mark that a player can jump to.
    ///
    /// # Errors
    ///
    /// If the line cannot be written.
    pub fn marker(&mut self, at: Duration, label: &str) -> Result<(), CastError> {
        self.line(at, 'm', label)
    }

    /// Records the end of the program. Version 2 has no event for it.
    ///
    /// # Errors
    ///
    /// If the line cannot be written.
    pub fn exit(&mut self, at: Duration, status: i32) -> Result<(), CastError> {
        if self.version == Version::V3 { self.line(at, 'x', &status.to_string()) } else { Ok(()) }
    }

    /// Writes the output held back, flushes, and returns the writer.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, CastError> {
        for (code, rest) in ['o', 'i'].into_iter().zip(std::mem::take(&mut self.rest)) {
            // The rest of the character will not come any more.
            if !rest.is_empty() {
                self.line(self.last, code, "\u{fffd}")?;
            }
        }
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn text(&mut self, at: Duration, code: char, stream: usize, bytes: &[u8]) -> Result<(), CastError> {
        let Some(rest) = self.rest.get_mut(stream) else { return Ok(()) };
        let mut joined = std::mem::take(rest);
        joined.extend_from_slice(bytes);
        let mut text = String::with_capacity(joined.len());
        let mut chunks = joined.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            // A character that the bytes end in may go on in the next ones. Any other part that is no UTF-8 never
            // becomes any.
            let incomplete = str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if incomplete && chunks.peek().is_none() {
                *rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if text.is_empty() { Ok(()) } else { self.line(at, code, &text) }
    }

    fn line(&mut self, at: Duration, code: char, data: &str) -> Result<(), CastError> {
        // A player waits for the difference to the event before, which cannot be negative.
        let at = at.max(self.last);
        let time = match self.version {
            Version::V2 => at,
            Version::V3 => at - self.last,
        };
        // The remainder must not be lost where times are differences.
        let micros = time.as_micros();
        self.last = match self.version {
            Version::V2 => at,
            Version::V3 => self.last + Duration::from_micros(micros.try_into().unwrap_or(u64::MAX)),
        };
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        writeln!(self.writer, "[{seconds}.{micros:06}, \"{code}\", {}]", json!(data))?;
        Ok(())
    }
}
