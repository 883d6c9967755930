//! Finds Watchfire's own keys in what a person types in a chat.

use std::time::{Duration, Instant};

/// Time within which a second Ctrl+C ends the chat. The first one goes to the agent, where it interrupts a turn or
/// clears the input: an everyday key must not end the conversation.
const TWICE: Duration = Duration::from_secs(1);

/// Ctrl+C as a byte, and in the kitty keyboard protocol.
const END: &[u8] = b"\x03";
const END_KITTY: &[u8] = b"\x1b[99;5u";
/// Ctrl+] in both forms.
const LITERAL: &[u8] = b"\x1d";
const LITERAL_KITTY: &[u8] = b"\x1b[93;5u";
/// The bytes around a paste. Everything between them is text.
const PASTE: &[u8] = b"\x1b[200~";
const PASTED: &[u8] = b"\x1b[201~";

/// Filter that takes our keys out of the typed bytes.
#[derive(Debug, Default)]
pub(super) struct Keys {
    literal: bool,
    pasting: bool,
    /// Time of a Ctrl+C after which nothing else was typed.
    interrupted: Option<Instant>,
}

/// Result of one read.
#[derive(Debug, PartialEq)]
pub(super) enum Key {
    /// Bytes for the agent.
    Through(Vec<u8>),
    /// The chat is to end.
    End,
}

impl Keys {
    /// Takes in the bytes of one read, at the time `now`.
    pub(super) fn take_in(&mut self, mut typed: &[u8], now: Instant) -> Key {
        let mut through = Vec::with_capacity(typed.len());
        while let Some((first, rest)) = typed.split_first() {
            let prefix =
                |keys: [&[u8]; 2]| keys.into_iter().find(|key| typed.starts_with(key)).map(<[u8]>::len);
            let mut passed = 1;
            // Any other key in between makes the next Ctrl+C a first one.
            let interrupted = self.interrupted.take();
            if self.pasting {
                // Ctrl+C inside of a paste is text, not a key.
                if typed.starts_with(PASTED) {
                    (self.pasting, passed) = (false, PASTED.len());
                }
            } else if self.literal {
                // A key goes through as one byte, or as all bytes of a long Ctrl+C or Ctrl+].
                self.literal = false;
                passed = prefix([END_KITTY, LITERAL_KITTY]).unwrap_or(1);
            } else if let Some(length) = prefix([END, END_KITTY]) {
                if interrupted.is_some_and(|at| now.saturating_duration_since(at) <= TWICE) {
                    return Key::End;
                }
                (self.interrupted, passed) = (Some(now), length);
            } else if let Some(length) = prefix([LITERAL, LITERAL_KITTY]) {
                self.literal = true;
                typed = typed.get(length..).unwrap_or_default();
                continue;
            } else if typed.starts_with(PASTE) {
                (self.pasting, passed) = (true, PASTE.len());
            }
            if passed == 1 {
                through.push(*first);
                typed = rest;
            } else {
                let (keys, tail) = typed.split_at_checked(passed).unwrap_or((typed, &[]));
                through.extend_from_slice(keys);
                typed = tail;
            }
        }
        Key::Through(through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(keys: &mut Keys, typed: &[u8]) -> Vec<u8> {
        match keys.take_in(typed, Instant::now()) {
            Key::Through(bytes) => bytes,
            Key::End => panic!("ended"),
        }
    }

    #[test]
    fn only_our_keys_are_taken_out() {
        let mut keys = Keys::default();
        assert_eq!(through(&mut keys, b"hi\r\x1b[A"), b"hi\r\x1b[A");
        assert_eq!(through(&mut keys, b"\x1d"), b"");
        assert_eq!(through(&mut keys, b"\x03a"), b"\x03a", "also in two reads");
        assert_eq!(through(&mut keys, b"\x1d\x1d"), b"\x1d");
        assert_eq!(through(&mut keys, b"\x1d\x1b[99;5ux"), b"\x1b[99;5ux");
        assert_eq!(through(&mut keys, b"\x1b[200~a\x03\x1db\x1b[201~c"), b"\x1b[200~a\x03\x1db\x1b[201~c");
    }

    #[test]
    fn ctrl_c_goes_through_and_twice_quickly_it_ends_the_chat() {
        let (mut keys, now) = (Keys::default(), Instant::now());
        let after = |millis| now + Duration::from_millis(millis);
        let sent = |bytes: &[u8]| Key::Through(bytes.to_vec());
        assert_eq!(keys.take_in(b"x\x03", now), sent(b"x\x03"));
        assert_eq!(keys.take_in(b"\x03", after(1_500)), sent(b"\x03"), "too late for a second one");
        assert_eq!(keys.take_in(b"a\x1b[99;5u", after(1_600)), sent(b"a\x1b[99;5u"), "something in between");
        assert_eq!(keys.take_in(b"\x03", after(1_700)), Key::End);
        let mut keys = Keys::default();
        assert_eq!(keys.take_in(b"\x03\x03", now), Key::End);
        let mut keys = Keys::default();
        assert_eq!(keys.take_in(b"\x03\x1d\x03", now), sent(b"\x03\x03"), "a literal one does not count");
    }
}
