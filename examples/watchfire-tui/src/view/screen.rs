//! The cells of agents' screens as they are.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color as To, Modifier, Style as Look};
use watchfire_core::terminal::{Attributes, Cell, Color, Line, Modes, Palette, Snapshot, Style, Underline};

/// Attributes that cells here have too.
pub(crate) const MODIFIERS: [(Attributes, Modifier); 7] = [
    (Attributes::BOLD, Modifier::BOLD),
    (Attributes::DIM, Modifier::DIM),
    (Attributes::ITALIC, Modifier::ITALIC),
    (Attributes::BLINK, Modifier::SLOW_BLINK),
    (Attributes::INVERSE, Modifier::REVERSED),
    (Attributes::CONCEAL, Modifier::HIDDEN),
    (Attributes::STRIKE, Modifier::CROSSED_OUT),
];

/// Lines of an agent's terminal and their place.
#[derive(Debug)]
pub(crate) struct AgentLines<'a> {
    /// The place.
    pub(crate) area: Rect,
    /// The terminal that they are of.
    pub(crate) screen: &'a Snapshot,
    /// The lines from the top of the place on. `None`: it is on its way.
    pub(crate) lines: Vec<Option<&'a Line>>,
}

impl<'a> AgentLines<'a> {
    /// Yields the cells in a row of the whole picture, with their columns and looks.
    pub(crate) fn cells(&self, row: u16) -> impl Iterator<Item = (u16, Cell<'a>, Look)> {
        let is_within = (self.area.y..self.area.bottom()).contains(&row);
        let at = usize::from(row.saturating_sub(self.area.y));
        let line = self.lines.get(at).copied().flatten().filter(|_| is_within);
        let (mut col, right) = (self.area.x, self.area.right());
        let (palette, modes) = (&self.screen.palette, self.screen.modes);
        line.into_iter().flat_map(Line::cells).map_while(move |cell| {
            let at = col;
            col = col.saturating_add(cell.width);
            // A wide character that does not fit whole is not drawn.
            (col <= right).then(|| (at, cell, look(cell.style, palette, modes)))
        })
    }

    /// Draws them.
    pub(super) fn draw(&self, buffer: &mut Buffer) {
        // What is blank has the looks of the whole screen.
        buffer.set_style(self.area, look(Style::default(), &self.screen.palette, self.screen.modes));
        for row in self.area.y..self.area.bottom() {
            for (col, cell, look) in self.cells(row) {
                let at = &mut buffer[(col, row)];
                at.reset();
                at.set_symbol(if cell.text.is_empty() { " " } else { cell.text });
                at.set_style(look);
                for right in col + 1..col + cell.width {
                    let at = &mut buffer[(right, row)];
                    at.reset();
                    at.set_style(look);
                }
            }
        }
    }
}

fn look(style: Style, palette: &Palette, modes: Modes) -> Look {
    let rgb = |color: [u8; 3]| To::Rgb(color[0], color[1], color[2]);
    let color = |color: Color, default: Option<[u8; 3]>| match color {
        Color::Default => default.map_or(To::Reset, rgb),
        // A colour that the child set is its own; the others are the person's.
        Color::Indexed(n) => palette.indexed.get(&n).map_or(To::Indexed(n), |color| rgb(*color)),
        Color::Rgb(r, g, b) => To::Rgb(r, g, b),
    };
    let mut look = Look::default()
        .fg(color(style.foreground, palette.foreground))
        .bg(color(style.background, palette.background));
    let is_reversed = style.attributes.contains(Attributes::INVERSE) != modes.contains(Modes::REVERSE_SCREEN);
    for (attribute, modifier) in MODIFIERS {
        let is_on = match attribute {
            Attributes::INVERSE => is_reversed,
            other => style.attributes.contains(other),
        };
        if is_on {
            look = look.add_modifier(modifier);
        }
    }
    if style.underline != Underline::None {
        look = look.add_modifier(Modifier::UNDERLINED).underline_color(color(style.underline_color, None));
    }
    look
}
