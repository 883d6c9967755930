//! How text is typed into an agent.

use std::time::Duration;

/// How text is framed and submitted. Values per agent: `facts/agent-clis.md` section 4 measured them.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Delivery {
    /// How the text is framed.
    pub framing: Framing,
    /// How long the program gets to take the text in before the submit key.
    pub settle: Duration,
    /// The same for text of several lines.
    pub settle_multiline: Duration,
    /// What submits it.
    pub submit: SubmitKeys,
    /// What stops a running turn; empty: nothing does.
    pub interrupt: Vec<u8>,
    /// What asks the program to end; empty: nothing does.
    pub quit: Vec<u8>,
}

impl Default for Delivery {
    /// A bracketed paste, 300 ms (800 ms for several lines), carriage return; Ctrl-C interrupts.
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
    /// A plain line of text and a carriage return, at once: what line-based programs take.
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

    /// Sets what stops a running turn.
    #[must_use]
    pub fn with_interrupt(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.interrupt = keys.into();
        self
    }

    /// Sets what asks the program to end.
    #[must_use]
    pub fn with_quit(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.quit = keys.into();
        self
    }

    /// `text` as it arrives: line ends normalised to LF, outer blank lines removed, every control character but tab and
    /// newline dropped (so that nothing in the text can end a paste or press a key).
    #[must_use]
    pub fn clean(text: &str) -> String {
        let unix = text.replace("\r\n", "\n").replace('\r', "\n");
        let clean: String = unix.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        clean.trim_matches('\n').trim_end().to_owned()
    }

    /// The bytes of `text` as they are written before the submit key: [cleaned](Self::clean) and framed. Empty when
    /// nothing is left.
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

    /// How long to wait between `text` and the submit key.
    #[must_use]
    pub fn settle_for(&self, text: &str) -> Duration {
        if text.trim().contains(['\n', '\r']) { self.settle_multiline } else { self.settle }
    }
}

/// How text is framed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Framing {
    /// Always between paste marks.
    BracketedPaste,
    /// Never, and a line at a time: each line end submits. Text of several lines goes by file.
    Line,
    /// Never: line ends go as LF, which breaks the line in the box.
    Literal,
    /// Between paste marks when it has several lines or at least this many bytes.
    PasteFrom(usize),
}

/// What submits an input line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SubmitKeys {
    /// CR.
    CarriageReturn,
    /// The Enter key in kitty's encoding.
    KittyEnter,
}

impl SubmitKeys {
    /// The bytes to write.
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
