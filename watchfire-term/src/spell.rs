//! How looks are spelled as SGR, quickly: a redraw of a busy screen is hardly anything else.

use watchfire_core::terminal::{Attributes, Color, Underline};

use crate::style::Look;

/// Appends a sequence that makes `to` from `from`, as short as is simple.
pub(crate) fn change(from: Look, to: Look, out: &mut String) {
    if from.bits != to.bits {
        let mut text = Spelling::new();
        text.put(b"\x1b[");
        text.look(to);
        text.put(b"m");
        out.push_str(text.as_str());
        return;
    }
    let mut separator = "\x1b[";
    let pairs = [
        (from.foreground, to.foreground, "38", "39"),
        (from.background, to.background, "48", "49"),
        (from.underline_color, to.underline_color, "58", "59"),
    ];
    for (_, paint, extended, default) in pairs.into_iter().filter(|(from, to, ..)| from != to) {
        out.push_str(separator);
        separator = ";";
        match paint.color() {
            Color::Default => out.push_str(default),
            Color::Indexed(n) => {
                out.push_str(extended);
                out.push_str(";5;");
                push_number(n, out);
            }
            Color::Rgb(r, g, b) => {
                out.push_str(extended);
                out.push_str(";2");
                for part in [r, g, b] {
                    out.push(';');
                    push_number(part, out);
                }
            }
        }
    }
    if separator == ";" {
        out.push('m');
    }
}

fn push_number(number: u8, out: &mut String) {
    if number >= 100 {
        out.push(char::from(b'0' + number / 100));
    }
    if number >= 10 {
        out.push(char::from(b'0' + number / 10 % 10));
    }
    out.push(char::from(b'0' + number % 10));
}

/// The parameters that make a look from the default one.
pub(crate) fn describe(look: Look) -> String {
    let mut text = Spelling::new();
    text.look(look);
    text.as_str().to_owned()
}

/// Room for the longest.
struct Spelling {
    bytes: [u8; 128],
    len: usize,
}

impl Spelling {
    #[inline]
    const fn new() -> Self {
        Self { bytes: [0; 128], len: 0 }
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or("")
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        if let Some(slot) = self.bytes.get_mut(self.len..self.len + N) {
            slot.copy_from_slice(bytes);
            self.len += N;
        }
    }

    /// A number and what follows it.
    #[inline]
    fn number(&mut self, number: u8, then: u8) {
        let (mut bytes, digits) = DIGITS.get(usize::from(number)).copied().unwrap_or(([0; 4], 0));
        if let Some(slot) = bytes.get_mut(usize::from(digits)) {
            *slot = then;
        }
        if let Some(slot) = self.bytes.get_mut(self.len..self.len + 4) {
            slot.copy_from_slice(&bytes);
            self.len += usize::from(digits) + 1;
        }
    }

    /// All of a look, from zero; separators go before.
    fn look(&mut self, look: Look) {
        self.put(b"0;");
        let attributes = look.attributes();
        let attribute = |text: &mut Self, attribute, code| {
            if attributes.contains(attribute) {
                text.number(code, b';');
            }
        };
        attribute(self, Attributes::BOLD, 1);
        attribute(self, Attributes::DIM, 2);
        attribute(self, Attributes::ITALIC, 3);
        match look.underline() {
            Underline::None => {}
            Underline::Single => self.put(b"4;"),
            Underline::Double => self.put(b"21;"),
            _ => {
                self.put(b"4:");
                self.number((look.bits >> 8) as u8, b';');
            }
        }
        attribute(self, Attributes::BLINK, 5);
        attribute(self, Attributes::INVERSE, 7);
        attribute(self, Attributes::CONCEAL, 8);
        attribute(self, Attributes::STRIKE, 9);
        attribute(self, Attributes::OVERLINE, 53);
        self.color(look.foreground.color(), Some(30), b"38:");
        self.color(look.background.color(), Some(40), b"48:");
        self.color(look.underline_color.color(), None, b"58:");
        self.len -= 1;
    }

    fn color(&mut self, color: Color, short: Option<u8>, extended: &[u8; 3]) {
        match (color, short) {
            (Color::Default, _) => {}
            (Color::Indexed(n @ 0..8), Some(base)) => self.number(base + n, b';'),
            (Color::Indexed(n @ 8..16), Some(base)) => self.number(base + 52 + n, b';'),
            (Color::Indexed(n), _) => {
                self.put(extended);
                self.put(b"5:");
                self.number(n, b';');
            }
            (Color::Rgb(r, g, b), _) => {
                self.put(extended);
                self.put(b"2::");
                self.number(r, b':');
                self.number(g, b':');
                self.number(b, b';');
            }
        }
    }
}

/// The digits of each byte, and how many there are.
const DIGITS: [([u8; 4], u8); 256] = {
    let mut all = [([0; 4], 0); 256];
    let mut number = 0;
    while number < 256 {
        let [hundreds, tens, ones] = [number / 100, number / 10 % 10, number % 10];
        all[number] = if hundreds > 0 {
            ([b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8, 0], 3)
        } else if tens > 0 {
            ([b'0' + tens as u8, b'0' + ones as u8, 0, 0], 2)
        } else {
            ([b'0' + ones as u8, 0, 0, 0], 1)
        };
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
            let mut text = Spelling::new();
            text.number(number, b';');
            assert_eq!(text.as_str(), format!("{number};"));
        }
    }

    #[test]
    fn the_longest_fits() {
        use crate::style::Paint;
        let paint = Paint::rgb(255, 255, 255);
        let mut look =
            Look { foreground: paint, background: paint, underline_color: paint, bits: 0xff, link: 0 };
        look.set_underline(5);
        assert_eq!(
            describe(look),
            "0;1;2;3;4:5;5;7;8;9;53;38:2::255:255:255;48:2::255:255:255;58:2::255:255:255"
        );
        let mut out = String::new();
        change(Look::default(), look, &mut out);
        change(look, look, &mut out);
        assert!(out.ends_with(":255m"), "{out}");
    }
}
