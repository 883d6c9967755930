//! Separates escape sequences from text, one character at a time.

/// Position of a stream of characters with regard to escape sequences.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Escapes {
    /// Outside of sequences.
    #[default]
    Text,
    /// After ESC and any intermediate characters.
    Escape,
    /// In a control sequence (CSI).
    Csi,
    /// In a string (OSC, DCS and others), up to its terminator.
    String,
}

impl Escapes {
    /// Consumes the next character and returns it if it is text or a control that acts within a sequence.
    pub(crate) fn pass(&mut self, c: char) -> Option<char> {
        let (next, shown) = match (*self, c) {
            // ESC ends any sequence and begins another; CAN and SUB end one.
            (_, '\x1b') => (Self::Escape, None),
            (_, '\x18' | '\x1a') => (Self::Text, None),
            (_, '\u{9b}') => (Self::Csi, None),
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => (Self::String, None),
            // ST, which ends a string, and the other 8-bit controls, which end any sequence.
            (_, '\u{80}'..='\u{9f}') => (Self::Text, None),
            (Self::Text, c) => (Self::Text, Some(c)),
            (Self::String, '\x07') => (Self::Text, None),
            (Self::String, _) => (Self::String, None),
            // Controls within a sequence act at once, and the sequence goes on.
            (state, '\0'..'\x20') => (state, Some(c)),
            (Self::Escape, '[') => (Self::Csi, None),
            (Self::Escape, ']' | 'P' | 'X' | '^' | '_') => (Self::String, None),
            // Intermediate characters: the final one is still to come.
            (Self::Escape, '\x20'..='\x2f') => (Self::Escape, None),
            (Self::Escape, _) => (Self::Text, None),
            (Self::Csi, '\x40'..='\x7e') => (Self::Text, None),
            (Self::Csi, _) => (Self::Csi, None),
        };
        *self = next;
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_swallowed_and_text_is_not() {
        for (bytes, text) in [
            ("a\x1b[1;31mb\x1b[0mc", "abc"),
            ("a\x1b]0;t\x07b\x1b]2;t\x1b\\c\u{9d}t\u{9c}d", "abcd"),
            ("a\x1bPq#0;2\x1b\\b\x1b_G\x1b\\c\x1b^x\x1b\\d\x1bXy\x1b\\e", "abcde"),
            ("a\x1b(B\x1b#8\x1b%G\x1b=\x1b7b", "ab"),
            ("a\x1b[3\n1mb\x1b[3\x18c", "a\nbc"),
        ] {
            let mut state = Escapes::default();
            assert_eq!(bytes.chars().filter_map(|c| state.pass(c)).collect::<String>(), text, "{bytes:?}");
        }
    }
}
