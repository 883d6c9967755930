//! Colours: of 256, in a light and a dark variant; fewer where the terminal has fewer, none where the person wants none.

use anstyle::{Ansi256Color, AnsiColor, RgbColor};
use anstyle_lossy::{palette, rgb_to_ansi, rgb_to_xterm, xterm_to_ansi};
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use crate::model::Model;
use crate::syntax::Ink;

/// The colours that a terminal has.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Depth {
    /// None, or none are wanted.
    Plain,
    /// The 16 of ANSI.
    Sixteen,
    /// The 256 of xterm.
    Indexed,
    /// All.
    #[default]
    True,
}

impl Depth {
    /// Returns the nearest colour that there is.
    #[must_use]
    pub fn nearest(self, color: Color) -> Color {
        let ansi = |color: AnsiColor| Color::Indexed(Ansi256Color::from(color).index());
        match (self, color) {
            (_, Color::Reset) | (Self::True, _) => color,
            (Self::Plain, _) => Color::Reset,
            (Self::Indexed, Color::Rgb(r, g, b)) => Color::Indexed(rgb_to_xterm(RgbColor(r, g, b)).index()),
            (Self::Sixteen, Color::Rgb(r, g, b)) => ansi(rgb_to_ansi(RgbColor(r, g, b), palette::DEFAULT)),
            (Self::Sixteen, Color::Indexed(index @ 16..)) => {
                ansi(xterm_to_ansi(Ansi256Color(index), palette::DEFAULT))
            }
            (_, color) => color,
        }
    }

    /// Replaces every colour of a picture by the nearest one that the terminal has, in agents' screens too.
    pub(crate) fn fit(self, picture: &mut Buffer) {
        if self == Self::True {
            return;
        }
        for cell in &mut picture.content {
            (cell.fg, cell.bg) = (self.nearest(cell.fg), self.nearest(cell.bg));
            cell.underline_color = self.nearest(cell.underline_color);
        }
    }
}

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
    /// Something that needs the person.
    Alert,
    /// The selected row.
    Selected,
    /// The status bar.
    Bar,
    /// The background of code that is new.
    New,
    /// The background of code that is gone.
    Old,
    /// A part of code.
    Code(Ink),
}

pub(crate) fn style(model: &Model, look: Look) -> Style {
    let (plain, is_plain) = (Style::default(), model.depth == Depth::Plain);
    let color = |dark: u8, light: u8| {
        if is_plain {
            return Color::Reset;
        }
        Color::Indexed(if model.dark { dark } else { light })
    };
    let on = |foreground: Color| plain.fg(foreground);
    match look {
        Look::Focused => on(color(15, 0)).add_modifier(Modifier::BOLD),
        Look::Dim if is_plain => plain.add_modifier(Modifier::DIM),
        Look::Dim => on(color(243, 246)),
        Look::Strong => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Look::Ready => on(color(80, 31)),
        Look::Good => on(color(114, 28)),
        Look::Bad => on(color(203, 160)),
        Look::Fire => on(color(208, 166)),
        Look::Alert if is_plain => plain.add_modifier(Modifier::REVERSED),
        // Also within the status bar, which is reversed.
        Look::Alert => {
            plain.bg(Color::Indexed(221)).fg(Color::Indexed(16)).remove_modifier(Modifier::REVERSED)
        }
        Look::New => plain.bg(color(22, 194)),
        Look::Old => plain.bg(color(52, 224)),
        Look::Code(Ink::Comment) => on(color(245, 244)).add_modifier(Modifier::ITALIC),
        Look::Code(Ink::Text) => on(color(150, 64)),
        Look::Code(Ink::Constant) => on(color(216, 130)),
        Look::Code(Ink::Keyword) => on(color(141, 91)),
        Look::Code(Ink::Name) => on(color(117, 25)),
        Look::Code(Ink::Type) => on(color(80, 30)),
        // Of 16 colours none is a background for every text.
        Look::Selected if model.depth <= Depth::Sixteen => plain.add_modifier(Modifier::REVERSED),
        // Its own colour, too: a terminal that does not tell its background may have another than we think.
        Look::Selected => plain.bg(color(238, 253)).fg(color(255, 16)),
        Look::Bar => plain.add_modifier(Modifier::REVERSED),
    }
}

/// Returns the colour of a project, `#rrggbb`.
pub(crate) fn of_project(model: &Model) -> Style {
    let text = model.project.color.as_str();
    let part = |at: usize| text.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    match (part(1), part(3), part(5)) {
        (Some(r), Some(g), Some(b)) => Style::default().fg(Color::Rgb(r, g, b)),
        _ => Style::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_colours_that_it_has() {
        let orange = Color::Rgb(255, 135, 0);
        for (depth, color, nearest) in [
            (Depth::True, orange, orange),
            (Depth::Indexed, orange, Color::Indexed(208)),
            (Depth::Indexed, Color::Indexed(208), Color::Indexed(208)),
            (Depth::Sixteen, Color::Rgb(255, 90, 90), Color::Indexed(9)),
            (Depth::Sixteen, Color::Indexed(4), Color::Indexed(4)),
            (Depth::Sixteen, Color::Indexed(16), Color::Indexed(0)),
            (Depth::Plain, orange, Color::Reset),
            (Depth::Sixteen, Color::Reset, Color::Reset),
        ] {
            assert_eq!(depth.nearest(color), nearest, "{depth:?} {color:?}");
        }
    }
}
