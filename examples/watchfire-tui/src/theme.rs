//! Colours: of 256, in a light and a dark variant; none where the person wants none.

use ratatui::style::{Color, Modifier, Style};

use crate::model::Model;

/// Role of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    /// The border of the panel that has the keys.
    Focused,
    /// Another border, a tab in the back, remarks.
    Dim,
    /// A tab in front, a heading.
    Strong,
    /// A task that may start.
    Ready,
    /// A task at work, or done well.
    Good,
    /// A task that failed, an error.
    Bad,
    /// Wildfire.
    Fire,
    /// What needs the person.
    Alert,
    /// The selected row.
    Selected,
    /// The status bar.
    Bar,
}

pub(crate) fn style(model: &Model, look: Look) -> Style {
    let plain = Style::default();
    let color = |dark: u8, light: u8| {
        if model.plain {
            return Color::Reset;
        }
        Color::Indexed(if model.dark { dark } else { light })
    };
    let on = |foreground: Color| plain.fg(foreground);
    match look {
        Look::Focused => on(color(15, 0)).add_modifier(Modifier::BOLD),
        Look::Dim if model.plain => plain.add_modifier(Modifier::DIM),
        Look::Dim => on(color(243, 246)),
        Look::Strong => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Look::Ready => on(color(80, 31)),
        Look::Good => on(color(114, 28)),
        Look::Bad => on(color(203, 160)),
        Look::Fire => on(color(208, 166)),
        Look::Alert if model.plain => plain.add_modifier(Modifier::REVERSED),
        // Also within the status bar, which is reversed.
        Look::Alert => {
            plain.bg(Color::Indexed(221)).fg(Color::Indexed(16)).remove_modifier(Modifier::REVERSED)
        }
        Look::Selected if model.plain => plain.add_modifier(Modifier::REVERSED),
        Look::Selected => plain.bg(color(238, 253)),
        Look::Bar => plain.add_modifier(Modifier::REVERSED),
    }
}

/// Returns the colour of a project, `#rrggbb`.
pub(crate) fn of_project(model: &Model) -> Style {
    let text = model.project.color.as_str();
    let part = |at: usize| text.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    match (part(1), part(3), part(5)) {
        (Some(r), Some(g), Some(b)) if !model.plain => Style::default().fg(Color::Rgb(r, g, b)),
        _ => Style::default(),
    }
}
