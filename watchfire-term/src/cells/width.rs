//! How many columns a character takes, from a table made once per process.

use std::sync::LazyLock;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::cells::cell::NOT_ALONE;

/// Beyond this the width is a matter of ranges.
const END: usize = 0x20000;

/// Properties of a character: its width in the low bits, and a bit for those that may join the character before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Width(u8);

const JOINS: u8 = 4;

impl Width {
    /// Returns the number of columns: 0, 1 or 2.
    #[inline]
    pub(crate) const fn columns(self) -> usize {
        (self.0 & 3) as usize
    }

    /// Returns true if it may be part of a grapheme that any character before it began.
    pub(crate) const fn may_join(self) -> bool {
        self.0 & JOINS != 0
    }

    fn compute(c: char) -> Self {
        let columns = match c {
            // It has a column, but takes the long way there.
            NOT_ALONE => 0,
            // Terminals give the soft hyphen a column.
            '\u{ad}' => 1,
            _ => c.width().unwrap_or(0).min(2) as u8,
        };
        // Regional indicators, skin tones and Hangul jamo have a width of their own and still join what is before
        // them (UAX #29).
        let special = matches!(c, '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7ff}' | '\u{a960}'..='\u{a97f}');
        // Marks that take a column of their own live only here.
        let perhaps = matches!(c, '\u{900}'..'\u{1d00}' | '\u{302e}'..='\u{302f}' | '\u{a800}'..'\u{ac00}' | '\u{ff9e}'..='\u{ff9f}' | '\u{11000}'..'\u{12000}' | '\u{16000}'..'\u{17000}' | '\u{1d000}'..'\u{1d200}');
        let joins = special || columns == 0 || perhaps && is_one_grapheme(&format!("a{c}"));
        Self(columns | if joins { JOINS } else { 0 })
    }
}

/// A width for each character of the first two planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths(&'static [Width; END]);

/// Made once per process.
static WIDTHS: LazyLock<Box<[Width; END]>> = LazyLock::new(Widths::compute);

impl Widths {
    /// Returns the table. Take it once per run.
    #[inline]
    pub(crate) fn table() -> Self {
        Self(&WIDTHS)
    }

    #[inline]
    pub(crate) fn of(self, c: char) -> Width {
        self.0.get(c as usize).copied().unwrap_or_else(|| Self::beyond(c))
    }

    /// Returns 1 or 2 if the character takes that many cells of its own after any other. Returns something else
    /// otherwise, or if the table leaves it out.
    #[inline]
    pub(crate) fn plain(self, c: char, graphemes: bool) -> u8 {
        self.0.get(c as usize).map_or(0, |width| width.0 & plain_mask(graphemes))
    }

    /// Returns true if [`Widths::plain`] is 1 for all four.
    #[inline]
    pub(crate) fn are_narrow(self, chars: [char; 4], graphemes: bool) -> bool {
        let codes = chars.map(|c| c as usize);
        // One comparison for all: the table has a power of two.
        let [a, b, c, d] = codes.map(|code| self.0.get(code % END).map_or(0, |width| width.0));
        let mask = u32::from_ne_bytes([plain_mask(graphemes); 4]);
        codes.iter().fold(0, |all, code| all | code) < END
            && u32::from_ne_bytes([a, b, c, d]) & mask == u32::from_ne_bytes([1; 4])
    }

    /// Returns the width of a character in the planes that the table leaves out.
    fn beyond(c: char) -> Width {
        match c {
            // Ideographs, assigned or not: UAX #11 makes both planes wide as a whole.
            '\u{20000}'..='\u{3ffff}' => Width(2),
            _ => Width::compute(c),
        }
    }

    fn compute() -> Box<[Width; END]> {
        let mut widths = Box::new([Width(1); END]);
        for (width, code) in widths.iter_mut().zip(0..) {
            *width = char::from_u32(code).map_or(*width, Width::compute);
        }
        widths
    }
}

/// Returns the bits of a width that decide whether the character takes a cell of its own. Where graphemes count, a
/// mark that joins takes none.
const fn plain_mask(graphemes: bool) -> u8 {
    if graphemes { 3 | JOINS } else { 3 }
}

/// Returns true if `text` is a single grapheme.
pub(crate) fn is_one_grapheme(text: &str) -> bool {
    text.graphemes(true).nth(1).is_none()
}

/// Returns true if only mode 2027 makes one cell of a text.
pub(crate) fn joins(text: &str, wide: bool) -> bool {
    let columns = |c: char| Widths::table().of(c).columns();
    let mut chars = text.chars();
    let first = chars.next().map_or(1, columns);
    is_one_grapheme(text) && (chars.any(|c| columns(c) > 0) || wide && first < 2)
}

/// Returns true if the width of a text depends on whether its selector for emoji counts.
pub(crate) fn selects_emoji(text: &str) -> bool {
    text.contains('\u{fe0f}')
}

/// Returns the number of columns of a grapheme of several characters: 1 or 2.
pub(crate) fn of_cluster(text: &str) -> usize {
    // A family of four is drawn as one emoji: whatever the sum of its parts, a grapheme takes two columns at most.
    text.width().clamp(1, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_that_programs_expect() {
        let widths = Widths::table();
        for (c, columns) in [
            ('a', 1),
            ('é', 1),
            ('漢', 2),
            ('\u{1f525}', 2),
            ('\u{301}', 0),
            ('\u{200d}', 0),
            ('\u{ad}', 1),
            ('▐', 1),
            ('\u{20000}', 2),
            ('\u{1f1e9}', 1),
            ('\u{10ffff}', 1),
        ] {
            assert_eq!(widths.of(c).columns(), columns, "{c:?}");
        }
        assert!(
            widths.of('\u{301}').may_join()
                && widths.of('\u{1f1e9}').may_join()
                && !widths.of('漢').may_join()
        );
    }

    #[test]
    fn clusters_are_as_wide_as_they_look() {
        for (text, columns) in [
            ("e\u{301}", 1),
            ("\u{2764}\u{fe0f}", 2),
            ("\u{1f468}\u{200d}\u{1f469}", 2),
            ("\u{1f1e9}\u{1f1ea}", 2),
        ] {
            assert_eq!(of_cluster(text), columns, "{text}");
            assert!(is_one_grapheme(text));
        }
    }
}
