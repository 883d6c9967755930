//! The colours that a terminal says it has, and how they are spelled.

use std::collections::BTreeMap;

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

/// What the child changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette(BTreeMap<Slot, Rgb>);

impl Palette {
    pub(crate) fn set(&mut self, slot: Slot, color: Rgb) {
        self.0.insert(slot, color);
    }

    pub(crate) fn reset(&mut self, slot: Slot) {
        self.0.remove(&slot);
    }

    pub(crate) fn reset_indexed(&mut self) {
        self.0.retain(|slot, _| !matches!(slot, Slot::Indexed(_)));
    }

    pub(crate) fn reset_special(&mut self) {
        self.0.retain(|slot, _| !matches!(slot, Slot::Special(_)));
    }

    /// What was set, as the commands that set it name it.
    pub(crate) fn set_colors(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(slot, color)| {
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
                Slot::Dynamic(11 | 14 | 16 | 17) => colors.background,
                Slot::Dynamic(12) => colors.cursor,
                Slot::Dynamic(_) | Slot::Special(_) => colors.foreground,
            };
            default.map(|byte| u16::from(byte) * 0x101)
        })
    }
}

/// What xterm shows for an entry of the palette.
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

/// How a colour is told.
pub(crate) fn describe([red, green, blue]: Rgb) -> String {
    format!("rgb:{red:04x}/{green:04x}/{blue:04x}")
}

/// Reads a colour as X11 spells them.
pub(crate) fn parse(text: &str) -> Option<Rgb> {
    if let Some(digits) = text.strip_prefix('#') {
        return hash(digits);
    }
    let Some((space, values)) = text.split_once(':') else { return named(text) };
    let mut parts = values.split('/');
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    let space = space.to_ascii_lowercase();
    if space == "rgb" {
        return all(parts, |part| {
            let max = (1_u32 << (4 * part.len().clamp(1, 4))) - 1;
            let value = u32::from_str_radix(part, 16).ok().filter(|_| (1..=4).contains(&part.len()))?;
            Some((value * 0xffff / max) as u16)
        });
    }
    let [a, b, c] = all(parts, |part| part.parse::<f64>().ok().filter(|value| value.is_finite()))?;
    let linear = match space.as_str() {
        "rgbi" => [a, b, c],
        "ciexyz" => from_xyz([a, b, c]),
        "ciexyy" => from_xyz(if b == 0.0 { [0.0; 3] } else { [a * c / b, c, (1.0 - a - b) * c / b] }),
        "cieuvy" => from_uv(a, b, c),
        "cielab" => from_lab(a, b, c),
        "cieluv" => from_luv(a, b, c),
        _ => return None,
    };
    Some(linear.map(|value| (value.clamp(0.0, 1.0).powf(1.0 / 2.2) * 65535.0).round() as u16))
}

fn all<T: Copy + Default>(parts: [&str; 3], read: impl Fn(&str) -> Option<T>) -> Option<[T; 3]> {
    Some([read(parts[0])?, read(parts[1])?, read(parts[2])?])
}

/// 1 to 4 digits for each part; they are the high ones.
fn hash(digits: &str) -> Option<Rgb> {
    let each = digits.len() / 3;
    if !digits.is_ascii() || !digits.len().is_multiple_of(3) || !(1..=4).contains(&each) {
        return None;
    }
    let part = |index: usize| {
        let value = u16::from_str_radix(digits.get(index * each..(index + 1) * each)?, 16).ok()?;
        Some(value << (16 - 4 * each))
    };
    Some([part(0)?, part(1)?, part(2)?])
}

const WHITE: [f64; 3] = [0.9505, 1.0, 1.089];

fn from_xyz([x, y, z]: [f64; 3]) -> [f64; 3] {
    [
        3.2406 * x - 1.5372 * y - 0.4986 * z,
        -0.9689 * x + 1.8758 * y + 0.0415 * z,
        0.0557 * x - 0.2040 * y + 1.0570 * z,
    ]
}

fn from_uv(u: f64, v: f64, y: f64) -> [f64; 3] {
    if v == 0.0 {
        return [0.0; 3];
    }
    from_xyz([y * 9.0 * u / (4.0 * v), y, y * (12.0 - 3.0 * u - 20.0 * v) / (4.0 * v)])
}

fn lightness(l: f64) -> f64 {
    if l > 8.0 { ((l + 16.0) / 116.0).powi(3) } else { l / 903.3 }
}

fn from_lab(l: f64, a: f64, b: f64) -> [f64; 3] {
    let base = (l + 16.0) / 116.0;
    let cube =
        |t: f64| if t > 6.0 / 29.0 { t.powi(3) } else { (t - 16.0 / 116.0) * 3.0 * (6.0_f64 / 29.0).powi(2) };
    from_xyz([WHITE[0] * cube(base + a / 500.0), lightness(l), WHITE[2] * cube(base - b / 200.0)])
}

fn from_luv(l: f64, u: f64, v: f64) -> [f64; 3] {
    if l == 0.0 {
        return [0.0; 3];
    }
    let sum = WHITE[0] + 15.0 * WHITE[1] + 3.0 * WHITE[2];
    from_uv(u / (13.0 * l) + 4.0 * WHITE[0] / sum, v / (13.0 * l) + 9.0 * WHITE[1] / sum, lightness(l))
}

/// The names that programs use.
fn named(name: &str) -> Option<Rgb> {
    let name = name.to_ascii_lowercase().replace(' ', "");
    let rgb: [u8; 3] = match name.as_str() {
        "black" => [0, 0, 0],
        "white" => [255, 255, 255],
        "red" => [255, 0, 0],
        "green" => [0, 255, 0],
        "blue" => [0, 0, 255],
        "yellow" => [255, 255, 0],
        "cyan" => [0, 255, 255],
        "magenta" => [255, 0, 255],
        "gray" | "grey" => [190, 190, 190],
        "orange" => [255, 165, 0],
        "purple" => [160, 32, 240],
        "brown" => [165, 42, 42],
        "pink" => [255, 192, 203],
        _ => return None,
    };
    Some(rgb.map(|byte| u16::from(byte) * 0x101))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_the_spellings_of_x11() {
        assert_eq!(parse("rgb:f0/f0/f0"), Some([0xf0f0; 3]));
        assert_eq!(parse("rgb:f/80/8000"), Some([0xffff, 0x8080, 0x8000]));
        assert_eq!(parse("#fff"), Some([0xf000; 3]));
        assert_eq!(parse("#102030"), Some([0x1000, 0x2000, 0x3000]));
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
