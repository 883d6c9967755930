//! Characters from bytes: runs of common ones, and any one with the replacement rule of the W3C, U+FFFD for each
//! maximal part of a broken one.

/// The beginning of the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Decoded {
    /// A character of so many bytes.
    Char(char, usize),
    /// So many bytes that no character begins with, or that are cut off by what follows.
    Invalid(usize),
    /// The bytes may become a character.
    Incomplete,
}

/// Decodes characters while they are whole and common, but for controls and long ASCII. Returns their number and the
/// number of bytes read.
///
/// A loop for each length, one behind the other: text stays with one for a while, or comes to another one soon.
pub(super) fn decode_run(bytes: &[u8], room: &mut [char]) -> (usize, usize) {
    let (mut len, mut rest) = (0, bytes);
    loop {
        let before = len;
        // Spaces and punctuation between other characters are decoded here. A long stretch of ASCII is left to the
        // caller, who copies it without making characters of it.
        if rest.first().is_some_and(u8::is_ascii) && !is_long_ascii(rest) {
            while let Some((&byte @ b' '..=b'~', tail)) = rest.split_first()
                && let Some(slot) = room.get_mut(len)
            {
                *slot = char::from(byte);
                (len, rest) = (len + 1, tail);
            }
        }
        while let Some(four) = rest.first_chunk().and_then(|word| four_of_two(u64::from_le_bytes(*word)))
            && let Some(slots) = room.get_mut(len..len + 4)
        {
            slots.copy_from_slice(&four);
            (len, rest) = (len + 4, rest.get(8..).unwrap_or(&[]));
        }
        // From U+00A0 on: what is below are controls in two bytes.
        while let Some(&[lead, next]) = rest.first_chunk()
            && lead & 0xe0 == 0xc0
            && next & 0xc0 == 0x80
            && let code = u32::from(lead & 0x1f) << 6 | u32::from(next & 0x3f)
            && code >= 0xa0
            && let Some(slot) = room.get_mut(len)
        {
            *slot = char::from_u32(code).unwrap_or_default();
            (len, rest) = (len + 1, rest.get(2..).unwrap_or(&[]));
        }
        // One load and one mask test lead and continuation bytes together. `char::from_u32` rejects surrogates.
        while let Some(word) = rest.first_chunk().map(|word| u32::from_le_bytes(*word))
            && word & 0xc0_c0f0 == 0x80_80e0
            && let Some(c) = char::from_u32((word & 0xf) << 12 | word >> 2 & 0xfc0 | word >> 16 & 0x3f)
            && c >= '\u{800}'
            && let Some(slot) = room.get_mut(len)
        {
            *slot = c;
            (len, rest) = (len + 1, rest.get(3..).unwrap_or(&[]));
        }
        if len == before {
            // They come alone, and a loop for them would cost all others.
            let word = rest.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            let code =
                (word & 7) << 18 | (word >> 8 & 0x3f) << 12 | (word >> 16 & 0x3f) << 6 | word >> 24 & 0x3f;
            if word & 0xc0c0_c0f8 == 0x8080_80f0
                && let Some(c @ '\u{10000}'..) = char::from_u32(code)
                && let Some(slot) = room.get_mut(len)
            {
                *slot = c;
                (len, rest) = (len + 1, rest.get(4..).unwrap_or(&[]));
            } else {
                return (len, bytes.len() - rest.len());
            }
        }
    }
}

/// Decodes four characters of two bytes, which whole words of many scripts are.
#[inline(always)]
fn four_of_two(word: u64) -> Option<[char; 4]> {
    let each = |pair: u64| pair * 0x0001_0001_0001_0001;
    let leads = word & each(0x1f);
    // Leads below C3 are those of controls, and of what is spelled too long.
    if word & each(0xc0e0) != each(0x80c0) || (leads + each(0x1d)) & each(0x20) != each(0x20) {
        return None;
    }
    let codes = leads << 6 | word >> 8 & each(0x3f);
    let code = |at: u32| char::from_u32((codes >> (16 * at)) as u32 & 0x7ff).unwrap_or_default();
    Some([code(0), code(1), code(2), code(3)])
}

/// Returns true if the next eight bytes are ASCII, DEL included.
#[inline(always)]
fn is_long_ascii(bytes: &[u8]) -> bool {
    let each = |byte| u64::from_ne_bytes([byte; 8]);
    let word = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    // No top bit, and one of the two below it.
    word & each(0x80) == 0 && (word | word << 1) & each(0x40) == each(0x40)
}

/// Decodes the character that `bytes` begin with.
#[cold]
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let Some(&lead) = bytes.first() else { return Decoded::Incomplete };
    let (len, mut code, mut allowed) = match lead {
        0..=0x7f => return Decoded::Char(char::from(lead), 1),
        // C0 and C1 could only begin what is spelled too long.
        0xc2..=0xdf => (2, u32::from(lead & 0x1f), 0x80..=0xbf),
        // The second byte alone tells overlong forms, surrogates, and what lies beyond U+10FFFF. So a broken
        // character ends at the byte that breaks it, as the W3C's rule for replacement asks for.
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

    /// Returns the text that a run makes of the bytes, and the number of bytes it takes.
    fn run(bytes: &[u8], room: usize) -> (String, usize) {
        let mut room = vec!['.'; room];
        let (chars, used) = decode_run(bytes, &mut room);
        (room[..chars].iter().collect(), used)
    }

    #[test]
    fn a_run_has_all_but_controls() {
        for c in ' '..=char::MAX {
            let text = String::from(c).repeat(9) + "......é";
            let (found, used) = run(text.as_bytes(), 20);
            assert_eq!(found, text[..used], "{c:?}");
            let want = match c {
                // Long ASCII, or a control.
                ' '..'\u{a0}' => 0,
                _ => 16,
            };
            assert_eq!(found.chars().count(), want, "{c:?}");
            // Room for fewer.
            assert_eq!(run(text.as_bytes(), 7).0.chars().count(), want.min(7), "{c:?}");
        }
    }

    #[test]
    fn a_run_goes_on_from_one_length_to_any_other() {
        let kinds = ["a", "é", "яяяяя", "漢", "→→→", "\u{1f525}", "b "];
        for a in kinds {
            for b in kinds {
                for c in kinds {
                    let text = ["ü", a, b, c, "ü"].concat();
                    assert_eq!(run(text.as_bytes(), 50), (text.clone(), text.len()), "{text}");
                }
            }
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
                        let (found, used) = run(&[bytes, bytes].concat(), 20);
                        assert_eq!(
                            Ok(&*found),
                            str::from_utf8(&[bytes, bytes].concat()[..used]),
                            "{bytes:x?}"
                        );
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
