//! Character sets: what the graphic characters of seven bits mean.

/// A set of 94 or 96 characters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Charset {
    #[default]
    Ascii,
    /// DEC special graphics: lines and symbols.
    Graphics,
    /// DEC supplemental graphics.
    Supplemental,
    /// ISO Latin-1, the upper half.
    Latin1,
    /// DEC technical.
    Technical,
    /// A national replacement set: what stands in place of each of [`NATIONAL`].
    National(&'static [char; 12]),
}

/// The places that national sets replace.
const NATIONAL: [char; 12] = ['#', '@', '[', '\\', ']', '^', '_', '`', '{', '|', '}', '~'];

const UK: [char; 12] = ['£', '@', '[', '\\', ']', '^', '_', '`', '{', '|', '}', '~'];
const DUTCH: [char; 12] = ['£', '¾', 'ĳ', '½', '|', '^', '_', '`', '¨', 'ƒ', '¼', '´'];
const FINNISH: [char; 12] = ['#', '@', 'Ä', 'Ö', 'Å', 'Ü', '_', 'é', 'ä', 'ö', 'å', 'ü'];
const FRENCH: [char; 12] = ['£', 'à', '°', 'ç', '§', '^', '_', '`', 'é', 'ù', 'è', '¨'];
const FRENCH_CANADIAN: [char; 12] = ['#', 'à', 'â', 'ç', 'ê', 'î', '_', 'ô', 'é', 'ù', 'è', 'û'];
const GERMAN: [char; 12] = ['#', '§', 'Ä', 'Ö', 'Ü', '^', '_', '`', 'ä', 'ö', 'ü', 'ß'];
const ITALIAN: [char; 12] = ['£', '§', '°', 'ç', 'é', '^', '_', 'ù', 'à', 'ò', 'è', 'ì'];
const NORWEGIAN: [char; 12] = ['#', 'Ä', 'Æ', 'Ø', 'Å', 'Ü', '_', 'ä', 'æ', 'ø', 'å', 'ü'];
const PORTUGUESE: [char; 12] = ['#', '@', 'Ã', 'Ç', 'Õ', '^', '_', '`', 'ã', 'ç', 'õ', '~'];
const SPANISH: [char; 12] = ['£', '§', '¡', 'Ñ', '¿', '^', '_', '`', '°', 'ñ', 'ç', '~'];
const SWEDISH: [char; 12] = ['#', 'É', 'Ä', 'Ö', 'Å', 'Ü', '_', 'é', 'ä', 'ö', 'å', 'ü'];
const SWISS: [char; 12] = ['ù', 'à', 'é', 'ç', 'ê', 'î', 'è', 'ô', 'ä', 'ö', 'ü', 'û'];

/// From underscore to tilde.
const GRAPHICS: [char; 32] = [
    ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
    '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// From exclamation mark to tilde; a space where there is nothing, which shows as a reversed question mark.
const TECHNICAL: &str =
    "⎷┌─⌠⌡│⎡⎣⎤⎦⎛⎝⎞⎠⎨⎬           ≤≠≥∫∴∝∞÷Δ∇ΦΓ∼≃Θ×Λ⇔⇒≡ΠΨ Σ  √ΩΞΥ⊂⊃∩∪∧∨¬αβχδεφγηιθκλ ν∂πψρστ ƒωξυζ←↑→↓";

impl Charset {
    /// Returns the set that the end of a designating sequence names. `wide` sets have 96 characters.
    pub(crate) fn named(wide: bool, mark: u8, last: u8) -> Option<Self> {
        Some(match (wide, mark, last) {
            (true, 0, b'A') => Self::Latin1,
            (false, 0, b'B' | b'@' | b'1' | b'2') => Self::Ascii,
            (false, 0, b'0') => Self::Graphics,
            (false, 0, b'<') | (false, b'%', b'5') => Self::Supplemental,
            (false, 0, b'>') => Self::Technical,
            // One letter for two sets: the British one of 94 characters, and Latin-1 of 96.
            (false, 0, b'A') => Self::National(&UK),
            (false, 0, b'4') => Self::National(&DUTCH),
            (false, 0, b'5' | b'C') => Self::National(&FINNISH),
            (false, 0, b'R' | b'f') => Self::National(&FRENCH),
            (false, 0, b'9' | b'Q') => Self::National(&FRENCH_CANADIAN),
            (false, 0, b'K') => Self::National(&GERMAN),
            (false, 0, b'Y') => Self::National(&ITALIAN),
            (false, 0, b'E' | b'6' | b'`') => Self::National(&NORWEGIAN),
            (false, b'%', b'6') => Self::National(&PORTUGUESE),
            (false, 0, b'Z') => Self::National(&SPANISH),
            (false, 0, b'7' | b'H') => Self::National(&SWEDISH),
            (false, 0, b'=') => Self::National(&SWISS),
            _ => return None,
        })
    }

    /// Returns the character that a seven-bit character stands for.
    pub(crate) fn map(self, c: char) -> char {
        let code = c as usize;
        match self {
            Self::Ascii => c,
            Self::Graphics => {
                code.checked_sub(0x5f).and_then(|index| GRAPHICS.get(index)).copied().unwrap_or(c)
            }
            Self::Technical => {
                let mapped = code.checked_sub(0x21).and_then(|index| TECHNICAL.chars().nth(index));
                // DEC's terminals show a reversed question mark for what the set lacks.
                mapped.map_or(c, |mapped| if mapped == ' ' { '\u{2e2e}' } else { mapped })
            }
            Self::Latin1 | Self::Supplemental => match c {
                '\x20'..='\x7f' => char::from(c as u8 | 0x80),
                _ => c,
            },
            Self::National(set) => {
                NATIONAL.iter().zip(set).find(|(place, _)| **place == c).map_or(c, |(_, mapped)| *mapped)
            }
        }
    }

    /// Returns the end of the sequence that designates this set.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ascii => "B",
            Self::Graphics => "0",
            Self::Supplemental => "%5",
            Self::Latin1 => "A",
            Self::Technical => ">",
            Self::National(set) => match set {
                _ if *set == UK => "A",
                _ if *set == DUTCH => "4",
                _ if *set == FINNISH => "C",
                _ if *set == FRENCH => "R",
                _ if *set == FRENCH_CANADIAN => "Q",
                _ if *set == GERMAN => "K",
                _ if *set == ITALIAN => "Y",
                _ if *set == NORWEGIAN => "E",
                _ if *set == PORTUGUESE => "%6",
                _ if *set == SPANISH => "Z",
                _ if *set == SWEDISH => "H",
                _ => "=",
            },
        }
    }
}

/// The four designated sets, and the sets in use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Charsets {
    pub(crate) sets: [Charset; 4],
    /// The set for codes from 0x20.
    pub(crate) left: u8,
    /// The set for codes from 0xa0, where bytes are characters; Latin-1 until one is chosen.
    pub(crate) right: Option<u8>,
    /// A set for the next character alone.
    pub(crate) single: Option<u8>,
    /// Bytes are characters, not UTF-8.
    pub(crate) bytes: bool,
}

impl Default for Charsets {
    fn default() -> Self {
        Self { sets: [Charset::Ascii; 4], left: 0, right: None, single: None, bytes: false }
    }
}

impl Charsets {
    fn set(&self, index: u8) -> Charset {
        self.sets.get(usize::from(index)).copied().unwrap_or_default()
    }

    /// Returns true if characters stand for themselves.
    pub(crate) fn is_plain(&self) -> bool {
        // Plain means that no character needs to be looked at, so that runs of them can be copied.
        self.single.is_none()
            && self.set(self.left) == Charset::Ascii
            && !(self.bytes && self.right.is_some())
    }

    /// Returns the character that the next one stands for.
    pub(crate) fn map(&mut self, c: char) -> char {
        match c {
            '\x20'..='\x7f' => {
                let index = self.single.take().unwrap_or(self.left);
                self.set(index).map(c)
            }
            // The upper half exists only where bytes are characters. In UTF-8 those codes are what they say.
            '\u{a0}'..='\u{ff}' if self.bytes => match self.right {
                Some(index) => match self.set(index).map(char::from(c as u8 & 0x7f)) {
                    // A set of 94 has nothing there.
                    '\u{7f}' => c,
                    mapped => mapped,
                },
                None => c,
            },
            _ => {
                self.single = None;
                c
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_replace_what_they_should() {
        let mut sets = Charsets::default();
        assert!(sets.is_plain());
        sets.sets[0] = Charset::Graphics;
        assert_eq!("lqk ~a".chars().map(|c| sets.map(c)).collect::<String>(), "┌─┐ ·▒");
        sets.sets[0] = Charset::National(&UK);
        assert_eq!((sets.map('#'), sets.map('a')), ('£', 'a'));
        (sets.sets[2], sets.single) = (Charset::Latin1, Some(2));
        assert_eq!((sets.map('i'), sets.map('i')), ('é', 'i'));
        assert_eq!(['~', '1', ' '].map(|c| Charset::Technical.map(c)), ['↓', '\u{2e2e}', ' ']);
        assert_eq!(TECHNICAL.chars().count(), 94);
    }

    #[test]
    fn names_lead_back() {
        for last in b'0'..b'~' {
            for mark in [0, b'%'] {
                if let Some(set) = Charset::named(false, mark, last) {
                    let name = set.name().as_bytes();
                    let (mark, last) = if name.len() == 2 { (name[0], name[1]) } else { (0, name[0]) };
                    assert_eq!(Charset::named(false, mark, last), Some(set));
                }
            }
        }
    }
}
