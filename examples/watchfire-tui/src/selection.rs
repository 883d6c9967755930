//! Text that the person selects and copies with the mouse.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::Span;
use watchfire_core::terminal::Line;

use crate::model::Model;
use crate::view;

/// A selection: from the cell where the button went down to the cell under the mouse, as text flows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Selection {
    /// Start.
    pub from: Position,
    /// End, inclusive.
    pub to: Position,
}

impl Selection {
    /// Returns a selection that begins here.
    #[must_use]
    pub fn at(place: Position) -> Self {
        Self { from: place, to: place }
    }

    /// Returns its columns in each row of `area`.
    fn rows(self, area: Rect) -> impl Iterator<Item = (u16, std::ops::Range<u16>)> {
        let key = |place: Position| (place.y, place.x);
        let (first, last) = match key(self.from) <= key(self.to) {
            true => (self.from, self.to),
            false => (self.to, self.from),
        };
        (first.y.max(area.y)..(last.y + 1).min(area.bottom())).map(move |row| {
            let from = if row == first.y { first.x.max(area.x) } else { area.x };
            let to = if row == last.y { (last.x + 1).min(area.right()) } else { area.right() };
            (row, from..to)
        })
    }

    /// Shows it in a picture.
    pub(crate) fn draw(self, area: Rect, buffer: &mut Buffer) {
        for (row, columns) in self.rows(area) {
            for column in columns {
                if let Some(cell) = buffer.cell_mut((column, row)) {
                    cell.modifier.toggle(Modifier::REVERSED);
                }
            }
        }
    }

    /// Returns its text in the right panel of a model's picture, without the blanks at the ends of lines. A line of the agent's that
    /// was broken because the panel is narrow is one line again.
    #[must_use]
    pub fn text(self, model: &Model, buffer: &Buffer) -> String {
        let area = model.areas().terminal;
        let lines = view::agent_lines(model).into_iter().next().map(|agent| agent.lines).unwrap_or_default();
        let goes_on = |row: u16| {
            let line = lines.get(usize::from(row.saturating_sub(area.y))).copied().flatten();
            line.is_some_and(Line::is_wrapped)
        };
        let line = |(row, columns): (u16, std::ops::Range<u16>)| {
            let (mut line, mut covered) = (String::new(), 0);
            for column in columns {
                // The cells behind a wide character are its.
                if covered > 0 {
                    covered -= 1;
                    continue;
                }
                let symbol = buffer.cell((column, row)).map_or("", |cell| cell.symbol());
                covered = Span::raw(symbol).width().saturating_sub(1);
                line.push_str(symbol);
            }
            if goes_on(row) { line } else { format!("{}\n", line.trim_end()) }
        };
        let text: String = self.rows(area).map(line).collect();
        text.trim_end_matches('\n').to_owned()
    }
}
