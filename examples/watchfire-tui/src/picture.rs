//! The picture of a model as a terminal shows it, and the bytes from one picture to the next.
//!
//! Widgets are drawn with ratatui, whose cells know one kind of underline and no links. An agent's cells have more, and get it
//! back here, wherever nothing was drawn over them.

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell as Drawn};
use ratatui::layout::Position;
use ratatui::style::{Color as Ink, Modifier};
use ratatui::text::Span;
use watchfire_core::terminal::{
    Attributes, Cell, Color, Cursor, Generation, Hyperlink, Line, Run, RunKind, Size, Snapshot, Style,
    Underline,
};
use watchfire_term::diff;

use crate::model::Model;
use crate::theme::Depth;
use crate::view::{AgentLines, MODIFIERS, agent_lines, view};

/// Paints models onto one terminal, which shows nothing else.
#[derive(Debug)]
pub struct Painter {
    terminal: Terminal<TestBackend>,
    shown: Option<Snapshot>,
}

impl Default for Painter {
    fn default() -> Self {
        let Ok(terminal) = Terminal::new(TestBackend::new(0, 0));
        Self { terminal, shown: None }
    }
}

impl Painter {
    /// Returns the bytes that make the terminal show a model.
    pub fn paint(&mut self, model: &Model) -> String {
        let now = self.picture(model);
        let bytes = match &self.shown {
            Some(before) => diff::repaint(before, &now),
            None => diff::paint(&now),
        };
        self.shown = Some(now);
        bytes
    }

    /// Returns the cells of a model.
    pub(crate) fn draw(&mut self, model: &Model) -> (Buffer, Option<Position>) {
        let (cols, rows) = model.size;
        let backend = self.terminal.backend_mut();
        if backend.buffer().area.as_size() != (cols, rows).into() {
            backend.resize(cols, rows);
        }
        let mut cursor = None;
        // Memory does not fail.
        let Ok(frame) = self.terminal.draw(|frame| {
            view(model, frame);
            cursor = crate::view::cursor(model);
        });
        (frame.buffer.clone(), cursor)
    }

    fn picture(&mut self, model: &Model) -> Snapshot {
        let (buffer, cursor) = self.draw(model);
        let agents = agent_lines(model);
        let mut lines: Vec<_> = (0..buffer.area.height)
            .map(|row| line(&buffer, row, &agents, model.depth))
            .map(Arc::new)
            .collect();
        // A row that is as before is the same one, which nobody compares again.
        for (new, old) in lines.iter_mut().zip(self.shown.iter().flat_map(|shown| &shown.lines)) {
            if *new == *old {
                new.clone_from(old);
            }
        }
        let mut place = Cursor::default();
        place.hidden = true;
        if let (Some(at), Some(screen)) = (cursor, &model.terminal.snapshot) {
            place = screen.cursor;
            (place.row, place.col, place.hidden) = (at.y, at.x, false);
        }
        let size = Size::new(buffer.area.width, buffer.area.height);
        Snapshot::new(size, lines, place, Generation::default())
    }
}

/// Returns a row of a buffer.
fn line(buffer: &Buffer, row: u16, agents: &[AgentLines<'_>], depth: Depth) -> Line {
    let (mut text, mut runs, mut links) = (String::new(), Vec::<Run>::new(), Vec::<Arc<Hyperlink>>::new());
    let of_agents: Vec<_> = agents.iter().flat_map(|agent| agent.cells(row)).collect();
    let mut of_agents = of_agents.iter().peekable();
    let mut col = 0;
    while col < buffer.area.width {
        let drawn = &buffer[(col, row)];
        while of_agents.next_if(|(at, ..)| *at < col).is_some() {}
        let agents =
            of_agents.peek().filter(|(at, cell, look)| *at == col && is_same(drawn, cell, look, depth));
        let symbol = drawn.symbol();
        let mut style = style_of(drawn);
        let mut link = 0;
        let width = match agents {
            Some((_, cell, _)) => {
                style.underline = cell.style.underline;
                let overlined = cell.style.attributes.contains(Attributes::OVERLINE);
                style.attributes = style.attributes.with(Attributes::OVERLINE, overlined);
                link = cell.link.map_or(0, |link| number(&mut links, link));
                cell.width
            }
            None => u16::try_from(Span::raw(symbol).width()).unwrap_or(1).clamp(1, 2),
        };
        // What would reach beyond the edge is not there.
        let (symbol, width) = if col + width > buffer.area.width { (" ", 1) } else { (symbol, width) };
        let is_one = symbol.chars().nth(1).is_none();
        let kind = match (is_one, width) {
            (true, 1) => RunKind::Narrow,
            (true, _) => RunKind::Wide,
            (false, _) => RunKind::Cluster,
        };
        let bytes = u32::try_from(symbol.len()).unwrap_or(0);
        text.push_str(symbol);
        match runs.last_mut() {
            Some(run)
                if kind != RunKind::Cluster && (run.style, run.link, run.kind) == (style, link, kind) =>
            {
                run.bytes += bytes;
                run.columns += width;
            }
            _ => runs.push(Run { style, bytes, columns: width, link, kind }),
        }
        col += width;
    }
    Line::new(text, runs, false).with_links(links)
}

/// Returns the number of a link in its line.
fn number(links: &mut Vec<Arc<Hyperlink>>, link: &Hyperlink) -> u16 {
    let at = links.iter().position(|known| **known == *link).unwrap_or_else(|| {
        links.push(Arc::new(link.clone()));
        links.len() - 1
    });
    u16::try_from(at + 1).unwrap_or(0)
}

/// Returns true if a cell shows what an agent's screen has there.
fn is_same(drawn: &Drawn, cell: &Cell<'_>, look: &ratatui::style::Style, depth: Depth) -> bool {
    let color = |color: Option<Ink>| depth.nearest(color.unwrap_or(Ink::Reset));
    let text = if cell.text.is_empty() { " " } else { cell.text };
    drawn.symbol() == text
        && (drawn.fg, drawn.bg) == (color(look.fg), color(look.bg))
        && drawn.modifier == look.add_modifier
}

fn style_of(drawn: &Drawn) -> Style {
    let color = |color: Ink| match color {
        Ink::Indexed(index) => Color::Indexed(index),
        Ink::Rgb(r, g, b) => Color::Rgb(r, g, b),
        // Of the names of ANSI's colours we use none.
        _ => Color::Default,
    };
    let has = |(attribute, modifier): &(Attributes, Modifier)| {
        drawn.modifier.contains(*modifier).then_some(*attribute)
    };
    Style {
        foreground: color(drawn.fg),
        background: color(drawn.bg),
        underline_color: color(drawn.underline_color),
        attributes: MODIFIERS
            .iter()
            .filter_map(has)
            .fold(Attributes::default(), |all, attribute| all.with(attribute, true)),
        underline: match drawn.modifier.contains(Modifier::UNDERLINED) {
            true => Underline::Single,
            false => Underline::None,
        },
    }
}
