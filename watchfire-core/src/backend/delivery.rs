//! How text is typed into an agent.

use std::time::Duration;

/// The way text is typed into an agent: framing, delays, and keys. Values for an agent are measured, not guessed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Delivery {
    /// Framing of the text.
    pub framing: Framing,
    /// Delay between text and submit key. A key that arrives while the program still handles the paste is taken for
    /// part of it and breaks the line instead.
    pub settle: Duration,
    /// Delay for text of several lines.
    pub settle_multiline: Duration,
    /// Key that submits the text.
    pub submit: SubmitKeys,
    /// Keys that stop a running turn; empty if none do.
    pub interrupt: Vec<u8>,
    /// Keys that ask the program to end; empty if none do.
    pub quit: Vec<u8>,
}

impl Default for Delivery {
    /// Bracketed paste, a delay of 300 ms (800 ms for several lines), carriage return; Ctrl-C interrupts.
    fn default() -> Self {
        Self {
            framing: Framing::BracketedPaste,
            settle: Duration::from_millis(300),
            settle_multiline: Duration::from_millis(800),
            submit: SubmitKeys::CarriageReturn,
            interrupt: vec![3],
            quit: Vec::new(),
        }
    }
}

impl Delivery {
    /// Returns the delivery for line-based programs: a plain line and a carriage return, without delay.
    #[must_use]
    pub fn line() -> Self {
        Self {
            framing: Framing::Line,
            settle: Duration::ZERO,
            settle_multiline: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Sets the framing.
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Sets both settle delays.
    #[must_use]
    pub fn with_settle(mut self, one_line: Duration, several_lines: Duration) -> Self {
        (self.settle, self.settle_multiline) = (one_line, several_lines);
        self
    }

    /// Sets the submit key.
    #[must_use]
    pub fn with_submit(mut self, submit: SubmitKeys) -> Self {
        self.submit = submit;
        self
    }

    /// Sets the keys that stop a running turn.
    #[must_use]
    pub fn with_interrupt(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.interrupt = keys.into();
        self
    }

    /// Sets the keys that ask the program to end.
    #[must_use]
    pub fn with_quit(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.quit = keys.into();
        self
    }

    /// Returns `text` as it is typed: line ends become LF, outer blank lines are removed, and control characters other
    /// than tab and newline are dropped.
    #[must_use]
    pub(crate) fn clean(text: &str) -> String {
        // An escape character in the text could end the paste, and what follows would be keys that the agent obeys.
        let unix = text.replace("\r\n", "\n").replace('\r', "\n");
        let clean: String = unix.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        // Leading spaces stay: without them, a line that begins with a slash would become a command.
        clean.trim_matches('\n').trim_end().to_owned()
    }

    /// Returns the bytes to write before the submit key: `text` without control characters, framed. Empty if no text is
    /// left.
    #[must_use]
    pub fn frame(&self, text: &str) -> Vec<u8> {
        let clean = Self::clean(text);
        if clean.is_empty() {
            return Vec::new();
        }
        let paste = match self.framing {
            Framing::BracketedPaste => true,
            Framing::Literal | Framing::Line => false,
            Framing::PasteFrom(bytes) => clean.contains('\n') || clean.len() >= bytes,
        };
        if paste { [b"\x1b[200~", clean.as_bytes(), b"\x1b[201~"].concat() } else { clean.into_bytes() }
    }

    /// Returns the delay between `text` and the submit key.
    #[must_use]
    pub fn settle_for(&self, text: &str) -> Duration {
        // Trimmed like the typed text: outer line ends are not typed, so they do not count.
        if text.trim().contains(['\n', '\r']) { self.settle_multiline } else { self.settle }
    }
}

/// Framing of typed text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Framing {
    /// Always between paste marks.
    BracketedPaste,
    /// Without marks, one line at a time: each line end submits. Text of several lines goes by file.
    Line,
    /// Without marks: line ends are typed as LF, which breaks the line in the input box.
    Literal,
    /// Between paste marks if the text has several lines or at least this many bytes.
    PasteFrom(usize),
}

/// The key that submits typed text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SubmitKeys {
    /// Carriage return.
    CarriageReturn,
    /// The Enter key in the encoding of kitty's keyboard protocol.
    KittyEnter,
}

impl SubmitKeys {
    /// Returns the bytes to write.
    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::CarriageReturn => b"\r",
            Self::KittyEnter => b"\x1b[13u",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_own_paste() {
        let framed = Delivery::default().frame("a\r\nb\x1b[201~\rrm -rf\x03\tx\n\n");
        assert_eq!(framed, b"\x1b[200~a\nb[201~\nrm -rf\tx\x1b[201~");
        assert_eq!(Delivery::default().frame(" \r\n\x1b"), b"");
    }

    #[test]
    fn leading_space_and_slash_stay() {
        assert_eq!(Delivery::line().frame("\n  /help \n"), b"  /help");
        let from = Delivery::line().with_framing(Framing::PasteFrom(4));
        assert_eq!(from.frame("abc"), b"abc");
        assert_eq!(from.frame("abcd"), b"\x1b[200~abcd\x1b[201~");
    }
}
