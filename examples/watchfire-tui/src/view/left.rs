//! The left panel: tasks, definition, settings.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use watchfire_client::daemon_proto as proto;

use super::{clean, middle, wrapped};
use crate::alerts;
use crate::model::{Focus, LeftTab, Model};
use crate::tasks::{Row, first_row, rows};
use crate::theme::{Look, style};
use crate::update::left::{FIELDS, TEXTS, is_on, text_of};

/// Pictures of a spinner, a quarter of a second each: more would only cost.
const SPINNER: [char; 4] = ['◐', '◓', '◑', '◒'];

pub(super) fn view(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    match model.left {
        LeftTab::Tasks => tasks(model, frame, area),
        LeftTab::Definition => definition(model, frame, area),
        LeftTab::Settings => settings(model, frame, area),
    }
}

fn tasks(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let rows = rows(model);
    if rows.is_empty() {
        let words = match model.filter.0.is_empty() {
            // Nobody knows whether there are any.
            true if !model.trouble.is_empty() => "The tasks cannot be shown.".to_owned(),
            true => format!("No tasks yet. Press {} to add one.", model.keymap.shown(&["add"])),
            false => "No task is like that. Esc shows all.".to_owned(),
        };
        return middle(frame, area, &words);
    }
    let first = first_row(model, usize::from(area.height));
    for (line, row) in (area.y..area.bottom()).zip(rows.into_iter().skip(first)) {
        let at = Rect::new(area.x, line, area.width, 1);
        match row {
            Row::Blank => {}
            Row::Section(title, count) => {
                frame.render_widget(Span::styled(format!("{title} ({count})"), style(model, Look::Dim)), at);
            }
            Row::Malformed(file) => {
                let name = file.path.rsplit('/').next().unwrap_or_default();
                let words = format!("  {}: {}", clean(name), clean(&file.reason));
                let words = clip(&words, usize::from(area.width));
                frame.render_widget(Span::styled(words, style(model, Look::Bad)), at);
            }
            Row::Task(task) => {
                let is_selected = task.task_number == model.selected;
                let look = match is_selected && model.focus == Focus::Left {
                    true => style(model, Look::Selected),
                    false => Style::default(),
                };
                let line = of_task(model, task, is_selected, usize::from(area.width));
                frame.render_widget(Paragraph::new(line).style(look), at);
            }
        }
    }
}

fn of_task(model: &Model, task: &proto::Task, is_selected: bool, width: usize) -> Line<'static> {
    let agent = model.agent_of(task.task_number);
    let failed = task.success == Some(false) || !task.merge_failure_reason.is_empty();
    let spinner = SPINNER[usize::try_from(model.now / 250).unwrap_or(0) % SPINNER.len()];
    let (mark, look) = match (task.status.as_str(), agent) {
        (_, Some(agent)) if alerts::reason(agent).is_some() => ("[!]".to_owned(), style(model, Look::Fire)),
        (_, Some(_)) => (format!("[{spinner}]"), style(model, Look::Good)),
        ("ready", None) => ("[R]".to_owned(), style(model, Look::Ready)),
        ("done", None) if failed => ("[✗]".to_owned(), style(model, Look::Bad)),
        ("done", None) => ("[✓]".to_owned(), style(model, Look::Good)),
        _ => ("[ ]".to_owned(), Style::default()),
    };
    let cursor = if is_selected { "▸" } else { " " };
    // Where the section says all there is to say, nothing is added.
    let more = match task.state.as_str() {
        "draft" | "ready" | "done" | "merged" | "" if task.status == "ready" && agent.is_none() => {
            "  [▶]".to_owned()
        }
        "draft" | "ready" | "done" | "merged" | "" => String::new(),
        state => format!("  {}", clean(state)),
    };
    let is_marked = model.marked.contains(&task.task_number);
    let number = format!("{}#{:04} ", if is_marked { "*" } else { " " }, task.task_number);
    let taken = 4 + number.len() + more.chars().count();
    let title = clip(&clean(&task.title), width.saturating_sub(taken));
    Line::from(vec![
        Span::raw(cursor),
        Span::styled(mark, look),
        Span::styled(
            format!("{number}{title}"),
            if is_marked { style(model, Look::Strong) } else { Style::default() },
        ),
        Span::styled(more, style(model, Look::Dim)),
    ])
}

/// Returns a text cut to a number of columns, with an ellipsis where it is.
pub(super) fn clip(text: &str, columns: usize) -> String {
    let width = |text: &str| Span::raw(text.to_owned()).width();
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        cut.push(c);
        if width(&cut) >= columns {
            cut.pop();
            break;
        }
    }
    cut.push('…');
    cut
}

fn definition(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    if model.project.definition.trim().is_empty() {
        return middle(frame, area, "No definition yet. Press e to write one.");
    }
    let lines: Vec<_> = wrapped(&model.project.definition, area.width).into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).scroll((model.definition_at, 0)), area);
}

fn settings(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    for (n, (row, field)) in (area.y..area.bottom()).zip(FIELDS).enumerate() {
        let at = Rect::new(area.x, row, area.width, 1);
        let is_selected = n == model.settings.selected;
        let look = match is_selected && model.focus == Focus::Left {
            true => style(model, Look::Selected),
            false => Style::default(),
        };
        let cursor = if is_selected { "▸" } else { " " };
        let label = format!("{cursor} {field:<20}");
        let (value, value_look) = match n < TEXTS {
            // The field lies there.
            true if is_selected && model.settings.editing.is_some() => (String::new(), Style::default()),
            true => (clean(text_of(&model.project, n)), Style::default()),
            false if is_on(&model.project, n) => ("on".to_owned(), style(model, Look::Good)),
            false => ("off".to_owned(), style(model, Look::Dim)),
        };
        let line = Line::from(vec![Span::raw(label), Span::styled(value, value_look)]);
        frame.render_widget(Paragraph::new(line).style(look), at);
        if is_selected && let Some(line) = &model.settings.editing {
            let from = area.x + 22;
            let place = Rect::new(from, row, area.right().saturating_sub(from), 1);
            frame.render_widget(&line.0, place);
        }
    }
}
