//! Numbers for graphemes of several characters.

use std::collections::HashMap;

use crate::cells::cell::{CLUSTER_MAX, Cell, NOT_ALONE, Pen};
use crate::cells::width;

/// Longest cluster, in bytes; what would make it longer is dropped. The flag of Scotland has 28.
const LONGEST: usize = 64;
const FIRST_LIMIT: usize = 1 << 10;
/// A power of two; see [`Addition::slot`].
const RECENT: usize = 128;

/// Graphemes of several characters by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    free: Vec<u32>,
    limit: usize,
    /// Results of recent additions of characters. Empty until the first one.
    recent: Vec<(Addition, Option<Joined>)>,
}

/// An addition of a character to a cell: the content of the cell, the character, and a flag that requires a grapheme.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Addition(u64);

/// The cell that results when a character is added to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    /// Without a style.
    pub(crate) cell: Cell,
    /// The width that the whole is drawn with.
    pub(crate) columns: u8,
}

impl Addition {
    const fn new(old: Cell, c: char, grapheme: bool) -> Self {
        Self(old.text() | (c as u64) << 24 | (grapheme as u64) << 48)
    }

    /// Returns its slot among recent ones.
    const fn slot(self) -> usize {
        // The upper seven bits: one of 128 slots.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize
    }
}

impl Clusters {
    /// Returns the text of a cluster.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("\u{fffd}", |text| text)
    }

    /// Returns a cell with `text`, which is one grapheme.
    pub(crate) fn cell(&mut self, text: &str, pen: Pen) -> Cell {
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (None, _) => Cell::new(0, pen),
            (Some(c), None) if c != NOT_ALONE => Cell::new(u32::from(c), pen),
            (Some(c), _) => match self.number(text) {
                Some(number) => Cell::new(number, pen).with(Cell::CLUSTER),
                // No number is free. Rather a replacement than a code that means something else.
                None if c == NOT_ALONE => Cell::new(u32::from(char::REPLACEMENT_CHARACTER), pen),
                None => Cell::new(u32::from(c), pen),
            },
        }
    }

    /// Adds a character to a cell and returns the result, or `None` if `grapheme` is set and they form more than one.
    pub(crate) fn join(&mut self, old: Cell, c: char, grapheme: bool) -> Option<Joined> {
        let addition = Addition::new(old, c, grapheme);
        match self.recent.get(addition.slot()) {
            Some((known, joined)) if *known == addition => *joined,
            _ => self.join_text(old, c, grapheme, addition),
        }
    }

    #[cold]
    fn join_text(&mut self, old: Cell, c: char, grapheme: bool, addition: Addition) -> Option<Joined> {
        let mut text = String::with_capacity(LONGEST);
        self.write(old, &mut text);
        text.push(c);
        let joined = if grapheme && !width::is_one_grapheme(&text) {
            None
        // Marks without end on one letter would fill memory through a single cell.
        } else if text.len() > LONGEST {
            Some(Joined { cell: Cell::BLANK.with(old.text()), columns: 0 })
        } else {
            let cell = self.cell(&text, Pen::default());
            Some(Joined { cell, columns: width::of_cluster(&text) as u8 })
        };
        // Finding the edges of graphemes is slow, and a stream has the same few emoji and marks again and again.
        self.recent.resize(RECENT, Default::default());
        if let Some(recent) = self.recent.get_mut(addition.slot()) {
            *recent = (addition, joined);
        }
        joined
    }

    fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(slot) = self.texts.get_mut(number as usize) {
                    *slot = text.into();
                }
                number
            }
            None if self.texts.len() <= CLUSTER_MAX as usize => {
                self.texts.push(text.into());
                (self.texts.len() - 1) as u32
            }
            None => return None,
        };
        self.numbers.insert(text.into(), number);
        Some(number)
    }

    /// Appends the text of a cell.
    #[inline]
    pub(crate) fn write(&self, cell: Cell, out: &mut String) {
        if cell.has(Cell::CLUSTER) {
            out.push_str(self.text(cell.content()));
        } else {
            match cell.content() {
                0 => out.push(' '),
                code => out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
            }
        }
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.numbers.len() >= self.limit.max(FIRST_LIMIT)
    }

    /// Forgets all clusters that are in none of the cells.
    pub(crate) fn retain(&mut self, cells: impl Iterator<Item = Cell>) {
        // Answers that name clusters by numbers, which may be given to others now.
        self.recent.clear();
        let mut used = vec![false; self.texts.len()];
        for cell in cells.filter(|cell| cell.has(Cell::CLUSTER)) {
            if let Some(used) = used.get_mut(cell.content() as usize) {
                *used = true;
            }
        }
        let (free, texts) = (&mut self.free, &mut self.texts);
        self.numbers.retain(|_, number| {
            let kept = used.get(*number as usize).copied().unwrap_or(false);
            if !kept {
                free.push(*number);
                if let Some(text) = texts.get_mut(*number as usize) {
                    *text = "".into();
                }
            }
            kept
        });
        self.limit = self.numbers.len() * 2;
    }

    pub(crate) fn memory(&self) -> usize {
        let texts: usize = self.texts.iter().map(|text| text.len()).sum();
        texts * 2
            + self.texts.capacity() * 16
            + self.numbers.capacity() * 25
            + self.free.capacity() * 4
            + self.recent.capacity() * size_of::<(Addition, Option<Joined>)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_numbered_once_and_forgotten() {
        let mut clusters = Clusters::default();
        let cell = clusters.cell("e\u{301}", Pen::default());
        assert_eq!(clusters.cell("e\u{301}", Pen::default()), cell);
        assert_eq!(clusters.cell("x", Pen::default()), Cell::new(u32::from('x'), Pen::default()));
        clusters.retain([cell].into_iter());
        let mut text = String::new();
        clusters.write(cell, &mut text);
        assert_eq!(text, "e\u{301}");
        clusters.retain(std::iter::empty());
        assert_eq!(clusters.cell("o\u{308}", Pen::default()).content(), cell.content());
    }
}
