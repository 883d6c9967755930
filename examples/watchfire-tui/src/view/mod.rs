//! Draws a model. Pure: the same model gives the same screen.

mod bars;
mod left;
mod overlay;
mod right;
mod screen;
mod tiles;

use ratatui::Frame;
use ratatui::layout::{Alignment, Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, BorderType, Paragraph, Wrap};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) use bars::{agent_tabs, left_tabs, right_tabs};
pub(crate) use overlay::info_lines;
pub(crate) use right::{first_log, log_rows};
pub(crate) use screen::{AgentLines, MODIFIERS};

use crate::ascii;
use crate::layout::{Areas, SMALLEST};
use crate::model::{Connection, Focus, Model, Overlay};
use crate::theme::{Look, style};

/// Returns the lines of agents' terminals that a picture of the model shows.
pub(crate) fn agent_lines(model: &Model) -> Vec<AgentLines<'_>> {
    match model.tiles {
        Some(_) => tiles::lines(model),
        None => right::lines(model).into_iter().collect(),
    }
}

/// Returns the place of the cursor. Where text is typed elsewhere, the text shows its own.
pub(crate) fn cursor(model: &Model) -> Option<Position> {
    if model.tiles.is_some()
        || model.connection != Connection::Connected && model.connection != Connection::Lost
    {
        return None;
    }
    right::cursor(model)
}

/// Draws a model, in the colours that the terminal has.
pub fn view(model: &Model, frame: &mut Frame<'_>) {
    draw(model, frame);
    model.depth.fit(frame.buffer_mut());
    if model.ascii {
        ascii::fit(frame.buffer_mut());
    }
}

fn draw(model: &Model, frame: &mut Frame<'_>) {
    let whole = frame.area();
    if Areas::is_too_small(model.size) {
        let (cols, rows) = model.size;
        let words =
            format!("Terminal too small\n{cols}x{rows}, and {}x{} are needed", SMALLEST.0, SMALLEST.1);
        return middle(frame, whole, &words);
    }
    match model.connection {
        Connection::Starting => return middle(frame, whole, "Starting daemon..."),
        Connection::ShutDown => return middle(frame, whole, "Daemon shut down. Press any key to exit."),
        Connection::Connected | Connection::Lost => {}
    }
    let areas = model.areas();
    bars::header(model, frame, areas.header);
    if model.tiles.is_some() {
        tiles::view(model, frame, areas.tiles);
        bars::status(model, frame, areas.status);
        return over(model, frame);
    }
    if !model.zoomed {
        frame.render_widget(panel(model, Focus::Left), areas.left);
        left::view(model, frame, areas.list);
    }
    frame.render_widget(panel(model, Focus::Right), areas.right);
    right::view(model, frame, &areas);
    if let Some(selection) = model.selection {
        selection.draw(areas.terminal, frame.buffer_mut());
    }
    bars::agents(model, frame, areas.right);
    bars::status(model, frame, areas.status);
    over(model, frame);
}

/// Draws what lies over the panels.
fn over(model: &Model, frame: &mut Frame<'_>) {
    match &model.overlay {
        Some(Overlay::Help) => overlay::help(model, frame),
        Some(Overlay::Task(form)) => overlay::task(model, form, frame),
        Some(Overlay::List(list)) => overlay::list(model, list, frame),
        Some(Overlay::Info(number, at)) => overlay::info(model, *number, *at, frame),
        // Those are in the status bar.
        Some(Overlay::Confirm(_) | Overlay::Words(..) | Overlay::Find(_)) | None => {}
    }
}

fn panel(model: &Model, focus: Focus) -> Block<'static> {
    let look = if model.focus == focus { Look::Focused } else { Look::Dim };
    Block::bordered().border_type(BorderType::Rounded).border_style(style(model, look))
}

/// Writes words into the middle of a place.
fn middle(frame: &mut Frame<'_>, area: Rect, words: &str) {
    let text = Text::from(words.lines().map(|line| Line::from(line.to_owned())).collect::<Vec<_>>());
    let height = u16::try_from(text.height()).unwrap_or(1).min(area.height);
    let at = Rect::new(area.x, area.y + (area.height - height) / 2, area.width, height);
    // What is too long for one line is read in several.
    let at = Rect { height: area.bottom() - at.y, ..at };
    let text = Paragraph::new(text).alignment(Alignment::Center).wrap(Wrap { trim: true });
    frame.render_widget(text.style(Style::default()), at);
}

/// Returns a text with blanks for control characters, so that a task's title or an error can neither move our cursor nor
/// reverse the text.
fn clean(text: &str) -> String {
    let is_bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_bad(c) { ' ' } else { c }).collect()
}

/// Returns the rows of a text in a place of some columns, each clean. Lines break at blanks, and long words where they must.
pub(crate) fn wrapped(text: &str, columns: u16) -> Vec<String> {
    let columns = usize::from(columns.max(1));
    let mut rows = Vec::new();
    for line in text.lines() {
        // The text may be long, so that no row is measured twice.
        let (mut row, mut taken) = (String::new(), 0);
        for word in clean(&line.replace('\t', "    ")).split_inclusive(' ') {
            if taken + word.trim_end().width() > columns && !row.is_empty() {
                rows.push(std::mem::take(&mut row));
                taken = 0;
            }
            for c in word.chars() {
                let width = c.width().unwrap_or(0);
                if taken + width > columns && !c.is_whitespace() {
                    rows.push(std::mem::take(&mut row));
                    taken = 0;
                }
                row.push(c);
                taken += width;
            }
        }
        row.truncate(row.trim_end().len());
        rows.push(row);
    }
    rows
}
