//! The terminals of all agents, side by side.

use ratatui::Frame;
use ratatui::layout::{Margin, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType};
use watchfire_client::daemon_proto as proto;

use super::screen::AgentLines;
use super::{clean, middle};
use crate::agents::{name, tiles};
use crate::alerts::reason;
use crate::model::Model;
use crate::theme::{Look, style};

pub(super) fn view(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(shown) = &model.tiles else { return };
    let tiles = tiles(model, area);
    if tiles.is_empty() {
        return middle(frame, area, "No agent is at work. Esc goes back.");
    }
    for (agent, place) in tiles {
        let is_selected = agent.session_id == shown.selected;
        let waits = reason(agent);
        let look = match (waits, is_selected) {
            (Some(_), _) => Look::Fire,
            (None, true) => Look::Focused,
            (None, false) => Look::Dim,
        };
        let kind = if is_selected { BorderType::Thick } else { BorderType::Rounded };
        let state = Line::from(format!(" {} ", clean(waits.unwrap_or(agent.state.as_str()))));
        let block = Block::bordered()
            .border_type(kind)
            .border_style(style(model, look))
            .title(format!(" {} {} ", name(agent), clean(&agent.task_title)))
            .title_bottom(state.right_aligned());
        frame.render_widget(block, place);
        if !shown.screens.contains_key(&agent.session_id) {
            middle(frame, inside(place), "...");
        }
    }
    lines(model).iter().for_each(|lines| lines.draw(frame.buffer_mut()));
}

fn inside(place: Rect) -> Rect {
    place.inner(Margin::new(1, 1))
}

/// Returns the visible lines of each screen: its last rows with content, because a screen is larger than its tile.
pub(super) fn lines(model: &Model) -> Vec<AgentLines<'_>> {
    let Some(shown) = &model.tiles else { return Vec::new() };
    let end = |(agent, place): (&proto::AgentStatus, Rect)| {
        let (screen, area) = (&**shown.screens.get(&agent.session_id)?, inside(place));
        let written = screen.lines.iter().rposition(|line| !line.text().trim().is_empty());
        let until = (usize::from(screen.cursor.row) + 1).max(written.map_or(0, |at| at + 1));
        let until = until.min(screen.lines.len());
        let from = until.saturating_sub(usize::from(area.height));
        let lines = screen.lines[from..until].iter().map(|line| Some(&**line)).collect();
        Some(AgentLines { area, screen, lines })
    };
    tiles(model, model.areas().tiles).into_iter().filter_map(end).collect()
}
