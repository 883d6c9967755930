//! How looks are spelled as SGR, quickly: a redraw of a busy screen is hardly anything else.

use watchfire_core::terminal::{Attributes, Color, Underline};

use crate::cells::style::{Look, Paint};

/// Appends a sequence that makes `to` from `from`, as short as is simple.
pub(crate) fn change(from: Look, to: Look, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"\x1b[");
    // Some codes end two attributes at once, such as 22, so a change of attributes begins from nothing.
    if from.bits() != to.bits() {
        put_look(to, out);
    } else {
        // Only colours differ, which is nearly always so. What stays is not said again.
        put_paint(from.foreground(), to.foreground(), b"38;5;", b"38;2;", b"39;", out);
        put_paint(from.background(), to.background(), b"48;5;", b"48;2;", b"49;", out);
        put_paint(from.underline_color(), to.underline_color(), b"58;5;", b"58;2;", b"59;", out);
    }
    match out.last_mut() {
        Some(last @ b';') => *last = b'm',
        _ => out.truncate(start),
    }
}

/// Returns the parameters that make a look from the default one.
pub(crate) fn describe(look: Look) -> String {
    let mut text = Vec::new();
    put_look(look, &mut text);
    // The separator behind the last parameter.
    text.pop();
    String::from_utf8(text).unwrap_or_default()
}

/// Appends a sequence that puts the cursor where `row` and `col` are counted from 0.
pub(crate) fn place(row: usize, col: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[");
    put_count(row + 1, b';', out);
    put_count(col + 1, b'H', out);
}

/// Appends a sequence that erases characters from the cursor on.
pub(crate) fn erase(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[");
    put_count(count, b'X', out);
}

/// Appends a character.
#[inline]
pub(crate) fn push_char(c: char, out: &mut Vec<u8>) {
    let mut bytes = [0; 4];
    let end = out.len() + c.encode_utf8(&mut bytes).len();
    // Four bytes at once are quicker than as many as there are.
    // The length of a copy that is known beforehand needs no call.
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

fn put_count(count: usize, then: u8, out: &mut Vec<u8>) {
    match u8::try_from(count) {
        Ok(count) => put_number(count, then, out),
        Err(_) => {
            out.extend_from_slice(count.to_string().as_bytes());
            out.push(then);
        }
    }
}

/// Writes a number and the byte after it.
#[inline]
fn put_number(number: u8, then: u8, out: &mut Vec<u8>) {
    let word = DIGITS.get(usize::from(number)).copied().unwrap_or(0);
    let (digits, count) = (word & 0xff_ffff, word >> 24);
    let end = out.len() + count as usize + 1;
    out.extend_from_slice(&(digits | u32::from(then) << (count * 8)).to_le_bytes());
    out.truncate(end);
}

/// Writes a colour if it differs, with semicolons, which more terminals know than colons.
#[inline(always)]
fn put_paint(was: Paint, is: Paint, indexed: &[u8; 5], rgb: &[u8; 5], default: &[u8; 3], out: &mut Vec<u8>) {
    if was == is {
        return;
    }
    match is.color() {
        Color::Default => out.extend_from_slice(default),
        Color::Indexed(n) => {
            out.extend_from_slice(indexed);
            put_number(n, b';', out);
        }
        Color::Rgb(r, g, b) => {
            out.extend_from_slice(rgb);
            put_number(r, b';', out);
            put_number(g, b';', out);
            put_number(b, b';', out);
        }
    }
}

/// Writes a whole look, from the default one, with a separator at the end.
fn put_look(look: Look, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0;");
    let attributes = look.attributes();
    let attribute = |attribute, code, out: &mut Vec<u8>| {
        if attributes.contains(attribute) {
            put_number(code, b';', out);
        }
    };
    attribute(Attributes::BOLD, 1, out);
    attribute(Attributes::DIM, 2, out);
    attribute(Attributes::ITALIC, 3, out);
    match look.underline() {
        Underline::None => {}
        Underline::Single => out.extend_from_slice(b"4;"),
        Underline::Double => out.extend_from_slice(b"21;"),
        _ => {
            out.extend_from_slice(b"4:");
            put_number((look.bits() >> 8) as u8, b';', out);
        }
    }
    // In the order of xterm's report (DECRQSS), which is made of this as well.
    attribute(Attributes::BLINK, 5, out);
    attribute(Attributes::INVERSE, 7, out);
    attribute(Attributes::CONCEAL, 8, out);
    attribute(Attributes::STRIKE, 9, out);
    attribute(Attributes::OVERLINE, 53, out);
    put_whole_color(look.foreground().color(), Some(30), b"38:", out);
    put_whole_color(look.background().color(), Some(40), b"48:", out);
    put_whole_color(look.underline_color().color(), None, b"58:", out);
}

fn put_whole_color(color: Color, short: Option<u8>, extended: &[u8; 3], out: &mut Vec<u8>) {
    match (color, short) {
        (Color::Default, _) => {}
        (Color::Indexed(n @ 0..8), Some(base)) => put_number(base + n, b';', out),
        // aixterm's codes, 90 and 100, are 60 above the first ones.
        (Color::Indexed(n @ 8..16), Some(base)) => put_number(base + 52 + n, b';', out),
        (Color::Indexed(n), _) => {
            out.extend_from_slice(extended);
            out.extend_from_slice(b"5:");
            put_number(n, b';', out);
        }
        (Color::Rgb(r, g, b), _) => {
            out.extend_from_slice(extended);
            out.extend_from_slice(b"2::");
            put_number(r, b':', out);
            put_number(g, b':', out);
            put_number(b, b';', out);
        }
    }
}

/// The digits of each byte as text, the first in the lowest byte, and in the highest how many there are.
const DIGITS: [u32; 256] = {
    let mut all = [0; 256];
    let mut number = 0;
    while number < 256 {
        let [hundreds, tens, ones] = [number / 100, number / 10 % 10, number % 10];
        let (digits, count) = if hundreds > 0 {
            (0x30_3030 | hundreds | tens << 8 | ones << 16, 3)
        } else if tens > 0 {
            (0x3030 | tens | ones << 8, 2)
        } else {
            (0x30 | ones, 1)
        };
        all[number as usize] = digits | count << 24;
        number += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled() {
        for number in 0..=255 {
            let mut text = Vec::new();
            put_number(number, b';', &mut text);
            assert_eq!(text, format!("{number};").into_bytes());
        }
    }

    #[test]
    fn everything_is_spelled() {
        let paint = Paint::rgb(255, 255, 255);
        let mut look = Look::default();
        look.set_foreground(paint);
        look.set_background(paint);
        look.set_underline_color(paint);
        look.set_bits(0xff);
        look.set_underline(5);
        assert_eq!(
            describe(look),
            "0;1;2;3;4:5;5;7;8;9;53;38:2::255:255:255;48:2::255:255:255;58:2::255:255:255"
        );
        let mut out = Vec::new();
        change(Look::default(), look, &mut out);
        change(look, look, &mut out);
        assert!(out.ends_with(b":255m"), "{}", out.escape_ascii());
    }
}
