//! Prints the reports of commands, as text for people or as JSON.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use serde_json::Value;
use watchfire_tui::ascii;

use crate::fit::fitted;
use crate::style::Style;
use crate::terminal;

/// The reason for which something could not be printed.
static FAILED: OnceLock<String> = OnceLock::new();

/// Returns the reason for which something could not be printed, if anything could not.
pub(crate) fn failed() -> Option<&'static str> {
    FAILED.get().map(String::as_str)
}

/// Standard output: text for people, or JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) terminal: bool,
    pub(crate) style: Style,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { json, terminal, style: Style::new(terminal) }
    }

    /// Prints one line. A reader that has gone away (as with `| head`) is no error.
    pub(crate) fn line(self, text: impl AsRef<str>) {
        self.raw(&format!("{}\n", text.as_ref()));
    }

    /// Prints `text`. On a terminal its lines break at words.
    pub(crate) fn text(self, text: &str) {
        let columns = usize::from(terminal::size().cols());
        match self.terminal && !self.json {
            true => self.raw(&fitted(text, columns)),
            false => self.raw(text),
        }
    }

    /// Prints `text` without breaking its lines.
    pub(crate) fn raw(self, text: &str) {
        // JSON is for programs, whose locale is not that of a terminal.
        let text = if self.json { Cow::Borrowed(text) } else { ascii::shown(text) };
        Self::write(&text);
    }

    fn write(text: &str) {
        let mut stdout = std::io::stdout().lock();
        // `println!` would panic when the reader of a pipe is gone.
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            // The first one counts.
            let _ = FAILED.set(error.to_string());
        }
    }

    /// Prints a report: `value` with its schema number as JSON, or the result of `text`.
    pub(crate) fn report(self, mut value: Value, text: impl FnOnce(Self) -> String) {
        if !self.json {
            return self.text(&text(self));
        }
        if let Value::Object(fields) = &mut value {
            fields.insert("schema".to_owned(), 1.into());
        }
        self.line(value.to_string());
    }

    /// Prints a text for another program as it is; with `--json`, the value.
    pub(crate) fn verbatim(self, value: Value, text: &str) {
        if self.json { self.report(value, |_| String::new()) } else { Self::write(text) }
    }
}
