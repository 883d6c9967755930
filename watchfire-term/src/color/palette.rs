//! The colours that a terminal says it has, and how they are spelled.

use std::collections::BTreeMap;

use watchfire_core::terminal;

use super::{names, space};
use crate::options::Colors;

/// Red, green and blue, sixteen bits each.
pub(crate) type Rgb = [u16; 3];

/// A colour that can be asked for and set.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Slot {
    /// OSC 4.
    Indexed(u8),
    /// OSC 5: bold, underline, blink, reverse, italic.
    Special(u8),
    /// OSC 10 to 19.
    Dynamic(u8),
}

/// The colours that the child changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette(BTreeMap<Slot, Rgb>);

impl Palette {
    pub(crate) fn set(&mut self, slot: Slot, color: Rgb) {
        self.0.insert(slot, color);
    }

    pub(crate) fn reset(&mut self, slot: Slot) {
        self.0.remove(&slot);
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.len() * size_of::<(Slot, Rgb)>()
    }

    pub(crate) fn reset_indexed(&mut self) {
        self.0.retain(|slot, _| !matches!(slot, Slot::Indexed(_)));
    }

    pub(crate) fn reset_special(&mut self) {
        self.0.retain(|slot, _| !matches!(slot, Slot::Special(_)));
    }

    /// Returns the colours that cells and cursor are shown in.
    pub(crate) fn shown(&self) -> terminal::Palette {
        let mut shown = terminal::Palette::default();
        for (slot, color) in &self.0 {
            // Answers have sixteen bits for each part (X11), screens eight.
            let color = color.map(|part| (part >> 8) as u8);
            match slot {
                Slot::Indexed(index) => drop(shown.indexed.insert(*index, color)),
                Slot::Dynamic(10) => shown.foreground = Some(color),
                Slot::Dynamic(11) => shown.background = Some(color),
                Slot::Dynamic(12) => shown.cursor = Some(color),
                Slot::Dynamic(_) | Slot::Special(_) => {}
            }
        }
        shown
    }

    /// Yields the changed colours under the names of the commands that set them.
    pub(crate) fn set_colors(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(slot, color)| {
            // One command for each, because a long list could be longer than a receiver takes.
            let name = match slot {
                Slot::Indexed(index) => format!("4;{index}"),
                Slot::Special(index) => format!("5;{index}"),
                Slot::Dynamic(index) => index.to_string(),
            };
            (name, describe(*color))
        })
    }

    pub(crate) fn get(&self, slot: Slot, colors: &Colors) -> Rgb {
        self.0.get(&slot).copied().unwrap_or_else(|| {
            let default = match slot {
                Slot::Indexed(index) => indexed(index),
                Slot::Dynamic(11 | 14 | 16 | 19) => colors.background,
                Slot::Dynamic(12) => colors.cursor,
                Slot::Dynamic(_) | Slot::Special(_) => colors.foreground,
            };
            default.map(|byte| u16::from(byte) * 0x101)
        })
    }
}

/// Returns xterm's colour for an entry of the palette.
fn indexed(index: u8) -> [u8; 3] {
    const NAMED: [[u8; 3]; 16] = [
        [0, 0, 0],
        [205, 0, 0],
        [0, 205, 0],
        [205, 205, 0],
        [0, 0, 238],
        [205, 0, 205],
        [0, 205, 205],
        [229, 229, 229],
        [127, 127, 127],
        [255, 0, 0],
        [0, 255, 0],
        [255, 255, 0],
        [92, 92, 255],
        [255, 0, 255],
        [0, 255, 255],
        [255, 255, 255],
    ];
    let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
    match index {
        16..232 => [(index - 16) / 36, (index - 16) / 6 % 6, (index - 16) % 6].map(level),
        232.. => [8 + 10 * (index - 232); 3],
        _ => NAMED.get(usize::from(index)).copied().unwrap_or_default(),
    }
}

/// Returns a colour in the form of answers.
pub(crate) fn describe([red, green, blue]: Rgb) -> String {
    format!("rgb:{red:04x}/{green:04x}/{blue:04x}")
}

/// Reads a colour as X11 spells them, as exactly as a screen shows it: eight bits for each part.
pub(crate) fn parse(text: &str) -> Option<Rgb> {
    let bytes = parse_bytes(text)?;
    Some(bytes.map(|byte| u16::from(byte) * 0x101))
}

fn parse_bytes(text: &str) -> Option<[u8; 3]> {
    if let Some(digits) = text.strip_prefix('#') {
        return hash(digits);
    }
    let Some((space, values)) = text.split_once(':') else { return names::named(text) };
    let mut parts = values.split('/');
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    let space = space.to_ascii_lowercase();
    if space == "rgb" {
        return all(parts, |part| {
            let max = (1_u32 << (4 * part.len().clamp(1, 4))) - 1;
            let value = u32::from_str_radix(part, 16).ok().filter(|_| (1..=4).contains(&part.len()))?;
            Some(((value * 0xffff / max) >> 8) as u8)
        });
    }
    space::parse(&space, all(parts, |part| part.parse().ok().filter(|value: &f64| value.is_finite()))?)
}

fn all<T: Copy + Default>(parts: [&str; 3], read: impl Fn(&str) -> Option<T>) -> Option<[T; 3]> {
    Some([read(parts[0])?, read(parts[1])?, read(parts[2])?])
}

/// Parses 1 to 4 digits for each part, which are its high ones.
fn hash(digits: &str) -> Option<[u8; 3]> {
    let each = digits.len() / 3;
    if !digits.is_ascii() || !digits.len().is_multiple_of(3) || !(1..=4).contains(&each) {
        return None;
    }
    let part = |index: usize| {
        // X11 fills up with zeros at the right, so `#fff` is not quite white.
        let value = u16::from_str_radix(digits.get(index * each..(index + 1) * each)?, 16).ok()?;
        Some((value << (16 - 4 * each) >> 8) as u8)
    };
    Some([part(0)?, part(1)?, part(2)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_the_spellings_of_x11() {
        assert_eq!(parse("rgb:f0/f0/f0"), Some([0xf0f0; 3]));
        assert_eq!(parse("rgb:f/80/8000"), Some([0xffff, 0x8080, 0x8080]));
        assert_eq!(parse("#fff"), Some([0xf0f0; 3]));
        assert_eq!(parse("#102030"), Some([0x1010, 0x2020, 0x3030]));
        assert_eq!(parse("rgbi:1/0/1"), Some([0xffff, 0, 0xffff]));
        assert_eq!(parse("CIELab:100/0/0").map(|rgb| rgb.map(|part| part > 0xfd00)), Some([true; 3]));
        assert_eq!(parse("Red"), Some([0xffff, 0, 0]));
        for wrong in
            ["", "#12345", "rgb:1/2", "rgb:12345/1/1", "rgb:x/1/1", "rgbi:nan/1/1", "nope:1/2/3", "#é12"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_set_is_told_until_reset() {
        let (mut palette, colors) = (Palette::default(), Colors::default());
        assert_eq!(describe(palette.get(Slot::Indexed(196), &colors)), "rgb:ffff/0000/0000");
        palette.set(Slot::Dynamic(11), [1, 2, 3]);
        assert_eq!(palette.get(Slot::Dynamic(11), &colors), [1, 2, 3]);
        palette.reset(Slot::Dynamic(11));
        assert_eq!(palette.get(Slot::Dynamic(11), &colors), [0; 3]);
    }
}
