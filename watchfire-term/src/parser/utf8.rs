//! One character from bytes, with the replacement rule of the W3C: U+FFFD for each maximal part of a broken one.

/// What the bytes begin with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Decoded {
    /// A character of so many bytes.
    Char(char, usize),
    /// So many bytes that no character begins with, or that are cut off by what follows.
    Invalid(usize),
    /// The bytes may become a character.
    Incomplete,
}

/// Decodes the character that `bytes` begin with.
#[inline(always)]
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    match bytes.first_chunk().and_then(|word| decode_common(u32::from_le_bytes(*word))) {
        Some((c, len)) => Decoded::Char(c, len),
        None => decode_rare(bytes),
    }
}

/// The common kinds, of three bytes and of two.
#[inline(always)]
fn decode_common(word: u32) -> Option<(char, usize)> {
    if word & 0xc0_c0f0 == 0x80_80e0 {
        let code = (word & 0xf) << 12 | word >> 2 & 0xfc0 | word >> 16 & 0x3f;
        return char::from_u32(code).filter(|c| *c >= '\u{800}').map(|c| (c, 3));
    }
    if word & 0xc0e0 == 0x80c0 {
        let code = (word & 0x1f) << 6 | word >> 8 & 0x3f;
        return char::from_u32(code).filter(|c| *c >= '\u{80}').map(|c| (c, 2));
    }
    None
}

#[cold]
fn decode_rare(bytes: &[u8]) -> Decoded {
    let Some(&lead) = bytes.first() else { return Decoded::Incomplete };
    let (len, mut code, mut allowed) = match lead {
        0..=0x7f => return Decoded::Char(char::from(lead), 1),
        0xc2..=0xdf => (2, u32::from(lead & 0x1f), 0x80..=0xbf),
        0xe0 => (3, 0, 0xa0..=0xbf),
        0xed => (3, 0xd, 0x80..=0x9f),
        0xe1..=0xef => (3, u32::from(lead & 0xf), 0x80..=0xbf),
        0xf0 => (4, 0, 0x90..=0xbf),
        0xf1..=0xf3 => (4, u32::from(lead & 7), 0x80..=0xbf),
        0xf4 => (4, 4, 0x80..=0x8f),
        _ => return Decoded::Invalid(1),
    };
    for index in 1..len {
        match bytes.get(index) {
            Some(byte) if allowed.contains(byte) => code = code << 6 | u32::from(byte & 0x3f),
            Some(_) => return Decoded::Invalid(index),
            None => return Decoded::Incomplete,
        }
        allowed = 0x80..=0xbf;
    }
    Decoded::Char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_decoded_from_its_bytes() {
        for c in '\0'..=char::MAX {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(decode(bytes), Decoded::Char(c, bytes.len()));
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), Decoded::Incomplete);
            }
            assert_eq!(decode(&[bytes, b"...."].concat()), Decoded::Char(c, bytes.len()));
        }
    }

    #[test]
    fn broken_bytes_are_replaced_as_the_standard_library_does() {
        let interesting = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef,
            0xf0, 0xf1, 0xf4, 0xf5, 0xff,
        ];
        for a in interesting {
            for b in interesting {
                for c in interesting {
                    for d in interesting {
                        let bytes = [a, b, c, d, b'.', b'.', b'.'];
                        let (mut rest, mut text) = (&bytes[..], String::new());
                        while !rest.is_empty() {
                            let len = match decode(rest) {
                                Decoded::Char(c, len) => {
                                    text.push(c);
                                    len
                                }
                                Decoded::Invalid(len) => {
                                    text.push('\u{fffd}');
                                    len
                                }
                                Decoded::Incomplete => panic!("{bytes:x?} are complete"),
                            };
                            rest = &rest[len..];
                        }
                        assert_eq!(text, String::from_utf8_lossy(&bytes), "{bytes:x?}");
                    }
                }
            }
        }
    }
}
