//! A project with tasks and an agent, for models.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use watchfire_client::daemon_proto as proto;
use watchfire_core::terminal::{Size, Snapshot, Terminal as _};
use watchfire_term::Emulator;
use watchfire_tui::message::{Command, Message};
use watchfire_tui::model::Model;
use watchfire_tui::update::update;
use watchfire_tui::view::view;

pub(crate) const SESSION: &str = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";

pub(crate) fn task(number: i32, title: &str, status: &str) -> proto::Task {
    proto::Task {
        task_number: number,
        project_id: "p".to_owned(),
        title: title.to_owned(),
        prompt: format!("Do {title}."),
        status: status.to_owned(),
        state: status.to_owned(),
        success: (status == "done").then_some(true),
        ..Default::default()
    }
}

/// A model as the daemon's first answers leave it.
pub(crate) fn model(cols: u16, rows: u16) -> Model {
    let mut model = Model::new((cols, rows));
    let project = proto::Project {
        project_id: "p".to_owned(),
        name: "my-project".to_owned(),
        color: "#22c55e".to_owned(),
        default_branch: "main".to_owned(),
        auto_merge: true,
        definition: "# My project\n\nA small shop.\n".to_owned(),
        ..Default::default()
    };
    let mut failed = task(6, "Fix bug in auth", "done");
    failed.success = Some(false);
    failed.state = "failed".to_owned();
    let tasks = vec![
        task(1, "Setup project structure", "draft"),
        task(4, "Add authentication", "draft"),
        task(2, "Implement login flow", "ready"),
        task(7, "Add search feature", "ready"),
        task(3, "Create database schema", "done"),
        failed,
    ];
    for message in [
        Message::Project(Box::new(project)),
        Message::Tasks(tasks),
        Message::Status(Box::default()),
        Message::Connected,
    ] {
        assert!(update(&mut model, message).is_empty());
    }
    model
}

/// An agent at work on a task.
pub(crate) fn at_work(task_number: i32, mode: &str) -> proto::AgentStatus {
    let agent = proto::AgentStatus {
        project_id: "p".to_owned(),
        is_running: true,
        mode: mode.to_owned(),
        task_number,
        session_id: SESSION.to_owned(),
        state: "running".to_owned(),
        ..Default::default()
    };
    proto::AgentStatus { all: vec![agent.clone()], ..agent }
}

pub(crate) fn screen(cols: u16, rows: u16, bytes: &str) -> Arc<Snapshot> {
    let mut terminal = Emulator::new(Size::new(cols, rows));
    terminal.process(bytes.as_bytes());
    terminal.snapshot()
}

pub(crate) fn show(model: &mut Model, snapshot: Arc<Snapshot>) -> Vec<Command> {
    update(model, Message::Screen { session: SESSION.to_owned(), snapshot })
}

/// Presses keys: a word for one with a name, else a character.
pub(crate) fn press(model: &mut Model, keys: &[&str]) -> Vec<Command> {
    keys.iter().flat_map(|key| update(model, Message::Key(key_of(key)))).collect()
}

pub(crate) fn key_of(name: &str) -> KeyEvent {
    let (held, name) = match name.split_once('+') {
        Some(("ctrl", rest)) => (KeyModifiers::CONTROL, rest),
        Some(("alt", rest)) => (KeyModifiers::ALT, rest),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "backtab" => KeyCode::BackTab,
        "end" => KeyCode::End,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "backspace" => KeyCode::Backspace,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        function if function.len() > 1 && function.starts_with('f') => {
            KeyCode::F(function[1..].parse().unwrap())
        }
        one => KeyCode::Char(one.chars().next().unwrap()),
    };
    KeyEvent::new(code, held)
}

/// Agents at work on these tasks.
pub(crate) fn several(numbers: &[i32]) -> proto::AgentStatus {
    let agent = |number: &i32| proto::AgentStatus {
        session_id: format!("session-{number}"),
        task_title: format!("Task {number}"),
        all: Vec::new(),
        ..at_work(*number, "task")
    };
    let all: Vec<_> = numbers.iter().map(agent).collect();
    proto::AgentStatus { all: all.clone(), ..all[0].clone() }
}

/// Types a text, a character at a time.
pub(crate) fn type_in(model: &mut Model, text: &str) {
    for c in text.chars() {
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        update(model, Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
}

/// Returns what a model looks like, without looks.
pub(crate) fn text(model: &Model) -> String {
    let mut terminal = Terminal::new(TestBackend::new(model.size.0, model.size.1)).unwrap();
    terminal.draw(|frame| view(model, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(model.size.0));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
}
