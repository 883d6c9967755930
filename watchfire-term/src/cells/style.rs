//! How cells look, in sixteen bytes, and the table that gives each look a number.

use watchfire_core::terminal::{Attributes, Color, Style, Underline};

/// A colour as it is stored: what kind in the top byte, the value below.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Paint(u32);

impl Paint {
    pub(crate) const DEFAULT: Self = Self(0);

    pub(crate) const fn indexed(index: u8) -> Self {
        Self(1 << 24 | index as u32)
    }

    pub(crate) const fn rgb(red: u8, green: u8, blue: u8) -> Self {
        Self(2 << 24 | (red as u32) << 16 | (green as u32) << 8 | blue as u32)
    }

    pub(crate) const fn color(self) -> Color {
        let [kind, red, green, blue] = self.0.to_be_bytes();
        match kind {
            0 => Color::Default,
            1 => Color::Indexed(blue),
            _ => Color::Rgb(red, green, blue),
        }
    }
}

/// Everything about a cell except its character, in two words: reading a look as a whole right after a part was
/// written must not wait for memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Look {
    /// The foreground below, the background above.
    colors: u64,
    /// From below: the underline's colour, attributes (8 bits), the kind of underline (8), the number of a link (16).
    rest: u64,
}

const LOW: u64 = 0xffff_ffff;
const BITS: u32 = 32;
const LINK: u32 = 48;

impl Look {
    /// Returns its slot among recent ones.
    #[inline]
    const fn slot(self) -> usize {
        // Fibonacci hashing, twice: colours differ in few bits, which would otherwise meet in few slots.
        let mixed = (self.colors ^ self.rest.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - RECENT.ilog2())
    }

    pub(crate) const fn foreground(self) -> Paint {
        Paint(self.colors as u32)
    }

    pub(crate) const fn set_foreground(&mut self, paint: Paint) {
        self.colors = self.colors & !LOW | paint.0 as u64;
    }

    pub(crate) const fn background(self) -> Paint {
        Paint((self.colors >> 32) as u32)
    }

    pub(crate) const fn set_background(&mut self, paint: Paint) {
        self.colors = self.colors & LOW | (paint.0 as u64) << 32;
    }

    pub(crate) const fn underline_color(self) -> Paint {
        Paint(self.rest as u32)
    }

    pub(crate) const fn set_underline_color(&mut self, paint: Paint) {
        self.rest = self.rest & !LOW | paint.0 as u64;
    }

    /// Attributes in the low byte, the kind of underline above.
    pub(crate) const fn bits(self) -> u16 {
        (self.rest >> BITS) as u16
    }

    pub(crate) const fn set_bits(&mut self, bits: u16) {
        self.rest = self.rest & !(0xffff << BITS) | (bits as u64) << BITS;
    }

    /// Returns the number of a hyperlink; zero for none.
    pub(crate) const fn link(self) -> u16 {
        (self.rest >> LINK) as u16
    }

    pub(crate) const fn with_link(self, link: u16) -> Self {
        Self { rest: self.rest & !(0xffff << LINK) | (link as u64) << LINK, ..self }
    }

    pub(crate) const fn attributes(self) -> Attributes {
        Attributes::from_bits(self.bits() & 0xff)
    }

    pub(crate) fn set(&mut self, attributes: Attributes, on: bool) {
        self.set_bits(self.bits() & 0xff00 | self.attributes().with(attributes, on).bits());
    }

    pub(crate) const fn underline(self) -> Underline {
        match self.bits() >> 8 {
            0 => Underline::None,
            1 => Underline::Single,
            2 => Underline::Double,
            3 => Underline::Curly,
            4 => Underline::Dotted,
            _ => Underline::Dashed,
        }
    }

    /// Sets the kind of underline: 0 for none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed, as in SGR 4:n.
    pub(crate) fn set_underline(&mut self, kind: u16) {
        self.set_bits(self.bits() & 0xff | kind.min(5) << 8);
    }

    /// Returns the look of an erased cell: the background of the pen.
    pub(crate) const fn erased(self) -> Self {
        // As with xterm's `bce`, only the background spreads over what is erased: no underline, and no link.
        Self { colors: self.colors & !LOW, rest: 0 }
    }

    pub(crate) const fn style(self) -> Style {
        Style {
            foreground: self.foreground().color(),
            background: self.background().color(),
            underline_color: self.underline_color().color(),
            attributes: self.attributes(),
            underline: self.underline(),
        }
    }
}

/// Numbers for looks. Zero is the default look, and only that.
///
/// A look may have several numbers: only those that were asked for lately are found again, for looking through all
/// of them takes longer than all the rest. Numbers stay the same until [`Styles::retain`] drops them.
#[derive(Clone, Debug)]
pub(crate) struct Styles {
    looks: Vec<Look>,
    free: Vec<u32>,
    /// Numbers that were asked for lately, by a hash of the look; empty until there is one.
    // A direct-mapped cache: a look that is not in its slot gets a new number, which is cheaper than to search.
    recent: Vec<u32>,
    /// Number of looks from which on unused ones are searched for.
    limit: usize,
}

const FIRST_LIMIT: usize = 1 << 13;
/// A power of two; see [`Look::slot`].
const RECENT: usize = 1 << 10;

impl Default for Styles {
    fn default() -> Self {
        Self { looks: vec![Look::default()], free: Vec::new(), recent: Vec::new(), limit: FIRST_LIMIT }
    }
}

impl Styles {
    #[inline]
    pub(crate) fn look(&self, number: u32) -> Look {
        self.looks.get(number as usize).copied().unwrap_or_default()
    }

    /// Returns the number of `look`.
    #[inline]
    pub(crate) fn number(&mut self, look: Look) -> u32 {
        if look == Look::default() {
            return 0;
        }
        let slot = look.slot();
        match self.recent.get(slot) {
            Some(number) if self.look(*number) == look => *number,
            _ => self.add(look, slot),
        }
    }

    fn add(&mut self, look: Look, slot: usize) -> u32 {
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(slot) = self.looks.get_mut(number as usize) {
                    *slot = look;
                }
                number
            }
            None => {
                self.looks.push(look);
                (self.looks.len() - 1) as u32
            }
        };
        // Made with the first look, which many terminals never have.
        if self.recent.is_empty() {
            self.recent.resize(RECENT, 0);
        }
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = number;
        }
        number
    }

    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.looks.len() - self.free.len() > self.limit
    }

    /// Returns the number of style numbers given so far, for tables indexed by number.
    pub(crate) fn len(&self) -> usize {
        self.looks.len()
    }

    /// Forgets all looks whose number is not marked as used.
    pub(crate) fn retain(&mut self, used: &[bool]) {
        self.recent.fill(0);
        self.free.clear();
        let last = used.iter().rposition(|used| *used).unwrap_or(0);
        // Cells hold the numbers, so those in use keep theirs, and only the end of the table goes.
        self.looks.truncate(last + 1);
        let unused = (1..self.looks.len()).rev().filter(|number| used.get(*number) != Some(&true));
        self.free.extend(unused.map(|number| number as u32));
        // Twice as many as are in use: the next search comes when it is worth its time.
        self.limit = ((self.looks.len() - self.free.len()) * 2).max(FIRST_LIMIT);
    }

    /// Yields the links of looks that are marked as used.
    pub(crate) fn links<'a>(&'a self, used: &'a [bool]) -> impl Iterator<Item = u16> + 'a {
        self.looks.iter().zip(used).filter(|(_, used)| **used).map(|(look, _)| look.link())
    }

    pub(crate) fn memory(&self) -> usize {
        self.looks.capacity() * size_of::<Look>()
            + self.recent.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_small_and_numbers_are_reused() {
        assert_eq!(size_of::<Look>(), 16);
        let mut styles = Styles::default();
        let look = |n| {
            let mut look = Look::default();
            look.set_foreground(Paint::indexed(n));
            look
        };
        let (a, b) = (styles.number(look(1)), styles.number(look(2)));
        assert_eq!((styles.number(Look::default()), styles.number(look(1))), (0, a));
        let mut used = vec![false; styles.len()];
        used[b as usize] = true;
        styles.retain(&used);
        assert_eq!((styles.number(look(3)), styles.look(b)), (a, look(2)));
    }

    #[test]
    fn looks_become_styles() {
        let mut look = Look::default().with_link(7);
        look.set_background(Paint::rgb(1, 2, 3));
        look.set(Attributes::BOLD, true);
        look.set_underline(3);
        let style = look.style();
        assert_eq!((style.background, style.underline), (Color::Rgb(1, 2, 3), Underline::Curly));
        assert!(style.attributes.contains(Attributes::BOLD));
        assert_eq!(
            (look.link(), look.foreground(), look.underline_color()),
            (7, Paint::DEFAULT, Paint::DEFAULT)
        );
        let mut erased = Look::default();
        erased.set_background(Paint::rgb(1, 2, 3));
        assert_eq!(look.erased(), erased);
    }
}
