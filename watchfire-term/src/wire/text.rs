//! Text of a line in pieces: some bytes as they are, or one character several times. Screens are full of blanks and
//! frames, which repeats make short.

use watchfire_core::Result;

use super::read::Reader;
use super::write::Writer;

/// Bytes that the repeats of a message may stand for. Without a bound, a short message could ask for any amount of memory.
/// The writer falls back to plain bytes, which the message pays for.
pub(super) const MOST_REPEATED: usize = 16 << 20;

/// Shortest repeat that is worth its own piece: fewer bytes do not make up for the two numbers around it.
const SHORTEST: usize = 5;

pub(super) fn write(text: &str, out: &mut Writer) {
    // Start of what is not written yet, and of the repeat at hand.
    let (mut plain, mut start, mut count) = (0, 0, 0);
    let mut last = None;
    let finish = |plain: &mut usize, start: usize, end: usize, count: usize, out: &mut Writer| {
        if end - start < SHORTEST || count < 2 || out.repeated + (end - start) > MOST_REPEATED {
            return;
        }
        out.repeated += end - start;
        literal(text.get(*plain..start).unwrap_or(""), out);
        out.count(count << 1 | 1);
        let len = (end - start) / count;
        out.bytes.extend_from_slice(text.get(start..start + len).unwrap_or("").as_bytes());
        *plain = end;
    };
    for (at, c) in text.char_indices() {
        if last != Some(c) {
            finish(&mut plain, start, at, count, out);
            (last, start, count) = (Some(c), at, 0);
        }
        count += 1;
    }
    finish(&mut plain, start, text.len(), count, out);
    literal(text.get(plain..).unwrap_or(""), out);
}

fn literal(text: &str, out: &mut Writer) {
    if !text.is_empty() {
        out.count(text.len() << 1);
        out.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Appends text until `out` has `len` bytes.
pub(super) fn read(len: usize, bytes: &mut Reader<'_>, out: &mut String) -> Result<()> {
    while out.len() < len {
        let head = bytes.fit::<usize>()?;
        let (count, room) = (head >> 1, len - out.len());
        if head & 1 == 0 {
            if count == 0 || count > room {
                return Err(bytes.error("a piece of text is empty or too long"));
            }
            let piece = str::from_utf8(bytes.take(count)?).map_err(|_| bytes.error("text is not UTF-8"))?;
            out.push_str(piece);
            continue;
        }
        let first = bytes.byte()?;
        // The first byte of a character tells its length; what is wrong about it, UTF-8 rejects below.
        // Bytes that cannot begin a character come to one byte here, which is no UTF-8 then.
        let more = match first {
            0xf0.. => 3,
            0xe0.. => 2,
            0xc0.. => 1,
            _ => 0,
        };
        let mut character = [first, 0, 0, 0];
        for (slot, byte) in character.iter_mut().skip(1).zip(bytes.take(more)?) {
            *slot = *byte;
        }
        let character = character.get(..=more).unwrap_or(&[]);
        let character = str::from_utf8(character).map_err(|_| bytes.error("text is not UTF-8"))?;
        let total = count.checked_mul(character.len()).filter(|total| (1..=room).contains(total));
        let left = total.and_then(|total| bytes.repeats.checked_sub(total));
        bytes.repeats = left.ok_or_else(|| bytes.error("a piece of text is empty or too long"))?;
        out.extend(std::iter::repeat_n(character, count));
    }
    Ok(())
}
