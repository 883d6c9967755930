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

/// Characters of two bytes as far as they go, but for controls: how many characters, and how many bytes.
#[inline(always)]
pub(super) fn decode_twos(bytes: &[u8], room: &mut [char]) -> (usize, usize) {
    let (mut len, mut rest) = (0, bytes);
    loop {
        if let Some(four) = rest.first_chunk().and_then(|word| four_twos(u64::from_le_bytes(*word)))
            && let Some(slots) = room.get_mut(len..len + 4)
        {
            slots.copy_from_slice(&four);
            (len, rest) = (len + 4, rest.get(8..).unwrap_or(&[]));
        } else if let Some(&[lead, next]) = rest.first_chunk()
            && lead & 0xe0 == 0xc0
            && next & 0xc0 == 0x80
            && let code = u32::from(lead & 0x1f) << 6 | u32::from(next & 0x3f)
            && code >= 0xa0
            && let Some(slot) = room.get_mut(len)
        {
            *slot = char::from_u32(code).unwrap_or_default();
            (len, rest) = (len + 1, rest.get(2..).unwrap_or(&[]));
        } else {
            return (len, bytes.len() - rest.len());
        }
    }
}

/// Four of them at once, which whole words of many scripts are.
#[inline(always)]
fn four_twos(word: u64) -> Option<[char; 4]> {
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

/// Characters of three bytes as far as they go, but for the last bytes: how many characters, and how many bytes.
#[inline(always)]
pub(super) fn decode_threes(bytes: &[u8], room: &mut [char]) -> (usize, usize) {
    let (mut len, mut rest) = (0, bytes);
    while let Some(word) = rest.first_chunk().map(|word| u32::from_le_bytes(*word))
        && word & 0xc0_c0f0 == 0x80_80e0
        && let Some(c) = char::from_u32((word & 0xf) << 12 | word >> 2 & 0xfc0 | word >> 16 & 0x3f)
        && c >= '\u{800}'
        && let Some(slot) = room.get_mut(len)
    {
        *slot = c;
        (len, rest) = (len + 1, rest.get(3..).unwrap_or(&[]));
    }
    (len, bytes.len() - rest.len())
}

/// One character of four bytes, if it is one.
#[inline(always)]
pub(super) fn decode_four(bytes: &[u8], room: &mut [char]) -> (usize, usize) {
    let word = bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let code = (word & 7) << 18 | (word >> 8 & 0x3f) << 12 | (word >> 16 & 0x3f) << 6 | word >> 24 & 0x3f;
    if word & 0xc0c0_c0f8 == 0x8080_80f0
        && code >= 0x1_0000
        && let Some(c) = char::from_u32(code)
        && let Some(slot) = room.first_mut()
    {
        *slot = c;
        return (1, 4);
    }
    (0, 0)
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

    /// What the quick ways make of the bytes, and how many of them they take.
    fn quick(bytes: &[u8]) -> (String, usize) {
        let mut room = ['.'; 9];
        let way = [decode_twos, decode_threes, decode_four]
            [usize::from(bytes[0] >= 0xe0) + usize::from(bytes[0] >= 0xf0)];
        let (chars, used) = way(bytes, &mut room);
        assert!(room[chars..].iter().all(|c| *c == '.'), "{bytes:x?}");
        (room[..chars].iter().collect(), used)
    }

    #[test]
    fn the_quick_ways_find_all_but_controls() {
        for c in '\u{80}'..=char::MAX {
            let text = String::from(c).repeat(9) + "....";
            let (found, used) = quick(text.as_bytes());
            let one = c.len_utf8() == 4;
            assert_eq!(
                found.chars().count(),
                if c < '\u{a0}' {
                    0
                } else if one {
                    1
                } else {
                    9
                },
                "{c:?}"
            );
            assert_eq!(found, text[..used], "{c:?}");
        }
        // Room for fewer.
        assert_eq!(decode_twos("яяяяяяя".as_bytes(), &mut ['.'; 5]), (5, 10));
        assert_eq!(decode_threes("漢漢漢漢".as_bytes(), &mut ['.'; 2]), (2, 6));
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
                        let (found, used) = quick(&[bytes, bytes].concat());
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
