//! Turns messages into changes of the model and commands. Pure.
//!
//! A key goes to the global keys first, then to what lies over the panels, then to the panel that has the keys.

pub(crate) mod left;
mod mouse;
mod overlay;
mod right;

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use watchfire_client::daemon_proto as proto;
use watchfire_core::terminal::Snapshot;

use crate::diff::rows;
use crate::keymap::{Pressed, Scope};
use crate::layout::Areas;
use crate::message::{Command, Message};
use crate::model::{
    Confirm, Connection, Diff, Flash, Focus, LeftTab, Model, OpenLog, Overlay, RightTab, Terminal,
};
use crate::{agents, alerts, encode, lists, tasks, view};

/// Time that words stay in the status bar.
const FLASH: u64 = 3_000;

/// Time for which keys do not end the program after the daemon has ended.
const READ: u64 = 1_000;
/// Milliseconds after which the diff of work that goes on is asked for anew.
const LIVE: u64 = 2_000;

/// Takes in a message, and returns the commands that follow from it.
pub fn update(model: &mut Model, message: Message) -> Vec<Command> {
    if let Message::Tick(now) = message {
        model.now = now;
    }
    if model.flash.as_ref().is_some_and(|flash| flash.until <= model.now) {
        model.flash = None;
    }
    let agents =
        |model: &Model| -> Vec<_> { model.status.all.iter().map(|agent| agent.session_id.clone()).collect() };
    // Only these can begin or end an episode; keys and screens come far more often.
    let is_news = matches!(message, Message::Status(_) | Message::Tasks(_) | Message::Connected);
    let before = is_news.then(|| agents(model));
    let mut commands = match message {
        // What is not seen is not done.
        Message::Key(event) if Areas::is_too_small(model.size) => quits(model, &event),
        Message::Paste(_) | Message::Mouse(_) if Areas::is_too_small(model.size) => Vec::new(),
        Message::Key(event) if event.kind == KeyEventKind::Release => released(model, &event),
        Message::Key(event) => {
            model.selection = None;
            translated(model, event)
        }
        Message::Found { session, line } if session == model.terminal.session => found(model, line),
        Message::Logs(list) => logs(model, list),
        // What is being written is not thrown away.
        Message::NoAgent(words) if model.overlay.is_none() => vec![Command::GiveUp(words)],
        Message::Screen { session, snapshot } => screen(model, session, snapshot),
        // Terminals send the ends of lines as the Enter key.
        Message::Paste(text) => paste(model, &text.replace("\r\n", "\n").replace('\r', "\n")),
        Message::Mouse(event) => mouse::mouse(model, event),
        Message::Connected => {
            model.connection = Connection::Connected;
            model.trouble.clear();
            again(model)
        }
        other => {
            learn(model, other);
            Vec::new()
        }
    };
    if let Some(before) = before {
        commands.extend(alerts::news(model));
        // A log has begun or ended.
        let is_other = model.right == RightTab::Logs && before != agents(model);
        commands.extend(is_other.then_some(Command::ListLogs));
    }
    commands.extend(follow(model));
    commands.extend(agents::watch(model));
    commands.extend(diff(model));
    commands.extend(fit(model));
    lay_out(model);
    let height = model.areas().list.height;
    if height > 0 && !Areas::is_too_small(model.size) {
        model.list_at = tasks::first_row(model, usize::from(height));
    }
    commands
}

/// Lays out the open log for its panel.
fn lay_out(model: &mut Model) {
    let columns = model.areas().terminal.width;
    if let Some(open) = model.logs.open.as_mut().filter(|open| open.columns != columns) {
        open.rows = view::log_rows(&open.log, columns);
        open.columns = columns;
        open.at = open.at.min(open.rows.len().saturating_sub(1));
    }
}

/// Asks again for what may have got lost with the connection, or have changed since.
fn again(model: &mut Model) -> Vec<Command> {
    model.given = (0, 0);
    model.diff.is_old = true;
    let mut commands = match &model.overlay {
        Some(Overlay::List(list)) => lists::call(list.kind),
        Some(Overlay::Info(number, _)) => vec![Command::GetDetails(*number)],
        _ => Vec::new(),
    };
    commands.extend((model.right == RightTab::Logs).then_some(Command::ListLogs));
    commands
}

/// Asks for one agent's terminal: the chosen agent's, else the selected task's, else the newest.
fn follow(model: &mut Model) -> Option<Command> {
    let is_picked = |agent: &&proto::AgentStatus| {
        model.picked.as_ref().is_some_and(|(task, it)| *task == model.selected && *it == agent.session_id)
    };
    let picked = agents::running(model).find(is_picked);
    let agent = picked.or_else(|| model.agent_of(model.selected).filter(|agent| agent.is_running));
    let wanted = agent.map(|agent| agent.session_id.clone()).unwrap_or_default();
    if wanted == model.followed {
        return None;
    }
    model.followed.clone_from(&wanted);
    Some(Command::Follow(wanted))
}

/// Asks for the selected task's diff while its tab is open.
fn diff(model: &mut Model) -> Option<Command> {
    if model.right != RightTab::Diff || model.selected == 0 {
        return None;
    }
    if model.diff.task != model.selected {
        model.diff = Diff { task: model.selected, beside: model.diff.beside, ..Diff::default() };
    } else if !std::mem::take(&mut model.diff.is_old) {
        return None;
    }
    model.diff.asked_at = model.now;
    Some(Command::GetDiff(model.selected))
}

/// Shows the screen of a session. A view that is scrolled back keeps its lines.
fn screen(model: &mut Model, session: String, snapshot: Arc<Snapshot>) -> Vec<Command> {
    if model.terminal.session != session {
        // The agent before it is gone with its lines, and this one has never been given our size.
        model.terminal = Terminal { session, ..Terminal::default() };
        model.given = (0, 0);
    }
    let (terminal, given) = (&mut model.terminal, model.given);
    let is_given = |screen: &Snapshot| (screen.size.cols(), screen.size.rows()) == given;
    // One that was never there may still be on its way.
    terminal.resized |= terminal.snapshot.as_ref().is_some_and(|before| is_given(before));
    terminal.resized &= !is_given(&snapshot);
    if let Some(before) = terminal.snapshot.as_ref().filter(|_| terminal.back > 0) {
        if before.size == snapshot.size && snapshot.scrollback.start <= before.scrollback.end {
            let new = snapshot.scrollback.end.saturating_sub(before.scrollback.end);
            terminal.back = terminal.back.saturating_add(new);
        } else {
            // None of the lines has its number any more: they have other breaks, were dropped, or another daemon counts anew.
            terminal.lines = (0, Vec::new());
        }
    }
    terminal.snapshot = Some(snapshot);
    (terminal.ended, terminal.crashed) = (false, false);
    model.not_started = None;
    let terminal = &model.terminal;
    if terminal.back > 0 { right::scroll(model, 0) } else { Vec::new() }
}

/// Takes in the logs, and opens the one that was asked for.
fn logs(model: &mut Model, list: Vec<proto::Log>) -> Vec<Command> {
    let before = model.logs.list.as_ref().and_then(|before| before.get(model.logs.selected));
    let same = before.and_then(|before| list.iter().position(|log| log.log_id == before.log_id));
    model.logs.selected = same.unwrap_or(model.logs.selected).min(list.len().saturating_sub(1));
    let wanted = model.logs.wanted.take();
    let at = wanted.map(|wanted| list.iter().position(|log| log.task_number == wanted));
    let command = match at {
        Some(Some(at)) => {
            model.logs.selected = at;
            list.get(at).map(|log| Command::GetLog(log.log_id.clone()))
        }
        Some(None) => {
            flash(model, "the task has no log yet", false);
            None
        }
        None => None,
    };
    model.logs.list = Some(list);
    command.into_iter().collect()
}

/// Scrolls to a line that a search has found.
fn found(model: &mut Model, line: Option<u64>) -> Vec<Command> {
    let kept = model.terminal.snapshot.as_ref().map_or(0..0, |screen| screen.scrollback.clone());
    let end = kept.end;
    match (line, &model.overlay) {
        // Lines have other numbers since a resize that came in between, or this one is gone.
        (Some(line), Some(Overlay::Find(text))) if line < kept.start => {
            vec![Command::Find { text: text.text(), before: end }]
        }
        (Some(line), _) => {
            model.terminal.back = end.saturating_sub(line);
            right::scroll(model, 0)
        }
        (None, _) => {
            flash(model, "not found", true);
            Vec::new()
        }
    }
}

/// Takes in news of the daemon, the terminal and the clock.
fn learn(model: &mut Model, message: Message) {
    match message {
        Message::Resize(cols, rows) => model.size = (cols, rows),
        Message::Disconnected => model.connection = Connection::Lost,
        Message::ShutDown => (model.connection, model.ended_at) = (Connection::ShutDown, model.now),
        Message::Project(project) => {
            let is_saved = |text: &String| text.trim() == project.definition.trim();
            model.unsaved.take_if(|text| is_saved(text));
            model.project = *project;
        }
        Message::Malformed(files) => model.malformed = files,
        // An error is read first.
        Message::Notice(_) if model.flash.as_ref().is_some_and(|flash| flash.is_error) => {}
        Message::Notice(words) => flash(model, &words, false),
        Message::Tasks(mut list) => {
            if model.is_reordered {
                // The order is the person's until the task is let go.
                let place = |number| model.tasks.iter().position(|task| task.task_number == number);
                list.sort_by_key(|task| place(task.task_number).unwrap_or(usize::MAX));
            }
            let at = tasks::numbers(model).iter().position(|number| *number == model.selected);
            let shown = |tasks: &[proto::Task]| {
                tasks.iter().find(|task| task.task_number == model.diff.task).cloned()
            };
            model.diff.is_old |= shown(&model.tasks) != shown(&list);
            model.tasks = list;
            let is_there = |number: &i32| model.tasks.iter().any(|task| task.task_number == *number);
            model.marked.retain(is_there);
            if model.task(model.created).is_some() {
                model.created = 0;
            }
            // One that was just created may come with the next ones.
            if model.selected == 0 || model.selected != model.created {
                tasks::keep_selected_at(model, at.unwrap_or(0));
            }
        }
        Message::Status(status) => {
            let has = |status: &proto::AgentStatus| {
                status.all.iter().any(|agent| agent.session_id == model.terminal.session)
            };
            // Also without a stream that says so: the daemon was away.
            model.terminal.ended |= has(&model.status) && !has(&status);
            model.status = *status;
            let is_at_work = model.agent_of(model.diff.task).is_some();
            model.diff.is_old |= is_at_work && model.now >= model.diff.asked_at + LIVE;
        }
        Message::ScreenEnded(crashed) => (model.terminal.ended, model.terminal.crashed) = (true, crashed),
        Message::Scrollback { session, from, lines } if session == model.terminal.session => {
            model.terminal.lines = (from, lines);
        }
        // Another agent is shown meanwhile.
        Message::Scrollback { .. } | Message::Found { .. } => {}
        Message::Diff(task, lines) if task == model.diff.task => {
            model.diff.inks = Vec::new();
            model.diff.rows = rows(&lines, model.diff.beside);
            model.diff.at = model.diff.at.min(model.diff.rows.len().saturating_sub(1));
            model.diff.lines = Some(lines);
        }
        Message::Inked(task, inks) if task == model.diff.task => model.diff.inks = inks,
        // Another task is selected meanwhile.
        Message::Diff(..) | Message::Inked(..) => {}
        Message::Tile { session, snapshot } => {
            let is_watched = model.watched.contains(&session);
            if let Some(tiles) = model.tiles.as_mut().filter(|_| is_watched) {
                tiles.screens.insert(session, snapshot);
            }
        }
        Message::Branches(own, others) => lists::fill(model, lists::of_branches(&own, &others)),
        Message::Trash(tasks) => lists::fill(model, lists::of_trash(&tasks)),
        Message::Inbox(agents) => {
            let rows = lists::of_agents(&agents, &model.project.project_id);
            lists::fill(model, rows);
        }
        Message::Costs(costs) => lists::fill(model, lists::of_costs(&costs, &model.tasks)),
        Message::History(works) => lists::fill(model, lists::of_history(&works, &model.tasks)),
        Message::Details(number, details) => model.details = (number, details),
        Message::Log(log) => {
            model.logs.open = Some(OpenLog { log, rows: Vec::new(), columns: 0, at: 0 });
        }
        Message::Saved => {
            saved(model);
            flash(model, "Saved", false);
        }
        Message::Created(number) => {
            saved(model);
            flash(model, "Saved", false);
            // It comes with the tasks, which are on their way.
            model.selected = number;
            model.created = if model.task(number).is_some() { 0 } else { number };
        }
        Message::Projects(projects) => {
            let list = lists::of_projects(&projects, &model.project.project_id);
            lists::fill(model, list);
        }
        Message::Failed(words) => {
            if model.connection != Connection::Connected {
                model.trouble.clone_from(&words);
            }
            flash(model, &words, true);
        }
        Message::NotSaved(words) => not_saved(model, &words),
        Message::Started(words) => {
            saved(model);
            words.into_iter().for_each(|words| flash(model, &words, false));
        }
        Message::NotStarted(words) | Message::NoAgent(words) => {
            not_saved(model, &words);
            model.not_started = Some(words);
        }
        // Handled before.
        Message::Tick(_) | Message::Key(_) | Message::Paste(_) | Message::Mouse(_) => {}
        Message::Connected | Message::Screen { .. } | Message::Logs(_) => {}
    }
}

/// Closes what waited for its words to be taken in.
fn saved(model: &mut Model) {
    let is_sent = match &model.overlay {
        Some(Overlay::Task(form)) => form.sent,
        Some(Overlay::Words(..)) => model.sending,
        _ => false,
    };
    if is_sent {
        model.overlay = None;
    }
    model.sending = false;
}

/// Says why something was not taken in. Its words stay, to be changed.
fn not_saved(model: &mut Model, words: &str) {
    model.sending = false;
    match &mut model.overlay {
        Some(Overlay::Task(form)) if form.sent => {
            form.sent = false;
            form.problem = Some(words.to_owned());
        }
        _ => flash(model, words, true),
    }
}

pub(crate) fn flash(model: &mut Model, words: &str, is_error: bool) {
    model.flash = Some(Flash { text: words.to_owned(), is_error, until: model.now + FLASH });
}

/// Gives the agent's terminal the size of its panel, whenever that is another one.
fn fit(model: &mut Model) -> Option<Command> {
    let area = model.areas().terminal;
    let wanted = (area.width, area.height);
    let is_shown =
        model.right == RightTab::Chat && !model.terminal.session.is_empty() && !model.terminal.ended;
    if !is_shown || model.given == wanted || area.width == 0 || area.height == 0 {
        return None;
    }
    model.given = wanted;
    Some(Command::Resize { rows: area.height, cols: area.width })
}

/// Leaves with the key for that, and does nothing with others.
fn quits(model: &Model, event: &KeyEvent) -> Vec<Command> {
    let is_quit = model.keymap.key("quit").is_some_and(|key| key.is(event));
    if is_quit { vec![Command::Quit] } else { Vec::new() }
}

/// Handles a key, after translating the person's own keys into the default ones.
fn translated(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    if model.connection == Connection::ShutDown {
        // Who is typing has not read it yet.
        return if model.now < model.ended_at + READ { Vec::new() } else { vec![Command::Quit] };
    }
    let is_typing = model.overlay.is_some() || model.filter.1 || model.settings.editing.is_some();
    let mut scopes = vec![Scope::Everywhere];
    match (model.focus, model.right, model.left) {
        _ if is_typing => {}
        _ if model.tiles.is_some() => scopes.push(Scope::Tasks),
        (Focus::Right, RightTab::Chat, _) => scopes.push(Scope::Terminal),
        (Focus::Left, _, LeftTab::Tasks) => scopes.extend([Scope::Left, Scope::Tasks]),
        (Focus::Left, ..) => scopes.push(Scope::Left),
        _ => {}
    }
    match model.keymap.translate(event, &scopes) {
        Pressed::Known(event) => key(model, event),
        // It is no key of ours any more, and may be one of the agent's, or of a form.
        Pressed::GivenAway(event) => match (model.focus, model.right) {
            (Focus::Right, RightTab::Chat) if model.overlay.is_none() && model.tiles.is_none() => {
                right::to_agent(model, event)
            }
            _ => elsewhere(model, event),
        },
        Pressed::Nothing => Vec::new(),
    }
}

/// Passes on that a key was let go, to an agent that wants to know.
fn released(model: &Model, event: &KeyEvent) -> Vec<Command> {
    let has_keys = model.focus == Focus::Right && model.right == RightTab::Chat && model.overlay.is_none();
    let screen = model.terminal.snapshot.as_ref().filter(|_| !model.terminal.ended && model.tiles.is_none());
    let bytes = screen.filter(|_| has_keys).map(|screen| encode::key(screen, event)).unwrap_or_default();
    if bytes.is_empty() { Vec::new() } else { vec![Command::SendInput(bytes)] }
}

fn key(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
    let is_typing = model.filter.1 || model.settings.editing.is_some();
    match event.code {
        KeyCode::Char('q') if ctrl => return quit(model),
        KeyCode::Char('h') if ctrl => {
            model.overlay = match model.overlay.take() {
                Some(Overlay::Help) => None,
                // Its texts would be lost.
                Some(
                    kept @ (Overlay::Task(_) | Overlay::Words(..) | Overlay::Find(_) | Overlay::Confirm(_)),
                ) => Some(kept),
                _ => Some(Overlay::Help),
            };
            return Vec::new();
        }
        KeyCode::Tab if model.overlay.is_none() && model.tiles.is_none() && !is_typing => {
            model.focus = if model.focus == Focus::Left { Focus::Right } else { Focus::Left };
            // Nothing has the keys that is not seen.
            model.zoomed &= model.focus == Focus::Right;
            return Vec::new();
        }
        _ => {}
    }
    elsewhere(model, event)
}

/// Takes away words that would hide what is typed in the status bar.
fn shows_what_is_typed(model: &mut Model) {
    if matches!(model.overlay, Some(Overlay::Words(..) | Overlay::Find(_))) || model.filter.1 {
        model.flash = None;
    }
}

/// Takes in a key that is none of those that count everywhere.
fn elsewhere(model: &mut Model, event: KeyEvent) -> Vec<Command> {
    shows_what_is_typed(model);
    if let Some(overlay) = model.overlay.take() {
        return overlay::key(model, overlay, event);
    }
    if model.tiles.is_some() {
        agents::key(model, event);
        return Vec::new();
    }
    match model.focus {
        Focus::Left => left::key(model, event),
        Focus::Right => right::key(model, event),
    }
}

/// Leaves at once, or asks while agents work.
fn quit(model: &mut Model) -> Vec<Command> {
    if model.is_busy() && !matches!(model.overlay, Some(Overlay::Confirm(Confirm::Quit))) {
        // What is open stays open for those who answer no.
        model.behind = model.overlay.take().map(Box::new);
        model.overlay = Some(Overlay::Confirm(Confirm::Quit));
        return Vec::new();
    }
    vec![Command::Quit]
}

fn paste(model: &mut Model, text: &str) -> Vec<Command> {
    shows_what_is_typed(model);
    if model.tiles.is_some() {
        return Vec::new();
    }
    match &mut model.overlay {
        Some(Overlay::Task(form)) => {
            form.paste(text);
            return Vec::new();
        }
        Some(Overlay::List(list)) => {
            list.typed(&text.replace(['\n', '\r'], " "));
            return Vec::new();
        }
        Some(Overlay::Find(line)) => {
            line.0.insert_str(text.replace(['\n', '\r'], " "));
            return Vec::new();
        }
        Some(Overlay::Words(_, _, line)) => {
            line.0.insert_str(text.replace(['\n', '\r'], " "));
            return Vec::new();
        }
        Some(_) => return Vec::new(),
        None => {}
    }
    let one_line = || text.replace(['\n', '\r'], " ");
    if model.filter.1 {
        model.filter.0.push_str(&one_line());
        tasks::keep_selected(model);
        return Vec::new();
    }
    if let Some(line) = &mut model.settings.editing {
        line.0.insert_str(one_line());
        return Vec::new();
    }
    match (model.focus, model.right, &model.terminal.snapshot) {
        (Focus::Right, RightTab::Chat, Some(screen)) if !model.terminal.ended => {
            let pasted = vec![Command::SendInput(encode::paste(screen, text))];
            right::takes_over(model);
            pasted
        }
        _ => Vec::new(),
    }
}

/// Shows a tab of the left panel.
pub(crate) fn show_left(model: &mut Model, tab: LeftTab) {
    model.left = tab;
    model.settings.editing = None;
}

/// Shows a tab of the right panel. Logs are read each time.
pub(crate) fn show_right(model: &mut Model, tab: RightTab) -> Vec<Command> {
    model.right = tab;
    match tab {
        RightTab::Chat => Vec::new(),
        RightTab::Logs => vec![Command::ListLogs],
        RightTab::Diff => {
            // Asked for anew: the agent goes on.
            model.diff.task = 0;
            Vec::new()
        }
    }
}

/// Returns the request that changes the project's definition to this text.
#[must_use]
pub fn definition(model: &Model, text: String) -> Command {
    Command::UpdateProject(Box::new(proto::UpdateProjectRequest {
        project_id: model.project.project_id.clone(),
        definition: Some(text),
        ..Default::default()
    }))
}
