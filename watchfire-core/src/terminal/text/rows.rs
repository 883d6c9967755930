//! Rows of scrollback and screen by their numbers.

use std::ops::Range;
use std::sync::Arc;

use super::Place;
use crate::terminal::{Cell, Line, Modes, Palette, Snapshot, Terminal};

/// Rows of a screen and of the scrollback above it, as they were at one moment.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Number of the first row.
    first: u64,
    scrollback: Vec<Line>,
    screen: Box<[Arc<Line>]>,
    pub(super) palette: Arc<Palette>,
    pub(super) modes: Modes,
}

impl Rows {
    /// Creates rows from `snapshot` and the `scrollback` directly above it, oldest first.
    #[must_use]
    pub fn new(snapshot: &Snapshot, scrollback: Vec<Line>) -> Self {
        Self {
            first: snapshot.scrollback.end.saturating_sub(scrollback.len() as u64),
            scrollback,
            screen: snapshot.lines.clone(),
            palette: Arc::clone(&snapshot.palette),
            modes: snapshot.modes,
        }
    }

    /// Reads the screen and all of the scrollback of `terminal`.
    #[must_use]
    pub fn of(terminal: &mut (impl Terminal + ?Sized)) -> Self {
        let snapshot = terminal.snapshot();
        let scrollback = terminal.scrollback(snapshot.scrollback.clone());
        Self::new(&snapshot, scrollback)
    }

    /// Returns the numbers of the rows.
    #[must_use]
    pub fn numbers(&self) -> Range<u64> {
        self.first..self.screen_start() + self.screen.len() as u64
    }

    /// Returns the row with a number.
    #[must_use]
    pub fn row(&self, number: u64) -> Option<&Line> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        match index.checked_sub(self.scrollback.len()) {
            None => self.scrollback.get(index),
            Some(index) => self.screen.get(index).map(|line| &**line),
        }
    }

    /// Returns the range of everything up to the end of the last row that is not blank.
    #[must_use]
    pub fn all(&self) -> Range<Place> {
        let first = Place::new(self.first, 0);
        let is_shown = |number: &u64| self.cells(*number).any(|(_, cell)| !is_blank(&cell));
        let last = self.numbers().rev().find(is_shown);
        first..last.map_or(first, |number| Place::new(number, self.width(number)))
    }

    /// Returns the range of the line at `place`, with all rows that it was wrapped into and without trailing blanks.
    #[must_use]
    pub fn line_at(&self, place: Place) -> Range<Place> {
        let rows = self.line_of(place.line);
        Place::new(rows.start, 0)..self.content_end(&rows)
    }

    /// Returns the numbers of the rows that one line was wrapped into. A row that does not exist is a line by itself.
    pub(super) fn line_of(&self, number: u64) -> Range<u64> {
        let (mut start, mut end) = (number, number.saturating_add(1));
        while start > self.first && self.is_joined(start - 1) {
            start -= 1;
        }
        while end < self.numbers().end && self.is_joined(end - 1) {
            end += 1;
        }
        start..end
    }

    /// Returns the place after the last cell of a line that is not blank.
    pub(super) fn content_end(&self, rows: &Range<u64>) -> Place {
        let end = rows.clone().rev().find_map(|number| {
            let last = self.cells(number).filter(|(_, cell)| !is_blank(cell)).last();
            last.map(|(col, cell)| Place::new(number, col.saturating_add(cell.width)))
        });
        end.unwrap_or(Place::new(rows.start, 0))
    }

    /// Yields the cells of a row with their columns.
    pub(super) fn cells(&self, number: u64) -> impl Iterator<Item = (u16, Cell<'_>)> {
        self.row(number).into_iter().flat_map(|line| {
            line.cells().scan(0_u16, |next, cell| {
                let col = *next;
                *next = next.saturating_add(cell.width);
                Some((col, cell))
            })
        })
    }

    fn width(&self, number: u64) -> u16 {
        self.cells(number).last().map_or(0, |(col, cell)| col.saturating_add(cell.width))
    }

    fn screen_start(&self) -> u64 {
        self.first + self.scrollback.len() as u64
    }

    /// Returns true if the line goes on in the next row.
    fn is_joined(&self, number: u64) -> bool {
        // What the last row of the scrollback goes on in is on the main screen.
        let cut = self.modes.contains(Modes::ALTERNATE_SCREEN) && number + 1 == self.screen_start();
        !cut && self.row(number).is_some_and(Line::is_wrapped)
    }
}

pub(super) fn is_blank(cell: &Cell<'_>) -> bool {
    cell.text == " "
}
