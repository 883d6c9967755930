//! Keys of the right panel: the agent's terminal, logs, and what a task changes.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use watchfire_client::work_proto::DiffPart;
use watchfire_core::terminal::Modes;

use super::show_right;
use crate::diff::{Row, rows};
use crate::forms::Line;
use crate::message::Command;
use crate::model::{Confirm, Model, Overlay, RightTab};
use crate::{agents, encode, keymap};

pub(super) fn key(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    let is_held = event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match model.right {
        RightTab::Chat => terminal(model, event),
        // Others are for terminals, and would surprise here.
        _ if is_held => Vec::new(),
        RightTab::Logs => logs(model, event.code),
        RightTab::Diff => diff(model, event.code),
    }
}

/// All keys are the agent's, but those that the whole program keeps, and those that scroll where there is something to scroll to.
fn terminal(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    // Where there is one alone, they are its keys.
    let by = isize::from(keymap::is(&event, "next-terminal"))
        - isize::from(keymap::is(&event, "previous-terminal"));
    if by != 0 && agents::running(model).nth(1).is_some() {
        agents::turn(model, by);
        return Vec::new();
    }
    if keymap::is(&event, "zoom") {
        model.zoomed = !model.zoomed;
        return Vec::new();
    }
    let Some(screen) = model.terminal.snapshot.clone().filter(|_| !model.terminal.ended) else {
        return without_agent(model, event);
    };
    let page = u64::from(model.areas().terminal.height).max(1);
    // On the alternate screen the agent scrolls by itself.
    let scrolls = !screen.modes.contains(Modes::ALTERNATE_SCREEN);
    match event.code {
        KeyCode::PageUp if scrolls => return scroll(model, i64::try_from(page).unwrap_or(1)),
        KeyCode::PageDown if model.terminal.back > 0 => {
            return scroll(model, -i64::try_from(page).unwrap_or(1));
        }
        _ if scrolls && keymap::is(&event, "find") => {
            model.overlay = Some(Overlay::Find(Box::new(Line::new(""))));
            return Vec::new();
        }
        _ => {}
    }
    to_agent(model, event)
}

/// Makes this viewer the one that types: it sees the screen, and has the size.
pub(super) fn takes_over(model: &mut Model) {
    model.terminal.back = 0;
    if std::mem::take(&mut model.terminal.resized) {
        model.given = (0, 0);
    }
}

/// Sends a key to the agent.
pub(super) fn to_agent(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    let Some(screen) = model.terminal.snapshot.clone().filter(|_| !model.terminal.ended) else {
        return Vec::new();
    };
    takes_over(model);
    let bytes = encode::key(&screen, &event);
    if bytes.is_empty() { Vec::new() } else { vec![Command::SendInput(bytes)] }
}

fn without_agent(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    if keymap::is(&event, "find") {
        model.overlay = Some(Overlay::Find(Box::new(Line::new(""))));
        return Vec::new();
    }
    if event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return Vec::new();
    }
    match event.code {
        KeyCode::Char('l') | KeyCode::Right => show_right(model, RightTab::Logs),
        KeyCode::Char('c') => vec![Command::StartAgent { mode: "chat", tasks: Vec::new() }],
        KeyCode::Char('C') => vec![Command::ResumeChat],
        KeyCode::PageUp => scroll(model, 10),
        KeyCode::PageDown => scroll(model, -10),
        _ => Vec::new(),
    }
}

/// Scrolls the terminal back by `by` lines, and asks for the lines that are shown.
pub(super) fn scroll(model: &mut Model, by: i64) -> Vec<Command> {
    let Some(screen) = &model.terminal.snapshot else { return Vec::new() };
    let most = screen.scrollback.end - screen.scrollback.start;
    model.terminal.back = model.terminal.back.saturating_add_signed(by).min(most);
    if model.terminal.back == 0 {
        return Vec::new();
    }
    let first = screen.scrollback.end - model.terminal.back;
    let (from, lines) = &model.terminal.lines;
    let until = from + lines.len() as u64;
    let height = u64::from(model.areas().terminal.height);
    let is_known = *from <= first && (first + height).min(screen.scrollback.end) <= until;
    // With some more before them, for the next turn of the wheel.
    if is_known { Vec::new() } else { vec![Command::GetScrollback(first.saturating_sub(300))] }
}

fn logs(model: &mut Model, code: KeyCode) -> Vec<Command> {
    let page = usize::from(model.areas().terminal.height);
    if let Some(open) = &mut model.logs.open {
        // The first row is the title.
        let page = page.saturating_sub(1);
        let (at, last) = (open.at, open.rows.len().saturating_sub(1));
        let to = match code {
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Backspace => {
                model.logs.open = None;
                return Vec::new();
            }
            KeyCode::Char('j') | KeyCode::Down => at.saturating_add(1),
            KeyCode::Char('k') | KeyCode::Up => at.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => at.saturating_add(page),
            KeyCode::PageUp => at.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last.saturating_sub(page.saturating_sub(1)),
            _ => at,
        };
        open.at = to.min(last);
        return Vec::new();
    }
    let count = model.logs.list.as_ref().map_or(0, Vec::len);
    let last = count.saturating_sub(1);
    let at = model.logs.selected;
    match code {
        KeyCode::Char('h') | KeyCode::Left => return show_right(model, RightTab::Chat),
        KeyCode::Char('l') | KeyCode::Right => return show_right(model, RightTab::Diff),
        KeyCode::Char('j') | KeyCode::Down => model.logs.selected = (at + 1).min(last),
        KeyCode::Char('k') | KeyCode::Up => model.logs.selected = at.saturating_sub(1),
        KeyCode::PageDown => model.logs.selected = (at + page).min(last),
        KeyCode::PageUp => model.logs.selected = at.saturating_sub(page),
        KeyCode::Char('x') | KeyCode::Delete => {
            let log = model.logs.list.as_ref().and_then(|list| list.get(at));
            let asked = log.map(|log| Confirm::DeleteLog(log.log_id.clone()));
            model.overlay = asked.map(Overlay::Confirm);
        }
        KeyCode::Enter => {
            let log = model.logs.list.as_ref().and_then(|list| list.get(at));
            return log.map(|log| Command::GetLog(log.log_id.clone())).into_iter().collect();
        }
        _ => {}
    }
    Vec::new()
}

fn diff(model: &mut Model, code: KeyCode) -> Vec<Command> {
    // The first row is the title.
    let page = usize::from(model.areas().terminal.height.saturating_sub(1));
    match code {
        KeyCode::Char('h') | KeyCode::Left => return show_right(model, RightTab::Logs),
        KeyCode::Char('r') => return show_right(model, RightTab::Diff),
        KeyCode::Char('j') | KeyCode::Down => walk(model, 1),
        KeyCode::Char('k') | KeyCode::Up => walk(model, -1),
        KeyCode::PageDown | KeyCode::Char(' ') => walk(model, page.cast_signed()),
        KeyCode::PageUp => walk(model, -page.cast_signed()),
        KeyCode::Home | KeyCode::Char('g') => model.diff.at = 0,
        KeyCode::End | KeyCode::Char('G') => walk(model, isize::MAX),
        // From file to file.
        KeyCode::Char('n') => to_file(model, true),
        KeyCode::Char('p' | 'N') => to_file(model, false),
        KeyCode::Char('v') => turn(model),
        _ => {}
    }
    Vec::new()
}

/// Moves the diff by so many lines. Its end stays at the end of the panel.
pub(super) fn walk(model: &mut Model, by: isize) {
    let height = usize::from(model.areas().terminal.height.saturating_sub(1));
    let count = model.diff.rows.len();
    model.diff.at = model.diff.at.saturating_add_signed(by).min(count.saturating_sub(height));
}

/// Switches between before and after side by side and one after the other. The top line stays on top.
fn turn(model: &mut Model) {
    let Some(lines) = &model.diff.lines else { return };
    let top = model.diff.rows.get(model.diff.at).map_or(0, Row::first);
    model.diff.beside = !model.diff.beside;
    model.diff.rows = rows(lines, model.diff.beside);
    model.diff.at = model.diff.rows.partition_point(|row| row.first() < top);
    walk(model, 0);
}

fn to_file(model: &mut Model, forward: bool) {
    let Some(lines) = &model.diff.lines else { return };
    let is_file = |row: &Row| lines.get(row.first()).is_some_and(|line| line.part() == DiffPart::File);
    let files = model.diff.rows.iter().enumerate().filter_map(|(at, row)| is_file(row).then_some(at));
    let at = model.diff.at;
    let next = match forward {
        true => files.clone().find(|file| *file > at),
        false => files.clone().rev().find(|file| *file < at),
    };
    model.diff.at = next.unwrap_or(at);
}
