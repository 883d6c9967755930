//! The right panel: the agent's terminal, and logs.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use watchfire_client::daemon_proto as proto;
use watchfire_client::work_proto::{DiffLine, DiffPart};
use watchfire_term::plain;

use super::screen::AgentLines;
use super::{clean, middle, wrapped};
use crate::agents;
use crate::diff::{self, Row, Side};
use crate::layout::Areas;
use crate::model::{Focus, Model, RightTab};
use crate::theme::{Depth, Look, style};

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
        Some(issue) => (issue_words(model, issue), Look::Alert),
        None if model.asking().is_some() => {
            let asked = model.asking().map(|agent| (agent.task_number, first_question(agent)));
            let (number, words) = asked.unwrap_or_default();
            let key = model.keymap.shown(&["answer"]);
            (format!("? #{number:04} asks ({key} answers): {}", clean(&words)), Look::Alert)
        }
        None => (agents::name(&model.status), Look::Fire),
    };
    // It lies on the border.
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(format!(" {words}")).style(style(model, look)), area);
}

/// Returns the question that is answered next, and how many come after it.
fn first_question(agent: &proto::AgentStatus) -> String {
    match agent.questions.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} (and {} more)", more.len()),
    }
}

/// Returns an issue in words: its kind, its time, the remedy, and then the agent's own message.
fn issue_words(model: &Model, issue: &proto::AgentIssue) -> String {
    let of_issue = |agent: &&proto::AgentStatus| agent.issue.as_ref() == Some(issue) && agent.task_number > 0;
    let whose = model.status.all.iter().find(of_issue).map(|agent| format!(" #{:04}", agent.task_number));
    let whose = whose.unwrap_or_default();
    let resumes = format!("({} resumes)", model.keymap.shown(&["resume"]));
    let since = match issue.detected_at.as_ref().filter(|at| at.seconds > 0) {
        Some(at) => format!(", since {}", clock(at.seconds)),
        None => String::new(),
    };
    match issue.issue_type.as_str() {
        "auth_required" => {
            format!("⚠ Authentication required{whose}{since} — switch to Chat and run /login  {resumes}")
        }
        "rate_limited" => match issue.reset_at.as_ref().or(issue.cooldown_until.as_ref()) {
            Some(at) => format!("⚠ Rate limited{whose} — resets at {}{since}  {resumes}", clock(at.seconds)),
            None => format!("⚠ Rate limited{whose}{since}  {resumes}: {}", clean(&issue.message)),
        },
        _ => format!("⚠{whose} {}{since}", clean(&issue.message)),
    }
}

/// Returns a time of the person's clock.
fn clock(seconds: i64) -> String {
    let at = watchfire_core::model::Timestamp::from_unix_millis(seconds.saturating_mul(1000)).local();
    // The day is known, or said by how long it is.
    at.get(11..16).unwrap_or(&at).to_owned()
}

/// Returns the visible lines of the agent's terminal: its screen, or lines above it after scrolling back.
pub(super) fn lines(model: &Model) -> Option<AgentLines<'_>> {
    let screen = model.terminal.snapshot.as_deref().filter(|_| model.right == RightTab::Chat)?;
    let end = screen.scrollback.end;
    let first = end - model.terminal.back.min(end);
    let (from, scrolled) = &model.terminal.lines;
    let area = model.areas().terminal;
    let line = |number: u64| match number.checked_sub(end) {
        Some(row) => usize::try_from(row).ok().and_then(|row| screen.lines.get(row)),
        // Lines that have not arrived yet are blank for a moment.
        None => {
            number.checked_sub(*from).and_then(|at| usize::try_from(at).ok()).and_then(|at| scrolled.get(at))
        }
    };
    let lines = (first..).take(usize::from(area.height)).map(|number| line(number).map(|line| &**line));
    Some(AgentLines { area, screen, lines: lines.collect() })
}

/// Returns the place of the cursor in the agent's terminal, if it has the keys.
pub(super) fn cursor(model: &Model) -> Option<Position> {
    let screen = model.terminal.snapshot.as_ref()?;
    let (cursor, area) = (screen.cursor, model.areas().terminal);
    let has_keys = model.focus == Focus::Right && model.right == RightTab::Chat && model.overlay.is_none();
    let is_live = !model.terminal.ended && model.terminal.back == 0 && !cursor.hidden;
    let is_within = cursor.row < area.height && cursor.col < area.width;
    (has_keys && is_live && is_within).then(|| Position::new(area.x + cursor.col, area.y + cursor.row))
}

fn terminal(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(lines) = lines(model) else {
        if !model.trouble.is_empty() {
            return middle(frame, area, &clean(&model.trouble));
        }
        let key = model.keymap.shown(&["start"]);
        let words = format!("No agent running. Press {key} on a task to start.");
        let because = model.not_started.as_ref().map(|because| format!("\n\n{}", clean(because)));
        return middle(frame, area, &(words + &because.unwrap_or_default()));
    };
    lines.draw(frame.buffer_mut());
    let bar = |words: String, at: Rect, frame: &mut Frame<'_>| {
        frame.render_widget(Paragraph::new(words).style(style(model, Look::Bar)), at);
    };
    if model.terminal.back > 0 {
        let words = format!(" {} lines back ", model.terminal.back);
        let width = u16::try_from(words.len()).unwrap_or(0).min(area.width);
        bar(words, Rect::new(area.right() - width, area.y, width, 1), frame);
    } else if model.terminal.ended {
        let place = Rect::new(area.x, area.bottom().saturating_sub(1), area.width, 1);
        let words = match model.terminal.crashed {
            true => " Agent stopped unexpectedly.",
            false => " Agent stopped.",
        };
        bar(words.to_owned(), place, frame);
    }
}

/// Returns the first log that is shown in a list of `height` rows.
pub(crate) fn first_log(model: &Model, height: u16) -> usize {
    (model.logs.selected + 1).saturating_sub(usize::from(height))
}

fn logs(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    if let Some(open) = &model.logs.open {
        let title = Line::from(Span::styled(entry(&open.log), style(model, Look::Strong)));
        frame.render_widget(Paragraph::new(title), Rect::new(area.x, area.y, area.width, 1));
        let body = Rect::new(area.x, area.y + 1, area.width, area.height.saturating_sub(1));
        let rows = open.rows.iter().skip(open.at).take(usize::from(body.height));
        let shown = rows.map(|row| Line::from(row.as_str()));
        frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), body);
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

/// Returns the rows of a log in a place of some columns.
pub(crate) fn log_rows(log: &proto::Log, columns: u16) -> Vec<String> {
    let mut rows = wrapped(&plain::strip(log.content.as_bytes()), columns);
    if log.truncated {
        rows.extend(wrapped("It goes on: `watchfire logs` shows all of it.", columns));
    }
    rows
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
                let is_code =
                    matches!(line.part(), DiffPart::Added | DiffPart::Deleted | DiffPart::Unspecified);
                match line.text.split_at_checked(1).filter(|_| is_code) {
                    Some((sign, code)) => {
                        frame.buffer_mut().set_style(place, tint(model, line.part()));
                        let sign = Span::styled(sign.to_owned(), of_part(model, line.part()));
                        let code = coloured(model, *at, code, &(0..0));
                        frame.render_widget(Line::from_iter(std::iter::once(sign).chain(code)), place);
                    }
                    None => {
                        let look = of_part(model, line.part());
                        frame.render_widget(Span::styled(shown(&line.text), look), place);
                    }
                }
            }
            Row::Sides(old, new) => {
                let side =
                    |side: &Option<Side>| side.and_then(|it| Some((it.number, it.line, lines.get(it.line)?)));
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

/// Returns the background of a line of code that was added or deleted.
fn tint(model: &Model, part: DiffPart) -> Style {
    match part {
        _ if !has_inks(model) => Style::default(),
        DiffPart::Added => style(model, Look::New),
        DiffPart::Deleted => style(model, Look::Old),
        _ => Style::default(),
    }
}

/// Returns true if code is drawn in the colours of its language. Then the background shows added and deleted lines.
fn has_inks(model: &Model) -> bool {
    model.depth >= Depth::Indexed && !model.diff.inks.is_empty()
}

/// Returns the code of a line of the diff in its colours. The part within `marked` stands out.
fn coloured(model: &Model, at: usize, code: &str, marked: &Range<usize>) -> Vec<Span<'static>> {
    let line = model.diff.lines.as_ref().and_then(|lines| lines.get(at));
    // Without colours of its own, the whole line has the colour for added or deleted ones.
    let plain = match line {
        Some(line) if !has_inks(model) => of_part(model, line.part()),
        _ => Style::default(),
    };
    let inks = model.diff.inks.get(at).filter(|_| has_inks(model));
    let inks = inks.map(Vec::as_slice).unwrap_or_default();
    let mut edges: Vec<_> = inks.iter().flat_map(|(range, _)| [range.start, range.end]).collect();
    edges.extend([0, code.len(), marked.start, marked.end]);
    edges.sort_unstable();
    edges.dedup();
    let span = |edge: &[usize]| {
        // The text is the one that was coloured, so that these are its bounds.
        let text = code.get(edge[0]..edge[1])?;
        let ink = inks.iter().find(|(range, _)| range.contains(&edge[0]));
        let mut look = ink.map_or(plain, |(_, ink)| style(model, Look::Code(*ink)));
        if marked.contains(&edge[0]) {
            look = look.add_modifier(Modifier::REVERSED);
        }
        Some(Span::styled(shown(text), look))
    };
    edges.windows(2).filter_map(span).collect()
}

fn shown(text: &str) -> String {
    clean(&text.replace('\t', "    "))
}

/// A line of one side: its number in the file, its place in the diff, and itself.
type SideLine<'a> = (u32, usize, &'a DiffLine);

/// Draws the old line and the new line side by side. Their differences stand out.
fn sides(
    model: &Model,
    frame: &mut Frame<'_>,
    place: Rect,
    old: Option<SideLine<'_>>,
    new: Option<SideLine<'_>>,
) {
    // Without the sign before it.
    fn code<'a>((_, _, line): SideLine<'a>) -> &'a str {
        line.text.get(1..).unwrap_or_default()
    }
    let differ = match (old, new) {
        (Some(old), Some(new)) => diff::changed(code(old), code(new)),
        _ => (0..0, 0..0),
    };
    let half = place.width.saturating_sub(1) / 2;
    let left = Rect { width: half, ..place };
    let right = Rect { x: place.x + half + 1, width: place.width.saturating_sub(half + 1), ..place };
    for (place, side, part) in [(left, old, differ.0), (right, new, differ.1)] {
        let Some((number, at, line)) = side else { continue };
        frame.buffer_mut().set_style(place, tint(model, line.part()));
        let number = Span::styled(format!("{number:>4} "), style(model, Look::Dim));
        let code = coloured(model, at, code((0, at, line)), &part);
        frame.render_widget(Line::from_iter(std::iter::once(number).chain(code)), place);
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
