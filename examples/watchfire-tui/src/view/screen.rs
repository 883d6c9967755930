//! The cells of an agent's screen as they are.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color as To, Modifier, Style as Look};
use watchfire_core::terminal::{Attributes, Color, Line, Modes, Snapshot, Style, Underline};

/// Draws a screen into the top left of a place.
pub(super) fn draw(snapshot: &Snapshot, buffer: &mut Buffer, area: Rect) {
    for (row, line) in (area.y..area.bottom()).zip(&snapshot.lines) {
        draw_line(line, buffer, Rect::new(area.x, row, area.width, 1));
    }
    if snapshot.modes.contains(Modes::REVERSE_SCREEN) {
        buffer.set_style(area, Look::default().add_modifier(Modifier::REVERSED));
    }
}

/// Draws one line.
pub(super) fn draw_line(line: &Line, buffer: &mut Buffer, area: Rect) {
    let mut col = area.x;
    for cell in line.cells() {
        let next = col.saturating_add(cell.width);
        // A wide character that does not fit whole is not drawn.
        if next > area.right() {
            return;
        }
        let at = &mut buffer[(col, area.y)];
        at.set_symbol(if cell.text.is_empty() { " " } else { cell.text });
        at.set_style(look(cell.style));
        for right in col + 1..next {
            let at = &mut buffer[(right, area.y)];
            at.reset();
            at.set_style(look(cell.style));
        }
        col = next;
    }
}

fn look(style: Style) -> Look {
    let mut look = Look::default().fg(color(style.foreground)).bg(color(style.background));
    let all = [
        (Attributes::BOLD, Modifier::BOLD),
        (Attributes::DIM, Modifier::DIM),
        (Attributes::ITALIC, Modifier::ITALIC),
        (Attributes::BLINK, Modifier::SLOW_BLINK),
        (Attributes::INVERSE, Modifier::REVERSED),
        (Attributes::CONCEAL, Modifier::HIDDEN),
        (Attributes::STRIKE, Modifier::CROSSED_OUT),
    ];
    for (attribute, modifier) in all {
        if style.attributes.contains(attribute) {
            look = look.add_modifier(modifier);
        }
    }
    if style.underline != Underline::None {
        look = look.add_modifier(Modifier::UNDERLINED).underline_color(color(style.underline_color));
    }
    look
}

fn color(color: Color) -> To {
    match color {
        Color::Default => To::Reset,
        Color::Indexed(n) => To::Indexed(n),
        Color::Rgb(r, g, b) => To::Rgb(r, g, b),
    }
}
