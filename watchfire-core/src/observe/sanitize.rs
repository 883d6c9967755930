//! Sanitising: from the bytes that an agent sends to its terminal to text that is safe to show.

use crate::prompt::escape::is_hidden;

/// Maximum length of a control string (a title, an image). What follows is taken for text again, so that a string
/// without its terminator does not swallow the rest of a session.
const LONGEST_STRING: usize = 1 << 20;

/// Stands for the end of a line that the cursor left without a line feed.
const MOVED: char = '\u{b}';

/// Turns terminal output into text: drops escape sequences, keeps text, and replaces cursor movement by white space.
///
/// The text does not depend on how the stream was split into chunks, since incomplete sequences are held back. It
/// contains no control characters but tab, line feed, carriage return, backspace and [`MOVED`]; [`present`] resolves the
/// last three.
#[derive(Debug, Default)]
pub(crate) struct Sanitizer {
    state: ParseState,
    /// Start of a character whose remaining bytes have not arrived.
    partial: Vec<u8>,
    /// Set after a carriage return that may be part of a line ending.
    carriage_return: bool,
    line_started: bool,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum ParseState {
    #[default]
    Ground,
    Escape,
    /// After `ESC` and an intermediate byte: one final byte ends the sequence.
    Designate,
    /// In a `CSI` sequence. `first` is true until the first parameter ends.
    Csi {
        parameter: u16,
        first: bool,
        private: bool,
    },
    /// In a control string. `line` is true if a line feed ends it.
    Text {
        length: usize,
        line: bool,
    },
    /// After `ESC` in a control string: `\` ends the string, anything else begins a new sequence.
    TextEscape,
}

impl Sanitizer {
    /// Returns true if the next byte cannot belong to a sequence or character that has begun.
    pub(super) fn at_boundary(&self) -> bool {
        self.state == ParseState::Ground && self.partial.is_empty()
    }

    /// Takes the next bytes and appends the text that they add.
    pub(crate) fn feed(&mut self, bytes: &[u8], text: &mut String) {
        self.feed_counting(bytes, text);
    }

    /// Ends the stream: appends the text held back and resets the state.
    pub(crate) fn finish(&mut self, text: &mut String) {
        // A character without its end is shown as damaged, not dropped.
        if !std::mem::take(&mut self.partial).is_empty() {
            self.character(char::REPLACEMENT_CHARACTER, text);
        }
        *self = Self::default();
    }

    /// Takes the next bytes like [`feed`](Self::feed), and returns the number of leading bytes that complete something
    /// begun before them.
    pub(super) fn feed_counting(&mut self, bytes: &[u8], text: &mut String) -> usize {
        let mut lead = if self.at_boundary() { Some(0) } else { None };
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            // Nearly all output is runs of such text, which is many times faster than character by character.
            let run = if self.at_boundary() { plain(&bytes[at..]) } else { "" };
            if !run.is_empty() {
                self.begin_text(text);
                text.push_str(run);
                at += run.len();
                continue;
            }
            self.byte(*byte, text);
            at += 1;
            // Only the first boundary counts: what begins after it belongs to these bytes.
            if lead.is_none() && self.at_boundary() {
                lead = Some(at);
            }
        }
        lead.unwrap_or(bytes.len())
    }

    fn byte(&mut self, byte: u8, text: &mut String) {
        // Almost all output is ASCII and takes this way.
        if self.partial.is_empty() && byte.is_ascii() {
            return self.character(char::from(byte), text);
        }
        if byte.is_ascii() || byte >= 0xc0 {
            // The character that had begun is not continued.
            if !std::mem::take(&mut self.partial).is_empty() {
                self.character(char::REPLACEMENT_CHARACTER, text);
            }
            if byte.is_ascii() {
                return self.character(char::from(byte), text);
            }
        }
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(whole) => {
                let c = whole.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
                self.partial.clear();
                self.character(c, text);
            }
            Err(error) if error.error_len().is_some() => {
                // Continuation bytes without a lead byte, or an encoding that no character has.
                let first = std::mem::take(&mut self.partial);
                // A lone byte of this range is an 8-bit control character (C1), not text.
                let c = match first.as_slice() {
                    [control @ 0x80..=0x9f] => char::from(*control),
                    _ => char::REPLACEMENT_CHARACTER,
                };
                self.character(c, text);
            }
            Err(_) => {}
        }
    }

    fn character(&mut self, c: char, text: &mut String) {
        // The order of the arms matters: what ends a control string comes before what any character does.
        match (&mut self.state, c) {
            (ParseState::Text { .. }, '\x1b') => self.state = ParseState::TextEscape,
            (ParseState::TextEscape, '\\') => self.state = ParseState::Ground,
            (ParseState::TextEscape, _) => {
                self.state = ParseState::Escape;
                self.character(c, text);
            }
            // CAN and SUB abort any sequence, in every state.
            (_, '\x18' | '\x1a') | (ParseState::Text { .. }, '\u{7}' | '\u{9c}') => {
                self.state = ParseState::Ground
            }
            // Programs forget to end titles. A title has one line, so its end is a safe place to recover.
            (ParseState::Text { line: true, .. }, '\n') => {
                self.state = ParseState::Ground;
                self.print(c, text);
            }
            (ParseState::Text { length, .. }, _) => {
                *length += c.len_utf8();
                // Also the protection against a program that is killed inside a string.
                if *length > LONGEST_STRING {
                    self.state = ParseState::Ground;
                }
            }
            (_, '\x1b') => self.state = ParseState::Escape,
            // The 8-bit forms of CSI, OSC and the other control strings.
            (_, '\u{9b}') => self.state = ParseState::Csi { parameter: 0, first: true, private: false },
            (_, '\u{9d}') => self.state = ParseState::Text { length: 0, line: true },
            (_, '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}') => {
                self.state = ParseState::Text { length: 0, line: false };
            }
            // Also inside a sequence, as terminals act on such a character at once and then go on with the
            // sequence.
            (_, c) if c.is_control() => self.print(c, text),
            (ParseState::Ground, c) => self.print(c, text),
            (ParseState::Escape, c) => self.escape(c, text),
            (ParseState::Designate, c) => {
                // Further intermediate bytes; the final one ends the sequence.
                if !matches!(c, ' '..='/') {
                    self.state = ParseState::Ground;
                }
            }
            (ParseState::Csi { parameter, first, private }, c) => match c {
                // Only the first parameter matters for movement.
                '0'..='9' if *first => {
                    let digit = c.to_digit(10).and_then(|digit| u16::try_from(digit).ok()).unwrap_or(0);
                    *parameter = parameter.saturating_mul(10).saturating_add(digit);
                }
                '?' => *private = true,
                ' '..='?' => *first = false,
                _ => {
                    let (parameter, private) = (*parameter, *private);
                    self.state = ParseState::Ground;
                    self.movement(c, parameter, private, text);
                }
            },
        }
    }

    fn escape(&mut self, c: char, text: &mut String) {
        self.state = match c {
            '[' => ParseState::Csi { parameter: 0, first: true, private: false },
            ']' => ParseState::Text { length: 0, line: true },
            'P' | 'X' | '^' | '_' => ParseState::Text { length: 0, line: false },
            ' '..='/' => ParseState::Designate,
            // IND, NEL and RI move to another line.
            'D' | 'E' | 'M' => {
                self.new_line(text);
                ParseState::Ground
            }
            _ => ParseState::Ground,
        };
    }

    /// Replaces a `CSI` sequence by white space if it moves the cursor.
    fn movement(&mut self, c: char, parameter: u16, private: bool, text: &mut String) {
        match c {
            // Bounded: ten bytes of input must not become 64 KiB of spaces.
            'C' => (0..parameter.clamp(1, 500)).for_each(|_| self.print(' ', text)),
            // Column 1 starts the line over, like a carriage return.
            'G' if parameter <= 1 => self.print('\r', text),
            'G' => self.print(' ', text),
            // These leave the line. Where to is unknown without a grid, so the text goes on in a new line.
            'A' | 'B' | 'E' | 'F' | 'H' | 'J' | 'd' | 'f' => self.new_line(text),
            // Entering or leaving the alternate screen starts elsewhere.
            'h' | 'l' if private && parameter == 1049 => self.new_line(text),
            _ => {}
        }
    }

    /// Ends the line after the cursor moved to another one.
    fn new_line(&mut self, text: &mut String) {
        // A carriage return held back has no effect any more: the cursor has left the line.
        self.carriage_return = false;
        if std::mem::take(&mut self.line_started) {
            text.push(MOVED);
        }
    }

    fn print(&mut self, c: char, text: &mut String) {
        let c = match c {
            '\u{b}' | '\u{c}' | '\u{85}' => '\n',
            c => c,
        };
        // Held back until the next character shows which of the two it is.
        if c == '\r' {
            self.carriage_return = true;
            return;
        }
        let visible = matches!(c, '\n' | '\t' | '\u{8}') || !is_hidden(c);
        if !visible {
            return;
        }
        if c == '\n' {
            // A carriage return before it is a part of the line's end.
            (self.carriage_return, self.line_started) = (false, false);
        } else {
            self.begin_text(text);
        }
        text.push(c);
    }

    /// Before text, a carriage return that was held back starts the line over.
    fn begin_text(&mut self, text: &mut String) {
        if std::mem::take(&mut self.carriage_return) && self.line_started {
            text.push('\r');
        }
        self.line_started = true;
    }
}

/// Returns the printable ASCII at the start of `bytes`.
fn plain(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or_default()
}

/// Returns sanitised text as a person would see it: overwritten text is dropped, backspaces are applied, and a line that
/// was repainted in place (a spinner, a progress bar) appears once.
#[must_use]
pub fn present(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before: Option<&str> = None;
    for line in text.split_inclusive(['\n', MOVED]) {
        let content = line.strip_suffix(['\n', MOVED]).unwrap_or(line);
        // Only the last painting of a line is visible.
        let painted = content.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
        // A spinner paints the same line again and again by moving the cursor back to it.
        if before.replace(painted) == Some(painted) && line.ends_with(MOVED) {
            continue;
        }
        let start = shown.len();
        for c in painted.chars() {
            if c != '\u{8}' {
                shown.push(c);
            // A backspace stops at the beginning of its line.
            } else if shown.len() > start {
                shown.pop();
            }
        }
        if content.len() < line.len() {
            shown.push('\n');
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strip(chunks: &[&[u8]]) -> String {
        let (mut sanitizer, mut text) = (Sanitizer::default(), String::new());
        chunks.iter().for_each(|chunk| sanitizer.feed(chunk, &mut text));
        sanitizer.finish(&mut text);
        text
    }

    #[test]
    fn terminal_output_becomes_text() {
        let table: &[(&str, &str)] = &[
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[2J\x1b[Hanswer\x1b[K", "answer"),
            ("\x1b]0;Wardian\x07ready", "ready"),
            ("\x1b]2;t\x1b\\ready", "ready"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("loading 10%\rloading 100%\r\n", "loading 100%\n"),
            ("line1\n", "line1\n"),
            ("abc\x08\x08de", "ade"),
            ("x\x07y\0z", "xyz"),
            ("a\x1b[2Cb", "a  b"),
            ("foo\x1b[1Abar", "foo\nbar"),
            ("\x1bPq#0;2;0\x1b\\after", "after"),
            ("\x1b_Gf=100;AAAA\x1b\\after", "after"),
            ("\x1b^pm\x1b\\\x1bXsos\x1b\\after", "after"),
            ("\u{9b}31mred\u{9d}t\u{9c}\u{90}q\u{9c}!", "red!"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]0;never ends\nafter", "\nafter"),
            ("\x1b]0;never ends\x18after", "after"),
            ("\x1b]0;never\x1b[31mafter", "after"),
            ("\x1b[38;2;1;2;3mtrue\x1b[m", "true"),
            ("\x1b[?2004hhi\x1b[?2004l", "hi"),
            ("\x1b(Bok\x1b=ok\x1b>\x1b7save\x1b8", "okoksave"),
            ("\x1b#8ok\x1b%Gok\x1b Fok", "okokok"),
            ("a\x1b[31\nm rest", "a\n rest"),
            ("ZW\u{200b}SP \u{202e}bidi", "ZWSP bidi"),
            ("a\tb", "a\tb"),
            ("}\n}\n\n\n", "}\n}\n\n\n"),
            ("⠋ work\x1b[1;1H⠋ work\x1b[1;1H⠋ work\x1b[1;1Hdone\n", "⠋ work\ndone\n"),
            ("end\x1b[1;31", "end"),
        ];
        for (input, expected) in table {
            assert_eq!(present(&strip(&[input.as_bytes()])), *expected, "{input:?}");
        }
        assert_eq!(strip(&[b"\x9b31mred \xff\xe2\x96 x"]), "red \u{fffd}\u{fffd} x");
        assert_eq!(strip(&[b"\xe2\x96"]), "\u{fffd}");
    }

    #[test]
    fn an_endless_string_does_not_swallow_everything() {
        let mut input = b"\x1bP".to_vec();
        input.extend(std::iter::repeat_n(b'x', LONGEST_STRING + 1));
        input.extend_from_slice(b"after");
        assert_eq!(strip(&[&input]), "after");
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(
            input in prop::collection::vec(prop_oneof![
                any::<u8>(), Just(0x1b), Just(b'['), Just(b']'), Just(b'm'), Just(b'\r'), Just(b'\n'), Just(0xe2), Just(0x96)
            ], 0..200),
            size in 1_usize..20,
        ) {
            let whole = strip(&[&input]);
            prop_assert_eq!(&whole, &strip(&input.chunks(size).collect::<Vec<_>>()));
            prop_assert!(!whole.contains('\x1b'));
            prop_assert!(present(&whole).len() <= whole.len());
        }
    }
}
