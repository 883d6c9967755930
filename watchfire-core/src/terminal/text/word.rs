//! Selection of words.

use std::ops::Range;

use super::joined::Joined;
use super::{Place, Rows};

impl Rows {
    /// Returns the range of the word at `place`, also where it was wrapped. White space and the characters in `separators`
    /// end words; at one of them the range is its cell, and behind the end of a line the range is empty.
    #[must_use]
    pub fn word_at(&self, place: Place, separators: &str) -> Range<Place> {
        let joined = Joined::new(self, &self.line_of(place.line), true);
        let at = joined.byte(place);
        let (before, after) = joined.text.split_at(at);
        let ends = |c: char| c.is_whitespace() || separators.contains(c);
        let Some(first) = after.chars().next() else { return place..place };
        if ends(first) {
            return joined.places(&(at..at + first.len_utf8()));
        }
        // The character that ends the word may have several bytes.
        let start = before.char_indices().rev().take_while(|(_, c)| !ends(*c)).last();
        let end = after.find(ends).unwrap_or(after.len());
        joined.places(&(start.map_or(at, |(index, _)| index)..at + end))
    }
}
