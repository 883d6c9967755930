//! The overlays: help, and the form of a task.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};
use ratatui_textarea::TextArea;

use crate::forms::{Field, TaskForm};
use crate::model::Model;
use crate::theme::{Look, style};

/// Every key, by where it counts.
const KEYS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Everywhere",
        &[
            ("Ctrl+q", "quit; agents go on"),
            ("Ctrl+h", "this help"),
            ("Tab", "the other panel"),
            ("mouse", "click tabs and rows, drag the divider, scroll"),
        ],
    ),
    (
        "Left panel",
        &[("1 2 3  h l", "tabs"), ("j k", "up and down"), ("?", "this help"), ("g G", "first and last task")],
    ),
    (
        "Tasks",
        &[
            ("a  e  x", "add, edit, delete"),
            ("s", "start; S all, W wildfire, c chat"),
            ("r  t  d", "ready, draft, done"),
            ("J K", "move down and up"),
            ("m", "merge its branch"),
            ("/", "show only those with a text"),
            ("A  R  X", "answer; resume after a limit; stop all"),
        ],
    ),
    (
        "Terminal",
        &[("PgUp PgDn", "scroll back"), ("Alt+z", "the whole screen"), ("all else", "goes to the agent")],
    ),
    ("Logs", &[("Enter", "read"), ("Esc", "back to the list")]),
];

fn place(model: &Model, width: u16, height: u16) -> Rect {
    let (cols, rows) = model.size;
    let (width, height) = (width.min(cols), height.min(rows));
    Rect::new((cols - width) / 2, (rows - height) / 2, width, height)
}

fn frame_of(model: &Model, title: &str) -> Block<'static> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(style(model, Look::Focused))
        .title(format!(" {title} "))
}

pub(super) fn help(model: &Model, frame: &mut Frame<'_>) {
    let mut lines = Vec::new();
    for (heading, keys) in KEYS {
        lines.push(Line::from(Span::styled(heading, style(model, Look::Strong))));
        for (key, does) in keys {
            lines.push(Line::from(format!("  {key:<12}{does}")));
        }
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let at = place(model, 64, height);
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(lines).block(frame_of(model, "Keys")), at);
}

pub(super) fn task(model: &Model, form: &TaskForm, frame: &mut Frame<'_>) {
    let title = match form.number {
        None => "Add Task".to_owned(),
        Some(number) => format!("Edit Task #{number:04}"),
    };
    let (cols, rows) = model.size;
    let at = place(model, cols.saturating_sub(8).min(100), rows.saturating_sub(4));
    frame.render_widget(Clear, at);
    frame.render_widget(frame_of(model, &title), at);
    let within = Rect::new(at.x + 2, at.y + 1, at.width.saturating_sub(4), at.height.saturating_sub(2));
    // Title and status have a row each; the texts share the rest, two thirds for what is to be done.
    let texts = within.height.saturating_sub(6);
    let prompt = (texts * 2 / 3).max(1);
    let mut top = within.y;
    let mut next = |height: u16| {
        let at = Rect::new(within.x, top, within.width, height).intersection(within);
        top += height;
        at
    };
    let label = |field: Field, words: &'static str| {
        let look = if form.field == field { Look::Strong } else { Look::Dim };
        Span::styled(words, style(model, look))
    };
    frame.render_widget(label(Field::Title, "Title"), next(1));
    area(model, &form.title.0, form.field == Field::Title, frame, next(1));
    frame.render_widget(label(Field::Prompt, "Prompt"), next(1));
    area(model, &form.prompt, form.field == Field::Prompt, frame, next(prompt));
    frame.render_widget(label(Field::Criteria, "Acceptance criteria"), next(1));
    area(
        model,
        &form.criteria,
        form.field == Field::Criteria,
        frame,
        next(texts.saturating_sub(prompt).max(1)),
    );
    let status = if form.ready { "( ) draft  (•) ready" } else { "(•) draft  ( ) ready" };
    let line = Line::from(vec![label(Field::Status, "Status"), Span::raw(format!("  {status}"))]);
    frame.render_widget(Paragraph::new(line), next(1));
    let (words, look) = match form.problem {
        Some(problem) => (problem, style(model, Look::Bad)),
        None => ("Shift+Tab or Ctrl+↓/↑ between fields", style(model, Look::Dim)),
    };
    frame.render_widget(Span::styled(words, look), next(1));
}

/// Draws a text. Only the field that has the keys shows its cursor.
fn area(model: &Model, text: &TextArea<'static>, has_keys: bool, frame: &mut Frame<'_>, at: Rect) {
    let mut text = text.clone();
    text.set_cursor_line_style(Style::default());
    if !has_keys {
        text.set_cursor_style(Style::default());
    }
    text.set_style(if has_keys { style(model, Look::Selected) } else { Style::default() });
    frame.render_widget(&text, at);
}
