//! Keys of the overlays. An overlay has been taken out of the model, and is put back as long as it stays.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::show_left;
use crate::forms::TaskForm;
use crate::lists::{Chosen, Listed};
use crate::message::Command;
use crate::model::{Confirm, Focus, LeftTab, Model, Overlay, RightTab, Words};

pub(super) fn key(model: &mut Model, overlay: Overlay, event: KeyEvent) -> Vec<Command> {
    match overlay {
        Overlay::Help => {
            if !matches!(event.code, KeyCode::Esc | KeyCode::Char('?' | 'q') | KeyCode::Enter) {
                model.overlay = Some(Overlay::Help);
            }
            Vec::new()
        }
        Overlay::Confirm(asked) => match event.code {
            KeyCode::Char('y' | 'Y') => {
                if matches!(asked, Confirm::Delete(_)) {
                    model.marked.clear();
                }
                confirmed(asked)
            }
            KeyCode::Char('n' | 'N') | KeyCode::Esc => {
                model.overlay = model.behind.take().map(|behind| *behind);
                Vec::new()
            }
            _ => {
                model.overlay = Some(Overlay::Confirm(asked));
                Vec::new()
            }
        },
        Overlay::Task(form) => task(model, form, event),
        Overlay::List(list) => list_key(model, list, event),
        Overlay::Info(number, at) => {
            let at = match event.code {
                KeyCode::Char('j') | KeyCode::Down => at.saturating_add(1),
                KeyCode::Char('k') | KeyCode::Up => at.saturating_sub(1),
                KeyCode::PageDown | KeyCode::Char(' ') => at.saturating_add(10),
                KeyCode::PageUp => at.saturating_sub(10),
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | 'i') => return Vec::new(),
                _ => at,
            };
            // No further than its last line.
            let last = crate::view::info_lines(model, number).len().saturating_sub(1);
            model.overlay = Some(Overlay::Info(number, at.min(u16::try_from(last).unwrap_or(u16::MAX))));
            Vec::new()
        }
        Overlay::Find(mut line) => {
            if event.code == KeyCode::Esc {
                return Vec::new();
            }
            let text = line.text();
            if event.code == KeyCode::Enter && !text.trim().is_empty() {
                let end = model.terminal.snapshot.as_ref().map_or(0, |screen| screen.scrollback.end);
                // It stays, so that Enter goes on upwards.
                model.overlay = Some(Overlay::Find(line));
                return vec![Command::Find { text, before: end.saturating_sub(model.terminal.back) }];
            }
            line.key(event);
            model.overlay = Some(Overlay::Find(line));
            Vec::new()
        }
        Overlay::Words(words, task, mut line) => {
            match event.code {
                // What was sent is not waited for any more.
                KeyCode::Esc => model.sending = false,
                // It stays until it was taken in.
                KeyCode::Enter if model.sending => model.overlay = Some(Overlay::Words(words, task, line)),
                KeyCode::Enter if !line.text().trim().is_empty() => {
                    let text = line.text();
                    model.sending = true;
                    model.overlay = Some(Overlay::Words(words.clone(), task, line));
                    return vec![match words {
                        Words::Answer(question) => Command::Answer { task, question, text },
                        Words::SendBack => Command::SendBack { task, text },
                    }];
                }
                _ => {
                    line.key(event);
                    model.overlay = Some(Overlay::Words(words, task, line));
                }
            }
            Vec::new()
        }
    }
}

fn confirmed(asked: Confirm) -> Vec<Command> {
    vec![match asked {
        Confirm::Delete(numbers) => return numbers.into_iter().map(Command::DeleteTask).collect(),
        Confirm::Undo(number) => Command::Undo(number),
        Confirm::Quit => Command::Quit,
        Confirm::Stop => Command::StopAgent,
        Confirm::EmptyTrash => Command::EmptyTrash,
        Confirm::Merge(number, accepted) => Command::MergeTask(number, accepted),
        Confirm::DeleteLog(log) => Command::DeleteLog(log),
        Confirm::Discard(task) => Command::DeleteBranch { task, discard: true },
    }]
}

fn list_key(model: &mut Model, mut list: Box<Listed>, event: KeyEvent) -> Vec<Command> {
    match list.key(event) {
        Chosen::Nothing => model.overlay = Some(Overlay::List(list)),
        Chosen::Closed => {}
        Chosen::Terminal(key) => {
            model.focus = Focus::Right;
            let tab = super::show_right(model, RightTab::Chat);
            return [tab, super::elsewhere(model, key)].concat();
        }
        Chosen::Key(key) => {
            // As if it had been pressed where it counts.
            model.focus = Focus::Left;
            show_left(model, LeftTab::Tasks);
            return super::key(model, key);
        }
        Chosen::Task(number) => model.selected = number,
        Chosen::Ask(asked) => model.overlay = Some(Overlay::Confirm(asked)),
        Chosen::Leave(command) => return vec![command],
        Chosen::Call(command) => {
            // What it changes is shown in the list.
            model.overlay = Some(Overlay::List(list));
            return vec![command];
        }
    }
    Vec::new()
}

fn task(model: &mut Model, mut form: Box<TaskForm>, event: KeyEvent) -> Vec<Command> {
    let saves = event.code == KeyCode::Char('s') && event.modifiers.contains(KeyModifiers::CONTROL);
    if form.sent && event.code != KeyCode::Esc {
        model.overlay = Some(Overlay::Task(form));
        return Vec::new();
    }
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
        // Nothing has changed.
        Ok(None) => Vec::new(),
        Ok(Some(command)) => {
            // It stays until it was taken in.
            form.sent = true;
            model.overlay = Some(Overlay::Task(form));
            vec![command]
        }
        Err(problem) => {
            form.problem = Some(problem.to_owned());
            model.overlay = Some(Overlay::Task(form));
            Vec::new()
        }
    }
}
