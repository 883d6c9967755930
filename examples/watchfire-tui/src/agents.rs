//! The agents of the project: their names, the one whose terminal is shown, and all of them side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use watchfire_client::{daemon_proto as proto, work};
use watchfire_core::terminal::Snapshot;

use crate::message::Command;
use crate::model::{Focus, Model, RightTab};

/// The smallest tile that something can be read in.
const SMALLEST: (u16, u16) = (38, 8);

/// Columns for each row of a tile: a little wider than the terminal of old, whose lines are read whole.
const SHAPE: f64 = 3.5;

/// The screens of all agents, side by side.
#[derive(Clone, Debug, Default)]
pub struct Tiles {
    /// The selected session.
    pub selected: String,
    /// The screens of sessions.
    pub screens: BTreeMap<String, Arc<Snapshot>>,
}

/// Returns the agents that have a terminal, oldest first.
pub(crate) fn running(model: &Model) -> impl Iterator<Item = &proto::AgentStatus> + Clone {
    model.status.all.iter().filter(|agent| agent.is_running && !agent.session_id.is_empty())
}

/// Returns the short name of an agent: its phase and the number of its task, or else its mode.
pub(crate) fn name(agent: &proto::AgentStatus) -> String {
    let number = u32::try_from(agent.task_number).unwrap_or_default();
    match work(&agent.mode, &agent.wildfire_phase, number) {
        chat if chat == "chat" => "Chat".to_owned(),
        work => work,
    }
}

/// Returns the session whose terminal is shown.
pub(crate) fn shown(model: &Model) -> &str {
    match model.followed.is_empty() {
        true => &model.terminal.session,
        false => &model.followed,
    }
}

/// Shows the terminal of a session, and selects its task.
pub(crate) fn show(model: &mut Model, session: &str) {
    let Some(agent) = running(model).find(|agent| agent.session_id == session) else { return };
    let number = agent.task_number;
    if model.task(number).is_some() {
        model.selected = number;
    }
    model.picked = Some((model.selected, session.to_owned()));
    model.right = RightTab::Chat;
}

/// Shows the agent that comes `by` places after the one that is shown.
pub(crate) fn turn(model: &mut Model, by: isize) {
    let sessions: Vec<_> = running(model).map(|agent| agent.session_id.clone()).collect();
    let at = sessions.iter().position(|session| session == shown(model));
    let count = sessions.len().cast_signed();
    let next = at.map_or(0, |at| (at.cast_signed() + by).rem_euclid(count.max(1)).unsigned_abs());
    if let Some(session) = sessions.get(next) {
        show(model, session);
    }
}

/// Shows all agents, the one that is shown first.
pub(crate) fn open(model: &mut Model) {
    let selected = shown(model).to_owned();
    model.tiles = Some(Tiles { selected, ..Tiles::default() });
}

/// Returns the agents of the page with the selected one, each with its place.
pub(crate) fn tiles(model: &Model, area: Rect) -> Vec<(&proto::AgentStatus, Rect)> {
    let agents: Vec<_> = running(model).collect();
    let most = |length: u16, least: u16| usize::from((length / least).max(1));
    let (cols, rows) = (most(area.width, SMALLEST.0), most(area.height, SMALLEST.1));
    let at = selected(model, &agents);
    let page = agents.chunks(cols * rows).nth(at / (cols * rows)).unwrap_or_default();
    // The grid whose tiles are most like a terminal.
    let strange = |cols: usize| {
        let (width, height) =
            (usize::from(area.width) / cols, usize::from(area.height) / page.len().div_ceil(cols).max(1));
        (width as f64 / height.max(1) as f64 / SHAPE).ln().abs()
    };
    let fits = (1..=cols).filter(|cols| page.len().div_ceil(*cols) <= rows);
    let cols = fits.min_by(|a, b| strange(*a).total_cmp(&strange(*b))).unwrap_or(cols);
    let rows = page.len().div_ceil(cols).max(1);
    // What does not divide evenly goes to the tiles one by one.
    let part = |length: u16, parts: usize, at: usize| {
        let edge = |at: usize| u16::try_from(usize::from(length) * at / parts).unwrap_or(length);
        (edge(at), edge(at + 1) - edge(at))
    };
    let place = |at: usize| {
        let ((x, width), (y, height)) =
            (part(area.width, cols, at % cols), part(area.height, rows, at / cols));
        Rect::new(area.x + x, area.y + y, width, height)
    };
    page.iter().enumerate().map(|(at, agent)| (*agent, place(at))).collect()
}

fn selected(model: &Model, agents: &[&proto::AgentStatus]) -> usize {
    let session = model.tiles.as_ref().map_or("", |tiles| tiles.selected.as_str());
    agents.iter().position(|agent| agent.session_id == session).unwrap_or(0)
}

/// Takes in a key while all agents are shown.
pub(crate) fn key(model: &mut Model, event: KeyEvent) {
    let agents: Vec<_> = running(model).collect();
    let (at, last) = (selected(model, &agents), agents.len().saturating_sub(1));
    let columns = {
        let places = tiles(model, model.areas().tiles);
        places.iter().take_while(|(_, place)| place.y == places[0].1.y).count().max(1).cast_signed()
    };
    let by = match event.code {
        KeyCode::Left | KeyCode::Char('h' | '[') => -1,
        KeyCode::Right | KeyCode::Char('l' | ']') => 1,
        KeyCode::Up | KeyCode::Char('k') => -columns,
        KeyCode::Down | KeyCode::Char('j') => columns,
        KeyCode::Esc | KeyCode::Char('q' | 'w') => {
            model.tiles = None;
            return;
        }
        KeyCode::Enter => {
            let session = agents.get(at).map(|agent| agent.session_id.clone()).unwrap_or_default();
            return enter(model, &session);
        }
        _ => return,
    };
    let to = at.saturating_add_signed(by).min(last);
    let session = agents.get(to).map(|agent| agent.session_id.clone()).unwrap_or_default();
    if let Some(tiles) = &mut model.tiles {
        tiles.selected = session;
    }
}

/// Goes to the terminal of a session.
pub(crate) fn enter(model: &mut Model, session: &str) {
    model.tiles = None;
    show(model, session);
    model.focus = Focus::Right;
}

/// Asks for the screens that are shown side by side, whenever they are others.
pub(crate) fn watch(model: &mut Model) -> Option<Command> {
    let area = model.areas().tiles;
    let sessions: Vec<_> = running(model).map(|agent| agent.session_id.clone()).collect();
    if let Some(tiles) = model.tiles.as_mut().filter(|tiles| !sessions.contains(&tiles.selected)) {
        // It has ended.
        tiles.selected = sessions.first().cloned().unwrap_or_default();
    }
    let wanted: Vec<_> = match &model.tiles {
        Some(_) => tiles(model, area).into_iter().map(|(agent, _)| agent.session_id.clone()).collect(),
        None => Vec::new(),
    };
    if wanted == model.watched {
        return None;
    }
    if let Some(tiles) = &mut model.tiles {
        tiles.screens.retain(|session, _| wanted.contains(session));
    }
    model.watched.clone_from(&wanted);
    Some(Command::Watch(wanted))
}
