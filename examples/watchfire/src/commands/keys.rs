//! Which keys of a chat are ours.

/// Ctrl+C as a byte, and as the kitty keyboard protocol says it.
const END: &[u8] = b"\x03";
const END_KITTY: &[u8] = b"\x1b[99;5u";
/// Ctrl+], likewise.
const LITERAL: &[u8] = b"\x1d";
const LITERAL_KITTY: &[u8] = b"\x1b[93;5u";
/// What surrounds a paste. What lies between is text, whatever bytes it has.
const PASTE: &[u8] = b"\x1b[200~";
const PASTED: &[u8] = b"\x1b[201~";

/// Takes our keys out of what is typed.
#[derive(Debug, Default)]
pub(super) struct Keys {
    literal: bool,
    pasting: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Key {
    /// These go to the agent.
    Through(Vec<u8>),
    /// The chat ends.
    End,
}

impl Keys {
    /// Takes in what was read at once.
    pub(super) fn take_in(&mut self, mut typed: &[u8]) -> Key {
        let mut through = Vec::with_capacity(typed.len());
        while let Some((first, rest)) = typed.split_first() {
            let prefix =
                |keys: [&[u8]; 2]| keys.into_iter().find(|key| typed.starts_with(key)).map(<[u8]>::len);
            let mut passed = 1;
            if self.pasting {
                if typed.starts_with(PASTED) {
                    (self.pasting, passed) = (false, PASTED.len());
                }
            } else if self.literal {
                // The key that goes through is one byte, or all of a longer Ctrl+C.
                self.literal = false;
                passed = prefix([END_KITTY, LITERAL_KITTY]).unwrap_or(1);
            } else if prefix([END, END_KITTY]).is_some() {
                return Key::End;
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
        match keys.take_in(typed) {
            Key::Through(bytes) => bytes,
            Key::End => panic!("ended"),
        }
    }

    #[test]
    fn only_our_keys_are_taken_out() {
        let mut keys = Keys::default();
        assert_eq!(through(&mut keys, b"hi\r\x1b[A"), b"hi\r\x1b[A");
        assert_eq!(keys.take_in(b"x\x03"), Key::End);
        assert_eq!(keys.take_in(b"\x1b[99;5u"), Key::End);
        assert_eq!(through(&mut keys, b"\x1d"), b"");
        assert_eq!(through(&mut keys, b"\x03a"), b"\x03a", "also in two reads");
        assert_eq!(through(&mut keys, b"\x1d\x1d"), b"\x1d");
        assert_eq!(through(&mut keys, b"\x1d\x1b[99;5ux"), b"\x1b[99;5ux");
        assert_eq!(through(&mut keys, b"\x1b[200~a\x03\x1db\x1b[201~c"), b"\x1b[200~a\x03\x1db\x1b[201~c");
        assert_eq!(keys.take_in(b"\x03"), Key::End);
    }
}
