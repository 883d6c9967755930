//! The right panel: the agent's terminal, and logs.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Wrap};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::{DiffLine, DiffPart};
use watchfire_term::plain;

use super::{clean, middle, screen};
use crate::diff::{self, Row, Side};
use crate::layout::Areas;
use crate::model::{Focus, Model, RightTab};
use crate::theme::{Look, style};

pub(super) fn view(model: &Model, frame: &mut Frame<'_>, areas: &Areas) {
    if areas.banner.height > 0 {
        banner(model, frame, areas.banner);
    }
    match model.right {
        RightTab::Chat => terminal(model, frame, areas.terminal),
        RightTab::Logs => logs(model, frame, areas.terminal),
        RightTab::Diff => changes(model, frame, areas.terminal),
    }
}

/// Draws the issue, the question or the phase of wildfire.
fn banner(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let (words, look) = match model.issue() {
        Some(issue) => (issue_words(issue), Look::Alert),
        None if model.asking().is_some() => {
            let asked = model.asking().map(|agent| (agent.task_number, agent.questions.join(" / ")));
            let (number, words) = asked.unwrap_or_default();
            (format!("? #{number:04} asks: {}  (A answers)", clean(&words)), Look::Alert)
        }
        None => {
            let status = &model.status;
            let phase = match status.wildfire_phase.as_str() {
                "execute" => "Execute",
                "refine" => "Refine",
                _ => "Generate",
            };
            let of =
                if status.task_number > 0 { format!(" #{:04}", status.task_number) } else { String::new() };
            (format!("{phase}{of}"), Look::Fire)
        }
    };
    // It lies on the border.
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(format!(" {words}")).style(style(model, look)), area);
}

fn issue_words(issue: &proto::AgentIssue) -> String {
    match issue.issue_type.as_str() {
        "auth_required" => "⚠ Authentication required — switch to Chat and run /login".to_owned(),
        "rate_limited" => match issue.reset_at.as_ref().or(issue.cooldown_until.as_ref()) {
            Some(at) => format!("⚠ Rate limited — resets at {}  (R resumes)", clock(at.seconds)),
            None => format!("⚠ Rate limited: {}  (R resumes)", clean(&issue.message)),
        },
        _ => format!("⚠ {}", clean(&issue.message)),
    }
}

/// Returns a time of the person's clock.
fn clock(seconds: i64) -> String {
    watchfire_core::model::Timestamp::from_unix_millis(seconds.saturating_mul(1000)).local().to_string()
}

fn terminal(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(snapshot) = &model.terminal.snapshot else {
        return middle(frame, area, "No agent running. Press s on a task to start.");
    };
    if model.terminal.back > 0 {
        return scrolled(model, frame, area);
    }
    screen::draw(snapshot, frame.buffer_mut(), area);
    if model.terminal.ended {
        let place = Rect::new(area.x, area.bottom().saturating_sub(1), area.width, 1);
        frame.render_widget(Paragraph::new(" Agent stopped.").style(style(model, Look::Bar)), place);
        return;
    }
    let cursor = snapshot.cursor;
    let is_within = cursor.row < area.height && cursor.col < area.width;
    if model.focus == Focus::Right && model.overlay.is_none() && is_within && !cursor.hidden {
        // The real one, so that input methods know where they are.
        frame.set_cursor_position((area.x + cursor.col, area.y + cursor.row));
    }
}

/// Draws the lines above the screen, and below them as much of the screen as fits.
fn scrolled(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(snapshot) = &model.terminal.snapshot else { return };
    let end = snapshot.scrollback.end;
    let first = end - model.terminal.back.min(end);
    let (from, lines) = &model.terminal.lines;
    for (row, number) in (area.y..area.bottom()).zip(first..) {
        let at = Rect::new(area.x, row, area.width, 1);
        if number < end {
            // Those that are on their way are blank for a moment.
            let at_known = number.checked_sub(*from).and_then(|at| usize::try_from(at).ok());
            if let Some(line) = at_known.and_then(|at| lines.get(at)) {
                screen::draw_line(line, frame.buffer_mut(), at);
            }
        } else if let Some(line) = usize::try_from(number - end).ok().and_then(|at| snapshot.lines.get(at)) {
            screen::draw_line(line, frame.buffer_mut(), at);
        }
    }
    let words = format!(" {} lines back ", model.terminal.back);
    let width = u16::try_from(words.len()).unwrap_or(0).min(area.width);
    let place = Rect::new(area.right() - width, area.y, width, 1);
    frame.render_widget(Paragraph::new(words).style(style(model, Look::Bar)), place);
}

/// Returns the first log that is shown in a list of `height` rows.
pub(crate) fn first_log(model: &Model, height: u16) -> usize {
    (model.logs.selected + 1).saturating_sub(usize::from(height))
}

fn logs(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    if let Some((log, at)) = &model.logs.open {
        let title = Line::from(Span::styled(entry(log), style(model, Look::Strong)));
        frame.render_widget(Paragraph::new(title), Rect::new(area.x, area.y, area.width, 1));
        let body = Rect::new(area.x, area.y + 1, area.width, area.height.saturating_sub(1));
        let lines: Vec<_> =
            log.content.lines().map(|line| Line::from(clean(&plain::strip(line.as_bytes())))).collect();
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((*at, 0)), body);
        return;
    }
    let Some(list) = &model.logs.list else { return middle(frame, area, "Reading logs...") };
    if list.is_empty() {
        return middle(frame, area, "No sessions yet.");
    }
    let first = first_log(model, area.height);
    for (n, (row, log)) in (area.y..area.bottom()).zip(list.iter().skip(first)).enumerate() {
        let is_selected = first + n == model.logs.selected;
        let look = match is_selected && model.focus == Focus::Right {
            true => style(model, Look::Selected),
            false => Style::default(),
        };
        let of_status = match log.status.as_str() {
            "completed" => Look::Good,
            "running" => Look::Ready,
            "interrupted" => Look::Dim,
            _ => Look::Bad,
        };
        let cursor = if is_selected { "▸ " } else { "  " };
        let (what, status) = (about(log), format!(" ({})", clean(&log.status)));
        let line = Line::from(vec![
            Span::raw(cursor),
            Span::raw(what),
            Span::styled(status, style(model, of_status)),
        ]);
        frame.render_widget(Paragraph::new(line).style(look), Rect::new(area.x, row, area.width, 1));
    }
}

fn changes(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(task) = model.task(model.diff.task) else { return middle(frame, area, "No task is selected.") };
    let title = format!("#{:04} {}", task.task_number, clean(&task.title));
    let title = Line::from(Span::styled(title, style(model, Look::Strong)));
    frame.render_widget(Paragraph::new(title), Rect::new(area.x, area.y, area.width, 1));
    let body = Rect::new(area.x, area.y + 1, area.width, area.height.saturating_sub(1));
    let Some(lines) = &model.diff.lines else { return middle(frame, body, "Reading what it changes...") };
    for (y, row) in (body.y..body.bottom()).zip(model.diff.rows.iter().skip(model.diff.at)) {
        let place = Rect::new(body.x, y, body.width, 1);
        match row {
            Row::Whole(at) => {
                let Some(line) = lines.get(*at) else { continue };
                frame.render_widget(Span::styled(shown(&line.text), of_part(model, line.part())), place);
            }
            Row::Sides(old, new) => {
                let side = |side: &Option<Side>| side.and_then(|it| Some((it.number, lines.get(it.line)?)));
                sides(model, frame, place, side(old), side(new));
            }
        }
    }
}

fn of_part(model: &Model, part: DiffPart) -> Style {
    match part {
        DiffPart::File => style(model, Look::Focused),
        DiffPart::Hunk => style(model, Look::Ready),
        DiffPart::Added => style(model, Look::Good),
        DiffPart::Deleted => style(model, Look::Bad),
        DiffPart::Note => style(model, Look::Dim),
        DiffPart::Unspecified => Style::default(),
    }
}

fn shown(text: &str) -> String {
    clean(&text.replace('\t', "    "))
}

/// Draws what was there before, and what is there now. What differs between them stands out.
fn sides(
    model: &Model,
    frame: &mut Frame<'_>,
    place: Rect,
    old: Option<(u32, &DiffLine)>,
    new: Option<(u32, &DiffLine)>,
) {
    // Without the sign before it.
    let text =
        |side: Option<(u32, &DiffLine)>| side.map(|(_, line)| shown(line.text.get(1..).unwrap_or_default()));
    let texts = (text(old), text(new));
    let differ = match &texts {
        (Some(old), Some(new)) => diff::changed(old, new),
        _ => (0..0, 0..0),
    };
    let half = place.width.saturating_sub(1) / 2;
    let left = Rect { width: half, ..place };
    let right = Rect { x: place.x + half + 1, width: place.width.saturating_sub(half + 1), ..place };
    for (at, side, text, part) in [(left, old, texts.0, differ.0), (right, new, texts.1, differ.1)] {
        let (Some((number, line)), Some(text)) = (side, text) else { continue };
        let look = of_part(model, line.part());
        let (before, rest) = text.split_at(part.start);
        let (changed, after) = rest.split_at(part.len());
        let spans = [
            Span::styled(format!("{number:>4} "), style(model, Look::Dim)),
            Span::styled(before.to_owned(), look),
            Span::styled(changed.to_owned(), look.add_modifier(Modifier::REVERSED)),
            Span::styled(after.to_owned(), look),
        ];
        frame.render_widget(Line::from(spans.to_vec()), at);
    }
    let border = Rect { x: place.x + half, width: 1, ..place };
    frame.render_widget(Span::styled("│", style(model, Look::Dim)), border);
}

/// Returns a log as a line: `Task #0001 — Session 2 — 2026-02-03 14:30 (completed)`.
fn entry(log: &proto::Log) -> String {
    format!("{} ({})", about(log), clean(&log.status))
}

fn about(log: &proto::Log) -> String {
    let what = match (log.task_number, log.mode.as_str()) {
        (0, "chat" | "") => "Chat".to_owned(),
        (0, mode) => clean(mode),
        (number, _) => format!("Task #{number:04}"),
    };
    // RFC 3339, of which the minutes are enough.
    let at = log.started_at.get(..16).unwrap_or(&log.started_at).replace('T', " ");
    format!("{what} — Session {} — {}", log.session_number, clean(&at))
}
