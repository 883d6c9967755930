//! Search forwards and backwards.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

use super::joined::Joined;
use super::{Place, Rows};
use crate::{Error, ErrorKind, Result};

/// Bytes of a line that are searched as one text. Of a longer one that was wrapped, a match lies within one piece of whole
/// rows. Some expressions, such as `.*[^A-Z]|[A-Z]`, take time that grows with the square of this.
const PIECE: usize = 32 << 10;
/// Rows after which a search pauses.
const PAUSE: u64 = 4_000;
/// Bytes of a compiled pattern, and of what it may remember while it is searched for.
const COMPILED: usize = 1 << 20;

/// A compiled text or regular expression to search for.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// Treatment of upper and lower case.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Case {
    /// Letters match as they are.
    #[default]
    Exact,
    /// Upper and lower case are the same.
    Ignored,
}

impl Pattern {
    /// Creates a pattern that matches `text` itself.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::InvalidInput`] if the text is longer than some hundred kilobytes.
    pub fn literal(text: &str, case: Case) -> Result<Self> {
        Self::regex(&regex::escape(text), case)
    }

    /// Creates a pattern from a regular expression in the syntax of the crate `regex`. `^` and `$` are the ends of a line.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::InvalidInput`] if the expression is not valid, or takes more than a mebibyte when compiled.
    pub fn regex(expression: &str, case: Case) -> Result<Self> {
        let mut builder = RegexBuilder::new(expression);
        builder.case_insensitive(case == Case::Ignored).size_limit(COMPILED).dfa_size_limit(COMPILED);
        let regex = builder.build().map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "invalid search pattern").with_source(error)
        })?;
        Ok(Self(regex))
    }

    /// Returns the first match that begins at byte `at` of `text` or later. Matches of nothing are left out.
    fn first(&self, text: &str, mut at: usize) -> Option<Range<usize>> {
        while at <= text.len() {
            let found = self.0.find_at(text, at)?;
            if !found.is_empty() {
                return Some(found.range());
            }
            at = found.end() + text.get(found.end()..)?.chars().next()?.len_utf8();
        }
        None
    }

    /// Returns the last match that begins before byte `end`, of those that follow each other from the start of `text`.
    fn last(&self, text: &str, end: usize) -> Option<Range<usize>> {
        let next = |before: &Range<usize>| self.first(text, before.end);
        std::iter::successors(self.first(text, 0), next).take_while(|found| found.start < end).last()
    }
}

/// Result of one step of a search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// Cells of a match, from the first to the last that it touches.
    Match(Range<Place>),
    /// No match so far, and there is more to search: to be called again with this place.
    Paused(Place),
    /// No match up to the end.
    Nothing,
}

impl Rows {
    /// Searches forwards for the first match that begins at `from` or later.
    ///
    /// The next match is found from the end of this one. While the user types, each longer pattern is searched for from the
    /// start of the match before. One call searches at most some thousand rows, and a line that was wrapped in pieces of
    /// 32 KiB: a match that crosses from one into the next is not found.
    #[must_use]
    pub fn find(&self, pattern: &Pattern, from: Place) -> Found {
        let (numbers, mut searched) = (self.numbers(), 0);
        let mut next = from.line.max(numbers.start);
        while next < numbers.end {
            if searched >= PAUSE {
                return Found::Paused(Place::new(next, 0));
            }
            let (rows, joined) = self.piece(next);
            if let Some(found) = pattern.first(&joined.text, joined.byte(from)) {
                return Found::Match(joined.places(&found));
            }
            searched += rows.end - rows.start;
            next = rows.end;
        }
        Found::Nothing
    }

    /// Searches backwards for the last match that begins before `before`.
    ///
    /// The match before it is found from its start. In a line, matches follow each other from its beginning, as a forward
    /// search finds them. One call searches at most some thousand rows.
    #[must_use]
    pub fn rfind(&self, pattern: &Pattern, before: Place) -> Found {
        let (numbers, mut searched) = (self.numbers(), 0);
        // In front of the first column of a row there is only the row above.
        let mut next = before.line.saturating_add(u64::from(before.col > 0)).min(numbers.end);
        while next > numbers.start {
            if searched >= PAUSE {
                return Found::Paused(Place::new(next, 0));
            }
            let (rows, joined) = self.piece(next - 1);
            if let Some(found) = pattern.last(&joined.text, joined.byte(before)) {
                return Found::Match(joined.places(&found));
            }
            searched += rows.end - rows.start;
            next = rows.start;
        }
        Found::Nothing
    }

    /// Returns the part of a line that is searched together with the row `number`.
    fn piece(&self, number: u64) -> (Range<u64>, Joined<'_>) {
        let line = self.line_of(number);
        let (mut rows, mut bytes) = (line.start..line.start, 0);
        // Counted from the start of the line, so that the pieces are the same from wherever a search begins.
        for row in line.clone() {
            let more = self.row(row).map_or(0, |line| line.text().len());
            if bytes > 0 && bytes + more > PIECE {
                if row > number {
                    break;
                }
                (rows.start, bytes) = (row, 0);
            }
            (rows.end, bytes) = (row + 1, bytes + more);
        }
        let joined = Joined::new(self, &rows, rows.end == line.end);
        (rows, joined)
    }
}
