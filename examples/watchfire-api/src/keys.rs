//! Watchfire's own keys among those that a person types into an agent's terminal.

use std::time::{Duration, Instant};

/// Time within which a second Ctrl+C ends the chat. The first one goes to the agent, where it interrupts a turn or
/// clears the input: an everyday key must not end the conversation.
const TWICE: Duration = Duration::from_secs(1);

/// The bytes around a paste. Everything between them is text.
const PASTE: &[u8; 6] = b"\x1b[200~";
const PASTED: &[u8; 6] = b"\x1b[201~";

/// Finds pastes in what is typed, also where their marks come in two reads.
#[derive(Debug, Default)]
struct Pastes {
    /// True inside of one.
    is_open: bool,
    last: [u8; PASTE.len()],
}

impl Pastes {
    fn see(&mut self, typed: &[u8]) {
        for byte in typed {
            self.last.rotate_left(1);
            self.last[PASTE.len() - 1] = *byte;
            self.is_open = if self.is_open { self.last != *PASTED } else { self.last == *PASTE };
        }
    }
}

/// A key of ours, held with Ctrl.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ctrl {
    /// `c` or `]`.
    key: char,
    /// Number of bytes.
    length: usize,
    /// True if the key was released, which only kitty's protocol reports.
    released: bool,
}

impl Ctrl {
    /// Reads Ctrl+C or Ctrl+] at the start of `typed`: as a byte, or in kitty's protocol, which the agent may have asked for.
    fn read(typed: &[u8]) -> Option<Self> {
        let short = |key| Some(Self { key, length: 1, released: false });
        match typed {
            [b'\x03', ..] => short('c'),
            [b'\x1d', ..] => short(']'),
            _ => Self::read_long(typed),
        }
    }

    /// Reads `CSI code:shifted:base ; modifiers:event u`, of which all but the code may be missing.
    fn read_long(typed: &[u8]) -> Option<Self> {
        /// Caps Lock and Num Lock, which are ignored.
        const LOCKS: u32 = 64 | 128;
        const CTRL: u32 = 4;
        let fields = typed.strip_prefix(b"\x1b[")?;
        let end = fields.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b':' | b';'))?;
        let (fields, rest) = fields.split_at(end);
        if !rest.starts_with(b"u") {
            return None;
        }
        let mut fields = std::str::from_utf8(fields).ok()?.split(';');
        // The key as the layout names it, or by its place on the base layout: the letters of others are not Latin.
        let codes = fields.next()?.split(':').filter_map(|code| char::from_u32(code.parse().ok()?));
        let key = codes.into_iter().find(|key| matches!(key, 'c' | ']'))?;
        let mut held = fields.next()?.split(':');
        let modifiers = held.next()?.parse::<u32>().ok()?.checked_sub(1)?;
        let released = held.next() == Some("3");
        (modifiers & !LOCKS == CTRL).then_some(Self { key, length: 2 + end + 1, released })
    }
}

/// Filter that takes our keys out of the typed bytes.
#[derive(Debug, Default)]
pub struct Keys {
    literal: bool,
    pastes: Pastes,
    /// Time of a Ctrl+C after which nothing else was typed.
    interrupted: Option<Instant>,
}

/// Result of one read.
#[derive(Debug, PartialEq)]
pub enum Key {
    /// Bytes for the agent.
    Through(Vec<u8>),
    /// The chat is to end.
    End,
}

impl Keys {
    /// Takes in the bytes of one read, at the time `now`.
    pub fn take_in(&mut self, mut typed: &[u8], now: Instant) -> Key {
        let mut through = Vec::with_capacity(typed.len());
        while !typed.is_empty() {
            let ours = Ctrl::read(typed);
            let mut passed = ours.map_or(1, |key| key.length);
            if self.pastes.is_open {
                // Ctrl+C inside of a paste is text, not a key.
                passed = 1;
            } else if let Some(key) = ours.filter(|key| key.released) {
                // It belongs to the key that was pressed before: the literal one has nothing of it.
                if key.key == ']' {
                    typed = &typed[passed..];
                    continue;
                }
            } else {
                // Any other key in between makes the next Ctrl+C a first one.
                let interrupted = self.interrupted.take();
                match ours.map(|key| key.key) {
                    // A key goes through as one byte, or as all bytes of a long Ctrl+C or Ctrl+].
                    _ if std::mem::take(&mut self.literal) => {}
                    Some('c') if interrupted.is_some_and(|at| now.saturating_duration_since(at) <= TWICE) => {
                        return Key::End;
                    }
                    Some('c') => self.interrupted = Some(now),
                    Some(_) => {
                        self.literal = true;
                        typed = &typed[passed..];
                        continue;
                    }
                    None => {}
                }
            }
            let (keys, tail) = typed.split_at(passed);
            self.pastes.see(keys);
            through.extend_from_slice(keys);
            typed = tail;
        }
        Key::Through(through)
    }
}

/// Looks for the key that detaches, Ctrl+].
#[derive(Debug, Default)]
pub struct Detaching(Pastes);

impl Detaching {
    /// Returns the bytes of one read that come before the key, or all. Inside of a paste everything is text.
    pub fn before<'a>(&mut self, typed: &'a [u8]) -> &'a [u8] {
        for at in 0..typed.len() {
            let key = Ctrl::read(&typed[at..]).filter(|_| !self.0.is_open);
            if key.is_some_and(|key| key.key == ']' && !key.released) {
                return &typed[..at];
            }
            self.0.see(&typed[at..=at]);
        }
        typed
    }

    /// Returns true inside of a paste.
    #[must_use]
    pub fn is_pasting(&self) -> bool {
        self.0.is_open
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
    fn our_keys_are_read_in_every_spelling() {
        let read = |typed: &[u8]| Ctrl::read(typed).map(|key| (key.key, key.length, key.released));
        assert_eq!(read(b"\x03x"), Some(('c', 1, false)));
        assert_eq!(read(b"\x1b[93;5ux"), Some((']', 7, false)));
        assert_eq!(read(b"\x1b[99;5:3u"), Some(('c', 9, true)));
        // With Num Lock; and of a Russian layout.
        assert_eq!(read(b"\x1b[99;133u"), Some(('c', 9, false)));
        assert_eq!(read(b"\x1b[1089::99;5u"), Some(('c', 13, false)));
        for other in
            [&b"\x1b[99u"[..], b"\x1b[99;6u", b"\x1b[99;5", b"\x1b[A", b"c", b"\x1b[;u", b"\x1b[99;0u", b""]
        {
            assert_eq!(read(other), None, "{other:?}");
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
    fn a_paste_may_come_in_parts() {
        let mut keys = Keys::default();
        for part in [&b"\x1b[2"[..], b"00~a\x03", b"\x03\x1d", b"\x1b[201", b"~"] {
            assert_eq!(through(&mut keys, part), part);
        }
        assert_eq!(through(&mut keys, b"\x1d"), b"", "a key of ours again");
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
        // An agent that wants to know of released keys has them between the two.
        let mut keys = Keys::default();
        assert_eq!(keys.take_in(b"\x1b[99;5u\x1b[99;5:3u", now), sent(b"\x1b[99;5u\x1b[99;5:3u"));
        assert_eq!(keys.take_in(b"\x1b[99;5u", now), Key::End);
    }

    #[test]
    fn the_key_that_detaches_counts_anywhere_but_in_a_paste() {
        let before = |typed: &[u8]| Detaching::default().before(typed).to_vec();
        assert_eq!(before(b"abc"), b"abc");
        assert_eq!(before(b"\x1d"), b"");
        assert_eq!(before(b"ab\x1dcd"), b"ab");
        assert_eq!(before(b"ab\x1b[93;5u"), b"ab");
        assert_eq!(before(b"ab\x1b[1098::93;5:1u"), b"ab");
        assert_eq!(before(b"\x1b[200~a\x1db\x1b[201~c\x1dd"), b"\x1b[200~a\x1db\x1b[201~c");
        // A paste may come in several reads.
        let mut keys = Detaching::default();
        assert_eq!(keys.before(b"\x1b[200~a"), b"\x1b[200~a");
        assert_eq!(keys.before(b"\x1d"), b"\x1d");
        assert_eq!(keys.before(b"\x1b[201~"), b"\x1b[201~");
        assert_eq!(keys.before(b"\x1d"), b"");
        // And so may its marks.
        let mut keys = Detaching::default();
        for part in [&b"\x1b[2"[..], b"00~", b"\x1d", b"\x1b[20", b"1~"] {
            assert_eq!(keys.before(part), part);
        }
        assert_eq!(keys.before(b"\x1d"), b"");
    }
}
