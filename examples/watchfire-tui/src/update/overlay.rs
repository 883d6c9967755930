//! Keys of the overlays. An overlay has been taken out of the model, and is put back as long as it stays.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::forms::TaskForm;
use crate::message::Command;
use crate::model::{Confirm, Model, Overlay};

pub(super) fn key(model: &mut Model, overlay: Overlay, event: KeyEvent) -> Vec<Command> {
    match overlay {
        Overlay::Help => {
            if !matches!(event.code, KeyCode::Esc | KeyCode::Char('?' | 'q') | KeyCode::Enter) {
                model.overlay = Some(Overlay::Help);
            }
            Vec::new()
        }
        Overlay::Confirm(asked) => match event.code {
            KeyCode::Char('y' | 'Y') => vec![confirmed(asked)],
            KeyCode::Char('n' | 'N') | KeyCode::Esc => Vec::new(),
            _ => {
                model.overlay = Some(Overlay::Confirm(asked));
                Vec::new()
            }
        },
        Overlay::Task(form) => task(model, form, event),
        Overlay::Answer(task, mut line) => {
            match event.code {
                KeyCode::Esc => {}
                KeyCode::Enter if !line.text().trim().is_empty() => {
                    return vec![Command::Answer { task, text: line.text() }];
                }
                _ => {
                    line.key(event);
                    model.overlay = Some(Overlay::Answer(task, line));
                }
            }
            Vec::new()
        }
    }
}

fn confirmed(asked: Confirm) -> Command {
    match asked {
        Confirm::Delete(number) => Command::DeleteTask(number),
        Confirm::Quit => Command::Quit,
        Confirm::Stop => Command::StopAgent,
    }
}

fn task(model: &mut Model, mut form: Box<TaskForm>, event: KeyEvent) -> Vec<Command> {
    let saves = event.code == KeyCode::Char('s') && event.modifiers.contains(KeyModifiers::CONTROL);
    if event.code == KeyCode::Esc {
        return Vec::new();
    }
    if !saves {
        form.key(event);
        model.overlay = Some(Overlay::Task(form));
        return Vec::new();
    }
    let project = &model.project.project_id;
    let command = match form.number {
        None => form.create(project).map(|request| Some(Command::CreateTask(Box::new(request)))),
        Some(_) => form.change(project).map(|it| it.map(|request| Command::UpdateTask(Box::new(request)))),
    };
    match command {
        Ok(command) => command.into_iter().collect(),
        Err(problem) => {
            form.problem = Some(problem);
            model.overlay = Some(Overlay::Task(form));
            Vec::new()
        }
    }
}
