//! The first and the last row.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use watchfire_client::daemon_proto as proto;

use super::left::clip;
use super::{clean, wrapped};
use crate::forms;
use crate::model::{Accepted, Confirm, Connection, Focus, LeftTab, Model, Overlay, RightTab, Words};
use crate::theme::{Look, of_project, style};
use crate::{agents, alerts};

/// Longest project name in the first row, and the columns that the rest of the row needs.
const NAME: usize = 24;
const ELSE: u16 = 68;

fn name(model: &Model) -> String {
    let most = usize::from(model.size.0.saturating_sub(ELSE)).clamp(8, NAME);
    clip(&clean(&model.project.name), most)
}

/// Returns the tabs of the left panel with their columns.
pub(crate) fn left_tabs(model: &Model) -> Vec<(LeftTab, Range<u16>)> {
    // After the dot, the name, and two blanks.
    let mut at = u16::try_from(Span::raw(name(model)).width()).unwrap_or(0) + 5;
    let place = |tab: LeftTab| {
        let from = at;
        at += u16::try_from(tab.title().len()).unwrap_or(0) + 3;
        (tab, from..at - 3)
    };
    LeftTab::ALL.into_iter().map(place).collect()
}

/// Returns the tabs of the right panel with their columns.
pub(crate) fn right_tabs(model: &Model) -> Vec<(RightTab, Range<u16>)> {
    let last = left_tabs(model).last().map_or(0, |(_, columns)| columns.end);
    // Above their panel, unless the left tabs are in the way.
    let mut at = model.areas().right.x.max(last + 4);
    let place = |tab: RightTab| {
        let from = at;
        at += u16::try_from(tab.title().len()).unwrap_or(0) + 3;
        (tab, from..at - 3)
    };
    RightTab::ALL.into_iter().map(place).collect()
}

/// A tab of an agent, on the border below its terminal.
pub(crate) struct AgentTab {
    /// Its session.
    pub(crate) session: String,
    /// Its columns.
    pub(crate) columns: Range<u16>,
    words: String,
    waits: bool,
}

/// Returns the tabs of the agents, where there are several.
pub(crate) fn agent_tabs(model: &Model) -> Vec<AgentTab> {
    let right = model.areas().right;
    if model.right != RightTab::Chat || agents::running(model).nth(1).is_none() {
        return Vec::new();
    }
    let mut at = right.x + 2;
    let tab = |agent: &proto::AgentStatus| {
        let waits = alerts::reason(agent).is_some();
        let words = format!(" {}{} ", if waits { "!" } else { "" }, agents::name(agent));
        let width = u16::try_from(words.chars().count()).unwrap_or(0);
        let columns = at..at + width;
        at = columns.end + 1;
        AgentTab { session: agent.session_id.clone(), columns, words, waits }
    };
    // Those that do not fit are reached by the keys.
    agents::running(model).map(tab).take_while(|tab| tab.columns.end < right.right()).collect()
}

/// Draws the tabs of the agents on the lower border of the right panel.
pub(super) fn agents(model: &Model, frame: &mut Frame<'_>, panel: Rect) {
    for AgentTab { session, columns, words, waits } in agent_tabs(model) {
        let look = match (waits, session == agents::shown(model)) {
            (true, _) => Look::Alert,
            (false, true) => Look::Strong,
            (false, false) => Look::Dim,
        };
        let width = columns.end - columns.start;
        let place =
            Rect::new(columns.start, panel.bottom().saturating_sub(1), width, 1).intersection(frame.area());
        frame.render_widget(Span::styled(words, style(model, look)), place);
    }
}

pub(super) fn header(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let dot = Span::styled("●", of_project(model));
    let title = Line::from(vec![
        Span::raw(" "),
        dot,
        Span::raw(" "),
        Span::styled(name(model), style(model, Look::Focused)),
    ]);
    frame.render_widget(Paragraph::new(title), area);
    let at = |columns: &Range<u16>| {
        Rect::new(columns.start, area.y, columns.end - columns.start, 1).intersection(area)
    };
    let look = |is_front: bool| style(model, if is_front { Look::Strong } else { Look::Dim });
    let separator = |frame: &mut Frame<'_>, column: u16| {
        let place = Rect::new(column, area.y, 1, 1).intersection(area);
        frame.render_widget(Span::styled("|", style(model, Look::Dim)), place);
    };
    for (n, (tab, columns)) in left_tabs(model).into_iter().enumerate() {
        if n > 0 {
            separator(frame, columns.start - 2);
        }
        frame.render_widget(Span::styled(tab.title(), look(tab == model.left)), at(&columns));
    }
    for (n, (tab, columns)) in right_tabs(model).into_iter().enumerate() {
        if n > 0 {
            separator(frame, columns.start - 2);
        }
        frame.render_widget(Span::styled(tab.title(), look(tab == model.right)), at(&columns));
    }
    let (words, look) = badge(model);
    let badge = Paragraph::new(Span::styled(format!("{words} "), look)).alignment(Alignment::Right);
    let from = right_tabs(model).last().map_or(0, |(_, columns)| columns.end + 1);
    frame
        .render_widget(badge, Rect::new(from, area.y, area.width.saturating_sub(from), 1).intersection(area));
}

/// Returns what the agents do, in two words.
fn badge(model: &Model) -> (String, Style) {
    let status = &model.status;
    if model.issue().is_some() {
        return ("⚠ Issue".to_owned(), style(model, Look::Alert));
    }
    if status.state == "asking" {
        return ("? Asks".to_owned(), style(model, Look::Alert));
    }
    let more = status.all.len().saturating_sub(1);
    let more = if more > 0 { format!(" +{more}") } else { String::new() };
    match (status.mode.as_str(), status.task_number) {
        _ if !model.is_busy() => ("● Idle".to_owned(), style(model, Look::Dim)),
        ("wildfire", _) => (format!("● Wildfire{more}"), style(model, Look::Fire)),
        ("chat", _) => (format!("● Chat{more}"), style(model, Look::Good)),
        (_, 0) => (format!("● Working{more}"), style(model, Look::Good)),
        (_, number) => (format!("● Task #{number:04}{more}"), style(model, Look::Good)),
    }
}

pub(super) fn status(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let bar = style(model, Look::Bar);
    let (words, look) = told(model);
    if matches!(model.overlay, Some(Overlay::Confirm(_))) && Span::raw(&*words).width() >= room(model) {
        return question(frame, area, &words, look);
    }
    let connection = match model.connection {
        Connection::Lost => Span::styled("⚠ Disconnected ", style(model, Look::Alert)),
        _ if model.follows => Span::styled("Follows  Connected ", bar),
        _ => Span::styled("Connected ", bar),
    };
    let right = u16::try_from(connection.width()).unwrap_or(0);
    frame.render_widget(Paragraph::new("").style(bar), area);
    let left = Rect::new(area.x, area.y, area.width.saturating_sub(right + 1), area.height);
    frame.render_widget(Paragraph::new(Span::styled(format!(" {words}"), look)).style(bar), left);
    frame.render_widget(Paragraph::new(connection).alignment(Alignment::Right).style(bar), area);
}

/// Draws a question that is too long for the bar, over what lies above.
fn question(frame: &mut Frame<'_>, area: Rect, words: &str, look: Style) {
    let rows = wrapped(words, area.width.saturating_sub(2));
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(area.bottom());
    let place = Rect::new(area.x, area.bottom() - height, area.width, height);
    let lines: Vec<_> = rows.iter().map(|row| Line::from(format!(" {row}"))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).style(look), place);
}

/// Returns what the status bar says: a question, an error, or the keys that count here.
fn told(model: &Model) -> (String, Style) {
    let bar = style(model, Look::Bar);
    if let Some(Overlay::Confirm(asked)) = &model.overlay {
        let words = match asked {
            Confirm::Delete(numbers) => match numbers[..] {
                [number] => format!("Delete task #{number:04}? (y/n)"),
                _ => format!("Delete {} tasks? (y/n)", numbers.len()),
            },
            Confirm::Undo(number) => {
                format!("Take back what #{number:04} has merged, by a new task? (y/n)")
            }
            Confirm::Quit => "Agent running. Quit? It goes on without this program. (y/n)".to_owned(),
            Confirm::EmptyTrash => "Remove everything in the trash for good? (y/n)".to_owned(),
            Confirm::Discard(number) => {
                format!(
                    "Delete the branch of #{number:04} with its unmerged work? A rescue ref keeps it. (y/n)"
                )
            }
            Confirm::Merge(number, accepted) => {
                let what = match accepted {
                    Accepted::Marks => "has conflict marks",
                    Accepted::Protected => "changes protected paths",
                    Accepted::Commands => "changes what git or tools run by themselves",
                };
                let detail = model.task(*number).map_or_else(String::new, |task| clean(&task.detail));
                format!("#{number:04} {what}. Merge it all the same? (y/n)  {detail}")
            }
            Confirm::DeleteLog(_) => "Delete this log? (y/n)".to_owned(),
            Confirm::Stop => "Stop all agents of this project? Their work is kept. (y/n)".to_owned(),
        };
        return (words, style(model, Look::Alert));
    }
    if let (Some(Overlay::Words(words, number, line)), None) = (&model.overlay, &model.flash) {
        let what = match words {
            Words::Answer(_) => "Answer",
            Words::SendBack => "Send back",
        };
        let text = typed(model, &format!("{what} #{number:04}: "), line, "Enter send  Esc cancel");
        return (text, style(model, Look::Alert));
    }
    if let (Some(Overlay::Find(line)), None) = (&model.overlay, &model.flash) {
        return (typed(model, "Find: ", line, "Enter further up  Esc close"), bar);
    }
    if let Some(flash) = &model.flash {
        let look = if flash.is_error { style(model, Look::Alert) } else { bar };
        return (clean(&flash.text), look);
    }
    if model.filter.1 {
        return (format!("/{}▏  Enter keep  Esc clear", clean(&model.filter.0)), bar);
    }
    (hints(model), bar)
}

/// Columns of the status bar for words, beside the connection.
fn room(model: &Model) -> usize {
    usize::from(model.size.0).saturating_sub(match model.connection {
        _ if model.follows => 20,
        Connection::Lost => 17,
        _ => 12,
    })
}

/// Returns a line that is typed, with its cursor, and the keys after it: what fits around the cursor.
fn typed(model: &Model, what: &str, line: &forms::Line, keys: &str) -> String {
    let (text, at) = (line.text(), line.0.cursor().1);
    let before: String = text.chars().take(at).collect();
    let after: String = text.chars().skip(at).collect();
    let room = room(model).saturating_sub(what.len() + keys.len() + 4);
    let width = |text: &str| Span::raw(text.to_owned()).width();
    let mut before = clean(&before);
    while width(&before) > room {
        before.remove(0);
    }
    let mut after = clean(&after);
    while width(&before) + width(&after) > room {
        after.pop();
    }
    format!("{what}{before}▏{after}  {keys}")
}

/// Returns the keys that count here.
fn hints(model: &Model) -> String {
    let hints = |hints: &[(&str, &str)]| {
        let mut shown = String::new();
        for (action, word) in hints {
            let hint = format!("{} {word}", model.keymap.shown(&[*action]));
            // Only whole ones; the help has them all.
            let used = if hints.len() > 3 { 40 } else { 0 };
            if Span::raw(format!("{shown}  {hint}")).width() + used > room(model) {
                break;
            }
            shown = if shown.is_empty() { hint } else { format!("{shown}  {hint}") };
        }
        shown
    };
    let everywhere = hints(&[("quit", "quit"), ("help", "help"), ("panel", "switch")]);
    let here = match (&model.overlay, model.focus, model.left, model.right) {
        (Some(Overlay::Task(_)), ..) => return "Ctrl+s save  Esc cancel".to_owned(),
        (Some(Overlay::List(list)), ..) => return list.words().1.to_owned(),
        (Some(Overlay::Info(..)), ..) => return "j/k scroll  Esc close".to_owned(),
        (Some(_), ..) => return "Esc close".to_owned(),
        _ if model.tiles.is_some() => return "arrows choose  Enter go to it  Esc back".to_owned(),
        (_, Focus::Right, _, RightTab::Chat) if model.terminal.ended || model.terminal.snapshot.is_none() => {
            "c chat  C the last one  l logs".to_owned()
        }
        (_, Focus::Right, _, RightTab::Chat) => "(input goes to agent)".to_owned(),
        (_, Focus::Right, _, RightTab::Logs) if model.logs.open.is_some() => {
            "j/k scroll  Esc back".to_owned()
        }
        (_, Focus::Right, _, RightTab::Logs) => "j/k move  Enter read  x delete".to_owned(),
        (_, Focus::Right, _, RightTab::Diff) => {
            let quit = hints(&[("quit", "quit")]);
            return format!("{quit}  j/k scroll  n/p file  v sides  r again  h logs");
        }
        (_, _, LeftTab::Tasks, _) if !model.marked.is_empty() => {
            let keys = [
                ("start", "start"),
                ("ready", "ready"),
                ("draft", "draft"),
                ("done", "done"),
                ("merge", "merge"),
                ("delete", "delete"),
            ];
            return format!("{} marked: {}  Esc none", model.marked.len(), hints(&keys));
        }
        (_, _, LeftTab::Tasks, _) => hints(&[
            ("add", "add"),
            ("edit", "edit"),
            ("start", "start"),
            ("ready", "ready"),
            ("done", "done"),
            ("delete", "delete"),
        ]),
        (_, _, LeftTab::Definition, _) => "e edit  (opens $EDITOR)".to_owned(),
        (_, _, LeftTab::Settings, _) => "j/k navigate  Enter edit  Space toggle".to_owned(),
    };
    format!("{everywhere}  {here}")
}
