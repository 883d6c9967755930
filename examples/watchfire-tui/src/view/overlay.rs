//! The overlays: help, and the form of a task.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};
use ratatui_textarea::TextArea;

use super::{clean, wrapped};
use crate::forms::{Field, TaskForm};
use crate::lists::{Kind, Listed};
use crate::model::Model;
use crate::theme::{Look, style};

/// A row of the help: keys that are always the same, then names of actions, then their effect.
type Keys = (&'static str, &'static [&'static str], &'static str);

/// Every key, by the place where it works. The whole list fits into the smallest terminal.
const KEYS: [(&str, &[Keys]); 5] = [
    (
        "Everywhere",
        &[
            ("", &["quit", "help", "panel"], "quit, agents go on; this help; other panel"),
            ("mouse", &[], "click, scroll, drag: divider, task, text"),
        ],
    ),
    (
        "Left panel",
        &[(
            "1",
            &["definition", "settings", "narrower", "wider"],
            "tabs, also h and l; divider; j k g G move",
        )],
    ),
    (
        "Tasks",
        &[
            ("", &["add", "edit", "delete"], "add, edit, delete"),
            (
                "",
                &["start", "start-all", "wildfire", "chat", "resume-chat"],
                "start; all; wildfire; a chat, the last",
            ),
            ("", &["ready", "draft", "done", "mark"], "ready, draft, done; mark several"),
            (
                "",
                &["info", "diff", "merge", "undo", "down", "up"],
                "all about it; changes; merge; undo; move",
            ),
            ("", &["log", "history", "costs", "branches"], "its log; what ended; costs; branches"),
            ("", &["projects", "inbox", "trash"], "projects; what waits in all; trash"),
            ("", &["filter", "actions"], "show only those with a text; every action"),
            ("", &["answer", "send-back", "resume", "stop"], "answer; send back; resume; stop all"),
        ],
    ),
    (
        "Agents",
        &[
            (
                "",
                &["tiles", "previous-agent", "next-agent", "follow"],
                "all; one by one; follow who needs you",
            ),
            ("PgUp", &["find", "zoom"], "scroll back; find; whole screen"),
            ("", &["previous-terminal", "next-terminal"], "one by one, while one types"),
        ],
    ),
    (
        "Logs, diff",
        &[
            ("Enter Esc x", &[], "read a log, and back; delete it"),
            ("n p  v r", &[], "next, last file of a diff; sides; again"),
        ],
    ),
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
        for (fixed, actions, does) in keys {
            let keys = format!("{fixed} {}", model.keymap.shown(actions));
            lines.push(Line::from(format!("  {:<24}{does}", keys.trim())));
        }
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let at = place(model, 76, height);
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(lines).block(frame_of(model, "Keys")), at);
}

pub(super) fn list(model: &Model, list: &Listed, frame: &mut Frame<'_>) {
    let (title, _) = list.words();
    let shown = list.shown();
    let wanted = u16::try_from(list.rows.as_ref().map_or(1, Vec::len)).unwrap_or(u16::MAX).max(1);
    let looks = u16::from(list.kind == Kind::Palette);
    let (cols, rows) = model.size;
    let height = wanted.saturating_add(2 + looks).min(rows.saturating_sub(4));
    let at = place(model, cols.saturating_sub(8).min(100), height);
    frame.render_widget(Clear, at);
    frame.render_widget(frame_of(model, title), at);
    let within = Rect::new(at.x + 2, at.y + 1, at.width.saturating_sub(4), at.height.saturating_sub(2));
    if looks > 0 {
        let line = format!("> {}▏", clean(&list.wanted));
        frame.render_widget(Span::raw(line), Rect { height: 1, ..within });
    }
    let within = Rect { y: within.y + looks, height: within.height.saturating_sub(looks), ..within };
    if shown.is_empty() {
        let words = match (&list.rows, list.kind) {
            (None, _) => "Reading...",
            (_, Kind::Inbox) => "Nothing waits for you.",
            (_, Kind::History) => "Nothing has ended yet.",
            (_, Kind::Palette) => "No such action.",
            _ => "Nothing here.",
        };
        return frame.render_widget(Span::styled(words, style(model, Look::Dim)), within);
    }
    let first = (list.selected + 1).saturating_sub(usize::from(within.height));
    for (n, (row, item)) in (within.y..within.bottom()).zip(shown.into_iter().skip(first)).enumerate() {
        let look = match first + n == list.selected {
            true => style(model, Look::Selected),
            false => Style::default(),
        };
        let key = if item.key.is_empty() { String::new() } else { format!("{:<7}", item.key) };
        let line = Paragraph::new(format!("{key}{}", clean(&item.text))).style(look);
        frame.render_widget(line, Rect::new(within.x, row, within.width, 1));
    }
}

/// Returns the details of a task.
pub(crate) fn info_lines(model: &Model, number: i32) -> Vec<Line<'static>> {
    let columns = info_width(model).saturating_sub(4);
    let Some(task) = model.task(number) else { return Vec::new() };
    let mut lines = Vec::new();
    let mut fact = |name: &str, value: String| {
        if !value.trim().is_empty() {
            lines.extend(
                wrapped(&format!("{name:<12}{}", clean(&value)), columns).into_iter().map(Line::from),
            );
        }
    };
    let success = match task.success {
        Some(true) => ", with success",
        Some(false) => ", without success",
        None => "",
    };
    fact("Status", format!("{}{success}", task.status));
    let detail = if task.detail.is_empty() { String::new() } else { format!(": {}", task.detail) };
    fact("State", format!("{}{detail}", task.state));
    if let Some(agent) = model.agent_of(number).filter(|agent| agent.is_running) {
        fact("Runs as", format!("{} ({}), since {}", agent.alias, agent.agent, time(&agent.started_at)));
        agent.questions.iter().for_each(|question| fact("Asks", question.clone()));
    }
    let (of, details) = &model.details;
    if *of == number {
        fact("Costs", details.cost.clone());
        details.refused.iter().for_each(|refused| fact("Refused", refused.clone()));
    }
    fact("Agent", task.agent.clone());
    let after: Vec<_> = task.depends_on.iter().map(|number| format!("#{number:04}")).collect();
    fact("After", after.join(" "));
    fact("Labels", task.labels.join(", "));
    fact("Sessions", if task.agent_sessions > 0 { task.agent_sessions.to_string() } else { String::new() });
    fact("Created", time(&task.created_at));
    fact("Started", time(&task.started_at));
    fact("Completed", time(&task.completed_at));
    let texts = [
        ("Why it failed", &task.failure_reason),
        ("Why it is not merged", &task.merge_failure_reason),
        ("Prompt", &task.prompt),
        ("Acceptance criteria", &task.acceptance_criteria),
    ];
    for (heading, text) in texts.into_iter().filter(|(_, text)| !text.trim().is_empty()) {
        lines.push(Line::default());
        lines.push(Line::from(Span::styled(heading, style(model, Look::Strong))));
        lines.extend(wrapped(text, columns).into_iter().map(Line::from));
    }
    lines
}

fn info_width(model: &Model) -> u16 {
    model.size.0.saturating_sub(8).min(100)
}

/// Returns an RFC 3339 time without its seconds.
fn time(text: &str) -> String {
    text.get(..16).unwrap_or(text).replace('T', " ")
}

pub(super) fn info(model: &Model, number: i32, at: u16, frame: &mut Frame<'_>) {
    let title = model.task(number).map_or_else(String::new, |task| clean(&task.title));
    let lines = info_lines(model, number);
    let rows = model.size.1;
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(rows.saturating_sub(4));
    let area = place(model, info_width(model), height);
    frame.render_widget(Clear, area);
    frame.render_widget(frame_of(model, &format!("#{number:04} {title}")), area);
    let within =
        Rect::new(area.x + 2, area.y + 1, area.width.saturating_sub(4), area.height.saturating_sub(2));
    frame.render_widget(Paragraph::new(lines).scroll((at, 0)), within);
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
    // What is one line has a row; the texts share the rest, two thirds for what is to be done.
    let texts = within.height.saturating_sub(9);
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
    let lines = [
        (Field::Agent, "Agent   ", &form.agent),
        (Field::After, "After   ", &form.after),
        (Field::Labels, "Labels  ", &form.labels),
    ];
    for (field, words, line) in lines {
        let at = next(1);
        let width = 8.min(at.width);
        frame.render_widget(label(field, words.trim_end()), at);
        let place = Rect { x: at.x + width, width: at.width - width, ..at };
        area(model, &line.0, form.field == field, frame, place);
    }
    let status = match (form.done, form.ready) {
        (true, _) => "done  (keys of the list change it)",
        (false, true) => "( ) draft  (•) ready",
        (false, false) => "(•) draft  ( ) ready",
    };
    let line = Line::from(vec![label(Field::Status, "Status"), Span::raw(format!("  {status}"))]);
    frame.render_widget(Paragraph::new(line), next(1));
    let (words, look) = match &form.problem {
        Some(problem) => (problem.as_str(), style(model, Look::Bad)),
        None if form.sent => ("Saving...", style(model, Look::Dim)),
        None => ("Shift+Tab or Ctrl+↓/↑ between fields", style(model, Look::Dim)),
    };
    frame.render_widget(Span::styled(clean(words), look), next(1));
}

/// Draws a text.
fn area(model: &Model, text: &TextArea<'static>, has_keys: bool, frame: &mut Frame<'_>, at: Rect) {
    // The text itself, which remembers what of it is seen.
    frame.render_widget(text, at);
    if has_keys {
        frame.buffer_mut().set_style(at, style(model, Look::Selected));
    }
}

#[cfg(test)]
mod tests {
    use super::KEYS;
    use crate::keymap::ACTIONS;

    #[test]
    fn the_help_has_every_action_once() {
        let shown = KEYS.iter().flat_map(|(_, rows)| *rows).flat_map(|(_, actions, _)| *actions);
        let (mut shown, mut all): (Vec<_>, Vec<_>) =
            (shown.copied().collect(), ACTIONS.iter().map(|action| action.name).collect());
        shown.sort_unstable();
        all.sort_unstable();
        assert_eq!(shown, all);
    }
}
