//! The mouse: focus, tabs, rows, the divider, scrolling; and in the agent's terminal what the agent wants of it.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{flash, right, show_left, show_right};
use crate::message::Command;
use crate::model::{Focus, LeftTab, Model, Overlay, RightTab};
use crate::selection::Selection;
use crate::tasks::{self, Row};
use crate::{agents, encode, view};

/// Lines of one turn of the wheel.
const WHEEL: i64 = 3;
/// The narrowest and the widest left panel, in percent.
pub(super) const SPLIT: (u16, u16) = (20, 80);

pub(super) fn mouse(model: &mut Model, event: MouseEvent) -> Vec<Command> {
    let at = Position::new(event.column, event.row);
    let areas = model.areas();
    if model.dragging {
        match event.kind {
            MouseEventKind::Drag(MouseButton::Left) => {
                let percent = u32::from(event.column) * 100 / u32::from(model.size.0.max(1));
                model.split = u16::try_from(percent).unwrap_or(SPLIT.1).clamp(SPLIT.0, SPLIT.1);
            }
            MouseEventKind::Up(_) => model.dragging = false,
            _ => {}
        }
        return Vec::new();
    }
    if matches!(event.kind, MouseEventKind::Down(_)) && model.overlay.is_none() {
        // Keys go where the mouse points from now on.
        (model.filter.1, model.settings.editing) = (false, None);
        (model.carried, model.is_reordered) = (None, false);
    }
    if let Some(number) = model.carried {
        return carry(model, number, &event, areas.list);
    }
    if let Some(copied) = select(model, &event, areas.terminal) {
        return copied;
    }
    // An overlay has everything; only its own keys end it.
    if matches!(
        model.overlay,
        Some(
            Overlay::Task(_)
                | Overlay::Words(..)
                | Overlay::Help
                | Overlay::List(_)
                | Overlay::Info(..)
                | Overlay::Find(_)
                | Overlay::Confirm(_)
        )
    ) {
        return Vec::new();
    }
    if model.tiles.is_some() {
        return in_tiles(model, &event, at);
    }
    let is_left = areas.left.contains(at);
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => {
            // The border between the panels.
            if !model.zoomed && areas.right.contains(at) && event.column == areas.right.x
                || is_left && event.column + 1 == areas.left.right()
            {
                model.dragging = true;
                return Vec::new();
            }
            if areas.header.contains(at) {
                return header(model, event.column);
            }
            if areas.right.contains(at) && at.y + 1 == areas.right.bottom() {
                let tab = view::agent_tabs(model).into_iter().find(|tab| tab.columns.contains(&at.x));
                tab.into_iter().for_each(|tab| agents::enter(model, &tab.session));
                return Vec::new();
            }
            if is_left {
                model.focus = Focus::Left;
                return row(model, areas.list, at);
            }
            if areas.right.contains(at) {
                model.focus = Focus::Right;
            }
        }
        MouseEventKind::ScrollUp | MouseEventKind::ScrollDown if is_left => {
            let by = if event.kind == MouseEventKind::ScrollUp { -1 } else { 1 };
            match model.left {
                LeftTab::Tasks => tasks::select(model, by),
                LeftTab::Definition => {
                    let rows = view::wrapped(&model.project.definition, areas.list.width).len();
                    let last = u16::try_from(rows).unwrap_or(u16::MAX);
                    let to = i32::from(model.definition_at) + i32::try_from(by * 3).unwrap_or(0);
                    model.definition_at = u16::try_from(to.max(0)).unwrap_or(0).min(last.saturating_sub(1));
                }
                LeftTab::Settings => {}
            }
            return Vec::new();
        }
        _ => {}
    }
    if areas.terminal.contains(at) {
        return in_right(model, &event, areas.terminal);
    }
    Vec::new()
}

/// Carries a task to the place under the mouse, within its section, and saves the order when it is let go.
fn carry(model: &mut Model, number: i32, event: &MouseEvent, list: Rect) -> Vec<Command> {
    match event.kind {
        MouseEventKind::Drag(MouseButton::Left) => {
            let row = usize::from(event.row.saturating_sub(list.y));
            let at = tasks::first_row(model, usize::from(list.height)) + row;
            let under = match tasks::rows(model).get(at) {
                Some(Row::Task(task)) if task.task_number != number => task.task_number,
                _ => return Vec::new(),
            };
            tasks::carry(model, number, under);
            Vec::new()
        }
        _ => {
            model.carried = None;
            // The list shows the new order already.
            let order: Vec<_> = model.tasks.iter().map(|task| task.task_number).collect();
            let is_new = std::mem::take(&mut model.is_reordered);
            if is_new { vec![Command::ReorderTasks(order)] } else { Vec::new() }
        }
    }
}

/// A click on a tile selects it; a second one goes to its terminal.
fn in_tiles(model: &mut Model, event: &MouseEvent, at: Position) -> Vec<Command> {
    if event.kind == MouseEventKind::Down(MouseButton::Left) {
        let tiles = agents::tiles(model, model.areas().tiles);
        let under = tiles.into_iter().find(|(_, place)| place.contains(at));
        let session = under.map(|(agent, _)| agent.session_id.clone());
        match (&mut model.tiles, session) {
            (Some(tiles), Some(session)) if tiles.selected == session => agents::enter(model, &session),
            (Some(tiles), Some(session)) => tiles.selected = session,
            _ => {}
        }
    }
    Vec::new()
}

/// Selects text of the right panel while the button is down, and copies it when it is let go.
fn select(model: &mut Model, event: &MouseEvent, area: Rect) -> Option<Vec<Command>> {
    if matches!(event.kind, MouseEventKind::Down(_)) {
        model.selection = None;
    }
    let selection = model.selection.as_mut()?;
    match event.kind {
        MouseEventKind::Drag(MouseButton::Left) => {
            let inside = |at: u16, from: u16, to: u16| at.clamp(from, to.saturating_sub(1).max(from));
            selection.to = Position::new(
                inside(event.column, area.x, area.right()),
                inside(event.row, area.y, area.bottom()),
            );
            Some(Vec::new())
        }
        MouseEventKind::Up(MouseButton::Left) => {
            let selected = *selection;
            if selected.from == selected.to {
                model.selection = None;
                return None;
            }
            flash(model, "Copied", false);
            Some(vec![Command::Copy(selected)])
        }
        _ => None,
    }
}

/// Handles the mouse over the agent's terminal, the logs or the diff.
fn in_right(model: &mut Model, event: &MouseEvent, area: Rect) -> Vec<Command> {
    let by = match event.kind {
        MouseEventKind::ScrollUp => Some(WHEEL),
        MouseEventKind::ScrollDown => Some(-WHEEL),
        _ => None,
    };
    let begins = event.kind == MouseEventKind::Down(MouseButton::Left);
    let selection = begins.then(|| Selection::at(Position::new(event.column, event.row)));
    if model.right != RightTab::Chat {
        model.selection = selection;
    }
    if model.right == RightTab::Logs {
        match (&mut model.logs.open, by) {
            (Some(open), Some(by)) => {
                let to = open.at.saturating_add_signed(isize::try_from(-by).unwrap_or(0));
                open.at = to.min(open.rows.len().saturating_sub(1));
            }
            (None, Some(by)) => {
                let last = model.logs.list.as_ref().map_or(0, Vec::len).saturating_sub(1);
                let by = if by > 0 { -1 } else { 1 };
                model.logs.selected = model.logs.selected.saturating_add_signed(by).min(last);
            }
            (None, None) if event.kind == MouseEventKind::Down(MouseButton::Left) => {
                let first = view::first_log(model, area.height);
                let at = first + usize::from(event.row - area.y);
                if at < model.logs.list.as_ref().map_or(0, Vec::len) {
                    model.logs.selected = at;
                }
            }
            _ => {}
        }
        return Vec::new();
    }
    if model.right == RightTab::Diff {
        by.into_iter().for_each(|by| right::walk(model, isize::try_from(-by).unwrap_or(0)));
        return Vec::new();
    }
    let Some(screen) = model.terminal.snapshot.clone() else { return Vec::new() };
    let bytes = match model.terminal.ended || model.terminal.back > 0 {
        true => Vec::new(),
        false => encode::mouse(&screen, event, event.row - area.y, event.column - area.x),
    };
    match (bytes.is_empty(), by) {
        (false, _) => vec![Command::SendInput(bytes)],
        (true, Some(by)) => right::scroll(model, by),
        // A mouse event that the agent does not ask for is ours.
        (true, None) => {
            model.selection = selection;
            Vec::new()
        }
    }
}

fn header(model: &mut Model, column: u16) -> Vec<Command> {
    for (tab, range) in view::left_tabs(model) {
        if range.contains(&column) {
            model.focus = Focus::Left;
            model.zoomed = false;
            show_left(model, tab);
            return Vec::new();
        }
    }
    for (tab, range) in view::right_tabs(model) {
        if range.contains(&column) {
            model.focus = Focus::Right;
            return show_right(model, tab);
        }
    }
    Vec::new()
}

fn row(model: &mut Model, list: Rect, at: Position) -> Vec<Command> {
    if !list.contains(at) {
        return Vec::new();
    }
    let row = usize::from(at.y - list.y);
    match model.left {
        LeftTab::Tasks => {
            let first = tasks::first_row(model, usize::from(list.height));
            let rows = tasks::rows(model);
            if let Some(Row::Task(task)) = rows.get(first + row) {
                model.selected = task.task_number;
                model.carried = Some(model.selected);
            }
        }
        LeftTab::Settings if row < super::left::FIELDS.len() => model.settings.selected = row,
        LeftTab::Settings | LeftTab::Definition => {}
    }
    Vec::new()
}
